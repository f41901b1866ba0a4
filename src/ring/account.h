/* The account: every number that Leat keeps about the work of a loader and its agent, in one struct, described by one
 * table. JSON (written and read), Python's stats(), `leat agent ls`, the metrics' text, series over time and the page
 * in docs/ are made from the table. A new number is a field at the end of its part and a row.
 *
 * Each side fills in the fields it knows and leaves the others zero: the rank those of LEAT_OF_RANK, the agent the
 * rest. Durations are nanoseconds here and seconds wherever people see them. */
#ifndef LEAT_RING_ACCOUNT_H
#define LEAT_RING_ACCOUNT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct leat_ring;

/* What a rank waits for. */
enum leat_wait_cause {
    LEAT_WAIT_FETCH, /* chunks of the next batch: on their way, or without room */
    LEAT_WAIT_PREP,  /* they are there, the batch is being made */
    LEAT_WAIT_SLOTS, /* the rank's own batches hold every slot and wait for their events */
    LEAT_WAIT_AGENT, /* the agent was lost or does not answer: until another one has opened the loader */
    LEAT_WAIT_OPEN,  /* opening: the first time, after a jump, after a fork */
    LEAT_WAIT_RANKS, /* other ranks of this machine that have not come to agree */
    LEAT_WAIT_OTHER, /* being woken up, and what nobody claims */
    LEAT_WAIT_CAUSES
};

enum leat_account_source { LEAT_FROM_BUCKET, LEAT_FROM_DISK, LEAT_FROM_RAM, LEAT_FROM_PEER, LEAT_SOURCES };
enum leat_account_stall { LEAT_STALL_BUCKET, LEAT_STALL_DISK, LEAT_STALL_PEER, LEAT_STALLS };
enum leat_account_tier { LEAT_TIER_RAM, LEAT_TIER_DISK, LEAT_TIERS };

struct leat_account {
    /* Of a rank's loader, whatever becomes of agents meanwhile. Filled in by the client. */
    uint64_t batches;
    uint64_t samples;
    uint64_t wait_ns; /* in all; the causes add up to it */
    uint64_t wait_by_cause_ns[LEAT_WAIT_CAUSES];
    /* Where what LEAT_WAIT_FETCH was for came from in the end: known, and added up to it, with each batch. */
    uint64_t fetch_wait_by_source_ns[LEAT_STALLS];
    uint64_t agents_lost;
    uint64_t timeouts;

    /* Of a loader in its agent, since it was opened there. */
    uint64_t samples_skipped;
    uint64_t batches_split;
    uint64_t samples_decoded;
    uint64_t samples_shared;
    uint64_t share_left;
    uint64_t prep_cpu_ns;
    uint64_t batches_ready;
    uint64_t ring_bytes;

    /* Of a dataset in the agent: all loaders that read it share them. */
    uint64_t bytes_by_source[LEAT_SOURCES];
    uint64_t chunks_by_source[LEAT_SOURCES];
    uint64_t chunks_corrupt;
    uint64_t chunks_refetched;
    uint64_t chunks_failed;
    uint64_t requests;
    uint64_t retries;
    uint64_t throttled;
    uint64_t hedges;
    uint64_t peer_late;
    uint64_t peer_failed;
    uint64_t peer_without;
    uint64_t request_ns;
    uint64_t fetches_in_flight;

    /* Of the agent. */
    uint64_t evictions_by_tier[LEAT_TIERS];
    uint64_t demotions;
    uint64_t cache_bytes;
    uint64_t cache_budget;
    uint64_t shared_bytes;
    uint64_t disk_bytes;
    uint64_t disk_budget;
    uint64_t threads;
    uint64_t threads_busy;
    uint64_t threads_busy_ns;
    uint64_t turned_away;
};

enum leat_account_unit { LEAT_UNIT_COUNT, LEAT_UNIT_BYTES, LEAT_UNIT_SECONDS };

/* A sum only grows in the life of its owner; a gauge says how it is now. */
enum leat_account_kind { LEAT_ACCOUNT_SUM, LEAT_ACCOUNT_GAUGE };

/* Whose number it is, and so how long it lives and who shares it. */
enum leat_account_of { LEAT_OF_RANK, LEAT_OF_LOADER, LEAT_OF_DATASET, LEAT_OF_AGENT };

struct leat_account_row {
    const char *name; /* in JSON: "bytes_by_source" */
    const char *part; /* its member, where it is an object: "bucket"; else NULL */
    enum leat_account_unit unit;
    enum leat_account_kind kind;
    enum leat_account_of of;
    bool series; /* kept over time too */
    /* 1: the number's own row. More: the field and those after it added up, or (0) another name for a field that
     * has a row; such rows are written for people and neither read nor made into metrics. */
    uint32_t adds;
    size_t offset;
    const char *help; /* a phrase, without a full stop */
};

size_t leat_account_rows(void);
const struct leat_account_row *leat_account_row(size_t i);
uint64_t leat_account_get(const struct leat_account *a, const struct leat_account_row *row);
const char *leat_account_unit_name(enum leat_account_unit unit);
const char *leat_account_kind_name(enum leat_account_kind kind);
const char *leat_account_of_name(enum leat_account_of of);

/* Arithmetic by the table. add() is for two owners at the same time (two loaders of an agent), carry() for an earlier
 * life of the same one (its sums; how it was is no longer so), since() for what has happened between two looks: sums
 * become differences, gauges stay. */
void leat_account_add(struct leat_account *to, const struct leat_account *other);
void leat_account_carry(struct leat_account *to, const struct leat_account *earlier, enum leat_account_of from,
                        enum leat_account_of until);
void leat_account_since(struct leat_account *now, const struct leat_account *before);

/* Adds every row from `from` to `until` to an object. False: no memory. */
bool leat_account_write(const struct leat_account *a, enum leat_account_of from, enum leat_account_of until,
                        json_t *object);

/* A row's number as people see it, and putting one (which may be NULL: then it fails) where the row belongs. */
json_t *leat_account_number(const struct leat_account_row *row, uint64_t value);
bool leat_account_put(const struct leat_account_row *row, json_t *value, json_t *object);

/* What the table knows of an object; the rest is ignored, and what is missing or no number is 0. */
void leat_account_read(const json_t *object, struct leat_account *out);

/* An account as metrics: the rows from `from` to `until`, under labels that are "" or pairs without braces:
 * scope="default",rank="0". */
struct leat_account_metric {
    const struct leat_account *account;
    const char *labels;
    enum leat_account_of from, until;
};

/* The text that Prometheus reads. It wants all series of a name together: so all accounts at once. */
void leat_account_metrics(const struct leat_account_metric *all, size_t n, struct leat_buf *b);

/* Appends a label, name="value", with a comma before it unless it is the first. */
void leat_account_label(struct leat_buf *b, const char *name, const char *value);

/* The table for people, as Markdown. */
void leat_account_describe(struct leat_buf *b);

/* The agent's part in the ring's memory, where the rank finds it also when the agent is gone. Single numbers are whole,
 * but not all of the same moment. look() is false when the agent is of a release that does not write it. */
void leat_account_show(const struct leat_ring *ring, const struct leat_account *a);
bool leat_account_look(const struct leat_ring *ring, struct leat_account *out);

/* The rank's part (LEAT_OF_RANK) in the same memory, where the agent finds it. What was shown never becomes less: a
 * wait is divided by cause before it has ended, and its end may see it otherwise. Others' fields are not touched. */
void leat_account_show_rank(const struct leat_ring *ring, const struct leat_account *a);
bool leat_account_look_rank(const struct leat_ring *ring, struct leat_account *out);

#endif
