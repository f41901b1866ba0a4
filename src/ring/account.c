#include "ring/account.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "ring/ring.h"

#define LAYOUT 6u /* of struct leat_account in shared memory: another number whenever a field moves */

/* After the ring's head, in what rounds it up to a page: the agent's, then the rank's. */
struct shown {
    _Atomic uint32_t layout; /* 0: nothing was written. Release; partner: the acquire in look() */
    uint32_t reserved;
    _Atomic uint64_t value[sizeof(struct leat_account) / sizeof(uint64_t)]; /* relaxed: statistics */
};

static_assert(sizeof(struct leat_account) == 55 * sizeof(uint64_t), "another layout is another LAYOUT");
static_assert(sizeof(struct leat_ring_head) % LEAT_RING_PAGE + 2 * sizeof(struct shown) <= LEAT_RING_PAGE,
              "both have room there");
static_assert(sizeof(struct leat_ring_head) % 8 == 0, "what follows it is aligned");

#define AT(member)       offsetof(struct leat_account, member)
#define ONE(member)      1, AT(member)
#define TOTAL(member, n) n, AT(member[0])
#define ALIAS(member)    0, AT(member)
#define COUNT_SUM        LEAT_UNIT_COUNT, LEAT_ACCOUNT_SUM
#define COUNT_NOW        LEAT_UNIT_COUNT, LEAT_ACCOUNT_GAUGE
#define BYTES_SUM        LEAT_UNIT_BYTES, LEAT_ACCOUNT_SUM
#define BYTES_NOW        LEAT_UNIT_BYTES, LEAT_ACCOUNT_GAUGE
#define TIME_SUM         LEAT_UNIT_SECONDS, LEAT_ACCOUNT_SUM
#define RANK             LEAT_OF_RANK
#define LOADER           LEAT_OF_LOADER
#define SET              LEAT_OF_DATASET
#define AGENT            LEAT_OF_AGENT
#define CAUSE(cause)     ONE(wait_by_cause_ns[cause])

/* Rows of one object stand together. */
static const struct leat_account_row rows[] = {
    {"batches", NULL, COUNT_SUM, RANK, true, ONE(batches), "batches taken"},
    {"samples", NULL, COUNT_SUM, RANK, true, ONE(samples), "samples in them"},
    {"wait_s", NULL, TIME_SUM, RANK, true, ONE(wait_ns), "time that the rank waited; the causes add up to it"},
    {"wait_by_cause_s", "fetch", TIME_SUM, RANK, true, CAUSE(LEAT_WAIT_FETCH), "waiting for chunks of the next batch"},
    {"wait_by_cause_s", "prep", TIME_SUM, RANK, true, CAUSE(LEAT_WAIT_PREP),
     "waiting for the next batch to be made "
     "from its chunks"},
    {"wait_by_cause_s", "slots", TIME_SUM, RANK, true, CAUSE(LEAT_WAIT_SLOTS),
     "waiting for the events that release batches you hold"},
    {"wait_by_cause_s", "agent", TIME_SUM, RANK, true, CAUSE(LEAT_WAIT_AGENT),
     "waiting for an agent that was lost or does not answer"},
    {"wait_by_cause_s", "open", TIME_SUM, RANK, true, CAUSE(LEAT_WAIT_OPEN),
     "waiting for the loader to open, also after a jump"},
    {"wait_by_cause_s", "ranks", TIME_SUM, RANK, true, CAUSE(LEAT_WAIT_RANKS),
     "waiting for other ranks of this machine before the first batch"},
    {"wait_by_cause_s", "other", TIME_SUM, RANK, true, CAUSE(LEAT_WAIT_OTHER), "waiting to be woken up"},
    {"fetch_wait_by_source_s", "bucket", TIME_SUM, RANK, true, ONE(fetch_wait_by_source_ns[LEAT_STALL_BUCKET]),
     "of the time for chunks: that for batches whose last chunk came from the bucket"},
    {"fetch_wait_by_source_s", "disk", TIME_SUM, RANK, true, ONE(fetch_wait_by_source_ns[LEAT_STALL_DISK]),
     "… from the disk cache"},
    {"fetch_wait_by_source_s", "peer", TIME_SUM, RANK, true, ONE(fetch_wait_by_source_ns[LEAT_STALL_PEER]),
     "… from another machine"},
    {"agents_lost", NULL, COUNT_SUM, RANK, false, ONE(agents_lost), "agents that ended under this loader"},
    {"timeouts", NULL, COUNT_SUM, RANK, false, ONE(timeouts), "calls that ended at their deadline"},

    {"samples_skipped", NULL, COUNT_SUM, LOADER, false, ONE(samples_skipped), "samples that could not be decoded"},
    {"batches_split", NULL, COUNT_SUM, LOADER, false, ONE(batches_split),
     "batches made in several steps because memory was short"},
    {"samples_decoded", NULL, COUNT_SUM, LOADER, true, ONE(samples_decoded),
     "samples whose pictures and sounds were decoded for this loader"},
    {"samples_shared", NULL, COUNT_SUM, LOADER, true, ONE(samples_shared),
     "… that another loader of this machine had decoded already (share=)"},
    {"share_left", NULL, COUNT_SUM, LOADER, false, ONE(share_left),
     "times that it fell too far behind other loaders, which went on without it (share=)"},
    {"prep_cpu_s", NULL, TIME_SUM, LOADER, true, ONE(prep_cpu_ns), "processor time spent preparing samples"},
    {"batches_ready", NULL, COUNT_NOW, LOADER, true, ONE(batches_ready), "finished batches that nobody has taken yet"},
    {"ring_bytes", NULL, BYTES_NOW, LOADER, false, ONE(ring_bytes), "shared memory for batches"},

    {"bytes_by_source", "bucket", BYTES_SUM, SET, true, ONE(bytes_by_source[LEAT_FROM_BUCKET]),
     "bytes of chunks that came from the bucket"},
    {"bytes_by_source", "disk", BYTES_SUM, SET, true, ONE(bytes_by_source[LEAT_FROM_DISK]), "… from the disk cache"},
    {"bytes_by_source", "ram", BYTES_SUM, SET, true, ONE(bytes_by_source[LEAT_FROM_RAM]),
     "… that were still in memory from an earlier use"},
    {"bytes_by_source", "peer", BYTES_SUM, SET, true, ONE(bytes_by_source[LEAT_FROM_PEER]), "… from another machine"},
    {"chunks_by_source", "bucket", COUNT_SUM, SET, false, ONE(chunks_by_source[LEAT_FROM_BUCKET]),
     "chunks that came from the bucket"},
    {"chunks_by_source", "disk", COUNT_SUM, SET, false, ONE(chunks_by_source[LEAT_FROM_DISK]), "… from the disk cache"},
    {"chunks_by_source", "ram", COUNT_SUM, SET, false, ONE(chunks_by_source[LEAT_FROM_RAM]),
     "… that were still in memory from an earlier use"},
    {"chunks_by_source", "peer", COUNT_SUM, SET, false, ONE(chunks_by_source[LEAT_FROM_PEER]),
     "… from another machine"},
    {"chunks_fetched", NULL, COUNT_SUM, SET, false, ALIAS(chunks_by_source[LEAT_FROM_BUCKET]),
     "the same as chunks_by_source.bucket"},
    {"chunks_corrupt", NULL, COUNT_SUM, SET, false, ONE(chunks_corrupt), "arrivals that did not match their checksum"},
    {"chunks_refetched", NULL, COUNT_SUM, SET, false, ONE(chunks_refetched),
     "chunks that came a second time: damaged, or forgotten before their use"},
    {"chunks_failed", NULL, COUNT_SUM, SET, false, ONE(chunks_failed), "chunks that could not be fetched"},
    {"requests", NULL, COUNT_SUM, SET, true, ONE(requests), "requests to the bucket, including repeated ones"},
    {"retries", NULL, COUNT_SUM, SET, false, ONE(retries), "requests that were repeated"},
    {"throttled", NULL, COUNT_SUM, SET, false, ONE(throttled), "answers that asked to slow down"},
    {"hedges", NULL, COUNT_SUM, SET, false, ONE(hedges), "second requests for what was late"},
    {"peer_late", NULL, COUNT_SUM, SET, false, ONE(peer_late), "chunks that another machine was late with"},
    {"peer_failed", NULL, COUNT_SUM, SET, false, ONE(peer_failed),
     "… that it should have given, and failed or sent wrong"},
    {"peer_without", NULL, COUNT_SUM, SET, false, ONE(peer_without), "… that it did not have, or had no time for"},
    {"request_s", NULL, TIME_SUM, SET, false, ONE(request_ns),
     "time of all requests added up, also of those in "
     "parallel"},
    {"fetches_in_flight", NULL, COUNT_NOW, SET, true, ONE(fetches_in_flight), "chunks on their way"},

    {"evictions", NULL, COUNT_SUM, AGENT, false, TOTAL(evictions_by_tier, LEAT_TIERS),
     "chunks evicted from memory "
     "or from the disk cache"},
    {"evictions_by_tier", "ram", COUNT_SUM, AGENT, false, ONE(evictions_by_tier[LEAT_TIER_RAM]),
     "chunks evicted from memory"},
    {"evictions_by_tier", "disk", COUNT_SUM, AGENT, false, ONE(evictions_by_tier[LEAT_TIER_DISK]),
     "… from the disk cache"},
    {"demotions", NULL, COUNT_SUM, AGENT, false, ONE(demotions), "chunks that went from memory to disk"},
    {"cache_bytes", NULL, BYTES_NOW, AGENT, true, ONE(cache_bytes), "chunks in memory"},
    {"cache_budget", NULL, BYTES_NOW, AGENT, false, ONE(cache_budget), "how much they may take (ram=)"},
    {"shared_bytes", NULL, BYTES_NOW, AGENT, false, ONE(shared_bytes), "samples in memory that loaders share"},
    {"disk_bytes", NULL, BYTES_NOW, AGENT, true, ONE(disk_bytes), "chunks in the disk cache"},
    {"disk_budget", NULL, BYTES_NOW, AGENT, false, ONE(disk_budget), "how much they may take (cache=)"},
    {"threads", NULL, COUNT_NOW, AGENT, false, ONE(threads), "threads that prepare samples (threads=)"},
    {"threads_busy", NULL, COUNT_NOW, AGENT, false, ONE(threads_busy), "how many of them are at work"},
    {"threads_busy_s", NULL, TIME_SUM, AGENT, false, ONE(threads_busy_ns), "time that they were at work, all together"},
    {"turned_away", NULL, COUNT_SUM, AGENT, false, ONE(turned_away),
     "requests of other machines that were too many at once"},
};

#define ROWS (sizeof rows / sizeof *rows)

size_t leat_account_rows(void)
{
    return ROWS;
}

const struct leat_account_row *leat_account_row(size_t i)
{
    return i < ROWS ? &rows[i] : NULL;
}

static uint64_t *field(struct leat_account *a, const struct leat_account_row *row)
{
    return (uint64_t *)(void *)((char *)a + row->offset);
}

uint64_t leat_account_get(const struct leat_account *a, const struct leat_account_row *row)
{
    const uint64_t *v = (const uint64_t *)(const void *)((const char *)a + row->offset);
    uint64_t sum = v[0];
    for (uint32_t i = 1; i < row->adds; i++)
        sum += v[i];
    return sum;
}

const char *leat_account_unit_name(enum leat_account_unit unit)
{
    static const char *const names[] = {"", "bytes", "seconds"};
    return names[unit];
}

const char *leat_account_kind_name(enum leat_account_kind kind)
{
    return kind == LEAT_ACCOUNT_SUM ? "sum" : "now";
}

const char *leat_account_of_name(enum leat_account_of of)
{
    static const char *const names[] = {"rank", "loader", "dataset", "agent"};
    return names[of];
}

/* Arithmetic */

static bool within(const struct leat_account_row *row, enum leat_account_of from, enum leat_account_of until)
{
    return row->of >= from && row->of <= until;
}

void leat_account_add(struct leat_account *to, const struct leat_account *other)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].adds == 1)
            *field(to, &rows[i]) += leat_account_get(other, &rows[i]);
    }
}

void leat_account_carry(struct leat_account *to, const struct leat_account *earlier, enum leat_account_of from,
                        enum leat_account_of until)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].adds == 1 && rows[i].kind == LEAT_ACCOUNT_SUM && within(&rows[i], from, until))
            *field(to, &rows[i]) += leat_account_get(earlier, &rows[i]);
    }
}

void leat_account_since(struct leat_account *now, const struct leat_account *before)
{
    for (size_t i = 0; i < ROWS; i++) {
        uint64_t then = leat_account_get(before, &rows[i]);
        uint64_t *v = field(now, &rows[i]);
        if (rows[i].adds == 1 && rows[i].kind == LEAT_ACCOUNT_SUM)
            *v = *v > then ? *v - then : 0;
    }
}

/* JSON */

json_t *leat_account_number(const struct leat_account_row *row, uint64_t value)
{
    if (row->unit == LEAT_UNIT_SECONDS)
        return json_real((double)value / 1e9);
    return json_integer((json_int_t)value);
}

/* The object that a row's number is a member of, made when it is not there. */
static json_t *home_of(const struct leat_account_row *row, json_t *object)
{
    if (!row->part)
        return object;
    json_t *home = json_object_get(object, row->name);
    if (!home && json_object_set_new(object, row->name, json_object()) == 0)
        home = json_object_get(object, row->name);
    return home;
}

bool leat_account_put(const struct leat_account_row *row, json_t *value, json_t *object)
{
    return json_object_set_new(home_of(row, object), row->part ? row->part : row->name, value) == 0;
}

bool leat_account_write(const struct leat_account *a, enum leat_account_of from, enum leat_account_of until,
                        json_t *object)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct leat_account_row *row = &rows[i];
        if (!within(row, from, until))
            continue;
        if (!leat_account_put(row, leat_account_number(row, leat_account_get(a, row)), object))
            return false;
    }
    return true;
}

void leat_account_read(const json_t *object, struct leat_account *out)
{
    struct leat_account a = {0};
    for (size_t i = 0; i < ROWS; i++) {
        const struct leat_account_row *row = &rows[i];
        const json_t *v = json_object_get(object, row->name);
        if (row->part)
            v = json_object_get(v, row->part);
        if (row->adds != 1 || !json_is_number(v))
            continue;
        double seconds = json_number_value(v);
        if (row->unit == LEAT_UNIT_SECONDS && seconds > 0 && seconds < 1e9)
            *field(&a, row) = (uint64_t)llround(seconds * 1e9);
        else if (row->unit != LEAT_UNIT_SECONDS && json_integer_value(v) > 0)
            *field(&a, row) = (uint64_t)json_integer_value(v);
    }
    *out = a;
}

/* Metrics */

/* "wait_by_cause_s" is the family leat_wait_seconds_total with the label cause: names end with their unit, sums with
 * _total, as Prometheus wants it. */
static void family(const struct leat_account_row *row, char name[80], char label[40])
{
    char stem[64];
    snprintf(stem, sizeof stem, "%s", row->name);
    char *by = strstr(stem, "_by_");
    label[0] = '\0';
    if (by) {
        snprintf(label, 40, "%s", by + 4);
        *by = '\0';
    }
    if (row->unit == LEAT_UNIT_SECONDS) {
        char *cut = by ? label : stem;
        size_t n = strlen(cut);
        if (n > 2 && strcmp(cut + n - 2, "_s") == 0)
            cut[n - 2] = '\0';
    }
    const char *unit = row->unit == LEAT_UNIT_SECONDS                           ? "_seconds"
                       : row->unit == LEAT_UNIT_BYTES && !strstr(stem, "bytes") ? "_bytes"
                                                                                : "";
    snprintf(name, 80, "leat_%s%s%s", stem, unit, row->kind == LEAT_ACCOUNT_SUM ? "_total" : "");
}

/* The whole of a family is not printed beside its parts: the one that adds a family up would count it twice. */
static bool has_parts(const struct leat_account_row *row)
{
    return row->offset == AT(wait_ns);
}

void leat_account_label(struct leat_buf *b, const char *name, const char *value)
{
    leat_buf_printf(b, "%s%s=\"", b->len ? "," : "", name);
    for (; *value; value++) {
        if (*value == '\n')
            leat_buf_str(b, "\\n");
        else
            leat_buf_printf(b, "%s%c", *value == '"' || *value == '\\' ? "\\" : "", *value);
    }
    leat_buf_char(b, '"');
}

/* Once for each family: "wait by cause (of the rank)". */
static void head(const struct leat_account_row *row, const char *name, const char *label, struct leat_buf *b)
{
    leat_buf_printf(b, "# HELP %s ", name);
    if (row->part)
        leat_buf_printf(b, "%.*s by %s", (int)strcspn(row->name, "_"), row->name, label);
    else
        leat_buf_str(b, row->help);
    leat_buf_printf(b, " (of the %s)\n# TYPE %s %s\n", leat_account_of_name(row->of), name,
                    row->kind == LEAT_ACCOUNT_SUM ? "counter" : "gauge");
}

static void metric(const struct leat_account_row *row, const char *name, const char *label,
                   const struct leat_account_metric *m, struct leat_buf *b)
{
    leat_buf_str(b, name);
    if (*m->labels || row->part)
        leat_buf_printf(b, "{%s%s", m->labels, *m->labels && row->part ? "," : "");
    if (row->part)
        leat_buf_printf(b, "%s=\"%s\"", label, row->part);
    leat_buf_str(b, *m->labels || row->part ? "} " : " ");
    if (row->unit == LEAT_UNIT_SECONDS)
        leat_buf_printf(b, "%.9f\n", (double)leat_account_get(m->account, row) / 1e9);
    else
        leat_buf_printf(b, "%llu\n", (unsigned long long)leat_account_get(m->account, row));
}

void leat_account_metrics(const struct leat_account_metric *all, size_t n, struct leat_buf *b)
{
    const char *told = "";
    for (size_t i = 0; i < ROWS; i++) {
        const struct leat_account_row *row = &rows[i];
        char name[80];
        char label[40];
        if (row->adds != 1 || has_parts(row))
            continue;
        family(row, name, label);
        for (size_t k = 0; k < n; k++) {
            if (!within(row, all[k].from, all[k].until))
                continue;
            if (strcmp(row->name, told) != 0)
                head(row, name, label, b);
            told = row->name;
            metric(row, name, label, &all[k], b);
        }
    }
}

void leat_account_describe(struct leat_buf *b)
{
    leat_buf_str(b, "| name | unit | kind | of the | what it counts |\n| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < ROWS; i++) {
        const struct leat_account_row *row = &rows[i];
        leat_buf_printf(b, "| `%s%s%s` | %s | %s | %s | %s |\n", row->name, row->part ? "." : "",
                        row->part ? row->part : "", leat_account_unit_name(row->unit),
                        leat_account_kind_name(row->kind), leat_account_of_name(row->of), row->help);
    }
}

/* In the ring's memory */

enum side { AGENTS, RANKS, SIDES };

static struct shown *place(const struct leat_ring *ring, enum side side)
{
    if (!ring->head || ring->slot_offset < sizeof *ring->head + SIDES * sizeof(struct shown))
        return NULL;
    return (struct shown *)(void *)(ring->head + 1) + side;
}

static bool look(const struct leat_ring *ring, enum side side, struct leat_account *out)
{
    struct shown *s = place(ring, side);
    uint64_t *v = (uint64_t *)(void *)out;
    if (!s || atomic_load_explicit(&s->layout, memory_order_acquire) != LAYOUT)
        return false;
    for (size_t i = 0; i < sizeof *out / sizeof *v; i++)
        v[i] = atomic_load_explicit(&s->value[i], memory_order_relaxed);
    return true;
}

void leat_account_show(const struct leat_ring *ring, const struct leat_account *a)
{
    struct shown *s = place(ring, AGENTS);
    const uint64_t *v = (const uint64_t *)(const void *)a;
    if (!s)
        return;
    for (size_t i = 0; i < sizeof *a / sizeof *v; i++)
        atomic_store_explicit(&s->value[i], v[i], memory_order_relaxed);
    atomic_store_explicit(&s->layout, LAYOUT, memory_order_release);
}

bool leat_account_look(const struct leat_ring *ring, struct leat_account *out)
{
    return look(ring, AGENTS, out);
}

#define RANK_FIELDS (AT(samples_skipped) / sizeof(uint64_t)) /* come first, and are sums */

void leat_account_show_rank(const struct leat_ring *ring, const struct leat_account *a)
{
    struct shown *s = place(ring, RANKS);
    const uint64_t *v = (const uint64_t *)(const void *)a;
    if (!s)
        return;
    for (size_t i = 0; i < RANK_FIELDS; i++) {
        if (v[i] > atomic_load_explicit(&s->value[i], memory_order_relaxed))
            atomic_store_explicit(&s->value[i], v[i], memory_order_relaxed);
    }
    atomic_store_explicit(&s->layout, LAYOUT, memory_order_release);
}

bool leat_account_look_rank(const struct leat_ring *ring, struct leat_account *out)
{
    return look(ring, RANKS, out);
}
