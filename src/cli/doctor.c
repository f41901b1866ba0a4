/* leat doctor: the command, and how its checks are run. The checks are in doctor_*.c. */
#include "cli/doctor.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "leat/leat.h"

#define FINDINGS_MAX 8
#define NUMBERS_MAX  6
#define GRACE        (2 * LEAT_S) /* beyond its deadline, which a check that is well keeps by itself */

#define AT(field) offsetof(struct leat_doctor_settings, field)

static const struct leat_option options[] = {
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "print JSON"},
    {"needs", 0, LEAT_OPTION_U64, AT(needs), "N", NULL, NULL,
     "samples per second that the training takes; a line or decoder that is too slow for it is bad"},
    {"pipeline", 'p', LEAT_OPTION_STRING, AT(pipeline), "TEXT", "random_resized_crop=224 flip=0.5", NULL,
     "pipeline for measuring the decoder, in the words of 'leat image --words'"},
    {"time", 0, LEAT_OPTION_DURATION, AT(time_ns), "TIME", "2s", NULL, "how long each measurement may take"},
    {"bytes", 0, LEAT_OPTION_SIZE, AT(bytes), "SIZE", "256MiB", NULL, "how much each measurement may fetch or write"},
    {"cache-dir", 0, LEAT_OPTION_STRING, AT(cache_dir), "PATH", NULL, "LEAT_CACHE_DIR",
     "folder of the cache on disk (default: $XDG_CACHE_HOME/leat, else ~/.cache/leat)"},
    LEAT_STORE_OPTIONS(AT(store)),
    {0},
};

struct finding {
    enum leat_health health;
    char name[24];
    char found[600];
    char advice[400];
    struct {
        const char *name;
        double value;
    } numbers[NUMBERS_MAX];
    unsigned numbers_n;
};

struct leat_findings {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    struct { /* hold mu */
        struct finding list[FINDINGS_MAX];
        unsigned n;
        bool ended;
        bool left; /* nobody listens any more */
    } locked;
    /* Constant while the check runs. */
    leat_doctor_check *check;
    struct leat_doctor *doctor;
};

struct step {
    const char *name;
    leat_doctor_check *check;
    unsigned limit_s;
    bool bucket; /* needs a URL */
    bool timed;  /* measures: --time is added to its limit */
    const char *hung;
};

static const struct step steps[] = {
    {"version", leat_doctor_version, 2, false, false, ""},
    {"cores", leat_doctor_cores, 2, false, false, ""},
    {"memory", leat_doctor_memory, 2, false, false, ""},
    {"limits", leat_doctor_limits, 2, false, false, ""},
    {"io_uring", leat_doctor_uring, 2, false, false, ""},
    {"gpu", leat_doctor_gpu, 5, false, false, "Look at the driver: nvidia-smi, dmesg"},
    {"agent", leat_doctor_agent, 8, false, false, "Stop it with 'leat agent stop', or kill it: loaders start another"},
    {"cache", leat_doctor_cache, 8, false, true, "The disk or file system hangs: choose another folder (--cache-dir)"},
    {"proxy", leat_doctor_proxy, 2, false, false, ""},
    {"keys", leat_doctor_keys, 12, true, false, "Whatever hands out the keys does not answer"},
    {"name", leat_doctor_name, 8, true, false, "The name server does not answer: look at /etc/resolv.conf"},
    {"endpoint", leat_doctor_endpoint, 12, true, false, "Look at the network, at firewalls and proxies"},
    {"dataset", leat_doctor_dataset, 15, true, false, "The store hangs: look at the network or the file system"},
    {"latency", leat_doctor_latency, 10, true, false, "The store has stopped to answer"},
    {"first byte", leat_doctor_first_byte, 10, true, false, "The store has stopped to answer"},
    {"line", leat_doctor_line, 15, true, true, "The store has stopped to answer"},
    {"decode", leat_doctor_decode, 8, true, true, ""},
};

static const char *health_name(enum leat_health health)
{
    static const char *const names[] = {"ok", "note", "bad", "skipped"};
    return names[health];
}

void leat_findings_say(struct leat_findings *f, enum leat_health health, const char *name, const char *advice,
                       const char *format, ...)
{
    pthread_mutex_lock(&f->mu);
    if (!f->locked.left && f->locked.n < FINDINGS_MAX) {
        struct finding *to = &f->locked.list[f->locked.n++];
        va_list args;
        *to = (struct finding){.health = health};
        snprintf(to->name, sizeof to->name, "%s", name);
        snprintf(to->advice, sizeof to->advice, "%s", advice);
        va_start(args, format);
        vsnprintf(to->found, sizeof to->found, format, args);
        va_end(args);
        leat_one_line(to->found);
        leat_one_line(to->advice);
    }
    pthread_mutex_unlock(&f->mu);
}

void leat_findings_number(struct leat_findings *f, const char *name, double value)
{
    pthread_mutex_lock(&f->mu);
    if (!f->locked.left && f->locked.n) {
        struct finding *to = &f->locked.list[f->locked.n - 1];
        if (to->numbers_n < NUMBERS_MAX && isfinite(value)) {
            to->numbers[to->numbers_n].name = name;
            to->numbers[to->numbers_n++].value = value;
        }
    }
    pthread_mutex_unlock(&f->mu);
}

static bool stop(void *user)
{
    const struct leat_doctor *d = user;
    return leat_cli_interrupted() || leat_now_ns() >= d->deadline_ns;
}

leat_status leat_doctor_store_opts(struct leat_doctor *d, struct leat_store_opts *out, struct leat_error *err)
{
    leat_status rc = leat_cli_store_opts(&d->settings->store, out, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t most = 8 * LEAT_S;
    out->attempts = 2; /* one for a connection that has just been closed; more would only hide what is wrong */
    out->timeout_ns = out->timeout_ns < most ? out->timeout_ns : most;
    out->inactivity_ns = out->inactivity_ns < most ? out->inactivity_ns : most;
    out->stop = stop;
    out->stop_user = d;
    return LEAT_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double leat_doctor_median(double *values, unsigned n)
{
    qsort(values, n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void *run_check(void *arg)
{
    struct leat_findings *f = arg;
    f->check(f->doctor, f);
    pthread_mutex_lock(&f->mu);
    f->locked.ended = true;
    pthread_cond_signal(&f->cond);
    pthread_mutex_unlock(&f->mu);
    return NULL;
}

/* True when it has ended by itself, and the thread may be joined. */
static bool wait_for(struct leat_findings *f, uint64_t deadline_ns)
{
    uint64_t until = deadline_ns;
    pthread_mutex_lock(&f->mu);
    while (!f->locked.ended && leat_now_ns() < until) {
        uint64_t soon = leat_after(100 * LEAT_MS);
        leat_cond_wait(&f->cond, &f->mu, soon < until ? soon : until);
        if (leat_cli_interrupted() && until == deadline_ns)
            until = leat_after(LEAT_S);
    }
    bool ended = f->locked.ended;
    f->locked.left = !ended;
    pthread_mutex_unlock(&f->mu);
    return ended;
}

struct tally {
    unsigned bad;
    unsigned notes;
    unsigned left; /* threads that did not come back */
    json_t *all;
};

static json_t *describe(const struct finding *f)
{
    json_t *line = json_object();
    json_object_set_new(line, "name", json_string(f->name));
    json_object_set_new(line, "state", json_string(health_name(f->health)));
    json_object_set_new(line, "found", json_string(f->found));
    if (*f->advice)
        json_object_set_new(line, "advice", json_string(f->advice));
    for (unsigned i = 0; i < f->numbers_n; i++)
        json_object_set_new(line, f->numbers[i].name, json_real(f->numbers[i].value));
    return line;
}

static void show(struct tally *t, const struct leat_findings *f)
{
    for (unsigned i = 0; i < f->locked.n; i++) {
        const struct finding *one = &f->locked.list[i];
        t->bad += one->health == LEAT_HEALTH_BAD;
        t->notes += one->health == LEAT_HEALTH_NOTE;
        if (t->all)
            json_array_append_new(t->all, describe(one));
        else
            printf("%-7s  %-13s  %s%s%s\n", health_name(one->health), one->name, one->found, *one->advice ? ". " : "",
                   one->advice);
    }
    fflush(stdout);
}

/* On a terminal: what is looked at while it takes its time. */
static void show_step(const struct step *step, bool begin)
{
    if (!isatty(STDERR_FILENO) || !isatty(STDOUT_FILENO))
        return;
    if (begin)
        fprintf(stderr, "\r        %s …\033[K", step->name);
    else
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

static leat_status run_step(struct leat_doctor *d, const struct step *step, struct tally *t, struct leat_error *err)
{
    struct leat_findings *f = calloc(1, sizeof *f);
    pthread_t thread;
    if (!f)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a check");
    pthread_mutex_init(&f->mu, NULL);
    leat_cond_init(&f->cond);
    f->check = step->check;
    f->doctor = d;
    uint64_t limit = step->limit_s * LEAT_S + (step->timed ? 2 * d->settings->time_ns : 0);
    d->deadline_ns = leat_after(limit);
    show_step(step, true);
    leat_status rc = leat_thread_start(&thread, "leat-check", run_check, f, err);
    if (rc == LEAT_OK && wait_for(f, d->deadline_ns + GRACE)) {
        pthread_join(thread, NULL);
        show_step(step, false);
        show(t, f);
    } else if (rc == LEAT_OK) {
        show_step(step, false);
        t->left++;
        d->ended |= step->bucket;
        show(t, f);
        struct leat_findings own = {.mu = PTHREAD_MUTEX_INITIALIZER};
        if (!leat_cli_interrupted()) {
            leat_findings_say(&own, LEAT_HEALTH_BAD, step->name, step->hung, "no answer within %.0f s",
                              (double)limit / 1e9);
            show(t, &own);
        }
        return LEAT_OK; /* the thread keeps what it was given */
    }
    pthread_cond_destroy(&f->cond);
    pthread_mutex_destroy(&f->mu);
    free(f);
    return rc;
}

/* Warnings of the store are findings here: they would be said twice. */
static void drop_log(enum leat_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

static leat_status check_settings(const struct leat_doctor_settings *s, const char *url, struct leat_error *err)
{
    struct leat_store_opts opts;
    struct leat_url parsed = {0};
    leat_status rc = leat_cli_store_opts(&s->store, &opts, err);
    if (rc == LEAT_OK && url)
        rc = leat_url_parse(url, &parsed, err);
    leat_url_free(&parsed);
    if (rc == LEAT_OK && (s->time_ns == 0 || s->time_ns > 60 * LEAT_S))
        rc = leat_fail(err, LEAT_INVALID, "--time: more than 0 and at most 60s");
    if (rc == LEAT_OK && s->bytes < 1 << 20)
        rc = leat_fail(err, LEAT_INVALID, "--bytes: at least 1MiB");
    return rc;
}

static void print_end(const struct tally *t, const struct leat_doctor *d, const struct leat_error *err)
{
    if (t->all) {
        json_t *root = json_object();
        json_object_set_new(root, "version", json_string(leat_version()));
        json_object_set_new(root, "url", d->url ? json_string(d->url) : json_null());
        json_object_set_new(root, "well", json_boolean(!t->bad));
        json_object_set_new(root, "bad", json_integer(t->bad));
        json_object_set_new(root, "notes", json_integer(t->notes));
        json_object_set(root, "findings", t->all);
        json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(root);
        json_decref(t->all);
    } else if (err->status == LEAT_OK && t->bad) {
        printf("\n%u %s to fix%s\n", t->bad, t->bad == 1 ? "thing" : "things", t->notes ? ", and notes above" : "");
    } else if (err->status == LEAT_OK) {
        printf("\nAll is well.\n");
    }
}

static int run(const void *settings, int argc, char **argv)
{
    struct leat_doctor d = {.settings = settings, .url = argc ? argv[0] : NULL};
    struct tally t = {.all = d.settings->json ? json_array() : NULL};
    struct leat_error err = {0};
    leat_status rc = check_settings(d.settings, d.url, &err);
    if (rc == LEAT_OK && !leat_log_wants(LEAT_LOG_INFO))
        leat_log_open(LEAT_LOG_ERROR, drop_log, NULL);
    if (rc != LEAT_OK) {
        json_decref(t.all);
        return leat_cli_fail(&err);
    }
    for (size_t i = 0; rc == LEAT_OK && i < sizeof steps / sizeof *steps; i++) {
        if (leat_cli_interrupted())
            rc = leat_fail(&err, LEAT_CANCELLED, "interrupted");
        else if (!steps[i].bucket || (d.url && !d.ended))
            rc = run_step(&d, &steps[i], &t, &err);
    }
    if (rc == LEAT_OK && leat_cli_interrupted())
        rc = leat_fail(&err, LEAT_CANCELLED, "interrupted");
    print_end(&t, &d, &err);
    int status = rc != LEAT_OK ? leat_cli_fail(&err) : t.bad ? LEAT_EXIT_FAILURE : LEAT_EXIT_OK;
    int written = leat_cli_finish();
    if (written != LEAT_EXIT_OK)
        status = written;
    if (t.left)
        _exit(status); /* a thread that hangs may still use what would be closed here */
    free(d.chunk_data);
    free(d.object);
    leat_dataset_close(d.dataset);
    leat_home_close(&d.home);
    return status;
}

const struct leat_command leat_command_doctor = {
    .name = "doctor",
    .arguments = "[URL]",
    .summary = "look for what is wrong or slow: machine, bucket, dataset",
    .details =
        "Prints one line per check: ok, note (worth knowing), bad (must be fixed) or skipped, what was found, and "
        "what to do about it. Without a URL only the machine is checked: cores, memory, limits, GPU, agent, cache "
        "folder. With the address of a dataset, bucket or folder it also checks keys, name, certificates, clock, "
        "region, latency, line, and how fast this machine decodes the dataset's own pictures.\n\nEvery check has a "
        "deadline; together they take about 15 seconds with a URL. Each measurement fetches at most --bytes; all of "
        "them cost a few hundred requests. Nothing is written to the bucket, and nothing is left on the disk. No "
        "secret is printed: keys are shown by the last characters of their id.\n\nThe exit status is 0 if nothing "
        "has to be fixed, else 1.",
    .examples = "  leat doctor\n  leat doctor s3://bucket/imagenet/train --needs 3000\n"
                "  leat doctor --json s3://bucket/imagenet/train | \\\n"
                "      jq '.findings[] | select(.state == \"bad\")'\n",
    .options = options,
    .settings_size = sizeof(struct leat_doctor_settings),
    .arguments_min = 0,
    .arguments_max = 1,
    .run = run,
};
