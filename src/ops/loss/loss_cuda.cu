/* Losses on a CUDA device, by the rows of loss_kernel.h: their terms element by element, or the sums of their values
 * and weights. */
#include "core/device/cuda/convert.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/sums.cuh"
#include "ops/cpu/math.cuh"
#include "ops/loss/loss_functions.h"

namespace {

enum { THREADS = 256 };

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
