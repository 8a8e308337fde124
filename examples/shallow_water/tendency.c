#include "tendency.h"

#include "adjoint.h"

#include <string.h>

static const stn_halo margin = {.size = sizeof margin,
                                .below = {0, 1, 1},
                                .above = {0, 1, 1},
                                .mode = {STN_PADDING_ZEROS, STN_PADDING_CIRCULAR, STN_PADDING_CIRCULAR}};

/* Both kernels': boxes of FIELDS x (rows + 2) x (columns + 2), row-major; chunks of FIELDS x rows x columns. */
struct args {
    const struct grid *grid; /* read by kernels of the CPU alone */
    double *values;          /* the state with margins */
    double *cotangents;      /* of the state, with margins */
    double *chunk;           /* the tendency, or its cotangent, which may be a view */
    int64_t stride[3];       /* the chunk's, in elements */
    int64_t rows, columns, first_row;
};

static struct stencil stencil_of(const struct args *a)
{
    return (struct stencil){a->grid, (a->rows + 2) * (a->columns + 2), a->columns + 2};
}

/* Row r, column 0 of the chunk. */
static struct cell first_cell(const struct args *a, const struct stencil *s, int64_t r)
{
    return (struct cell){a->values + (r + 1) * s->line + 1, a->first_row + r + 1};
}

static stn_status forward_kernel(stn_queue *queue, const void *raw)
{
    const struct args *a = raw;
    const struct stencil s = stencil_of(a);
    const int64_t field = a->stride[0];
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++) {
        struct cell c = first_cell(a, &s, r);
        double *out = a->chunk + r * a->stride[1];
        for (int64_t i = 0; i < a->columns; i++, c = east(c), out += a->stride[2]) {
            out[0] = tendency_h(&s, c);
            out[field] = tendency_u(&s, c);
            out[2 * field] = tendency_v(&s, c);
        }
    }
    return STN_OK;
}

static stn_status adjoint_kernel(stn_queue *queue, const void *raw)
{
    const struct args *a = raw;
    const struct adjoint to = {stencil_of(a), a->values, a->cotangents};
    const int64_t field = a->stride[0];
    (void)queue;
    memset(a->cotangents, 0, (size_t)(FIELDS * to.s.plane) * sizeof(double));
    for (int64_t r = 0; r < a->rows; r++) {
        struct cell c = first_cell(a, &to.s, r);
        const double *w = a->chunk + r * a->stride[1];
        for (int64_t i = 0; i < a->columns; i++, c = east(c), w += a->stride[2]) {
            add_tendency_h(&to, c, w[0]);
            add_tendency_u(&to, c, w[field]);
            add_tendency_v(&to, c, w[2 * field]);
        }
    }
    return STN_OK;
}

static const struct tendency *tendency_of_arg(void *arg)
{
    return arg;
}

static stn_status check(stn_op_call *call)
{
    const struct grid *grid = tendency_of_arg(call->arg)->grid;
    const int64_t want[] = {FIELDS, grid->rows, grid->columns};
    for (int i = 0; i < call->n_in; i++) {
        const stn_spec *spec = call->in_spec[i];
        if (stn_spec_dtype(spec) != STN_DTYPE_F64 || stn_spec_ndim(spec) != 3 ||
            memcmp(stn_spec_shape(spec), want, sizeof want) != 0)
            return stn_op_fail(call, STN_ERR_SHAPE, "input %d is no f64 tensor of shape (%d, %lld, %lld)", i, FIELDS,
                               (long long)want[1], (long long)want[2]);
    }
    call->out_meta[0] = (stn_meta){STN_DTYPE_F64, 3, {want[0], want[1], want[2]}};
    return STN_OK;
}

/* Rows and columns may be cut in any way; the cotangent lies as the state does. */
static stn_status place(stn_op_call *call)
{
    const stn_spec *state = call->in_spec[0];
    for (int a = 0; stn_spec_mesh(state) && a < stn_mesh_ndim(stn_spec_mesh(state)); a++) {
        const stn_placement p = stn_spec_placement(state, a);
        if (p.kind == STN_PLACE_PARTIAL || (p.kind == STN_PLACE_SHARD && p.dim == 0))
            return STN_NO_RULE;
    }
    for (int i = 0; i < call->n_in; i++)
        call->want[i] = state;
    call->out_spec[0] = state;
    return STN_OK;
}

static struct args args_of(const stn_op_call *call, const stn_box *values, stn_tensor *chunk)
{
    const int64_t *shape = stn_tensor_local_shape(chunk), *strides = stn_tensor_strides(chunk);
    return (struct args){.grid = tendency_of_arg(call->arg)->grid,
                         .values = values->data,
                         .chunk = stn_tensor_data(chunk),
                         .stride = {strides[0], strides[1], strides[2]},
                         .rows = shape[1],
                         .columns = shape[2],
                         .first_row = stn_spec_local_offset(stn_tensor_spec(chunk))[1]};
}

static stn_status run_forward(stn_op_call *call)
{
    stn_box values;
    stn_status status = stn_op_halo(call, call->in[0], &margin, &values);
    const struct args args = args_of(call, &values, call->out[0]);
    return status != STN_OK || !values.data ? status : stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args);
}

static stn_status run_adjoint(stn_op_call *call)
{
    stn_box values, cotangents;
    stn_status status = stn_op_halo(call, call->in[0], &margin, &values);
    if (status == STN_OK)
        status = stn_op_halo_box(call, call->in[0], &margin, &cotangents);
    if (status != STN_OK)
        return status;
    struct args args = args_of(call, &values, call->in[1]);
    args.cotangents = cotangents.data;
    if (values.data)
        status = stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args);
    return status == STN_OK ? stn_op_halo_add(call, &cotangents, &margin, call->out[0]) : status;
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs;
}

static stn_status backward(stn_backward_call *call)
{
    stn_tensor *in[] = {call->in[0], call->grad_out[0]};
    return stn_op_invoke(tendency_of_arg(call->arg)->adjoint_op, 2, in, 0, NULL, 1, call->grad_in);
}

static const stn_input_schema inputs[] = {{.name = "state"}, {.name = "cotangent"}};
static const stn_kernel_slot slots[] = {{"run", sizeof(struct args)}};
static const stn_kernel forward_kernels[] = {
    {sizeof(stn_kernel), "run", "cpu", 1u << STN_DTYPE_F64, sizeof(struct args), forward_kernel, NULL}};
static const stn_kernel adjoint_kernels[] = {
    {sizeof(stn_kernel), "run", "cpu", 1u << STN_DTYPE_F64, sizeof(struct args), adjoint_kernel, NULL}};
static const stn_op_impl forward = {.check = check,
                                    .place = place,
                                    .run = run_forward,
                                    .saves = saves,
                                    .backward = backward,
                                    STN_SLOTS(slots),
                                    STN_KERNELS(forward_kernels)};
static const stn_op_impl adjoint = {
    .check = check, .place = place, .run = run_adjoint, STN_SLOTS(slots), STN_KERNELS(adjoint_kernels)};

stn_status tendency_register(stn_context *context, const struct grid *grid, struct tendency *tendency)
{
    const stn_op *op;
    tendency->grid = grid;
    tendency->forward = (stn_op_desc){.size = sizeof(stn_op_desc),
                                      .name = "shallow_water",
                                      .n_inputs = 1,
                                      .inputs = inputs,
                                      .n_outputs = 1,
                                      .impl = &forward,
                                      .arg = tendency,
                                      .flags = STN_OP_FIRST_ORDER};
    tendency->adjoint = (stn_op_desc){.size = sizeof(stn_op_desc),
                                      .name = "shallow_water_adjoint",
                                      .n_inputs = 2,
                                      .inputs = inputs,
                                      .n_outputs = 1,
                                      .impl = &adjoint,
                                      .arg = tendency};
    stn_status status = stn_op_register(context, &tendency->adjoint, &tendency->adjoint_op);
    return status == STN_OK ? stn_op_register(context, &tendency->forward, &op) : status;
}

stn_tensor *tendency_of(stn_tensor *state)
{
    stn_tensor *out = NULL;
    stn_call(stn_tensor_context(state), "shallow_water", 1, &state, 0, NULL, 1, &out);
    return out;
}
