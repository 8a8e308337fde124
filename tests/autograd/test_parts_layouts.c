/* Gradients of drawn parts of a tensor in drawn layouts, against one process: parts overlap, leave gaps, are empty, or
 * parts of parts, on their own and beside the whole, some of them used in another layout. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

static stn_tensor *drawn_part(uint64_t *state, stn_tensor *x)
{
    if (stn_tensor_ndim(x) == 0)
        return x;
    const int dim = (int)world_random(state, (uint64_t)stn_tensor_ndim(x));
    const int64_t n = stn_tensor_shape(x)[dim], start = (int64_t)world_random(state, (uint64_t)n + 1),
                  length = (int64_t)world_random(state, (uint64_t)(n - start) + 1),
                  step = 1 + (int64_t)(world_random(state, 4) == 0);
    const int selects = world_random(state, 3) == 0 && start < n;
    return selects ? stn_select(x, dim, start) : stn_slice(x, dim, start, start + length, step);
}

static stn_tensor *drawn_split(uint64_t *state, stn_tensor *x, stn_tensor **parts, int *n)
{
    const int dim = (int)world_random(state, (uint64_t)stn_tensor_ndim(x));
    *n = 0;
    memset(parts, 0, STN_MAX_OUTPUTS * sizeof *parts);
    stn_chunk(x, dim, 1 + (int64_t)world_random(state, 4), STN_MAX_OUTPUTS, parts);
    while (*n < STN_MAX_OUTPUTS && parts[*n])
        ++*n;
    return x;
}

static stn_tensor *in_drawn_layout(uint64_t seed, stn_tensor *x)
{
    struct random_shape shape = {.ndim = stn_tensor_ndim(x)};
    const stn_mesh *mesh = stn_spec_mesh(stn_tensor_spec(x));
    if (!mesh || seed % 3 != 0)
        return x;
    memcpy(shape.shape, stn_tensor_shape(x), (size_t)shape.ndim * sizeof shape.shape[0]);
    const stn_spec *spec = random_spec(&seed, stn_tensor_context(x), mesh, &shape, STN_DTYPE_F64, 0);
    x = stn_redistribute(x, spec);
    stn_spec_release(&spec);
    return x;
}

static stn_tensor *squares(stn_tensor *x, uint64_t seed)
{
    x = in_drawn_layout(seed, x);
    return stn_mul_number(stn_sum(stn_mul(x, x), 0, NULL, 0), (double)(1 + seed % 5));
}

static stn_tensor *call_parts(stn_tensor *const *in, const void *arg)
{
    uint64_t state = *(const uint64_t *)arg;
    stn_tensor *x = world_random(&state, 2) ? in[0] : stn_mul_number(in[0], 2), *parts[STN_MAX_OUTPUTS];
    stn_tensor *sum = squares(drawn_part(&state, x), world_random(&state, 1000));
    const int rounds = 1 + (int)world_random(&state, 6);
    for (int i = 0, n; i < rounds; i++) {
        const uint64_t kind = world_random(&state, 6);
        if (kind == 0)
            sum = stn_add(sum, squares(x, world_random(&state, 1000)));
        else if (kind == 1)
            for (drawn_split(&state, x, parts, &n); n > 0; n--)
                sum = stn_add(sum, squares(parts[n - 1], world_random(&state, 1000)));
        else {
            stn_tensor *part = drawn_part(&state, x);
            sum = stn_add(sum, squares(kind == 2 ? drawn_part(&state, part) : part, world_random(&state, 1000)));
        }
    }
    return sum;
}

/* `arg`: 1: no graph of the backward is made, so that gradients have to be right to the bit. */
static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 29;
    for (int i = 0; i < test_draws(60); i++) {
        struct random_shape shape;
        random_shape(&state, &shape);
        if (shape.ndim == 0)
            shape = (struct random_shape){1, {7}};
        const uint64_t drawn = world_random(&state, 1 << 30);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        const struct against_one_op op = {.call = call_parts,
                                          .arg = &drawn,
                                          .n_in = 1,
                                          .in = {{STN_DTYPE_F64, shape, values, 1u << STN_SUM}},
                                          .first_order = *(int *)arg,
                                          .tolerance = *(int *)arg ? 0 : 1e-14};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void parts_in_every_layout_give_the_gradients_of_one_process(void)
{
    int plain = 1;
    test_worlds(layouts_body, &plain);
}

static void their_gradients_can_be_differentiated_again(void)
{
    int plain = 0;
    test_worlds(layouts_body, &plain);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"parts_in_every_layout_give_the_gradients_of_one_process",
         parts_in_every_layout_give_the_gradients_of_one_process},
        {"their_gradients_can_be_differentiated_again", their_gradients_can_be_differentiated_again},
    };
    return TEST_MAIN(argc, argv, cases);
}
