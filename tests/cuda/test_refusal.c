/* Where there is no GPU the module says so: a status, a text, and nothing printed. The run hides GPUs from the runtime. */
#include "harness.h"

#include <shardtensor/shardtensor.h>

#include <string.h>

static void device_is_refused_with_a_text(void)
{
    char text[512] = "";
    stn_context_options options = {.size = sizeof options, .device = "cuda", .module_path = CUDA_FOLDER, .error_text = text,
                                   .error_text_size = sizeof text};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_ERR_DEVICE);
    CHECK(context == NULL);
    CHECK(strstr(text, "module 'cuda': device 0 did not open") != NULL);
    CHECK(strstr(text, "CUDA") != NULL); /* the runtime's own words */
}

static void named_device_is_refused_with_its_number(void)
{
    char text[512] = "";
    stn_context_options options = {.size = sizeof options, .device = "cuda:3", .module_path = CUDA_FOLDER, .error_text = text,
                                   .error_text_size = sizeof text};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_ERR_DEVICE);
    CHECK(strstr(text, "device 3") != NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"device_is_refused_with_a_text", device_is_refused_with_a_text},
        {"named_device_is_refused_with_its_number", named_device_is_refused_with_its_number},
    };
    return TEST_MAIN(argc, argv, cases);
}
