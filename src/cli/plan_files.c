#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "cli/plan.h"

static void day_of(time_t t, char date[11])
{
    struct tm tm;
    if (!gmtime_r(&t, &tm) || strftime(date, 11, "%Y-%m-%d", &tm) != 10)
        date[0] = '\0';
}

void leat_cli_plan_today(char date[11])
{
    day_of((time_t)leat_wall_s(), date);
}

leat_status leat_cli_plan_read(const char *path, struct leat_buf *out, char date[11], struct leat_error *err)
{
    char block[65536];
    struct stat st;
    leat_status rc = LEAT_OK;
    FILE *in = fopen(path, "r");
    if (!in)
        return leat_fail_errno(err, errno, "cannot open '%s'", path);
    size_t n;
    while ((n = fread(block, 1, sizeof block, in)) > 0)
        leat_buf_add(out, block, n);
    if (ferror(in) || fstat(fileno(in), &st) != 0)
        rc = leat_fail_errno(err, errno, "cannot read '%s'", path);
    else if (date)
        day_of(st.st_mtime, date);
    fclose(in);
    return rc == LEAT_OK ? leat_buf_check(out, path, err) : rc;
}

leat_status leat_cli_report_read(const char *path, struct leat_report **out, struct leat_error *err)
{
    struct leat_report *r = calloc(1, sizeof *r);
    struct leat_buf text;
    leat_buf_init(&text, PLAN_FILE_MAX);
    leat_status rc =
        r ? leat_cli_plan_read(path, &text, NULL, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a report");
    if (rc == LEAT_OK)
        rc = leat_report_read(path, text.data, text.len, r, err);
    leat_buf_free(&text);
    if (rc == LEAT_OK)
        *out = r;
    else
        free(r);
    return rc;
}
