#include "plan/catalog.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/csv.h"

enum column { TYPE, ACCELERATOR, GPUS, PRICE, SPOT, REGION, VCPUS, COLUMNS };

/* Those of SkyPilot; the rest of its columns say nothing that a plan needs. */
static const char *const names[COLUMNS] = {
    "InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region", "vCPUs"};
static const char *const others[] = {"MemoryGiB", "GpuInfo",   "AvailabilityZone", "Generation",
                                     "Arch",      "acc_count", "GpuArch"};

static long two_digits(const char *p)
{
    return p[0] >= '0' && p[0] <= '9' && p[1] >= '0' && p[1] <= '9' ? (p[0] - '0') * 10 + (p[1] - '0') : -1000000;
}

static long days_of(long year, long month)
{
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 ? 28 + leap : 30 + (month + (month > 7)) % 2;
}

long leat_plan_days(const char *date)
{
    if (strlen(date) != 10 || date[4] != '-' || date[7] != '-')
        return -1;
    long year = two_digits(date) * 100 + two_digits(date + 2);
    long month = two_digits(date + 5);
    long day = two_digits(date + 8);
    if (year < 1900 || month < 1 || month > 12 || day < 1 || day > days_of(year, month))
        return -1;
    /* Years that begin in March put the leap day last. */
    long m = (month + 9) % 12;
    long y = year - m / 10;
    return 365 * y + y / 4 - y / 100 + y / 400 + (m * 306 + 5) / 10 + day - 1;
}

static leat_status check_date(const struct leat_csv *csv, const char *date, const char *today,
                              struct leat_plan_notes *notes, struct leat_error *err)
{
    char own[11] = "";
    const char *says = csv->comment ? csv->comment + strspn(csv->comment, " \t") : "";
    if (strncasecmp(says, "date", 4) == 0 && strchr(": \t", says[4])) { /* no other spelling is passed over */
        says += 4;
        snprintf(own, sizeof own, "%.10s", says + strspn(says, ": \t"));
        if (leat_plan_days(own) < 0)
            return leat_fail(err, LEAT_INVALID, "%s line 1: '%s' is not a date; write # date: 2026-11-01", csv->name,
                             own);
        date = own;
    }
    if (!date || !today)
        return LEAT_OK;
    long age = leat_plan_days(today) - leat_plan_days(date);
    if (age > LEAT_PLAN_CATALOG_DAYS)
        leat_plan_note(notes, "%s: prices of %s are %ld days old; they may have changed", csv->name, date, age);
    else if (age < 0)
        leat_plan_note(notes, "%s: prices are dated %s, after today (%s)", csv->name, date, today);
    return LEAT_OK;
}

static void check_columns(const struct leat_csv *csv, struct leat_plan_notes *notes)
{
    for (size_t i = 0; i < csv->column_count; i++) {
        bool known = false;
        for (size_t k = 0; k < COLUMNS; k++)
            known |= strcasecmp(csv->columns[i], names[k]) == 0;
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            known |= strcasecmp(csv->columns[i], others[k]) == 0;
        if (!known)
            leat_plan_note(notes, "%s line %u: column '%s' is not known and not used", csv->name, csv->header_line,
                           csv->columns[i]);
    }
}

/* NaN for an empty field. A price of nothing is as wrong as a negative one. */
static leat_status take_price(const struct leat_csv *csv, size_t row, size_t column, double *out,
                              struct leat_error *err)
{
    if (column == LEAT_CSV_NONE || !*csv->rows[row].fields[column]) {
        *out = NAN;
        return LEAT_OK;
    }
    double v;
    leat_status rc = leat_csv_number(csv, row, column, &v, err);
    if (rc != LEAT_OK)
        return rc;
    if (!(v > 0 && v < 1e5))
        return leat_fail(err, LEAT_INVALID, "%s line %u: %s is %g: a price is in dollars an hour and above 0",
                         csv->name, csv->rows[row].line, csv->columns[column], v);
    *out = v;
    return LEAT_OK;
}

static leat_status copy(const struct leat_csv *csv, size_t row, size_t column, char *out, size_t n,
                        struct leat_error *err)
{
    const char *text = csv->rows[row].fields[column];
    if (!*text || strlen(text) >= n)
        return leat_fail(err, LEAT_INVALID, "%s line %u: %s is %s", csv->name, csv->rows[row].line,
                         csv->columns[column], *text ? "too long" : "missing");
    memcpy(out, text, strlen(text) + 1);
    leat_one_line(out);
    return LEAT_OK;
}

static leat_status take_offer(const struct leat_csv *csv, size_t row, const size_t column[COLUMNS],
                              struct leat_plan_offer *out, struct leat_error *err)
{
    struct leat_plan_offer o = {.line = csv->rows[row].line, .vcpus = NAN};
    double gpus = 0;
    leat_status rc = LEAT_OK;
    if (*csv->rows[row].fields[column[TYPE]])
        rc = copy(csv, row, column[TYPE], o.type, sizeof o.type, err);
    if (rc == LEAT_OK)
        rc = copy(csv, row, column[ACCELERATOR], o.accelerator, sizeof o.accelerator, err);
    if (rc == LEAT_OK)
        rc = copy(csv, row, column[REGION], o.region, sizeof o.region, err);
    if (rc == LEAT_OK)
        rc = leat_csv_number(csv, row, column[GPUS], &gpus, err);
    if (rc == LEAT_OK && !(gpus > 0 && gpus <= 1024))
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: AcceleratorCount is %g", csv->name, o.line, gpus);
    if (rc == LEAT_OK && column[VCPUS] != LEAT_CSV_NONE && *csv->rows[row].fields[column[VCPUS]])
        rc = leat_csv_number(csv, row, column[VCPUS], &o.vcpus, err);
    if (rc == LEAT_OK && !isnan(o.vcpus) && !(o.vcpus > 0 && o.vcpus <= 1e5))
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: vCPUs is %g", csv->name, o.line, o.vcpus);
    if (rc == LEAT_OK)
        rc = take_price(csv, row, column[PRICE], &o.usd_per_hour[0], err);
    if (rc == LEAT_OK)
        rc = take_price(csv, row, column[SPOT], &o.usd_per_hour[1], err);
    if (rc != LEAT_OK)
        return rc;
    o.gpus = gpus == floor(gpus) ? (unsigned)gpus : 0;
    o.price_line[0] = o.price_line[1] = o.line;
    *out = o;
    return LEAT_OK;
}

/* Rows that cannot be planned with, told once with the first of them. */
enum flaw { NO_TYPE, PART_OF_GPU, NO_PRICE, OTHER_GPUS, FLAWS };

struct flaws {
    unsigned first[FLAWS];
    size_t count[FLAWS];
};

static void count_flaw(struct flaws *flaws, enum flaw flaw, unsigned line)
{
    if (flaws->count[flaw]++ == 0)
        flaws->first[flaw] = line;
}

static bool flawed(const struct leat_plan_offer *o, struct flaws *flaws)
{
    enum flaw flaw = FLAWS;
    if (!*o->type)
        flaw = NO_TYPE;
    else if (!o->gpus)
        flaw = PART_OF_GPU;
    else if (isnan(o->usd_per_hour[0]) && isnan(o->usd_per_hour[1]))
        flaw = NO_PRICE;
    if (flaw == FLAWS)
        return false;
    count_flaw(flaws, flaw, o->line);
    return true;
}

static void tell_flaws(const struct leat_csv *csv, const struct flaws *flaws, struct leat_plan_notes *notes)
{
    static const char *const says[FLAWS] = {
        "an accelerator without an InstanceType: its machine is priced elsewhere",
        "a part of a GPU",
        "no price, on demand or transient",
        "other GPUs than an earlier row of the same InstanceType and Region",
    };
    for (int f = 0; f < FLAWS; f++) {
        if (flaws->count[f] == 1)
            leat_plan_note(notes, "%s line %u: %s; the row is left out", csv->name, flaws->first[f], says[f]);
        else if (flaws->count[f])
            leat_plan_note(notes, "%s line %u and %zu more: %s; the rows are left out", csv->name, flaws->first[f],
                           flaws->count[f] - 1, says[f]);
    }
}

static int compare(const void *a, const void *b)
{
    const struct leat_plan_offer *x = a;
    const struct leat_plan_offer *y = b;
    int c = strcmp(x->type, y->type);
    return c ? c : strcmp(x->region, y->region);
}

static int compare_lines(const void *a, const void *b)
{
    const struct leat_plan_offer *x = a;
    const struct leat_plan_offer *y = b;
    int c = compare(a, b);
    return c ? c : (x->line > y->line) - (x->line < y->line);
}

static void take_cheaper(struct leat_plan_offer *o, const struct leat_plan_offer *other)
{
    for (int k = 0; k < 2; k++) {
        if (isnan(o->usd_per_hour[k]) || other->usd_per_hour[k] < o->usd_per_hour[k]) {
            o->usd_per_hour[k] = other->usd_per_hour[k];
            o->price_line[k] = other->line;
        }
    }
}

/* Zones of a region differ in the transient price only; the cheapest is what one would take. */
static void merge_zones(struct leat_plan_catalog *c, struct flaws *flaws)
{
    qsort(c->offer, c->count, sizeof *c->offer, compare_lines);
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct leat_plan_offer *last = kept ? &c->offer[kept - 1] : NULL;
        const struct leat_plan_offer *o = &c->offer[i];
        if (!last || compare(last, o) != 0)
            c->offer[kept++] = *o;
        else if (last->gpus == o->gpus && strcmp(last->accelerator, o->accelerator) == 0)
            take_cheaper(last, o);
        else
            count_flaw(flaws, OTHER_GPUS, o->line);
    }
    c->count = kept;
}

static leat_status take_rows(const struct leat_csv *csv, struct leat_plan_catalog *c, struct leat_plan_notes *notes,
                             struct leat_error *err)
{
    size_t column[COLUMNS];
    struct flaws flaws = {0};
    for (size_t k = 0; k < COLUMNS; k++) {
        column[k] = leat_csv_column(csv, names[k]);
        if (column[k] == LEAT_CSV_NONE && k != VCPUS && k != SPOT)
            return leat_csv_need(csv, names[k], &column[k], err);
    }
    check_columns(csv, notes);
    c->offer = calloc(csv->row_count ? csv->row_count : 1, sizeof *c->offer);
    if (!c->offer)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the catalog %s", csv->name);
    for (size_t i = 0; i < csv->row_count; i++) {
        if (!*csv->rows[i].fields[column[ACCELERATOR]])
            continue; /* machines without a GPU */
        struct leat_plan_offer *o = &c->offer[c->count];
        leat_status rc = take_offer(csv, i, column, o, err);
        if (rc != LEAT_OK)
            return rc;
        c->count += !flawed(o, &flaws);
    }
    merge_zones(c, &flaws);
    tell_flaws(csv, &flaws, notes);
    if (!c->count)
        return leat_fail(err, LEAT_INVALID, "%s: no machine with a GPU and a price", csv->name);
    return LEAT_OK;
}

leat_status leat_plan_catalog_parse(const char *name, const char *text, size_t n, const char *date, const char *today,
                                    struct leat_plan_catalog *out, struct leat_plan_notes *notes,
                                    struct leat_error *err)
{
    struct leat_plan_catalog c = {0};
    struct leat_csv *csv = NULL;
    snprintf(c.name, sizeof c.name, "%s", name);
    leat_status rc = leat_csv_parse(name, text, n, &csv, err);
    if (rc == LEAT_OK)
        rc = check_date(csv, date, today, notes, err);
    if (rc == LEAT_OK)
        rc = take_rows(csv, &c, notes, err);
    leat_csv_free(csv);
    if (rc != LEAT_OK) {
        leat_plan_catalog_free(&c);
        return rc;
    }
    *out = c;
    return LEAT_OK;
}

void leat_plan_catalog_free(struct leat_plan_catalog *catalog)
{
    free(catalog->offer);
    *catalog = (struct leat_plan_catalog){0};
}
