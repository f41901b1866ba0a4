/* leat plan fit, for machines that were watched: their lifetimes as a table that --revocations reads. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/plan.h"
#include "plan/lives.h"

bool leat_cli_plan_has_lives(const char *path, const struct leat_buf *text)
{
    struct leat_plan_csv *csv = NULL;
    struct leat_error err;
    if (leat_plan_csv_parse(path, text->data ? text->data : "", text->len, NULL, &csv, &err) != LEAT_OK)
        return false; /* the one that reads it next says what is wrong */
    bool lives = leat_plan_lives_are(csv);
    leat_plan_csv_free(csv);
    return lives;
}

static json_t *row_json(const struct leat_plan_revocation *r)
{
    const struct leat_plan_lifetime *l = &r->lifetime;
    json_t *points = json_array();
    for (size_t i = 0; i < l->count; i++)
        json_array_append_new(points,
                              json_pack("{s:f, s:f}", "age_h", l->age_s[i] / 3600, "probability", l->probability[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:s, s:o}", "accelerator", r->accelerator, "type", r->type,
                     "region", r->region, "basis", r->basis, "events", r->events, "hazard_spread", r->spread, "mean_h",
                     l->mean_s / 3600, "then", l->ends ? "taken" : "steady", "points", points);
}

static leat_status print_json(const struct leat_plan_revocations *r, struct leat_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(list, row_json(&r->row[i]));
    return leat_cli_print_json(json_pack("{s:i, s:o}", "version", 2, "lifetimes", list), 6, err);
}

/* Comments above the header: what is printed is a file for --revocations as it is. */
static leat_status print_table(const struct leat_plan_revocations *r, struct leat_error *err)
{
    struct leat_buf table;
    leat_buf_init(&table, PLAN_FILE_MAX);
    leat_plan_lives_write(r, &table);
    leat_status rc = leat_buf_check(&table, "the table", err);
    for (size_t i = 0; rc == LEAT_OK && i < r->count; i++) {
        const struct leat_plan_revocation *row = &r->row[i];
        const struct leat_plan_lifetime *l = &row->lifetime;
        double late = leat_plan_hazard_spread(row->events);
        printf("# %s in %s: %s; taken within an hour %.1f %%, within a day %.1f %%, hazard times %.2g to %.2g (9 of "
               "10)\n",
               *row->type ? row->type : row->accelerator, row->region, row->basis,
               100 * leat_plan_lifetime_cdf(l, 3600), 100 * leat_plan_lifetime_cdf(l, 86399), exp(-1.645 * late),
               exp(1.645 * late));
    }
    if (rc == LEAT_OK)
        fwrite(table.data, 1, table.len, stdout);
    leat_buf_free(&table);
    return rc;
}

int leat_cli_plan_fit_lives(const struct plan_settings *s, const char *path, const struct leat_buf *text)
{
    struct leat_plan_revocations r = {0};
    struct leat_error err;
    if (s->predict)
        return leat_cli_failf(LEAT_INVALID, "--predict: %s is a table of machines; lifetimes cannot predict rows",
                              path);
    leat_status rc = leat_plan_revocations_read(path, text->data, text->len, NULL, &r, &err);
    if (rc == LEAT_OK)
        rc = s->json ? print_json(&r, &err) : print_table(&r, &err);
    leat_plan_revocations_free(&r);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}
