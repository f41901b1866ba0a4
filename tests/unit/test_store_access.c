/* What a rank finds out about reaching stores, for each kind of them: it crosses a wire as bytes, is refused when those
 * are not what they should be, and memory may run out at any allocation on the way. */
#include "store/access.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <unistd.h>

#include "base/clock.h"
#include "fail_alloc.h"
#include "store/aws.h"
#include "store/store.h"
#include "store_bench.h"
#include "unit.h"

static struct peer *peer;
static char folder[64];
static char bucket[] = "bucket";
static char nothing[] = "";

/* Environments */

static const char *const variables[] = {
    "GS_ACCESS_KEY_ID",
    "GS_SECRET_ACCESS_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GCE_METADATA_HOST",
    "STORAGE_EMULATOR_HOST",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_AUTHORITY_HOST",
    "IDENTITY_ENDPOINT",
    "IDENTITY_HEADER",
    "HF_TOKEN",
    "HF_TOKEN_PATH",
    "HF_ENDPOINT",
    "LEAT_CONFIG",
    "LEAT_HEADER",
    "LEAT_REQUESTER_PAYS",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
};

static void set(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
}

static void clean(void)
{
    unit_clean_environment();
    for (size_t i = 0; i < COUNT(variables); i++)
        unsetenv(variables[i]);
    set("HOME", folder);
}

static void write_named(const char *name, const char *text, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, name);
    write_text(path, text);
}

static leat_status resolve(struct leat_access *access, const char *text, bool fresh, struct leat_error *err)
{
    struct leat_url url = {0};
    const struct leat_store_opts opts = {.hedge = LEAT_HEDGE_OFF};
    leat_status rc = leat_url_parse(text, &url, err);
    if (rc == LEAT_OK)
        rc = leat_access_resolve(access, &url, &opts, fresh, err);
    leat_url_free(&url);
    return rc;
}

static struct leat_access *make(const char *const *urls, size_t n)
{
    struct leat_access *access;
    struct leat_error err;
    assert_ok(leat_access_new(&access, &err), err);
    for (size_t i = 0; i < n; i++)
        assert_ok(resolve(access, urls[i], true, &err), err);
    return access;
}

static const char *const five[] = {"s3://bucket", "gs://bucket", "az://acct/box", "hf://datasets/o/n",
                                   "https://example.org"};

static void set_all(void)
{
    set("AWS_ACCESS_KEY_ID", "AKIA");
    set("AWS_SECRET_ACCESS_KEY", "sesame-s3");
    set("AWS_SESSION_TOKEN", "sesame-token");
    set("GS_ACCESS_KEY_ID", "GOOG");
    set("GS_SECRET_ACCESS_KEY", "sesame-gs");
    set("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1");
    set("AZURE_STORAGE_KEY", "c2VzYW1lLWF6");
    set("HF_TOKEN", "sesame-hf");
}

/* The bytes */

static struct leat_buf written(const struct leat_access *access)
{
    struct leat_buf b;
    leat_buf_init(&b, LEAT_ACCESS_BYTES);
    leat_access_write(access, &b);
    assert_false(b.failed);
    return b;
}

TEST_WITH(clean, NULL, every_kind_crosses_as_bytes_and_comes_back_the_same)
{
    struct leat_access *back;
    struct leat_error err;
    uint8_t one[LEAT_SHA256_SIZE], other[LEAT_SHA256_SIZE];
    set_all();
    struct leat_access *access = make(five, COUNT(five));
    struct leat_buf b = written(access);
    assert_ok(leat_access_read(b.data, b.len, &back, &err), err);
    assert_int_equal(leat_access_count(back), COUNT(five));
    static const char *const places[] = {"az://acct", "gs://", "hf://", "https://", "s3://"};
    static const char *const from[] = {"AZURE_STORAGE_KEY", "GS_ACCESS_KEY_ID", "HF_TOKEN", "", "AWS_ACCESS_KEY_ID"};
    for (size_t i = 0; i < COUNT(places); i++) {
        assert_string_equal(leat_access_name(back, i), places[i]);
        assert_string_equal(leat_access_from(back, i), from[i]);
    }
    assert_string_equal(leat_access_endpoint(back, 1), "http://127.0.0.1:1");
    assert_true(leat_access_covered(access, back) && leat_access_covered(back, access));
    assert_true(leat_access_digest(access, one) && leat_access_digest(back, other));
    assert_memory_equal(one, other, sizeof one);
    struct leat_buf again = written(back);
    assert_int_equal(again.len, b.len);
    assert_memory_equal(again.data, b.data, b.len);
    leat_buf_free(&again);
    leat_buf_free(&b);
    leat_access_free(back);
    leat_access_free(access);
}

/* Cut anywhere but between two fields it is refused; cut there, it is what came before; with a bit flipped it is read
 * as something, or refused: neither says a secret. */
TEST_WITH(clean, NULL, damaged_bytes_are_refused_at_every_length_and_say_nothing)
{
    struct leat_error err;
    set_all();
    struct leat_access *access = make(five, COUNT(five));
    struct leat_buf b = written(access);
    unsigned refused = 0;
    for (size_t n = 0; n <= b.len * 9; n++) {
        struct leat_access *back = NULL;
        bool cut = n < b.len;
        size_t size = cut ? n : b.len;
        char *copy = malloc(size + 1); /* so that reading past its end is seen */
        assert_non_null(copy);
        memcpy(copy + 1, b.data, size);
        if (!cut && n > b.len)
            copy[1 + (n - b.len - 1) / 8] ^= (char)(1 << (n - b.len - 1) % 8);
        memset(&err, 0, sizeof err);
        leat_status rc = leat_access_read(copy + 1, size, &back, &err);
        if (rc != LEAT_OK) {
            assert_true(rc == LEAT_INVALID || rc == LEAT_VERSION);
            assert_null(strstr(err.text, "sesame"));
            assert_null(back);
            refused++;
        }
        leat_access_free(back);
        free(copy);
    }
    assert_true(refused > b.len);
    leat_buf_free(&b);
    leat_access_free(access);
}

static void add(struct leat_buf *b, unsigned tag, unsigned flags, const void *data, size_t n)
{
    const uint8_t head[] = {(uint8_t)tag, (uint8_t)flags, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), 0};
    leat_buf_add(b, head, sizeof head);
    leat_buf_add(b, data, n);
}

static void read_fails(struct leat_buf *b, leat_status status, const char *part)
{
    struct leat_access *back = NULL;
    struct leat_error err;
    assert_fails(leat_access_read(b->data, b->len, &back, &err), err, status, part);
    leat_buf_free(b);
}

TEST_WITH(clean, NULL, what_must_be_understood_and_is_not_is_refused)
{
    struct leat_access *back;
    struct leat_error err;
    struct leat_buf b;
    leat_buf_init(&b, 1u << 20);
    add(&b, 1, 1, "s3://", 5);
    add(&b, 99, 0, "more", 4); /* only says more */
    assert_ok(leat_access_read(b.data, b.len, &back, &err), err);
    assert_int_equal(leat_access_count(back), 1);
    leat_access_free(back);
    add(&b, 99, 1, "more", 4);
    read_fails(&b, LEAT_VERSION, "99");
    add(&b, 2, 1, "http://x", 8); /* before any place */
    read_fails(&b, LEAT_INVALID, "damaged");
    add(&b, 1, 1, "s3://", 5);
    add(&b, 1, 1, "gs://", 5); /* not in order: one place must not be said twice */
    read_fails(&b, LEAT_INVALID, "damaged");
    add(&b, 1, 1, "s3://", 5);
    add(&b, 5, 1, "AKIA", 4); /* half a pair */
    read_fails(&b, LEAT_INVALID, "damaged");
    add(&b, 1, 1, "s3://", 5);
    add(&b, 5, 1, "AK\r\nIA", 6);
    add(&b, 6, 1, "secret", 6); /* they become lines of a request */
    read_fails(&b, LEAT_INVALID, "control character");
    add(&b, 1, 1, "s3://", 5);
    add(&b, 13, 1, "\3\0\0\0\0\0\0", 8); /* there are three ways to address */
    read_fails(&b, LEAT_INVALID, "damaged");
    for (unsigned i = 0; i <= LEAT_ACCESS_MAX; i++) {
        char place[8];
        snprintf(place, sizeof place, "p%02u", i);
        add(&b, 1, 1, place, 3);
    }
    read_fails(&b, LEAT_INVALID, "damaged");
    for (unsigned i = 0; i < LEAT_ACCESS_BYTES; i++)
        leat_buf_char(&b, 'x');
    leat_buf_char(&b, 'x');
    read_fails(&b, LEAT_LIMIT, "bytes");
}

/* Use */

TEST_WITH(clean, NULL, a_store_is_opened_with_what_was_found_elsewhere_and_nothing_else)
{
    struct leat_url url = {.scheme = LEAT_SCHEME_S3, .host = bucket, .path = nothing, .query = nothing};
    struct leat_url google = {.scheme = LEAT_SCHEME_GS, .host = bucket, .path = nothing, .query = nothing};
    struct leat_store *store = NULL;
    struct leat_store_place place = {0};
    struct leat_error err;
    set_all();
    struct leat_access *access = make(five, 1);
    clean(); /* another process has another environment */
    struct leat_store_opts opts = {.access = access};
    assert_ok(leat_store_open(&url, &opts, &store, &err), err);
    leat_store_place(store, &place);
    assert_string_equal(place.key_id, "AKIA");
    set("AWS_ACCESS_KEY_ID", "OTHER");
    set("AWS_SECRET_ACCESS_KEY", "other");
    struct leat_access *others = make(five, 1);
    assert_false(leat_access_covered(access, others));
    leat_store_renew(store, others);
    leat_store_place(store, &place);
    assert_string_equal(place.key_id, "OTHER");
    leat_store_close(store);
    store = NULL;
    assert_fails(leat_store_open(&google, &opts, &store, &err), err, LEAT_DENIED, "gs://bucket");
    assert_int_equal(leat_access_renew(access, 0, others), LEAT_ACCESS_OTHERS);
    assert_int_equal(leat_access_renew(access, 0, others), LEAT_ACCESS_SAME);
    leat_access_free(others);
    leat_access_free(access);
}

TEST_WITH(clean, NULL, places_tell_what_one_set_of_keys_is_for)
{
    static const char *const cases[][2] = {
        {"s3://bucket/key", "s3://"},
        {"s3://other/key", "s3://"},
        {"s3://fast--use1-az4--x-s3/key", "s3://fast--use1-az4--x-s3"},
        {"gs://bucket/key", "gs://"},
        {"az://acct/box/key", "az://acct"},
        {"hf://datasets/o/n@main/x", "hf://"},
        {"https://example.org/x?sig=sesame", "https://"},
        {"http://example.org/x", "http://"},
    };
    struct leat_access *access;
    struct leat_error err;
    assert_ok(leat_access_new(&access, &err), err);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct leat_url url = {0};
        char place[LEAT_ACCESS_PLACE];
        assert_ok(leat_url_parse(cases[i][0], &url, &err), err);
        leat_access_place(access, &url, place);
        assert_string_equal(place, cases[i][1]);
        leat_url_free(&url);
    }
    leat_access_free(access);
}

/* Without memory */

static bool serve(struct peer_request *r, void *user)
{
    (void)user;
    if (strstr(r->target, "/impersonate"))
        return peer_answer(r, 200, "{\"accessToken\": \"tok\", \"expireTime\": \"2099-01-01T00:00:00Z\"}");
    if (strstr(r->target, "/subject"))
        return peer_answer(r, 200, "{\"value\": \"subject\"}");
    return peer_answer(r, 200, "{\"access_token\": \"tok\", \"expires_in\": 3600, \"token_type\": \"Bearer\"}");
}

struct provider {
    const char *url;
    void (*prepare)(void);
};

static leat_status look(const struct provider *p, struct leat_access **out, struct leat_error *err)
{
    struct leat_access *access = NULL;
    leat_status rc = leat_access_begin(&access, err);
    if (rc == LEAT_OK)
        rc = resolve(access, p->url, true, err);
    if (rc == LEAT_OK)
        *out = access;
    else
        leat_access_free(access);
    return rc;
}

/* What is tried again or kept for others may still succeed, with nothing missing; what fails says that memory ran out.
 */
static void fail_each(const struct provider *p)
{
    struct leat_access *whole = NULL;
    struct leat_error err;
    uint8_t expected[LEAT_SHA256_SIZE], got[LEAT_SHA256_SIZE];
    clean();
    p->prepare();
    assert_ok(look(p, &whole, &err), err);
    assert_true(leat_access_from(whole, leat_access_count(whole) - 1)[0]);
    assert_true(leat_access_digest(whole, expected));
    long n = 0;
    for (bool failed = true; failed; n++) {
        for (int and_later = 0; and_later < 2; and_later++) {
            struct leat_access *access = NULL;
            err = (struct leat_error){.status = LEAT_OK};
            fail_alloc_anywhere_at(n, and_later);
            leat_status rc = look(p, &access, &err);
            failed = fail_alloc_stop();
            if (rc != LEAT_OK && (rc != LEAT_NO_MEMORY || err.status != rc || !*err.text))
                fail_msg("%s: allocation %ld failed and the answer is '%s': %s", p->url, n, leat_status_name(rc),
                         err.text);
            if (rc == LEAT_OK) {
                assert_true(leat_access_digest(access, got));
                if (memcmp(expected, got, sizeof got) != 0 || !leat_access_covered(whole, access))
                    fail_msg("%s: allocation %ld failed, and something is missing without a word", p->url, n);
            }
            leat_access_free(access);
        }
    }
    assert_true(n > 3);
    leat_access_free(whole);
}

static void use_pair(void)
{
    set("GS_ACCESS_KEY_ID", "GOOG");
    set("GS_SECRET_ACCESS_KEY", "sesame");
    set("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1");
}

static void use_credentials(const char *text)
{
    char path[128];
    write_named("credentials.json", text, path);
    set("GOOGLE_APPLICATION_CREDENTIALS", path);
}

static char *private_key(void)
{
    static char json[4096]; /* with "\n" for line ends */
    if (json[0])
        return json;
    EVP_PKEY *key = EVP_RSA_gen(2048);
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem;
    assert_non_null(key);
    assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
    long n = BIO_get_mem_data(bio, &pem);
    size_t at = 0;
    for (long i = 0; i < n; i++)
        at += (size_t)snprintf(json + at, sizeof json - at, pem[i] == '\n' ? "\\n" : "%c", pem[i]);
    BIO_free(bio);
    EVP_PKEY_free(key);
    return json;
}

static void use_service_account(void)
{
    char text[8192];
    snprintf(text, sizeof text,
             "{\"type\": \"service_account\", \"client_email\": \"a@b\", \"private_key_id\": \"1\", \"private_key\": "
             "\"%s\", \"token_uri\": \"%s/token\"}",
             private_key(), peer_url(peer));
    use_credentials(text);
}

static void use_login(void)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"type\": \"authorized_user\", \"client_id\": \"c\", \"client_secret\": \"s\", \"refresh_token\": "
             "\"r\", \"token_uri\": \"%s/token\"}",
             peer_url(peer));
    use_credentials(text);
}

static void use_workload(void)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"type\": \"external_account\", \"audience\": \"a\", \"subject_token_type\": \"t\", \"token_url\": "
             "\"%s/token\", \"credential_source\": {\"url\": \"%s/subject\", \"headers\": {\"X-Ask\": \"please\"}, "
             "\"format\": {\"type\": \"json\", \"subject_token_field_name\": \"value\"}}, "
             "\"service_account_impersonation_url\": \"%s/impersonate\"}",
             peer_url(peer), peer_url(peer), peer_url(peer));
    use_credentials(text);
}

static void use_metadata(void)
{
    set("GCE_METADATA_HOST", peer_url(peer) + strlen("http://"));
}

static void use_account_key(void)
{
    set("AZURE_STORAGE_KEY", "c2VzYW1l");
}

static void use_sas(void)
{
    set("AZURE_STORAGE_SAS_TOKEN", "?sv=2024&sig=sesame");
}

static void use_connection(void)
{
    set("AZURE_STORAGE_CONNECTION_STRING", "AccountName=acct;AccountKey=c2VzYW1l;BlobEndpoint=http://127.0.0.1:1/acct");
}

static void use_program(void)
{
    set("AZURE_TENANT_ID", "t");
    set("AZURE_CLIENT_ID", "c");
    set("AZURE_CLIENT_SECRET", "sesame");
    set("AZURE_AUTHORITY_HOST", peer_url(peer));
}

static void use_federation(void)
{
    char path[128];
    use_program();
    unsetenv("AZURE_CLIENT_SECRET");
    write_named("token", "word\n", path);
    set("AZURE_FEDERATED_TOKEN_FILE", path);
}

static void use_identity(void)
{
    set("IDENTITY_ENDPOINT", peer_url(peer));
    set("IDENTITY_HEADER", "h");
}

static void use_hub_variable(void)
{
    set("HF_TOKEN", "sesame");
    set("HF_ENDPOINT", "http://127.0.0.1:1");
}

static void use_hub_file(void)
{
    char path[128];
    write_named("hub-token", "sesame\n", path);
    set("HF_TOKEN_PATH", path);
}

static void use_aws(void)
{
    set_all();
    set("LEAT_REQUESTER_PAYS", "true");
}

static void use_sections(void)
{
    char path[128];
    set_all();
    write_named("leat-config",
                "[store az://acct]\nendpoint-url = http://127.0.0.1:1\n"
                "[store s3://b]\nendpoint-url = http://127.0.0.1:2\nheader = x-a: b\nrequester-pays = true\n",
                path);
    set("LEAT_CONFIG", path);
}

TEST_WITH(clean, NULL, a_store_with_a_section_is_a_place_by_itself)
{
    static const char *const cases[][2] = {{"s3://b/key", "s3://b"},
                                           {"s3://bb/key", "s3://"},
                                           {"az://acct/box/key", "az://acct"},
                                           {"az://acctx/box/key", "az://acctx"},
                                           {"gs://b/key", "gs://"}};
    struct leat_access *access;
    struct leat_access *back;
    struct leat_error err;
    use_sections();
    assert_ok(leat_access_begin(&access, &err), err);
    assert_ok(resolve(access, "s3://other/x", true, &err), err);
    struct leat_buf b = written(access);
    assert_ok(leat_access_read(b.data, b.len, &back, &err), err);
    leat_buf_free(&b);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct leat_url url = {0};
        char place[LEAT_ACCESS_PLACE];
        assert_ok(leat_url_parse(cases[i][0], &url, &err), err);
        leat_access_place(back, &url, place);
        assert_string_equal(place, cases[i][1]);
        /* Only s3:// is known: not what has but a name. */
        assert_int_equal(leat_access_has(back, &url), strcmp(place, "s3://") == 0);
        leat_url_free(&url);
    }
    assert_ok(resolve(access, "s3://b/x", true, &err), err);
    assert_int_equal(leat_access_count(access), 3);
    assert_string_equal(leat_access_endpoint(access, 2), "http://127.0.0.1:2");
    assert_false(leat_access_covered(access, back)); /* s3://b has keys now */
    assert_true(leat_access_covered(back, access));
    assert_int_equal(leat_access_renew(access, 2, back), LEAT_ACCESS_NONE); /* those of s3:// are not its own */
    leat_access_free(back);
    leat_access_free(access);
}

TEST_WITH(clean, NULL, keys_of_google_without_memory)
{
    static const struct provider all[] = {{"gs://b", use_pair},
                                          {"gs://b", use_service_account},
                                          {"gs://b", use_login},
                                          {"gs://b", use_workload},
                                          {"gs://b", use_metadata}};
    for (size_t i = 0; i < COUNT(all); i++)
        fail_each(&all[i]);
}

TEST_WITH(clean, NULL, keys_of_azure_without_memory)
{
    static const struct provider all[] = {{"az://acct/b", use_account_key}, {"az://acct/b", use_sas},
                                          {"az://acct/b", use_connection},  {"az://acct/b", use_program},
                                          {"az://acct/b", use_federation},  {"az://acct/b", use_identity}};
    for (size_t i = 0; i < COUNT(all); i++)
        fail_each(&all[i]);
}

TEST_WITH(clean, NULL, keys_of_the_hub_and_of_aws_without_memory)
{
    static const struct provider all[] = {{"hf://datasets/o/n", use_hub_variable},
                                          {"hf://datasets/o/n", use_hub_file},
                                          {"s3://b", use_aws},
                                          {"s3://b", use_sections}};
    for (size_t i = 0; i < COUNT(all); i++)
        fail_each(&all[i]);
}

/* Written, read, copied, and used for a store. */
static leat_status carry(void *user, struct leat_error *err)
{
    const struct leat_access *access = user;
    struct leat_access *back = NULL;
    struct leat_access *copy = NULL;
    struct leat_store_opts opts = {.endpoint_url = "http://127.0.0.1:1", .region = "r", .access = access};
    struct leat_store_opts copied = {0};
    struct leat_url url = {.scheme = LEAT_SCHEME_GS, .host = bucket, .path = nothing, .query = nothing};
    struct leat_buf b;
    uint8_t digest[LEAT_SHA256_SIZE];
    leat_buf_init(&b, LEAT_ACCESS_BYTES);
    leat_access_write(access, &b);
    leat_status rc = leat_buf_check(&b, "access", err);
    if (rc == LEAT_OK)
        rc = leat_access_read(b.data, b.len, &back, err);
    if (rc == LEAT_OK)
        rc = leat_access_copy(back, &copy, err);
    if (rc == LEAT_OK)
        rc = leat_access_add(copy, access, &url, err);
    if (rc == LEAT_OK)
        rc = leat_store_opts_copy(&opts, &copied, err);
    if (rc == LEAT_OK && !leat_access_digest(copy, digest))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a digest");
    if (rc == LEAT_OK && leat_access_renew(copy, 0, back) == LEAT_ACCESS_NONE)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for keys");
    leat_store_opts_free(&copied);
    leat_access_free(copy);
    leat_access_free(back);
    leat_buf_free(&b);
    return rc;
}

TEST_WITH(clean, NULL, settings_are_carried_without_memory)
{
    set_all();
    struct leat_access *access = make(five, COUNT(five));
    assert_true(fail_alloc_each(carry, access) > 20);
    leat_access_free(access);
}

static void set_up(void)
{
    folder_make(folder);
    peer = peer_open(serve, NULL);
    private_key();
}

static void tear_down(void)
{
    peer_close(peer);
    folder_remove(folder);
}

TEST_GROUP(set_up, tear_down);
