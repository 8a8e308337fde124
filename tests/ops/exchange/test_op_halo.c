/* The public halo: an op of a caller's own that sums weighted neighbours, and its backward by the adjoint, in random
 * layouts and modes against one process; finite differences; what is refused. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

enum { DIMS = 3 }; /* of the tensors; widths in the first of them */

struct window_attrs {
    stn_ints below, above, mode;
};

struct window_args {
    stn_box extended, chunk;
    int64_t below[STN_MAX_NDIM], above[STN_MAX_NDIM];
};

/* Not symmetric, and different in every dim. */
static double weight(int d, int64_t k)
{
    return 1.0 / (double)(2 + d + k * k) - 0.1 * (double)k;
}

static double *at(const stn_box *box, const int64_t *index)
{
    int64_t offset = 0;
    for (int d = 0; d < box->ndim; d++)
        offset += index[d] * box->strides[d];
    return (double *)box->data + offset;
}

static int next(int ndim, const int64_t *shape, int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d])
            return 1;
        index[d] = 0;
    }
    return 0;
}

/* y[i] = sum over k of the product over dims of weight(d, k[d]) times extended[i + k]; or extended[i + k] += that
 * times y[i]. */
static stn_status window_sums(const struct window_args *a, int adjoint)
{
    const int ndim = a->chunk.ndim;
    int64_t window[STN_MAX_NDIM] = {0}, index[STN_MAX_NDIM] = {0};
    for (int d = 0; d < ndim; d++)
        window[d] = a->below[d] + 1 + a->above[d];
    do {
        int64_t k[STN_MAX_NDIM] = {0};
        double sum = 0;
        do {
            int64_t from[STN_MAX_NDIM];
            double w = 1;
            for (int d = 0; d < ndim; d++) {
                from[d] = index[d] + k[d];
                w *= weight(d, k[d]);
            }
            if (adjoint)
                *at(&a->extended, from) += w * *at(&a->chunk, index);
            else
                sum += w * *at(&a->extended, from);
        } while (next(ndim, window, k));
        if (!adjoint)
            *at(&a->chunk, index) = sum;
    } while (next(ndim, a->chunk.shape, index));
    return STN_OK;
}

static stn_status forward_kernel(stn_queue *queue, const void *args)
{
    (void)queue;
    return window_sums(args, 0);
}

static stn_status adjoint_kernel(stn_queue *queue, const void *args)
{
    const struct window_args *a = args;
    int64_t index[STN_MAX_NDIM] = {0};
    (void)queue;
    do
        *at(&a->extended, index) = 0;
    while (next(a->extended.ndim, a->extended.shape, index));
    return window_sums(a, 1);
}

static stn_status check(stn_op_call *call)
{
    const stn_spec *x = call->in_spec[0];
    call->out_meta[0].dtype = stn_spec_dtype(x);
    call->out_meta[0].ndim = stn_spec_ndim(x);
    memcpy(call->out_meta[0].shape, stn_spec_shape(x), (size_t)stn_spec_ndim(x) * sizeof(int64_t));
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    const stn_spec *x = call->in_spec[0];
    for (int a = 0; stn_spec_mesh(x) && a < stn_mesh_ndim(stn_spec_mesh(x)); a++)
        if (stn_spec_placement(x, a).kind == STN_PLACE_PARTIAL)
            return STN_NO_RULE;
    call->out_spec[0] = x;
    return STN_OK;
}

static stn_halo halo_of(const struct window_attrs *attrs)
{
    stn_halo halo = {.size = sizeof halo};
    for (int d = 0; d < attrs->below.n; d++) {
        halo.below[d] = attrs->below.v[d];
        halo.above[d] = attrs->above.v[d];
        halo.mode[d] = (stn_padding_mode)attrs->mode.v[d];
    }
    return halo;
}

static struct window_args args_of(const stn_halo *halo, const stn_box *extended, const stn_tensor *chunk)
{
    struct window_args args = {.extended = *extended,
                               .chunk = {.data = stn_tensor_data(chunk), .ndim = stn_tensor_ndim(chunk)}};
    for (int d = 0; d < args.chunk.ndim; d++) {
        args.chunk.shape[d] = stn_tensor_local_shape(chunk)[d];
        args.chunk.strides[d] = stn_tensor_strides(chunk)[d];
        args.below[d] = halo->below[d];
        args.above[d] = halo->above[d];
    }
    return args;
}

static stn_status run_forward(stn_op_call *call)
{
    const stn_halo halo = halo_of(call->attrs);
    stn_box extended;
    stn_status status = stn_op_halo(call, call->in[0], &halo, &extended);
    struct window_args args = args_of(&halo, &extended, call->out[0]);
    return status != STN_OK || !extended.data ? status : stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args);
}

static stn_status run_adjoint(stn_op_call *call)
{
    const stn_halo halo = halo_of(call->attrs);
    stn_box extended;
    stn_status status = stn_op_halo_box(call, call->in[0], &halo, &extended);
    struct window_args args = args_of(&halo, &extended, call->in[0]);
    if (status == STN_OK && extended.data)
        status = stn_op_launch(call, 0, STN_DTYPE_F64, &args, sizeof args);
    return status == STN_OK ? stn_op_halo_add(call, &extended, &halo, call->out[0]) : status;
}

/* The other of the two on the cotangent: each is the other's adjoint. */
static stn_status backward(stn_backward_call *call)
{
    return stn_op_apply(stn_op_find(call->context, call->arg), 1, call->grad_out, call->attrs, 1, call->grad_in);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs_schema[] = {{"below", STN_ATTR_INTS, offsetof(struct window_attrs, below), NULL},
                                               {"above", STN_ATTR_INTS, offsetof(struct window_attrs, above), NULL},
                                               {"mode", STN_ATTR_INTS, offsetof(struct window_attrs, mode), NULL}};
static const stn_kernel_slot slots[] = {{"run", sizeof(struct window_args)}};
static const stn_kernel forward_kernels[] = {
    {sizeof(stn_kernel), "run", "cpu", 1u << STN_DTYPE_F64, sizeof(struct window_args), forward_kernel, NULL}};
static const stn_kernel adjoint_kernels[] = {
    {sizeof(stn_kernel), "run", "cpu", 1u << STN_DTYPE_F64, sizeof(struct window_args), adjoint_kernel, NULL}};
static const stn_op_impl forward_impl = {.check = check,
                                         .place = place,
                                         .run = run_forward,
                                         .backward = backward,
                                         STN_SLOTS(slots),
                                         STN_KERNELS(forward_kernels)};
static const stn_op_impl adjoint_impl = {.check = check,
                                         .place = place,
                                         .run = run_adjoint,
                                         .backward = backward,
                                         STN_SLOTS(slots),
                                         STN_KERNELS(adjoint_kernels)};
static const stn_op_desc window = {.size = sizeof window,
                                   .name = "window",
                                   STN_INPUTS(inputs),
                                   STN_ATTRS(attrs_schema, struct window_attrs),
                                   .n_outputs = 1,
                                   .impl = &forward_impl,
                                   .arg = "window_adjoint"};
static const stn_op_desc window_adjoint = {.size = sizeof window_adjoint,
                                           .name = "window_adjoint",
                                           STN_INPUTS(inputs),
                                           STN_ATTRS(attrs_schema, struct window_attrs),
                                           .n_outputs = 1,
                                           .impl = &adjoint_impl,
                                           .arg = "window"};

static void register_ops(stn_context *context)
{
    const stn_op *op;
    CHECK_STATUS(stn_op_register(context, &window, &op), STN_OK);
    CHECK_STATUS(stn_op_register(context, &window_adjoint, &op), STN_OK);
}

struct drawn {
    const char *name;
    struct window_attrs attrs;
};

static stn_tensor *call_window(stn_tensor *const *in, const void *arg)
{
    const struct drawn *d = arg;
    stn_tensor *out = NULL;
    stn_op_apply(stn_op_find(stn_tensor_context(in[0]), d->name), 1, in, &d->attrs, 1, &out);
    return out;
}

/* Widths up to 7 in up to three dims, wider than chunks and, where the mode allows it, than the dim. */
static void draw(uint64_t *state, const struct random_shape *shape, struct drawn *d)
{
    memset(d, 0, sizeof *d);
    d->name = world_random(state, 2) ? "window" : "window_adjoint";
    d->attrs.below.n = d->attrs.above.n = d->attrs.mode.n = shape->ndim;
    for (int i = 0; i < shape->ndim && i < DIMS; i++) {
        int64_t n = shape->shape[i], mode = (int64_t)world_random(state, 4),
                most = mode == STN_PADDING_REFLECT ? n - 1
                       : i == 0                    ? 7
                                                   : 2;
        most = most < 0 || (n == 0 && mode != STN_PADDING_ZEROS) ? 0 : most < 7 ? most : 7;
        d->attrs.mode.v[i] = mode;
        d->attrs.below.v[i] = (int64_t)world_random(state, (uint64_t)most + 1);
        d->attrs.above.v[i] = (int64_t)world_random(state, (uint64_t)most + 1);
    }
}

struct body_arg {
    int differences;
};

static stn_status body(stn_context *context, void *arg)
{
    const struct body_arg *how = arg;
    uint64_t state = 417;
    register_ops(context);
    for (int i = 0; i < 50; i++) {
        struct drawn d;
        struct against_one_op op = {.call = call_window, .arg = &d, .n_in = 1, .tolerance = 1e-13};
        struct random_shape shape;
        random_shape(&state, &shape);
        draw(&state, &shape, &d);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, how->differences ? 0 : 1u << STN_SUM};
        if (how->differences)
            against_one_differences(context, &state, &op);
        else
            against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void halos_and_their_adjoints_in_every_layout_are_those_of_one_process(void)
{
    static const int worlds[] = {1, 2, 3, 6};
    struct body_arg how = {0};
    for (int i = 0; i < 4; i++)
        test_ranks(worlds[i], body, &how);
}

static void each_is_the_others_gradient_by_differences(void)
{
    struct body_arg how = {1};
    test_ranks(1, body, &how);
}

/* One row of either neighbour on the way there, the same on the way back. */
static stn_status traffic_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    const stn_placement rows = stn_shard(0);
    const int64_t shape[] = {9, 5};
    struct drawn d = {.name = arg, .attrs = {{2, {1, 0}}, {2, {1, 0}}, {2, {STN_PADDING_CIRCULAR, 0}}}};
    stn_stats stats = {.size = sizeof stats};
    register_ops(context);
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_queue_sync(stn_context_queue(context));
    stn_context_stats_reset(context);
    CHECK(!stn_tensor_is_error(call_window(&x, &d)));
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    CHECK_I64(stats.collectives, 1);
    CHECK_I64(stats.bytes_sent, 2 * 5 * (int64_t)sizeof(double));
    return stn_scope_end(context);
}

static void a_halo_and_its_adjoint_send_the_margins_alone(void)
{
    test_ranks(3, traffic_body, "window");
    test_ranks(3, traffic_body, "window_adjoint");
}

static stn_status refused_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement rows = stn_shard(0);
    struct {
        struct window_attrs attrs;
        stn_status status;
        const char *text;
    } cases[] = {
        {{{1, {-1}}, {1, {0}}, {1, {0}}},
         STN_ERR_ARGUMENT,
         "window: halo: below[0] and above[0] got -1 and 0, wanted widths of 0 or more"},
        {{{1, {0}}, {1, {1}}, {1, {9}}}, STN_ERR_ARGUMENT, "window: halo: mode[0] got 9, wanted an stn_padding_mode"},
        {{{1, {4}}, {1, {0}}, {1, {STN_PADDING_REFLECT}}},
         STN_ERR_SHAPE,
         "window: halo: below[0] and above[0] got 4 and 0, wanted less than the dim's 4 elements to reflect"},
    };
    const int which = *(const int *)arg;
    register_ops(context);
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 1, (int64_t[]){4}, NULL, test_value), *y;
    CHECK_STATUS(stn_op_apply(stn_op_find(context, "window"), 1, &x, &cases[which].attrs, 1, &y), cases[which].status);
    CHECK_STR(stn_context_error_text(context), cases[which].text);
    stn_context_take_error(context, NULL, 0);
    stn_scope_end(context);
    return STN_OK;
}

static void bad_widths_are_named(void)
{
    for (int i = 0; i < 3; i++)
        test_ranks(2, refused_body, &i);
}

static stn_status comm_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 3);
    stn_comm *rows, *all;
    (void)arg;
    CHECK_STATUS(stn_mesh_axes_comm(mesh, 1, (int[]){1}, &rows), STN_OK);
    CHECK_I64(stn_comm_size(rows), 3);
    CHECK_I64(stn_comm_rank(rows), stn_mesh_coordinate(mesh, 1));
    CHECK_STATUS(stn_mesh_axes_comm(mesh, 0, NULL, &all), STN_OK);
    CHECK_I64(stn_comm_size(all), 6);
    CHECK_STATUS(stn_mesh_axes_comm(mesh, 1, (int[]){2}, &rows), STN_ERR_ARGUMENT);
    CHECK_STR(stn_context_error_text(context), "stn_mesh_axes_comm: axes[0] got 2, wanted distinct axes from 0 to 1");
    stn_context_take_error(context, NULL, 0);
    return STN_OK;
}

static void axes_of_a_mesh_have_communicators(void)
{
    test_ranks(6, comm_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"halos_and_their_adjoints_in_every_layout_are_those_of_one_process",
         halos_and_their_adjoints_in_every_layout_are_those_of_one_process},
        {"each_is_the_others_gradient_by_differences", each_is_the_others_gradient_by_differences},
        {"a_halo_and_its_adjoint_send_the_margins_alone", a_halo_and_its_adjoint_send_the_margins_alone},
        {"bad_widths_are_named", bad_widths_are_named},
        {"axes_of_a_mesh_have_communicators", axes_of_a_mesh_have_communicators},
    };
    return TEST_MAIN(argc, argv, cases);
}
