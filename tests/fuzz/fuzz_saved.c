/* Any bytes as a saved part of a listing, its checksum made to fit: what is read can be written and read again. */
#include "dataset/listing_save.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "fuzz.h"

static void write_again(const struct leat_saved *s)
{
    struct leat_home home = {.url = s->urls[0]};
    struct leat_saved again = {0};
    struct leat_listing l = s->lists[0];
    struct leat_saved_page page = {.end = l.n, .hidden = l.hidden, .after = s->after[0] ? s->after[0] : ""};
    struct leat_error err;
    struct leat_buf out;
    l.homes = &home;
    l.homes_n = 1;
    leat_buf_init(&out, 1u << 26);
    PROMISE(leat_saved_write(&l, &s->head, &page, 1, &out, &err) == LEAT_OK);
    PROMISE(leat_saved_read(out.data, out.len, &again, &err) == LEAT_OK);
    PROMISE(again.lists[0].n == l.n && again.lists[0].hidden == l.hidden);
    for (uint64_t i = 0; i < l.n; i++) {
        PROMISE(strcmp(leat_listing_key(&again.lists[0], i), leat_listing_key(&l, i)) == 0);
        PROMISE(strcmp(leat_listing_etag(&again.lists[0], i), leat_listing_etag(&l, i)) == 0);
        PROMISE(again.lists[0].sizes[i] == l.sizes[i]);
    }
    leat_saved_close(&again);
    leat_buf_free(&out);
}

FUZZ(saved)
{
    struct leat_saved s = {0};
    struct leat_error err;
    uint8_t *copy = malloc(size + 8);
    PROMISE(copy);
    memcpy(copy, data, size);
    leat_put_u64(copy + size, leat_xxh3(copy, size));
    leat_status rc = leat_saved_read(copy, size + 8, &s, &err);
    fuzz_check_error(rc, &err);
    if (rc == LEAT_OK)
        write_again(&s);
    leat_saved_close(&s);
    rc = leat_saved_read(data, size, &s, &err); /* and with the checksum that there is */
    fuzz_check_error(rc, &err);
    leat_saved_close(&s);
    free(copy);
}
