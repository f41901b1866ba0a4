/* Any lines as the keys of a bucket, grouped by stem: every object is a file of exactly one sample, files of a sample
 * have its key, and no two samples have one key. */
#include "dataset/raw_origin.h"

#include "fuzz.h"

#define OBJECTS_MAX 200

static leat_status add_lines(struct leat_listing *l, const char *text, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (const char *line = text; rc == LEAT_OK && *line && l->n < OBJECTS_MAX;) {
        size_t n = strcspn(line, "\n");
        char key[600];
        snprintf(key, sizeof key, "p/%.*s", n < 500 ? (int)n : 500, line);
        if (n)
            rc = leat_listing_add(l, key, l->n, "\"e\"", err);
        line += n + (line[n] != '\0');
    }
    l->home_ends[0] = l->n;
    return rc == LEAT_OK ? leat_listing_finish(l, err) : rc;
}

static void check(const struct leat_origin *o)
{
    struct leat_origin_room room = {0};
    struct leat_error err;
    uint32_t times[OBJECTS_MAX] = {0};
    for (uint64_t i = 0; i < o->samples; i++) {
        struct leat_origin_sample s;
        PROMISE(leat_origin_sample(o, i, &room, &s, &err) == LEAT_OK);
        for (uint32_t f = 0; f < o->schema.n; f++) {
            struct leat_origin_object object;
            if (s.values[f].absent)
                continue;
            times[s.values[f].object]++;
            PROMISE(o->ops->object(o, s.values[f].object, &object, &err) == LEAT_OK);
            PROMISE(strncmp(object.key, "p/", 2) == 0 && strncmp(object.key + 2, s.key, s.key_n) == 0);
            PROMISE(object.key[2 + s.key_n] == '.' && object.size == s.values[f].size);
        }
        struct leat_origin_room other_room = {0};
        for (uint64_t k = 0; k < i; k++) {
            struct leat_origin_sample other;
            PROMISE(leat_origin_sample(o, k, &other_room, &other, &err) == LEAT_OK);
            PROMISE(other.key_n != s.key_n || memcmp(other.key, s.key, s.key_n) != 0);
        }
    }
    for (uint32_t i = 0; i < o->objects; i++)
        PROMISE(times[i] == 1);
}

FUZZ(group)
{
    char prefix[] = "p/";
    char url[] = "s3://b/p";
    struct leat_home home = {.prefix = prefix, .url = url};
    struct leat_raw_opts opts = {.grouped = true, .missing = LEAT_MISSING_OPTIONAL, .labels = LEAT_LABELS_NONE};
    struct leat_raw_counts counts;
    struct leat_listing l;
    struct leat_origin *o = NULL;
    struct leat_error err;
    char *text = fuzz_text(data, size);
    leat_status rc = leat_listing_begin(&l, &home, 1, &err);
    if (rc == LEAT_OK)
        rc = add_lines(&l, text, &err);
    if (rc == LEAT_OK)
        rc = leat_origin_raw_open(&l, &opts, &counts, &o, &err);
    else
        leat_listing_close(&l);
    fuzz_check_error(rc, &err);
    if (rc == LEAT_OK)
        check(o);
    leat_origin_close(o);
    free(text);
}
