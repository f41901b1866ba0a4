#include "base/url.h"

#include "fuzz.h"

static void check_split(const char *text)
{
    char host[64];
    unsigned port;
    if (!leat_url_split_host(text, host, sizeof host, &port))
        return;
    PROMISE(host[0]);
    PROMISE(port <= 65535);
    PROMISE(strncmp(text, host, strlen(host)) == 0);
}

FUZZ(url)
{
    char *text = fuzz_text(data, size);
    struct leat_url url;
    struct leat_error err;
    leat_status rc = leat_url_parse(text, &url, &err);
    fuzz_check_error(rc, &err);
    check_split(text);
    if (rc == LEAT_OK) {
        /* Written again from its parts it is the same address. */
        char again[9000];
        struct leat_url second;
        if (url.scheme == LEAT_SCHEME_FILE)
            snprintf(again, sizeof again, "%s", url.path);
        else if (url.scheme != LEAT_SCHEME_HTTP && url.scheme != LEAT_SCHEME_HTTPS)
            snprintf(again, sizeof again, "%s://%s/%s", leat_scheme_name(url.scheme), url.host, url.path);
        else
            snprintf(again, sizeof again, "%s://%s%s?%s", leat_scheme_name(url.scheme), url.host, url.path, url.query);
        if (url.scheme != LEAT_SCHEME_FILE || !strstr(again, "://")) {
            PROMISE(leat_url_parse(again, &second, &err) == LEAT_OK);
            PROMISE(second.scheme == url.scheme);
            PROMISE(strcmp(second.host, url.host) == 0);
            PROMISE(strcmp(second.path, url.path) == 0);
            PROMISE(strcmp(second.query, url.query) == 0);
            leat_url_free(&second);
        }
        leat_url_free(&url);
    }
    free(text);
}
