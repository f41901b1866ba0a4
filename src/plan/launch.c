#include "plan/launch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/world.h"

#define PORT 29500 /* torchrun's own */

static const char *const names[] = {"skypilot", "sbatch", "torchrun"};

const char *leat_plan_launcher_name(enum leat_plan_launcher launcher)
{
    return names[launcher];
}

leat_status leat_plan_launcher_parse(const char *text, enum leat_plan_launcher *out, struct leat_error *err)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum leat_plan_launcher)i;
            return LEAT_OK;
        }
    }
    return leat_fail(err, LEAT_INVALID, "as: '%s' is not one of skypilot, sbatch or torchrun", text);
}

/* Everything the three texts are made of. */
struct launch {
    const struct leat_plan *plan;
    const struct leat_plan_record *r;
    const char *script;
    char name[64]; /* of the job, in letters that every launcher takes */
    double every_s;
    double every_steps;
    double accumulate;
};

/* Letters, digits and hyphens, beginning with a letter: what Slurm, SkyPilot and rendezvous ids have in common. */
static void plain_name(const char *text, char out[64])
{
    size_t n = 0;
    if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z')))
        out[n++] = 'j';
    for (; *text && n < 50; text++) {
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || (*text >= '0' && *text <= '9');
        out[n++] = plain ? *text : '-';
    }
    while (n && out[n - 1] == '-')
        n--;
    out[n] = '\0';
}

static leat_status describe(const struct leat_plan *plan, const struct leat_plan_record *r, const char *script,
                            struct launch *out, struct leat_error *err)
{
    const struct leat_plan_job *job = &plan->job;
    double batch = job->value[LEAT_KEY_BATCH] * r->nodes * r->offer->gpus;
    double global = job->value[LEAT_KEY_GLOBAL_BATCH];
    struct launch l = {.plan = plan, .r = r, .script = script ? script : "train.py"};
    if (job->mode == LEAT_PLAN_ASYNC)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "launch: torchrun starts all-reduce jobs; workers around a parameter server (job.mode async) "
                         "need a launcher of their own");
    for (const char *c = l.script; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 127)
            return leat_fail(err, LEAT_INVALID, "script: one line is expected, without control characters");
    }
    if (!*l.script)
        return leat_fail(err, LEAT_INVALID, "script: the script for torchrun is missing, for example train.py");
    plain_name(job->name, l.name);
    l.accumulate = isnan(global) ? 1 : ceil(global / batch - 1e-9);
    l.every_s = r->interval_s;
    l.every_steps = fmax(1, round(r->interval_s * r->samples_per_s / (isnan(global) ? batch : global)));
    *out = l;
    return LEAT_OK;
}

/* A checkpoint at the end alone has no interval: 0 says so to the one that reads it. */
static double seconds_of(const struct launch *l)
{
    return l->every_s < HUGE_VAL ? round(l->every_s) : 0;
}

static double steps_of(const struct launch *l)
{
    return l->every_s < HUGE_VAL ? l->every_steps : 0;
}

struct value {
    const char *key;
    double value;
};

#define VALUES 4

static void values_of(const struct launch *l, struct value out[VALUES])
{
    out[0] = (struct value){"checkpoint_seconds", seconds_of(l)};
    out[1] = (struct value){"checkpoint_steps", steps_of(l)};
    out[2] = (struct value){"batch", l->plan->job.value[LEAT_KEY_BATCH]};
    out[3] = (struct value){"accumulate", l->accumulate};
}

/* The script with its placeholders filled in. Other braces are the shell's and stay. */
static leat_status add_script(const struct launch *l, struct leat_buf *out, struct leat_error *err)
{
    struct value values[VALUES];
    values_of(l, values);
    for (const char *c = l->script; *c;) {
        size_t n = *c == '{' ? strcspn(c, "}") : 0;
        int k = 0;
        while (n && k < VALUES && (strlen(values[k].key) != n - 1 || strncmp(c + 1, values[k].key, n - 1) != 0))
            k++;
        if (n && c[n] && k < VALUES) {
            leat_buf_printf(out, "%.0f", values[k].value);
            c += n + 1;
            continue;
        }
        if (strncmp(c, "{checkpoint", 11) == 0)
            return leat_fail(err, LEAT_INVALID,
                             "script: '%.30s' is not known; {checkpoint_seconds}, {checkpoint_steps}, {batch} and "
                             "{accumulate} are",
                             c);
        leat_buf_char(out, *c++);
    }
    return LEAT_OK;
}

/* "LEAT_CHECKPOINT_SECONDS" */
static const char *variable(const char *key, char out[40])
{
    size_t n = (size_t)snprintf(out, 40, "LEAT_%s", key);
    for (size_t i = 5; i < n; i++)
        out[i] = out[i] >= 'a' && out[i] <= 'z' ? (char)(out[i] - 'a' + 'A') : out[i];
    return out;
}

/* What was predicted, above whatever follows: the file tells what it was made from. */
static void add_head(const struct launch *l, struct leat_buf *out)
{
    char name[LEAT_PLAN_NAME_SIZE];
    const struct leat_plan_record *r = l->r;
    leat_buf_printf(out, "# %s: %.2f h [%.2f, %.2f], %.2f usd [%.2f, %.2f] (9 of 10 runs), %.2f revocations\n",
                    leat_plan_record_name(l->plan, r, name), r->time_s.mean / 3600, r->time_s.lo / 3600,
                    r->time_s.hi / 3600, r->usd.mean, r->usd.lo, r->usd.hi, r->revocations);
    if (l->every_s < HUGE_VAL)
        leat_buf_printf(out, "# A checkpoint every %.0f s of work, %.0f steps.\n", seconds_of(l), steps_of(l));
    else
        leat_buf_str(out, "# One checkpoint, at the end (LEAT_CHECKPOINT_SECONDS is 0).\n");
}

/* An elastic job goes on with the machines that are left. */
static void add_nodes(const struct launch *l, struct leat_buf *out)
{
    bool elastic = l->r->kind == LEAT_PLAN_KIND_MIXED && l->plan->job.restart == LEAT_PLAN_ELASTIC;
    if (elastic)
        leat_buf_printf(out, "--nnodes=1:%u", l->r->nodes);
    else
        leat_buf_printf(out, "--nnodes=%u", l->r->nodes);
    leat_buf_printf(out, " --nproc-per-node=%u", l->r->offer->gpus);
    if (l->r->kind != LEAT_PLAN_KIND_ON_DEMAND && l->r->nodes > 1) {
        /* Every loss of a machine is a restart of the others: many more than planned is something else. */
        double restarts = fmin(fmax(3, ceil(3 * l->r->revocations)), 1000);
        leat_buf_printf(out, " --max-restarts=%.0f", restarts);
    }
}

static leat_status add_torchrun(const struct launch *l, const char *endpoint, struct leat_buf *out,
                                struct leat_error *err)
{
    leat_buf_str(out, "torchrun ");
    add_nodes(l, out);
    if (l->r->nodes > 1)
        leat_buf_printf(out, " --rdzv-id=%s --rdzv-backend=c10d --rdzv-endpoint=%s:%d", l->name, endpoint, PORT);
    else
        leat_buf_str(out, " --standalone");
    leat_buf_char(out, ' ');
    leat_status rc = add_script(l, out, err);
    leat_buf_char(out, '\n');
    return rc;
}

static leat_status torchrun(const struct launch *l, struct leat_buf *out, struct leat_error *err)
{
    struct value values[VALUES];
    char name[40];
    values_of(l, values);
    add_head(l, out);
    if (l->r->nodes > 1)
        leat_buf_str(out, "# On every machine, with MASTER_ADDR the address of one of them.\n");
    for (int i = 0; i < VALUES; i++)
        leat_buf_printf(out, "%s=%.0f ", variable(values[i].key, name), values[i].value);
    return add_torchrun(l, "\"$MASTER_ADDR\"", out, err);
}

/* Long enough for all but one run in twenty, and no shorter than the deadline. */
static void add_limit(const struct launch *l, struct leat_buf *out)
{
    double s = fmax(fmax(l->r->time_s.hi, l->r->risk_time_s), l->plan->options.deadline_s);
    unsigned long minutes = (unsigned long)fmin(ceil(s / 60), 1e6);
    leat_buf_printf(out, "#SBATCH --time=%lu-%02lu:%02lu:00\n", minutes / 1440, minutes / 60 % 24, minutes % 60);
}

static leat_status sbatch(const struct launch *l, struct leat_buf *out, struct leat_error *err)
{
    struct value values[VALUES];
    char name[40];
    const struct leat_plan_offer *o = l->r->offer;
    values_of(l, values);
    leat_buf_printf(out, "#!/bin/bash\n#SBATCH --job-name=%s\n#SBATCH --nodes=%u\n#SBATCH --ntasks-per-node=1\n",
                    l->name, l->r->nodes);
    leat_buf_printf(out, "#SBATCH --gpus-per-node=%u\n", o->gpus);
    if (o->vcpus >= 1)
        leat_buf_printf(out, "#SBATCH --cpus-per-task=%.0f\n", floor(o->vcpus));
    add_limit(l, out);
    if (l->r->kind != LEAT_PLAN_KIND_ON_DEMAND)
        leat_buf_str(out, "#SBATCH --requeue\n");
    add_head(l, out);
    leat_buf_printf(out, "# Planned for machines like %s (%u × %s each).\n", o->type, o->gpus, o->accelerator);
    leat_buf_str(out, "set -euo pipefail\n");
    for (int i = 0; i < VALUES; i++)
        leat_buf_printf(out, "export %s=%.0f\n", variable(values[i].key, name), values[i].value);
    if (l->r->nodes > 1)
        leat_buf_str(out, "head=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n");
    leat_buf_str(out, "srun ");
    return add_torchrun(l, "\"$head\"", out, err);
}

/* Double quotes and backslashes as YAML has them. */
static void add_quoted(struct leat_buf *out, const char *text)
{
    leat_buf_char(out, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            leat_buf_char(out, '\\');
        leat_buf_char(out, *text);
    }
    leat_buf_char(out, '"');
}

static void add_place(const struct launch *l, struct leat_buf *out)
{
    const struct leat_plan_offer *o = l->r->offer;
    const char *zone = leat_plan_record_zone(l->r);
    const char *slash = strchr(o->region, '/');
    char region[LEAT_PLAN_REGION_SIZE];
    snprintf(region, sizeof region, "%.*s", slash ? (int)(slash - o->region) : (int)strlen(o->region), o->region);
    if (*o->provider) {
        leat_buf_str(out, "  cloud: ");
        add_quoted(out, o->provider);
        leat_buf_char(out, '\n');
    }
    if (strcmp(region, "-") != 0) {
        leat_buf_str(out, "  region: ");
        add_quoted(out, region);
        leat_buf_char(out, '\n');
    }
    /* A Local Zone is what was priced; elsewhere SkyPilot may go to whichever zone has machines. */
    if (slash && *zone) {
        leat_buf_str(out, "  zone: ");
        add_quoted(out, zone);
        leat_buf_char(out, '\n');
    } else if (*zone) {
        leat_buf_printf(out, "  # the price is that of zone %s\n", zone);
    }
}

static void add_resources(const struct launch *l, struct leat_buf *out)
{
    const struct leat_plan_offer *o = l->r->offer;
    const struct leat_plan_path *path = l->r->path >= 0 ? &l->plan->job.path[l->r->path] : NULL;
    char type[48];
    char accelerators[64];
    /* "n1-standard-8+1xV100" is a host and what is attached to it. */
    snprintf(type, sizeof type, "%.*s", (int)(o->host_line ? strcspn(o->type, "+") : strlen(o->type)), o->type);
    snprintf(accelerators, sizeof accelerators, "%s:%u", o->accelerator, o->gpus);
    leat_buf_str(out, "resources:\n");
    add_place(l, out);
    leat_buf_str(out, "  instance_type: ");
    add_quoted(out, type);
    leat_buf_str(out, "\n  accelerators: ");
    add_quoted(out, accelerators);
    leat_buf_printf(out, "\n  use_spot: %s\n", l->r->kind == LEAT_PLAN_KIND_TRANSIENT ? "true" : "false");
    if (path && path->store == LEAT_PLAN_STORE_DISK && path->cache_bytes > 0)
        leat_buf_printf(out, "  disk_size: %.0f  # GB: the cache of %.0f and room for the system\n",
                        ceil(path->cache_bytes / 1e9) + 100, ceil(path->cache_bytes / 1e9));
}

static leat_status skypilot(const struct launch *l, struct leat_buf *out, struct leat_error *err)
{
    struct value values[VALUES];
    char name[40];
    values_of(l, values);
    if (l->r->kind != LEAT_PLAN_KIND_ON_DEMAND && l->r->kind != LEAT_PLAN_KIND_TRANSIENT)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "launch: a SkyPilot task has one kind of machine, and %s has two; launch an on-demand or a "
                         "transient configuration, or write it as torchrun",
                         leat_plan_kind_name(l->r->kind));
    add_head(l, out);
    leat_buf_printf(out, "# %s\n",
                    l->r->kind == LEAT_PLAN_KIND_TRANSIENT
                        ? "sky jobs launch THIS.yaml: machines that are taken are ordered again"
                        : "sky launch THIS.yaml");
    leat_buf_printf(out, "name: %s\nnum_nodes: %u\n", l->name, l->r->nodes);
    add_resources(l, out);
    leat_buf_str(out, "envs:\n");
    for (int i = 0; i < VALUES; i++)
        leat_buf_printf(out, "  %s: \"%.0f\"\n", variable(values[i].key, name), values[i].value);
    leat_buf_str(out, "run: |\n");
    if (l->r->nodes > 1)
        leat_buf_str(out, "  head=$(echo \"$SKYPILOT_NODE_IPS\" | head -n 1)\n");
    leat_buf_str(out, "  ");
    return add_torchrun(l, "\"$head\"", out, err);
}

leat_status leat_plan_launch(const struct leat_plan *plan, const struct leat_plan_record *record,
                             enum leat_plan_launcher launcher, const char *script, struct leat_buf *out,
                             struct leat_error *err)
{
    struct launch l;
    leat_status rc = describe(plan, record, script, &l, err);
    if (rc == LEAT_OK)
        rc = launcher == LEAT_PLAN_SKYPILOT ? skypilot(&l, out, err)
             : launcher == LEAT_PLAN_SBATCH ? sbatch(&l, out, err)
                                            : torchrun(&l, out, err);
    return rc == LEAT_OK ? leat_buf_check(out, "the text", err) : rc;
}
