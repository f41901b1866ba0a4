#include "leat/mix.h"

#include <math.h>
#include <stdbool.h>

#include "base/abi.h"
#include "prep/deviate.h"

#define ALPHA_MAX 1e6

static leat_status check(const struct leat_mix *mix, struct leat_error *err)
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

static void cut(double share, uint32_t width, uint32_t height, struct leat_rng *draws, struct leat_mixed *out)
{
    const uint32_t size[2] = {width, height};
    double half = 0.5 * sqrt(1.0 - share);
    for (int d = 0; d < 2; d++) {
        int64_t middle = (int64_t)leat_rng_below(draws, size[d]);
        int64_t reach = (int64_t)(half * size[d]);
        out->box[d] = (uint32_t)(middle - reach < 0 ? 0 : middle - reach);
        out->box[2 + d] = (uint32_t)(middle + reach > size[d] ? size[d] : middle + reach);
    }
    double area = (double)(out->box[2] - out->box[0]) * (out->box[3] - out->box[1]);
    out->cut = 1;
    out->share = 1.0 - area / ((double)width * height);
}

leat_status leat_mix_draw(const struct leat_mix *mix, uint64_t epoch, uint64_t first, uint32_t width, uint32_t height,
                          struct leat_mixed *out, struct leat_error *err)
{
    struct leat_mix m;
    leat_status rc = leat_abi_take(mix, "leat_mix", &m, sizeof m, err);
    if (rc == LEAT_OK)
        rc = check(&m, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_rng draws = leat_rng(leat_key("mix", m.seed, epoch, NULL, 0), first);
    struct leat_mixed mixed = {.share = 1.0};
    bool happens = leat_rng_unit(&draws) < m.p;
    bool cuts = leat_rng_unit(&draws) < (m.cutmix == 0.0 ? 0.0 : m.mixup == 0.0 ? 1.0 : 0.5);
    if (happens && width && height) {
        double shares[2];
        leat_prep_dirichlet(&draws, cuts ? m.cutmix : m.mixup, 2, shares);
        mixed.share = shares[0];
        if (cuts)
            cut(shares[0], width, height, &draws, &mixed);
    }
    return leat_abi_give(&mixed, sizeof mixed, "leat_mixed", out, err);
}
