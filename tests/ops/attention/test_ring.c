/* Attention whose keys go round: uneven and empty chunks on lines and grids of ranks against one process, in every
 * dtype; what is sent, beside the caller too; memory; the rule. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERY, KEY, VALUE, MASK, INPUTS };
enum { NOWHERE, ROWS, HEADS, BATCH }; /* what a mesh axis cuts */

struct scene {
    stn_attention_attrs attrs;
    struct random_shape in[INPUTS]; /* the last one without dims: no mask */
    int allows;                     /* the mask is bool */
};

/* Of a mesh of two axes; of one axis `query[1]` and `keys[1]`. */
static const struct layout {
    int query[2], keys[2];
} layouts[] = {
    {{ROWS, ROWS}, {ROWS, ROWS}},       {{BATCH, ROWS}, {BATCH, ROWS}},  {{HEADS, ROWS}, {HEADS, ROWS}},
    {{ROWS, NOWHERE}, {ROWS, NOWHERE}}, {{ROWS, ROWS}, {ROWS, NOWHERE}}, {{ROWS, ROWS}, {NOWHERE, ROWS}},
    {{NOWHERE, NOWHERE}, {ROWS, ROWS}}, {{HEADS, ROWS}, {ROWS, ROWS}},
};

#define ATTRS(...) {.size = sizeof(stn_attention_attrs), __VA_ARGS__}
static const struct scene scenes[] = {
    {ATTRS(0), {{4, {2, 3, 11, 4}}, {4, {2, 3, 13, 4}}, {4, {2, 3, 13, 2}}}, 0},
    {ATTRS(.dropout_p = 0, .is_causal = 1), {{3, {2, 12, 3}}, {3, {2, 12, 3}}, {3, {2, 12, 5}}}, 0},
    {ATTRS(.dropout_p = 0, .is_causal = 1), {{2, {9, 3}}, {2, {17, 3}}, {2, {17, 4}}}, 0},
    {ATTRS(.dropout_p = 0, .is_causal = 1), {{2, {19, 3}}, {2, {5, 3}}, {2, {5, 4}}}, 0},
    {ATTRS(.dropout_p = 0.4, .is_causal = 1, .enable_gqa = 1),
     {{4, {2, 6, 9, 2}}, {4, {2, 3, 9, 2}}, {4, {2, 3, 9, 3}}},
     0},
    {ATTRS(.dropout_p = 0.3, .enable_gqa = 1), {{4, {2, 4, 7, 3}}, {3, {2, 10, 3}}, {4, {1, 2, 10, 3}}}, 0},
    {ATTRS(0), {{4, {2, 2, 8, 3}}, {4, {2, 2, 9, 3}}, {4, {2, 2, 9, 2}}, {3, {2, 8, 9}}}, 0},
    {ATTRS(0), {{3, {2, 8, 3}}, {3, {2, 9, 3}}, {3, {2, 9, 2}}, {3, {1, 8, 1}}}, 0},
    {ATTRS(0), {{3, {2, 8, 3}}, {3, {1, 9, 3}}, {3, {2, 9, 2}}, {2, {8, 9}}}, 1},
    {ATTRS(0), {{3, {2, 8, 3}}, {3, {2, 9, 3}}, {2, {9, 2}}, {1, {9}}}, 0},
    {ATTRS(.dropout_p = 0, .has_scale = 1, .scale = -0.7), {{3, {2, 6, 3}}, {3, {2, 1, 3}}, {3, {2, 1, 2}}}, 0},
    {ATTRS(0), {{3, {2, 5, 3}}, {3, {2, 0, 3}}, {3, {2, 0, 2}}}, 0},
    {ATTRS(0), {{3, {2, 0, 3}}, {3, {2, 5, 3}}, {3, {2, 5, 2}}}, 0},
};

static stn_tensor *attend(const struct scene *scene, stn_tensor *const *in)
{
    stn_tensor *mask = scene->in[MASK].ndim > 0 ? in[MASK] : NULL;
    stn_context_set_random_state(stn_tensor_context(in[0]), 17, 5);
    return stn_scaled_dot_product_attention(in[QUERY], in[KEY], in[VALUE],
                                            scene->allows ? stn_gt_number(mask, -0.3) : mask, &scene->attrs);
}

/* The dim that an axis cuts, counted from the end; what a tensor lacks is not cut. */
static stn_placement placement_of(const struct random_shape *shape, int what)
{
    static const int from_end[] = {[ROWS] = 2, [HEADS] = 3, [BATCH] = 4};
    const int dim = what == NOWHERE ? -1 : shape->ndim - from_end[what];
    return dim < 0 ? stn_replicate() : stn_shard(dim);
}

/* Pieces of a dim at random, some of them empty. */
static void draw_sizes(uint64_t *state, int64_t n, int pieces, int64_t *sizes)
{
    for (int i = 0; i < pieces; i++, n -= sizes[i - 1])
        sizes[i] = i == pieces - 1 ? n : (int64_t)world_random(state, (uint64_t)n + 1);
}

static stn_tensor *place(stn_context *context, uint64_t *state, const stn_mesh *mesh, int is_even, const int *cuts,
                         stn_dtype dtype, const struct random_shape *shape, const double *values)
{
    int64_t of_dim[STN_MAX_NDIM][8];
    const int64_t *sizes[STN_MAX_NDIM] = {NULL};
    const int n_axes = stn_mesh_ndim(mesh);
    stn_placement placements[2];
    const stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_spec *spec = NULL;
    for (int axis = 0; axis < n_axes; axis++)
        placements[axis] = placement_of(shape, cuts[axis + 2 - n_axes]);
    for (int d = 0; d < shape->ndim && !is_even; d++) {
        int pieces = 1;
        for (int axis = 0; axis < n_axes; axis++)
            if (placements[axis].kind == STN_PLACE_SHARD && placements[axis].dim == d)
                pieces *= stn_mesh_axis_size(mesh, axis);
        draw_sizes(state, shape->shape[d], pieces, of_dim[d]);
        sizes[d] = pieces > 1 ? of_dim[d] : NULL;
    }
    CHECK_STATUS(stn_spec_create(context, mesh, placements, dtype, shape->ndim, shape->shape, &options, &spec), STN_OK);
    stn_tensor *tensor = against_one_tensor(context, spec, values);
    stn_spec_release(&spec);
    return tensor;
}

/* Result and gradients, in f32 or f64. */
struct outcome {
    stn_tensor *out, *grad[INPUTS];
};

static struct outcome run(const struct scene *scene, int n_in, stn_dtype dtype, stn_tensor *const *in,
                          stn_tensor *cotangent)
{
    stn_context *context = stn_tensor_context(in[0]);
    struct outcome o = {0};
    stn_tensor *x[INPUTS] = {NULL};
    for (int k = 0; k < n_in; k++) {
        CHECK_STATUS(stn_set_requires_grad(in[k], 1), STN_OK);
        x[k] = stn_cast(in[k], dtype);
    }
    o.out = stn_cast(attend(scene, x), stn_tensor_dtype(in[0]));
    CHECK_STATUS(stn_grad(context, 1, &o.out, &cotangent, scene->allows ? MASK : n_in, in, 0, 0, o.grad), STN_OK);
    return o;
}

/* Beside 1, since some gradients are 0: that of a mask which is the same for all keys. */
static void compare(stn_tensor *got, stn_tensor *want, double tolerance)
{
    if (!CHECK((got == NULL) == (want == NULL)) || got == NULL)
        return;
    const int64_t n = stn_spec_numel(stn_tensor_spec(want));
    double *values = calloc((size_t)n + 1, sizeof *values);
    test_read(stn_add_number(want, 1), values, n);
    against_one_compare(stn_add_number(got, 1), values, tolerance);
    free(values);
}

struct trial {
    stn_dtype dtype;
    double tolerance;
};

static void try_layout(stn_context *context, uint64_t *state, const struct trial *trial, const struct scene *scene,
                       double *const *values, const stn_mesh *mesh, const struct layout *layout)
{
    const stn_dtype wide = trial->dtype == STN_DTYPE_F64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
    const int n_in = scene->in[MASK].ndim > 0 ? INPUTS : MASK, is_even = world_random(state, 3) == 0;
    stn_tensor *local[INPUTS], *in[INPUTS], *cotangent;
    stn_scope_begin(context);
    for (int k = 0; k < n_in; k++) {
        const int whole[] = {NOWHERE, NOWHERE}, *cuts = k == QUERY ? layout->query : k == MASK ? whole : layout->keys;
        local[k] = against_one_local(context, wide, &scene->in[k], values[k]);
        in[k] = place(context, state, mesh, is_even, cuts, wide, &scene->in[k], values[k]);
    }
    stn_tensor *like = attend(scene, local);
    cotangent = stn_cos(stn_detach(like));
    const struct outcome want = run(scene, n_in, trial->dtype, local, cotangent);
    const int64_t n = stn_spec_numel(stn_tensor_spec(cotangent));
    double *numbers = calloc((size_t)n + 1, sizeof *numbers);
    struct random_shape shape = {stn_tensor_ndim(cotangent), {0}};
    memcpy(shape.shape, stn_tensor_shape(cotangent), (size_t)shape.ndim * sizeof *shape.shape);
    test_read(cotangent, numbers, n);
    const struct outcome got =
        run(scene, n_in, trial->dtype, in, place(context, state, mesh, 0, layout->query, wide, &shape, numbers));
    compare(got.out, want.out, trial->tolerance);
    for (int k = 0; k < n_in; k++)
        compare(got.grad[k], want.grad[k], trial->tolerance);
    free(numbers);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

/* In some rows of a mask that is added nothing is allowed. */
static void draw_values(uint64_t *state, const struct scene *scene, double **values)
{
    for (int k = 0; k < INPUTS; k++)
        values[k] = against_one_draw(state, against_one_numel(&scene->in[k]));
    for (int64_t i = 0; i < against_one_numel(&scene->in[MASK]) && scene->in[MASK].ndim > 1; i++)
        if (!scene->allows && (world_random(state, 4) == 0 || i < 2 * scene->in[MASK].shape[scene->in[MASK].ndim - 1]))
            values[MASK][i] = -INFINITY;
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    const struct trial *trial = arg;
    const int size = stn_context_size(context), rounds = test_draws(2);
    const stn_mesh *line = test_mesh(context, size, 0), *grid = NULL;
    if (size == 4 || size == 6)
        grid = test_mesh(context, 2, size / 2);
    uint64_t state = 7;
    CHECK_STATUS(stn_set_ring_attention(context, STN_RING_ATTENTION_ALWAYS), STN_OK);
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
            double *values[INPUTS];
            draw_values(&state, &scenes[i], values);
            try_layout(context, &state, trial, &scenes[i], values, line, &layouts[0]);
            for (size_t j = 0; grid != NULL && j < sizeof layouts / sizeof *layouts; j++)
                try_layout(context, &state, trial, &scenes[i], values, grid, &layouts[j]);
            for (int k = 0; k < INPUTS; k++)
                free(values[k]);
        }
    return STN_OK;
}

static void chunks_that_go_round_give_what_one_process_gives(void)
{
    struct trial trial = {STN_DTYPE_F64, 1e-12};
    for (int ranks = 1; ranks <= 4; ranks++)
        test_ranks(ranks, layouts_body, &trial);
    test_ranks(6, layouts_body, &trial);
}

static void narrow_floats_are_joined_in_f32(void)
{
    struct trial trials[] = {{STN_DTYPE_F32, 2e-5}, {STN_DTYPE_BF16, 2.5e-2}, {STN_DTYPE_F16, 4e-3}};
    for (int t = 0; t < 3; t++)
        test_ranks(3, layouts_body, &trials[t]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"chunks_that_go_round_give_what_one_process_gives", chunks_that_go_round_give_what_one_process_gives},
        {"narrow_floats_are_joined_in_f32", narrow_floats_are_joined_in_f32},
    };
    return TEST_MAIN(argc, argv, cases);
}
