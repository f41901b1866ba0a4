#include "client/request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/url.h"
#include "store/aws.h"

static void problem(struct leat_buf *b, const char *text)
{
    if (b->len)
        leat_buf_str(b, "; ");
    leat_buf_str(b, text);
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"", "image", "int", "bytes", "string", "key", "index", "valid"};
    return kind >= LEAT_OUTPUT_IMAGE && kind <= LEAT_OUTPUT_VALID ? names[kind] : NULL;
}

static leat_status check(const struct leat_loader_opts *o, struct leat_error *err)
{
    struct leat_buf b;
    leat_buf_init(&b, 4096);
    if (!o->url || !*o->url)
        problem(&b, "no dataset URL");
    if (!o->outputs_n)
        problem(&b, "no outputs: name at least one field");
    if (o->world == 0)
        problem(&b, "world size 0");
    else if (o->rank >= o->world)
        leat_buf_printf(&b, "%srank %u of a world of %u", b.len ? "; " : "", o->rank, o->world);
    if (o->global_batch == 0)
        problem(&b, "batch size 0");
    else if (o->world && o->global_batch % o->world)
        leat_buf_printf(&b, "%sglobal batch size %u is no multiple of the world size %u", b.len ? "; " : "",
                        o->global_batch, o->world);
    if (o->slots == 1 || o->slots > 64)
        problem(&b, "slots must be between 2 and 64");
    if (o->seed > INT64_MAX || o->epoch > INT64_MAX)
        problem(&b, "seed and epoch must be below 2 to the power of 63");
    for (size_t i = 0; i < o->outputs_n; i++) {
        const struct leat_output *out = &o->outputs[i];
        bool needs = out->kind >= LEAT_OUTPUT_IMAGE && out->kind <= LEAT_OUTPUT_STRING;
        if (!out->name || !*out->name || strlen(out->name) >= 48)
            problem(&b, "an output without a name, or with one longer than 47 bytes");
        else if (!kind_name(out->kind) || (needs && (!out->field || !*out->field)))
            leat_buf_printf(&b, "%soutput '%s' names no field", b.len ? "; " : "", out->name);
        if (out->view > LEAT_VIEW_MAX)
            leat_buf_printf(&b, "%soutput '%s' has view %u: at most %d is possible", b.len ? "; " : "",
                            out->name ? out->name : "", out->view, LEAT_VIEW_MAX);
        for (size_t j = 0; j < i; j++) {
            if (out->name && o->outputs[j].name && strcmp(out->name, o->outputs[j].name) == 0)
                leat_buf_printf(&b, "%stwo outputs called '%s'", b.len ? "; " : "", out->name);
        }
    }
    leat_status rc = leat_buf_check(&b, "the list of what is wrong", err);
    if (rc == LEAT_OK && b.len)
        rc = leat_fail(err, LEAT_INVALID, "%s", b.data);
    leat_buf_free(&b);
    return rc;
}

/* Plain paths are relative to our folder, not to the agent's. */
static leat_status absolute_url(const struct leat_loader_opts *o, const struct leat_url *url, json_t **out,
                                struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    *out = NULL;
    if (url->scheme != LEAT_SCHEME_FILE) {
        *out = json_string(o->url);
    } else if (url->path[0] == '/') {
        *out = json_string(url->path);
    } else {
        struct leat_buf b;
        char *here = getcwd(NULL, 0);
        leat_buf_init(&b, 16 << 10);
        leat_buf_printf(&b, "%s/%s", here ? here : "", url->path);
        rc = leat_buf_check(&b, "the folder's name", err);
        if (here && rc == LEAT_OK)
            *out = json_string(b.data);
        free(here);
        leat_buf_free(&b);
    }
    if (rc != LEAT_OK)
        return rc;
    return *out ? LEAT_OK : leat_fail(err, LEAT_INVALID, "the address '%s' is not UTF-8 or has no folder", o->url);
}

static leat_status store_settings(const struct leat_loader_opts *o, json_t **out, struct leat_error *err)
{
    struct leat_store_opts s = {
        .endpoint_url = o->endpoint_url, .region = o->region, .profile = o->profile, .anonymous = o->anonymous};
    struct leat_aws aws = {0};
    const char *ca = leat_http_ca_bundle();
    leat_status rc = leat_aws_load(&s, &aws, err);
    if (rc != LEAT_OK)
        return rc;
    *out = json_pack("{s:s*,s:s*,s:s*,s:s*,s:s*,s:i,s:s*,s:s}", "access_key", aws.access_key, "secret_key",
                     aws.secret_key, "session_token", aws.session_token, "region", aws.region, "endpoint_url",
                     aws.endpoint_url, "addressing", (int)aws.addressing, "ca_bundle", ca, "keys_from", aws.keys_from);
    leat_aws_free(&aws);
    return *out ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a request");
}

leat_status leat_request_make(const struct leat_loader_opts *o, json_t **out, struct leat_error *err)
{
    struct leat_url url = {0};
    json_t *address = NULL;
    json_t *store = NULL;
    json_t *outputs = json_array();
    leat_status rc = check(o, err);
    if (rc == LEAT_OK)
        rc = leat_url_parse(o->url, &url, err);
    if (rc == LEAT_OK)
        rc = absolute_url(o, &url, &address, err);
    if (rc == LEAT_OK && url.scheme == LEAT_SCHEME_S3)
        rc = store_settings(o, &store, err);
    for (size_t i = 0; rc == LEAT_OK && i < o->outputs_n; i++) {
        const struct leat_output *x = &o->outputs[i];
        json_t *one = json_pack("{s:s,s:s,s:s*,s:s*,s:I}", "name", x->name, "kind", kind_name(x->kind), "field",
                                x->field, "pipeline", x->pipeline, "view", (json_int_t)x->view);
        if (!one || json_array_append_new(outputs, one) < 0)
            rc = leat_fail(err, LEAT_INVALID, "output %zu is not described in UTF-8", i);
    }
    if (rc == LEAT_OK) {
        json_t *request =
            json_pack("{s:O,s:O*,s:O,s:I,s:I,s:I,s:i,s:i,s:b,s:I,s:I,s:I,s:I,s:I,s:I}", "url", address, "store", store,
                      "outputs", outputs, "global_batch", (json_int_t)o->global_batch, "rank", (json_int_t)o->rank,
                      "world", (json_int_t)o->world, "last", (int)o->last, "on_error", (int)o->on_error, "shuffle",
                      (int)o->shuffle, "seed", (json_int_t)o->seed, "window", (json_int_t)o->window, "ram",
                      (json_int_t)o->ram, "threads", (json_int_t)o->threads, "slots",
                      (json_int_t)(o->slots ? o->slots : 4), "local_world", (json_int_t)o->local_world);
        if (request)
            *out = request;
        else
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a request");
    }
    json_decref(address);
    json_decref(store);
    json_decref(outputs);
    leat_url_free(&url);
    return rc;
}
