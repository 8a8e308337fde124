/* Cases: attributes as they are written and as a schema wants them, inputs by name, tensors that fit each other, the
 * bounds of comparing. */
#include "conform/case.h"
#include "conform/compare.h"
#include "conform/number.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct attrs *parsed(struct attrs *attrs, const char *text)
{
    char error[256] = "";
    CHECK(attrs_parse(text, attrs, error, sizeof error));
    return attrs;
}

static void numbers_keep_the_form_in_which_they_are_written(void)
{
    struct attrs a;
    parsed(&a, "{\"x 1.5 \\\" 2e1\": 2, \"b\": 2.0, \"c\": -3, \"d\": 2e0, \"e\": true, \"f\": [1, -2, 3], \"g\": 4, "
               "\"h\": \"7.5\", \"i\": 8,"
               " \"j\": null, \"k\": 1.5, \"l\": []}");
    if (!CHECK_I64(a.n, 11))
        return;
    static const stn_attr_type types[] = {STN_ATTR_INT,  STN_ATTR_FLOAT, STN_ATTR_INT, STN_ATTR_FLOAT,
                                          STN_ATTR_BOOL, STN_ATTR_INTS,  STN_ATTR_INT, STN_ATTR_STRING,
                                          STN_ATTR_INT,  STN_ATTR_FLOAT, STN_ATTR_INTS};
    for (int i = 0; i < a.n; i++)
        CHECK_I64(a.list[i].type, types[i]);
    CHECK_I64(a.list[0].value.i, 2);
    CHECK_NEAR(a.list[1].value.f, 2, 0);
    CHECK_I64(a.list[2].value.i, -3);
    CHECK_I64(a.list[4].value.i, 1);
    CHECK_I64(a.list[5].value.ints.n, 3);
    CHECK_I64(a.list[5].value.ints.v[1], -2);
    CHECK_I64(a.list[6].value.i, 4);
    CHECK_STR(a.list[7].value.s, "7.5");
    CHECK_I64(a.list[8].value.i, 8);
    CHECK_STR(a.list[9].name, "k");
    CHECK_I64(a.list[10].value.ints.n, 0);
    attrs_free(&a);
    parsed(&a, "{\"whole\": [2.0, 3], \"real\": [0.5, 2]}");
    CHECK_I64(a.list[0].type, STN_ATTR_INTS);
    CHECK_I64(a.list[0].value.ints.v[1], 3);
    CHECK_I64(a.list[1].type, STN_ATTR_FLOATS);
    CHECK_NEAR(a.list[1].value.floats.v[0], 0.5, 0);
    attrs_free(&a);
}

static void attributes_that_are_not_flat_are_refused(void)
{
    static const char *const texts[] = {"",
                                        "[]",
                                        "3",
                                        "{\"a\": {}}",
                                        "{\"a\": [[1]]}",
                                        "{\"a\": [\"x\"]}",
                                        "{\"a\": 1} 2",
                                        "{\"a\": [1,2,3,4,5,6,7,8,9]}",
                                        "{\"a\": {\"b\": {\"c\": 1}}}"};
    char error[256];
    struct attrs a;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!CHECK(!attrs_parse(texts[i], &a, error, sizeof error)))
            fprintf(stderr, "  taken: %s\n", texts[i]);
}

static void attributes_meet_their_schema(void)
{
    static const stn_attr_schema schema[] = {
        {.name = "whole", .type = STN_ATTR_INT},    {.name = "list", .type = STN_ATTR_INTS},
        {.name = "number", .type = STN_ATTR_NUMBER}, {.name = "ord", .type = STN_ATTR_FLOAT},
        {.name = "padding", .type = STN_ATTR_INTS}, {.name = "padding", .type = STN_ATTR_CHOICE},
    };
    const stn_op_desc desc = {.attrs = schema, .n_attrs = 6};
    struct attrs a;
    parsed(
        &a,
        "{\"whole\": 2.0, \"list\": 3.0, \"number\": 2.0, \"ord\": \"-inf\", \"padding\": \"same\", \"unknown\": 5.0}");
    stn_attr fit[ATTRS_MAX];
    attrs_fit(&a, &desc, fit);
    CHECK_I64(fit[0].type, STN_ATTR_INT);
    CHECK_I64(fit[0].value.i, 2);
    CHECK_I64(fit[1].type, STN_ATTR_INT);
    CHECK_I64(fit[1].value.i, 3);
    CHECK_I64(fit[2].type, STN_ATTR_FLOAT);
    CHECK_I64(fit[3].type, STN_ATTR_FLOAT);
    CHECK_NEAR(fit[3].value.f, -HUGE_VAL, 0);
    CHECK_I64(fit[4].type, STN_ATTR_STRING);
    CHECK_I64(fit[5].type, STN_ATTR_FLOAT);
    attrs_free(&a);
}

static void inputs_find_their_place_by_name(void)
{
    static const stn_input_schema inputs[] = {
        {.name = "input"}, {.name = "bias", .optional = 1}, {.name = "tensor", .variadic = 1}};
    const stn_op_desc desc = {.inputs = inputs, .n_inputs = 3};
    static const struct {
        const char *name;
        int place;
    } wanted[] = {{"input", 0},   {"bias", 1},      {"tensor0", 2},   {"tensor7", 9},
                  {"tensor", -1}, {"tensor1x", -1}, {"tensor99", -1}, {"weight", -1}};
    struct conform_case *c = calloc(1, sizeof *c);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        strcpy(c->input_name[i], wanted[i].name);
        CHECK_I64(case_input_place(c, (int)i, &desc), wanted[i].place);
    }
    free(c);
}

/* A case from a header with `data_size` bytes of data. */
static int read_case(const char *metadata, const char *tensors, size_t data_size, struct conform_case *c, char *error,
                     size_t error_size)
{
    char header[2048];
    int n = snprintf(header, sizeof header, "{\"__metadata__\":{%s},%s}", metadata, tensors);
    const char length[8] = {(char)n, (char)(n >> 8)};
    char folder[] = "/tmp/stn-case-XXXXXX", path[64];
    if (!CHECK_PTR(mkdtemp(folder)))
        return 0;
    snprintf(path, sizeof path, "%s/name-07.safetensors", folder);
    FILE *file = fopen(path, "wb");
    if (!CHECK_PTR(file))
        return 0;
    fwrite(length, 1, sizeof length, file);
    fwrite(header, 1, (size_t)n, file);
    for (size_t i = 0; i < data_size; i++)
        fputc(0, file);
    fclose(file);
    int good = case_read(path, c, error, error_size);
    unlink(path);
    rmdir(folder);
    return good;
}

static void cases_whose_parts_do_not_fit_are_refused(void)
{
    static const char metadata[] =
        "\"op\":\"add\",\"attrs\":\"{}\",\"inputs\":\"[\\\"a\\\"]\",\"grads\":\"[\\\"a\\\"]\"";
    static const char input[] = "\"in.a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}";
    static const char output[] = "\"out.0\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}";
    static const struct {
        const char *metadata, *rest;
        int good;
    } files[] = {
        {metadata, ",\"grad.a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}", 1},
        {metadata, ",\"grad.a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[16,24]}", 0},
        {metadata, ",\"grad.a\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[16,24]}", 0},
        {metadata, "", 0}, /* the gradient's tensor is missing */
        {metadata, ",\"grad.a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]},"
                   "\"grad_out.0\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[24,28]}", 0},
        {"\"op\":\"add\",\"attrs\":\"{}\",\"inputs\":\"[\\\"a\\\"]\",\"grads\":\"[\\\"b\\\"]\"", "", 0},
        {"\"op\":\"add\",\"attrs\":\"{}\",\"inputs\":\"[\\\"b\\\"]\",\"grads\":\"[]\"", "", 0},
        {"\"op\":\"add\",\"attrs\":\"{}\",\"inputs\":\"[7]\",\"grads\":\"[]\"", "", 0},
        {"\"op\":\"add\",\"attrs\":\"{}\",\"inputs\":\"[[\\\"a\\\"]]\",\"grads\":\"[]\"", "", 0},
        {"\"op\":\"add\",\"attrs\":\"{\",\"inputs\":\"[\\\"a\\\"]\",\"grads\":\"[]\"", "", 0},
        {"\"op\":\"add\",\"inputs\":\"[\\\"a\\\"]\",\"grads\":\"[]\"", "", 0},
        {"\"op\":\"add\",\"attrs\":\"{}\",\"inputs\":\"[\\\"a\\\"]\",\"grads\":\"[]\"", "", 1},
    };
    struct conform_case *c = malloc(sizeof *c);
    char error[256], tensors[1024];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(tensors, sizeof tensors, "%s,%s%s", input, output, files[i].rest);
        int good = read_case(files[i].metadata, tensors, 32, c, error, sizeof error);
        if (!CHECK_I64(good, files[i].good))
            fprintf(stderr, "  file %zu\n", i);
        if (good) {
            CHECK_STR(c->name, "name-07");
            CHECK_STR(c->op, "add");
            CHECK_I64(c->n_inputs, 1);
            CHECK_I64(c->n_outputs, 1);
            case_free(c);
        }
    }
    CHECK(!read_case(metadata, input, 32, c, error, sizeof error)); /* no outputs */
    free(c);
}

static int holds(stn_dtype dtype, int64_t n, const void *expected, const void *got)
{
    char reason[256];
    const struct comparison c = compare(dtype, n, expected, got);
    return comparison_holds(&c, reason, sizeof reason);
}

static void floating_values_are_compared_by_both_bounds(void)
{
    float expected[1000], got[1000];
    for (int i = 0; i < 1000; i++)
        expected[i] = got[i] = 1.0f;
    CHECK(holds(STN_DTYPE_F32, 1000, expected, got));
    got[7] = 1.0f + 2e-4f; /* 6.3e-6 of the norm, but 2e-4 of the largest */
    CHECK(!holds(STN_DTYPE_F32, 1000, expected, got));
    got[7] = 1.0f + 9e-5f;
    CHECK(holds(STN_DTYPE_F32, 1000, expected, got));
    for (int i = 0; i < 1000; i++)
        got[i] = 1.0f + 2e-5f; /* every element within its bound, the norm is not */
    CHECK(!holds(STN_DTYPE_F32, 1000, expected, got));
    CHECK(!holds(STN_DTYPE_C64, 500, expected, got));
    CHECK(holds(STN_DTYPE_F32, 0, expected, got));
    const float zero = 0, tiny = 1e-30f;
    CHECK(!holds(STN_DTYPE_F32, 1, &zero, &tiny));
}

static void not_a_number_and_infinity_stand_at_the_same_places(void)
{
    const float expected[] = {NAN, INFINITY, -INFINITY, 1}, swapped[] = {NAN, -INFINITY, INFINITY, 1},
                finite[] = {0, INFINITY, -INFINITY, 1};
    const float extra[] = {NAN, INFINITY, -INFINITY, NAN};
    CHECK(holds(STN_DTYPE_F32, 4, expected, expected));
    CHECK(!holds(STN_DTYPE_F32, 4, expected, swapped));
    CHECK(!holds(STN_DTYPE_F32, 4, expected, finite));
    CHECK(!holds(STN_DTYPE_F32, 4, expected, extra));
}

static void whole_numbers_are_compared_exactly(void)
{
    const int64_t expected[] = {INT64_C(1) << 60, 5}, got[] = {(INT64_C(1) << 60) + 1, 5};
    CHECK(holds(STN_DTYPE_I64, 2, expected, expected));
    CHECK(!holds(STN_DTYPE_I64, 2, expected, got));
    const uint8_t yes = 1, no = 0;
    CHECK(!holds(STN_DTYPE_BOOL, 1, &yes, &no));
}

static void sixteen_bits_are_read_and_rounded(void)
{
    static const struct {
        stn_dtype dtype;
        double x;
        uint16_t bits;
    } rows[] = {{STN_DTYPE_F16, 1, 0x3c00},      {STN_DTYPE_F16, -2.5, 0xc100},  {STN_DTYPE_F16, 65504, 0x7bff}, {STN_DTYPE_F16, 0x1p-24, 1},
                {STN_DTYPE_F16, 0x1p-14, 0x400}, {STN_DTYPE_F16, HUGE_VAL, 0x7c00}, {STN_DTYPE_BF16, 1, 0x3f80},  {STN_DTYPE_BF16, -3.140625, 0xc049},
                {STN_DTYPE_BF16, 0x1p-126, 0x80}, {STN_DTYPE_BF16, 0x1p-133, 1}};
    uint16_t bits;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        number_put(rows[i].dtype, &bits, 0, rows[i].x);
        CHECK_I64(bits, rows[i].bits);
        CHECK_NEAR(number_at(rows[i].dtype, &rows[i].bits, 0), rows[i].x, 0);
    }
    CHECK_NEAR(number_round(STN_DTYPE_F16, 1 + 0x1p-11), 1, 0); /* to even */
    CHECK_NEAR(number_round(STN_DTYPE_F16, 1 + 0x3p-11), 1 + 0x1p-9, 0);
    CHECK_NEAR(number_round(STN_DTYPE_F16, 65519), 65504, 0);
    CHECK(isinf(number_round(STN_DTYPE_F16, 65520)) && isnan(number_round(STN_DTYPE_BF16, NAN)));
    CHECK_NEAR(number_round(STN_DTYPE_BF16, 2 - 0x1p-9), 2, 0);
    const uint16_t one = 0x3c00, near = 0x3c04, far = 0x3c20;
    CHECK(holds(STN_DTYPE_F16, 1, &one, &near));
    CHECK(!holds(STN_DTYPE_F16, 1, &one, &far));
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"numbers_keep_the_form_in_which_they_are_written", numbers_keep_the_form_in_which_they_are_written},
        {"attributes_that_are_not_flat_are_refused", attributes_that_are_not_flat_are_refused},
        {"attributes_meet_their_schema", attributes_meet_their_schema},
        {"inputs_find_their_place_by_name", inputs_find_their_place_by_name},
        {"cases_whose_parts_do_not_fit_are_refused", cases_whose_parts_do_not_fit_are_refused},
        {"floating_values_are_compared_by_both_bounds", floating_values_are_compared_by_both_bounds},
        {"not_a_number_and_infinity_stand_at_the_same_places", not_a_number_and_infinity_stand_at_the_same_places},
        {"whole_numbers_are_compared_exactly", whole_numbers_are_compared_exactly},
        {"sixteen_bits_are_read_and_rounded", sixteen_bits_are_read_and_rounded},
    };
    return TEST_MAIN(argc, argv, cases);
}
