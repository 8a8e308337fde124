/* cuBLASLt's matrices lie by columns, so that C's transpose is asked for, B^T A^T, whose memory is C's by rows.
 *
 * Reductions of a sum that is split go through the compute type: in the output's they would round to 16 bits on the
 * way, and those in place come in any order. */
#include "ops/cuda/cublaslt.h"

#include "core/base/status.h"
#include "core/device/cuda/library.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#define TEXT_OF(number) #number
#define FILE_OF(major) "libcublasLt.so." TEXT_OF(major)

enum { MOST_WORKSPACE = 32 << 20 /* bytes, what its makers advise for the largest GPUs */ };

struct functions {
    __typeof__(cublasLtCreate) *create;
    __typeof__(cublasLtDestroy) *destroy;
    __typeof__(cublasLtMatmulDescCreate) *desc_create;
    __typeof__(cublasLtMatmulDescSetAttribute) *desc_set;
    __typeof__(cublasLtMatmulDescDestroy) *desc_destroy;
    __typeof__(cublasLtMatrixLayoutCreate) *layout_create;
    __typeof__(cublasLtMatrixLayoutSetAttribute) *layout_set;
    __typeof__(cublasLtMatrixLayoutDestroy) *layout_destroy;
    __typeof__(cublasLtMatmulPreferenceCreate) *preference_create;
    __typeof__(cublasLtMatmulPreferenceSetAttribute) *preference_set;
    __typeof__(cublasLtMatmulPreferenceDestroy) *preference_destroy;
    __typeof__(cublasLtMatmulAlgoGetHeuristic) *heuristic;
    __typeof__(cublasLtMatmul) *multiply;
};

/* A context's. */
struct library {
    struct stni_cuda_opened opened;
    struct functions call;
    cublasLtHandle_t handle;
};

enum { LEFT, RIGHT, RESULT, MATRICES }; /* of cuBLASLt's product: B^T, A^T, C^T */

struct plan {
    struct stni_cuda_plan head;
    struct stni_cublaslt_product product;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout[MATRICES];
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace; /* bytes */
};

_Static_assert(offsetof(struct plan, product) == sizeof(struct stni_cuda_plan), "the problem follows the plan's head");

/* Whatever it fails for, it refuses. */
static stn_status status_of(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? STN_OK : STN_ERR_UNSUPPORTED;
}

static const struct library *library_of(const struct plan *plan)
{
    return plan->head.state;
}

static void plan_destroy(struct stni_cuda_plan *head)
{
    struct plan *plan = (struct plan *)head;
    const struct functions *call = &library_of(plan)->call;
    for (int i = 0; i < MATRICES; i++)
        if (plan->layout[i])
            call->layout_destroy(plan->layout[i]);
    if (plan->desc)
        call->desc_destroy(plan->desc);
}

static int load(struct functions *call)
{
    static const char *const files[] = {FILE_OF(CUBLAS_VER_MAJOR), "libcublasLt.so", NULL};
    const struct stni_cuda_symbol symbols[] = {
        {"cublasLtCreate", &call->create},
        {"cublasLtDestroy", &call->destroy},
        {"cublasLtMatmulDescCreate", &call->desc_create},
        {"cublasLtMatmulDescSetAttribute", &call->desc_set},
        {"cublasLtMatmulDescDestroy", &call->desc_destroy},
        {"cublasLtMatrixLayoutCreate", &call->layout_create},
        {"cublasLtMatrixLayoutSetAttribute", &call->layout_set},
        {"cublasLtMatrixLayoutDestroy", &call->layout_destroy},
        {"cublasLtMatmulPreferenceCreate", &call->preference_create},
        {"cublasLtMatmulPreferenceSetAttribute", &call->preference_set},
        {"cublasLtMatmulPreferenceDestroy", &call->preference_destroy},
        {"cublasLtMatmulAlgoGetHeuristic", &call->heuristic},
        {"cublasLtMatmul", &call->multiply},
    };
    return stni_cuda_load(files, symbols, sizeof symbols / sizeof *symbols);
}

static int open_library(void *state)
{
    struct library *library = state;
    return load(&library->call) && library->call.create(&library->handle) == CUBLAS_STATUS_SUCCESS;
}

static void close_library(void *state)
{
    struct library *library = state;
    if (library->opened.is_open)
        library->call.destroy(library->handle);
}

static cudaDataType_t type_of(int32_t dtype)
{
    static const cudaDataType_t types[] = {[STN_DTYPE_F64] = CUDA_R_64F,
                                           [STN_DTYPE_F32] = CUDA_R_32F,
                                           [STN_DTYPE_F16] = CUDA_R_16F,
                                           [STN_DTYPE_BF16] = CUDA_R_16BF};
    return types[dtype];
}

static cublasComputeType_t compute_of(const struct stni_cublaslt_product *product)
{
    if (product->dtype == STN_DTYPE_F64)
        return CUBLAS_COMPUTE_64F;
    return product->allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static stn_status make_desc(struct plan *plan)
{
    const struct stni_cublaslt_product *p = &plan->product;
    const struct functions *call = &library_of(plan)->call;
    const int wide = p->dtype == STN_DTYPE_F64;
    const cublasOperation_t left = p->b_by_columns ? CUBLAS_OP_T : CUBLAS_OP_N,
                            right = p->a_by_columns ? CUBLAS_OP_T : CUBLAS_OP_N;
    STNI_TRY(status_of(call->desc_create(&plan->desc, compute_of(p), wide ? CUDA_R_64F : CUDA_R_32F)));
    STNI_TRY(status_of(call->desc_set(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left)));
    return status_of(call->desc_set(plan->desc, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right));
}

/* A matrix of so many dense elements a line. */
static stn_status make_layout(struct plan *plan, int matrix, int64_t dense, int64_t lines, int64_t line, int64_t step)
{
    const struct functions *call = &library_of(plan)->call;
    cublasLtMatrixLayout_t *layout = &plan->layout[matrix];
    const int32_t batch = (int32_t)plan->product.batch;
    STNI_TRY(
        status_of(call->layout_create(layout, type_of(plan->product.dtype), (uint64_t)dense, (uint64_t)lines, line)));
    STNI_TRY(status_of(call->layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch)));
    return status_of(call->layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
}

static stn_status set_preference(const struct plan *plan, cublasLtMatmulPreference_t preference)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const struct functions *call = &library_of(plan)->call;
    const size_t workspace = MOST_WORKSPACE;
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = (uint32_t)plan->product.alignment;
    STNI_TRY(status_of(
        call->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace)));
    STNI_TRY(status_of(
        call->preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions)));
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        STNI_TRY(status_of(call->preference_set(preference, alignments[i], &alignment, sizeof alignment)));
    return STN_OK;
}

static stn_status choose_algorithm(struct plan *plan)
{
    const struct functions *call = &library_of(plan)->call;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int n = 0;
    STNI_TRY(status_of(call->preference_create(&preference)));
    stn_status status = set_preference(plan, preference);
    if (status == STN_OK)
        status =
            status_of(call->heuristic(library_of(plan)->handle, plan->desc, plan->layout[LEFT], plan->layout[RIGHT],
                                      plan->layout[RESULT], plan->layout[RESULT], preference, 1, &best, &n));
    call->preference_destroy(preference);
    if (status != STN_OK || n == 0 || best.state != CUBLAS_STATUS_SUCCESS)
        return STN_ERR_UNSUPPORTED;
    plan->algorithm = best.algo;
    plan->workspace = best.workspaceSize;
    return STN_OK;
}

static stn_status make(struct stni_cuda_plan *head)
{
    struct plan *plan = (struct plan *)head;
    const struct stni_cublaslt_product *p = &plan->product;
    if (p->batch > INT32_MAX)
        return STN_ERR_UNSUPPORTED;
    STNI_TRY(make_desc(plan));
    STNI_TRY(
        make_layout(plan, LEFT, p->b_by_columns ? p->k : p->n, p->b_by_columns ? p->n : p->k, p->b_line, p->b_batch));
    STNI_TRY(
        make_layout(plan, RIGHT, p->a_by_columns ? p->m : p->k, p->a_by_columns ? p->k : p->m, p->a_line, p->a_batch));
    STNI_TRY(make_layout(plan, RESULT, p->n, p->m, p->c_line, p->c_batch));
    return choose_algorithm(plan);
}

static const struct stni_cuda_planner planner = {
    .library = STNI_CUDA_CUBLASLT,
    .name = "cublaslt",
    .state_bytes = sizeof(struct library),
    .plan_bytes = sizeof(struct plan),
    .problem_bytes = sizeof(struct stni_cublaslt_product),
    .open = open_library,
    .close = close_library,
    .make = make,
    .destroy = plan_destroy,
};

static stn_status find(stn_queue *queue, const struct stni_cublaslt_product *product, struct plan **out)
{
    struct stni_cuda_plan *found = NULL;
    STNI_TRY(stni_cuda_plan_of(queue, &planner, product, &found));
    *out = (struct plan *)found;
    return STN_OK;
}

stn_status stni_cublaslt_workspace(stn_queue *queue, const struct stni_cublaslt_product *product, size_t *bytes)
{
    struct plan *plan = NULL;
    STNI_TRY(find(queue, product, &plan));
    *bytes = plan->workspace;
    return STN_OK;
}

stn_status stni_cublaslt_multiply(stn_queue *queue, const struct stni_cublaslt_product *product, const void *a,
                                  const void *b, void *c, void *workspace)
{
    static const float one = 1, factors[] = {0, 1};
    static const double one_wide = 1, factors_wide[] = {0, 1};
    const int wide = product->dtype == STN_DTYPE_F64;
    struct plan *plan = NULL;
    STNI_TRY(find(queue, product, &plan));
    if (stni_cuda_host()->queue_without(queue, "cublaslt", STN_LIBRARY_RUN) || (plan->workspace > 0 && !workspace))
        return STN_ERR_UNSUPPORTED;
    const void *alpha = wide ? (const void *)&one_wide : &one;
    const void *beta = wide ? (const void *)&factors_wide[product->adds] : &factors[product->adds];
    const struct functions *call = &library_of(plan)->call;
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const stn_status status =
        status_of(call->multiply(library_of(plan)->handle, plan->desc, alpha, b, plan->layout[LEFT], a,
                                 plan->layout[RIGHT], beta, c, plan->layout[RESULT], c, plan->layout[RESULT],
                                 &plan->algorithm, workspace, plan->workspace, stni_cuda_stream(queue)));
    stni_cuda_permit_in_capture(mode);
    if (status != STN_OK)
        cudaGetLastError(); /* kept, it would fail the launch of our own kernel */
    return status;
}
