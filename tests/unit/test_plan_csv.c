#include "plan/csv.h"

#include <math.h>

#include "base/buf.h"
#include "unit.h"

static struct leat_plan_csv *parse(const char *text)
{
    struct leat_plan_csv *csv = NULL;
    struct leat_error err;
    assert_ok(leat_plan_csv_parse("t.csv", text, strlen(text), NULL, &csv, &err), err);
    return csv;
}

static void assert_reads(const char *text, const char *expected)
{
    struct leat_buf b;
    struct leat_plan_csv *csv = parse(text);
    leat_buf_init(&b, 10000);
    for (size_t i = 0; i < csv->column_count; i++)
        leat_buf_printf(&b, "<%s>", csv->columns[i]);
    for (size_t r = 0; r < csv->row_count; r++) {
        leat_buf_printf(&b, "%u", csv->rows[r].line);
        for (size_t i = 0; i < csv->column_count; i++)
            leat_buf_printf(&b, "|%s", csv->rows[r].fields[i]);
        leat_buf_char(&b, ';');
    }
    assert_string_equal(b.data, expected);
    leat_buf_free(&b);
    leat_plan_csv_free(csv);
}

TEST(rows_come_with_their_lines)
{
    assert_reads("a,b\n1,2\n3,4\n", "<a><b>2|1|2;3|3|4;");
    assert_reads("a\n", "<a>");
    assert_reads("a", "<a>");
    assert_reads("a,b\r\n1,\r\n\r\n,2", "<a><b>2|1|;4||2;");
    assert_reads(" a , b \n x y ,\t2\t\n", "<a><b>2|x y|2;");
    assert_reads("\xef\xbb\xbf# note\n\na\n1\n", "<a>4|1;");
}

TEST(quoted_fields_hold_anything)
{
    assert_reads("a,b\n\"x,y\",\"say \"\"hi\"\"\"\n", "<a><b>2|x,y|say \"hi\";");
    assert_reads("a,b\n\"two\nlines\",2\n3,4\n", "<a><b>2|two\nlines|2;4|3|4;");
    assert_reads("a\n\" x \"\n\"\"\n", "<a>2| x ;3|;");
    assert_reads("GpuInfo,Price\n\"{'Gpus': [{'Name': 'V100', 'Count': 1}]}\",3.06\n",
                 "<GpuInfo><Price>2|{'Gpus': [{'Name': 'V100', 'Count': 1}]}|3.06;");
}

TEST(what_is_no_table_is_refused_with_its_line)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"", "t.csv is empty"},
        {"# only a comment\n", "t.csv is empty"},
        {"a,b\n1\n", "t.csv line 2: 1 fields where the header has 2"},
        {"a,b\n1,2,3\n", "t.csv line 2: 3 fields"},
        {"a,b,A\n", "t.csv line 1: column 'A' is given twice"},
        {"a\n\"x\n", "t.csv line 2: a quoted field without"},
        {"a\n\"x\" y\n", "t.csv line 2: something follows"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct leat_plan_csv *csv;
        struct leat_error err;
        assert_fails(leat_plan_csv_parse("t.csv", wrong[i].text, strlen(wrong[i].text), NULL, &csv, &err), err,
                     LEAT_INVALID, wrong[i].says);
    }
    struct leat_plan_csv *csv;
    struct leat_error err;
    assert_fails(leat_plan_csv_parse("t.csv", "a\0", 2, NULL, &csv, &err), err, LEAT_INVALID, "NUL");
}

TEST(columns_are_found_by_name)
{
    struct leat_plan_csv *csv = parse("#  date: 2026-01-02\nPrice,Region\n1.5,x\nnan,y\n,z\n");
    struct leat_error err;
    size_t column;
    double v;
    assert_string_equal(csv->comment, "  date: 2026-01-02");
    assert_int_equal(leat_plan_csv_column(csv, "region"), 1);
    assert_true(leat_plan_csv_column(csv, "Zone") == LEAT_PLAN_CSV_NONE);
    assert_fails(leat_plan_csv_need(csv, "Zone", &column, &err), err, LEAT_INVALID,
                 "t.csv line 2: there is no column 'Zone'");
    assert_ok(leat_plan_csv_need(csv, "Price", &column, &err), err);
    assert_ok(leat_plan_csv_number(csv, 0, column, &v, &err), err);
    assert_true(v == 1.5);
    assert_fails(leat_plan_csv_number(csv, 1, column, &v, &err), err, LEAT_INVALID, "t.csv line 4: Price: 'nan'");
    assert_fails(leat_plan_csv_number(csv, 2, column, &v, &err), err, LEAT_INVALID, "t.csv line 5: Price is missing");
    leat_plan_csv_free(csv);
}

TEST(every_beginning_of_a_table_is_read_or_refused)
{
    static const char text[] = "# c\na,\"b\"\n\"x,\"\"y\"\"\",2\n3,\"4\n5\"\n";
    for (size_t n = 0; n < sizeof text; n++) {
        struct leat_plan_csv *csv = NULL;
        char *copy = malloc(n + 1);
        memcpy(copy, text, n);
        leat_plan_csv_parse("t", copy, n, NULL, &csv, NULL);
        leat_plan_csv_free(csv);
        free(copy);
    }
}

TEST(bad_rows_cost_themselves_alone_when_asked_so)
{
    static const char text[] = "a,b\n1,2\n3\n\"x,4\n5,6,7\n\"y\" z,8\n9,10\n";
    struct leat_plan_csv_bad bad = {0};
    struct leat_plan_csv *csv = NULL;
    struct leat_error err;
    assert_ok(leat_plan_csv_parse("t.csv", text, strlen(text), &bad, &csv, &err), err);
    assert_int_equal(csv->row_count, 2);
    assert_string_equal(csv->rows[1].fields[1], "10");
    assert_int_equal(csv->rows[1].line, 7);
    assert_int_equal(bad.count, 4);
    assert_int_equal(bad.first_line, 3);
    assert_string_equal(bad.why, "1 fields where the header has 2");
    leat_plan_csv_free(csv);
}
