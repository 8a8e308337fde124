#include "ops/conv/overlap.h"

#include "ops/conv/cases.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

enum { FORMS = 4, TENSORS = 4 /* the result, and the gradients by input, weight and bias */ };

/* How a case is cut over a grid. */
struct cut {
    const struct conv_case *of;
    struct conv_grid grid;
    int form; /* 0: balanced; 1: all rows but one on the first piece; 2: the same, rows over both axes; 3: on the last piece */
    stn_dtype dtype;
};

/* This rank's chunks of all results, and what they cost. */
struct outcome {
    char *bytes[TENSORS];
    size_t n[TENSORS];
    stn_stats stats;
};

static void lopsided(int64_t n, int pieces, int at, int64_t *sizes)
{
    memset(sizes, 0, (size_t)pieces * sizeof *sizes);
    const int beside = at > 0 ? at - 1 : at + 1;
    sizes[beside] = n > 1 && pieces > 1;
    sizes[at] = n - sizes[beside];
}

static const stn_spec *input_spec(stn_context *context, const stn_mesh *mesh, const struct cut *cut)
{
    static const stn_placement replicate = {STN_PLACE_REPLICATE, 0, 0, 0};
    const struct conv_case *s = cut->of;
    const struct random_shape shape = conv_input_shape(s);
    const int rows = shape.ndim - s->dims, pieces = cut->grid.rows * (cut->form == 2 ? cut->grid.columns : 1);
    const stn_placement plain[] = {stn_shard(rows), s->dims > 1 ? stn_shard(rows + 1) : replicate},
                        both[] = {stn_shard(rows), stn_shard(rows)};
    int64_t of_rows[8];
    const int64_t *sizes[STN_MAX_NDIM] = {NULL};
    if (cut->form > 0) {
        lopsided(shape.shape[rows], pieces, cut->form == 3 ? pieces - 1 : 0, of_rows);
        sizes[rows] = of_rows;
    }
    return conv_spec(context, mesh, cut->form == 2 ? both : plain, cut->dtype, &shape, sizes);
}

static stn_tensor *leaf(stn_context *context, const stn_spec *spec, const struct random_shape *shape, uint64_t *state)
{
    double *values = against_one_draw(state, against_one_numel(shape));
    stn_tensor *tensor = against_one_tensor(context, spec, values);
    CHECK_STATUS(stn_set_requires_grad(tensor, 1), STN_OK);
    stn_spec_release(&spec);
    free(values);
    return tensor;
}

static int make_inputs(stn_context *context, const stn_mesh *mesh, const struct cut *cut, stn_tensor **in)
{
    static const stn_placement replicate[] = {{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}};
    const struct random_shape shapes[] = {conv_input_shape(cut->of), conv_weight_shape(cut->of),
                                          conv_bias_shape(cut->of)};
    uint64_t state = 29;
    in[0] = leaf(context, input_spec(context, mesh, cut), &shapes[0], &state);
    for (int i = 1; i < 3; i++)
        in[i] = leaf(context, conv_spec(context, mesh, replicate, cut->dtype, &shapes[i], NULL), &shapes[i], &state);
    return cut->of->has_bias ? 3 : 2;
}

static void keep_chunk(struct outcome *outcome, int i, stn_tensor *tensor)
{
    const stn_spec *spec = stn_tensor_spec(tensor);
    outcome->n[i] = (size_t)stn_spec_local_numel(spec) * stn_dtype_size(stn_tensor_dtype(tensor));
    outcome->bytes[i] = malloc(outcome->n[i] + 1);
    CHECK_STATUS(stn_to_host(tensor, outcome->bytes[i], outcome->n[i]), STN_OK);
}

/* The convolution and its gradients. */
static void convolve(stn_context *context, const stn_mesh *mesh, const struct cut *cut, stn_halo_overlap when,
                     struct outcome *outcome)
{
    stn_tensor *in[3], *results[TENSORS];
    memset(outcome, 0, sizeof *outcome);
    outcome->stats.size = sizeof outcome->stats;
    stn_scope_begin(context);
    const int n = make_inputs(context, mesh, cut, in);
    CHECK_STATUS(stn_set_halo_overlap(context, when), STN_OK);
    stn_context_stats_reset(context);
    results[0] = conv_call(in, cut->of);
    stn_tensor *loss = stn_sum(stn_mul(results[0], results[0]), 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, n, in, 0, 0, results + 1), STN_OK);
    CHECK_STATUS(stn_context_stats(context, &outcome->stats), STN_OK);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    for (int i = 0; i <= n && stn_context_status(context) == STN_OK; i++)
        keep_chunk(outcome, i, results[i]);
    CHECK_STATUS(stn_set_halo_overlap(context, STN_HALO_OVERLAP_WHERE_IT_PAYS), STN_OK);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static void compare(stn_context *context, const stn_mesh *mesh, const struct cut *cut)
{
    struct outcome first, beside;
    convolve(context, mesh, cut, STN_HALO_OVERLAP_NEVER, &first);
    convolve(context, mesh, cut, STN_HALO_OVERLAP_ALWAYS, &beside);
    CHECK_I64(beside.stats.messages, first.stats.messages);
    CHECK_I64(beside.stats.bytes_sent, first.stats.bytes_sent);
    CHECK_I64(beside.stats.collectives, first.stats.collectives);
    for (int i = 0; i < TENSORS; i++) {
        CHECK_I64((int64_t)beside.n[i], (int64_t)first.n[i]);
        if (beside.n[i] == first.n[i] && first.n[i] > 0)
            CHECK_BYTES(beside.bytes[i], first.bytes[i], first.n[i]);
        free(first.bytes[i]);
        free(beside.bytes[i]);
    }
}

void conv_overlap_compare(stn_context *context, const struct conv_grid *grid, int step)
{
    const stn_mesh *mesh = test_mesh(context, grid->rows, grid->columns);
    for (int i = 0; i < conv_n_cases; i += step)
        for (int form = 0; form < FORMS; form++) {
            const struct cut cut = {&conv_cases[i], *grid, form, (i + form) % 2 ? STN_DTYPE_F32 : STN_DTYPE_F64};
            if (form != 2 || grid->columns > 0)
                compare(context, mesh, &cut);
        }
}
