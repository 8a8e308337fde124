#include "conv_problems.h"

#include "harness.h"

#include "conform/cast.h"
#include "conform/rank.h"
#include "core/context/context.h"
#include "ops/conv/conv_kernel.h"
#include "ops/cpu/widen.h"

#include <shardtensor/shardtensor.h>

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct conv_problems *found; /* with the lock */

static int is_empty(const struct stni_conv_problem *p)
{
    int64_t elements = p->n * p->c * p->o;
    for (int d = 0; d < p->dims; d++)
        elements *= p->in[d] * p->out[d];
    return elements == 0;
}

/* As conv_cuda.cu asks for it. */
static struct stni_cudnn_conv as_asked(const struct stni_conv_args *args)
{
    struct stni_cudnn_conv conv;
    memset(&conv, 0, sizeof conv);
    conv.problem = args->problem;
    conv.problem.has_bias = 0;
    conv.adds = args->problem.has_bias || args->adds_bias;
    return conv;
}

static void add(const struct stni_cudnn_conv *conv)
{
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < found->n && memcmp(&found->list[i], conv, sizeof *conv) != 0)
        i++;
    if (i == found->n && CHECK(i < CONV_PROBLEMS_MOST))
        found->list[found->n++] = *conv;
    pthread_mutex_unlock(&lock);
}

/* The CPU's kernel has gradients of 16-bit weights in f32 only. */
static struct stni_conv_args for_cpu(const struct stni_conv_args *args)
{
    struct stni_conv_args wide = *args;
    if (wide.problem.kind == STNI_CONV_GRAD_WEIGHT)
        wide.problem.weight_dtype = stni_wide_dtype((stn_dtype)wide.problem.dtype);
    return wide;
}

static size_t workspace_on_cpu(stn_queue *queue, const void *args)
{
    const struct stni_conv_args wide = for_cpu(args);
    return stni_conv_cpu_workspace(queue, &wide);
}

static stn_status solve_on_cpu(stn_queue *queue, const struct stni_conv_args *args)
{
    struct stni_conv_args wide = for_cpu(args);
    struct stni_conv_narrow_args narrow = {.dtype = (stn_dtype)args->problem.dtype, .dst = args->data.weight};
    if (wide.problem.weight_dtype == args->problem.weight_dtype)
        return stni_conv_cpu(queue, args);
    narrow.n = args->problem.o * args->problem.c / args->problem.groups;
    for (int d = 0; d < args->problem.dims; d++)
        narrow.n *= args->problem.kernel[d];
    wide.data.weight = malloc((size_t)narrow.n * sizeof(float) + 1);
    narrow.src = wide.data.weight;
    const stn_status solved = stni_conv_cpu(queue, &wide);
    const stn_status narrowed = stni_conv_narrow_cpu(queue, &narrow);
    free(wide.data.weight);
    return solved == STN_OK ? narrowed : solved;
}

static stn_status note_and_solve(stn_queue *queue, const void *given)
{
    const struct stni_conv_args *args = given;
    const struct stni_cudnn_conv conv = as_asked(args);
    CHECK_I64(args->data.images, 1);
    CHECK(args->problem.kind != STNI_CONV_GRAD_WEIGHT || !args->data.accumulate);
    if (!is_empty(&args->problem))
        add(&conv);
    return solve_on_cpu(queue, args);
}

static void register_kernels(stn_context *context)
{
    static const char *const names[] = {
        "conv1d.solve",             "conv2d.solve",             "conv3d.solve",
        "conv_transpose1d.solve",   "conv_transpose2d.solve",   "conv_transpose3d.solve",
        "conv1d_grad_input.solve",  "conv2d_grad_input.solve",  "conv3d_grad_input.solve",
        "conv1d_grad_weight.solve", "conv2d_grad_weight.solve", "conv3d_grad_weight.solve"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const stn_kernel kernel = {
            .size = sizeof kernel, .name = names[i], .device = "cpu", .dtypes = STNI_CONV_DTYPES,
            .args_size = sizeof(struct stni_conv_args), .function = note_and_solve, .workspace = workspace_on_cpu};
        CHECK_STATUS(stn_kernel_register(context, &kernel), STN_OK);
    }
}

static stn_status run_rank(stn_context *context, void *arg)
{
    const struct conform_case *c = arg;
    const int ranks = stn_context_size(context), dims = c->input[1].ndim - 2;
    const struct layout whole = {.axis_order = {0, 1, 2, 3, 4, 5, 6, 7}, .memory_order = {0, 1, 2, 3, 4, 5, 6, 7}};
    struct layout layouts[STN_MAX_INPUTS];
    const struct configuration configuration = {.layouts = layouts};
    struct outcome outcome = {0};
    const stn_mesh *mesh = NULL;
    for (int i = 0; i < c->n_inputs; i++)
        layouts[i] = whole;
    if (ranks > 1)
        layouts[0].placement[0] = stn_shard(c->input[0].ndim - dims);
    CHECK_STATUS(stn_mesh_create(context, 1, &ranks, NULL, NULL, &mesh), STN_OK);
    register_kernels(context);
    context->joins_halos = 1;
    rank_run(context, mesh, c, &configuration, &outcome);
    CHECK_STATUS(outcome.status, STN_OK);
    CHECK_STR(outcome.text, "");
    return outcome.status;
}

static void run_case_of(const char *path, stn_dtype dtype, int ranks)
{
    static struct conform_case c;
    char text[512] = "";
    const stn_launch_options options = {.size = sizeof options, .ranks = ranks};
    if (!CHECK(case_read(path, &c, text, sizeof text)))
        return;
    if (dtype == STN_DTYPE_F32 || CHECK_I64(case_cast(&c, dtype, text, sizeof text), CAST_DONE))
        CHECK_STATUS(stn_launch(&options, run_rank, &c), STN_OK);
    if (!CHECK_STR(text, ""))
        fprintf(stderr, "  %s\n", path);
    case_free(&c);
}

void conv_problems_add(struct conv_problems *problems, const char *folder, stn_dtype dtype, int ranks)
{
    char pattern[4096];
    glob_t files;
    snprintf(pattern, sizeof pattern, "%s/conv*.safetensors", folder);
    found = problems;
    if (!CHECK_I64(glob(pattern, 0, NULL, &files), 0))
        return;
    for (size_t i = 0; i < files.gl_pathc; i++)
        run_case_of(files.gl_pathv[i], dtype, ranks);
    problems->cases = (int)files.gl_pathc;
    globfree(&files);
}
