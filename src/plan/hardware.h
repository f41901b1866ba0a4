/* What accelerators and machine types are made of: a dated table of published figures, which a file may extend and
 * overrule. Pure functions. */
#ifndef LEAT_PLAN_HARDWARE_H
#define LEAT_PLAN_HARDWARE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define LEAT_PLAN_HARDWARE_DATE "2026-11"

/* NaN: not known. Peak rates are dense, without sparsity. */
struct leat_plan_accelerator {
    char name[32]; /* as catalogs call it */
    double memory_gib;
    double fp32_tflops;
    double tensor_tflops; /* fp16 or bf16 on tensor cores; where there are none, as fp32 */
    double memory_gb_per_s;
    double link_gb_per_s; /* one direction, between two GPUs of a machine */
    char source[64];
};

struct leat_plan_machine {
    char type[48];
    char accelerator[32]; /* "": not said */
    unsigned gpus;
    double network_gbit_per_s; /* that holds for hours, not "up to" */
    double disk_gb;            /* of its own: gone with the machine */
    double memory_gib;
    double vcpus;
    char source[64];
};

/* Rows of a file, newest wins. */
struct leat_plan_hardware {
    struct leat_plan_accelerator *accelerator;
    size_t accelerators;
    struct leat_plan_machine *machine;
    size_t machines;
};

/* CSV. Columns by name, as far as they are known: accelerator or type (at least one of them a row), gpus, memory_gib,
 * fp32_tflops, tensor_tflops, memory_gb_per_s, link_gb_per_s; network_gbit_per_s, disk_gb, vcpus. A row with a type is
 * about that machine, else about the accelerator. Unknown columns are refused. Adds to `out`. */
leat_status leat_plan_hardware_csv(const char *name, const char *text, size_t n, struct leat_plan_hardware *out,
                                   struct leat_error *err);
void leat_plan_hardware_free(struct leat_plan_hardware *h);

/* The file's figures where it has any, else the table's. False: neither knows the name. `h` may be NULL. */
bool leat_plan_hardware_accelerator(const struct leat_plan_hardware *h, const char *name,
                                    struct leat_plan_accelerator *out);
bool leat_plan_hardware_machine(const struct leat_plan_hardware *h, const char *type, struct leat_plan_machine *out);

/* Hosts that a provider prices apart from their accelerators (GCP): whether `count` × `accelerator` go on `type`. */
bool leat_plan_hardware_goes_on(const struct leat_plan_hardware *h, const char *type, double vcpus,
                                const char *accelerator, unsigned count);

/* The built-in table. */
extern const struct leat_plan_accelerator leat_plan_accelerators[];
extern const size_t leat_plan_accelerator_count;
extern const struct leat_plan_machine leat_plan_machines[];
extern const size_t leat_plan_machine_count;

#endif
