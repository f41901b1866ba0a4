/* What the commands about datasets share. */
#ifndef LEAT_CLI_DATASET_H
#define LEAT_CLI_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/progress.h"
#include "cli/store_options.h"
#include "dataset/dataset.h"
#include "dataset/mix.h"
#include "dataset/pins.h"

leat_status leat_cli_home_open(const struct leat_cli_store *settings, const char *url, struct leat_home *out,
                               struct leat_error *err);
leat_status leat_cli_dataset_open(const struct leat_cli_store *settings, const char *url, struct leat_dataset **out,
                                  struct leat_error *err);

/* Loads every chunk with samples that count and hands it to `each`, on several threads. `each` gets the number of the
 * first of these; leat_dataset_counts() says how many there are, leat_dataset_index() where they lie. With `visit`
 * instead no chunk is loaded: it does the work itself.
 * A chunk that cannot be loaded or that `each` refuses is reported to `failed`, one at a time; true goes on with the
 * others, else the first failure is returned. Shows progress unless quiet. */
struct leat_cli_chunks {
    struct leat_dataset *dataset;
    unsigned threads; /* 0: one for each CPU */
    struct leat_cli_progress progress;
    leat_status (*each)(void *user, uint32_t chunk, uint64_t first, const struct leat_chunk *c, struct leat_error *err);
    leat_status (*visit)(void *user, uint32_t chunk, uint64_t first, struct leat_error *err);
    bool (*failed)(void *user, uint32_t chunk, const struct leat_error *err); /* may be NULL: false */
    void *user;
};

leat_status leat_cli_each_chunk(const struct leat_cli_chunks *run, struct leat_error *err);

/* Chunks with samples that count, and their bytes. */
struct leat_cli_used {
    uint32_t chunks;
    uint64_t bytes;
};
struct leat_cli_used leat_cli_used(const struct leat_dataset *d);

/* The field to show or write when none is named: the first with bytes of its own. */
leat_status leat_cli_pick_field(const struct leat_schema *schema, const char *name, uint32_t *out,
                                struct leat_error *err);

/* Chunks that are sorted by class, in words: "WHAT: …" and what to do about it, on standard output. */
void leat_cli_print_mix(const char *what, const struct leat_mix_result *mix, uint32_t chunks, uint64_t bytes);

/* How the chunks of an index are pinned: "12 chunks by ETag, 3 by a checksum". And as a JSON object. */
#define LEAT_CLI_PINS 200
const char *leat_cli_say_pins(const struct leat_pins *pins, char out[LEAT_CLI_PINS]);
const char *leat_cli_json_pins(const struct leat_pins *pins, char out[LEAT_CLI_PINS]);

/* A key for people, as leat_cli_escape() shows it. The caller frees it; NULL without memory. */
char *leat_cli_show_key(const char *key, size_t n);

#endif
