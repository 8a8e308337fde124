/* The modules' door: what is found, and what is refused. */
#include "harness.h"

#include "core/context/context.h"
#include "core/context/module.h"

#include <stdio.h>
#include <string.h>

static char text[512];

static stn_status open_comm(const char *module, const char *words)
{
    stn_comm_options options = {.size = sizeof options,
                                .module_path = PROBE_FOLDER,
                                .text = words,
                                .error_text = text,
                                .error_text_size = sizeof text};
    stn_comm *comm = NULL;
    text[0] = '\0';
    stn_status status = stn_comm_open(module, &options, &comm);
    stn_comm_destroy(&comm);
    return status;
}

static stn_status open_device(const char *device)
{
    stn_context_options options = {.size = sizeof options,
                                   .device = device,
                                   .module_path = PROBE_FOLDER,
                                   .error_text = text,
                                   .error_text_size = sizeof text};
    stn_context *context = NULL;
    text[0] = '\0';
    stn_status status = stn_context_create(&options, &context);
    stn_context_destroy(&context);
    return status;
}

static void check_text(const char *part)
{
    if (!CHECK(strstr(text, part) != NULL))
        fprintf(stderr, "  \"%s\" is not in \"%s\"\n", part, text);
}

static void module_that_is_nowhere_is_named_with_the_folders(void)
{
    CHECK_STATUS(open_comm("absent", NULL), STN_ERR_NOT_FOUND);
    check_text("libshardtensor-absent.so");
    check_text(PROBE_FOLDER);
    CHECK_STATUS(open_device("absent:1"), STN_ERR_NOT_FOUND);
    check_text("libshardtensor-absent.so");
    CHECK_STATUS(stn_comm_open("absent", NULL, &(stn_comm *){NULL}), STN_ERR_NOT_FOUND);
}

static void names_that_are_paths_are_refused(void)
{
    static const char *const wrong[] = {
        "", "../probe", "a/b", "Probe", "probe.so", "a_name_that_is_longer_than_any_module", NULL};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_STATUS(open_comm(wrong[i], NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(open_device("probe:"), STN_ERR_ARGUMENT);
    CHECK_STATUS(open_device("probe:1x"), STN_ERR_ARGUMENT);
    CHECK_STATUS(open_device("probe:-1"), STN_ERR_ARGUMENT);
    check_text("probe:-1");
    CHECK_STATUS(open_device("a_name_that_is_longer_than_any_module:1"), STN_ERR_ARGUMENT);
    check_text("device got \"a_name_that_is_longer_than_any_module:1\"");
}

static void another_abi_is_refused_with_both_numbers(void)
{
    CHECK_STATUS(open_comm("other_abi", NULL), STN_ERR_VERSION);
    check_text("4711");
    check_text("wanted 1");
    CHECK_STATUS(open_device("other_abi"), STN_ERR_VERSION);
}

static void entries_beyond_a_smaller_table_are_absent(void)
{
    CHECK_STATUS(open_comm("short_table", NULL), STN_ERR_UNSUPPORTED);
    check_text("no communicator");
    CHECK_STATUS(open_device("short_table"), STN_ERR_UNSUPPORTED);
    check_text("core.box_copy");
}

static void entries_that_are_missing_are_named(void)
{
    static const char *const entries[] = {"size",       "allocate",   "deallocate",   "queue_create",  "queue_destroy",
                                          "queue_sync", "launch",     "event_create", "event_destroy", "event_record",
                                          "queue_wait", "event_sync", "copy"};
    char device[32], part[64];
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        snprintf(device, sizeof device, "bare_table:%zu", i);
        snprintf(part, sizeof part, "lacks a right %s:", entries[i]);
        CHECK_STATUS(open_device(device), i == 0 ? STN_ERR_VERSION : STN_ERR_ARGUMENT);
        check_text(part);
    }
    CHECK_STATUS(open_comm("bare_table", NULL), STN_ERR_ARGUMENT);
    check_text("table of 0 bytes lacks a right size");
}

static void file_without_the_function_is_refused(void)
{
    CHECK_STATUS(open_comm("no_function", NULL), STN_ERR_NOT_FOUND);
    check_text("stn_module_no_function");
}

static void what_the_module_refuses_comes_back_as_its_status(void)
{
    CHECK_STATUS(open_comm("probe", "nonsense"), STN_ERR_ARGUMENT);
    check_text("'probe'");
    CHECK_STATUS(open_device("probe:7"), STN_ERR_DEVICE);
    check_text("device 7");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"module_that_is_nowhere_is_named_with_the_folders", module_that_is_nowhere_is_named_with_the_folders},
        {"names_that_are_paths_are_refused", names_that_are_paths_are_refused},
        {"another_abi_is_refused_with_both_numbers", another_abi_is_refused_with_both_numbers},
        {"entries_beyond_a_smaller_table_are_absent", entries_beyond_a_smaller_table_are_absent},
        {"entries_that_are_missing_are_named", entries_that_are_missing_are_named},
        {"file_without_the_function_is_refused", file_without_the_function_is_refused},
        {"what_the_module_refuses_comes_back_as_its_status", what_the_module_refuses_comes_back_as_its_status},
    };
    return TEST_MAIN(argc, argv, cases);
}
