/* Losses on a CUDA device, by the rows of loss_kernel.h: their terms element by element, or the sums of their values
 * and weights. Those that are functions of the difference read packs of input and target where both are dense runs of
 * f32, bf16 or f16 and there are no weights, for their sums and for their first derivatives by one cotangent. */
#include "core/device/cuda/convert.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/packs.cuh"
#include "core/device/cuda/parts.cuh"
#include "core/device/cuda/sums.cuh"
#include "ops/cpu/math.cuh"
#include "ops/loss/loss_functions.h"

namespace {

enum { THREADS = TEAMS_THREADS };

STNI_DEVICE float log1p_of(float x) { return stni_log1p_f32(x); }
STNI_DEVICE double log1p_of(double x) { return log1p(x); }
STNI_DEVICE float log1p_unit_of(float x) { return stni_log1p_unit_f32(x); }
STNI_DEVICE double log1p_unit_of(double x) { return log1p(x); }
STNI_DEVICE float sigmoid_of(float x) { return stni_sigmoid_f32(x); }
STNI_DEVICE double sigmoid_of(double x) { return stni_sigmoid_f64(x); }

#define LOG log_of
#define LOG1P log1p_of
#define LOG1P_UNIT log1p_unit_of
#define EXP exp_of
#define SIGMOID sigmoid_of

template <class T> struct operand_of_loss {
    const void *data; /* NULL: ones */
    stn_dtype dtype;

    __device__ T read(int64_t at) const { return data ? read_element<T>(data, dtype, at) : T(1); }
};

template <class T> struct loss_of {
    stni_loss loss;
    stni_loss_term term;
    T p, q;
    operand_of_loss<T> operand[LOSS_OUT];

    __device__ T read(int which, const int64_t *at) const { return operand[which].read(at[which]); }
};

template <class T> STNI_DEVICE T value_of(const loss_of<T> &l, T x, T y, T z)
{
    const T p = l.p, q = l.q;
    STNI_LOSS_LOCALS;
    (void)p, (void)q;
    switch (l.loss) {
#define CASE(name, value, ...) \
    case STNI_LOSS_##name: return (T)(value);
        STNI_LOSS_LIST(CASE)
#undef CASE
    case STNI_LOSS_COUNT: break;
    }
    return 0;
}

template <class T> STNI_DEVICE T term_of(const loss_of<T> &l, T x, T y, T z)
{
    const T p = l.p, q = l.q;
    STNI_LOSS_LOCALS;
    (void)p, (void)q;
    switch (l.loss) {
#define CASE(name, value, by_x, by_y, by_z, by_xx, by_xy, by_yy, by_xz, by_yz, by_zz) \
    case STNI_LOSS_##name:                                                            \
        switch (l.term) {                                                             \
        case STNI_LOSS_VALUE: return (T)(value);                                      \
        case STNI_LOSS_X: return (T)(by_x);                                           \
        case STNI_LOSS_Y: return (T)(by_y);                                           \
        case STNI_LOSS_Z: return (T)(by_z);                                           \
        case STNI_LOSS_XX: return (T)(by_xx);                                         \
        case STNI_LOSS_XY: return (T)(by_xy);                                         \
        case STNI_LOSS_YY: return (T)(by_yy);                                         \
        case STNI_LOSS_XZ: return (T)(by_xz);                                         \
        case STNI_LOSS_YZ: return (T)(by_yz);                                         \
        case STNI_LOSS_ZZ: return (T)(by_zz);                                         \
        case STNI_LOSS_TERMS: break;                                                  \
        }                                                                             \
        break;
        STNI_LOSS_LIST(CASE)
#undef CASE
    case STNI_LOSS_COUNT: break;
    }
    return 0;
}

/* out = weight grad term / total. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    map_terms(const __grid_constant__ operands<LOSS_OPERANDS> all, const __grid_constant__ loss_of<T> l,
              const double *total, void *out, stn_dtype out_dtype)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t at[LOSS_OPERANDS];
    if (i >= all.count)
        return;
    any_offsets_of(all, i, at);
    const T scale = total ? (T)(1 / *total) : T(1);
    const T term = term_of(l, l.read(LOSS_INPUT, at), l.read(LOSS_TARGET, at), l.read(LOSS_EXTRA, at));
    write_element(out, out_dtype, at[LOSS_OUT], l.read(LOSS_WEIGHT, at) * l.read(LOSS_GRAD, at) * scale * term);
}

template <class T> struct loss_sums {
    struct target {};
    loss_of<T> l;

    __device__ target begin(const int64_t *) const { return {}; }
    __device__ void add(target, const int64_t *at, double *sum) const
    {
        const T w = l.read(LOSS_WEIGHT, at);
        sum[0] += (double)(w * value_of(l, l.read(LOSS_INPUT, at), l.read(LOSS_TARGET, at), l.read(LOSS_EXTRA, at)));
        sum[1] += (double)w;
    }
};

/* Dense runs of n elements. */
template <class S> struct dense_loss {
    stni_loss loss;
    float p;
    int64_t n;
    const S *input, *target;
    parts part; /* in packs, of which the last may not be whole */
};

/* The sum of the values of a loss that is a function of the difference. */
template <int N> STNI_DEVICE double sum_of_values(stni_loss loss, float p, const float (&xs)[N], const float (&ys)[N])
{
    double sum = 0;
    (void)p;
    switch ((int)loss) {
#define CASE(name, value, ...)                       \
    case STNI_LOSS_##name:                           \
        STNI_UNROLL                                  \
        for (int k = 0; k < N; k++) {                \
            const float x = xs[k], y = ys[k], z = 1; \
            typedef float T;                         \
            STNI_LOSS_LOCALS;                        \
            sum += (double)(T)(value);               \
        }                                            \
        break;
        STNI_LOSS_OF_DIFFERENCE(CASE)
#undef CASE
    }
    return sum;
}

template <class S>
STNI_DEVICE double sum_of_pack(const dense_loss<S> &l, const pack<S> &input, const pack<S> &target)
{
    float x[pack<S>::SIZE], y[pack<S>::SIZE];
    load_pack(input, x);
    load_pack(target, y);
    return sum_of_values(l.loss, l.p, x, y);
}

/* The elements after the last whole pack, each of its own thread. */
template <class S> STNI_DEVICE double sum_of_rest(const dense_loss<S> &l)
{
    const int64_t i = l.n / pack<S>::SIZE * pack<S>::SIZE + threadIdx.x;
    if (blockIdx.x > 0 || i >= l.n)
        return 0;
    const float x[] = {load(l.input[i])}, y[] = {load(l.target[i])};
    return sum_of_values(l.loss, l.p, x, y);
}

/* A block adds up a part: to[2 part], and to[2 part + 1] is the number of all elements in block 0, else 0. A thread
 * reads two packs of each operand before it needs one. */
template <class S>
__global__ void __launch_bounds__(THREADS) add_packs(const __grid_constant__ dense_loss<S> l, double *to)
{
    STNI_SHARED(double, shared, THREADS);
    const teams whole = {THREADS, false};
    const seat me = seat_of(whole);
    const int64_t end = part_end(l.part, l.n / pack<S>::SIZE, blockIdx.x);
    const pack<S> *const input = reinterpret_cast<const pack<S> *>(l.input);
    const pack<S> *const target = reinterpret_cast<const pack<S> *>(l.target);
    double sum = sum_of_rest(l);
    for (int64_t i = blockIdx.x * l.part.each + threadIdx.x; i < end; i += 2 * THREADS) {
        const bool two = i + THREADS < end;
        const pack<S> x = input[i], y = target[i];
        pack<S> x2 = {}, y2 = {};
        if (two) {
            x2 = input[i + THREADS];
            y2 = target[i + THREADS];
        }
        sum += sum_of_pack(l, x, y);
        if (two)
            sum += sum_of_pack(l, x2, y2);
    }
    sum = reduce_team(shared, whole, me, sum, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) {
        to[2 * blockIdx.x] = sum;
        to[2 * blockIdx.x + 1] = blockIdx.x == 0 ? (double)l.n : 0;
    }
}

/* The first derivatives by x of such a loss, times `factor`. */
template <int N>
STNI_DEVICE void slopes_of(stni_loss loss, float p, float factor, const float (&xs)[N], const float (&ys)[N],
                           float (&to)[N])
{
    (void)p;
    switch ((int)loss) {
#define CASE(name, value, first, ...)                \
    case STNI_LOSS_##name:                           \
        STNI_UNROLL                                  \
        for (int k = 0; k < N; k++) {                \
            const float x = xs[k], y = ys[k], z = 1; \
            typedef float T;                         \
            STNI_LOSS_LOCALS;                        \
            to[k] = factor * (T)(first);             \
        }                                            \
        break;
        STNI_LOSS_OF_DIFFERENCE(CASE)
#undef CASE
    }
}

/* What all derivatives are multiplied with. */
struct slope_factor {
    operand_of_loss<float> grad; /* one element */
    const double *total;

    __device__ float read() const { return grad.read(0) * (total ? (float)(1 / *total) : 1.0f); }
};

template <class S>
STNI_DEVICE pack<S> slopes_of_pack(const dense_loss<S> &l, float factor, const pack<S> &input, const pack<S> &target)
{
    float x[pack<S>::SIZE], y[pack<S>::SIZE], slopes[pack<S>::SIZE];
    pack<S> to;
    load_pack(input, x);
    load_pack(target, y);
    slopes_of(l.loss, l.p, factor, x, y, slopes);
    store_pack(to, slopes);
    return to;
}

/* A thread has two packs; the elements after the last whole one are of the first threads. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    map_packs(const __grid_constant__ dense_loss<S> l, const __grid_constant__ slope_factor by, S *out)
{
    const int64_t packs = l.n / pack<S>::SIZE, i = (int64_t)blockIdx.x * (2 * THREADS) + threadIdx.x;
    const pack<S> *const input = reinterpret_cast<const pack<S> *>(l.input);
    const pack<S> *const target = reinterpret_cast<const pack<S> *>(l.target);
    pack<S> *const to = reinterpret_cast<pack<S> *>(out);
    const bool one = i < packs, two = i + THREADS < packs;
    pack<S> x = {}, y = {}, x2 = {}, y2 = {};
    if (one) {
        x = input[i];
        y = target[i];
    }
    if (two) {
        x2 = input[i + THREADS];
        y2 = target[i + THREADS];
    }
    const float factor = by.read();
    if (one)
        to[i] = slopes_of_pack(l, factor, x, y);
    if (two)
        to[i + THREADS] = slopes_of_pack(l, factor, x2, y2);
    const int64_t left = packs * pack<S>::SIZE + i;
    if (i < pack<S>::SIZE && left < l.n) {
        const float last[] = {load(l.input[left])}, wanted[] = {load(l.target[left])};
        float slope[1] = {};
        slopes_of(l.loss, l.p, factor, last, wanted, slope);
        store(out[left], slope[0]);
    }
}

operands<LOSS_OPERANDS> elements_of(const stni_loss_args &a)
{
    operands<LOSS_OPERANDS> all = no_dims<LOSS_OPERANDS>();
    for (int d = 0; d < a.ndim; d++) {
        int64_t strides[LOSS_OPERANDS];
        for (int k = 0; k < LOSS_OPERANDS; k++)
            strides[k] = a.operand[k].strides[d];
        add_dim(all, a.shape[d], strides);
    }
    end_dims(all);
    return all;
}

summation<LOSS_OPERANDS> summation_of(const stni_loss_args &a)
{
    summation<LOSS_OPERANDS> s = {no_dims<LOSS_OPERANDS>(), elements_of(a), {}, 1, 0};
    end_sums(s, false);
    return s;
}

size_t workspace(stn_queue *, const void *raw)
{
    const stni_loss_args &a = *static_cast<const stni_loss_args *>(raw);
    return a.empty || a.operand[LOSS_OUT].data ? 0 : sums_bytes(summation_of(a), 2);
}

bool is_dense_run(const operands<LOSS_OPERANDS> &all, const stni_loss_args &a, int which)
{
    const stni_loss_operand &operand = a.operand[which];
    return operand.data && operand.dtype == a.operand[LOSS_INPUT].dtype && all.stride[which][0] == 1 &&
           is_pack_aligned((uintptr_t)operand.data);
}

/* Whether there are kernels of packs: for sums, or for first derivatives by one cotangent. */
bool is_dense_loss(const stni_loss_args &a)
{
    const operands<LOSS_OPERANDS> all = elements_of(a);
    const bool slopes = a.operand[LOSS_OUT].data && a.term == STNI_LOSS_X && all.stride[LOSS_GRAD][0] == 0;
    return all.ndim == 1 && (int)a.loss <= (int)STNI_LOSS_LAST_OF_DIFFERENCE && a.compute == STN_DTYPE_F32 &&
           !a.operand[LOSS_WEIGHT].data && is_dense_run(all, a, LOSS_INPUT) && is_dense_run(all, a, LOSS_TARGET) &&
           (!a.operand[LOSS_OUT].data || (slopes && is_dense_run(all, a, LOSS_OUT)));
}

/* There are no more parts than of elements (summation_of), so the workspace is large enough. */
template <class S> void launch_dense_sums(const stni_loss_args &a, const dense_loss<S> &l, cudaStream_t stream)
{
    double *const to = l.part.count > 1 ? static_cast<double *>(a.workspace) : a.sum;
    STNI_LAUNCH(add_packs<S>, grid_of(l.part.count), THREADS, stream, l, to);
    if (l.part.count > 1)
        join_parts(to, l.part.count, 2, a.sum, stream);
}

template <class S> void launch_dense(const stni_loss_args &a, cudaStream_t stream)
{
    const int64_t n = elements_of(a).count, packs = n / pack<S>::SIZE;
    const stni_loss_operand &grad = a.operand[LOSS_GRAD], &out = a.operand[LOSS_OUT];
    const dense_loss<S> l = {a.loss,
                             (float)a.p,
                             n,
                             static_cast<const S *>(a.operand[LOSS_INPUT].data),
                             static_cast<const S *>(a.operand[LOSS_TARGET].data),
                             parts_of(packs, THREADS, 1)};
    if (!out.data)
        return launch_dense_sums(a, l, stream);
    const slope_factor by = {{grad.data, grad.dtype}, a.total};
    STNI_LAUNCH(map_packs<S>, blocks_for(packs, 2 * THREADS), THREADS, stream, l, by, static_cast<S *>(out.data));
}

template <class T> void launch_of(const stni_loss_args &a, cudaStream_t stream)
{
    const stni_loss_operand &out = a.operand[LOSS_OUT];
    loss_of<T> l = {a.loss, a.term, (T)a.p, (T)a.q, {}};
    for (int k = 0; k < LOSS_OUT; k++)
        l.operand[k] = {a.operand[k].data, a.operand[k].dtype};
    if (!out.data)
        return launch_sums<2>(summation_of(a), loss_sums<T>{l}, a.sum, a.workspace, stream);
    const operands<LOSS_OPERANDS> all = elements_of(a);
    STNI_LAUNCH(map_terms<T>, blocks_for(all.count, THREADS), THREADS, stream, all, l, a.total, out.data, out.dtype);
}

void launch_terms(const stni_loss_args &a, cudaStream_t stream)
{
    if (a.empty && !a.operand[LOSS_OUT].data)
        cudaMemsetAsync(a.sum, 0, 2 * sizeof *a.sum, stream);
    else if (!a.empty && is_dense_loss(a))
        dispatch<float, bf16, f16>(a.operand[LOSS_INPUT].dtype,
                                   [&](auto element) { launch_dense<decltype(element)>(a, stream); });
    else if (!a.empty && a.compute == STN_DTYPE_F64)
        launch_of<double>(a, stream);
    else if (!a.empty)
        launch_of<float>(a, stream);
}

/* One thread. */
__global__ void finish(const __grid_constant__ stni_loss_finish_args a)
{
    const double total = a.by_weights ? a.sum[1] : a.count;
    *a.total = total;
    if (a.out)
        write_element(a.out, a.dtype, 0, a.sum[0] / total);
}

void launch_finish(const stni_loss_finish_args &a, cudaStream_t stream)
{
    STNI_LAUNCH(finish, 1, 1, stream, a);
}

}

#define TERMS(slot) STNI_CUDA_KERNEL_WITH(slot, FLOATING_DTYPES, stni_loss_args, launch_terms, workspace)
#define FINISH(slot) STNI_CUDA_KERNEL(slot, FLOATING_DTYPES, stni_loss_finish_args, launch_finish)
#define ROWS(op) TERMS(op ".terms"), FINISH(op ".finish")

STNI_CUDA_KERNELS(loss) = {ROWS("binary_cross_entropy"),
                           ROWS("binary_cross_entropy_with_logits"),
                           ROWS("gaussian_nll"),
                           ROWS("hinge_embedding_loss"),
                           ROWS("huber_loss"),
                           ROWS("kl_div"),
                           ROWS("l1_loss"),
                           ROWS("mse_loss"),
                           ROWS("poisson_nll_loss"),
                           ROWS("smooth_l1_loss"),
                           ROWS("soft_margin_loss"),
                           TERMS("loss_backward.terms"),
                           FINISH("nll_loss.finish"),
                           STNI_CUDA_KERNELS_END};
