/* cuBLASLt without a GPU: products by plain loops, of matrices that are described as its own are. It refuses what the
 * library's own does: lines that are shorter than a column, batches that differ, types that do not go together, a
 * workspace that is too small. Where the caller breaks a promise that it gave, an alignment, the program ends. Its
 * algorithms want a workspace, which they fill: how much follows from everything that the problem has. Where TF32 was
 * asked for, factors are rounded to it. */
#include <cublasLt.h>

#include "core/base/dtype.h"
#include "cuda/standin/settings.h"
#include "cuda/standin/stream.h"
#include "cuda/standin/made_on.h"
#include "cuda/standin/tf32.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

struct cublasLtContext {
    standin::made_on gpu;
};

namespace {

constexpr std::size_t WORKSPACE = 512, MOST_WORKSPACES = 64, WORKSPACE_ALIGNMENT = 16; /* bytes */

struct operation {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t left, right;
};

struct layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t line;
    cublasLtOrder_t order;
    int32_t batch;
    int64_t step; /* elements */
};

struct preference {
    std::size_t workspace;
    uint32_t reductions, alignment[4];
};

struct algorithm {
    std::size_t workspace;
    uint32_t alignment[4];
};

static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm is plain bytes of the caller's");

template <class T> T *as(const void *opaque)
{
    return static_cast<T *>(const_cast<void *>(opaque));
}

/* The attribute's place takes the value if it has its size. */
cublasStatus_t set(void *place, std::size_t size, const void *value, std::size_t bytes)
{
    if (!place || !value || bytes != size)
        return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(place, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

bool is_layout(const layout &l)
{
    const uint64_t least = l.order == CUBLASLT_ORDER_COL ? l.rows : l.cols;
    return l.rows > 0 && l.cols > 0 && l.line >= static_cast<int64_t>(least) && l.batch > 0;
}

bool is_problem(const operation &o, const layout &a, const layout &b, const layout &c, const layout &d)
{
    const bool left = o.left == CUBLAS_OP_T, right = o.right == CUBLAS_OP_T;
    const uint64_t m = left ? a.cols : a.rows, k = left ? a.rows : a.cols, n = right ? b.rows : b.cols;
    return is_layout(a) && is_layout(b) && is_layout(c) && is_layout(d) && k == (right ? b.cols : b.rows) &&
           c.rows == m && c.cols == n && d.rows == m && d.cols == n && a.batch == b.batch && b.batch == c.batch &&
           c.batch == d.batch;
}

/* The combinations of its table that the library uses. */
bool is_supported(const operation &o, const layout &a, const layout &b, const layout &c, const layout &d)
{
    const bool wide = a.type == CUDA_R_64F;
    const bool is_fast = o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type == CUDA_R_32F;
    return a.type == b.type && b.type == c.type && c.type == d.type && o.scale == (wide ? CUDA_R_64F : CUDA_R_32F) &&
           (is_fast || o.compute == (wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F));
}

std::size_t size_of(cudaDataType_t type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

double load(const layout &l, const void *data, int64_t at)
{
    switch (static_cast<int>(l.type)) {
    case CUDA_R_64F: return static_cast<const double *>(data)[at];
    case CUDA_R_32F: return static_cast<const float *>(data)[at];
    case CUDA_R_16F: return stni_f16_to_f32(static_cast<const uint16_t *>(data)[at]);
    default: return stni_bf16_to_f32(static_cast<const uint16_t *>(data)[at]);
    }
}

void store(const layout &l, void *data, int64_t at, double value)
{
    switch (static_cast<int>(l.type)) {
    case CUDA_R_64F: static_cast<double *>(data)[at] = value; return;
    case CUDA_R_32F: static_cast<float *>(data)[at] = static_cast<float>(value); return;
    case CUDA_R_16F: static_cast<uint16_t *>(data)[at] = stni_f32_to_f16(static_cast<float>(value)); return;
    default: static_cast<uint16_t *>(data)[at] = stni_f32_to_bf16(static_cast<float>(value)); return;
    }
}

int64_t place(const layout &l, int64_t product, int64_t row, int64_t col)
{
    return product * l.step + (l.order == CUBLASLT_ORDER_COL ? row + col * l.line : row * l.line + col);
}

struct product {
    operation o;
    layout a, b, c, d;
    double alpha, beta;
    const void *A, *B, *C;
    void *D;
};

float factor(const operation &o, double x)
{
    const float narrow = static_cast<float>(x);
    return o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? standin::to_tf32(narrow) : narrow;
}

/* Sums of f32 and of shorter floats are f32's, in one chain. */
double sum_of(const product &p, int64_t i, int64_t row, int64_t col)
{
    const bool left = p.o.left == CUBLAS_OP_T, right = p.o.right == CUBLAS_OP_T;
    const int64_t k = static_cast<int64_t>(left ? p.a.rows : p.a.cols);
    double wide = 0;
    float narrow = 0;
    for (int64_t t = 0; t < k; t++) {
        const double x = load(p.a, p.A, left ? place(p.a, i, t, row) : place(p.a, i, row, t));
        const double y = load(p.b, p.B, right ? place(p.b, i, col, t) : place(p.b, i, t, col));
        wide += x * y;
        narrow += factor(p.o, x) * factor(p.o, y);
    }
    return p.a.type == CUDA_R_64F ? wide : static_cast<double>(narrow);
}

void multiply(const product &p)
{
    for (int64_t i = 0; i < p.d.batch; i++)
        for (int64_t col = 0; col < static_cast<int64_t>(p.d.cols); col++)
            for (int64_t row = 0; row < static_cast<int64_t>(p.d.rows); row++) {
                const double before = p.beta == 0 ? 0 : p.beta * load(p.c, p.C, place(p.c, i, row, col));
                store(p.d, p.D, place(p.d, i, row, col), p.alpha * sum_of(p, i, row, col) + before);
            }
}

double scalar(const operation &o, const void *value)
{
    return o.scale == CUDA_R_64F ? *static_cast<const double *>(value)
                                 : static_cast<double>(*static_cast<const float *>(value));
}

/* The library's own heuristics are as little foreseen: a problem that differs in one stride or alignment from the one
 * that was asked about has another workspace. */
std::size_t workspace_of(const layout *const (&layouts)[3], const preference &p)
{
    uint64_t mixed = p.alignment[0];
    for (const layout *l : layouts)
        for (uint64_t x : {l->rows, l->cols, (uint64_t)l->line, (uint64_t)l->batch, (uint64_t)l->step})
            mixed = (mixed ^ x) * 0x9e3779b97f4a7c15u;
    const std::size_t wanted = WORKSPACE * (1 + (mixed >> 32) % MOST_WORKSPACES);
    return p.workspace < wanted ? 0 : wanted;
}

void check_alignment(const char *matrix, const void *data, const layout &l, uint32_t alignment)
{
    const uint64_t step = l.batch > 1 ? static_cast<uint64_t>(l.step) * size_of(l.type) : 0;
    if (((reinterpret_cast<uintptr_t>(data) | step) & (alignment - 1)) == 0)
        return;
    fprintf(stderr, "stand-in: cublasLtMatmul: %s is not aligned to the %u bytes that its algorithm was asked for\n",
            matrix, alignment);
    abort();
}

}

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    *out = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale)
{
    *out = reinterpret_cast<cublasLtMatmulDesc_t>(new operation{compute, scale, CUBLAS_OP_N, CUBLAS_OP_N});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    operation *o = as<operation>(desc);
    void *at = attribute == CUBLASLT_MATMUL_DESC_TRANSA   ? &o->left
               : attribute == CUBLASLT_MATMUL_DESC_TRANSB ? &o->right
                                                          : nullptr;
    return set(at, sizeof o->left, value, bytes);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    delete as<operation>(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t line)
{
    *out = reinterpret_cast<cublasLtMatrixLayout_t>(new layout{type, rows, cols, line, CUBLASLT_ORDER_COL, 1, 0});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t opaque,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes)
{
    layout *l = as<layout>(opaque);
    switch (static_cast<int>(attribute)) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return set(&l->order, sizeof(int32_t), value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(&l->batch, sizeof l->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(&l->step, sizeof l->step, value, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t opaque)
{
    delete as<layout>(opaque);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = reinterpret_cast<cublasLtMatmulPreference_t>(new preference{0, 7, {256, 256, 256, 256}});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t opaque,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    preference *p = as<preference>(opaque);
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return set(&p->workspace, sizeof p->workspace, value, bytes);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return set(&p->reductions, sizeof p->reductions, value, bytes);
    const int matrix = static_cast<int>(attribute) - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    return matrix < 0 || matrix > 3 ? CUBLAS_STATUS_INVALID_VALUE
                                    : set(&p->alignment[matrix], sizeof(uint32_t), value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t opaque)
{
    delete as<preference>(opaque);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t opaque, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int *n)
{
    const operation &o = *as<operation>(desc);
    const preference &p = *as<preference>(opaque);
    *n = 0;
    if (standin::settings().libraries == standin::REFUSING)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (most < 1 || !is_problem(o, *as<layout>(a), *as<layout>(b), *as<layout>(c), *as<layout>(d)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_supported(o, *as<layout>(a), *as<layout>(b), *as<layout>(c), *as<layout>(d)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    algorithm chosen = {workspace_of({as<layout>(a), as<layout>(b), as<layout>(d)}, p),
                        {p.alignment[0], p.alignment[1], p.alignment[2], p.alignment[3]}};
    results[0] = {};
    std::memcpy(&results[0].algo, &chosen, sizeof chosen);
    results[0].workspaceSize = chosen.workspace;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *n = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *given, void *workspace, size_t bytes, cudaStream_t stream)
{
    const operation &o = *as<operation>(desc);
    const layout &la = *as<layout>(a), &lb = *as<layout>(b), &lc = *as<layout>(c), &ld = *as<layout>(d);
    algorithm chosen;
    handle->gpu.expect("cublasLtMatmul");
    if (standin::refuse_in_capture() != cudaSuccess) /* it loads its kernels when it launches them */
        return CUBLAS_STATUS_NOT_SUPPORTED;
    std::memcpy(&chosen, given, sizeof chosen);
    if (!is_problem(o, la, lb, lc, ld) || bytes < chosen.workspace || (chosen.workspace > 0 && !workspace) ||
        reinterpret_cast<uintptr_t>(workspace) % WORKSPACE_ALIGNMENT != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    check_alignment("A", A, la, chosen.alignment[0]);
    check_alignment("B", B, lb, chosen.alignment[1]);
    check_alignment("C", C, lc, chosen.alignment[2]);
    check_alignment("D", D, ld, chosen.alignment[3]);
    const product p = {o, la, lb, lc, ld, scalar(o, alpha), scalar(o, beta), A, B, C, D};
    standin::stream_of(stream)->add_on_memory([=] {
        std::memset(workspace, 0xff, chosen.workspace);
        multiply(p);
    });
    return CUBLAS_STATUS_SUCCESS;
}

}
