#include "prep/mix.h"

#include <math.h>

#include "prep/deviate.h"

#define ALPHA_MAX 1e6

leat_status leat_mix_check(const struct leat_mix *mix, struct leat_error *err)
{
    const double alphas[] = {mix->mixup, mix->cutmix};
    for (int i = 0; i < 2; i++) {
        if (!(alphas[i] >= 0.0 && alphas[i] <= ALPHA_MAX))
            return leat_fail(err, LEAT_INVALID, "%s=%g is not between 0 and %g", i ? "cutmix" : "mixup", alphas[i],
                             ALPHA_MAX);
    }
    if (mix->mixup == 0.0 && mix->cutmix == 0.0)
        return leat_fail(err, LEAT_INVALID, "neither mixup nor cutmix is above 0: nothing would be mixed");
    if (!(mix->p >= 0.0 && mix->p <= 1.0))
        return leat_fail(err, LEAT_INVALID, "p=%g is not between 0 and 1", mix->p);
    return LEAT_OK;
}

struct leat_rng leat_mix_draws(uint64_t seed, uint64_t epoch, uint64_t first)
{
    return leat_rng(leat_key("mix", seed, epoch, NULL, 0), first);
}

void leat_mix_draw(const struct leat_mix *mix, uint32_t width, uint32_t height, struct leat_rng draws,
                   struct leat_mixed *out)
{
    double shares[2];
    bool happens = leat_rng_unit(&draws) < mix->p;
    bool cut = leat_rng_unit(&draws) < (mix->cutmix == 0.0 ? 0.0 : mix->mixup == 0.0 ? 1.0 : 0.5);
    *out = (struct leat_mixed){.share = 1.0};
    if (!happens || !width || !height)
        return;
    leat_prep_dirichlet(&draws, cut ? mix->cutmix : mix->mixup, 2, shares);
    out->share = shares[0];
    if (!cut)
        return;
    const uint32_t size[2] = {width, height};
    double half = 0.5 * sqrt(1.0 - shares[0]);
    for (int d = 0; d < 2; d++) {
        int64_t middle = (int64_t)leat_rng_below(&draws, size[d]);
        int64_t reach = (int64_t)(half * size[d]);
        out->box[d] = (uint32_t)(middle - reach < 0 ? 0 : middle - reach);
        out->box[2 + d] = (uint32_t)(middle + reach > size[d] ? size[d] : middle + reach);
    }
    out->cut = true;
    double area = (double)(out->box[2] - out->box[0]) * (out->box[3] - out->box[1]);
    out->share = 1.0 - area / ((double)width * height);
}
