#include "plan/hardware.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan/csv.h"
#include "plan/notes.h"

static const struct column {
    const char *name;
    size_t accelerator; /* offset; SIZE_MAX: says nothing about one */
    size_t machine;
    double min;
    double max;
} columns[] = {
    {"memory_gib", offsetof(struct leat_plan_accelerator, memory_gib), offsetof(struct leat_plan_machine, memory_gib),
     0.1, 1e6},
    {"fp32_tflops", offsetof(struct leat_plan_accelerator, fp32_tflops), (size_t)-1, 0.01, 1e6},
    {"tensor_tflops", offsetof(struct leat_plan_accelerator, tensor_tflops), (size_t)-1, 0.01, 1e6},
    {"memory_gb_per_s", offsetof(struct leat_plan_accelerator, memory_gb_per_s), (size_t)-1, 1, 1e6},
    {"link_gb_per_s", offsetof(struct leat_plan_accelerator, link_gb_per_s), (size_t)-1, 0.1, 1e5},
    {"network_gbit_per_s", (size_t)-1, offsetof(struct leat_plan_machine, network_gbit_per_s), 0.01, 1e5},
    {"disk_gb", (size_t)-1, offsetof(struct leat_plan_machine, disk_gb), 0, 1e7},
    {"vcpus", (size_t)-1, offsetof(struct leat_plan_machine, vcpus), 0.1, 1e5},
};
#define COLUMNS (sizeof columns / sizeof *columns)

static void put(void *at, size_t offset, double v)
{
    memcpy((char *)at + offset, &v, sizeof v);
}

static double get(const void *at, size_t offset)
{
    double v;
    memcpy(&v, (const char *)at + offset, sizeof v);
    return v;
}

static leat_status check_columns(const struct leat_plan_csv *csv, struct leat_error *err)
{
    for (size_t i = 0; i < csv->column_count; i++) {
        const char *name = csv->columns[i];
        bool known =
            strcasecmp(name, "accelerator") == 0 || strcasecmp(name, "type") == 0 || strcasecmp(name, "gpus") == 0;
        for (size_t c = 0; c < COLUMNS; c++)
            known |= strcasecmp(name, columns[c].name) == 0;
        if (!known)
            return leat_fail(err, LEAT_INVALID, "%s line %u: column '%s' is not known here", csv->name,
                             csv->header_line, name);
    }
    return LEAT_OK;
}

static const char *text_of(const struct leat_plan_csv *csv, size_t row, const char *column)
{
    size_t c = leat_plan_csv_column(csv, column);
    return c == LEAT_PLAN_CSV_NONE ? "" : csv->rows[row].fields[c];
}

/* One row into `at`, an accelerator or a machine. */
static leat_status take_numbers(const struct leat_plan_csv *csv, size_t row, bool machine, void *at,
                                struct leat_error *err)
{
    for (size_t c = 0; c < COLUMNS; c++) {
        size_t offset = machine ? columns[c].machine : columns[c].accelerator;
        size_t column = leat_plan_csv_column(csv, columns[c].name);
        double v = NAN;
        if (column != LEAT_PLAN_CSV_NONE && *csv->rows[row].fields[column]) {
            leat_status rc = leat_plan_csv_number(csv, row, column, &v, err);
            if (rc != LEAT_OK)
                return rc;
            if (offset == (size_t)-1)
                return leat_fail(err, LEAT_INVALID, "%s line %u: %s says nothing about %s", csv->name,
                                 csv->rows[row].line, columns[c].name, machine ? "a machine" : "an accelerator");
            if (!(v >= columns[c].min && v <= columns[c].max))
                return leat_fail(err, LEAT_INVALID, "%s line %u: %s is %g, outside %g … %g", csv->name,
                                 csv->rows[row].line, columns[c].name, v, columns[c].min, columns[c].max);
        }
        if (offset != (size_t)-1)
            put(at, offset, v);
    }
    return LEAT_OK;
}

static leat_status take_row(const struct leat_plan_csv *csv, size_t row, struct leat_plan_hardware *h,
                            struct leat_error *err)
{
    const char *accelerator = text_of(csv, row, "accelerator");
    const char *type = text_of(csv, row, "type");
    const char *gpus = text_of(csv, row, "gpus");
    unsigned line = csv->rows[row].line;
    struct leat_plan_accelerator *a = &h->accelerator[h->accelerators];
    struct leat_plan_machine *m = &h->machine[h->machines];
    if (strlen(accelerator) >= sizeof a->name || strlen(type) >= sizeof m->type || (!*accelerator && !*type))
        return leat_fail(err, LEAT_INVALID, "%s line %u: accelerator or type is missing or too long", csv->name, line);
    if (!*type) {
        *a = (struct leat_plan_accelerator){0};
        snprintf(a->name, sizeof a->name, "%s", accelerator);
        snprintf(a->source, sizeof a->source, "%.40s line %u", leat_plan_tail(csv->name), line);
        leat_status rc = take_numbers(csv, row, false, a, err);
        h->accelerators += rc == LEAT_OK;
        return rc;
    }
    *m = (struct leat_plan_machine){0};
    if (*gpus) {
        double n;
        leat_status rc = leat_plan_csv_number(csv, row, leat_plan_csv_column(csv, "gpus"), &n, err);
        if (rc != LEAT_OK)
            return rc;
        if (!(n >= 1 && n <= 1024 && n == floor(n)))
            return leat_fail(err, LEAT_INVALID, "%s line %u: gpus is %g", csv->name, line, n);
        m->gpus = (unsigned)n;
    }
    snprintf(m->type, sizeof m->type, "%s", type);
    snprintf(m->accelerator, sizeof m->accelerator, "%s", accelerator);
    snprintf(m->source, sizeof m->source, "%.40s line %u", leat_plan_tail(csv->name), line);
    leat_status rc = take_numbers(csv, row, true, m, err);
    h->machines += rc == LEAT_OK;
    return rc;
}

leat_status leat_plan_hardware_csv(const char *name, const char *text, size_t n, struct leat_plan_hardware *out,
                                   struct leat_error *err)
{
    struct leat_plan_csv *csv = NULL;
    leat_status rc = leat_plan_csv_parse(name, text, n, NULL, &csv, err);
    if (rc == LEAT_OK)
        rc = check_columns(csv, err);
    if (rc == LEAT_OK) {
        size_t rows = csv->row_count + 1;
        void *a = realloc(out->accelerator, (out->accelerators + rows) * sizeof *out->accelerator);
        out->accelerator = a ? a : out->accelerator;
        void *m = realloc(out->machine, (out->machines + rows) * sizeof *out->machine);
        out->machine = m ? m : out->machine;
        if (!a || !m)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for %s", name);
    }
    for (size_t i = 0; rc == LEAT_OK && i < csv->row_count; i++)
        rc = take_row(csv, i, out, err);
    leat_plan_csv_free(csv);
    return rc;
}

void leat_plan_hardware_free(struct leat_plan_hardware *h)
{
    free(h->accelerator);
    free(h->machine);
    *h = (struct leat_plan_hardware){0};
}

/* What `more` knows goes over what is there. */
static void overlay(void *at, const void *more, bool machine)
{
    for (size_t c = 0; c < COLUMNS; c++) {
        size_t offset = machine ? columns[c].machine : columns[c].accelerator;
        if (offset != (size_t)-1 && !isnan(get(more, offset)))
            put(at, offset, get(more, offset));
    }
}

bool leat_plan_hardware_accelerator(const struct leat_plan_hardware *h, const char *name,
                                    struct leat_plan_accelerator *out)
{
    bool found = false;
    for (size_t i = 0; i < leat_plan_accelerator_count && !found; i++) {
        found = strcasecmp(leat_plan_accelerators[i].name, name) == 0;
        if (found)
            *out = leat_plan_accelerators[i];
    }
    for (size_t i = 0; h && i < h->accelerators; i++) {
        if (strcasecmp(h->accelerator[i].name, name) != 0)
            continue;
        if (found)
            overlay(out, &h->accelerator[i], false);
        else
            *out = h->accelerator[i];
        memcpy(out->source, h->accelerator[i].source, sizeof out->source);
        found = true;
    }
    return found;
}

bool leat_plan_hardware_machine(const struct leat_plan_hardware *h, const char *type, struct leat_plan_machine *out)
{
    bool found = false;
    for (size_t i = 0; i < leat_plan_machine_count && !found; i++) {
        found = strcmp(leat_plan_machines[i].type, type) == 0;
        if (found)
            *out = leat_plan_machines[i];
    }
    double vcpus;
    if (!found && sscanf(type, "n1-%*[a-z]-%lf", &vcpus) == 1) { /* with accelerators attached: 2 Gbit/s a vCPU */
        *out = (struct leat_plan_machine){.network_gbit_per_s = fmin(2 * vcpus, 32),
                                          .disk_gb = 0,
                                          .memory_gib = NAN,
                                          .vcpus = vcpus,
                                          .source = "GCP N1 docs: 2 Gbit/s per vCPU, at most 32"};
        snprintf(out->type, sizeof out->type, "%s", type);
        found = true;
    }
    for (size_t i = 0; h && i < h->machines; i++) {
        const struct leat_plan_machine *m = &h->machine[i];
        if (strcmp(m->type, type) != 0)
            continue;
        if (!found)
            *out = *m;
        overlay(out, m, true);
        if (m->gpus)
            out->gpus = m->gpus;
        if (*m->accelerator)
            memcpy(out->accelerator, m->accelerator, sizeof out->accelerator);
        memcpy(out->source, m->source, sizeof out->source);
        found = true;
    }
    return found;
}

bool leat_plan_hardware_goes_on(const struct leat_plan_hardware *h, const char *type, double vcpus,
                                const char *accelerator, unsigned count)
{
    /* Of GPUs attached to N1 machines, the most vCPUs for 1, 2, 4 and 8 of them (GCP, "GPUs on N1"). */
    static const struct {
        const char *name;
        double vcpus[4];
    } n1[] = {{"K80", {8, 16, 32, 64}},
              {"P4", {24, 48, 96, 0}},
              {"P100", {16, 32, 96, 0}},
              {"T4", {48, 48, 96, 0}},
              {"V100", {12, 24, 48, 96}}};
    struct leat_plan_machine m;
    if (strncmp(type, "n1-", 3) == 0) {
        for (size_t i = 0; i < sizeof n1 / sizeof *n1; i++) {
            if (strcmp(n1[i].name, accelerator) != 0)
                continue;
            for (int k = 0; k < 4; k++) {
                if (count == 1u << k)
                    return vcpus <= n1[i].vcpus[k];
            }
        }
        return false;
    }
    return leat_plan_hardware_machine(h, type, &m) && m.gpus == count && strcmp(m.accelerator, accelerator) == 0;
}
