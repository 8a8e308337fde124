/* cuFFT without a GPU: transforms of lines by their definition. It refuses what the library's own does: types that do
 * not go together, lengths, counts and strides of nothing. Plans have memory of the device, so that none is made in a
 * capture, and want a workspace, which they fill. Halves of lines that are restored are overwritten. Where the caller
 * breaks a promise, an address that is none of a complex number's or lines that change their places in place, the
 * program ends. */
#include <cufftXt.h>

#include "cuda/standin/settings.h"
#include "cuda/standin/stream.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace
{

constexpr std::size_t WORKSPACE = 768, WORKSPACE_ALIGNMENT = 16, TABLE = 64; /* bytes */
constexpr unsigned char ARRIVED = 0xa5;
typedef std::complex<double> number;

struct side {
    long long step, line;
    cudaDataType type;
};

struct plan {
    long long n = 0, count = 0;
    side in = {}, out = {};
    bool is_made = false, allocates = true;
    void *table = nullptr, *workspace = nullptr;
    cudaStream_t stream = nullptr;
};

std::mutex lock;
std::map<cufftHandle, plan> plans;
cufftHandle last_handle = 0;

/* NULL where there is none. Plans stay where they are. */
plan *plan_of(cufftHandle handle)
{
    const std::lock_guard<std::mutex> locked(lock);
    const auto found = plans.find(handle);
    return found == plans.end() ? nullptr : &found->second;
}

bool is_real(cudaDataType type)
{
    return type == CUDA_R_32F || type == CUDA_R_64F;
}

bool is_wide(cudaDataType type)
{
    return type == CUDA_R_64F || type == CUDA_C_64F;
}

template <class T> number load_of(const side &s, const void *data, long long at)
{
    const T *real = static_cast<const T *>(data);
    return is_real(s.type) ? number(real[at]) : number(real[2 * at], real[2 * at + 1]);
}

number load(const side &s, const void *data, long long at)
{
    return is_wide(s.type) ? load_of<double>(s, data, at) : load_of<float>(s, data, at);
}

template <class T> void store_of(const side &s, void *data, long long at, number value)
{
    T *real = static_cast<T *>(data);
    if (is_real(s.type)) {
        real[at] = static_cast<T>(value.real());
        return;
    }
    real[2 * at] = static_cast<T>(value.real());
    real[2 * at + 1] = static_cast<T>(value.imag());
}

void store(const side &s, void *data, long long at, number value)
{
    is_wide(s.type) ? store_of<double>(s, data, at, value) : store_of<float>(s, data, at, value);
}

/* All n numbers of a line; those that a half lacks are the conjugates of those that it has. */
std::vector<number> read_line(const plan &p, const void *in, long long line)
{
    std::vector<number> x(static_cast<std::size_t>(p.n));
    const bool is_half = is_real(p.out.type);
    for (long long k = 0; k < p.n; k++) {
        const bool is_there = !is_half || k <= p.n / 2;
        const number z = load(p.in, in, line * p.in.line + (is_there ? k : p.n - k) * p.in.step);
        x[static_cast<std::size_t>(k)] = is_there ? z : std::conj(z);
    }
    return x;
}

/* exp(+-2 pi i k / n) for all k. */
std::vector<number> roots_of(long long n, int direction)
{
    std::vector<number> roots(static_cast<std::size_t>(n));
    for (long long k = 0; k < n; k++)
        roots[static_cast<std::size_t>(k)] =
            std::polar(1.0, direction * 2 * M_PI * static_cast<double>(k) / static_cast<double>(n));
    return roots;
}

void transform_line(const plan &p, const std::vector<number> &x, const std::vector<number> &roots, void *out,
                    long long line)
{
    const long long stored = is_real(p.in.type) ? p.n / 2 + 1 : p.n;
    for (long long k = 0; k < stored; k++) {
        number sum = 0;
        for (long long j = 0, turn = 0; j < p.n; j++, turn = (turn + k) % p.n)
            sum += x[static_cast<std::size_t>(j)] * roots[static_cast<std::size_t>(turn)];
        store(p.out, out, line * p.out.line + k * p.out.step, sum);
    }
}

/* All lines are read before the first is written: they may share memory. */
void transform(const plan &p, void *in, void *out, int direction)
{
    const std::vector<number> roots = roots_of(p.n, is_real(p.in.type)    ? CUFFT_FORWARD
                                                    : is_real(p.out.type) ? CUFFT_INVERSE
                                                                          : direction);
    std::vector<std::vector<number>> lines;
    for (long long line = 0; line < p.count; line++)
        lines.push_back(read_line(p, in, line));
    for (long long line = 0; is_real(p.out.type) && line < p.count; line++)
        for (long long k = 0; k <= p.n / 2; k++)
            store(p.in, in, line * p.in.line + k * p.in.step, number(NAN, NAN));
    for (long long line = 0; line < p.count; line++)
        transform_line(p, lines[static_cast<std::size_t>(line)], roots, out, line);
}

/* As with the real one, a plan's tables may still be on their way on the legacy stream when it is made. */
void check_table(const plan &p)
{
    const unsigned char *table = static_cast<const unsigned char *>(p.table);
    if (std::all_of(table, table + TABLE, [](unsigned char byte) { return byte == ARRIVED; }))
        return;
    fprintf(stderr, "stand-in: a transform runs before its plan's tables are on the device\n");
    abort();
}

bool goes_together(cudaDataType in, cudaDataType out, cudaDataType compute)
{
    const bool are_wide = is_wide(compute);
    return !is_real(compute) && is_wide(in) == are_wide && is_wide(out) == are_wide && !(is_real(in) && is_real(out));
}

void check_promises(const plan &p, const void *in, const void *out)
{
    const uintptr_t size = is_wide(p.in.type) ? 2 * sizeof(double) : 2 * sizeof(float);
    const bool are_aligned =
        reinterpret_cast<uintptr_t>(in) % size == 0 && reinterpret_cast<uintptr_t>(out) % size == 0;
    const bool stay = in != out || (p.in.step == p.out.step && p.in.line == p.out.line && p.in.type == p.out.type);
    if (are_aligned && stay)
        return;
    fprintf(stderr, "stand-in: cufftXtExec: %s\n",
            stay ? "an address is not aligned to a complex number" : "lines in place do not lie alike");
    abort();
}

}

extern "C" {

cufftResult cufftCreate(cufftHandle *out)
{
    const std::lock_guard<std::mutex> locked(lock);
    *out = ++last_handle;
    plans[*out] = plan();
    return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle handle)
{
    const plan *p = plan_of(handle);
    if (!p)
        return CUFFT_INVALID_PLAN;
    if (p->table)
        cudaFree(p->table);
    const std::lock_guard<std::mutex> locked(lock);
    plans.erase(handle);
    return CUFFT_SUCCESS;
}

cufftResult cufftSetAutoAllocation(cufftHandle handle, int allocates)
{
    plan *p = plan_of(handle);
    if (!p)
        return CUFFT_INVALID_PLAN;
    p->allocates = allocates != 0;
    return CUFFT_SUCCESS;
}

cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream)
{
    plan *p = plan_of(handle);
    if (!p)
        return CUFFT_INVALID_PLAN;
    p->stream = stream;
    return CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle handle, void *workspace)
{
    plan *p = plan_of(handle);
    if (!p || !p->is_made)
        return CUFFT_INVALID_PLAN;
    p->workspace = workspace;
    return CUFFT_SUCCESS;
}

cufftResult cufftXtMakePlanMany(cufftHandle handle, int rank, long long int *n, long long int *in_dims,
                                long long int in_step, long long int in_line, cudaDataType in_type,
                                long long int *out_dims, long long int out_step, long long int out_line,
                                cudaDataType out_type, long long int count, size_t *workspace, cudaDataType compute)
{
    plan *p = plan_of(handle);
    if (!p || p->is_made)
        return CUFFT_INVALID_PLAN;
    if (standin::settings().libraries == standin::REFUSING || p->allocates)
        return CUFFT_NOT_SUPPORTED; /* a workspace of its own is what the library never wants */
    if (!goes_together(in_type, out_type, compute))
        return CUFFT_INVALID_TYPE;
    if (rank != 1 || !in_dims || !out_dims || *n < 1 || count < 1 || in_step < 1 || in_line < 1 || out_step < 1 ||
        out_line < 1)
        return CUFFT_INVALID_SIZE;
    if (cudaMalloc(&p->table, TABLE) != cudaSuccess)
        return CUFFT_ALLOC_FAILED;
    standin::stream_of(cudaStreamLegacy)->add_on_memory([table = p->table] { std::memset(table, ARRIVED, TABLE); });
    p->n = *n;
    p->count = count;
    p->in = {in_step, in_line, in_type};
    p->out = {out_step, out_line, out_type};
    p->is_made = true;
    *workspace = WORKSPACE;
    return CUFFT_SUCCESS;
}

cufftResult cufftXtExec(cufftHandle handle, void *in, void *out, int direction)
{
    plan *p = plan_of(handle);
    if (!p || !p->is_made)
        return CUFFT_INVALID_PLAN;
    if (!p->workspace || reinterpret_cast<uintptr_t>(p->workspace) % WORKSPACE_ALIGNMENT != 0)
        return CUFFT_INVALID_VALUE;
    check_promises(*p, in, out);
    const plan now = *p;
    standin::stream_of(p->stream)->add_on_memory([=] {
        check_table(now);
        std::memset(now.workspace, 0xff, WORKSPACE);
        transform(now, in, out, direction);
    });
    return CUFFT_SUCCESS;
}
}
