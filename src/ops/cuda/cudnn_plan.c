/* Engines for a graph of operations. cuDNN proposes some, its best first: the first whose notes are those of the
 * library's numbers, and that can be built, is the plan's. */
#include "ops/cuda/cudnn_graph.h"

#include "core/base/status.h"
#include "core/device/cuda/library.h"

enum { MOST_PROPOSALS = 128, MOST_NOTES = 16 };

#define TEXT_OF(number) #number
#define FILE_OF(major) "libcudnn.so." TEXT_OF(major)

int stni_cudnn_load(struct stni_cudnn_functions *call)
{
    static const char *const files[] = {FILE_OF(CUDNN_MAJOR), "libcudnn.so", NULL};
    const struct stni_cuda_symbol symbols[] = {
        {"cudnnGetVersion", &call->version},
        {"cudnnCreate", &call->create},
        {"cudnnDestroy", &call->destroy},
        {"cudnnSetStream", &call->set_stream},
        {"cudnnBackendCreateDescriptor", &call->descriptor_create},
        {"cudnnBackendDestroyDescriptor", &call->descriptor_destroy},
        {"cudnnBackendSetAttribute", &call->set},
        {"cudnnBackendGetAttribute", &call->get},
        {"cudnnBackendFinalize", &call->finalize},
        {"cudnnBackendExecute", &call->execute},
    };
    return stni_cuda_load(files, symbols, sizeof symbols / sizeof *symbols);
}

struct maker {
    const struct stni_cudnn_functions *call;
    const struct stni_cudnn_problem *problem;
    cudnnBackendDescriptor_t device, operations; /* operations: the graph */
    struct stni_cudnn_graph graph;
};

/* Whether factors are of f32, and may not be rounded. */
static int is_exact(const struct stni_cudnn_problem *problem)
{
    const struct stni_cudnn_conv *conv = &problem->of.conv;
    return problem->kind == STNI_CUDNN_CONV && conv->problem.dtype == STN_DTYPE_F32 && !conv->allow_tf32;
}

/* Whether an engine keeps to the library's numbers. Tensor cores multiply f32 as TF32, and add up 16-bit floats in
 * f32. */
static int is_strict(const struct maker *m, cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[MOST_NOTES];
    int64_t n = 0;
    uint32_t unwanted =
        1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS | 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION |
        1u << CUDNN_NUMERICAL_NOTE_FFT | 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC |
        1u << CUDNN_NUMERICAL_NOTE_WINOGRAD | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 |
        1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    if (is_exact(m->problem))
        unwanted |= 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    const struct stni_cudnn_functions *const call = m->graph.call;
    stn_status status = stni_cudnn_status_of(call->descriptor_create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
    if (status == STN_OK)
        status = stni_cudnn_status_of(
            call->get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine));
    if (status == STN_OK)
        status = stni_cudnn_status_of(
            call->get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES, &n, notes));
    int strict = status == STN_OK;
    for (int64_t i = 0; strict && i < n && i < MOST_NOTES; i++)
        strict = !(unwanted >> notes[i] & 1);
    if (engine)
        call->descriptor_destroy(engine);
    return strict;
}

/* A plan of one configuration. */
static stn_status build(struct maker *m, cudnnBackendDescriptor_t config)
{
    struct stni_cudnn_graph *graph = &m->graph;
    cudnnBackendDescriptor_t plan = NULL;
    int64_t bytes = 0, n = 0;
    STNI_TRY(stni_cudnn_status_of(graph->call->descriptor_create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan)));
    stni_cudnn_set_part(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    stni_cudnn_set_part(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, m->device);
    stni_cudnn_finish(graph, plan);
    stn_status status = graph->status;
    graph->status = STN_OK; /* for the next one */
    if (status == STN_OK)
        status = stni_cudnn_status_of(
            graph->call->get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &bytes));
    if (status != STN_OK) {
        graph->call->descriptor_destroy(plan);
        return status;
    }
    graph->plan->plan = plan;
    graph->plan->workspace = (size_t)bytes;
    return STN_OK;
}

/* Takes the configuration that serves out of the list. */
static stn_status build_first(struct maker *m, int n, cudnnBackendDescriptor_t *configs)
{
    for (int i = 0; i < n; i++)
        if (is_strict(m, configs[i]) && build(m, configs[i]) == STN_OK) {
            m->graph.plan->config = configs[i];
            configs[i] = NULL;
            return STN_OK;
        }
    return STN_ERR_UNSUPPORTED;
}

/* A heuristic, which proposes configurations. */
static stn_status ask(struct maker *m, cudnnBackendHeurMode_t mode, cudnnBackendDescriptor_t *out)
{
    struct stni_cudnn_graph *graph = &m->graph;
    graph->status = STN_OK;
    *out = stni_cudnn_part(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    stni_cudnn_set_part(graph, *out, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, m->operations);
    stni_cudnn_set(graph, *out, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    stni_cudnn_set_part(graph, *out, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, m->device);
    stni_cudnn_finish(graph, *out);
    return graph->status;
}

/* The first proposal of a heuristic that serves. */
static stn_status choose(struct maker *m, cudnnBackendHeurMode_t mode)
{
    const struct stni_cudnn_functions *const call = m->graph.call;
    cudnnBackendDescriptor_t configs[MOST_PROPOSALS] = {NULL}, heuristic = NULL;
    stn_status status = ask(m, mode, &heuristic);
    int64_t n = 0;
    for (int i = 0; i < MOST_PROPOSALS && status == STN_OK; i++)
        status = stni_cudnn_status_of(call->descriptor_create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]));
    if (status == STN_OK)
        status = stni_cudnn_status_of(call->get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                MOST_PROPOSALS, &n, configs));
    if (status == STN_OK)
        status = build_first(m, (int)n, configs);
    for (int i = 0; i < MOST_PROPOSALS; i++)
        if (configs[i])
            call->descriptor_destroy(configs[i]);
    return status;
}

/* Of the gradient of an f32 weight, without TF32, two engines of cuDNN 9.19 serve. One of them gives each tile of the
 * weight to one block, which adds up all pixels, so that it takes some 25 ns for each pixel of y on an H200, however
 * few channels there are. For row-major images mode A proposes it first where it is the slower one; mode B, which cuDNN
 * says is better and takes longer to ask, does not. */
static int prefers_mode_b(const struct stni_cudnn_problem *problem)
{
    return is_exact(problem) && problem->of.conv.problem.kind == STNI_CONV_GRAD_WEIGHT;
}

stn_status stni_cudnn_plan_make(const struct stni_cudnn_functions *call, cudnnBackendDescriptor_t device,
                                const struct stni_cudnn_problem *problem, struct stni_cudnn_plan *plan)
{
    struct maker m = {.problem = problem, .device = device, .graph = {.call = call, .plan = plan}};
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    m.operations = stni_cudnn_describe(&m.graph, problem);
    STNI_TRY(m.graph.status);
    stn_status status = STN_ERR_UNSUPPORTED;
    for (int i = prefers_mode_b(problem) ? 0 : 1; i < 3 && status != STN_OK; i++)
        status = choose(&m, modes[i]);
    return status;
}

void stni_cudnn_plan_destroy(const struct stni_cudnn_functions *call, struct stni_cudnn_plan *plan)
{
    if (plan->plan)
        call->descriptor_destroy(plan->plan);
    if (plan->config)
        call->descriptor_destroy(plan->config);
    while (plan->n > 0)
        call->descriptor_destroy(plan->part[--plan->n]);
    *plan = (struct stni_cudnn_plan){0};
}
