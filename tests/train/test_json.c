/* The reader of JSON: what it takes, what it gives, what it refuses. */
#include "harness.h"
#include "train/json.h"

#include <stdio.h>
#include <string.h>

static char texts[4096];

/* The text is not ended by a zero: a read behind it is seen by the address sanitizer. */
static struct stni_json begin(const char *text)
{
    return (struct stni_json){text, text + strlen(text), texts};
}

static void strings_are_decoded(void)
{
    static const struct { const char *text, *want; } rows[] = {
        {"\"\"", ""},
        {" \t\r\n\"a b\"", "a b"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac"},
        {"\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"},
        {"\"\\ud83d\\ude00\\uDBFF\\uDFFF\"", "\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf"},
        {"\"\xf0\x9f\x98\x80\"", "\xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stni_json json = begin(rows[i].text);
        const char *got = stni_json_string(&json);
        if (CHECK_PTR(got))
            CHECK_STR(got, rows[i].want);
        CHECK(stni_json_ends(&json));
    }
}

static void what_is_no_string_is_refused(void)
{
    static const char *const rows[] = {"",
                                       "a",
                                       "\"",
                                       "\"a",
                                       "\"\\",
                                       "\"\\\"",
                                       "\"\\x\"",
                                       "\"\\u12\"",
                                       "\"\\u12g4\"",
                                       "\"\\u0000\"",
                                       "\"\\ud800\"",
                                       "\"\\ud800a\"",
                                       "\"\\udc00\"",
                                       "\"\\ud800\\n\"",
                                       "\"\\ud800\\ud800\"",
                                       "\"a\nb\"",
                                       "\"\x1f\""};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stni_json json = begin(rows[i]);
        if (!CHECK(stni_json_string(&json) == NULL))
            fprintf(stderr, "  taken: %s\n", rows[i]);
    }
}

static void whole_numbers_are_exact(void)
{
    static const struct {
        const char *text;
        int64_t want;
    } rows[] = {{"0", 0}, {" 7", 7}, {"120,", 120}, {"9007199254740992]", INT64_C(9007199254740992)}};
    static const char *const bad[] = {
        "", "-1", "-0", "+1", "00", "01", "1.0", "1e0", "1E2", "9007199254740993", "18446744073709551617", "x", ".5"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stni_json json = begin(rows[i].text);
        int64_t got = -1;
        CHECK(stni_json_whole(&json, &got));
        CHECK_I64(got, rows[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct stni_json json = begin(bad[i]);
        int64_t got = -1;
        if (!CHECK(!stni_json_whole(&json, &got)))
            fprintf(stderr, "  taken: %s\n", bad[i]);
    }
}

static void values_are_skipped_to_their_end(void)
{
    static const char *const good[] = {"1",
                                       "-0",
                                       "-12.50e+3",
                                       "1E-9",
                                       "true",
                                       "false",
                                       "null",
                                       "\"a]\"",
                                       "[]",
                                       "{}",
                                       " [ 1 , [ ] , { \"a\" : { } } ] ",
                                       "{\"a\":[[[[[[1]]]]]],\"b\":null}"};
    static const char *const bad[] = {"",
                                      "-",
                                      "01",
                                      "1.",
                                      ".1",
                                      "1e",
                                      "1e+",
                                      "--1",
                                      "tru",
                                      "nul",
                                      "[",
                                      "]",
                                      "[1",
                                      "[1,",
                                      "[,]",
                                      "[1,]",
                                      "[1 2]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{1:1}",
                                      "{\"a\":1",
                                      "[[[[[[[[[1]]]]]]]]]",
                                      "NaN",
                                      "Infinity"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct stni_json json = begin(good[i]);
        if (!CHECK(stni_json_skip(&json) && stni_json_ends(&json)))
            fprintf(stderr, "  refused: %s\n", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct stni_json json = begin(bad[i]);
        if (!CHECK(!stni_json_skip(&json)))
            fprintf(stderr, "  taken: %s\n", bad[i]);
    }
}

static void elements_are_counted_between_brackets(void)
{
    static const struct {
        const char *text;
        int n, last;
    } rows[] = {{"]", 0, 0},     {"1]", 1, 0}, {" 1 , 2 ] ", 2, 0}, {"1,]", 1, -2},
                {"1 2]", 1, -1}, {"", 0, -2},  {"1", 1, -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stni_json json = begin(rows[i].text);
        int64_t number;
        int n = 0, more;
        while ((more = stni_json_next(&json, n, ']')) > 0) {
            if (!stni_json_whole(&json, &number)) {
                more = -2;
                break;
            }
            n++;
        }
        CHECK_I64(n, rows[i].n);
        CHECK_I64(more, rows[i].last);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"strings_are_decoded", strings_are_decoded},
        {"what_is_no_string_is_refused", what_is_no_string_is_refused},
        {"whole_numbers_are_exact", whole_numbers_are_exact},
        {"values_are_skipped_to_their_end", values_are_skipped_to_their_end},
        {"elements_are_counted_between_brackets", elements_are_counted_between_brackets},
    };
    return TEST_MAIN(argc, argv, cases);
}
