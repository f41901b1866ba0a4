#include "ring/series.h"

#include <assert.h>
#include <math.h>

#include "base/clock.h"

static uint64_t step_of(const struct leat_series *s)
{
    return s->step_ns ? s->step_ns : LEAT_S;
}

bool leat_series_due(const struct leat_series *s, uint64_t now_ns)
{
    return !s->n || (now_ns > s->at_ns[s->n - 1] && now_ns - s->at_ns[s->n - 1] >= step_of(s));
}

/* The first point stays: it is where the sums begin. */
static void thin(struct leat_series *s)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n; i += 2, kept++) {
        s->at_ns[kept] = s->at_ns[i];
        for (uint32_t c = 0; c < LEAT_SERIES_COLUMNS; c++)
            s->value[kept][c] = s->value[i][c];
    }
    s->n = kept;
    s->step_ns = 2 * step_of(s);
}

void leat_series_add(struct leat_series *s, uint64_t now_ns, const struct leat_account *a)
{
    uint32_t column = 0;
    if (!leat_series_due(s, now_ns))
        return;
    if (s->n == LEAT_SERIES_POINTS)
        thin(s);
    s->at_ns[s->n] = now_ns;
    for (size_t i = 0; i < leat_account_rows() && column < LEAT_SERIES_COLUMNS; i++) {
        const struct leat_account_row *row = leat_account_row(i);
        if (row->series)
            s->value[s->n][column++] = leat_account_get(a, row);
    }
    s->n++;
}

static json_t *times(const struct leat_series *s, uint64_t now_ns, double wall_s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < s->n; i++) {
        double t = wall_s - (double)(now_ns - s->at_ns[i]) / 1e9;
        if (json_array_append_new(list, json_real(round(t * 1000) / 1000)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *column_of(const struct leat_series *s, const struct leat_account_row *row, uint32_t column)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < s->n; i++) {
        if (json_array_append_new(list, leat_account_number(row, s->value[i][column])) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *leat_series_json(const struct leat_series *s, uint64_t now_ns, double wall_s)
{
    uint32_t column = 0;
    json_t *j = json_object();
    bool good = j && json_object_set_new(j, "t", times(s, now_ns, wall_s)) == 0 &&
                json_object_set_new(j, "step_s", json_real((double)step_of(s) / 1e9)) == 0;
    for (size_t i = 0; good && i < leat_account_rows() && column < LEAT_SERIES_COLUMNS; i++) {
        const struct leat_account_row *row = leat_account_row(i);
        if (row->series)
            good = leat_account_put(row, column_of(s, row, column++), j);
    }
    if (!good) {
        json_decref(j);
        return NULL;
    }
    return j;
}
