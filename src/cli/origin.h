/* Where samples come from, for the commands that make datasets of them: options, and opening an origin. */
#ifndef LEAT_CLI_ORIGIN_H
#define LEAT_CLI_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "cli/store_options.h"
#include "dataset/classes.h"
#include "dataset/dataset.h"
#include "dataset/listing.h"
#include "dataset/manifest.h"
#include "dataset/origin.h"
#include "dataset/raw_origin.h"
#include "dataset/tar_origin.h"
#include "dataset/token_origin.h"

struct leat_cli_origin {
    const char *format;
    const char *field;
    bool group;
    const char *missing;
    struct leat_option_list types;
    const char *labels;
    const char *label_regex;
    const char *label_column;
    const char *classes;
    const char *manifest;
    const char *path_column;
    const char *dtype;
    bool only_new;
};

/* Entries for an option table; `at` is the offset of a struct leat_cli_origin in the settings. */
#define LEAT_ORIGIN_OPTION(at, name) ((at) + offsetof(struct leat_cli_origin, name))
#define LEAT_ORIGIN_OPTIONS(at)                                                                                        \
    {"format",                                                                                                         \
     0,                                                                                                                \
     LEAT_OPTION_STRING,                                                                                               \
     LEAT_ORIGIN_OPTION(at, format),                                                                                   \
     "FORMAT",                                                                                                         \
     "auto",                                                                                                           \
     NULL,                                                                                                             \
     "raw: every object is a sample, or a file of one; tar: WebDataset's shards; tokens: files of tokens for "         \
     "language models (.bin, .npy, Megatron's .bin and .idx); auto: by the names"},                                    \
        {"dtype",                                                                                                      \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_ORIGIN_OPTION(at, dtype),                                                                                \
         "TYPE",                                                                                                       \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "tokens: type of tokens in files without a header: uint16, uint32, int32"},                                   \
        {"group",                                                                                                      \
         0,                                                                                                            \
         LEAT_OPTION_FLAG,                                                                                             \
         LEAT_ORIGIN_OPTION(at, group),                                                                                \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "raw: objects whose names differ only after the first dot (0001.jpg, 0001.txt) are one sample, "              \
         "with a field for each ending"},                                                                              \
        {"missing",                                                                                                    \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_ORIGIN_OPTION(at, missing),                                                                              \
         "WHAT",                                                                                                       \
         "error",                                                                                                      \
         NULL,                                                                                                         \
         "with --group, if a sample lacks a file: error, optional (the field becomes optional), or skip the sample"},  \
        {"field",                                                                                                      \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_ORIGIN_OPTION(at, field),                                                                                \
         "NAME",                                                                                                       \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "name of the field that holds the file (default: its ending, such as 'jpg'; 'image' or 'data' if there are "  \
         "several)"},                                                                                                  \
        {"type",                                                                                                       \
         0,                                                                                                            \
         LEAT_OPTION_LIST,                                                                                             \
         LEAT_ORIGIN_OPTION(at, types),                                                                                \
         "NAME=TYPE",                                                                                                  \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "type of a field, instead of what its ending says: bytes, image, string, json; in tar shards also int, "      \
         "parsed from text (cls=int); for a column of a manifest: int, float, string. May be given several times"},    \
        {"labels",                                                                                                     \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_ORIGIN_OPTION(at, labels),                                                                               \
         "HOW",                                                                                                        \
         "auto",                                                                                                       \
         NULL,                                                                                                         \
         "folder: the first folder of a path is the sample's label, the int field 'cls'; none: no labels; auto: "      \
         "folder, if every object is in one and there are no groups and no manifest"},                                 \
        {"label-regex",                                                                                                \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_ORIGIN_OPTION(at, label_regex),                                                                          \
         "REGEX",                                                                                                      \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "the label is what the first parentheses match in the path: 'class_(\\d+)/'. Numbers stay as they "           \
         "are, names are numbered"},                                                                                   \
        {"label-column",                                                                                               \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_ORIGIN_OPTION(at, label_column),                                                                         \
         "NAME",                                                                                                       \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "the label is the text in this column of the manifest; names are numbered"},                                  \
        {"classes",                                                                                                    \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_ORIGIN_OPTION(at, classes),                                                                              \
         "LIST",                                                                                                       \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "how labels are numbered: a text file with one name per line, the first is 0, or a dataset whose names "      \
         "are used. A label that is not in the list is an error"},                                                     \
        {"manifest",                                                                                                   \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_ORIGIN_OPTION(at, manifest),                                                                             \
         "FILE",                                                                                                       \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "a table (.csv, .tsv, .jsonl) of the samples: one column has their paths, the others become fields (int, "    \
         "float, string). Objects that are not in it are left out"},                                                   \
        {"only-new",                                                                                                   \
         0,                                                                                                            \
         LEAT_OPTION_FLAG,                                                                                             \
         LEAT_ORIGIN_OPTION(at, only_new),                                                                             \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "raw, with --add-to: leave out samples whose keys the dataset has already"},                                  \
    {                                                                                                                  \
        "path-column", 0, LEAT_OPTION_STRING, LEAT_ORIGIN_OPTION(at, path_column), "NAME", NULL, NULL,                 \
            "the manifest's column with the paths (default: path, file, filename, file_name or key)"                   \
    }

/* An origin with everything that it borrows. Zeroed before it is opened. */
struct leat_cli_opened {
    struct leat_origin *origin;
    struct leat_home *homes;
    uint32_t homes_n;
    struct leat_manifest manifest;
    struct leat_classes classes;
    struct leat_type_wish wishes[LEAT_OPTION_LIST_MAX];
    char *wish_names; /* what the wishes point to */
    struct leat_raw_counts counts;
    struct leat_tar_counts tar;
    struct leat_tar_progress tar_progress;
    struct leat_token_counts tokens;
    bool raw;              /* counts and labels are known */
    uint32_t saved;        /* parts of the listing that lie beside the dataset */
    _Atomic uint64_t seen; /* objects so far, for progress */
};

struct leat_cli_origin_opts {
    const struct leat_cli_origin *settings;
    const struct leat_cli_store *store;
    const struct leat_home *to;  /* where the dataset goes */
    unsigned threads;            /* 0: as it seems best */
    uint64_t chunk_bytes;        /* for origins that cut themselves */
    bool dry;                    /* nothing may be written */
    bool fresh;                  /* raw: what an interrupted run has listed is not used */
    bool unsaved;                /* raw: a listing is neither saved nor gone on with */
    uint64_t save_every_ns;      /* raw: how often a listing is saved, to go on with */
    bool merge;                  /* raw: the listing is put together of the parts that lie beside the dataset */
    struct leat_dataset *add_to; /* raw: what is in it already is refused, or left out; NULL: nothing */
    uint64_t seed;               /* raw: of the permutation; others have none, and refuse what is not 0 */
};

#define LEAT_CLI_SAVE_EVERY_NS                                                                                         \
    (10 * UINT64_C(1000000000)) /* the default: a format that saves nothing refuses others                             \
                                 */

/* The first option that only raw objects have, "--group", or NULL where none is given. */
const char *leat_cli_origin_raw_option(const struct leat_cli_origin *s);

/* Opens what the n URLs name, in the format that the settings or the names say. */
leat_status leat_cli_origin_open(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n,
                                 struct leat_cli_opened *out, struct leat_error *err);
/* One format each, for leat_cli_origin_open. */
leat_status leat_cli_open_tar(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n,
                              struct leat_cli_opened *o, struct leat_error *err);
leat_status leat_cli_open_tokens(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n,
                                 struct leat_cli_opened *o, struct leat_error *err);

/* What --type says, into o->wishes. */
leat_status leat_cli_read_wishes(const struct leat_cli_origin *s, struct leat_cli_opened *o, struct leat_error *err);

void leat_cli_origin_close(struct leat_cli_opened *o); /* zeroed and half-opened ones are allowed */

/* The dataset is published: removes what was saved of its listing. */
leat_status leat_cli_origin_done(const struct leat_cli_origin_opts *opts, struct leat_cli_opened *o,
                                 struct leat_error *err);

/* Lists part number `part` (0 …) of `parts` and saves it beside the dataset; *objects: how many there are in it. */
leat_status leat_cli_origin_part(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n, uint32_t part,
                                 uint32_t parts, struct leat_cli_opened *o, uint64_t *objects, struct leat_error *err);

/* Whether a part can be listed with these settings: what belongs to the merging, or is not raw, is refused. */
leat_status leat_cli_origin_check_part(const struct leat_cli_origin *s, char **urls, uint32_t n,
                                       struct leat_error *err);

/* Opens the dataset that samples are added to. Labels that are added have the numbers that they have there: s->classes
 * borrows `dest` for it. */
leat_status leat_cli_add_to(const struct leat_cli_store *store, const char *dest, struct leat_cli_origin *s,
                            struct leat_dataset **out, struct leat_error *err);

/* The keys of a dataset. */
struct leat_cli_key_hash;
struct leat_cli_known {
    struct leat_cli_key_hash *hashes; /* sorted */
    uint64_t n;
};
leat_status leat_cli_known_open(struct leat_dataset *d, struct leat_cli_known *out, struct leat_error *err);
void leat_cli_known_close(struct leat_cli_known *k); /* zeroed ones are allowed */
bool leat_cli_known_has(const void *known, const void *key, size_t n);

/* LEAT_EXISTS, with a key, when samples of the origin are in the dataset already. */
leat_status leat_cli_check_new(const struct leat_cli_known *k, const struct leat_dataset *d,
                               const struct leat_origin *o, struct leat_error *err);

/* A list of classes: what lies there as an object is a text file, else it is a dataset. */
leat_status leat_cli_classes(const struct leat_cli_store *settings, const char *where, struct leat_classes *out,
                             struct leat_error *err);

#endif
