/* Convolutions in layouts: each gives what one process gives. */
#include "core/shard/world.h"
#include "ops/conv/cases.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

/* Random layouts against one process */

static void check_layouts(stn_context *context, uint64_t *state, const stn_mesh *mesh, const struct conv_case *s,
                          stn_dtype dtype, double tolerance)
{
    struct against_one_op op = {.call = conv_call, .arg = s, .n_in = s->has_bias ? 3 : 2, .tolerance = tolerance};
    struct random_shape of[] = {conv_input_shape(s), conv_weight_shape(s), conv_bias_shape(s)};
    double *values[3];
    for (int i = 0; i < 3; i++) {
        values[i] = against_one_draw(state, against_one_numel(&of[i]));
        op.in[i] = (struct against_one_input){dtype, of[i], values[i], 1u << STN_SUM};
    }
    against_one_check(context, state, mesh, &op);
    for (int i = 0; i < 3; i++)
        free(values[i]);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 17;
    (void)arg;
    for (int round = 0; round < test_draws(3); round++)
        for (int i = 0; i < conv_n_cases; i++)
            check_layouts(context, &state, random_mesh(&state, context), &conv_cases[i],
                          round % 3 ? STN_DTYPE_F64 : STN_DTYPE_F32, round % 3 ? 1e-12 : 1e-4);
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    static const int worlds[] = {6, 3, 1, 2, 5};
    for (int i = 0; i < test_draws(5); i++)
        test_ranks(worlds[i], layouts_body, NULL);
}

/* Rows and columns cut, whatever else: every geometry on meshes of one and two axes, with empty chunks and chunks
 * smaller than a halo. */

/* All of n at piece `at` of p but for one element on each of its neighbours. */
static void lopsided(int64_t n, int p, int at, int64_t *sizes)
{
    memset(sizes, 0, (size_t)p * sizeof *sizes);
    for (int i = 0; i < p && n > 1; i++)
        if (i == at - 1 || i == at + 1) {
            sizes[i] = 1;
            n--;
        }
    sizes[at] = n;
}

static void check_cut(stn_context *context, const struct conv_case *s, int rows, int columns, int form)
{
    struct random_shape xs = conv_input_shape(s), ws = conv_weight_shape(s), bs = conv_bias_shape(s);
    uint64_t state = 23;
    /* Of three dims now the first two are sharded, now the last. */
    int height = xs.ndim - s->dims + (s->dims == 3 && form % 2), has_columns = columns && s->dims > 1;
    int64_t cut[2][8];
    const int64_t *sizes[STN_MAX_NDIM] = {NULL};
    const stn_mesh *mesh = test_mesh(context, rows, columns);
    stn_placement over[] = {stn_shard(height), has_columns ? stn_shard(height + 1) : stn_replicate()},
                  both[] = {stn_shard(height), stn_shard(height)};
    if (form > 0) {
        lopsided(xs.shape[height], form == 2 ? rows * columns : rows, form == 3 ? rows - 1 : 0, cut[0]);
        sizes[height] = cut[0];
        if (has_columns && form != 2) {
            lopsided(xs.shape[height + 1], columns, columns / 2, cut[1]);
            sizes[height + 1] = cut[1];
        }
    }
    const stn_spec *spec = conv_spec(context, mesh, form == 2 ? both : over, STN_DTYPE_F64, &xs, sizes);
    double *x = against_one_draw(&state, against_one_numel(&xs)), *w = against_one_draw(&state, against_one_numel(&ws));
    double *b = against_one_draw(&state, s->o);
    stn_scope_begin(context);
    stn_tensor *cut_x = against_one_tensor(context, spec, x), *local[3], *whole[3], *grad[2][3];
    stn_placement replicate[] = {stn_replicate(), stn_replicate()};
    const stn_spec *ws_spec = conv_spec(context, mesh, replicate, STN_DTYPE_F64, &ws, NULL),
                   *bs_spec = conv_spec(context, mesh, replicate, STN_DTYPE_F64, &bs, NULL);
    local[0] = against_one_local(context, STN_DTYPE_F64, &xs, x),
    local[1] = against_one_local(context, STN_DTYPE_F64, &ws, w);
    local[2] = against_one_local(context, STN_DTYPE_F64, &bs, b);
    whole[0] = cut_x, whole[1] = against_one_tensor(context, ws_spec, w),
    whole[2] = against_one_tensor(context, bs_spec, b);
    int n = s->has_bias ? 3 : 2;
    for (int i = 0; i < n; i++) {
        CHECK_STATUS(stn_set_requires_grad(local[i], 1), STN_OK);
        CHECK_STATUS(stn_set_requires_grad(whole[i], 1), STN_OK);
    }
    stn_tensor *want = conv_call(local, s), *got = conv_call(whole, s);
    int64_t ny = stn_spec_numel(stn_tensor_spec(want));
    double *buffer = conv_zeros(ny + against_one_numel(&xs) + against_one_numel(&ws));
    test_read(want, buffer, ny);
    against_one_compare(got, buffer, 1e-12);
    stn_tensor *squares[] = {stn_mul(want, want), stn_mul(got, got)};
    stn_tensor *loss[] = {stn_sum(squares[0], 0, NULL, 0), stn_sum(squares[1], 0, NULL, 0)};
    CHECK_STATUS(stn_grad(context, 1, &loss[0], NULL, n, local, 0, 0, grad[0]), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &loss[1], NULL, n, whole, 0, 0, grad[1]), STN_OK);
    for (int i = 0; i < n; i++) {
        test_read(grad[0][i], buffer, stn_spec_numel(stn_tensor_spec(grad[0][i])));
        against_one_compare(grad[1][i], buffer, 1e-12);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&spec);
    stn_spec_release(&ws_spec);
    stn_spec_release(&bs_spec);
    free(x), free(w), free(b), free(buffer);
}

struct cut_case {
    int rows, columns;
};

static stn_status cut_body(stn_context *context, void *arg)
{
    const struct cut_case *c = arg;
    for (int i = 0; i < conv_n_cases; i++)
        for (int form = 0; form < 4; form++)
            if (c->columns || form != 2)
                check_cut(context, &conv_cases[i], c->rows, c->columns, form);
    return STN_OK;
}

static void cut_rows_and_columns_give_what_one_process_gives(void)
{
    struct cut_case cases[] = {{2, 3}, {3, 0}, {2, 0}, {5, 0}, {2, 2}};
    for (int i = 0; i < test_draws(5); i++)
        test_ranks(cases[i].rows * (cases[i].columns ? cases[i].columns : 1), cut_body, &cases[i]);
}

/* Rows that are much work, so that images are solved one by one: the last rows of a chunk apart from the others, and
 * blocks of rows. */
static stn_status large_body(stn_context *context, void *arg)
{
    static const struct conv_case large = {2, 0, 3, 8, 8, 1, {12, 2100}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, {0}, 1};
    const int ranks = stn_context_size(context);
    uint64_t state = 31;
    (void)arg;
    check_layouts(context, &state, test_mesh(context, ranks, 0), &large, STN_DTYPE_F32, 1e-4);
    for (int form = 0; form < 2 && ranks > 1; form++)
        check_cut(context, &large, ranks, 0, form);
    return STN_OK;
}

static void batches_of_large_rows_give_what_one_process_gives(void)
{
    for (int ranks = 1; ranks <= 3; ranks += test_thread_step(2))
        test_ranks(ranks, large_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"cut_rows_and_columns_give_what_one_process_gives", cut_rows_and_columns_give_what_one_process_gives},
        {"batches_of_large_rows_give_what_one_process_gives", batches_of_large_rows_give_what_one_process_gives},
    };
    return TEST_MAIN(argc, argv, cases);
}
