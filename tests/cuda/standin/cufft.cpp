/* cuFFT without a GPU: transforms of up to three dims by their definition, a dim after the other. It refuses what the
 * library's own does: types that do not go together, lengths, counts and strides of nothing, dims that lie over each
 * other. Plans have memory of the device, so that none is made in a
 * capture, and want a workspace, which they fill. Halves of lines that are restored are overwritten. Where the caller
 * breaks a promise, an address that is none of a complex number's, lines that change their places in place, or halves
 * that are restored and not those of real numbers, of which the library's result is undefined, the program ends. */
#include <cufftXt.h>

#include "cuda/standin/made_on.h"
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
constexpr int MOST_DIMS = 3;
constexpr long long LONGEST = 4096; /* a line takes the square of its length: longer ones are refused */
typedef std::complex<double> number;

struct side {
    long long steps[MOST_DIMS], line; /* a plan's dims are its last ones: those before have one element */
    cudaDataType type;
};

struct plan {
    long long n[MOST_DIMS] = {1, 1, 1}, count = 0;
    side in = {}, out = {};
    bool is_made = false, allocates = true;
    void *table = nullptr, *workspace = nullptr;
    cudaStream_t stream = nullptr;
    standin::made_on gpu;
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

/* All numbers of a transform. */
struct cube {
    const plan *p;
    std::vector<number> x;

    explicit cube(const plan &of) : p(&of), x(static_cast<std::size_t>(of.n[0] * of.n[1] * of.n[2])) {}
    number &at(long long i, long long j, long long k)
    {
        return x[static_cast<std::size_t>((i * p->n[1] + j) * p->n[2] + k)];
    }
};

/* Calls f with all indices, of which the last one is below `last`. */
template <class F> void for_each(const plan &p, long long last, F f)
{
    for (long long i = 0; i < p.n[0]; i++)
        for (long long j = 0; j < p.n[1]; j++)
            for (long long k = 0; k < last; k++)
                f(i, j, k);
}

long long half_of(const plan &p)
{
    return p.n[2] / 2 + 1;
}

long long place(const side &s, long long line, long long i, long long j, long long k)
{
    return line * s.line + i * s.steps[0] + j * s.steps[1] + k * s.steps[2];
}

bool are_same(double a, double b)
{
    return a == b || (std::isnan(a) && std::isnan(b));
}

void check_half(number here, number there)
{
    if (are_same(here.real(), there.real()) && are_same(here.imag(), -there.imag()))
        return;
    fprintf(stderr, "stand-in: cufftXtExec: halves to restore that are not those of real numbers\n");
    abort();
}

/* Those that a half lacks are the conjugates of those that it has. */
cube read_line(const plan &p, const void *in, long long line)
{
    cube c(p);
    const bool is_half = is_real(p.out.type);
    for_each(p, is_half ? half_of(p) : p.n[2], [&](long long i, long long j, long long k) {
        const number z = load(p.in, in, place(p.in, line, i, j, k));
        const long long across = (p.n[2] - k) % p.n[2], i_across = (p.n[0] - i) % p.n[0],
                        j_across = (p.n[1] - j) % p.n[1];
        c.at(i, j, k) = z;
        if (is_half && across == k)
            check_half(z, load(p.in, in, place(p.in, line, i_across, j_across, k)));
        else if (is_half)
            c.at(i_across, j_across, across) = std::conj(z);
    });
    return c;
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

/* Along a dim, whose elements are so far apart; `first` is the line's first one. */
void transform_along(number *first, long long n, long long apart, const std::vector<number> &roots)
{
    std::vector<number> sums(static_cast<std::size_t>(n));
    for (long long k = 0; k < n; k++)
        for (long long j = 0, turn = 0; j < n; j++, turn = (turn + k) % n)
            sums[static_cast<std::size_t>(k)] += first[j * apart] * roots[static_cast<std::size_t>(turn)];
    for (long long k = 0; k < n; k++)
        first[k * apart] = sums[static_cast<std::size_t>(k)];
}

void transform_cube(cube &c, int direction)
{
    const plan &p = *c.p;
    const long long apart[MOST_DIMS] = {p.n[1] * p.n[2], p.n[2], 1}, all = static_cast<long long>(c.x.size());
    for (int d = 0; d < MOST_DIMS; d++) {
        const std::vector<number> roots = roots_of(p.n[d], direction);
        for (long long at = 0; p.n[d] > 1 && at < all; at++)
            if (at / apart[d] % p.n[d] == 0)
                transform_along(&c.x[static_cast<std::size_t>(at)], p.n[d], apart[d], roots);
    }
}

/* All lines are read before the first is written: they may share memory. */
void transform(const plan &p, void *in, void *out, int direction)
{
    const int sign = is_real(p.in.type) ? CUFFT_FORWARD : is_real(p.out.type) ? CUFFT_INVERSE : direction;
    std::vector<cube> cubes;
    for (long long line = 0; line < p.count; line++)
        cubes.push_back(read_line(p, in, line));
    for (long long line = 0; is_real(p.out.type) && line < p.count; line++)
        for_each(p, half_of(p), [&](long long i, long long j, long long k) {
            store(p.in, in, place(p.in, line, i, j, k), number(NAN, NAN));
        });
    for (long long line = 0; line < p.count; line++) {
        cube &c = cubes[static_cast<std::size_t>(line)];
        transform_cube(c, sign);
        for_each(p, is_real(p.in.type) ? half_of(p) : p.n[2], [&](long long i, long long j, long long k) {
            store(p.out, out, place(p.out, line, i, j, k), c.at(i, j, k));
        });
    }
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
    const bool stay = in != out || (std::equal(p.in.steps, p.in.steps + MOST_DIMS, p.out.steps) &&
                                    p.in.line == p.out.line && p.in.type == p.out.type);
    if (are_aligned && stay)
        return;
    fprintf(stderr, "stand-in: cufftXtExec: %s\n",
            stay ? "an address is not aligned to a complex number" : "lines in place do not lie alike");
    abort();
}

/* Steps of all dims from what encloses each; false where dims lie over each other. Reads nothing of what encloses one
 * dim, nor how large the first is. */
bool set_steps(const plan &p, int rank, const long long *enclosing, long long step, bool is_half, side &s)
{
    for (int d = MOST_DIMS - 1; d >= 0; d--) {
        s.steps[d] = step;
        const int given = d - (MOST_DIMS - rank);
        const long long length = is_half && d == MOST_DIMS - 1 ? half_of(p) : p.n[d];
        if (given > 0 && enclosing[given] < length)
            return false;
        step *= given > 0 ? enclosing[given] : 1;
    }
    return true;
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
    if (rank >= 1 && *std::max_element(n, n + rank) > LONGEST)
        return CUFFT_NOT_SUPPORTED;
    if (!goes_together(in_type, out_type, compute))
        return CUFFT_INVALID_TYPE;
    if (rank < 1 || rank > MOST_DIMS || !in_dims || !out_dims || *std::min_element(n, n + rank) < 1 || count < 1 ||
        in_step < 1 || in_line < 1 || out_step < 1 || out_line < 1)
        return CUFFT_INVALID_SIZE;
    std::copy(n, n + rank, p->n + MOST_DIMS - rank);
    if (!set_steps(*p, rank, in_dims, in_step, is_real(out_type), p->in) ||
        !set_steps(*p, rank, out_dims, out_step, is_real(in_type), p->out))
        return CUFFT_INVALID_SIZE;
    if (cudaMalloc(&p->table, TABLE) != cudaSuccess)
        return CUFFT_ALLOC_FAILED;
    standin::stream_of(cudaStreamLegacy)->add_on_memory([table = p->table] { std::memset(table, ARRIVED, TABLE); });
    p->count = count;
    p->in.line = in_line;
    p->in.type = in_type;
    p->out.line = out_line;
    p->out.type = out_type;
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
    p->gpu.expect("cufftXtExec");
    if (standin::refuse_in_capture() != cudaSuccess) /* it loads its kernels when it launches them */
        return CUFFT_EXEC_FAILED;
    const plan now = *p;
    standin::stream_of(p->stream)->add_on_memory([=] {
        check_table(now);
        std::memset(now.workspace, 0xff, WORKSPACE);
        transform(now, in, out, direction);
    });
    return CUFFT_SUCCESS;
}
}
