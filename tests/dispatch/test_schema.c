/* Attributes by name: values land where the schema says, and whatever does not fit is named. */
#include "dispatch/schema.h"
#include "harness.h"

#include <stddef.h>
#include <string.h>

struct attrs {
    int64_t flag, count, mode;
    double factor;
    stn_number other;
    stn_ints padding;
    int64_t padding_kind;
};

static const char *const modes[] = {"mean", "sum", "none", NULL};
static const char *const kinds[] = {"given", "same", "valid", NULL};
static const stn_attr_schema rows[] = {
    {"flag", STN_ATTR_BOOL, offsetof(struct attrs, flag), NULL},
    {"count", STN_ATTR_INT, offsetof(struct attrs, count), NULL},
    {"mode", STN_ATTR_CHOICE, offsetof(struct attrs, mode), modes},
    {"factor", STN_ATTR_FLOAT, offsetof(struct attrs, factor), NULL},
    {"other", STN_ATTR_NUMBER, offsetof(struct attrs, other), NULL},
    {"padding", STN_ATTR_INTS, offsetof(struct attrs, padding), NULL},
    {"padding", STN_ATTR_CHOICE, offsetof(struct attrs, padding_kind), kinds},
};
static const struct attrs defaults = {.count = 7, .factor = 1.5, .padding = {.n = -1}};
static stn_status nothing(stn_op_call *call)
{
    (void)call;
    return STN_OK;
}
static const stn_op_desc desc = {.size = sizeof desc,
                                 .name = "probe",
                                 .attrs = rows,
                                 .n_attrs = 7,
                                 .attrs_size = sizeof(struct attrs),
                                 .attrs_init = &defaults,
                                 .check = nothing,
                                 .run = nothing};

static void absent_attributes_take_their_defaults(void)
{
    struct attrs got;
    struct stni_error error = {0};
    CHECK_STATUS(stni_schema_fill(&desc, 0, NULL, &got, &error), STN_OK);
    CHECK_I64(got.count, 7);
    CHECK_NEAR(got.factor, 1.5, 0);
    CHECK_I64(got.padding.n, -1);
}

static void values_land_in_their_fields(void)
{
    struct attrs got;
    struct stni_error error = {0};
    stn_attr given[] = {
        {"flag", STN_ATTR_BOOL, {.i = 1}},          {"count", STN_ATTR_INT, {.i = -3}},
        {"mode", STN_ATTR_STRING, {.s = "none"}},   {"factor", STN_ATTR_INT, {.i = 4}},
        {"other", STN_ATTR_FLOAT, {.f = 2.0}},      {"padding", STN_ATTR_INTS, {.ints = {2, {5, 6}}}},
    };
    CHECK_STATUS(stni_schema_fill(&desc, 6, given, &got, &error), STN_OK);
    CHECK_I64(got.flag, 1);
    CHECK_I64(got.count, -3);
    CHECK_I64(got.mode, 2);
    CHECK_NEAR(got.factor, 4, 0);
    CHECK_I64(got.other.kind, STN_NUMBER_FLOAT);
    CHECK_I64(got.padding.n, 2);
    CHECK_I64(got.padding.v[1], 6);
}

static void one_name_takes_two_types(void)
{
    struct attrs got;
    struct stni_error error = {0};
    stn_attr text = {"padding", STN_ATTR_STRING, {.s = "same"}}, number = {"padding", STN_ATTR_INT, {.i = 3}};
    CHECK_STATUS(stni_schema_fill(&desc, 1, &text, &got, &error), STN_OK);
    CHECK_I64(got.padding_kind, 1);
    CHECK_I64(got.padding.n, -1);
    CHECK_STATUS(stni_schema_fill(&desc, 1, &number, &got, &error), STN_OK);
    CHECK_I64(got.padding.n, 1);
    CHECK_I64(got.padding.v[0], 3);
}

static void whole_floats_are_integers_and_others_are_not(void)
{
    struct attrs got;
    struct stni_error error = {0};
    stn_attr whole = {"count", STN_ATTR_FLOAT, {.f = 2.0}}, half = {"count", STN_ATTR_FLOAT, {.f = 2.5}};
    CHECK_STATUS(stni_schema_fill(&desc, 1, &whole, &got, &error), STN_OK);
    CHECK_I64(got.count, 2);
    CHECK_STATUS(stni_schema_fill(&desc, 1, &half, &got, &error), STN_ERR_ARGUMENT);
    CHECK_STR(error.text, "probe: attribute 'count' got a number, wanted an integer");
}

static void an_unknown_name_is_answered_with_the_nearest(void)
{
    struct attrs got;
    struct stni_error error = {0};
    stn_attr given = {"paddding", STN_ATTR_INT, {.i = 1}};
    CHECK_STATUS(stni_schema_fill(&desc, 1, &given, &got, &error), STN_ERR_ARGUMENT);
    CHECK_STR(error.text, "probe: no attribute 'paddding'; nearest is 'padding'");
}

static void a_bad_choice_lists_the_choices(void)
{
    struct attrs got;
    struct stni_error error = {0};
    stn_attr given = {"mode", STN_ATTR_STRING, {.s = "max"}};
    CHECK_STATUS(stni_schema_fill(&desc, 1, &given, &got, &error), STN_ERR_ARGUMENT);
    CHECK_STR(error.text, "probe: attribute 'mode' got \"max\", wanted one of \"mean\", \"sum\", \"none\"");
}

static void too_long_a_list_is_refused(void)
{
    struct attrs got;
    struct stni_error error = {0};
    stn_attr given = {"padding", STN_ATTR_INTS, {.ints = {STN_MAX_NDIM + 1, {0}}}};
    CHECK_STATUS(stni_schema_fill(&desc, 1, &given, &got, &error), STN_ERR_ARGUMENT);
}

static void a_text_fills_its_field_with_zeros_after_it(void)
{
    static const stn_attr_schema row = {"equation", STN_ATTR_STRING, 0, NULL};
    stn_op_desc other = desc;
    stn_text got, wanted = {"ij,jk"};
    struct stni_error error = {0};
    char longer[STN_MAX_TEXT + 1];
    stn_attr given = {"equation", STN_ATTR_STRING, {.s = "ij,jk"}};
    other.attrs = &row, other.n_attrs = 1, other.attrs_size = sizeof got, other.attrs_init = NULL;
    memset(&got, 'x', sizeof got);
    CHECK_STATUS(stni_schema_validate(&other, &error), STN_OK);
    CHECK_STATUS(stni_schema_fill(&other, 1, &given, &got, &error), STN_OK);
    CHECK_I64(memcmp(&got, &wanted, sizeof got), 0);
    memset(longer, 'i', STN_MAX_TEXT);
    longer[STN_MAX_TEXT] = 0;
    given.value.s = longer;
    CHECK_STATUS(stni_schema_fill(&other, 1, &given, &got, &error), STN_ERR_ARGUMENT);
    CHECK_STR(error.text, "probe: attribute 'equation' got a text of 512 bytes, wanted at most 511");
}

static void a_descriptor_of_another_size_is_refused(void)
{
    struct stni_error error = {0};
    stn_op_desc other = desc;
    CHECK_STATUS(stni_schema_validate(&desc, &error), STN_OK);
    other.size--;
    CHECK_STATUS(stni_schema_validate(&other, &error), STN_ERR_VERSION);
}

static void name_distance_counts_edits(void)
{
    CHECK_I64(stni_name_distance("conv2d", "conv2d"), 0);
    CHECK_I64(stni_name_distance("conv2", "conv2d"), 1);
    CHECK_I64(stni_name_distance("sofmtax", "softmax"), 2);
    CHECK_I64(stni_name_distance("", "add"), 3);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"absent_attributes_take_their_defaults", absent_attributes_take_their_defaults},
        {"values_land_in_their_fields", values_land_in_their_fields},
        {"one_name_takes_two_types", one_name_takes_two_types},
        {"whole_floats_are_integers_and_others_are_not", whole_floats_are_integers_and_others_are_not},
        {"an_unknown_name_is_answered_with_the_nearest", an_unknown_name_is_answered_with_the_nearest},
        {"a_bad_choice_lists_the_choices", a_bad_choice_lists_the_choices},
        {"too_long_a_list_is_refused", too_long_a_list_is_refused},
        {"a_text_fills_its_field_with_zeros_after_it", a_text_fills_its_field_with_zeros_after_it},
        {"a_descriptor_of_another_size_is_refused", a_descriptor_of_another_size_is_refused},
        {"name_distance_counts_edits", name_distance_counts_edits},
    };
    return TEST_MAIN(argc, argv, cases);
}
