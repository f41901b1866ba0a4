#include "cli/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "plan/launch.h"

#define AT(member) offsetof(struct plan_settings, member)

static const struct leat_option options[] = {
    {"job", 'j', LEAT_OPTION_STRING, AT(job), "FILE", NULL, NULL, "what to train: job.toml or .json"},
    {"catalog", 'c', LEAT_OPTION_LIST, AT(catalogs), "FILE", NULL, "LEAT_CATALOG",
     "machines and prices: a CSV with SkyPilot's columns; may be given several times"},
    {"hardware", 0, LEAT_OPTION_LIST, AT(hardware), "FILE", NULL, NULL,
     "figures of accelerators and machine types that add to the built-in table or override it: a CSV"},
    {"measurements", 'm', LEAT_OPTION_LIST, AT(measurements), "FILE", NULL, NULL,
     "measured speeds of this job, or of other models to fit: a CSV; may be given several times"},
    {"report", 0, LEAT_OPTION_LIST, AT(reports), "FILE", NULL, NULL,
     "a profiler's report.json with stalls; may be given several times"},
    {"revocations", 0, LEAT_OPTION_LIST, AT(revocations), "FILE", NULL, NULL,
     "how long transient machines live, by accelerator or type and region: a CSV of points, of observed machines or "
     "of bands, or Amazon's spot-advisor-data.json; may be given several times"},
    {"egress", 0, LEAT_OPTION_LIST, AT(egress), "FILE", NULL, NULL,
     "what it costs to move bytes out of the region of the data (data.region): a CSV with from, to, usd_per_gb; may "
     "be given several times"},
    {"traces", 0, LEAT_OPTION_STRING, AT(traces), "FILE", NULL, NULL,
     "availability traces by accelerator, region and zone: a CSV that names the files"},
    {"resume", 0, LEAT_OPTION_STRING, AT(resume), "RUN.json", NULL, NULL,
     "plan the rest of a run from what it has done and measured so far"},
    {"compare", 0, LEAT_OPTION_STRING, AT(compare), "RUN.json", NULL, NULL,
     "compare a finished run with its prediction, and predict again with what it measured"},
    {"as", 0, LEAT_OPTION_STRING, AT(as), "LAUNCHER", "skypilot", NULL,
     "with 'launch': skypilot (a task), sbatch (a script) or torchrun (a line)"},
    {"script", 0, LEAT_OPTION_STRING, AT(script), "COMMAND", "train.py", NULL,
     "with 'launch': the script that torchrun runs; {checkpoint_seconds}, {checkpoint_steps}, {batch} and "
     "{accumulate} are filled in"},
    {"deadline", 0, LEAT_OPTION_STRING, AT(deadline), "TIME", NULL, NULL,
     "choose the cheapest that ends within this time, for example 24h"},
    {"budget", 0, LEAT_OPTION_STRING, AT(budget), "MONEY", NULL, NULL,
     "choose the fastest that costs no more, for example 500usd"},
    {"min-accuracy", 0, LEAT_OPTION_STRING, AT(min_accuracy), "PERCENT", NULL, NULL,
     "no more asynchronous workers than this accuracy allows, if the job says how it falls"},
    {"risk", 0, LEAT_OPTION_STRING, AT(risk), "pNN", "p90", NULL,
     "how surely deadline and budget must be met: with p95, one run in twenty may miss"},
    {"max-nodes", 0, LEAT_OPTION_STRING, AT(max_nodes), "N", "8", NULL, "largest cluster to consider"},
    {"region", 0, LEAT_OPTION_LIST, AT(regions), "NAME", NULL, NULL,
     "only this region, or several separated by commas; may be given several times"},
    {"set", 0, LEAT_OPTION_LIST, AT(sets), "KEY=VALUE", NULL, NULL,
     "change a setting of the job, for example checkpoint.stall=2s; may be given several times"},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "print the records as JSON"},
    {"html", 0, LEAT_OPTION_STRING, AT(html), "FILE", NULL, NULL, "also write an HTML page with a chart of the choice"},
    {"all", 'a', LEAT_OPTION_FLAG, AT(all), NULL, NULL, NULL, "show every configuration, not only the sensible ones"},
    {"predict", 0, LEAT_OPTION_STRING, AT(predict), "FILE", NULL, NULL,
     "with 'fit': a CSV of rows whose time is to be predicted"},
    {"seed", 0, LEAT_OPTION_STRING, AT(seed), "N", "1", NULL, "seed of the draws for the intervals"},
    {"draws", 0, LEAT_OPTION_STRING, AT(draws), "N", "400", NULL, "runs drawn for each configuration"},
    {"name", 0, LEAT_OPTION_STRING, AT(name), "NAME", NULL, NULL, "the job's name in its measurements"},
    {"samples", 0, LEAT_OPTION_STRING, AT(samples), "N", NULL, NULL, "samples in the dataset"},
    {"epochs", 0, LEAT_OPTION_STRING, AT(epochs), "N", NULL, NULL, "how many times all samples are read"},
    {"steps", 0, LEAT_OPTION_STRING, AT(steps), "N", NULL, NULL,
     "instead of --epochs: steps of one worker's batch "
     "each"},
    {"batch", 0, LEAT_OPTION_STRING, AT(batch), "N", NULL, NULL, "samples of one GPU in one step"},
    {"mode", 0, LEAT_OPTION_STRING, AT(mode), "MODE", NULL, NULL, "allreduce or async (with a parameter server)"},
    {"flops", 0, LEAT_OPTION_STRING, AT(flops), "N", NULL, NULL, "FLOPs of one sample, forward and backward"},
    {"parameters", 0, LEAT_OPTION_STRING, AT(parameters), "N", NULL, NULL, "parameters of the model"},
    {"parameter-bytes", 0, LEAT_OPTION_STRING, AT(parameter_bytes), "SIZE", NULL, NULL, "bytes of the parameters"},
    {"tensors", 0, LEAT_OPTION_STRING, AT(tensors), "N", NULL, NULL, "parameter tensors of the model"},
    {"checkpoint-bytes", 0, LEAT_OPTION_STRING, AT(checkpoint_bytes), "SIZE", NULL, NULL, "bytes of a checkpoint"},
    {"checkpoint-time", 0, LEAT_OPTION_STRING, AT(checkpoint_time), "TIME", NULL, NULL, "time to write a checkpoint"},
    {"dataset", 0, LEAT_OPTION_STRING, AT(dataset), "SIZE", NULL, NULL, "bytes of the dataset"},
    {0},
};

/* Everything read, kept until the plan is made. */
struct files {
    struct leat_buf *buf;
    char **path; /* of traces: made here */
    size_t count;
    struct leat_plan_text hardware[LEAT_OPTION_LIST_MAX];
    struct leat_plan_text measurements[LEAT_OPTION_LIST_MAX];
    struct leat_plan_text reports[LEAT_OPTION_LIST_MAX];
    struct leat_plan_text revocations[LEAT_OPTION_LIST_MAX];
    struct leat_plan_text egress[LEAT_OPTION_LIST_MAX];
    struct leat_plan_catalog_file catalogs[LEAT_OPTION_LIST_MAX];
    char catalog_date[LEAT_OPTION_LIST_MAX][11];
    char today[11];
    struct leat_plan_setting settings[16 + LEAT_OPTION_LIST_MAX];
    char keys[LEAT_OPTION_LIST_MAX][80];
    struct leat_plan_text trace_files[LEAT_PLAN_TRACES_MAX];
};

#define FILES_ROOM (8 * LEAT_OPTION_LIST_MAX + LEAT_PLAN_TRACES_MAX)

static leat_status read_text(const char *path, struct files *f, char date[11], struct leat_plan_text *out,
                             struct leat_error *err)
{
    if (!path)
        return LEAT_OK;
    struct leat_buf *buf = &f->buf[f->count++];
    leat_buf_init(buf, PLAN_FILE_MAX);
    leat_status rc = leat_cli_plan_read(path, buf, date, err);
    if (rc == LEAT_OK)
        *out = (struct leat_plan_text){.name = path, .text = buf->data ? buf->data : "", .n = buf->len};
    return rc;
}

static leat_status read_list(const struct leat_option_list *list, struct files *f, struct leat_plan_text *out,
                             size_t *count, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < list->count; i++)
        rc = read_text(list->item[i], f, NULL, &out[i], err);
    *count = list->count;
    return rc;
}

static leat_status read_catalogs(const struct leat_option_list *list, struct files *f, struct leat_plan_inputs *in,
                                 struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < list->count; i++) {
        struct leat_plan_text t = {0};
        rc = read_text(list->item[i], f, f->catalog_date[i], &t, err);
        f->catalogs[i] = (struct leat_plan_catalog_file){t.name, t.text, t.n, f->catalog_date[i]};
    }
    in->catalogs = f->catalogs;
    in->catalog_count = list->count;
    return rc;
}

/* Relative to the index that names it, like a link in a page. */
static char *beside(const char *index, const char *name)
{
    const char *slash = strrchr(index, '/');
    struct leat_buf b;
    leat_buf_init(&b, 8192);
    if (*name != '/' && slash)
        leat_buf_add(&b, index, (size_t)(slash - index) + 1);
    leat_buf_str(&b, name);
    char *path = leat_buf_take(&b);
    leat_buf_free(&b);
    return path;
}

static leat_status read_traces(const char *path, struct files *f, struct leat_plan_inputs *in, struct leat_error *err)
{
    struct leat_plan_traces index = {0};
    leat_status rc = read_text(path, f, NULL, &in->traces, err);
    if (!path || rc != LEAT_OK)
        return rc;
    rc = leat_plan_traces_index(path, in->traces.text, in->traces.n, &index, err);
    for (size_t i = 0; rc == LEAT_OK && i < index.count; i++) {
        char *file = beside(path, index.row[i].file);
        f->path[i] = file;
        rc = file ? read_text(file, f, NULL, &f->trace_files[i], err)
                  : leat_fail(err, LEAT_NO_MEMORY, "no memory to read traces");
        if (rc != LEAT_OK)
            rc = leat_fail_context(err, rc, "%s line %u", path, index.row[i].line);
    }
    in->trace_files = f->trace_files;
    in->trace_count = index.count;
    leat_plan_traces_free(&index);
    return rc;
}

static struct files *files_new(void)
{
    struct files *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->buf = calloc(FILES_ROOM, sizeof *f->buf);
    f->path = calloc(LEAT_PLAN_TRACES_MAX, sizeof *f->path);
    if (!f->buf || !f->path) {
        free(f->buf);
        free(f->path);
        free(f);
        return NULL;
    }
    leat_cli_plan_today(f->today);
    return f;
}

static void files_free(struct files *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++)
        leat_buf_free(&f->buf[i]);
    for (size_t i = 0; i < LEAT_PLAN_TRACES_MAX; i++)
        free(f->path[i]);
    free(f->buf);
    free(f->path);
    free(f);
}

static leat_status take_sets(const struct plan_settings *s, struct files *f, size_t *n, struct leat_error *err)
{
    for (size_t i = 0; i < s->sets.count; i++) {
        const char *text = s->sets.item[i];
        size_t at = strcspn(text, "=");
        if (!text[at] || at >= sizeof f->keys[i])
            return leat_fail(err, LEAT_INVALID, "--set: '%s' is not KEY=VALUE", text);
        snprintf(f->keys[i], sizeof f->keys[i], "%.*s", (int)at, text);
        f->settings[(*n)++] = (struct leat_plan_setting){f->keys[i], text + at + 1, "--set"};
    }
    return LEAT_OK;
}

static size_t take_flags(const struct plan_settings *s, struct leat_plan_setting out[])
{
    const struct leat_plan_setting flags[] = {
        {"job.name", s->name, "--name"},
        {"job.samples", s->samples, "--samples"},
        {"job.epochs", s->epochs, "--epochs"},
        {"job.steps", s->steps, "--steps"},
        {"job.batch", s->batch, "--batch"},
        {"job.mode", s->mode, "--mode"},
        {"model.flops", s->flops, "--flops"},
        {"model.parameters", s->parameters, "--parameters"},
        {"model.parameter_bytes", s->parameter_bytes, "--parameter-bytes"},
        {"model.tensors", s->tensors, "--tensors"},
        {"checkpoint.bytes", s->checkpoint_bytes, "--checkpoint-bytes"},
        {"checkpoint.time", s->checkpoint_time, "--checkpoint-time"},
        {"data.dataset", s->dataset, "--dataset"},
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (flags[i].text)
            out[n++] = flags[i];
    }
    return n;
}

static bool interrupted(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

static leat_status take_options(const struct plan_settings *s, struct leat_plan_options *out, struct leat_error *err)
{
    const struct {
        const char *key;
        const char *text;
    } given[] = {{"deadline", s->deadline}, {"budget", s->budget},       {"min_accuracy", s->min_accuracy},
                 {"risk", s->risk},         {"max_nodes", s->max_nodes}, {"seed", s->seed},
                 {"draws", s->draws}};
    struct leat_plan_options o = leat_plan_options_default();
    leat_status rc = LEAT_OK;
    o.interrupted = interrupted;
    for (size_t i = 0; rc == LEAT_OK && i < sizeof given / sizeof *given; i++) {
        if (given[i].text)
            rc = leat_plan_option_set(&o, given[i].key, given[i].text, err);
    }
    for (size_t i = 0; rc == LEAT_OK && i < s->regions.count; i++)
        rc = leat_plan_option_set(&o, "region", s->regions.item[i], err);
    if (rc == LEAT_OK)
        *out = o;
    return rc;
}

static leat_status print_comparison(const struct plan_settings *s, const struct leat_plan_inputs *in,
                                    const struct leat_plan_options *o, struct leat_error *err)
{
    struct leat_plan_comparison c;
    struct leat_buf text;
    leat_buf_init(&text, 1 << 20);
    leat_status rc = leat_plan_compare(in, o, &c, err);
    if (rc == LEAT_OK && s->json) {
        rc = leat_plan_compare_json(&c, &text, err);
        if (rc == LEAT_OK)
            fwrite(text.data, 1, text.len, stdout);
    } else if (rc == LEAT_OK) {
        leat_cli_plan_compared(&c, stdout);
    }
    leat_buf_free(&text);
    return rc;
}

/* With --compare nothing is left open: *out stays as it is. */
static leat_status open_plan(const struct plan_settings *s, struct leat_plan **out, struct leat_error *err)
{
    struct leat_plan_options o;
    struct files *f = files_new();
    if (!f)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read files");
    struct leat_plan_inputs in = {.settings = f->settings,
                                  .setting_count = take_flags(s, f->settings),
                                  .today = f->today,
                                  .hardware = f->hardware,
                                  .measurements = f->measurements,
                                  .reports = f->reports,
                                  .revocations = f->revocations,
                                  .egress = f->egress};
    leat_status rc = take_options(s, &o, err);
    if (rc == LEAT_OK)
        rc = take_sets(s, f, &in.setting_count, err);
    if (rc == LEAT_OK)
        rc = read_text(s->job, f, NULL, &in.job, err);
    if (rc == LEAT_OK)
        rc = read_catalogs(&s->catalogs, f, &in, err);
    if (rc == LEAT_OK)
        rc = read_list(&s->hardware, f, f->hardware, &in.hardware_count, err);
    if (rc == LEAT_OK)
        rc = read_list(&s->measurements, f, f->measurements, &in.measurement_count, err);
    if (rc == LEAT_OK)
        rc = read_list(&s->reports, f, f->reports, &in.report_count, err);
    if (rc == LEAT_OK)
        rc = read_list(&s->revocations, f, f->revocations, &in.revocation_count, err);
    if (rc == LEAT_OK)
        rc = read_list(&s->egress, f, f->egress, &in.egress_count, err);
    if (rc == LEAT_OK)
        rc = read_traces(s->traces, f, &in, err);
    if (rc == LEAT_OK)
        rc = read_text(s->resume ? s->resume : s->compare, f, NULL, &in.past, err);
    in.resume = s->resume != NULL;
    if (rc == LEAT_OK && s->compare)
        rc = print_comparison(s, &in, &o, err);
    else if (rc == LEAT_OK)
        rc = leat_plan_open(&in, &o, out, err);
    files_free(f);
    return rc;
}

static leat_status print_answer(const struct plan_settings *s, const struct leat_plan *plan, struct leat_error *err)
{
    struct leat_buf text;
    leat_status rc = LEAT_OK;
    leat_buf_init(&text, 512 << 20);
    if (s->html) {
        rc = leat_cli_plan_html(plan, &text, err);
        if (rc == LEAT_OK)
            rc = leat_cli_write_file(s->html, &text, err);
        leat_buf_clear(&text);
    }
    if (rc == LEAT_OK && s->json) {
        rc = leat_plan_json(plan, s->all, &text, err);
        if (rc == LEAT_OK)
            fwrite(text.data, 1, text.len, stdout);
    } else if (rc == LEAT_OK) {
        leat_cli_plan_table(plan, s->all, stdout);
    }
    leat_buf_free(&text);
    return rc;
}

static leat_status print_explanation(const struct plan_settings *s, struct leat_plan *plan, const char *name,
                                     struct leat_error *err)
{
    struct leat_plan_record record;
    struct leat_plan_terms *terms = calloc(1, sizeof *terms);
    struct leat_buf text;
    if (!terms)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an explanation");
    leat_buf_init(&text, 1 << 20);
    leat_status rc = leat_plan_explain(plan, name, &record, terms, err);
    if (rc == LEAT_OK && s->json) {
        rc = leat_plan_explain_json(plan, &record, terms, &text, err);
        if (rc == LEAT_OK)
            fwrite(text.data, 1, text.len, stdout);
    } else if (rc == LEAT_OK) {
        leat_cli_plan_lines(plan, &record, terms, stdout);
    }
    leat_buf_free(&text);
    free(terms);
    return rc;
}

static leat_status print_launch(const struct plan_settings *s, struct leat_plan *plan, const char *name,
                                struct leat_error *err)
{
    enum leat_plan_launcher launcher = LEAT_PLAN_SKYPILOT;
    struct leat_buf text;
    struct leat_plan_record record;
    leat_buf_init(&text, 1 << 20);
    leat_status rc = leat_plan_launcher_parse(s->as, &launcher, err);
    if (rc == LEAT_OK)
        rc = leat_plan_find(plan, name, &record, err);
    if (rc == LEAT_OK)
        rc = leat_plan_launch(plan, &record, launcher, s->script, &text, err);
    if (rc == LEAT_OK)
        fwrite(text.data, 1, text.len, stdout);
    leat_buf_free(&text);
    return rc;
}

/* The verbs that need a plan: none, explain and launch. */
enum verb { SHOW, EXPLAIN, LAUNCH };

static int run_plan(const struct plan_settings *s, enum verb verb, const char *config)
{
    struct leat_plan *plan = NULL;
    struct leat_error err;
    bool met = true;
    leat_status rc = open_plan(s, &plan, &err);
    if (rc == LEAT_OK && plan)
        rc = leat_plan_price(plan, &err);
    if (rc == LEAT_OK && plan) {
        met = leat_plan_choose_records(plan);
        rc = verb == EXPLAIN  ? print_explanation(s, plan, config, &err)
             : verb == LAUNCH ? print_launch(s, plan, config, &err)
                              : print_answer(s, plan, &err);
    }
    if (plan) {
        leat_cli_plan_notes(leat_plan_notes_of(plan), LEAT_LOG_WARN);
        leat_cli_plan_notes(leat_plan_left_out(plan), LEAT_LOG_INFO);
    }
    leat_plan_close(plan);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    int status = leat_cli_finish();
    if (status == LEAT_EXIT_OK && !met && verb != EXPLAIN && !config) {
        fputs("leat: nothing meets the deadline, the budget and the accuracy asked for; the first line comes nearest\n",
              stderr);
        status = LEAT_EXIT_FAILURE;
    }
    return status;
}

static int run(const void *settings, int argc, char **argv)
{
    const struct plan_settings *s = settings;
    const char *verb = argc ? argv[0] : "";
    bool fit = strcmp(verb, "fit") == 0;
    bool launch = strcmp(verb, "launch") == 0;
    if (s->predict && !fit)
        return leat_cli_failf(LEAT_INVALID, "--predict belongs to 'leat plan fit DATA.csv'");
    if (argc && (s->html || s->all))
        return leat_cli_failf(LEAT_INVALID, "%s does not belong to 'leat plan %s'", s->html ? "--html" : "--all", verb);
    if (!launch && (strcmp(s->as, "skypilot") != 0 || strcmp(s->script, "train.py") != 0))
        return leat_cli_failf(LEAT_INVALID, "--as and --script belong to 'leat plan launch [CONFIG]'");
    if (launch && s->json)
        return leat_cli_failf(LEAT_INVALID, "--json does not belong to 'leat plan launch'");
    if (s->compare && (argc || s->resume || s->html || s->all))
        return leat_cli_failf(LEAT_INVALID, "--compare cannot be combined with %s",
                              argc        ? verb
                              : s->resume ? "--resume"
                              : s->html   ? "--html"
                                          : "--all");
    if (fit && s->resume)
        return leat_cli_failf(LEAT_INVALID, "--resume does not belong to 'leat plan fit'");
    if (!argc)
        return run_plan(s, SHOW, NULL);
    if (launch)
        return run_plan(s, LAUNCH, argc > 1 ? argv[1] : NULL);
    if (!fit && strcmp(verb, "explain") != 0)
        return leat_cli_failf(LEAT_INVALID, "'%s' is not one of explain, launch or fit", verb);
    if (argc < 2)
        return leat_cli_failf(LEAT_INVALID, "too few arguments: leat plan %s", fit ? "fit DATA.csv" : "explain CONFIG");
    return fit ? leat_cli_plan_fit(s, argv[1]) : run_plan(s, EXPLAIN, argv[1]);
}

const struct leat_command leat_command_plan = {
    .name = "plan",
    .arguments = "[explain CONFIG | launch [CONFIG] | fit DATA.csv]",
    .summary = "predict time and cost of a training, and choose a cluster",
    .details =
        "Prices every cluster that the catalog offers (by type, count, on-demand, transient or mixed, and data "
        "path) and shows those that nothing else beats in both time and money, each with the interval that holds "
        "nine of ten runs. With --deadline the cheapest that meets it is chosen, with --budget the fastest; if "
        "nothing does, the nearest is shown and the exit status is 1.\n\n'leat plan explain CONFIG' shows the "
        "calculation for one configuration line by line, with the source of each number. 'leat plan fit DATA.csv' "
        "fits step and checkpoint times to a table of measurements, prints the error of rows left out, and with "
        "--predict predicts the rows of another table; from a table of observed machines (start, end, how) it makes "
        "a table of lifetimes for --revocations.\n\n'leat plan launch [CONFIG]' writes the chosen configuration, or "
        "the one named, as a SkyPilot task, a Slurm script or a torchrun line, with its checkpoint interval. "
        "--resume plans the rest of a run that has begun, --compare compares a finished one with its "
        "prediction.\n\ndocs/plan.md describes every file; examples/plan has one of each.",
    .examples = "  leat plan -j job.toml -c catalog.csv -m speeds.csv \\\n"
                "      --revocations lifetimes.csv --deadline 24h\n"
                "  leat plan explain p3.2xlarge:1:on-demand:us-east-1:disk \\\n"
                "      -j job.toml -c catalog.csv -m speeds.csv\n"
                "  leat plan launch --as sbatch -j job.toml -c catalog.csv -m speeds.csv\n"
                "  leat plan --compare run.json -j job.toml -c catalog.csv -m speeds.csv\n"
                "  leat plan fit models.csv --predict mine.csv\n"
                "  leat plan fit machines.csv\n",
    .options = options,
    .settings_size = sizeof(struct plan_settings),
    .arguments_max = 2,
    .run = run,
};
