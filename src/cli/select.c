#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/progress.h"
#include "dataset/filter.h"
#include "dataset/publish.h"
#include "dataset/selection.h"
#include "store/store.h"

#define PARTS_MAX 32u
#define LIST_MAX  ((size_t)1 << 31)

struct select_settings {
    struct leat_cli_store store;
    const char *where;
    struct leat_option_list keys;
    const char *list;
    bool ignore_missing;
    double fraction;
    uint64_t seed;
    const char *split;
    const char *numbers;
    const char *name;
    bool replace;
    bool dry_run;
    uint64_t jobs;
    struct leat_cli_progress progress;
};

static const struct leat_option options[] = {
    {"where", 'w', LEAT_OPTION_STRING, offsetof(struct select_settings, where), "CONDITION", NULL, NULL,
     "samples that meet this condition, such as: cls in (3, 5) and width >= 256"},
    {"key", 'k', LEAT_OPTION_LIST, offsetof(struct select_settings, keys), "PATTERN", NULL, NULL,
     "samples whose key matches: '*' stands for any characters, including '/', '?' for one; may be given several "
     "times, to match any of them"},
    {"keys", 0, LEAT_OPTION_STRING, offsetof(struct select_settings, list), "FILE", NULL, NULL,
     "samples whose key is in this file: one per line, or each followed by a NUL"},
    {"ignore-missing", 0, LEAT_OPTION_FLAG, offsetof(struct select_settings, ignore_missing), NULL, NULL, NULL,
     "with --keys: continue even if the dataset has no sample for some keys"},
    {"numbers", 'n', LEAT_OPTION_STRING, offsetof(struct select_settings, numbers), "RANGES", NULL, NULL,
     "samples with these numbers: 0:1000,5000:,17 (0:1000 ends before 1000)"},
    {"fraction", 'f', LEAT_OPTION_DOUBLE, offsetof(struct select_settings, fraction), "X", "1", NULL,
     "this share of the samples, drawn by their keys"},
    {"split", 0, LEAT_OPTION_STRING, offsetof(struct select_settings, split), "NAME=X,…", NULL, NULL,
     "make several selections at once, drawn by key: train=0.9,val=0.1"},
    {"seed", 0, LEAT_OPTION_U64, offsetof(struct select_settings, seed), "N", "0", NULL,
     "another seed draws other samples (--fraction, --split)"},
    {"name", 0, LEAT_OPTION_STRING, offsetof(struct select_settings, name), "NAME", NULL, NULL,
     "name of the new version; with --split, the beginning of the names"},
    {"replace", 0, LEAT_OPTION_FLAG, offsetof(struct select_settings, replace), NULL, NULL, NULL,
     "take the name from another version"},
    {"dry-run", 0, LEAT_OPTION_FLAG, offsetof(struct select_settings, dry_run), NULL, NULL, NULL,
     "say how many samples would be selected, and store nothing"},
    {"jobs", 'j', LEAT_OPTION_U64, offsetof(struct select_settings, jobs), "N", NULL, "LEAT_JOBS",
     "threads (default: one per CPU)"},
    {"quiet", 'q', LEAT_OPTION_FLAG, offsetof(struct select_settings, progress.quiet), NULL, NULL, NULL, "no progress"},
    LEAT_PROGRESS_OPTION(offsetof(struct select_settings, progress)),
    LEAT_STORE_OPTIONS(offsetof(struct select_settings, store)),
    {0},
};

/* One of the selections that are made. */
struct part {
    char name[LEAT_VERSION_NAME_MAX]; /* "": it has none */
    double to;                        /* draws below this, and not below the one before, are its */
    struct leat_selection_builder *builder;
};

struct selecting {
    const struct select_settings *settings;
    struct leat_dataset *dataset;
    struct leat_filter *filter;
    char *list;
    size_t list_n;
    struct part parts[PARTS_MAX];
    uint32_t parts_n;
};

/* Splits */

static leat_status bad_split(const struct selecting *s, const char *why, struct leat_error *err)
{
    return leat_fail(err, LEAT_INVALID, "--split: %s: '%.200s'; it looks like train=0.9,val=0.1", why,
                     s->settings->split);
}

static leat_status add_part(struct selecting *s, const char *text, size_t n, struct leat_error *err)
{
    char share[40];
    char object[LEAT_NAME_MAX];
    const char *equal = memchr(text, '=', n);
    const char *prefix = s->settings->name;
    struct part *p = &s->parts[s->parts_n];
    double x;
    size_t share_n = equal ? n - (size_t)(equal - text) - 1 : 0;
    if (s->parts_n == PARTS_MAX)
        return bad_split(s, "too many parts", err);
    if (!equal || share_n >= sizeof share)
        return bad_split(s, "a part has no share", err);
    memcpy(share, equal + 1, share_n);
    share[share_n] = '\0';
    leat_status rc = leat_parse_double(share, "--split", &x, err);
    if (rc != LEAT_OK)
        return rc;
    if (!(x > 0 && x <= 1))
        return bad_split(s, "a share must be above 0 and at most 1", err);
    int length = snprintf(p->name, sizeof p->name, "%s%s%.*s", prefix ? prefix : "", prefix ? "-" : "",
                          (int)(equal - text), text);
    if (length < 0 || (size_t)length >= sizeof p->name || equal == text)
        return bad_split(s, "a part's name is missing or too long", err);
    for (uint32_t i = 0; i < s->parts_n; i++) {
        if (strcmp(s->parts[i].name, p->name) == 0)
            return bad_split(s, "two parts have the same name", err);
    }
    p->to = (s->parts_n ? p[-1].to : 0) + x;
    s->parts_n++;
    return leat_name_named(p->name, object, err);
}

static leat_status read_split(struct selecting *s, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (const char *at = s->settings->split; rc == LEAT_OK && at;) {
        const char *comma = strchr(at, ',');
        rc = add_part(s, at, comma ? (size_t)(comma - at) : strlen(at), err);
        at = comma ? comma + 1 : NULL;
    }
    if (rc != LEAT_OK)
        return rc;
    struct part *last = &s->parts[s->parts_n - 1];
    if (last->to > 1 + 1e-9)
        return bad_split(s, "the shares add up to more than 1", err);
    if (last->to > 1 - 1e-9)
        last->to = 1; /* 0.7 + 0.2 + 0.1 is a little less, and somebody has to get the last draw */
    return LEAT_OK;
}

static leat_status read_parts(struct selecting *s, struct leat_error *err)
{
    const struct select_settings *set = s->settings;
    char object[LEAT_NAME_MAX];
    if (!set->where && !set->keys.count && !set->list && !set->numbers && !set->split && set->fraction == 1)
        return leat_fail(err, LEAT_INVALID,
                         "say what to select: --where, --key, --keys, --numbers, --fraction or --split");
    if (set->ignore_missing && !set->list)
        return leat_fail(err, LEAT_INVALID, "--ignore-missing is about the list of --keys: give one");
    if (set->seed && !set->split && set->fraction == 1)
        return leat_fail(err, LEAT_INVALID, "--seed is of the draws of --fraction and --split: give one of them");
    if (set->split)
        return read_split(s, err);
    if (!set->name && !set->dry_run)
        return leat_fail(err, LEAT_INVALID, "give the new version a name: --name NAME (or look first: --dry-run)");
    s->parts[s->parts_n++].to = 1;
    if (!set->name)
        return LEAT_OK;
    leat_status rc = leat_name_named(set->name, object, err);
    if (rc == LEAT_OK)
        snprintf(s->parts[0].name, sizeof s->parts[0].name, "%s", set->name);
    return rc;
}

/* Choosing */

static leat_status visit(void *user, uint32_t chunk, uint64_t first, struct leat_error *err)
{
    struct selecting *s = user;
    const struct select_settings *set = s->settings;
    uint32_t n = leat_dataset_counts(s->dataset)[chunk];
    uint64_t seed = leat_filter_seed(s->dataset, set->seed);
    unsigned wants = leat_filter_wants(s->filter) | (set->split ? LEAT_SLICE_KEYS : 0u);
    struct leat_slice slice = {0};
    if (!set->list && leat_filter_skips(s->filter, first, n))
        return LEAT_OK;
    leat_status rc = leat_slice_open(s->dataset, chunk, wants, &slice, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++) {
        uint32_t index = leat_dataset_index(s->dataset, chunk, i);
        uint32_t part = 0;
        bool fits = false;
        rc = leat_filter_match(s->filter, &slice, index, first + i, &fits, err);
        if (rc == LEAT_OK && fits && set->split) {
            size_t key_n;
            const char *key = leat_slice_key(&slice, index, &key_n);
            double draw = leat_filter_draw("select-split", seed, key, key_n, slice.first + index);
            while (part < s->parts_n && draw >= s->parts[part].to)
                part++;
        }
        if (rc == LEAT_OK && fits && part < s->parts_n)
            leat_selection_set(s->parts[part].builder, chunk, index, true);
    }
    leat_slice_close(&slice);
    return rc;
}

static leat_status check_list(const struct selecting *s, struct leat_error *err)
{
    const char *first = "";
    size_t n = 0;
    size_t missing = leat_filter_missing(s->filter, &first, &n);
    if (!missing)
        return LEAT_OK;
    char *shown = leat_cli_show_key(first, n);
    leat_status rc = LEAT_OK;
    if (!s->settings->ignore_missing)
        rc = leat_fail(err, LEAT_NOT_FOUND,
                       "keys of '%s' that are not in the dataset: %zu, the first '%.200s'; --ignore-missing "
                       "continues without them",
                       s->settings->list, missing, shown ? shown : "");
    else
        fprintf(stderr, "leat: keys of '%s' that are not in the dataset: %zu, the first '%.200s'\n", s->settings->list,
                missing, shown ? shown : "");
    free(shown);
    return rc;
}

static leat_status choose(struct selecting *s, struct leat_error *err)
{
    const struct select_settings *set = s->settings;
    struct leat_filter_opts opts = {.where = set->where,
                                    .patterns = set->keys.item,
                                    .patterns_n = set->keys.count,
                                    .keys = s->list,
                                    .keys_n = s->list_n,
                                    .numbers = set->numbers,
                                    .fraction = set->fraction,
                                    .seed = set->seed};
    leat_status rc = leat_filter_open(s->dataset, &opts, &s->filter, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < s->parts_n; i++)
        rc = leat_selection_builder_open(leat_dataset_root(s->dataset), &s->parts[i].builder, err);
    if (rc != LEAT_OK)
        return rc;
    if (leat_filter_reads_chunks(s->filter) && !set->progress.quiet)
        fputs("leat: the condition is about texts, so the chunks must be read\n", stderr);
    struct leat_cli_chunks run = {.dataset = s->dataset,
                                  .threads = set->jobs < 1000 ? (unsigned)set->jobs : 1000,
                                  .progress = set->progress,
                                  .visit = visit,
                                  .user = s};
    rc = leat_cli_each_chunk(&run, err);
    if (rc == LEAT_OK && leat_filter_lacks_sizes(s->filter))
        rc = leat_fail(err, LEAT_UNSUPPORTED,
                       "--where: width, height and channels of these images are not known: 'leat index' does not read "
                       "single objects; select by other fields, or pack the dataset");
    return rc == LEAT_OK ? check_list(s, err) : rc;
}

/* Storing */

static uint32_t chunks_of(const struct selecting *s, const struct part *p)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < leat_dataset_root(s->dataset)->chunks; c++)
        n += leat_selection_in_chunk(p->builder, c) > 0;
    return n;
}

static leat_status save(const struct selecting *s, const struct leat_home *home, const struct part *p,
                        struct leat_error *err)
{
    struct leat_publish_opts opts = {.name = p->name, .keep_current = true, .replace = s->settings->replace};
    struct leat_publish publish;
    struct leat_rely rely = {0};
    struct leat_selection_files files = {0};
    char name[LEAT_NAME_MAX];
    char id[2 * LEAT_SHA256_SIZE + 1] = "-";
    leat_status rc = LEAT_OK;
    if (!s->settings->dry_run) {
        rc = leat_publish_begin(home, &opts, &publish, err);
        if (rc == LEAT_OK)
            rc = leat_selection_write(p->builder, &files, err);
        if (rc == LEAT_OK) {
            leat_name_section(files.section_name, name);
            rc = leat_home_put(home, name, files.section.data, files.section.len, err);
        }
        if (rc == LEAT_OK)
            rc = leat_rely_on_root(&rely, leat_dataset_root_id(s->dataset), err);
        publish.rely = &rely;
        if (rc == LEAT_OK)
            rc = leat_publish_root(home, &files.root, &files.pointer, &publish, err);
        if (rc == LEAT_OK)
            leat_hex(files.pointer.id, sizeof files.pointer.id, id);
        leat_selection_files_free(&files);
        leat_rely_free(&rely);
    }
    if (rc == LEAT_OK)
        printf("%s %" PRIu64 " samples of %" PRIu64 ", in %" PRIu32 " of %" PRIu32 " chunks  %s\n",
               *p->name ? p->name : "-", leat_selection_total(p->builder), leat_dataset_samples(s->dataset),
               chunks_of(s, p), leat_dataset_root(s->dataset)->chunks, id);
    return rc;
}

/* Nothing is stored before all of them are known to hold something, and their names to be free. */
static leat_status save_all(const struct selecting *s, const struct leat_home *home, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < s->parts_n; i++) {
        struct leat_publish_opts opts = {
            .name = s->parts[i].name, .keep_current = true, .replace = s->settings->replace};
        struct leat_publish publish;
        if (leat_selection_total(s->parts[i].builder) == 0)
            rc = leat_fail(err, LEAT_INVALID, "no sample is selected%s%s: nothing was stored",
                           s->settings->split ? " for " : "", s->settings->split ? s->parts[i].name : "");
        else if (!s->settings->dry_run)
            rc = leat_publish_begin(home, &opts, &publish, err);
    }
    for (uint32_t i = 0; rc == LEAT_OK && i < s->parts_n; i++)
        rc = save(s, home, &s->parts[i], err);
    return rc;
}

static leat_status read_list(struct selecting *s, struct leat_error *err)
{
    struct leat_store *store = NULL;
    char *key = NULL;
    if (!s->settings->list)
        return LEAT_OK;
    leat_status rc = leat_cli_store_open(&s->settings->store, s->settings->list, &store, &key, err);
    if (rc == LEAT_OK)
        rc = leat_store_load(store, key, LIST_MAX, &s->list, &s->list_n, NULL, err);
    leat_store_close(store);
    free(key);
    return rc;
}

/* The place of the dataset, without the version: selections lie beside it. */
static leat_status open_place(const struct selecting *s, const char *dest, struct leat_home *out,
                              struct leat_error *err)
{
    const struct leat_home *from = leat_dataset_home(s->dataset);
    leat_status rc = leat_cli_home_open(&s->settings->store, dest ? dest : from->url, out, err);
    if (rc != LEAT_OK || !dest)
        return rc;
    rc = leat_home_check_plain(out, err);
    if (rc == LEAT_OK && (!leat_cli_same_store(from->store, out->store) || strcmp(from->prefix, out->prefix) != 0))
        rc = leat_fail(err, LEAT_UNSUPPORTED,
                       "a selection shares the chunks of its dataset and stays with them, at %s; use 'leat unpack' "
                       "and 'leat pack' to make a separate dataset elsewhere",
                       from->url);
    return rc;
}

static int run(const void *settings, int argc, char **argv)
{
    struct selecting s = {.settings = settings};
    struct leat_home home = {0};
    struct leat_error err;
    leat_status rc = read_parts(&s, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_store_one_kind(&s.settings->store, argv, argc, (const char *const[2]){s.settings->list}, &err);
    if (rc == LEAT_OK)
        rc = read_list(&s, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_dataset_open(&s.settings->store, argv[0], &s.dataset, &err);
    if (rc == LEAT_OK)
        rc = open_place(&s, argc > 1 ? argv[1] : NULL, &home, &err);
    if (rc == LEAT_OK)
        rc = choose(&s, &err);
    if (rc == LEAT_OK)
        rc = save_all(&s, &home, &err);
    leat_home_close(&home);
    leat_filter_close(s.filter);
    for (uint32_t i = 0; i < s.parts_n; i++)
        leat_selection_builder_close(s.parts[i].builder);
    leat_dataset_close(s.dataset);
    free(s.list);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_select = {
    .name = "select",
    .arguments = "DATASET [DEST]",
    .summary = "make a version of a dataset with only some of its samples",
    .details =
        "No chunk is copied: the new version shares the chunks and says which samples count. It is stored with "
        "DATASET (DEST can only be the same place), is read as DATASET?name=NAME, and leaves the current version as "
        "it is. If several conditions are given, a sample must meet all of them.\n\nA condition compares fields "
        "with numbers and 'texts' by == != < <= > >= and in (…), joined by and, or, not and parentheses. Besides "
        "the fields there are: key; the size of a field with bytes; width, height and channels of an image "
        "(jpg.width, or just width if there is one image). If the values of a field have names, a name such as "
        "'cat' stands for its number. A missing value equals none. Texts are read from the chunks; everything else "
        "is known without them.\n\n--fraction and --split draw by the sample's key: a sample that is in train stays "
        "there when the dataset grows, and samples with the same key stay together. A smaller fraction is part of a "
        "larger one. If the shares of --split add up to less than 1, the rest is in no part. Draws from a selection "
        "depend "
        "on that selection as well, so half of a half is a quarter.",
    .examples = "  leat select s3://bucket/photos --name large-cats \\\n"
                "      --where 'cls == 3 and width >= 256'\n"
                "  leat select s3://bucket/photos --split train=0.9,val=0.1\n"
                "  leat select s3://bucket/photos --key 'train/*' --fraction 0.1 --name tenth\n"
                "  leat select 's3://bucket/photos?name=train' --numbers 0:1000 --name smoke\n",
    .options = options,
    .settings_size = sizeof(struct select_settings),
    .arguments_min = 1,
    .arguments_max = 2,
    .run = run,
};
