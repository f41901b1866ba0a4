#include "cli/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/dataset.h"
#include "dataset/listing_save.h"

#define SAVED_FOR_S (24 * 60 * 60) /* what an interrupted run has listed is not used for longer */

static bool stop(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

leat_status leat_cli_homes_open(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n,
                                struct leat_cli_opened *o, struct leat_error *err)
{
    o->homes = calloc(n, sizeof *o->homes);
    if (!o->homes)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %u places", n);
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && o->homes_n < n) {
        rc = leat_cli_home_open(opts->store, urls[o->homes_n], &o->homes[o->homes_n], err);
        if (rc == LEAT_OK)
            rc = leat_home_check_plain(&o->homes[o->homes_n++], err);
    }
    return rc;
}

/* Going on */

struct saving {
    const struct leat_cli_origin_opts *opts;
    struct leat_cli_opened *o;
};

static leat_status keep(void *user, const struct leat_listing *l, uint32_t home, uint64_t first, uint64_t hidden,
                        const char *after, struct leat_error *err)
{
    struct saving *s = user;
    struct leat_saved_head head = {0};
    struct leat_saved_page page = {.home = home, .first = first, .end = l->n, .hidden = hidden, .after = after};
    leat_status rc = leat_saved_put(s->opts->to, l, &head, &page, 1, s->o->saved, err);
    s->o->saved += rc == LEAT_OK;
    return rc;
}

/* What an earlier run has saved, or nothing: *out->objects says. */
static leat_status load_saved(const struct leat_cli_origin_opts *opts, struct leat_cli_opened *o,
                              struct leat_saved *out, struct leat_error *err)
{
    const char *why = NULL;
    if (opts->unsaved)
        return LEAT_OK;
    leat_status rc = leat_saved_load(opts->to, o->homes, o->homes_n, false, out, err);
    if (rc == LEAT_CORRUPT || rc == LEAT_VERSION || rc == LEAT_INVALID)
        why = err->text;
    else if (rc == LEAT_OK && out->objects && opts->fresh)
        why = "--fresh";
    else if (rc == LEAT_OK && out->objects && out->newest_s + SAVED_FOR_S < (int64_t)time(NULL))
        why = "it is older than a day";
    if (rc != LEAT_OK && !why)
        return rc;
    if (!why)
        return LEAT_OK;
    fprintf(stderr, "leat: the listing of an earlier run is not used: %s\n", why);
    leat_saved_close(out);
    return opts->dry ? LEAT_OK : leat_saved_forget(opts->to, o->homes, o->homes_n, false, err);
}

static void say_going_on(const struct leat_saved *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->homes_n; i++)
        n += s->lists[i].n;
    int64_t minutes = ((int64_t)time(NULL) - s->newest_s) / 60;
    fprintf(stderr,
            "leat: continuing with %" PRIu64 " objects that an interrupted run listed %" PRId64
            " minutes ago (--fresh lists them again)\n",
            n, minutes);
}

leat_status leat_cli_listing_open(const struct leat_cli_origin_opts *opts, struct leat_cli_opened *o,
                                  struct leat_listing *out, struct leat_error *err)
{
    struct saving saving = {opts, o};
    struct leat_listing_opts listing = {.threads = opts->threads,
                                        .to = opts->to,
                                        .stop = stop,
                                        .seen = &o->seen,
                                        .keep = opts->dry || opts->unsaved ? NULL : keep,
                                        .keep_user = &saving,
                                        .keep_every_ns = opts->save_every_ns};
    struct leat_saved saved = {0};
    struct leat_listing_known *known = calloc(o->homes_n, sizeof *known);
    leat_status rc = known ? load_saved(opts, o, &saved, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a list");
    if (rc == LEAT_OK && saved.objects) {
        say_going_on(&saved);
        o->saved = saved.objects;
        listing.known = known;
        for (uint32_t i = 0; i < saved.homes_n; i++) {
            known[i] = (struct leat_listing_known){&saved.lists[i], saved.after[i]};
            o->seen += saved.lists[i].n;
        }
    }
    if (rc == LEAT_OK)
        rc = leat_listing_open(o->homes, o->homes_n, &listing, out, err);
    leat_saved_close(&saved);
    free(known);
    return rc;
}

/* Parts */

leat_status leat_cli_origin_part(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n, uint32_t part,
                                 uint32_t parts, struct leat_cli_opened *o, uint64_t *objects, struct leat_error *err)
{
    struct leat_listing_opts listing = {
        .threads = opts->threads, .to = opts->to, .part = part, .parts = parts, .stop = stop, .seen = &o->seen};
    struct leat_saved_head head = {.part = part, .parts = parts};
    struct leat_saved_page *pages = calloc(n, sizeof *pages);
    struct leat_listing list = {0};
    leat_status rc =
        pages ? leat_cli_homes_open(opts, urls, n, o, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a list");
    if (rc == LEAT_OK)
        rc = leat_listing_open(o->homes, n, &listing, &list, err);
    for (uint32_t h = 0; rc == LEAT_OK && h < n; h++)
        pages[h] = (struct leat_saved_page){.home = h,
                                            .first = h ? list.home_ends[h - 1] : 0,
                                            .end = list.home_ends[h],
                                            .hidden = h ? 0 : list.hidden,
                                            .after = ""};
    if (rc == LEAT_OK)
        rc = leat_saved_put(opts->to, &list, &head, pages, n, 0, err);
    *objects = list.n;
    leat_listing_close(&list);
    free(pages);
    return rc;
}

static leat_status check_parts(const struct leat_cli_origin_opts *opts, const struct leat_saved *s,
                               struct leat_error *err)
{
    uint32_t missing = 0;
    uint32_t first = 0;
    if (s->objects == 0)
        return leat_fail(
            err, LEAT_NOT_FOUND,
            "there are no parts of a listing at %s: 'leat index --part 1/8 URL… DEST' makes the first of 8",
            opts->to->url);
    for (uint32_t i = s->head.parts; i-- > 0;) {
        missing += !s->parts[i];
        first = s->parts[i] ? first : i;
    }
    if (missing)
        return leat_fail(err, LEAT_NOT_FOUND, "part %u of %u is not there yet (%u are not)", first + 1, s->head.parts,
                         missing);
    /* Parts of an attempt that was given up long ago would be mixed with those of today. */
    if (s->newest_s - s->oldest_s > SAVED_FOR_S)
        return leat_fail(err, LEAT_INVALID,
                         "part %u of %u was listed %" PRId64 " hours before the last one: list it again (--part %u/%u)",
                         s->oldest_part + 1, s->head.parts, (s->newest_s - s->oldest_s) / 3600, s->oldest_part + 1,
                         s->head.parts);
    return LEAT_OK;
}

leat_status leat_cli_listing_merge(const struct leat_cli_origin_opts *opts, struct leat_cli_opened *o,
                                   struct leat_listing *out, struct leat_error *err)
{
    struct leat_saved s = {0};
    leat_status rc = leat_saved_load(opts->to, o->homes, o->homes_n, true, &s, err);
    if (rc == LEAT_OK)
        rc = check_parts(opts, &s, err);
    if (rc == LEAT_OK && !o->homes)
        rc = leat_cli_homes_open(opts, s.urls, s.homes_n, o, err);
    if (rc == LEAT_OK)
        rc = leat_listing_begin(out, o->homes, o->homes_n, err);
    for (uint32_t h = 0; rc == LEAT_OK && h < o->homes_n; h++) {
        rc = leat_listing_append(out, &s.lists[h], err);
        leat_listing_close(&s.lists[h]);
        out->home_ends[h] = out->n;
        if (rc == LEAT_OK && out->n == (h ? out->home_ends[h - 1] : 0))
            rc = leat_fail(err, LEAT_NOT_FOUND, "there are no objects in %s", o->homes[h].url);
    }
    if (rc == LEAT_OK)
        rc = leat_listing_finish(out, err);
    o->saved = s.objects;
    leat_saved_close(&s);
    if (rc != LEAT_OK)
        leat_listing_close(out);
    return rc;
}

leat_status leat_cli_origin_done(const struct leat_cli_origin_opts *opts, struct leat_cli_opened *o,
                                 struct leat_error *err)
{
    return o->saved ? leat_saved_forget(opts->to, o->homes, o->homes_n, opts->merge, err) : LEAT_OK;
}
