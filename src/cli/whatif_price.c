#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/plan.h"
#include "cli/whatif.h"

/* The cheapest place where a type is offered on demand. */
static leat_status price_of(const struct leat_plan_catalog *c, const char *type, double *out, char source[120],
                            struct leat_error *err)
{
    const struct leat_plan_offer *best = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct leat_plan_offer *o = &c->offer[i];
        if (strcmp(o->type, type) == 0 && o->usd_per_hour[0] > 0 &&
            (!best || o->usd_per_hour[0] < best->usd_per_hour[0]))
            best = o;
    }
    if (!best)
        return leat_fail(err, LEAT_NOT_FOUND, "no catalog has a price on demand for the type '%s'", type);
    *out = best->usd_per_hour[0];
    snprintf(source, 120, "%s in %s", best->type, best->region);
    return LEAT_OK;
}

static leat_status read_catalogs(const struct whatif_settings *s, struct leat_plan_catalog *out, struct leat_error *err)
{
    static const struct leat_plan_hardware none;
    struct leat_plan_catalog_file files[LEAT_OPTION_LIST_MAX];
    struct leat_buf text[LEAT_OPTION_LIST_MAX];
    char date[LEAT_OPTION_LIST_MAX][11];
    struct leat_plan_notes notes = {0};
    char today[11];
    leat_status rc = LEAT_OK;
    for (size_t i = 0; i < s->catalogs.count; i++)
        leat_buf_init(&text[i], PLAN_FILE_MAX);
    for (size_t i = 0; i < s->catalogs.count && rc == LEAT_OK; i++) {
        rc = leat_cli_plan_read(s->catalogs.item[i], &text[i], date[i], err);
        files[i] = (struct leat_plan_catalog_file){s->catalogs.item[i], text[i].data ? text[i].data : "", text[i].len,
                                                   date[i]};
    }
    leat_cli_plan_today(today);
    if (rc == LEAT_OK)
        rc = leat_plan_catalog_parse(files, s->catalogs.count, &none, today, out, &notes, err);
    if (rc == LEAT_OK)
        leat_cli_plan_notes(&notes, LEAT_LOG_WARN);
    for (size_t i = 0; i < s->catalogs.count; i++)
        leat_buf_free(&text[i]);
    return rc;
}

leat_status leat_cli_whatif_prices(const struct whatif_settings *s, const struct leat_report *r,
                                   struct whatif_prices *out, struct leat_error *err)
{
    struct leat_plan_catalog catalog = {0};
    leat_status rc = LEAT_OK;
    *out = (struct whatif_prices){NAN, NAN, {"", ""}};
    if (s->price) {
        rc = leat_parse_usd(s->price, "--price", &out->now, err);
        if (rc == LEAT_OK && !(out->now > 0))
            rc = leat_fail(err, LEAT_INVALID, "--price %s: a machine that costs nothing saves nothing", s->price);
        out->then = out->now;
        snprintf(out->source[0], sizeof out->source[0], "--price");
        snprintf(out->source[1], sizeof out->source[1], "--price");
        if (rc == LEAT_OK && s->type)
            rc = leat_fail(err, LEAT_INVALID,
                           "--type: with --price there is one price for both; give --catalog instead");
        return rc;
    }
    if (!s->type)
        return LEAT_OK;
    if (!s->catalogs.count)
        return leat_fail(err, LEAT_INVALID, "--type: its price comes from a catalog; give --catalog, or --price alone");
    if (!*r->type)
        return leat_fail(err, LEAT_INVALID,
                         "the report does not say on which type of machine it was made ('leat profile --type'); give "
                         "--price instead");
    rc = read_catalogs(s, &catalog, err);
    if (rc == LEAT_OK)
        rc = price_of(&catalog, r->type, &out->now, out->source[0], err);
    if (rc == LEAT_OK)
        rc = price_of(&catalog, s->type, &out->then, out->source[1], err);
    leat_plan_catalog_free(&catalog);
    return rc;
}
