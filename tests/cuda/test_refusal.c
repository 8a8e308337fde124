/* Where there is no GPU that serves, the module says why: a status, a text, and nothing printed. The run hides GPUs
 * from the runtime; others, on the stand-in, are of drivers and GPUs that are too old, and of a GPU beside another. */
#include "harness.h"

#include <shardtensor/shardtensor.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void check_refused(const char *device, const char *part, const char *other)
{
    char text[512] = "";
    stn_context_options options = {.size = sizeof options,
                                   .device = device,
                                   .module_path = CUDA_FOLDER,
                                   .error_text = text,
                                   .error_text_size = sizeof text};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_ERR_DEVICE);
    CHECK(context == NULL);
    if (!CHECK(strstr(text, part) != NULL && strstr(text, other) != NULL))
        fprintf(stderr, "  text got \"%s\", wanted \"%s\" and \"%s\" in it\n", text, part, other);
    stn_context_destroy(&context);
}

/* With the runtime's own words. */
static void device_is_refused_with_a_text(void)
{
    check_refused("cuda", "module 'cuda': device 0 did not open: ", "CUDA");
}

static void named_device_is_refused_with_its_number(void)
{
    check_refused("cuda:3", "device 3", "CUDA");
}

static void missing_driver_is_named(void)
{
    check_refused("cuda", "no CUDA driver was found", "insufficient");
}

static void old_driver_is_refused_with_both_versions(void)
{
    check_refused("cuda", "the driver's CUDA version got 12.4, wanted 13.0 or later", "built with CUDA 13.1");
}

static void gpu_without_code_is_refused_before_a_kernel(void)
{
    check_refused("cuda", "compute capability got 7.5", "-Dnvcc_archs=80,90");
}

/* Of a driver of the same major version, which runs machine code of later compilers but does not read their PTX. */
static void ptx_wants_a_driver_of_its_compiler(void)
{
    check_refused("cuda", "the driver's CUDA version got 13.0, wanted 13.1 or later", "compute capability 10.0");
}

static void check_served(void)
{
    char text[512] = "";
    stn_context_options options = {.size = sizeof options,
                                   .device = "cuda",
                                   .module_path = CUDA_FOLDER,
                                   .error_text = text,
                                   .error_text_size = sizeof text};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    CHECK_STR(text, "");
    stn_context_destroy(&context);
}

/* Another process has GPU 0 to itself, and it is the current one of a thread that has used none. */
static void a_gpu_that_is_taken_is_refused(void)
{
    check_refused("cuda:0", "module 'cuda': device 0 did not open: ", "busy or unavailable");
}

static void *open_second_gpu(void *context)
{
    stn_context_options options = {.size = sizeof options, .device = "cuda:1", .module_path = CUDA_FOLDER};
    CHECK_STATUS(stn_context_create(&options, context), STN_OK);
    return NULL;
}

static void check_doubled(stn_context *context)
{
    const int64_t n = 3;
    const float numbers[] = {1, 2, 3};
    float got[3] = {0};
    const stn_spec *spec = NULL;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, &n, NULL, &spec), STN_OK);
    stn_to_host(stn_mul_number(stn_from_host(context, spec, numbers), 2), got, sizeof got);
    stn_spec_release(&spec);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK_NEAR(got[2], 6, 0);
}

/* Of threads that have no way back to their current GPU: the one that opens, and another. */
static void the_gpu_beside_one_that_is_taken_works(void)
{
    stn_context *context = NULL;
    pthread_t thread;
    if (!CHECK_I64(pthread_create(&thread, NULL, open_second_gpu, &context), 0))
        return;
    pthread_join(thread, NULL);
    if (context != NULL)
        check_doubled(context);
    stn_context_destroy(&context);
}

static stn_tensor *ones(stn_context *context, int ndim, const int64_t *shape)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, ndim, shape, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_ones(context, spec);
    stn_spec_release(&spec);
    return tensor;
}

static void check_sum(stn_tensor *tensor, double want)
{
    float got = 0;
    CHECK_STATUS(stn_to_host(stn_sum(tensor, 0, NULL, 0), &got, sizeof got), STN_OK);
    CHECK_NEAR(got, want, 1e-6);
}

/* The thread's current GPU stays the first one, which the process uses too: handles and tables of libraries that are
 * made meanwhile are the second one's all the same. */
static void libraries_serve_the_second_gpu(void)
{
    enum { SIDE = 8, WINDOW = 3, LEFT = SIDE - WINDOW + 1 };
    const int64_t square[] = {SIDE, SIDE}, image[] = {1, 1, SIDE, SIDE}, window[] = {1, 1, WINDOW, WINDOW};
    stn_context *context = NULL;
    check_served();
    open_second_gpu(&context);
    stn_scope_begin(context);
    check_sum(stn_matmul(ones(context, 2, square), ones(context, 2, square)), SIDE * SIDE * SIDE);
    check_sum(stn_conv2d(ones(context, 4, image), ones(context, 4, window), NULL, NULL), LEFT * LEFT * WINDOW * WINDOW);
    check_sum(stn_view_as_real(stn_rfft(ones(context, 2, square), 0, 1, STN_FFT_BACKWARD)), SIDE * SIDE);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
}

static stn_status add_up(stn_context *context, void *arg)
{
    const stn_placement shard = stn_shard(0);
    const int64_t n = 5;
    const int size = stn_context_size(context);
    const stn_mesh *mesh = NULL;
    const stn_spec *spec = NULL;
    double sum = 0;
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_mesh_create(context, 1, &size, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, &shard, STN_DTYPE_F32, 1, &n, NULL, &spec), STN_OK);
    CHECK(stn_item(stn_sum(stn_ones(context, spec), 0, NULL, 0), &sum) != STN_OK);
    CHECK(strstr(stn_context_error_text(context), "the GPUs have no peer access") != NULL);
    stn_spec_release(&spec);
    stn_scope_end(context);
    return STN_OK;
}

/* Thread ranks read each other's memory. */
static void ranks_on_gpus_without_peer_access_are_told_so(void)
{
    const stn_launch_options options = {.size = sizeof options, .ranks = 2,
                                        .context = {.size = sizeof options.context, .device = "cuda",
                                                    .module_path = CUDA_FOLDER, .without = "nccl"}};
    stn_launch(&options, add_up, NULL);
}

static void later_gpu_of_the_same_major_architecture_is_served(void)
{
    check_served();
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"device_is_refused_with_a_text", device_is_refused_with_a_text},
        {"named_device_is_refused_with_its_number", named_device_is_refused_with_its_number},
        {"missing_driver_is_named", missing_driver_is_named},
        {"old_driver_is_refused_with_both_versions", old_driver_is_refused_with_both_versions},
        {"gpu_without_code_is_refused_before_a_kernel", gpu_without_code_is_refused_before_a_kernel},
        {"ptx_wants_a_driver_of_its_compiler", ptx_wants_a_driver_of_its_compiler},
        {"a_gpu_that_is_taken_is_refused", a_gpu_that_is_taken_is_refused},
        {"the_gpu_beside_one_that_is_taken_works", the_gpu_beside_one_that_is_taken_works},
        {"libraries_serve_the_second_gpu", libraries_serve_the_second_gpu},
        {"ranks_on_gpus_without_peer_access_are_told_so", ranks_on_gpus_without_peer_access_are_told_so},
        {"later_gpu_of_the_same_major_architecture_is_served", later_gpu_of_the_same_major_architecture_is_served},
    };
    return TEST_MAIN(argc, argv, cases);
}
