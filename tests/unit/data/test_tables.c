/* Rows with columns: CSV and SQLite. */
#include "unit/data/data_kit.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_text(const char *name, const char *text)
{
    kit_write(name, text, strlen(text));
}

static const char *fields(const char *text, const char *options, uint64_t number)
{
    write_text("t.csv", text);
    return kit_fields(kit_path("t.csv"), options, number);
}

static void a_row_may_have_quotes_and_line_ends(void **state)
{
    static const char text[] =
        "\xef\xbb\xbfname,\"count, all\",x\r\n\"a\nb\",1,2.5\r\n\r\n\"say \"\"hi\"\"\",-2,\n,3,1e3";

    assert_string_equal(fields(text, NULL, 0), "name='a\nb' count, all=1 x=2.5");
    assert_string_equal(fields(text, NULL, 1), "name='say \"hi\"' count, all=-2 x=null");
    assert_string_equal(fields(text, NULL, 2), "name='' count, all=3 x=1000");
    assert_string_equal(fields("a\n\"\"\"x\"\n\"\"\n", NULL, 0), "a='\"x'");
    assert_string_equal(fields("a,b\n\"x\"y,\"\"\n", NULL, 0), "a='xy' b=''");
    write_text("t.csv", text);
    assert_string_equal(kit_show(kit_path("t.csv"), NULL),
                        "\"a\nb\",1,2.5|\"say \"\"hi\"\"\",-2,|,3,1e3|");
}

static void columns_and_types_can_be_said(void **state)
{
    assert_string_equal(fields("a,b,c\n1,2,3\n", "columns=c,a", 0), "c=3 a=1");
    assert_non_null(strstr(fields("a,b\n1,2\n", "columns=a,z", 0), "no column 'z'"));
    assert_string_equal(fields("1;2\n3;4\n", "header=no&delimiter=;", 1), "c0=3 c1=4");
    assert_string_equal(fields("a,b\n1,2\n", "types=str,float", 0), "a='1' b=2");
    assert_non_null(strstr(fields("a,b\n1,2\n", "types=str", 0), "has 2 columns"));
    assert_non_null(strstr(fields("a,b\n1,2\n", "types=str,date", 0), "no type"));
    write_text("t.tsv", "a\tb\n1\tx,y\n");
    assert_string_equal(kit_fields(kit_path("t.tsv"), NULL, 0), "a=1 b='x,y'");
    assert_string_equal(fields("a\n1\nx\n", "types=int&skip=yes", 0), "a=1");
}

static void rows_that_do_not_fit_are_damage(void **state)
{
    static const char text[] = "a,b\n1,2\n3\n4,5,6\n7,8\n";

    write_text("t.csv", text);
    assert_string_equal(kit_show(kit_path("t.csv"), NULL), "1,2|#-4 at 8|#-4 at 10|7,8|");
    assert_string_equal(kit_show(kit_path("t.csv"), "skip=yes"), "1,2|7,8|");
    assert_int_equal(kit_skipped, 2);
    write_text("t.csv", "a\nx\n\"open\ny\n");
    assert_string_equal(kit_show(kit_path("t.csv"), NULL), "#-4 at 4");
    write_text("t.csv", "");
    assert_string_equal(kit_show(kit_path("t.csv"), NULL), "");
    write_text("t.csv", "a,b\n");
    assert_string_equal(kit_show(kit_path("t.csv"), NULL), "");
}

/* ---- SQLite ---- */

static void run(const char *name, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(kit_path(name), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void a_table_is_read_by_row_number(void **state)
{
    const char *source = kit_path("t.db");
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;
    size_t n;

    run("t.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, score REAL, raw BLOB);"
                "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000)"
                "INSERT INTO t SELECT x * 3, 'n' || x, x / 4.0, x'0102' FROM c;");
    assert_int_equal(mu_reader_open(&source, 1, NULL, &reader), MU_OK);
    assert_int_equal(mu_reader_records(reader), 3000);
    assert_int_equal(mu_reader_columns(reader, &n)[2].type, MU_REAL);
    assert_int_equal(n, 4);
    assert_int_equal(mu_scan_open(reader, 0, UINT64_MAX, &scan), MU_OK);
    for (int64_t i = 2999; i >= 0; i -= 7) {
        assert_int_equal(mu_scan_at(scan, (uint64_t)i, &record), MU_OK);
        assert_int_equal(record.fields[0].integer, 3 * (i + 1));
    }
    for (int64_t i = 0; i < 3000; i++) {
        assert_int_equal(mu_scan_next(scan, &record), MU_OK);
        assert_int_equal(record.fields[0].integer, 3 * (i + 1));
    }
    assert_int_equal(mu_scan_next(scan, &record), MU_EDONE);
    mu_scan_close(scan);
    mu_reader_close(reader);
}

static void tables_and_columns_can_be_chosen(void **state)
{
    char source[256];

    run("t.db", "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, NULL), (2, 'x'); CREATE TABLE "
                "\"o\"\"u\" (k PRIMARY KEY, v) WITHOUT ROWID;"
                "INSERT INTO \"o\"\"u\" VALUES ('p', 1.5), ('q', 2); CREATE VIEW v AS SELECT a + 1 "
                "AS c FROM t;");
    assert_non_null(strstr(kit_fields(kit_path("t.db"), NULL, 0), "has 3 tables"));
    assert_string_equal(kit_fields(kit_path("t.db"), "table=t", 0), "a=1 b=null");
    assert_string_equal(kit_fields(kit_path("t.db"), "table=t&columns=b,a", 1), "b='x' a=2");
    assert_string_equal(kit_fields(kit_path("t.db"), "table=o\"u", 1), "k='q' v=2");
    snprintf(source, sizeof(source), "sqlite:%s?table=v", kit_path("t.db"));
    assert_string_equal(kit_fields(source, NULL, 1), "c=3");
    assert_non_null(
        strstr(kit_fields(kit_path("t.db"), "table=t&columns=z", 0), "no column \"z\""));
    assert_non_null(strstr(kit_fields(kit_path("t.db"), "table=none", 0), "no such table"));
}

static void a_damaged_database_is_told_of(void **state)
{
    uint8_t *file;
    size_t n;

    run("t.db", "CREATE TABLE t (a); INSERT INTO t VALUES (1);");
    file = kit_read(kit_path("t.db"), &n);
    memset(file + 100, 0x5a, 200);
    kit_write("t.db", file, n);
    free(file);
    assert_string_equal(kit_show(kit_path("t.db"), NULL), "#-4 at 0");
    assert_string_equal(kit_show(kit_path("t.db"), "skip=yes"), "#-4 at 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(a_row_may_have_quotes_and_line_ends), KIT_TEST(columns_and_types_can_be_said),
        KIT_TEST(rows_that_do_not_fit_are_damage),     KIT_TEST(a_table_is_read_by_row_number),
        KIT_TEST(tables_and_columns_can_be_chosen),    KIT_TEST(a_damaged_database_is_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
