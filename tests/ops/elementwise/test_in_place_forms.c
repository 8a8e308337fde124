/* Every op `x_` of the table does to its input what `x` gives: values, gradients, and the input's spec stays. */
#include "harness.h"
#include "ops/layouts.h"
#include "ops/table.h"
#include "ranks.h"

#include <stdio.h>
#include <string.h>

enum { MAX_IN = 3, SHAPE_0 = 5, SHAPE_1 = 3 };

struct results {
    stn_tensor *value, *grad[MAX_IN];
};

/* Operands that every function takes: between 0.2 and 0.8, the second lower than the third. */
static stn_tensor *leaf(stn_context *context, const stn_spec *spec, int operand)
{
    static const double center[MAX_IN] = {0.5, 0.3, 0.7};
    struct elements e = {.dtype = STN_DTYPE_F64, .ndim = 2, .shape = {SHAPE_0, SHAPE_1}, .n = SHAPE_0 * SHAPE_1};
    for (int64_t i = 0; i < e.n; i++)
        e.v[i] = center[operand] + (operand == 0 ? 0.5 : 0.08) * ((double)((i * 7 + operand) % 15) / 15 - 0.5);
    stn_tensor *t = layout_tensor(context, spec, &e);
    CHECK_STATUS(stn_set_requires_grad(t, 1), STN_OK);
    return t;
}

/* name(leaf * 1, …) and the gradients of the sum of its squares; for acosh of numbers above 1. */
static struct results apply(stn_context *context, const char *name, int n_in, stn_tensor *const *leaves)
{
    const int fills = strncmp(name, "masked_fill", 11) == 0;
    const stn_attr value = {.name = "value", .type = STN_ATTR_FLOAT, .value.f = 0.25};
    struct results out = {0};
    stn_tensor *in[MAX_IN] = {stn_mul_number(leaves[0], strncmp(name, "acosh", 5) == 0 ? 8 : 1)}, *loss;
    const stn_spec *spec = stn_tensor_spec(in[0]);
    for (int i = 1; i < n_in; i++)
        in[i] = fills ? i == 1 ? stn_gt_number(leaves[1], 0.3) : NULL : leaves[i];
    CHECK_STATUS(stn_call(context, name, n_in, in, fills, &value, 1, &out.value), STN_OK);
    if (name[strlen(name) - 1] == '_')
        CHECK(out.value == in[0] && stn_tensor_spec(out.value) == spec);
    loss = stn_sum(stn_square(out.value), 0, NULL, 0);
    CHECK(stn_requires_grad(loss));
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, n_in, leaves, 0, 0, out.grad), STN_OK);
    return out;
}

static void same(stn_tensor *got, stn_tensor *want, const char *name)
{
    char text[64];
    double difference = 0;
    snprintf(text, sizeof text, "%s differs", name);
    test_check((got == NULL) == (want == NULL), __FILE__, __LINE__, text);
    if (got && want)
        CHECK_STATUS(stn_item(stn_sum(stn_abs(stn_sub(got, want)), 0, NULL, 0), &difference), STN_OK);
    test_check(difference <= 1e-12, __FILE__, __LINE__, text);
}

/* The inputs in drawn layouts; a Partial one only where the op takes it, so none is drawn. */
static const stn_spec *layout(stn_context *context, const stn_mesh *mesh, int round, int operand)
{
    const stn_placement placements[] = {stn_replicate(), stn_shard(0), stn_shard(1)};
    stn_placement chosen = placements[(round + operand * round / 3) % 3];
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, &chosen, STN_DTYPE_F64, 2, (int64_t[]){SHAPE_0, SHAPE_1}, NULL, &spec),
                 STN_OK);
    return spec;
}

static void compare(stn_context *context, const stn_mesh *mesh, const stn_op_desc *form)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strlen(form->name) - 1, form->name);
    for (int round = 0; round < test_draws(5); round++) {
        stn_tensor *leaves[MAX_IN];
        stn_scope_begin(context);
        for (int i = 0; i < form->n_inputs; i++) {
            const stn_spec *spec = layout(context, mesh, round, i);
            leaves[i] = leaf(context, spec, i);
            stn_spec_release(&spec);
        }
        struct results want = apply(context, name, form->n_inputs, leaves),
                       got = apply(context, form->name, form->n_inputs, leaves);
        same(got.value, want.value, form->name);
        for (int i = 0; i < form->n_inputs; i++)
            same(got.grad[i], want.grad[i], form->name);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
}

static int is_constant(const char *name)
{
    static const char *const constant[] = {"sign_", "floor_", "ceil_", "trunc_", "round_", "floor_divide_"};
    for (size_t i = 0; i < sizeof constant / sizeof constant[0]; i++)
        if (strcmp(constant[i], name) == 0)
            return 1;
    return 0;
}

/* Those that are no function's: test_copy.c is about them; and those of integers: test_bitwise.c. */
static int has_gradients(const char *name)
{
    return strcmp(name, "copy_") != 0 && strcmp(name, "fill_") != 0 && strncmp(name, "bitwise_", 8) != 0;
}

static stn_status all_forms(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    int n = 0;
    (void)arg;
    for (int i = 0; i < STNI_OP_COUNT; i++)
        if ((stni_op_table[i]->flags & STN_OP_IN_PLACE) && !is_constant(stni_op_table[i]->name) &&
            has_gradients(stni_op_table[i]->name)) {
            compare(context, mesh, stni_op_table[i]);
            n++;
        }
    CHECK(n >= 50);
    return STN_OK;
}

static void every_op_in_place_does_what_its_function_gives(void)
{
    test_ranks(3, all_forms, NULL);
}

/* Through a rounding no gradient passes: what was changed in place needs none any more. */
static stn_status roundings(stn_context *context, void *arg)
{
    (void)arg;
    struct elements e = {.dtype = STN_DTYPE_F64, .ndim = 1, .shape = {4}, .n = 4, .v = {1.5, -2.5, 0.25, -0.75}},
                    want = e;
    stn_scope_begin(context);
    want.v[0] = 2, want.v[1] = -2, want.v[2] = 0, want.v[3] = -1;
    layout_check(stn_round_(layout_tensor_placed(context, NULL, &e, NULL), 0), &want, "round_");
    want.v[0] = 1, want.v[1] = -3, want.v[2] = 0, want.v[3] = -1;
    layout_check(stn_floor_(layout_tensor_placed(context, NULL, &e, NULL)), &want, "floor_");
    layout_check(stn_floor_divide_number_(layout_tensor_placed(context, NULL, &e, NULL), 1), &want, "floor_divide_");
    want.v[0] = 2, want.v[1] = -2, want.v[2] = 1, want.v[3] = 0;
    layout_check(stn_ceil_(layout_tensor_placed(context, NULL, &e, NULL)), &want, "ceil_");
    want.v[0] = 1, want.v[1] = -2, want.v[2] = 0, want.v[3] = 0;
    layout_check(stn_trunc_(layout_tensor_placed(context, NULL, &e, NULL)), &want, "trunc_");
    want.v[0] = 1, want.v[1] = -1, want.v[2] = 1, want.v[3] = -1;
    layout_check(stn_sign_(layout_tensor_placed(context, NULL, &e, NULL)), &want, "sign_");
    return stn_scope_end(context);
}

static void roundings_in_place(void)
{
    test_ranks(1, roundings, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_op_in_place_does_what_its_function_gives", every_op_in_place_does_what_its_function_gives},
        {"roundings_in_place", roundings_in_place},
    };
    return TEST_MAIN(argc, argv, cases);
}
