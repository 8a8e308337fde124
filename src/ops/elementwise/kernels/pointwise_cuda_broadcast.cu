/* Pointwise ops of operands that repeat along dims, such as a row or a column added to a matrix, or that lie apart in
 * memory: of f32, bf16 or f16 throughout, with a dense result. An f32 operand may stand beside those of 16 bits, as
 * the statistics of lines do in gradients. Only the ops that are often used so have kernels here.
 *
 * A thread writes packs of the result. Of an operand it reads a pack where one lies there, the one element that a
 * whole pack has, or element after element where packs reach over the ends of lines or begin at any address. */
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/packs.cuh"
#include "ops/elementwise/kernels/narrow_rows.cuh"
#include "ops/elementwise/kernels/pointwise_cuda.h"

/* Operands that repeat are those of arithmetic, of the gradients of logsumexp, of variances and of the largest
 * elements. */
#define BROADCAST_CASES \
    CASE(add) CASE(sub) CASE(mul) CASE(div) CASE(maximum) CASE(minimum) CASE(copy) \
    CASE(exp_of_difference) CASE(scaled_difference)

namespace {

enum { THREADS = 256, PER_THREAD = 8 /* elements */, MAX_IN = STNI_POINTWISE_MAX_IN, OUT = MAX_IN };
enum { OUTER, ROW, COLUMN, DIMS };

/* How an operand is read for a pack of the result. The last two are those of f32 beside 16 bits. */
enum form {
    NUMBER,    /* it has no elements: a number stands for it */
    RUN,       /* it lies as the result does */
    PACKS,     /* packs lie at its strides */
    SAME,      /* an element that repeats in the whole pack */
    ELEMENTS,  /* one by one */
    WIDE_SAME, /* an element that repeats in the whole pack */
    WIDE_RUN   /* elements side by side: few that repeat, so that they are read when they are wanted */
};

template <class S> struct broadcast_operand {
    const S *data;
    int64_t stride[DIMS]; /* elements; of columns 0 or 1 */
    float number;
    form as;
};

template <class S> struct broadcast_args {
    uint32_t n;
    S *out;
    broadcast_operand<S> in[MAX_IN];
    divider columns, rows;
    float a;
};

/* Where an element of the result is. */
struct place {
    uint32_t outer, row, column;
};

template <class S> STNI_DEVICE place place_of(const broadcast_args<S> &g, uint32_t element)
{
    const uint32_t line = divide(element, g.columns), outer = divide(line, g.rows);
    return {outer, line - outer * g.rows.divisor, element - line * g.columns.divisor};
}

template <class S> STNI_DEVICE place next_of(const broadcast_args<S> &g, const place &at)
{
    if (at.column + 1 < g.columns.divisor)
        return {at.outer, at.row, at.column + 1};
    return at.row + 1 < g.rows.divisor ? place{at.outer, at.row + 1, 0} : place{at.outer + 1, 0, 0};
}

template <class S> STNI_DEVICE int64_t offset_of(const broadcast_operand<S> &operand, const place &at)
{
    return at.outer * operand.stride[OUTER] + at.row * operand.stride[ROW] + at.column * operand.stride[COLUMN];
}

template <class S> STNI_DEVICE const S *address_of(const broadcast_operand<S> &operand, const place &at)
{
    return operand.data + offset_of(operand, at);
}

template <class S> STNI_DEVICE const float *wide_address_of(const broadcast_operand<S> &operand, const place &at)
{
    return reinterpret_cast<const float *>(operand.data) + offset_of(operand, at);
}

/* Whether operands of f32 may stand beside those of S. */
template <class S> constexpr bool has_wide = sizeof(S) < sizeof(float);

/* All threads take the same branch. Of an element that repeats only the first of `to` is set, or the first bytes. */
template <class S> STNI_DEVICE void read_operand(const broadcast_args<S> &g, const broadcast_operand<S> &operand,
                                                 uint32_t element, place at, pack<S> &to)
{
    if (operand.as == RUN)
        to = *reinterpret_cast<const pack<S> *>(operand.data + element);
    else if (operand.as == PACKS)
        to = *reinterpret_cast<const pack<S> *>(address_of(operand, at));
    else if (operand.as == SAME)
        to.v[0] = *address_of(operand, at);
    else if (has_wide<S> && operand.as == WIDE_SAME)
        memcpy(&to, wide_address_of(operand, at), sizeof(float));
    else if (operand.as == ELEMENTS) {
        STNI_UNROLL
        for (int k = 0; k < pack<S>::SIZE; k++) {
            to.v[k] = *address_of(operand, at);
            if (k + 1 < pack<S>::SIZE)
                at = next_of(g, at);
        }
    }
}

template <class S>
STNI_DEVICE void wide_values_of(const broadcast_operand<S> &operand, const place &at, float (&values)[pack<S>::SIZE])
{
    const pack<float> *const from = reinterpret_cast<const pack<float> *>(wide_address_of(operand, at));
    STNI_UNROLL
    for (int k = 0; k < pack<S>::SIZE; k += pack<float>::SIZE) {
        const pack<float> read = from[k / pack<float>::SIZE];
        STNI_UNROLL
        for (int i = 0; i < pack<float>::SIZE; i++)
            values[k + i] = read.v[i];
    }
}

/* The one value that a pack's elements have. */
template <class S> STNI_DEVICE float same_of(const broadcast_operand<S> &operand, const pack<S> &read)
{
    float wide = 0;
    if (has_wide<S>)
        memcpy(&wide, &read, sizeof wide);
    return operand.as == SAME ? load(read.v[0]) : has_wide<S> && operand.as == WIDE_SAME ? wide : operand.number;
}

template <class S>
STNI_DEVICE void values_of(const broadcast_args<S> &g, const broadcast_operand<S> &operand, const pack<S> &read,
                           uint32_t element, float (&values)[pack<S>::SIZE])
{
    if (has_wide<S> && operand.as == WIDE_RUN)
        return wide_values_of(operand, place_of(g, element), values);
    if (operand.as == RUN || operand.as == PACKS || operand.as == ELEMENTS)
        return load_pack(read, values);
    const float same = same_of(operand, read);
    STNI_UNROLL
    for (int k = 0; k < pack<S>::SIZE; k++)
        values[k] = same;
}

template <class S> STNI_DEVICE float value_at(const broadcast_operand<S> &operand, const place &at)
{
    if (has_wide<S> && operand.as == WIDE_SAME)
        return *wide_address_of(operand, at);
    return operand.as == NUMBER ? operand.number : load(*address_of(operand, at));
}

/* A thread reads its packs before it writes one; what is left over is an element each for the first threads. */
template <int OP, class S>
__global__ void __launch_bounds__(THREADS) broadcast(const __grid_constant__ broadcast_args<S> g)
{
    enum { SIZE = pack<S>::SIZE, PACKS_OF_THREAD = PER_THREAD / SIZE };
    const uint32_t packs = g.n / SIZE, first = blockIdx.x * (THREADS * PACKS_OF_THREAD) + threadIdx.x;
    pack<S> in[PACKS_OF_THREAD][MAX_IN];
    STNI_UNROLL
    for (int u = 0; u < PACKS_OF_THREAD; u++) {
        const uint32_t i = first + u * THREADS;
        if (i < packs) {
            const place at = place_of(g, i * SIZE);
            STNI_UNROLL
            for (int k = 0; k < MAX_IN; k++)
                read_operand(g, g.in[k], i * SIZE, at, in[u][k]);
        }
    }
    STNI_UNROLL
    for (int u = 0; u < PACKS_OF_THREAD; u++) {
        const uint32_t i = first + u * THREADS;
        if (i < packs) {
            float x[SIZE], y[SIZE], z[SIZE], value[SIZE];
            values_of(g, g.in[0], in[u][0], i * SIZE, x);
            values_of(g, g.in[1], in[u][1], i * SIZE, y);
            values_of(g, g.in[2], in[u][2], i * SIZE, z);
            STNI_UNROLL
            for (int k = 0; k < SIZE; k++)
                value[k] = row_value_in<OP, S, float>({x[k], y[k], z[k], g.a, 0, 0});
            pack<S> out;
            store_pack(out, value);
            reinterpret_cast<pack<S> *>(g.out)[i] = out;
        }
    }
    const uint32_t left = packs * SIZE + first;
    if (left < g.n && first < SIZE) {
        const place at = place_of(g, left);
        const float x = value_at(g.in[0], at), y = value_at(g.in[1], at), z = value_at(g.in[2], at);
        store(g.out[left], row_value_in<OP, S, float>({x, y, z, g.a, 0, 0}));
    }
}

typedef operands<MAX_IN + 1> index_space;

index_space space_of(const struct stni_pointwise_args &args)
{
    index_space space = no_dims<MAX_IN + 1>();
    for (int d = 0; d < args.ndim; d++)
        add_dim(space, args.shape[d],
                {args.in[0].strides[d], args.in[1].strides[d], args.in[2].strides[d], args.out.strides[d]});
    return space;
}

bool lies_densely(const index_space &space, int which)
{
    int64_t size = 1;
    for (int d = space.ndim - 1; d >= 0; size *= space.shape[d--])
        if (space.stride[which][d] != size)
            return false;
    return true;
}

/* Whether packs of `size` elements of the result are packs of the operand. */
bool has_packs(const index_space &space, int which, const void *data, int64_t size)
{
    const int last = space.ndim - 1;
    bool has = space.shape[last] % size == 0 && space.stride[which][last] == 1 && is_pack_aligned((uintptr_t)data);
    for (int d = 0; d < last; d++)
        has = has && space.stride[which][d] % size == 0;
    return has;
}

form form_of(const index_space &space, int which, const void *data, int64_t size)
{
    const int last = space.ndim - 1;
    if (!data)
        return NUMBER;
    if (lies_densely(space, which) && is_pack_aligned((uintptr_t)data))
        return RUN;
    if (has_packs(space, which, data, size))
        return PACKS;
    bool repeats = true;
    for (int d = 0; d < last; d++)
        repeats = repeats && space.stride[which][d] == 0;
    return space.stride[which][last] == 0 && (repeats || space.shape[last] % size == 0) ? SAME : ELEMENTS;
}

/* The form of an f32 operand beside those of 16 bits, where there is one. */
bool find_wide_form(const index_space &space, int which, const void *data, int64_t size, form *as)
{
    *as = form_of(space, which, data, size);
    if ((*as == RUN || *as == PACKS) && space.shape[space.ndim - 1] % size == 0)
        *as = WIDE_RUN;
    else if (*as == SAME)
        *as = WIDE_SAME;
    else
        return false;
    return true;
}

template <class S> void launch_op(int op, const broadcast_args<S> &g, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(g.n, THREADS * PER_THREAD);
    switch (op) {
#define CASE(op) \
    case STNI_POINTWISE_##op: STNI_LAUNCH((broadcast<STNI_POINTWISE_##op, S>), blocks, THREADS, stream, g); break;
        BROADCAST_CASES
#undef CASE
    }
}

template <class S>
void launch_of(const struct stni_pointwise_args &args, const index_space &space, cudaStream_t stream)
{
    broadcast_args<S> g = {};
    g.n = (uint32_t)space.count;
    g.out = static_cast<S *>(args.out.data);
    g.a = (float)args.a.f;
    g.columns = divider_of(space.shape[space.ndim - 1]);
    g.rows = divider_of(space.ndim > 1 ? space.shape[space.ndim - 2] : 1);
    for (int k = 0; k < args.n_in; k++) {
        broadcast_operand<S> &in = g.in[k];
        in.data = static_cast<const S *>(args.in[k].data);
        in.number = (float)args.number[k].f;
        if (args.in[k].dtype == args.out.dtype || !find_wide_form(space, k, in.data, pack<S>::SIZE, &in.as))
            in.as = form_of(space, k, in.data, pack<S>::SIZE);
        for (int d = 0; d < space.ndim; d++)
            in.stride[DIMS - space.ndim + d] = space.stride[k][d];
    }
    launch_op(args.op, g, stream);
}

bool has_kernel(enum stni_pointwise_op op)
{
    switch ((int)op) {
#define CASE(op) case STNI_POINTWISE_##op:
        BROADCAST_CASES
#undef CASE
        return true;
    }
    return false;
}

/* Whether it is one line of one dtype that is read in packs throughout: that has kernels of its own
 * (pointwise_cuda.cuh). */
bool is_run(const struct stni_pointwise_args &args, const index_space &space)
{
    bool run = space.ndim == 1;
    for (int k = 0; k < args.n_in; k++)
        run = run && (!args.in[k].data || (args.in[k].dtype == args.out.dtype &&
                                           (space.stride[k][0] == 0 || is_pack_aligned((uintptr_t)args.in[k].data))));
    return run;
}

bool is_operand_served(const struct stni_pointwise_args &args, const index_space &space, int k)
{
    const stn_dtype out = args.out.dtype;
    form unused;
    if (!args.in[k].data)
        return true;
    if ((uint64_t)space.stride[k][space.ndim - 1] > 1)
        return false;
    return args.in[k].dtype == out ||
           (args.in[k].dtype == STN_DTYPE_F32 && (out == STN_DTYPE_BF16 || out == STN_DTYPE_F16) &&
            find_wide_form(space, k, args.in[k].data, pack<bf16>::SIZE, &unused));
}

bool is_served(const struct stni_pointwise_args &args, const index_space &space)
{
    bool served = has_kernel(args.op) && args.compute == STN_DTYPE_F32 && space.ndim >= 1 && space.ndim <= DIMS &&
                  is_small(space) && lies_densely(space, OUT) && is_pack_aligned((uintptr_t)args.out.data) &&
                  !is_run(args, space);
    for (int k = 0; k < args.n_in; k++)
        served = served && is_operand_served(args, space, k);
    return served;
}

}

bool stni_pointwise_launch_broadcast(const struct stni_pointwise_args &args, cudaStream_t stream)
{
    const index_space space = space_of(args);
    if (!is_served(args, space))
        return false;
    switch ((int)args.out.dtype) {
    case STN_DTYPE_F32: launch_of<float>(args, space, stream); return true;
    case STN_DTYPE_BF16: launch_of<bf16>(args, space, stream); return true;
    case STN_DTYPE_F16: launch_of<f16>(args, space, stream); return true;
    }
    return false;
}
