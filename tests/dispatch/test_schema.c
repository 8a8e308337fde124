/* Attributes by name: values land where the schema says, and whatever does not fit is named. */
#include "dispatch/schema.h"
#include "ops/table.h"
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
static const stn_op_impl impl = {.check = nothing, .run = nothing};
static const stn_op_desc desc = {.size = sizeof desc,
                                 .name = "probe",
                                 STN_ATTRS(rows, struct attrs),
                                 .attrs_init = &defaults,
                                 .impl = &impl};

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

static void a_number_of_unknown_kind_is_refused_and_others_agree_with_themselves(void)
{
    struct attrs got;
    struct stni_error error = {0};
    stn_attr given = {"other", STN_ATTR_NUMBER, {.number = {(int64_t)1 << 40, 1, 2}}};
    CHECK_STATUS(stni_schema_fill(&desc, 1, &given, &got, &error), STN_ERR_ARGUMENT);
    CHECK_STR(error.text, "probe: attribute 'other' got a number of kind 1099511627776, wanted 0 to 3");
    given.value.number = (stn_number){STN_NUMBER_INT, 3, 7.5};
    CHECK_STATUS(stni_schema_fill(&desc, 1, &given, &got, &error), STN_OK);
    CHECK_I64(got.other.i, 3);
    CHECK_NEAR(got.other.f, 3, 0);
    given.value.number = (stn_number){STN_NUMBER_NONE, 3, 7.5};
    CHECK_STATUS(stni_schema_fill(&desc, 1, &given, &got, &error), STN_OK);
    CHECK_I64(got.other.kind, STN_NUMBER_NONE);
    error = (struct stni_error){0};
    given.name = "count"; /* an integer that is absent is none */
    CHECK_STATUS(stni_schema_fill(&desc, 1, &given, &got, &error), STN_ERR_ARGUMENT);
    CHECK_STR(error.text, "probe: attribute 'count' got a number of kind 0, wanted 1 to 3");
}

static void expect_bad(const struct attrs *attrs, const char *text)
{
    struct stni_error error = {0};
    CHECK_STATUS(stni_schema_check(&desc, attrs, &error), STN_ERR_ARGUMENT);
    CHECK_STR(error.text, text);
}

/* As typed functions fill them, from enums of their callers. */
static void an_attribute_struct_is_held_to_its_schema(void)
{
    struct stni_error error = {0};
    struct attrs attrs = defaults;
    CHECK_STATUS(stni_schema_check(&desc, &attrs, &error), STN_OK);
    attrs.mode = 99;
    expect_bad(&attrs, "probe: attribute 'mode' got 99, wanted 0 to 2");
    attrs.mode = -1;
    expect_bad(&attrs, "probe: attribute 'mode' got -1, wanted 0 to 2");
    attrs.mode = 2;
    attrs.other.kind = 4;
    expect_bad(&attrs, "probe: attribute 'other': its kind got 4, wanted 0 to 3");
    attrs.other.kind = STN_NUMBER_BOOL;
    attrs.padding.n = STN_MAX_NDIM + 1;
    expect_bad(&attrs, "probe: attribute 'padding': its length got 9, wanted -1 to 8");
}

static void expect_invalid(const stn_op_desc *other, const char *text)
{
    struct stni_error error = {0};
    CHECK_STATUS(stni_schema_validate(other, &error), STN_ERR_ARGUMENT);
    CHECK_STR(error.text, text);
}

static void descriptors_that_make_no_sense_are_refused(void)
{
    static const stn_input_schema inputs[] = {
        {.name = "input", .optional = 1}, {.name = "other", .variadic = 1}, {.name = "last"}};
    static const stn_attr_schema far = {"far", STN_ATTR_INT, SIZE_MAX - 7, NULL}, odd = {"odd", STN_ATTR_INT, 4, NULL},
                                 unknown = {"unknown", (stn_attr_type)99, 0, NULL};
    static const stn_kernel kernel = {.size = sizeof kernel, .name = "forward"};
    static const stn_kernel_slot dotted = {"probe.forward", 8};
    stn_op_impl other_impl = impl;
    stn_op_desc other = desc;
    other.n_outputs = 1, other.n_private = 2;
    expect_invalid(&other, "probe: n_private got 2, wanted 0 to n_outputs, 1");
    other = desc, other.n_outputs = STN_MAX_OUTPUTS + 1;
    expect_invalid(&other, "probe: n_outputs got 33, wanted 0 to 32");
    other = desc, other.n_inputs = 1;
    expect_invalid(&other, "probe: inputs is NULL, wanted 1 entries");
    other.inputs = inputs, other.n_inputs = 3;
    expect_invalid(&other, "probe: input 'other' is variadic, wanted at most the last one to be");
    other.n_inputs = 1, other.n_outputs = 1, other.flags = STN_OP_IN_PLACE;
    expect_invalid(&other, "probe: in place, wanted a first input that is required, one output that is not private, "
                           "and neither compose nor "
                           "STN_OP_ALIAS");
    other.flags = STN_OP_VIEW | STN_OP_ALIAS;
    expect_invalid(&other, "probe: a view, wanted a first input that is required, and STN_OP_ALIAS");
    other.flags = 1u << 20;
    expect_invalid(&other, "probe: flags got unknown bits 0x100000");
    other = desc, other.n_attrs = 1, other.attrs = &far;
    expect_invalid(&other, "probe: attribute 'far' does not fit its struct: 8 bytes at 18446744073709551608 of 136, "
                           "wanted a multiple of 8");
    other.attrs = &odd;
    expect_invalid(&other,
                   "probe: attribute 'odd' does not fit its struct: 8 bytes at 4 of 136, wanted a multiple of 8");
    other.attrs = &unknown;
    expect_invalid(&other, "probe: attribute 0 has no name or an unknown type");
    other = desc, other.impl = &other_impl;
    other_impl.n_kernels = 1, other_impl.kernels = &kernel;
    expect_invalid(&other, "probe: kernel 0 is incomplete, wanted name, device and function");
    other_impl = impl, other_impl.n_slots = 1, other_impl.slots = &dotted;
    expect_invalid(&other, "probe: slot 0 got the name 'probe.forward', wanted one without the op's and without '.'");
    other_impl = impl, other_impl.n_slots = -1;
    expect_invalid(&other, "probe: n_slots got -1, wanted 0 to 2147483647");
    other_impl = impl, other_impl.check = NULL, other_impl.compose = NULL;
    expect_invalid(&other, "probe: check got NULL, wanted check and run, or compose");
    other_impl = impl, other_impl.run = NULL, other_impl.compose = NULL;
    expect_invalid(&other, "probe: run got NULL, wanted check and run, or compose");
    other.impl = NULL;
    expect_invalid(&other, "probe: impl got NULL, wanted check and run, or compose");
    other = desc, other.name = "";
    expect_invalid(&other, "op descriptor: name got \"\", wanted a text");
    other.name = NULL;
    expect_invalid(&other, "op descriptor: name got NULL, wanted a text");
}

static void built_in_descriptors_are_valid(void)
{
    struct stni_error error = {0};
    for (int i = 0; i < STNI_OP_COUNT; i++) {
        CHECK_STATUS(stni_schema_validate(stni_op_table[i], &error), STN_OK);
        CHECK_STR(error.text, "");
    }
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
        {"a_number_of_unknown_kind_is_refused_and_others_agree_with_themselves",
         a_number_of_unknown_kind_is_refused_and_others_agree_with_themselves},
        {"an_attribute_struct_is_held_to_its_schema", an_attribute_struct_is_held_to_its_schema},
        {"descriptors_that_make_no_sense_are_refused", descriptors_that_make_no_sense_are_refused},
        {"built_in_descriptors_are_valid", built_in_descriptors_are_valid},
        {"too_long_a_list_is_refused", too_long_a_list_is_refused},
        {"a_text_fills_its_field_with_zeros_after_it", a_text_fills_its_field_with_zeros_after_it},
        {"a_descriptor_of_another_size_is_refused", a_descriptor_of_another_size_is_refused},
        {"name_distance_counts_edits", name_distance_counts_edits},
    };
    return TEST_MAIN(argc, argv, cases);
}
