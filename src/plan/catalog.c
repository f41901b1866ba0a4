#include "plan/catalog.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan/csv.h"

enum column { TYPE, ACCELERATOR, GPUS, PRICE, SPOT, REGION, VCPUS, MEMORY, INFO, ZONE, PROVIDER, COLUMNS };

/* Those of SkyPilot, and one for catalogs of several providers; the rest of its columns say nothing that a plan
 * needs. */
static const char *const names[COLUMNS] = {
    "InstanceType", "AcceleratorName", "AcceleratorCount", "Price",   "SpotPrice", "Region", "vCPUs",
    "MemoryGiB",    "GpuInfo",         "AvailabilityZone", "Provider"};
static const char *const others[] = {"Generation", "Arch", "acc_count", "GpuArch"};

static leat_status check_date(const struct leat_plan_csv *csv, const char *date, const char *today,
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

static void check_columns(const struct leat_plan_csv *csv, struct leat_plan_notes *notes)
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

/* Rows that cannot be planned with: told once for each kind, with the first of them and how many there are. */
enum flaw { MALFORMED, BAD_FIELD, NO_HOST, PART_OF_GPU, NO_PRICE, OTHER_GPUS, COUNTED_OTHERWISE, FLAWS };

struct flaws {
    unsigned first[FLAWS];
    size_t count[FLAWS];
    char text[FLAWS][200]; /* of the first, where it has its own */
};

static void count_flaw(struct flaws *flaws, enum flaw flaw, unsigned line, const char *text)
{
    if (flaws->count[flaw]++ == 0) {
        flaws->first[flaw] = line;
        snprintf(flaws->text[flaw], sizeof flaws->text[flaw], "%s", text);
    }
}

static void tell_flaws(const struct leat_plan_csv *csv, const struct flaws *flaws, struct leat_plan_notes *notes)
{
    static const char *const says[FLAWS] = {
        "",
        "",
        "an accelerator without an InstanceType, and no host for it in its zone",
        "a part of a GPU",
        "no price, on demand or transient",
        "other GPUs than an earlier row of the same InstanceType and place",
        "another number of GPUs than the hardware table has; that one is used",
    };
    for (int f = 0; f < FLAWS; f++) {
        const char *what = *flaws->text[f] ? flaws->text[f] : says[f];
        const char *end = f == COUNTED_OTHERWISE ? ""
                          : flaws->count[f] == 1 ? "; the row is left out"
                                                 : "; the rows are left out";
        if (flaws->count[f] == 1)
            leat_plan_note(notes, "%s line %u: %s%s", csv->name, flaws->first[f], what, end);
        else if (flaws->count[f])
            leat_plan_note(notes, "%s line %u and %zu more: %s%s", csv->name, flaws->first[f], flaws->count[f] - 1,
                           what, end);
    }
}

/* What one catalog is read into: offers, and hosts and accelerators that are priced apart. */
struct reading {
    struct leat_plan_csv *csv; /* owned */
    const struct leat_plan_hardware *hardware;
    size_t column[COLUMNS];
    struct flaws flaws;
    struct leat_plan_offer *offer; /* grows */
    size_t count;
    size_t cap;
    struct leat_plan_offer *apart; /* as many as rows */
    size_t apart_count;
    char provider[24];
    unsigned file;
};

static const char *field(const struct reading *r, size_t row, enum column column)
{
    return r->column[column] == LEAT_PLAN_CSV_NONE ? "" : r->csv->rows[row].fields[r->column[column]];
}

/* NaN for an empty field and for 0, with which catalogs say "none". */
static leat_status take_number(const struct reading *r, size_t row, enum column column, double max, double *out,
                               struct leat_error *err)
{
    double v = 0;
    if (*field(r, row, column)) {
        leat_status rc = leat_plan_csv_number(r->csv, row, r->column[column], &v, err);
        if (rc != LEAT_OK)
            return rc;
    }
    if (!(v >= 0 && v < max))
        return leat_fail(err, LEAT_INVALID, "%s line %u: %s is %g", r->csv->name, r->csv->rows[row].line, names[column],
                         v);
    *out = v > 0 ? v : NAN;
    return LEAT_OK;
}

static leat_status take_text(const struct reading *r, size_t row, enum column column, char *out, size_t n,
                             struct leat_error *err)
{
    const char *text = field(r, row, column);
    if (strlen(text) >= n)
        return leat_fail(err, LEAT_INVALID, "%s line %u: %s is too long", r->csv->name, r->csv->rows[row].line,
                         names[column]);
    memcpy(out, text, strlen(text) + 1);
    leat_one_line(out);
    return LEAT_OK;
}

/* {'Gpus': […], 'TotalGpuMemoryInMiB': 16384}: of all GPUs; where only 'SizeInMiB' is there, of one. */
static double gpu_memory(const char *info, double gpus)
{
    static const char total[] = "'TotalGpuMemoryInMiB':";
    static const char each[] = "'SizeInMiB':";
    const char *at = strstr(info, total);
    double mib = at ? strtod(at + sizeof total - 1, NULL) / gpus : 0;
    at = strstr(info, each);
    if (!(mib > 0) && at && !strstr(info, total))
        mib = strtod(at + sizeof each - 1, NULL);
    return mib > 0 && mib < 1e8 ? mib * 1048576 : NAN;
}

/* "us-west-2", as only the regions of AWS and its like are called: words and a number. */
static bool has_local_zones(const char *region)
{
    size_t n = strlen(region);
    const char *first = strchr(region, '-');
    const char *last = strrchr(region, '-');
    return first && last > first && strspn(region, "abcdefghijklmnopqrstuvwxyz-") == (size_t)(last + 1 - region) &&
           last[1] && strspn(last + 1, "0123456789") == n - (size_t)(last + 1 - region);
}

/* A Local Zone is a place of its own, with its own prices and its own machines: "us-west-2-lax-1a" or, by its id,
 * "usw2-lax1-az1" of us-west-2. Zones of the region itself are called after it, with one letter or digit more, or by
 * an id of two parts. Other providers have zones with longer names, such as US-GA-1 of US, which are no such places. */
static void find_place(struct leat_plan_offer *o)
{
    const char *zone = o->zone[0];
    size_t n = strlen(o->region);
    const char *middle = NULL;
    size_t length = 0;
    if (!n) {
        snprintf(o->region, sizeof o->region, "-");
    } else if (!has_local_zones(o->region)) {
        return;
    } else if (strncmp(zone, o->region, n) == 0) {
        const char *rest = zone + n + (zone[n] == '-');
        if (strlen(rest) > 1 && strchr("abcdefghijklmnopqrstuvwxyz", *rest)) {
            middle = rest;
            length = strlen(rest) - 1;
        }
    } else {
        const char *first = strchr(zone, '-');
        const char *last = strrchr(zone, '-');
        bool id = last && (strncmp(last, "-az", 3) == 0 || strncmp(last, "-wlz", 4) == 0);
        if (id && first != last) {
            middle = first + 1;
            length = (size_t)(last - middle);
        }
    }
    if (middle && n + 1 + length < sizeof o->region)
        snprintf(o->region + n, sizeof o->region - n, "/%.*s", (int)length, middle);
}

static leat_status take_row(const struct reading *r, size_t row, struct leat_plan_offer *out, double *gpus,
                            struct leat_error *err)
{
    struct leat_plan_offer o = {.line = r->csv->rows[row].line, .file = r->file};
    memcpy(o.provider, r->provider, sizeof o.provider);
    double gib = NAN;
    *gpus = NAN;
    leat_status rc = take_text(r, row, TYPE, o.type, sizeof o.type, err);
    if (rc == LEAT_OK)
        rc = take_text(r, row, ACCELERATOR, o.accelerator, sizeof o.accelerator, err);
    if (rc == LEAT_OK)
        rc = take_text(r, row, REGION, o.region, sizeof o.region, err);
    if (rc == LEAT_OK)
        rc = take_text(r, row, ZONE, o.zone[0], sizeof o.zone[0], err);
    if (rc == LEAT_OK && *field(r, row, PROVIDER))
        rc = take_text(r, row, PROVIDER, o.provider, sizeof o.provider, err);
    if (rc == LEAT_OK && *o.accelerator)
        rc = take_number(r, row, GPUS, 1025, gpus, err);
    if (rc == LEAT_OK)
        rc = take_number(r, row, VCPUS, 1e5, &o.vcpus, err);
    if (rc == LEAT_OK)
        rc = take_number(r, row, MEMORY, 1e7, &gib, err);
    if (rc == LEAT_OK)
        rc = take_number(r, row, PRICE, 1e5, &o.usd_per_hour[0], err);
    if (rc == LEAT_OK)
        rc = take_number(r, row, SPOT, 1e5, &o.usd_per_hour[1], err);
    if (rc == LEAT_OK && *o.accelerator && isnan(*gpus))
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: AcceleratorCount is missing", r->csv->name, o.line);
    if (rc != LEAT_OK)
        return rc;
    memcpy(o.zone[1], o.zone[0], sizeof o.zone[1]);
    find_place(&o);
    o.memory_bytes = gib * 1073741824;
    o.gpu_memory_bytes = gpu_memory(field(r, row, INFO), *gpus);
    o.gpus = *gpus == floor(*gpus) ? (unsigned)*gpus : 0;
    o.price_line[0] = o.price_line[1] = o.line;
    *out = o;
    return LEAT_OK;
}

static leat_status add_offer(struct reading *r, const struct leat_plan_offer *o, struct leat_error *err)
{
    if (r->count == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 256;
        void *more = realloc(r->offer, cap * sizeof *r->offer);
        if (!more)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the catalog %s", r->csv->name);
        r->offer = more;
        r->cap = cap;
    }
    r->offer[r->count++] = *o;
    return LEAT_OK;
}

/* A host and the accelerators that go on it, both in one zone: what GCP lets one rent. */
static leat_status join(struct reading *r, const struct leat_plan_offer *loose, const struct leat_plan_offer *host,
                        struct leat_error *err)
{
    struct leat_plan_offer o = *loose;
    char type[sizeof o.type + 40];
    for (int k = 0; k < 2; k++)
        o.usd_per_hour[k] = loose->usd_per_hour[k] + host->usd_per_hour[k]; /* NaN: one of them is not offered so */
    snprintf(type, sizeof type, "%s", host->type);
    if (strncmp(host->type, "n1-", 3) == 0)
        snprintf(type, sizeof type, "%s+%ux%s", host->type, loose->gpus, loose->accelerator);
    snprintf(o.type, sizeof o.type, "%.47s", type);
    o.vcpus = host->vcpus;
    o.memory_bytes = host->memory_bytes;
    o.host_line = host->line;
    return add_offer(r, &o, err);
}

static leat_status join_all(struct reading *r, struct leat_error *err)
{
    for (size_t i = 0; i < r->apart_count; i++) {
        const struct leat_plan_offer *loose = &r->apart[i];
        size_t before = r->count;
        if (*loose->type)
            continue;
        for (size_t k = 0; k < r->apart_count; k++) {
            const struct leat_plan_offer *host = &r->apart[k];
            if (!*host->type || strcmp(host->zone[0], loose->zone[0]) != 0 ||
                strcmp(host->region, loose->region) != 0 ||
                !leat_plan_hardware_goes_on(r->hardware, host->type, host->vcpus, loose->accelerator, loose->gpus))
                continue;
            leat_status rc = join(r, loose, host, err);
            if (rc != LEAT_OK)
                return rc;
        }
        if (r->count == before)
            count_flaw(&r->flaws, NO_HOST, loose->line, "");
    }
    return LEAT_OK;
}

static leat_status sort_row(struct reading *r, size_t row, struct leat_error *err)
{
    struct leat_plan_offer o;
    double gpus;
    unsigned line = r->csv->rows[row].line;
    leat_status rc = take_row(r, row, &o, &gpus, err);
    if (rc != LEAT_OK) {
        const char *what = strstr(err->text, ": ");
        count_flaw(&r->flaws, BAD_FIELD, line, what ? what + 2 : err->text);
        return LEAT_OK;
    }
    if (!*o.accelerator && !*o.type)
        count_flaw(&r->flaws, BAD_FIELD, line, "neither an InstanceType nor an AcceleratorName");
    else if (!*o.accelerator || !*o.type)
        r->apart[r->apart_count++] = o;
    else if (!o.gpus)
        count_flaw(&r->flaws, PART_OF_GPU, line, "");
    else if (isnan(o.usd_per_hour[0]) && isnan(o.usd_per_hour[1]))
        count_flaw(&r->flaws, NO_PRICE, line, "");
    else
        return add_offer(r, &o, err);
    return LEAT_OK;
}

static leat_status take_rows(struct reading *r, struct leat_error *err)
{
    for (size_t k = 0; k < COLUMNS; k++) {
        r->column[k] = leat_plan_csv_column(r->csv, names[k]);
        if (k <= REGION && k != SPOT && r->column[k] == LEAT_PLAN_CSV_NONE)
            return leat_plan_csv_need(r->csv, names[k], &r->column[k], err);
    }
    r->apart = calloc(r->csv->row_count + 1, sizeof *r->apart);
    if (!r->apart)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the catalog %s", r->csv->name);
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < r->csv->row_count; i++)
        rc = sort_row(r, i, err);
    if (rc == LEAT_OK)
        rc = join_all(r, err);
    return rc;
}

static int compare(const void *a, const void *b)
{
    const struct leat_plan_offer *x = a;
    const struct leat_plan_offer *y = b;
    int c = strcmp(x->provider, y->provider);
    c = c ? c : strcmp(x->type, y->type);
    return c ? c : strcmp(x->region, y->region);
}

static int compare_lines(const void *a, const void *b)
{
    const struct leat_plan_offer *x = a;
    const struct leat_plan_offer *y = b;
    int c = compare(a, b);
    c = c ? c : (x->file > y->file) - (x->file < y->file);
    return c ? c : (x->line > y->line) - (x->line < y->line);
}

static void take_cheaper(struct leat_plan_offer *o, const struct leat_plan_offer *other)
{
    for (int k = 0; k < 2; k++) {
        if (isnan(o->usd_per_hour[k]) || other->usd_per_hour[k] < o->usd_per_hour[k]) {
            o->usd_per_hour[k] = other->usd_per_hour[k];
            o->price_line[k] = other->line;
            memcpy(o->zone[k], other->zone[k], sizeof o->zone[k]);
        }
    }
}

static void add_zone(struct leat_plan_catalog *c, size_t *zones, struct leat_plan_offer *o,
                     const struct leat_plan_offer *row)
{
    if (isnan(row->usd_per_hour[1]))
        return;
    struct leat_plan_zone *z = &c->zone[(*zones)++];
    memcpy(z->name, row->zone[1], sizeof z->name);
    z->usd_per_hour = row->usd_per_hour[1];
    z->line = row->line;
    if (!o->zone_count++)
        o->first_zone = (size_t)(z - c->zone);
}

/* Zones of a place differ in the transient price only; the cheapest is what one would take. */
static void merge_zones(struct leat_plan_catalog *c, struct flaws *flaws)
{
    if (!c->count)
        return;
    qsort(c->offer, c->count, sizeof *c->offer, compare_lines);
    size_t kept = 0;
    size_t zones = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct leat_plan_offer row = c->offer[i];
        struct leat_plan_offer *last = kept ? &c->offer[kept - 1] : NULL;
        bool same = last && compare(last, &row) == 0;
        if (!same) {
            c->offer[kept++] = row;
            last = &c->offer[kept - 1];
        } else if (last->gpus != row.gpus || strcmp(last->accelerator, row.accelerator) != 0) {
            count_flaw(&flaws[row.file], OTHER_GPUS, row.line, "");
            continue;
        } else {
            take_cheaper(last, &row);
        }
        add_zone(c, &zones, last, &row);
    }
    c->count = kept;
}

static void take_hardware(const struct leat_plan_hardware *h, struct leat_plan_offer *o, struct flaws *flaws)
{
    struct leat_plan_machine m;
    o->link_bytes_per_s = o->network_bytes_per_s = o->disk_bytes = NAN;
    o->chip = (struct leat_plan_accelerator){
        .memory_gib = NAN, .fp32_tflops = NAN, .tensor_tflops = NAN, .memory_gb_per_s = NAN, .link_gb_per_s = NAN};
    if (leat_plan_hardware_accelerator(h, o->accelerator, &o->chip)) {
        o->link_bytes_per_s = o->chip.link_gb_per_s * 1e9;
        snprintf(o->link_source, sizeof o->link_source, "%s", o->chip.source);
        if (isnan(o->gpu_memory_bytes))
            o->gpu_memory_bytes = o->chip.memory_gib * 1073741824;
    }
    if (!leat_plan_hardware_machine(h, o->type, &m))
        return;
    o->network_bytes_per_s = m.network_gbit_per_s * 1e9 / 8;
    o->disk_bytes = m.disk_gb * 1e9;
    snprintf(o->machine_source, sizeof o->machine_source, "%s", m.source);
    if (isnan(o->memory_bytes))
        o->memory_bytes = m.memory_gib * 1073741824;
    if (isnan(o->vcpus))
        o->vcpus = m.vcpus;
    if (m.gpus && m.gpus != o->gpus && strcmp(m.accelerator, o->accelerator) == 0) {
        count_flaw(&flaws[o->file], COUNTED_OTHERWISE, o->line, "");
        o->gpus = m.gpus;
    }
}

/* Catalogs lie as aws.csv, or as aws/vms.csv. */
static void provider_of(const char *path, char out[24])
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t n = strcspn(base, ".");
    if (slash && n == 3 && strncmp(base, "vms", 3) == 0) {
        const char *end = slash;
        while (slash > path && slash[-1] != '/')
            slash--;
        base = slash;
        n = (size_t)(end - base);
    }
    snprintf(out, 24, "%.*s", (int)n, base);
}

static leat_status no_offer(const char *name, const struct flaws *flaws, struct leat_error *err)
{
    for (int f = MALFORMED; f <= BAD_FIELD; f++) {
        if (flaws->count[f])
            return leat_fail(err, LEAT_INVALID, "%s: no machine with a GPU and a price; line %u: %s", name,
                             flaws->first[f], flaws->text[f]);
    }
    return leat_fail(err, LEAT_INVALID, "%s: no machine with a GPU and a price", name);
}

static leat_status read_file(const struct leat_plan_catalog_file *file, struct reading *r, const char *today,
                             struct leat_plan_notes *notes, struct leat_error *err)
{
    struct leat_plan_csv *csv = NULL;
    struct leat_plan_csv_bad bad = {0};
    leat_status rc = leat_plan_csv_parse(file->name, file->text, file->n, &bad, &csv, err);
    r->csv = csv;
    if (rc == LEAT_OK)
        rc = check_date(csv, file->date, today, notes, err);
    if (rc == LEAT_OK) {
        check_columns(csv, notes);
        rc = take_rows(r, err);
    }
    if (bad.count) {
        count_flaw(&r->flaws, MALFORMED, bad.first_line, bad.why);
        r->flaws.count[MALFORMED] = bad.count;
    }
    free(r->apart);
    r->apart = NULL;
    r->apart_count = 0;
    if (rc == LEAT_OK && !r->count)
        rc = no_offer(file->name, &r->flaws, err);
    return rc;
}

/* The names of files already read, and the new one's. */
static leat_status name_file(struct leat_plan_catalog *c, const struct leat_plan_catalog_file *files, size_t count,
                             size_t i, struct reading *r, struct leat_error *err)
{
    snprintf(c->name[i], sizeof c->name[i], "%s", leat_plan_tail(files[i].name));
    if (count > 1)
        provider_of(files[i].name, r->provider);
    for (size_t k = 0; k < i; k++) {
        char other[24];
        provider_of(files[k].name, other);
        if (strcmp(other, r->provider) == 0)
            return leat_fail(err, LEAT_INVALID, "%s and %s are both called '%s': give them names of their own",
                             files[k].name, files[i].name, other);
    }
    return LEAT_OK;
}

static leat_status finish(struct leat_plan_catalog *c, const struct leat_plan_hardware *hardware,
                          struct reading *readings, struct flaws *flaws, struct leat_error *err)
{
    c->zone = calloc(c->count + 1, sizeof *c->zone);
    if (!c->zone)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the catalog");
    for (unsigned i = 0; i < c->files; i++)
        flaws[i] = readings[i].flaws;
    merge_zones(c, flaws);
    for (size_t i = 0; i < c->count; i++)
        take_hardware(hardware, &c->offer[i], flaws);
    return LEAT_OK;
}

leat_status leat_plan_catalog_parse(const struct leat_plan_catalog_file *files, size_t count,
                                    const struct leat_plan_hardware *hardware, const char *today,
                                    struct leat_plan_catalog *out, struct leat_plan_notes *notes,
                                    struct leat_error *err)
{
    struct leat_plan_catalog c = {0};
    leat_status rc = LEAT_OK;
    if (!count || count > LEAT_PLAN_CATALOGS_MAX)
        return leat_fail(err, count ? LEAT_LIMIT : LEAT_INVALID, "%zu catalogs: from 1 to %d", count,
                         LEAT_PLAN_CATALOGS_MAX);
    struct reading *readings = calloc(count + 1, sizeof *readings);
    struct flaws *flaws = calloc(count + 1, sizeof *flaws);
    if (!readings || !flaws)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu catalogs", count);
    for (size_t i = 0; rc == LEAT_OK && i < count; i++) {
        struct reading *r = &readings[i];
        *r = (struct reading){.hardware = hardware, .file = (unsigned)i};
        rc = name_file(&c, files, count, i, r, err);
        if (rc == LEAT_OK)
            rc = read_file(&files[i], r, today, notes, err);
        void *more = rc == LEAT_OK ? realloc(c.offer, (c.count + r->count) * sizeof *c.offer) : NULL;
        if (rc == LEAT_OK && !more)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the catalog %s", files[i].name);
        if (more) {
            c.offer = more;
            memcpy(c.offer + c.count, r->offer, r->count * sizeof *c.offer);
            c.count += r->count;
            c.files++;
        }
        free(r->offer);
    }
    if (rc == LEAT_OK)
        rc = finish(&c, hardware, readings, flaws, err);
    for (size_t i = 0; readings && i < count; i++) {
        if (rc == LEAT_OK && readings[i].csv)
            tell_flaws(readings[i].csv, &flaws[i], notes);
        leat_plan_csv_free(readings[i].csv);
    }
    free(readings);
    free(flaws);
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
    free(catalog->zone);
    *catalog = (struct leat_plan_catalog){0};
}
