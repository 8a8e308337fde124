#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/resample/sample.h"
#include "ops/placement/splits.h"
#include "ops/common/dims.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

const char *const stni_sample_modes[] = {"bilinear", "nearest", "bicubic", NULL};
const char *const stni_sample_paddings[] = {"zeros", "border", "reflection", NULL};

const stn_attr_schema stni_sample_schema[] = {
    {"mode", STN_ATTR_CHOICE, offsetof(struct stni_sample_attrs, mode), stni_sample_modes},
    {"padding_mode", STN_ATTR_CHOICE, offsetof(struct stni_sample_attrs, padding_mode), stni_sample_paddings},
    {"align_corners", STN_ATTR_BOOL, offsetof(struct stni_sample_attrs, align_corners), NULL},
};
const stn_attr_schema stni_sample_backward_schema[] = {
    {"mode", STN_ATTR_CHOICE, offsetof(struct stni_sample_attrs, mode), stni_sample_modes},
    {"padding_mode", STN_ATTR_CHOICE, offsetof(struct stni_sample_attrs, padding_mode), stni_sample_paddings},
    {"align_corners", STN_ATTR_BOOL, offsetof(struct stni_sample_attrs, align_corners), NULL},
    {"wanted", STN_ATTR_INT, offsetof(struct stni_sample_attrs, wanted), NULL},
};

static stn_status check_shapes(const stn_op_call *call)
{
    const struct stni_sample_attrs *attrs = call->attrs;
    const struct stni_layout *input = &call->in_spec[STNI_SAMPLE_INPUT]->layout,
                             *grid = &call->in_spec[STNI_SAMPLE_GRID]->layout;
    char got[STNI_SHAPE_TEXT];
    if (input->ndim != 4 && input->ndim != 5)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted 4 or 5", input->ndim);
    if (input->ndim == 5 && attrs->mode == STNI_SAMPLE_BICUBIC)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got 5 dims, wanted 4 for mode 'bicubic'");
    if (grid->ndim != input->ndim || grid->shape[0] != input->shape[0] ||
        grid->shape[grid->ndim - 1] != input->ndim - 2)
        return stn_op_fail(
            call, STN_ERR_SHAPE, "'grid' got shape %s, wanted %d dims, %" PRId64 " in the first and %d in the last",
            stni_shape_text(grid->ndim, grid->shape, got), input->ndim, input->shape[0], input->ndim - 2);
    for (int d = 2; d < input->ndim; d++)
        if (input->shape[d] == 0)
            return stn_op_fail(call, STN_ERR_SHAPE, "'input' got no elements along dim %d, wanted at least 1", d);
    return STN_OK;
}

stn_status stni_sample_check(const stn_op_call *call, uint32_t dtypes, int64_t *shape)
{
    const stn_input_schema *names = stn_op_descriptor(call->op)->inputs;
    const struct stni_layout *input = &call->in_spec[STNI_SAMPLE_INPUT]->layout;
    if (!(dtypes >> input->dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted a floating dtype",
                           stn_dtype_name(input->dtype));
    for (int i = 1; i < call->n_in; i++)
        if (call->in_spec[i]->layout.dtype != input->dtype)
            return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted %s as 'input' has", names[i].name,
                               stn_dtype_name(call->in_spec[i]->layout.dtype), stn_dtype_name(input->dtype));
    STNI_TRY(check_shapes(call));
    memcpy(shape, input->shape, sizeof input->shape);
    for (int d = 2; d < input->ndim; d++)
        shape[d] = call->in_spec[STNI_SAMPLE_GRID]->layout.shape[d - 1];
    return STN_OK;
}

/* What a mesh axis cuts, where that is no dim: */
enum { NOTHING = -1, INPUT_SUM = -2, GRAD_SUM = -3 };

/* The others carry numbers: the dims of the input, then those of the points. */
enum { BATCH, CHANNELS, PIXELS, POINTS = PIXELS + STNI_SAMPLE_DIMS };

struct placing {
    const stn_op_call *call;
    const stn_mesh *mesh;
    const int64_t *shape;
    int choice[STN_MAX_MESH_NDIM];
    int64_t cut[2]; /* batch, channels: by how many ranks together */
};

static int64_t numel_of(int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    return n;
}

/* What the axis cuts in the operand. */
static int choice_of(const struct placing *p, int operand, int axis)
{
    const struct stni_layout *layout = &p->call->in_spec[operand]->layout;
    stn_placement placement = layout->placement[axis];
    if (placement.kind == STN_PLACE_PARTIAL && placement.op == STN_SUM && operand != STNI_SAMPLE_GRID)
        return operand == STNI_SAMPLE_INPUT ? INPUT_SUM : GRAD_SUM;
    if (placement.kind != STN_PLACE_SHARD)
        return NOTHING;
    if (operand == STNI_SAMPLE_GRID)
        return placement.dim == 0 ? BATCH : placement.dim == layout->ndim - 1 ? NOTHING : POINTS + placement.dim - 1;
    return placement.dim < PIXELS || operand == STNI_SAMPLE_INPUT ? placement.dim : POINTS + placement.dim - PIXELS;
}

/* Moves an axis from pixels to channels or batch, where that is possible and worth while. */
static int exchange_pixels(struct placing *p, int axis, int grid_choice)
{
    const struct stni_layout *input = &p->call->in_spec[STNI_SAMPLE_INPUT]->layout;
    int64_t ranks = p->mesh->sizes[axis];
    if (p->call->in_spec[STNI_SAMPLE_INPUT]->numel > ranks * numel_of(input->ndim, p->shape))
        return NOTHING;
    if (grid_choice == BATCH)
        return BATCH;
    for (int label = CHANNELS; label >= BATCH; label--)
        if (p->cut[label] * ranks <= input->shape[label]) {
            p->cut[label] *= ranks;
            return label;
        }
    return NOTHING;
}

static void choose(struct placing *p)
{
    const stn_op_call *call = p->call;
    int larger = call->in_spec[STNI_SAMPLE_GRID]->numel > call->in_spec[STNI_SAMPLE_INPUT]->numel ? STNI_SAMPLE_GRID
                                                                                                  : STNI_SAMPLE_INPUT;
    p->cut[BATCH] = p->cut[CHANNELS] = 1;
    for (int a = 0; a < p->mesh->ndim; a++)
        for (int i = 0; i < 2; i++) {
            int label = choice_of(p, i, a);
            if (label == CHANNELS || (label == BATCH && (i == 0 || choice_of(p, 0, a) != BATCH)))
                p->cut[label] *= p->mesh->sizes[a];
        }
    for (int a = 0; a < p->mesh->ndim; a++) {
        int grid = choice_of(p, STNI_SAMPLE_GRID, a), input = choice_of(p, STNI_SAMPLE_INPUT, a);
        int moved = input >= PIXELS && input < POINTS ? exchange_pixels(p, a, grid) : NOTHING;
        int first = larger == STNI_SAMPLE_GRID ? grid : input, second = larger == STNI_SAMPLE_GRID ? input : grid;
        p->choice[a] = moved != NOTHING ? moved : first != NOTHING ? first : second;
        if (p->choice[a] == NOTHING && call->n_in > STNI_SAMPLE_GRAD)
            p->choice[a] = choice_of(p, STNI_SAMPLE_GRAD, a);
    }
}

/* Which dim of a tensor carries the label, -1: none. */
typedef int (*dim_fn)(int label);

static int input_dim(int label) { return label < POINTS ? label : -1; }
static int grid_dim(int label) { return label == BATCH ? 0 : label >= POINTS ? 1 + label - POINTS : -1; }
static int output_dim(int label) { return label <= CHANNELS ? label : label >= POINTS ? 2 + label - POINTS : -1; }

/* Placements by the choices; an axis whose label, or pending sum, is in `sums` leaves a sum pending. */
static void set_placements(const struct placing *p, dim_fn dim_of, uint32_t sums, struct stni_layout *layout)
{
    memset(layout->split, 0, sizeof layout->split);
    for (int a = 0; a < p->mesh->ndim; a++) {
        int label = p->choice[a], d = label < 0 ? -1 : dim_of(label);
        layout->axis_order[a] = (uint8_t)a;
        layout->placement[a] = d >= 0 ? stn_shard(d) : sums >> (label + 3) & 1 ? stn_partial(STN_SUM) : stn_replicate();
    }
}

#define SUM(label) (1u << ((label) + 3))
#define ALL_PIXELS (SUM(PIXELS) | SUM(PIXELS + 1) | SUM(PIXELS + 2))
#define ALL_POINTS (SUM(POINTS) | SUM(POINTS + 1) | SUM(POINTS + 2))

/* Cuts where an operand has them; a dim of another keeps them, or stays balanced. */
static void copy_splits(const struct placing *p, dim_fn dim_of, struct stni_layout *to)
{
    static const dim_fn dims[] = {input_dim, grid_dim, output_dim};
    for (int i = 0; i < p->call->n_in; i++)
        for (int label = 0; label < POINTS + STNI_SAMPLE_DIMS; label++) {
            int d = dim_of(label), from = dims[i](label);
            const struct stni_layout *operand = &p->call->in_spec[i]->layout;
            if (d >= 0 && d < to->ndim && from >= 0 && from < operand->ndim && to->shape[d] == operand->shape[from])
                stni_splits_take(to, d, operand, from, 1);
        }
}

stn_status stni_sample_place(const stn_op_call *call, const int64_t *shape, struct stni_sample_layouts *out)
{
    struct placing p = {.call = call, .mesh = call->in_spec[0]->layout.mesh, .shape = shape};
    const struct stni_layout *input = &call->in_spec[STNI_SAMPLE_INPUT]->layout,
                             *grid = &call->in_spec[STNI_SAMPLE_GRID]->layout;
    struct stni_layout output;
    stni_layout_init(&output, p.mesh, input->dtype, input->ndim, shape);
    memcpy(output.memory_order, input->memory_order, sizeof output.memory_order);
    *out = (struct stni_sample_layouts){*input, *grid, output, *input, *grid};
    if (call->n_in > STNI_SAMPLE_GRAD)
        memcpy(out->output.memory_order, call->in_spec[STNI_SAMPLE_GRAD]->layout.memory_order,
               sizeof output.memory_order);
    if (!p.mesh)
        return STN_OK;
    choose(&p);
    int backward = call->n_in > STNI_SAMPLE_GRAD;
    const struct {
        struct stni_layout *layout;
        dim_fn dim;
        uint32_t sums;
    } tensors[] = {
        {&out->input, input_dim, SUM(INPUT_SUM)},
        {&out->grid, grid_dim, 0},
        {&out->output, output_dim, backward ? SUM(GRAD_SUM) : SUM(INPUT_SUM) | ALL_PIXELS},
        {&out->grad_input, input_dim, SUM(GRAD_SUM) | ALL_POINTS},
        {&out->grad_grid, grid_dim, SUM(GRAD_SUM) | SUM(INPUT_SUM) | SUM(CHANNELS) | ALL_PIXELS},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        set_placements(&p, tensors[i].dim, tensors[i].sums, tensors[i].layout);
        copy_splits(&p, tensors[i].dim, tensors[i].layout);
    }
    return STN_OK;
}

struct stni_sample_field stni_sample_field(const stn_tensor *t, int channel)
{
    int ndim = t->spec->layout.ndim, at = STNI_SAMPLE_DIMS - (ndim - 2);
    struct stni_sample_field f = {.data = t->data, .batch = t->strides[0], .channel = t->strides[channel]};
    for (int d = 1; d < ndim; d++)
        if (d != channel)
            f.dim[at++] = t->strides[d];
    return f;
}

void stni_sample_fill(const stn_op_call *call, const stn_tensor *output, struct stni_sample_args *a)
{
    const struct stni_sample_attrs *attrs = call->attrs;
    const stn_tensor *input = call->in[STNI_SAMPLE_INPUT], *grid = call->in[STNI_SAMPLE_GRID];
    int ndim = input->spec->layout.ndim;
    memset(a, 0, sizeof *a);
    a->dtype = input->spec->layout.dtype;
    a->dims = ndim - 2;
    a->rule = (struct stni_sample_rule){(int32_t)attrs->mode, (int32_t)attrs->padding_mode, attrs->align_corners != 0};
    a->n_in[0] = a->n_points[0] = a->own[0].end = 1;
    for (int d = 2, p = STNI_SAMPLE_DIMS - a->dims; d < ndim; d++, p++) {
        a->n_in[p] = input->spec->layout.shape[d];
        a->own[p].begin = input->spec->local_offset[d];
        a->own[p].end = a->own[p].begin + input->spec->local_shape[d];
        a->n_points[p] = output->spec->local_shape[d];
    }
    a->n_batch = output->spec->local_shape[0];
    a->n_channels = output->spec->local_shape[1];
    a->input = stni_sample_field(input, 1);
    a->grid = stni_sample_field(grid, ndim - 1);
    a->output = stni_sample_field(output, 1);
}
