/* Signs requests given as JSON lines on standard input, for the comparison with botocore and google-cloud-storage in
 * tests/py/test_sign.py and test_sign_google.py. Answers each with {"date", "authorization", "canonical", "query"}. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/sign.h"

#define PAIRS_MAX 64

static size_t read_pairs(const json_t *list, struct leat_sign_pair *out)
{
    size_t n = json_array_size(list);
    if (n > PAIRS_MAX)
        abort();
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(list, i);
        out[i].name = json_string_value(json_array_get(pair, 0));
        out[i].value = json_string_value(json_array_get(pair, 1));
    }
    return n;
}

static const char *text(const json_t *request, const char *name)
{
    return json_string_value(json_object_get(request, name));
}

static void answer(const json_t *request)
{
    struct leat_sign_pair query[PAIRS_MAX];
    struct leat_sign_pair headers[PAIRS_MAX];
    struct leat_sign_keys keys = {text(request, "access_key"), text(request, "secret_key"), text(request, "token")};
    bool google = json_is_true(json_object_get(request, "google"));
    struct leat_sign_request r = {
        .method = text(request, "method"),
        .host = text(request, "host"),
        .path = text(request, "path"),
        .query = query,
        .query_n = read_pairs(json_object_get(request, "query"), query),
        .headers = headers,
        .headers_n = read_pairs(json_object_get(request, "headers"), headers),
        .payload_hash = text(request, "payload_hash"),
        .region = text(request, "region"),
        .service = google ? "storage" : "s3",
        .google = google,
        .asymmetric = json_is_true(json_object_get(request, "asymmetric")),
        .time_s = json_integer_value(json_object_get(request, "time")),
    };
    char date[LEAT_SIGN_DATE];
    struct leat_buf authorization;
    struct leat_buf canonical;
    struct leat_buf sent;
    struct leat_error err;
    leat_buf_init(&authorization, 1 << 20);
    leat_buf_init(&canonical, 1 << 20);
    leat_buf_init(&sent, 1 << 20);
    if (leat_sign(&keys, &r, date, &authorization, &err) != LEAT_OK ||
        leat_sign_canonical(&r, date, keys.session_token, &canonical, &err) != LEAT_OK ||
        !leat_sign_query(&sent, query, r.query_n)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    json_t *out = json_pack("{s:s, s:s, s:s, s:s}", "date", date, "authorization", authorization.data, "canonical",
                            canonical.data, "query", sent.data);
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(out);
    leat_buf_free(&authorization);
    leat_buf_free(&canonical);
    leat_buf_free(&sent);
}

int main(void)
{
    static char line[1 << 20];
    while (fgets(line, sizeof line, stdin)) {
        json_t *request = json_loads(line, 0, NULL);
        if (!request)
            abort();
        answer(request);
        json_decref(request);
    }
    return ferror(stdin) || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
