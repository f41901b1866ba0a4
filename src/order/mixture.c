#include "order/mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARK     1024u /* positions between two counts that are kept */
#define TOLERANT 1e-6

struct part {
    uint64_t from;
    uint32_t period;
    uint32_t shares[LEAT_ORDER_STREAMS_MAX];
    uint64_t before[LEAT_ORDER_STREAMS_MAX]; /* units of each stream before the part */
    uint8_t *streams;                        /* period of them */
    uint32_t *marks;                         /* units of each stream before every MARK-th of these */
};

struct leat_mixture {
    uint32_t streams;
    uint32_t parts_n;
    struct part parts[];
};

/* When a stream that has had `taken` units must have had one more: the first t such that after t units it lacks
 * 1 - 1/(2k-2) of one. */
static uint64_t deadline(uint64_t taken, uint64_t share, uint64_t period, uint64_t k2)
{
    if (!share)
        return UINT64_MAX;
    return (taken * period * k2 + period * (k2 - 1) + share * k2 - 1) / (share * k2);
}

/* Of the streams that lack at least 1/(2k-2) of a unit, the one whose deadline is the nearest. */
static void lay_out(struct part *p, uint32_t streams)
{
    uint64_t taken[LEAT_ORDER_STREAMS_MAX] = {0};
    uint64_t due[LEAT_ORDER_STREAMS_MAX];
    uint64_t k2 = 0; /* 2k - 2 */
    for (uint32_t s = 0; s < streams; s++)
        k2 += p->shares[s] ? 2 : 0;
    k2 = k2 > 2 ? k2 - 2 : 2;
    for (uint32_t s = 0; s < streams; s++)
        due[s] = deadline(0, p->shares[s], p->period, k2);
    for (uint64_t t = 0; t < p->period; t++) {
        uint32_t best = streams;
        for (uint32_t s = 0; t % MARK == 0 && s < streams; s++)
            p->marks[t / MARK * streams + s] = (uint32_t)taken[s];
        for (uint32_t s = 0; s < streams; s++) {
            bool lacks = k2 * p->shares[s] * (t + 1) >= p->period * (1 + k2 * taken[s]);
            if (lacks && (best == streams || due[s] < due[best]))
                best = s;
        }
        p->streams[t] = (uint8_t)best;
        taken[best]++;
        due[best] = deadline(taken[best], p->shares[best], p->period, k2);
    }
}

static leat_status make_part(struct leat_mixture *m, uint32_t i, const struct leat_mixture_part *from,
                             struct leat_error *err)
{
    struct part *p = &m->parts[i];
    uint64_t period = 0;
    for (uint32_t s = 0; s < m->streams; s++)
        period += p->shares[s] = from->shares[s];
    if (i == 0 ? from->from != 0 : from->from <= m->parts[i - 1].from)
        return leat_fail(err, LEAT_INVALID,
                         "part %u of a mixture begins at %llu: the first must begin at 0, and "
                         "each after the one before",
                         i, (unsigned long long)from->from);
    if (period == 0 || period > LEAT_MIXTURE_PERIOD_MAX)
        return leat_fail(err, LEAT_INVALID, "the shares of a mixture add up to %llu: 1 to %u are possible",
                         (unsigned long long)period, LEAT_MIXTURE_PERIOD_MAX);
    p->from = from->from;
    p->period = (uint32_t)period;
    p->streams = malloc((size_t)period);
    p->marks = malloc(((size_t)period / MARK + 1) * m->streams * sizeof *p->marks);
    m->parts_n++; /* it is freed from here on */
    if (!p->streams || !p->marks)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a mixture");
    lay_out(p, m->streams);
    return LEAT_OK;
}

/* Units of a stream among the first n of a part. */
static uint64_t count(const struct leat_mixture *m, const struct part *p, uint64_t n, uint32_t stream)
{
    uint64_t rest = n % p->period;
    uint64_t found = n / p->period * p->shares[stream] + p->marks[rest / MARK * m->streams + stream];
    for (uint64_t t = rest / MARK * MARK; t < rest; t++)
        found += p->streams[t] == stream;
    return found;
}

leat_status leat_mixture_open(uint32_t streams, const struct leat_mixture_part *parts, uint32_t parts_n,
                              struct leat_mixture **out, struct leat_error *err)
{
    if (streams == 0 || streams > LEAT_ORDER_STREAMS_MAX)
        return leat_fail(err, LEAT_INVALID, "a mixture of %u streams: 1 to %u are possible", streams,
                         LEAT_ORDER_STREAMS_MAX);
    if (parts_n == 0 || parts_n > LEAT_MIXTURE_PARTS_MAX)
        return leat_fail(err, LEAT_INVALID, "a mixture of %u parts: 1 to %u are possible", parts_n,
                         LEAT_MIXTURE_PARTS_MAX);
    struct leat_mixture *m = calloc(1, sizeof *m + parts_n * sizeof *m->parts);
    if (!m)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a mixture");
    m->streams = streams;
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < parts_n; i++) {
        rc = make_part(m, i, &parts[i], err);
        for (uint32_t s = 0; rc == LEAT_OK && i > 0 && s < streams; s++) {
            const struct part *last = &m->parts[i - 1];
            m->parts[i].before[s] = last->before[s] + count(m, last, parts[i].from - last->from, s);
        }
    }
    if (rc != LEAT_OK) {
        leat_mixture_close(m);
        return rc;
    }
    *out = m;
    return LEAT_OK;
}

void leat_mixture_close(struct leat_mixture *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->parts_n; i++) {
        free(m->parts[i].streams);
        free(m->parts[i].marks);
    }
    free(m);
}

uint32_t leat_mixture_streams(const struct leat_mixture *m)
{
    return m->streams;
}

static const struct part *part_at(const struct leat_mixture *m, uint64_t position)
{
    uint32_t i = m->parts_n - 1;
    while (m->parts[i].from > position)
        i--;
    return &m->parts[i];
}

void leat_mixture_counts(const struct leat_mixture *m, uint64_t position, uint64_t *counts)
{
    const struct part *p = part_at(m, position);
    for (uint32_t s = 0; s < m->streams; s++)
        counts[s] = p->before[s] + count(m, p, position - p->from, s);
}

void leat_mixture_read(const struct leat_mixture *m, uint64_t position, uint8_t *streams, size_t n)
{
    while (n) {
        const struct part *p = part_at(m, position);
        uint64_t at = (position - p->from) % p->period;
        uint64_t step = p->period - at;
        if (p + 1 < m->parts + m->parts_n && step > p[1].from - position)
            step = p[1].from - position;
        step = step < n ? step : n;
        memcpy(streams, p->streams + at, (size_t)step);
        streams += step;
        position += step;
        n -= (size_t)step;
    }
}

double leat_mixture_share(const struct leat_mixture *m, uint64_t position, uint32_t stream)
{
    const struct part *p = part_at(m, position);
    return (double)p->shares[stream] / p->period;
}

/* Shares */

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Weights that are decimal numbers of up to six places have shares that say just that. */
static bool shares_exactly(const double *weights, uint32_t n, uint32_t *shares)
{
    uint64_t common = 0;
    uint64_t sum = 0;
    uint64_t parts[LEAT_ORDER_STREAMS_MAX];
    for (uint32_t s = 0; s < n; s++) {
        double part = weights[s] * 1e6;
        parts[s] = (uint64_t)llround(part);
        if (fabs(part - (double)parts[s]) > 1e-7 * (part + 1))
            return false;
        common = divisor(common, parts[s]);
        sum += parts[s];
    }
    if (sum != 1000000 || !common)
        return false;
    for (uint32_t s = 0; s < n; s++)
        shares[s] = (uint32_t)(parts[s] / common);
    return true;
}

/* Rounded down, at least 1 where there is a weight; what is left goes to the largest. */
static void shares_nearly(const double *weights, uint32_t n, uint32_t *shares)
{
    uint32_t largest = 0;
    uint32_t sum = 0;
    for (uint32_t s = 0; s < n; s++) {
        shares[s] = (uint32_t)(weights[s] * (LEAT_MIXTURE_PERIOD_MAX - 2 * LEAT_ORDER_STREAMS_MAX));
        shares[s] += weights[s] > 0 && !shares[s];
        sum += shares[s];
        largest = weights[s] > weights[largest] ? s : largest;
    }
    shares[largest] += (LEAT_MIXTURE_PERIOD_MAX - 2 * LEAT_ORDER_STREAMS_MAX > sum)
                           ? LEAT_MIXTURE_PERIOD_MAX - 2 * LEAT_ORDER_STREAMS_MAX - sum
                           : 0;
}

leat_status leat_mixture_shares(const double *weights, uint32_t n, uint32_t *shares, struct leat_error *err)
{
    double sum = 0;
    for (uint32_t s = 0; s < n; s++) {
        if (!isfinite(weights[s]) || weights[s] < 0)
            return leat_fail(err, LEAT_INVALID, "the weight %g of stream %u must be a number from 0 to 1", weights[s],
                             s);
        sum += weights[s];
    }
    if (fabs(sum - 1) > TOLERANT)
        return leat_fail(err, LEAT_INVALID, "the weights add up to %.9g, not to 1", sum);
    if (!shares_exactly(weights, n, shares))
        shares_nearly(weights, n, shares);
    return LEAT_OK;
}

leat_status leat_mixture_temper(const uint64_t *units, uint32_t n, double temperature, double *weights,
                                struct leat_error *err)
{
    double most = 0;
    double sum = 0;
    if (!isfinite(temperature) || temperature <= 0)
        return leat_fail(err, LEAT_INVALID, "the temperature %g must be a number above 0", temperature);
    for (uint32_t s = 0; s < n; s++)
        most = (double)units[s] > most ? (double)units[s] : most;
    for (uint32_t s = 0; s < n; s++)
        sum += weights[s] = units[s] ? pow((double)units[s] / most, 1 / temperature) : 0;
    if (!(sum > 0))
        return leat_fail(err, LEAT_INVALID, "no stream of the mixture has any units");
    /* To four places: the last bits of pow() are not the same on every machine, and shares must be. */
    uint32_t largest = 0;
    double rest = 1;
    for (uint32_t s = 0; s < n; s++) {
        double rounded = round(weights[s] / sum * 1e4) / 1e4;
        weights[s] = weights[s] > 0 && rounded < 1e-4 ? 1e-4 : rounded;
        rest -= weights[s];
        largest = weights[s] > weights[largest] ? s : largest;
    }
    weights[largest] = round((weights[largest] + rest) * 1e4) / 1e4;
    return LEAT_OK;
}
