/* What is accepted of a list, by pages that are made by hand. */
#include "store/list_check.h"

#include "unit.h"

#define KEYS_MAX 8

struct made {
    const char *keys[KEYS_MAX]; /* with '/' at the end: folders; "KEY=VERSION": a version */
    const char *token;
};

static struct leat_s3_page make(const struct made *m)
{
    struct leat_s3_page page = {0};
    leat_buf_init(&page.strings, 1 << 20);
    leat_buf_add(&page.strings, "", 1);
    page.entries = calloc(KEYS_MAX, sizeof *page.entries);
    assert_non_null(page.entries);
    for (; page.n < KEYS_MAX && m->keys[page.n]; page.n++) {
        const char *text = m->keys[page.n];
        const char *version = strchr(text, '=');
        size_t n = version ? (size_t)(version - text) : strlen(text);
        struct leat_s3_entry *e = &page.entries[page.n];
        e->prefix = text[n - 1] == '/';
        e->key = page.strings.len;
        leat_buf_add(&page.strings, text, n);
        e->version = page.strings.len + 1;
        leat_buf_add(&page.strings, "", 1);
        leat_buf_add(&page.strings, version ? version : "", version ? strlen(version) + 1 : 1);
    }
    return page;
}

/* Gives the pages to a check of a/…, all but the last of them accepted; that one, too, unless it is `wrong`. */
static void give(struct leat_list_check *c, const struct made *pages, const char *wrong)
{
    struct leat_error err;
    for (; pages->keys[0] || pages->token; pages++) {
        struct leat_s3_page page = make(pages);
        bool last = !pages[1].keys[0] && !pages[1].token;
        if (last && wrong)
            assert_fails(leat_list_check_page(c, &page, 0, pages->token, &err), err, LEAT_SERVER, wrong);
        else
            assert_ok(leat_list_check_page(c, &page, 0, pages->token, &err), err);
        leat_s3_page_free(&page);
    }
}

enum { ANY, ORDERED, VERSIONS };

static const struct {
    int kind;
    struct made pages[5];
    const char *wrong; /* NULL: the last page is accepted */
} cases[] = {
    {ORDERED, {{{"a/1", "a/2"}, "t"}, {{"a/3"}, NULL}}, NULL},
    {ORDERED, {{{"a/1"}, "t"}, {{NULL}, "u"}, {{"a/2"}, NULL}}, NULL},
    {ORDERED, {{{"a/"}, NULL}}, NULL}, /* the empty object that stands for the folder itself */
    {ORDERED, {{{"a"}, NULL}}, "'a', which was not asked for"},
    {ORDERED, {{{"a/1", "b/1"}, NULL}}, "'b/1', which was not asked for"},
    {ORDERED, {{{"a/1", "a/1"}, NULL}}, "'a/1' comes again"},
    {ORDERED, {{{"a/1", "a/2", "a/2"}, NULL}}, "'a/2' comes again"},
    {ORDERED, {{{"a/2"}, "t"}, {{"a/1"}, NULL}}, "'a/1' comes in page 2, too late"},
    {ORDERED, {{{"a/1", "a/3"}, "t"}, {{"a/2", "a/4"}, NULL}}, "'a/2' comes in page 2, too late"},
    {ORDERED, {{{"a/1", "a/2", "a/3"}, "t"}, {{"a/3"}, NULL}}, "'a/3' comes in page 2, too late"},
    {ORDERED, {{{"a/\xef\xbf\xbd"}, "t"}, {{"a/\xf0\x9f\x98\x80"}, NULL}}, NULL}, /* by bytes, not as UTF-16 */
    {ORDERED, {{{"a/1/"}, "t"}, {{"a/1/", "a/2"}, NULL}}, NULL},                  /* spread over both pages */
    {ORDERED, {{{"a/1/"}, "t"}, {{"a/2/"}, "u"}, {{"a/1/"}, NULL}}, "'a/1/' comes in page 3, too late"},
    {ORDERED, {{{"a/b.c"}, "t"}, {{"a/b/c"}, "u"}, {{"a/b0"}, NULL}}, NULL}, /* by bytes */
    {ORDERED, {{{"a/b/c"}, "t"}, {{"a/b.c"}, "u"}, {{"a/b0"}, NULL}}, NULL}, /* by path */
    {ORDERED, {{{"a/b/c"}, "t"}, {{"a/b.c"}, "u"}, {{"a/b/d"}, NULL}}, "'a/b/d' comes in page 3, too late"},
    {ORDERED, {{{"a/1=x", "a/1=y"}, NULL}}, "'a/1' comes again"},
    {VERSIONS, {{{"a/1=x", "a/1=y"}, "t"}, {{"a/1=z", "a/2=x"}, NULL}}, NULL},
    {VERSIONS, {{{"a/1=x"}, "t"}, {{"a/1=x"}, NULL}}, "'a/1' comes again"},
    {VERSIONS, {{{"a/2=x"}, "t"}, {{"a/1=y"}, NULL}}, "'a/1' comes in page 2, too late"},
    {ANY, {{{"a/2"}, "t"}, {{"a/1"}, NULL}}, NULL},
    {ANY, {{{"a/2"}, "t"}, {{"a/2"}, NULL}}, "'a/2' comes again"},
    {ANY, {{{"a/2"}, "t"}, {{"b"}, NULL}}, "'b', which was not asked for"},
    {ANY, {{{"a/1/"}, "t"}, {{"a/1/", "a/2"}, NULL}}, NULL},
    {ANY, {{{"a/1/"}, "t"}, {{"a/2"}, "t"}}, "page 3 has been there before"},
};

TEST(keys_are_those_asked_for_and_each_comes_once)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct leat_list_check c;
        leat_list_check_init(&c, "a/and more than the folder", 2, cases[i].kind != ANY, cases[i].kind == VERSIONS);
        give(&c, cases[i].pages, cases[i].wrong);
        leat_list_check_free(&c);
    }
}

/* Pages of `n` keys each, round and round among `round` of them under tokens of their own. */
static uint64_t pages_until_error(bool ordered, unsigned n, unsigned round)
{
    struct leat_error err;
    struct leat_list_check c;
    leat_list_check_init(&c, "", 0, ordered, false);
    for (uint64_t turned = 0, at = 0;; turned++) {
        char keys[KEYS_MAX][16];
        char token[24];
        struct made m = {.token = token};
        for (unsigned i = 0; i < n; i++, at++) {
            snprintf(keys[i], sizeof keys[i], "%06u", (unsigned)(at % round));
            m.keys[i] = keys[i];
        }
        snprintf(token, sizeof token, "%llu", (unsigned long long)turned);
        struct leat_s3_page page = make(&m);
        leat_status rc = leat_list_check_page(&c, &page, 0, token, &err);
        leat_s3_page_free(&page);
        if (rc != LEAT_OK) {
            assert_int_equal(rc, LEAT_SERVER);
            leat_list_check_free(&c);
            return turned;
        }
        assert_true(turned < 20000);
    }
}

TEST(a_list_that_never_ends_is_noticed_before_it_has_gone_round_three_times)
{
    for (unsigned n = 1; n < KEYS_MAX; n += 3) {
        for (unsigned round = n; round < 400; round += 7) {
            assert_true(pages_until_error(true, n, round) * n <= round + n);
            assert_true(pages_until_error(false, n, round) * n <= 3 * round + n);
        }
    }
    assert_int_equal(pages_until_error(true, 0, 1), 10000); /* pages that hold nothing at all */
    assert_int_equal(pages_until_error(false, 0, 1), 10000);
}
