#include "plan/toml.h"

#include <math.h>

#include "base/buf.h"
#include "unit.h"

static void print_value(struct leat_buf *b, const struct leat_plan_doc_value *v)
{
    switch (v->type) {
    case LEAT_PLAN_DOC_STRING:
        leat_buf_printf(b, "'%s'", v->text);
        break;
    case LEAT_PLAN_DOC_NUMBER:
        leat_buf_printf(b, "%.17g", v->number);
        break;
    case LEAT_PLAN_DOC_BOOL:
        leat_buf_str(b, v->flag ? "true" : "false");
        break;
    case LEAT_PLAN_DOC_ARRAY:
        leat_buf_char(b, '[');
        for (size_t i = 0; i < v->count; i++) {
            leat_buf_str(b, i ? "," : "");
            print_value(b, &v->items[i]);
        }
        leat_buf_char(b, ']');
    }
}

/* Everything a document holds as one text: "path=value@line;" */
static void assert_reads(const char *text, const char *expected, bool json)
{
    struct leat_plan_doc *doc = NULL;
    struct leat_error err;
    struct leat_buf b;
    leat_buf_init(&b, 100000);
    if (json)
        assert_ok(leat_plan_doc_json("t", text, strlen(text), &doc, &err), err);
    else
        assert_ok(leat_plan_toml_parse("t", text, strlen(text), &doc, &err), err);
    for (size_t i = 0; i < doc->count; i++) {
        leat_buf_printf(&b, "%s=", doc->entries[i].path);
        print_value(&b, &doc->entries[i].value);
        leat_buf_printf(&b, "@%u;", doc->entries[i].line);
    }
    assert_string_equal(b.data, expected);
    leat_buf_free(&b);
    leat_plan_doc_free(doc);
}

TEST(settings_come_with_their_table_and_line)
{
    assert_reads("", "", false);
    assert_reads("a = 1", "a=1@1;", false);
    assert_reads("# top\na = 1 # one\n\n[b]\nc = 'x'\r\n[ b.d ]\ne.f = true\n", "a=1@2;b.c='x'@5;b.d.e.f=true@7;",
                 false);
    assert_reads("a-b_9 = false\n", "a-b_9=false@1;", false);
}

TEST(values_of_every_kind_are_read)
{
    assert_reads("a = 1_000_000", "a=1000000@1;", false);
    assert_reads("a = -1.5e-3", "a=-0.0015@1;", false);
    assert_reads("a = +2", "a=2@1;", false);
    assert_reads("a = \"x \\\" \\\\ \\t \\u00e9 # no\" # yes", "a='x \" \\ \t \xc3\xa9 # no'@1;", false);
    assert_reads("a = 'x \\n \" y'", "a='x \\n \" y'@1;", false);
    assert_reads("a = \"\"\nb = ''", "a=''@1;b=''@2;", false);
    assert_reads("a = []\nb = [1, 'x', true,]\nc = [ # list\n  1,\n\n  2 # two\n]\nd = 1\n",
                 "a=[]@1;b=[1,'x',true]@2;c=[1,2]@3;d=1@8;", false);
}

TEST(anything_else_is_refused_with_its_line)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"a", "t line 1: '=' is expected"},
        {"a =", "t line 1: a value is missing"},
        {"\n= 1", "t line 2: a key"},
        {"a = x", "t line 1: 'x' is not a value"},
        {"a = nan", "'nan' is not a value"},
        {"a = -inf", "'-inf' is not a value"},
        {"a = 1979-05-27", "not a number"},
        {"a = 0x10", "'0x10' is not a value"},
        {"a = 010", "may not begin with 0"},
        {"a = 1.", "digits must follow"},
        {"a = 1__0", "between digits"},
        {"a = 1e400", "out of range"},
        {"a = 1 2", "something follows"},
        {"a = \"x", "closing quote"},
        {"a = \"x\ny\"", "closing quote"},
        {"a = \"\"\"x\"\"\"", "several lines"},
        {"a = '''x'''", "several lines"},
        {"a = \"\\x\"", "escape"},
        {"a = \"\\ud800\"", "names no character"},
        {"a = \"\\u00g0\"", "hexadecimal"},
        {"a = \"\x01\"", "control character"},
        {"# \x01", "control character"},
        {"a = {b = 1}", "inline tables"},
        {"a = [[1]]", "arrays of arrays"},
        {"a = [1 2]", "',' or ']'"},
        {"a = [1,", "value is missing"},
        {"[[a]]", "arrays of tables"},
        {"[a", "written [name]"},
        {"[a] b", "something follows"},
        {"[]", "a key"},
        {"[a..b]", "a key"},
        {"\"a\" = 1", "quoted keys"},
        {"a = 1\na = 2", "t line 2: 'a' is given twice, first on line 1"},
        {"[a]\nb = 1\n[a]\nb = 2", "t line 4: 'a.b' is given twice"},
        {"a = truefoo", "strings are quoted"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct leat_plan_doc *doc;
        struct leat_error err;
        assert_fails(leat_plan_toml_parse("t", wrong[i].text, strlen(wrong[i].text), &doc, &err), err, LEAT_INVALID,
                     wrong[i].says);
    }
    struct leat_plan_doc *doc;
    struct leat_error err;
    assert_fails(leat_plan_toml_parse("t", "a\0b", 3, &doc, &err), err, LEAT_INVALID, "NUL");
}

TEST(every_beginning_of_a_document_is_read_or_refused)
{
    static const char text[] = "# c\n[a.b]\nc = [1, \"x\\u00e9\", true] # d\ne = 'f'\ng = -1_0.5e+3\n";
    for (size_t n = 0; n < sizeof text; n++) {
        struct leat_plan_doc *doc = NULL;
        struct leat_error err;
        char *copy = malloc(n + 1); /* exactly as long: a read beyond the end is seen by ASan */
        memcpy(copy, text, n);
        if (leat_plan_toml_parse("t", copy, n, &doc, &err) != LEAT_OK)
            assert_true(strstr(err.text, "t line") != NULL);
        leat_plan_doc_free(doc);
        free(copy);
    }
}

TEST(json_gives_the_same_document)
{
    assert_reads("{}", "", true);
    assert_reads("{\n \"a\": 1,\n \"b\": {\"c\": \"x\",\n  \"d\": [1,\n 2]}, \"e\": true}",
                 "a=1@2;b.c='x'@3;b.d=[1,2]@4;e=true@5;", true);
    /* A value that looks like a key, and a key that occurs twice in different tables. */
    assert_reads("{\"a\": \"b\",\n\"x\": {\"b\": \"\\\"c\\\":\"},\n\n\"c\": 1}", "a='b'@1;x.b='\"c\":'@2;c=1@4;", true);
}

TEST(json_that_is_no_document_is_refused)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"", "t line"},
        {"[1]", "not an object"},
        {"{\"a\": 1, \"a\": 2}", "t line 1"},
        {"{\"a\":\n NaN}", "t line 2"},
        {"{\"a\": 1e999}", "t line 1"},
        {"{\n\"a\": null}", "t line 2: 'a' is neither"},
        {"{\"a\": [{}]}", "'a' is neither"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct leat_plan_doc *doc;
        struct leat_error err;
        assert_fails(leat_plan_doc_json("t", wrong[i].text, strlen(wrong[i].text), &doc, &err), err, LEAT_INVALID,
                     wrong[i].says);
    }
}
