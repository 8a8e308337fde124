/* Fourier transforms on a CUDA device, in f64 whatever the dtype.
 *
 * A pass joins as many transforms of length l as its radix r says to one of length l r, and leaves them so that the
 * last pass has the elements in their order (Stockham's arrangement: Cochran and others 1967). Short lines go through
 * their passes in shared memory, a block each; others in the workspace, some lines at a time. Lines whose length has a
 * large prime factor become convolutions with a chirp (mixed_radix.h). */
#include "ops/fft/fft_own_cuda.h"

#include "core/device/cuda/index.cuh"
#include "ops/fft/fft_lines_cuda.cuh"
#include "ops/fft/mixed_radix.h"

#include <math.h>

namespace {

enum { THREADS = 256, SHORT_LINE = 1024 };

/* exp(pi i angle). */
STNI_DEVICE number turn(double angle)
{
    const double pi = 3.14159265358979323846;
    return number(cos(pi * angle), sin(pi * angle));
}

struct radices {
    int64_t n;
    int count, radix[STNI_FFT_MAX_FACTORS];
};

/* Those of n, which has no large prime factor; two factors 2 are one pass. */
radices radices_of(int64_t n)
{
    radices r = {n, 0, {0}};
    int factors[STNI_FFT_MAX_FACTORS], count;
    stni_fft_factorise(n, factors, &count);
    for (int i = 0; i < count; i++) {
        const bool joins = i + 1 < count && factors[i] == 2 && factors[i + 1] == 2;
        r.radix[r.count++] = joins ? 4 : factors[i];
        i += joins;
    }
    return r;
}

/* Element `to` of what a pass makes of a line of n: `length` is l r. */
STNI_DEVICE number pass_element(const number *line, int64_t n, int radix, int64_t length, int sign, int64_t to)
{
    const int64_t k = to % length, before = length / radix, apart = n / radix;
    const number *from = line + to / length * before + k % before;
    const number step = turn(sign * 2 * (double)k / (double)length);
    number sum = from[0], root = step;
    for (int j = 1; j < radix; j++) {
        sum = sum + root * from[j * apart];
        root = root * step;
    }
    return sum;
}

template <class R> __global__ void __launch_bounds__(THREADS)
transform_short(const __grid_constant__ stni_fft_args a, const __grid_constant__ radices r, int64_t first)
{
    STNI_SHARED(number, one, SHORT_LINE);
    STNI_SHARED(number, other, SHORT_LINE);
    const int64_t line = first + blockIdx.x;
    const int64_t begin_in = line_begin(a, a.strides_in, line), begin_out = line_begin(a, a.strides_out, line);
    number *from = one, *to = other;
    int64_t length = 1;
    for (int64_t k = threadIdx.x; k < a.n; k += blockDim.x)
        from[k] = read_number<R>(a, begin_in, k);
    __syncthreads();
    for (int pass = 0; pass < r.count; pass++) {
        length *= r.radix[pass];
        for (int64_t k = threadIdx.x; k < a.n; k += blockDim.x)
            to[k] = pass_element(from, a.n, r.radix[pass], length, sign_of(a), k);
        number *held = from;
        from = to;
        to = held;
        __syncthreads();
    }
    for (int64_t k = threadIdx.x; k < a.n_out; k += blockDim.x)
        write_number<R>(a, begin_out, k, from[k]);
}

/* Some of the lines, as `space` complex numbers each; more than n of them where they are to be convolved with a
 * chirp. */
struct batch {
    stni_fft_args args;
    int64_t first, count, space;
};

STNI_DEVICE bool has_chirp(const batch &b)
{
    return b.space != b.args.n;
}

/* exp(+-pi i k^2 / n). */
STNI_DEVICE number chirp_at(const stni_fft_args &a, int64_t k)
{
    return turn(sign_of(a) * (double)stni_fft_chirp_step(k, a.n) / (double)a.n);
}

template <class R> __global__ void __launch_bounds__(THREADS) read_lines(const __grid_constant__ batch b, number *work)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, line = i / b.space, k = i % b.space;
    if (line >= b.count)
        return;
    number x = number(0.0);
    if (k < b.args.n)
        x = read_number<R>(b.args, line_begin(b.args, b.args.strides_in, b.first + line), k);
    if (k < b.args.n && has_chirp(b))
        x = x * chirp_at(b.args, k);
    work[i] = x;
}

template <class R>
__global__ void __launch_bounds__(THREADS) write_lines(const __grid_constant__ batch b, const number *work)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, line = i / b.args.n_out, k = i % b.args.n_out;
    if (line >= b.count)
        return;
    number y = work[line * b.space + k];
    if (has_chirp(b))
        y = stni_conjugate_of(y) / (double)b.space * chirp_at(b.args, k);
    write_number<R>(b.args, line_begin(b.args, b.args.strides_out, b.first + line), k, y);
}

__global__ void __launch_bounds__(THREADS)
run_pass(const number *from, number *to, int64_t n, int64_t lines, int radix, int64_t length, int sign)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, line = i / n;
    if (line < lines)
        to[i] = pass_element(from + line * n, n, radix, length, sign, i % n);
}

/* The chirp's conjugates, wrapped around. */
__global__ void __launch_bounds__(THREADS) wrap_chirp(const __grid_constant__ batch b, number *line)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, k = i < b.args.n ? i : b.space - i;
    if (i < b.space)
        line[i] = k < b.args.n ? stni_conjugate_of(chirp_at(b.args, k)) : number(0.0);
}

/* Conjugates of products, so that the next transform goes back. */
__global__ void __launch_bounds__(THREADS) convolve(const __grid_constant__ batch b, number *lines, const number *chirp)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < b.count * b.space)
        lines[i] = stni_conjugate_of(lines[i] * chirp[i % b.space]);
}

/* Returns where the transforms are: at `from` or at `to`. */
number *run_passes(const radices &r, number *from, number *to, int64_t lines, int sign, cudaStream_t stream)
{
    int64_t length = 1;
    for (int pass = 0; pass < r.count; pass++) {
        number *held = from;
        length *= r.radix[pass];
        STNI_LAUNCH(run_pass, blocks_for(r.n * lines, THREADS), THREADS, stream, from, to, r.n, lines, r.radix[pass],
                    length, sign);
        from = to;
        to = held;
    }
    return from;
}

bool has_large_prime(int64_t n)
{
    int factors[STNI_FFT_MAX_FACTORS], count;
    return stni_fft_factorise(n, factors, &count) > 1;
}

bool is_short(const stni_fft_args &a)
{
    return a.n <= SHORT_LINE && !has_large_prime(a.n);
}

/* As many lines at a time as take `most` bytes, at least one. */
batch batch_of(const stni_fft_args &a, size_t most)
{
    batch b = {a, 0, 0, has_large_prime(a.n) ? stni_fft_chirp_space(a.n) : a.n};
    const int64_t fit = (int64_t)(most / (2 * (size_t)b.space * sizeof(number))), lines = lines_of(a);
    b.count = fit < 1 ? 1 : fit < lines ? fit : lines;
    return b;
}

/* The transform of the chirp's conjugates, which takes the first two lines of the workspace. */
number *transform_chirp(const batch &b, const radices &r, number *work, cudaStream_t stream)
{
    STNI_LAUNCH(wrap_chirp, blocks_for(b.space, THREADS), THREADS, stream, b, work);
    return run_passes(r, work, work + b.space, 1, -1, stream);
}

template <class R>
void launch_batch(const batch &b, const radices &r, const number *chirp, number *work, cudaStream_t stream)
{
    number *other = work + b.count * b.space, *done;
    STNI_LAUNCH(read_lines<R>, blocks_for(b.count * b.space, THREADS), THREADS, stream, b, work);
    done = run_passes(r, work, other, b.count, chirp ? -1 : sign_of(b.args), stream);
    if (chirp) {
        STNI_LAUNCH(convolve, blocks_for(b.count * b.space, THREADS), THREADS, stream, b, done, chirp);
        done = run_passes(r, done, done == work ? other : work, b.count, -1, stream);
    }
    STNI_LAUNCH(write_lines<R>, blocks_for(b.count * b.args.n_out, THREADS), THREADS, stream, b, done);
}

template <class R>
void launch_of(const stni_fft_args &a, int64_t first, size_t most, void *workspace, cudaStream_t stream)
{
    const int64_t lines = lines_of(a);
    number *work = static_cast<number *>(workspace), *chirp = nullptr;
    batch b = batch_of(a, most);
    const int64_t at_once = b.count;
    if (first >= lines)
        return;
    const radices r = radices_of(b.space);
    if (is_short(a)) {
        const int threads = a.n < THREADS ? (int)(a.n + 31) / 32 * 32 : (int)THREADS;
        STNI_LAUNCH(transform_short<R>, grid_of(lines - first), threads, stream, a, r, first);
        return;
    }
    if (b.space != a.n) {
        chirp = transform_chirp(b, r, work, stream);
        work += 2 * b.space;
    }
    for (b.first = first; b.first < lines; b.first += at_once) {
        b.count = lines - b.first < at_once ? lines - b.first : at_once;
        launch_batch<R>(b, r, chirp, work, stream);
    }
}

}

size_t stni_fft_own_bytes(const struct stni_fft_args *args, size_t most)
{
    const batch b = batch_of(*args, most);
    return is_short(*args) ? 0 : (size_t)(2 * b.space * (b.count + (b.space != args->n))) * sizeof(number);
}

void stni_fft_own_launch(const struct stni_fft_args *args, int64_t first, size_t most, void *workspace, void *stream)
{
    if (args->real == STN_DTYPE_F64)
        launch_of<double>(*args, first, most, workspace, static_cast<cudaStream_t>(stream));
    else
        launch_of<float>(*args, first, most, workspace, static_cast<cudaStream_t>(stream));
}
