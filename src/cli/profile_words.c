/* Reports that exist already: `leat profile show` and `leat profile diff`, and the files that both ways write. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/plan.h"
#include "cli/profile.h"
#include "profile/compare.h"
#include "profile/page.h"
#include "profile/trace.h"
#include "profile/verdict.h"

#define PAGE_MAX ((size_t)32 << 20)

leat_status leat_profile_files(const struct leat_report *r, const char *html, const char *trace, struct leat_error *err)
{
    struct leat_buf b;
    leat_status rc = LEAT_OK;
    leat_buf_init(&b, PAGE_MAX);
    if (html) {
        leat_page(r, &b);
        rc = leat_buf_check(&b, "the page", err);
        if (rc == LEAT_OK)
            rc = leat_cli_write_file(html, &b, err);
    }
    leat_buf_clear(&b);
    if (trace && rc == LEAT_OK)
        rc = leat_profile_trace(r, &b, err);
    if (trace && rc == LEAT_OK)
        rc = leat_buf_check(&b, "the trace", err);
    if (trace && rc == LEAT_OK)
        rc = leat_cli_write_file(trace, &b, err);
    leat_buf_free(&b);
    return rc;
}

static leat_status show(const char *path, const char *html, const char *trace, struct leat_error *err)
{
    struct leat_report *r = NULL;
    struct leat_buf b;
    leat_status rc = leat_cli_report_read(path, &r, err);
    if (rc != LEAT_OK)
        return rc;
    leat_buf_init(&b, PAGE_MAX);
    leat_verdict(r, &b);
    rc = leat_buf_check(&b, "the verdict", err);
    if (rc == LEAT_OK)
        fputs(b.data, stdout);
    leat_buf_free(&b);
    if (rc == LEAT_OK)
        rc = leat_profile_files(r, html, trace, err);
    free(r);
    return rc;
}

static void print_time(const struct leat_report_time *t)
{
    char text[64];
    if (isnan(t->low))
        snprintf(text, sizeof text, "%.4g ms", t->mean * 1e3);
    else
        snprintf(text, sizeof text, "%.4g ms (%.4g … %.4g)", t->mean * 1e3, t->low * 1e3, t->high * 1e3);
    printf("%s%*s", text, isnan(t->low) ? 30 - (int)strlen(text) : 32 - (int)strlen(text), "");
}

static void print(const struct leat_compare *c)
{
    for (size_t i = 0; i < c->changes; i++)
        printf("different: %s\n", c->changed[i]);
    for (size_t i = 0; i < c->rows; i++) {
        const struct leat_compare_row *row = &c->row[i];
        printf("%-22s ", row->what);
        print_time(&row->a);
        print_time(&row->b);
        if (row->a.mean > 0 && row->b.mean > 0)
            printf("%+.1f %%, ", 100 * (row->b.mean / row->a.mean - 1));
        puts(!row->known   ? "not enough data for an interval"
             : row->beyond ? "beyond the intervals"
                           : "within the intervals");
    }
}

static json_t *json_time(const struct leat_report_time *t)
{
    return isnan(t->low) ? json_pack("[fnn]", t->mean) : json_pack("[fff]", t->mean, t->low, t->high);
}

static leat_status print_json(const struct leat_compare *c, struct leat_error *err)
{
    json_t *rows = json_array();
    json_t *changed = json_array();
    for (size_t i = 0; i < c->rows; i++) {
        const struct leat_compare_row *row = &c->row[i];
        json_array_append_new(rows, json_pack("{s:s, s:o, s:o, s:o}", "what", row->what + strspn(row->what, " "), "a_s",
                                              json_time(&row->a), "b_s", json_time(&row->b), "beyond",
                                              row->known ? json_boolean(row->beyond) : json_null()));
    }
    for (size_t i = 0; i < c->changes; i++)
        json_array_append_new(changed, json_string(c->changed[i]));
    return leat_cli_print_json(json_pack("{s:o, s:o}", "changed", changed, "rows", rows), 9, err);
}

static leat_status diff(char **argv, bool json, struct leat_error *err)
{
    struct leat_report *a = NULL;
    struct leat_report *b = NULL;
    struct leat_compare c;
    leat_status rc = leat_cli_report_read(argv[0], &a, err);
    if (rc == LEAT_OK)
        rc = leat_cli_report_read(argv[1], &b, err);
    if (rc == LEAT_OK)
        rc = leat_compare(argv[0], a, argv[1], b, &c, err);
    if (rc == LEAT_OK && json)
        rc = print_json(&c, err);
    else if (rc == LEAT_OK)
        print(&c);
    free(a);
    free(b);
    return rc;
}

bool leat_profile_word(const char *word)
{
    return strcmp(word, "show") == 0 || strcmp(word, "diff") == 0;
}

int leat_profile_run_word(int argc, char **argv, const char *html, const char *trace, bool json)
{
    struct leat_error err;
    leat_status rc;
    bool showing = strcmp(argv[0], "show") == 0;
    if (argc != (showing ? 2 : 3))
        rc = leat_fail(&err, LEAT_INVALID,
                       showing ? "show: one report, as in 'leat profile show report.json'"
                               : "diff: two reports, as in 'leat profile diff a.json b.json'");
    else if (showing && json)
        rc = leat_fail(&err, LEAT_INVALID, "--json: the report itself is JSON; it is for 'leat profile diff'");
    else if (!showing && (html || trace))
        rc = leat_fail(&err, LEAT_INVALID, "--html, --trace: of one report, with 'leat profile show'");
    else
        rc = showing ? show(argv[1], html, trace, &err) : diff(argv + 1, json, &err);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}
