/* Softmax, log softmax and their gradients on a CUDA device: a team of threads each line. Lines that are dense in
 * memory are read once and kept in registers (softmax_rows.cuh), others once for the largest element, once for the sum
 * and once for the result. The arithmetic is that of the CPU's kernels; sums are those of a thread's elements, joined
 * over the team. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/teams.cuh"
#include "ops/cpu/math.cuh"
#include "ops/softmax/softmax_kernel.h"
#include "ops/softmax/softmax_rows.cuh"

namespace {

struct arguments {
    operands<SOFTMAX_TENSORS> lines;
    teams team;
    int64_t n, step[SOFTMAX_TENSORS];
    const void *x, *y;
    void *out, *stat, *total;
    int logarithm;
};

/* The elements of a line that a thread has: from `first` on every `by`-th. */
template <class S> struct share {
    const S *x, *y;
    S *out;
    int64_t first, by, n;
};

template <class S> STNI_DEVICE share<S> share_of(const arguments &a, const seat &me, int64_t line)
{
    int64_t at[SOFTMAX_TENSORS] = {0};
    if (line >= a.lines.count)
        return {nullptr, nullptr, nullptr, 0, 1, 0};
    any_offsets_of(a.lines, line, at);
    return {static_cast<const S *>(a.x) + at[SOFTMAX_X],
            static_cast<const S *>(a.y) + at[SOFTMAX_Y],
            static_cast<S *>(a.out) + at[SOFTMAX_OUT],
            me.row,
            a.team.rows,
            a.n};
}

template <class S> using computed_of = typename computed<S>::type;

template <class S> STNI_DEVICE computed_of<S> largest(const arguments &a, const share<S> &s)
{
    computed_of<S> max = -(computed_of<S>)INFINITY;
    for (int64_t i = s.first; i < s.n; i += s.by) {
        const computed_of<S> x = load(s.x[i * a.step[SOFTMAX_X]]);
        max = x > max ? x : max;
    }
    return max;
}

/* Elements whose terms a thread adds up in the compute type. Runs of them are added up in f64: a million terms in one
 * f32 lose four digits. */
enum { RUN = 256 };

template <class S> STNI_DEVICE computed_of<S> sum_terms(const arguments &a, const share<S> &s, computed_of<S> max)
{
    double runs = 0;
    for (int64_t i = s.first; i < s.n;) {
        computed_of<S> sum = 0;
        for (int k = 0; k < RUN && i < s.n; k++, i += s.by)
            sum += exp_negative_of(load(s.x[i * a.step[SOFTMAX_X]]) - max);
        runs += sum;
    }
    return (computed_of<S>)runs;
}

template <class S>
STNI_DEVICE void finish(const arguments &a, const share<S> &s, computed_of<S> max, computed_of<S> total)
{
    const computed_of<S> factor = a.logarithm ? log_of(total) : 1 / total;
    for (int64_t i = s.first; i < s.n; i += s.by) {
        const computed_of<S> x = load(s.x[i * a.step[SOFTMAX_X]]) - max;
        store(s.out[i * a.step[SOFTMAX_OUT]], a.logarithm ? x - factor : exp_negative_of(x) * factor);
    }
}

/* Going back: x is the cotangent. */
template <class S> STNI_DEVICE computed_of<S> sum_back(const arguments &a, const share<S> &s)
{
    double runs = 0;
    for (int64_t i = s.first; i < s.n;) {
        computed_of<S> sum = 0;
        for (int k = 0; k < RUN && i < s.n; k++, i += s.by) {
            const computed_of<S> x = load(s.x[i * a.step[SOFTMAX_X]]);
            sum += a.logarithm ? x : x * load(s.y[i * a.step[SOFTMAX_Y]]);
        }
        runs += sum;
    }
    return (computed_of<S>)runs;
}

template <class S> STNI_DEVICE void apply(const arguments &a, const share<S> &s, computed_of<S> sum)
{
    for (int64_t i = s.first; i < s.n; i += s.by) {
        const computed_of<S> x = load(s.x[i * a.step[SOFTMAX_X]]), y = load(s.y[i * a.step[SOFTMAX_Y]]);
        store(s.out[i * a.step[SOFTMAX_OUT]], a.logarithm ? x - exp_of(y) * sum : y * (x - sum));
    }
}

/* What a kernel does: steps of forward or of backward, or all of them. */
enum step { FORWARD, MAX, SUM, SCALE, BACKWARD, DOT, APPLY };

template <int STEP, class S>
__global__ void __launch_bounds__(TEAMS_THREADS) softmax(const __grid_constant__ arguments a)
{
    typedef computed_of<S> A;
    STNI_SHARED(A, shared, TEAMS_THREADS);
    const seat me = seat_of(a.team);
    const int64_t line = (int64_t)blockIdx.x * teams_count(a.team) + me.team;
    const share<S> s = share_of<S>(a, me, line);
    const bool is_line = line < a.lines.count;
    A *const stat = static_cast<A *>(a.stat), *const total = static_cast<A *>(a.total);
    A max = (STEP == SUM || STEP == SCALE) && is_line ? stat[line] : A(0);
    A sum = STEP == SCALE && is_line ? total[line] : STEP == APPLY && is_line ? stat[line] : A(0);
    if (STEP == FORWARD || STEP == MAX)
        max = reduce_team(shared, a.team, me, largest(a, s), [](A p, A v) { return v > p ? v : p; });
    if (STEP == FORWARD || STEP == SUM)
        sum = reduce_team(shared, a.team, me, sum_terms(a, s, max), [](A p, A v) { return p + v; });
    if (STEP == BACKWARD || STEP == DOT)
        sum = reduce_team(shared, a.team, me, sum_back(a, s), [](A p, A v) { return p + v; });
    if (STEP == FORWARD || STEP == SCALE)
        finish(a, s, max, sum);
    if (STEP == BACKWARD || STEP == APPLY)
        apply(a, s, sum);
    if (STEP == MAX && is_line && me.row == 0)
        stat[line] = max;
    if ((STEP == SUM || STEP == DOT) && is_line && me.row == 0)
        (STEP == SUM ? total : stat)[line] = sum;
}

template <int STEP, class S>
void launch_steps(const stni_softmax_args &from, const operands<SOFTMAX_TENSORS> &at, cudaStream_t stream)
{
    const stni_lines &lines = from.lines;
    arguments a = {};
    a.lines = at;
    const bool across = at.ndim > 0 && at.stride[SOFTMAX_X][at.ndim - 1] < lines.step[SOFTMAX_X];
    a.team = teams_of(lines.n, at.count, across);
    a.n = lines.n;
    for (int t = 0; t < SOFTMAX_TENSORS; t++)
        a.step[t] = lines.step[t];
    a.x = from.x;
    a.y = from.y;
    a.out = from.out;
    a.stat = from.stat;
    a.total = from.total;
    a.logarithm = from.logarithm;
    STNI_LAUNCH((softmax<STEP, S>), blocks_for(at.count, teams_count(a.team)), TEAMS_THREADS, stream, a);
}

template <int STEP> void launch(const stni_softmax_args &from, cudaStream_t stream)
{
    operands<SOFTMAX_TENSORS> at = no_dims<SOFTMAX_TENSORS>();
    const stni_lines &lines = from.lines;
    for (int d = 0; d < lines.ndim; d++)
        add_dim(at, lines.shape[d],
                {lines.strides[SOFTMAX_X][d], lines.strides[SOFTMAX_Y][d], lines.strides[SOFTMAX_OUT][d]});
    end_dims(at);
    if (at.count == 0)
        return;
    dispatch_floating(from.dtype, [&](auto element) {
        typedef decltype(element) S;
        if constexpr (STEP == FORWARD || STEP == BACKWARD)
            if (launch_rows<STEP == BACKWARD, S>(from, at, stream))
                return;
        launch_steps<STEP, S>(from, at, stream);
    });
}

}

#define KERNEL(slot, step) STNI_CUDA_KERNEL(slot, FLOATING_DTYPES, stni_softmax_args, launch<step>)
#define ROWS(op)                                                                                                  \
    KERNEL(op ".forward", FORWARD), KERNEL(op ".max", MAX), KERNEL(op ".sum", SUM), KERNEL(op ".scale", SCALE),     \
    KERNEL(op "_backward.forward", BACKWARD), KERNEL(op "_backward.dot", DOT), KERNEL(op "_backward.apply", APPLY)

STNI_CUDA_KERNELS(softmax) = {
    ROWS("softmax"),
    ROWS("log_softmax"),
    STNI_CUDA_KERNELS_END
};
