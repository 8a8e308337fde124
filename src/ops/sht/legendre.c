/* Sums of associated Legendre functions: columns of latitudes become columns of degrees, order by order, and the way
 * back. A kernel wants whole columns; orders and fields may lie anywhere. Linear: pending sums stay pending. */
#include "ops/sht/legendre.h"

#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/cpu/strided.h"
#include "ops/placement/unshard.h"
#include "ops/sht/legendre_space.h"

#include <inttypes.h>
#include <stddef.h>

struct legendre_attrs {
    struct stni_legendre_function of;
    int64_t n; /* degrees, or latitudes */
};

static int is_synthesis(const stn_op_call *call)
{
    return *(const int *)call->arg;
}

stn_tensor *stni_legendre_analysis(stn_tensor *input, const struct stni_legendre_function *of, int64_t lmax)
{
    return stni_call(STNI_OP_legendre_analysis, 1, &input, &(struct legendre_attrs){*of, lmax});
}

stn_tensor *stni_legendre_synthesis(stn_tensor *input, const struct stni_legendre_function *of, int64_t nlat)
{
    return stni_call(STNI_OP_legendre_synthesis, 1, &input, &(struct legendre_attrs){*of, nlat});
}

/* Numbers are those that sht.c lets through. */
static stn_status check(stn_op_call *call)
{
    const struct legendre_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *out = &call->out_meta[0];
    if (!stni_dtype_is_complex(in->dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted c64 or c128", stn_dtype_name(in->dtype));
    if (in->ndim < 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at least 2", in->ndim);
    if (attrs->n < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'n' got %" PRId64 ", wanted at least 1", attrs->n);
    *out = (stn_meta){.dtype = in->dtype, .ndim = in->ndim};
    for (int d = 0; d < in->ndim; d++)
        out->shape[d] = in->shape[d];
    out->shape[in->ndim - 2] = attrs->n;
    return STN_OK;
}

/* What an order costs: as many functions as there are degrees from it on, and a column that is read and written. */
static double cost_of(int64_t lmax, int64_t m)
{
    return (double)(m < lmax ? lmax - m : 0) + (double)lmax / 8;
}

/* Orders that were whole and have been cut, into as many pieces that cost the same. Of many ranks each has few orders,
 * and a split that is not balanced would grow with their number. */
static stn_status balance_orders(stn_context *context, struct stni_layout *layout, int64_t lmax)
{
    enum { MOST_PIECES = 64 };
    const int order = layout->ndim - 1;
    const int64_t n = layout->shape[order];
    const struct stni_split *even = layout->split[order];
    int64_t offsets[MOST_PIECES + 1] = {0};
    double all = 0, before = 0;
    int piece = 1;
    if (!even || even->n_parts > MOST_PIECES)
        return STN_OK;
    for (int64_t m = 0; m < n; m++)
        all += cost_of(lmax, m);
    for (int64_t m = 0; m < n; m++) {
        before += cost_of(lmax, m);
        while (piece < even->n_parts && before * even->n_parts >= all * piece)
            offsets[piece++] = m + 1;
    }
    for (; piece <= even->n_parts; piece++)
        offsets[piece] = n;
    return stni_split_explicit(context, n, even->n_levels, even->parts, offsets, &layout->split[order]);
}

/* What cuts columns cuts fields instead, where each rank keeps some of them: functions are made once for all fields of
 * a rank. Else the longest dim. */
stn_status stni_legendre_want(stn_context *context, struct stni_layout *layout, int64_t lmax)
{
    enum { FEW = 4 };
    const int row = layout->ndim - 2, order = row + 1, was_cut = layout->split[order] != NULL;
    const uint32_t kept = 3u << row;
    uint32_t axes;
    int64_t fields;
    stni_layout_reduce(layout, 1u << STN_SUM);
    const int ranks = stni_dim_ranks(layout, row, &axes), dim = stni_longest_dim(layout, kept, &fields);
    if (axes != 0 && dim >= 0 && fields >= (int64_t)FEW * ranks)
        return stni_layout_recut(context, layout, row, dim);
    STNI_TRY(stni_layout_unshard(context, layout, 1u << row));
    return was_cut ? STN_OK : balance_orders(context, layout, lmax);
}

static stn_status place(stn_op_call *call)
{
    const stn_meta *meta = &call->out_meta[0];
    struct stni_layout layout = call->in_spec[0]->layout;
    const int64_t lmax = is_synthesis(call) ? layout.shape[layout.ndim - 2] : meta->shape[layout.ndim - 2];
    STNI_TRY(stni_legendre_want(call->context, &layout, lmax));
    STNI_TRY(stni_spec_intern(call->context, &layout, &call->want[0]));
    layout = call->want[0]->layout;
    layout.shape[layout.ndim - 2] = meta->shape[layout.ndim - 2];
    return stni_spec_intern(call->context, &layout, &call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    const struct legendre_attrs *attrs = call->attrs;
    const stn_tensor *in = call->in[0], *out = call->out[0];
    const stn_spec *spec = in->spec;
    const int row = spec->layout.ndim - 2, order = row + 1;
    const int64_t rows = spec->layout.shape[row];
    if (out->spec->local_numel == 0)
        return STN_OK;
    struct stni_legendre_args args = {.of = attrs->of,
                                      .nlat = is_synthesis(call) ? attrs->n : rows,
                                      .lmax = is_synthesis(call) ? rows : attrs->n,
                                      .m_first = spec->local_offset[order],
                                      .m_count = spec->local_shape[order],
                                      .in_row = in->strides[row],
                                      .in_order = in->strides[order],
                                      .out_row = out->strides[row],
                                      .out_order = out->strides[order],
                                      .n_batch = row,
                                      .fields = 1,
                                      .dtype = spec->layout.dtype,
                                      .in = in->data,
                                      .out = out->data};
    for (int d = 0; d < row; d++) {
        args.fields *= spec->layout.shape[d];
        args.batch[d] = spec->local_shape[d];
        args.in_batch[d] = in->strides[d];
        args.out_batch[d] = out->strides[d];
    }
    args.n_batch = stni_merge_dims(row, args.batch, 2, (int64_t *[]){args.out_batch, args.in_batch});
    if (args.n_batch == 0)
        args.batch[args.n_batch++] = 1;
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, 0, args.dtype, &args), &args.workspace));
    return stn_op_launch(call, 0, args.dtype, &args, sizeof args);
}

static stn_status analysis_backward(stn_backward_call *call)
{
    const struct legendre_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    call->grad_in[0] = stni_legendre_synthesis(call->grad_out[0], &attrs->of, in->shape[in->ndim - 2]);
    return stn_context_status(call->context);
}

static stn_status synthesis_backward(stn_backward_call *call)
{
    const struct legendre_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    call->grad_in[0] = stni_legendre_analysis(call->grad_out[0], &attrs->of, in->shape[in->ndim - 2]);
    return stn_context_status(call->context);
}

size_t stni_legendre_workspace(stn_queue *queue, const void *args)
{
    (void)queue;
    return stni_legendre_space_of(args).bytes;
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs_schema[] = {
    {"part", STN_ATTR_INT, offsetof(struct legendre_attrs, of.part), NULL},
    {"grid", STN_ATTR_INT, offsetof(struct legendre_attrs, of.grid), NULL},
    {"norm", STN_ATTR_INT, offsetof(struct legendre_attrs, of.norm), NULL},
    {"inverse", STN_ATTR_BOOL, offsetof(struct legendre_attrs, of.inverse), NULL},
    {"csphase", STN_ATTR_BOOL, offsetof(struct legendre_attrs, of.csphase), NULL},
    {"weighted", STN_ATTR_BOOL, offsetof(struct legendre_attrs, of.weighted), NULL},
    {"potential", STN_ATTR_BOOL, offsetof(struct legendre_attrs, of.potential), NULL},
    {"n", STN_ATTR_INT, offsetof(struct legendre_attrs, n), NULL},
};

enum { DTYPES = 1 << STN_DTYPE_C64 | 1 << STN_DTYPE_C128 };

static const stn_kernel_slot slots[] = {{"sums", sizeof(struct stni_legendre_args)}};
static const stn_kernel analysis_kernels[] = {
    STNI_ISA_ROWS("sums", DTYPES, struct stni_legendre_args, stni_legendre_analysis, stni_legendre_workspace)};
static const stn_kernel synthesis_kernels[] = {
    STNI_ISA_ROWS("sums", DTYPES, struct stni_legendre_args, stni_legendre_synthesis, stni_legendre_workspace)};

static const stn_op_impl analysis_impl = {.check = check,
                                          .place = place,
                                          .run = run,
                                          .backward = analysis_backward,
                                          STN_SLOTS(slots),
                                          STN_KERNELS(analysis_kernels)};
static const stn_op_impl synthesis_impl = {.check = check,
                                           .place = place,
                                           .run = run,
                                           .backward = synthesis_backward,
                                           STN_SLOTS(slots),
                                           STN_KERNELS(synthesis_kernels)};

const stn_op_desc stni_op_legendre_analysis = {.size = sizeof(stn_op_desc),
                                               .name = "legendre_analysis",
                                               STN_INPUTS(inputs),
                                               STN_ATTRS(attrs_schema, struct legendre_attrs),
                                               .n_outputs = 1,
                                               .flags = STN_OP_INTERNAL,
                                               .impl = &analysis_impl,
                                               .arg = (void *)&(const int){0}};

const stn_op_desc stni_op_legendre_synthesis = {.size = sizeof(stn_op_desc),
                                                .name = "legendre_synthesis",
                                                STN_INPUTS(inputs),
                                                STN_ATTRS(attrs_schema, struct legendre_attrs),
                                                .n_outputs = 1,
                                                .flags = STN_OP_INTERNAL,
                                                .impl = &synthesis_impl,
                                                .arg = (void *)&(const int){1}};
