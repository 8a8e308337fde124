/* Collectives by name: what one rank's call is refused for, before its collective has seen it too, all ranks get as
 * the same error; the mesh stays usable. */
#include "ranks.h"

#include <string.h>

enum { RANKS = 3, ODD = 1 };

/* What the odd rank passes. */
enum fault {
    UNKNOWN_CHOICE,
    CHOICE_BEFORE_MESH,
    UNKNOWN_ATTRIBUTE,
    ATTRIBUTE_OF_ANOTHER_TYPE,
    NO_INPUT,
    ERROR_INPUT,
    FAILED_BEFORE,
    MANY_INPUTS,
    ON_MESH,
    LIST_OF_FLOATS,
    BAD_DIM,
    N_FAULTS
};

static const struct {
    stn_status status;
    const char *text;
} wanted[N_FAULTS] = {
    [UNKNOWN_CHOICE] = {STN_ERR_ARGUMENT,
                        "rank 1: dist_all_gather: attribute 'convention' got \"nobody's\", wanted one of "},
    [CHOICE_BEFORE_MESH] = {STN_ERR_ARGUMENT,
                            "rank 1: dist_all_gather: attribute 'convention' got \"nobody's\", wanted one of "},
    [UNKNOWN_ATTRIBUTE] = {STN_ERR_ARGUMENT, "rank 1: dist_all_gather: no attribute 'dimm'"},
    [ATTRIBUTE_OF_ANOTHER_TYPE] = {STN_ERR_ARGUMENT, "rank 1: dist_all_gather: attribute 'dim'"},
    [NO_INPUT] = {STN_ERR_ARGUMENT, "rank 1: dist_all_gather: input 'input' is missing"},
    [ERROR_INPUT] = {STN_ERR_STATE, "rank 1: dist_all_gather: input 'input' is what an earlier failure returned"},
    [FAILED_BEFORE] = {STN_ERR_SHAPE, "rank 1: add: "},
    [MANY_INPUTS] = {STN_ERR_ARGUMENT, "rank 1: dist_all_gather: got 3 inputs, wanted at most 2"},
    [ON_MESH] = {STN_ERR_LAYOUT, "rank 1: dist_all_gather: "},
    [LIST_OF_FLOATS] = {STN_ERR_DTYPE, "rank 1: dist_all_gather: 'sizes' got f64, wanted a local tensor of i64"},
    [BAD_DIM] = {STN_ERR_ARGUMENT, "rank 1: dist_all_gather: "},
};

static stn_tensor *zeros(stn_context *context, const stn_mesh *mesh, int64_t n)
{
    const stn_placement whole = stn_replicate();
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, mesh ? &whole : NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *t = stn_zeros(context, spec);
    stn_spec_release(&spec);
    return t;
}

static stn_tensor *failed(stn_context *context)
{
    return stn_add(zeros(context, NULL, 2), zeros(context, NULL, 3));
}

static stn_tensor *input_of(stn_context *context, const stn_mesh *mesh, enum fault fault)
{
    if (fault == NO_INPUT)
        return NULL;
    if (fault == ON_MESH)
        return zeros(context, mesh, 2);
    stn_tensor *good = zeros(context, NULL, 2);
    if (fault != ERROR_INPUT && fault != FAILED_BEFORE)
        return good;
    stn_tensor *bad = failed(context);
    if (fault == FAILED_BEFORE)
        return good;
    stn_context_take_error(context, NULL, 0);
    return bad;
}

static stn_tensor *call(stn_context *context, const stn_mesh *mesh, enum fault fault)
{
    const char *convention = fault == UNKNOWN_CHOICE || fault == CHOICE_BEFORE_MESH ? "nobody's" : "per_rank";
    const stn_attr first = {.name = "mesh", .type = STN_ATTR_INT, .value.i = stn_mesh_number(mesh)};
    const stn_attr second = {.name = "convention", .type = STN_ATTR_STRING, .value.s = convention};
    stn_attr dim = {
        .name = fault == UNKNOWN_ATTRIBUTE ? "dimm" : "dim", .type = STN_ATTR_INT, .value.i = fault == BAD_DIM ? 3 : 0};
    if (fault == ATTRIBUTE_OF_ANOTHER_TYPE)
        dim = (stn_attr){.name = "dim", .type = STN_ATTR_STRING, .value.s = "first"};
    const stn_attr attrs[] = {fault == CHOICE_BEFORE_MESH ? second : first,
                              fault == CHOICE_BEFORE_MESH ? first : second, dim};
    stn_tensor *in[] = {input_of(context, mesh, fault), fault == LIST_OF_FLOATS ? zeros(context, NULL, RANKS) : NULL,
                        NULL},
               *y = NULL;
    stn_call(context, "dist_all_gather", fault == MANY_INPUTS ? 3 : 2, in, 3, attrs, 1, &y);
    return y;
}

/* The text of the error that is kept begins so, and is that of all ranks of the world. */
static void expect_refused(stn_context *context, stn_tensor *y, enum fault fault)
{
    char text[512] = "";
    CHECK(stn_tensor_is_error(y));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), wanted[fault].status);
    if (!CHECK(strncmp(text, wanted[fault].text, strlen(wanted[fault].text)) == 0))
        CHECK_STR(text, wanted[fault].text);
    test_same_text(context, text);
}

static stn_status one_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    (void)arg;
    for (int fault = 0; fault < N_FAULTS; fault++) {
        stn_scope_begin(context);
        expect_refused(context, call(context, mesh, stn_context_rank(context) == ODD ? (enum fault)fault : N_FAULTS),
                       (enum fault)fault);
        stn_tensor *y = call(context, mesh, N_FAULTS);
        CHECK(!stn_tensor_is_error(y) && stn_tensor_shape(y)[0] == 2 * RANKS); /* still usable */
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void all_ranks_refuse_what_one_passes_wrong(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 20};
    CHECK_STATUS(test_launch(RANKS, &options, one_body, NULL), STN_OK);
}

/* All alike: each knows for itself, and none is named. */
static stn_status all_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    stn_scope_begin(context);
    CHECK(stn_tensor_is_error(call(context, mesh, UNKNOWN_CHOICE)));
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "dist_all_gather: attribute 'convention' got \"nobody's\"");
    return stn_scope_end(context);
}

static void what_all_pass_wrong_is_refused_by_each(void)
{
    test_ranks(1, all_body, NULL);
    test_ranks(RANKS, all_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"all_ranks_refuse_what_one_passes_wrong", all_ranks_refuse_what_one_passes_wrong},
        {"what_all_pass_wrong_is_refused_by_each", what_all_pass_wrong_is_refused_by_each},
    };
    return TEST_MAIN(argc, argv, cases);
}
