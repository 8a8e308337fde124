/* Where there is no GPU that serves, the module says why: a status, a text, and nothing printed. The run hides GPUs
 * from the runtime; others, on the stand-in, are of drivers and GPUs that are too old. */
#include "harness.h"

#include <shardtensor/shardtensor.h>

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
        {"later_gpu_of_the_same_major_architecture_is_served", later_gpu_of_the_same_major_architecture_is_served},
    };
    return TEST_MAIN(argc, argv, cases);
}
