/* The one program of all unit tests: `unit NAME` runs those of test_NAME.c, `unit` lists the names. */
#include "unit.h"

#include <ctype.h>

static struct unit_test *tests; /* of all files */

struct group {
    const char *file;
    void (*before)(void);
    void (*after)(void);
};
static struct group groups[256];
static size_t n_groups;

static struct group chosen; /* of the file that runs; empty: it has none */
static bool begun;          /* its `before` is through, or there is none */
static bool ended;          /* … and its `after` */
static unsigned ran;        /* tests */
static uint64_t numbers[4];
static unsigned n_numbers;

void unit_add(struct unit_test *test)
{
    test->next = tests;
    tests = test;
}

void unit_add_group(const char *file, void (*before)(void), void (*after)(void))
{
    if (n_groups == COUNT(groups))
        abort();
    groups[n_groups++] = (struct group){file, before, after};
}

uint64_t unit_number(unsigned i, uint64_t otherwise)
{
    return i < n_numbers ? numbers[i] : otherwise;
}

void unit_clean_environment(void)
{
    static const char *const names[] = {
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN", "AWS_PROFILE",
        "AWS_REGION",        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",  "AWS_ENDPOINT_URL_S3",
        "S3_ENDPOINT_URL",   "http_proxy",
        "https_proxy",       "all_proxy",
        "ALL_PROXY",
    };
    for (size_t i = 0; i < COUNT(names); i++)
        unsetenv(names[i]);
    setenv("HOME", "/nonexistent", 1);
}

/* base_url of ../tests/unit/test_base_url.c, or "" of what is named otherwise. */
static const char *name_of(const char *file, char name[64])
{
    const char *slash = strrchr(file, '/');
    if (sscanf(slash ? slash + 1 : file, "test_%63[^.]", name) != 1)
        name[0] = '\0';
    return name;
}

static bool is_of(const char *file, const char *wanted)
{
    char name[64];
    return strcmp(name_of(file, name), wanted) == 0;
}

static int by_place(const void *a, const void *b)
{
    const struct unit_test *const *one = a;
    const struct unit_test *const *other = b;
    int files = strcmp((*one)->file, (*other)->file);
    return files ? files : (*one)->line - (*other)->line;
}

/* The tests of a file (NULL: of all) by place; the caller frees them. */
static struct unit_test **tests_of(const char *name, size_t *n)
{
    size_t all = 0;
    for (struct unit_test *t = tests; t; t = t->next)
        all++;
    struct unit_test **found = calloc(all + 1, sizeof(struct unit_test *));
    if (!found)
        abort();
    *n = 0;
    for (struct unit_test *t = tests; t; t = t->next) {
        if (!name || is_of(t->file, name))
            found[(*n)++] = t;
    }
    qsort(found, *n, sizeof(struct unit_test *), by_place);
    return found;
}

static int before(void **state)
{
    const struct unit_test *t = *state;
    if (t->before)
        t->before();
    return 0;
}

static void run(void **state)
{
    const struct unit_test *t = *state;
    ran++;
    t->run();
}

static int after(void **state)
{
    const struct unit_test *t = *state;
    if (t->after)
        t->after();
    return 0;
}

static int before_all(void **state)
{
    (void)state;
    if (chosen.before)
        chosen.before();
    begun = true;
    return 0;
}

static int after_all(void **state)
{
    (void)state;
    if (chosen.after)
        chosen.after();
    ended = true;
    return 0;
}

static void usage(void)
{
    size_t n;
    char name[64];
    struct unit_test **all = tests_of(NULL, &n);
    printf("unit NAME [NUMBER…] [TEST]: runs the tests of tests/unit/test_NAME.c, or one of them (with * and ?).\n"
           "The numbers are for long runs of a few. NAME is one of:\n");
    for (size_t i = 0, first = 0; i < n; i++) {
        if (i + 1 < n && strcmp(all[i]->file, all[i + 1]->file) == 0)
            continue;
        printf("  %-24s %zu tests\n", name_of(all[i]->file, name), i + 1 - first);
        first = i + 1;
    }
    free(all);
}

/* What the tests of a file are for cmocka. False, and said: there are none, or there is a name twice. */
static bool choose(const char *name, struct unit_test **from, struct CMUnitTest *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(from[i]->name, from[j]->name) == 0) {
                fprintf(stderr, "unit: %s:%d: %s is a test at line %d too\n", from[i]->file, from[i]->line,
                        from[i]->name, from[j]->line);
                return false;
            }
        }
        to[i] = (struct CMUnitTest){from[i]->name, run, before, after, from[i]};
    }
    unsigned of_this = 0;
    for (size_t i = 0; i < n_groups; i++) {
        if (is_of(groups[i].file, name)) {
            chosen = groups[i];
            of_this++;
        }
    }
    if (n == 0 || of_this > 1)
        fprintf(stderr, "unit: %s\n", n ? "more than one TEST_GROUP in a file" : "no tests of that name");
    return n > 0 && of_this <= 1;
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0) {
        usage();
        return argc < 2 ? 2 : 0; /* a run that tests nothing is no passed test */
    }
    unit_clean_environment();
    const char *name = argv[1];
    for (int i = 2; i < argc; i++) {
        if (!isdigit((unsigned char)argv[i][0]))
            cmocka_set_test_filter(argv[i]);
        else if (n_numbers < COUNT(numbers))
            numbers[n_numbers++] = strtoull(argv[i], NULL, 10);
    }
    size_t n;
    struct unit_test **mine = tests_of(name, &n);
    struct CMUnitTest *table = calloc(n + 1, sizeof *table);
    int failed = 2;
    if (table && choose(name, mine, table, n)) {
        failed = _cmocka_run_group_tests(name, table, n, before_all, after_all);
        if (!begun || !ended || !ran)
            failed++; /* cmocka counts no test that it did not start, nor does a name that is none's count */
    }
    free(table);
    free(mine);
    return failed;
}
