/* Fourier transforms on a CUDA device: by cuFFT, and from the first line that it refuses by kernels of our own.
 *
 * cuFFT takes lines that lie at one distance from each other, and does not scale: where they lie so it reads and
 * writes them where they are. Other lines, and those of which it is not to read what is there (reals that become
 * complex lines, halves of lines that are restored, which it may overwrite), go through dense buffers, some of them at
 * a time. What goes to a buffer is scaled on the way; else scaling is a pass behind.
 *
 * Two or three dims that lie inside each other are one call, in which cuFFT has a kernel for each and none for moving
 * lines that lie side by side. Where it refuses to be asked, they are transformed one after the other. */
#include "ops/fft/fft_own_cuda.h"
#include "ops/fft/fft_request_cuda.cuh"

namespace
{

enum { OWN_BYTES = 1 << 20 }; /* that our own kernels have where cuFFT fails to run what it has planned */

struct buffers {
    char *from, *to, *scratch;
};

buffers buffers_of(const stni_fft_args &a, const request &r)
{
    char *from = static_cast<char *>(aligned(a.workspace)), *to = from + r.from_bytes;
    return {from, r.to_bytes > 0 ? to : from, to + r.to_bytes};
}

/* Returns how many transforms are done: all, or those before the first call that was refused. */
template <class R> int64_t run_library(stn_queue *queue, const stni_fft_args &a, const request &r, cudaStream_t stream)
{
    const buffers b = buffers_of(a, r);
    const int64_t in_bytes = (int64_t)element_bytes(a, true), out_bytes = (int64_t)element_bytes(a, false);
    char *const in = const_cast<char *>(static_cast<const char *>(a.in)), *const out = static_cast<char *>(a.out);
    stni_fft_args after = a;
    if (r.gathers)
        after.scale = 1;
    int64_t done = 0;
    for (int64_t call = 0; call < r.calls; call++) {
        const stni_cufft_lines lines = lines_of_call(r, call);
        const span s = {done, lines.count};
        if (r.gathers)
            launch_gather<R>(a, s, b.from, stream);
        if (stni_cufft_run(queue, &lines, sign_of(a) > 0, r.gathers ? b.from : in + call * r.call_in * in_bytes,
                           r.stores ? b.to : out + call * r.call_out * out_bytes, b.scratch) != STN_OK)
            break;
        if (r.stores)
            launch_store<R>(after, s, b.to, stream);
        done += lines.count;
    }
    const bool scales = after.scale != 1 || (a.kind == STNI_TRANSFORM_HALVE && a.interior != 1);
    if (!r.stores && scales)
        launch_store<R>(after, {0, done}, nullptr, stream);
    return done;
}

int64_t run_library(stn_queue *queue, const stni_fft_args &a, const request &r)
{
    cudaStream_t stream = static_cast<cudaStream_t>(stni_cuda_stream(queue));
    size_t bytes;
    if (scratch_bytes(queue, r, &bytes) != STN_OK)
        return 0;
    return a.real == STN_DTYPE_F64 ? run_library<double>(queue, a, r, stream) : run_library<float>(queue, a, r, stream);
}

size_t library_bytes(const request &r, size_t scratch)
{
    const size_t all = r.from_bytes + r.to_bytes + scratch;
    return all > 0 ? all + WORKSPACE_ALIGNMENT : 0;
}

/* Where cuFFT serves, our own kernels have its workspace, and no more than they need for a line. */
size_t workspace_of_lines(stn_queue *queue, const void *given)
{
    const stni_fft_args &a = *static_cast<const stni_fft_args *>(given);
    request r;
    size_t bytes = 0;
    if (lines_of(a) == 0)
        return 0;
    if (!request_of(a, r) || scratch_bytes(queue, r, &bytes) != STN_OK)
        return stni_fft_own_bytes(&a, MOST_BYTES);
    bytes = library_bytes(r, bytes);
    const size_t own = stni_fft_own_bytes(&a, bytes);
    return own > bytes ? own : bytes;
}

stn_status run_lines(stn_queue *queue, const void *given)
{
    const stni_fft_args &a = *static_cast<const stni_fft_args *>(given);
    request r;
    size_t bytes = 0;
    if (lines_of(a) == 0)
        return STN_OK;
    request_of(a, r);
    bytes = scratch_bytes(queue, r, &bytes) == STN_OK ? library_bytes(r, bytes) : (size_t)MOST_BYTES;
    const int64_t done = run_library(queue, a, r);
    stni_fft_own_launch(&a, done, bytes, a.workspace, stni_cuda_stream(queue));
    return stni_cuda_launched(queue);
}

/* The lines along dim `d` of those that are transformed (n_more: the main one) as a kernel's of lines; others come
 * behind those that are not transformed. `is_later`: where the result is, of complex numbers, which keep their
 * length. */
stni_fft_args lines_along(const stni_fft_args &a, int d, bool is_later)
{
    const stni_fft_dim main = {is_later ? a.n_out : a.n, is_later ? a.step_out : a.step_in, a.step_out};
    stni_fft_args lines = a;
    lines.n_more = 0;
    for (int e = 0; e <= a.n_more; e++) {
        stni_fft_dim dim = e < a.n_more ? a.more[e] : main;
        if (is_later)
            dim.step_in = dim.step_out;
        if (e == d) {
            lines.n = dim.n;
            lines.step_in = dim.step_in;
            lines.step_out = dim.step_out;
            continue;
        }
        lines.shape[lines.ndim] = dim.n;
        lines.strides_in[lines.ndim] = dim.step_in;
        lines.strides_out[lines.ndim++] = dim.step_out;
    }
    if (!is_later)
        return lines;
    for (int e = 0; e < a.ndim; e++)
        lines.strides_in[e] = a.strides_out[e];
    lines.kind = sign_of(a) > 0 ? STNI_TRANSFORM_BACKWARD : STNI_TRANSFORM_FORWARD;
    lines.real_in = 0;
    lines.in = a.out;
    lines.n_in = lines.n_out = lines.n;
    lines.scale = 1;
    return lines;
}

/* Halves, scaled and made what cuFFT wants, in a dense buffer and the result of a call behind `done` transforms. */
stni_fft_args restored_from(const stni_fft_args &a, const request &r, int64_t done, int64_t count, void *buffer)
{
    stni_fft_args dense = a;
    int64_t step = a.n_in;
    for (int d = a.n_more - 1; d >= 0; d--) {
        dense.more[d].step_in = step;
        step *= a.more[d].n;
    }
    dense.step_in = 1;
    dense.ndim = 1;
    dense.shape[0] = count;
    dense.strides_in[0] = step;
    dense.strides_out[0] = r.lines.out.line;
    dense.in = buffer;
    dense.out = static_cast<char *>(a.out) + done * r.lines.out.line * (int64_t)real_bytes(a);
    dense.scale = dense.interior = 1;
    return dense;
}

/* The same as complex numbers in place. */
stni_fft_args halves_in_place(const stni_fft_args &dense, void *buffer)
{
    stni_fft_args halves = dense;
    halves.out = buffer;
    halves.n_out = dense.n_in;
    halves.step_out = dense.step_in;
    halves.strides_out[0] = dense.strides_in[0];
    for (int d = 0; d < dense.n_more; d++)
        halves.more[d].step_out = dense.more[d].step_in;
    return halves;
}

/* Those of the transforms from number `done` of `all` on. */
void own_lines(const stni_fft_args &lines, int64_t done, int64_t all, void *workspace, cudaStream_t stream)
{
    stni_fft_own_launch(&lines, lines_of(lines) / all * done, OWN_BYTES, workspace, stream);
}

void own_restore(const stni_fft_args &a, const request &r, int64_t done, cudaStream_t stream)
{
    const buffers b = buffers_of(a, r);
    for (int64_t count; done < lines_of(a); done += count) {
        count = lines_of(a) - done < r.lines.count ? lines_of(a) - done : r.lines.count;
        if (a.real == STN_DTYPE_F64)
            launch_gather<double>(a, {done, count}, b.from, stream);
        else
            launch_gather<float>(a, {done, count}, b.from, stream);
        const stni_fft_args dense = restored_from(a, r, done, count, b.from), halves = halves_in_place(dense, b.from);
        for (int d = 0; d < a.n_more; d++)
            own_lines(lines_along(halves, d, true), 0, count, b.scratch, stream);
        own_lines(lines_along(dense, a.n_more, false), 0, count, b.scratch, stream);
    }
}

/* From transform `done` on, a dim after the other. */
void own_planes(const stni_fft_args &a, const request &r, int64_t done, cudaStream_t stream)
{
    char *scratch = buffers_of(a, r).scratch;
    if (a.kind == STNI_TRANSFORM_RESTORE) {
        own_restore(a, r, done, stream);
        return;
    }
    own_lines(lines_along(a, a.n_more, false), done, lines_of(a), scratch, stream);
    for (int d = 0; d < a.n_more; d++)
        own_lines(lines_along(a, d, true), done, lines_of(a), scratch, stream);
}

/* What own_planes wants of `scratch`. */
size_t own_planes_bytes(const stni_fft_args &a, const request &r)
{
    const bool restores = a.kind == STNI_TRANSFORM_RESTORE;
    const stni_fft_args dense = restores ? restored_from(a, r, 0, r.lines.count, nullptr) : a;
    const stni_fft_args later = restores ? halves_in_place(dense, nullptr) : a;
    size_t most = 0;
    for (int d = 0; d <= a.n_more; d++) {
        const stni_fft_args lines = lines_along(d < a.n_more ? later : dense, d, d < a.n_more);
        const size_t bytes = stni_fft_own_bytes(&lines, OWN_BYTES);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* 0 where cuFFT does not take these dims at once. */
size_t workspace_of_planes(stn_queue *queue, const void *given)
{
    const stni_fft_args &a = *static_cast<const stni_fft_args *>(given);
    request r;
    size_t scratch = 0;
    if (lines_of(a) == 0 || !request_of(a, r) || scratch_bytes(queue, r, &scratch) != STN_OK)
        return 0;
    const size_t own = own_planes_bytes(a, r);
    return r.from_bytes + r.to_bytes + (own > scratch ? own : scratch) + WORKSPACE_ALIGNMENT;
}

stn_status run_planes(stn_queue *queue, const void *given)
{
    const stni_fft_args &a = *static_cast<const stni_fft_args *>(given);
    request r;
    if (!request_of(a, r))
        return STN_ERR_INTERNAL;
    own_planes(a, r, run_library(queue, a, r), static_cast<cudaStream_t>(stni_cuda_stream(queue)));
    return stni_cuda_launched(queue);
}

}

#define ROW(name, run, workspace)                                                                                      \
    STNI_CUDA_KERNEL_OF_QUEUE(name, dtype_bit(STN_DTYPE_F32) | dtype_bit(STN_DTYPE_F64) | COMPLEX_DTYPES,              \
                              stni_fft_args, run, workspace)
#define ROWS(op) ROW(op ".lines", run_lines, workspace_of_lines), ROW(op ".planes", run_planes, workspace_of_planes)

STNI_CUDA_KERNELS(fft) = {ROWS("fft_complex"), ROWS("fft_halve"), ROWS("fft_restore"), STNI_CUDA_KERNELS_END};
