/* Where a chunk's bytes lie in a file; the header's text. */
#include "harness.h"

#include "core/base/host_alloc.h"
#include "train/file_layout.h"

#include <string.h>

static void headers_are_json_with_offsets_and_end_at_a_multiple_of_8(void)
{
    const int64_t a[] = {2, 3}, b[] = {0, 5};
    struct stni_file_entry entries[] = {{.name = "a\"b", .dtype = STN_DTYPE_F32, .ndim = 2, .shape = a},
                                        {.name = "empty", .dtype = STN_DTYPE_BF16, .ndim = 2, .shape = b},
                                        {.name = "one", .dtype = STN_DTYPE_I64, .ndim = 0, .shape = NULL}};
    const stn_metadata metadata[] = {{"k\n", "v\\"}};
    stni_file_place(entries, 3);
    const size_t size = stni_file_header_size(entries, 3, metadata, 1);
    char *text = stni_file_header(entries, 3, metadata, 1, size);
    if (!CHECK_PTR(text))
        return;
    CHECK_I64((int64_t)(size % 8), 0);
    CHECK_I64((unsigned char)text[0] + 256 * (unsigned char)text[1], (int64_t)size - 8);
    const char *want = "{\"__metadata__\":{\"k\\u000a\":\"v\\\\\"},"
                       "\"a\\\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                       "\"empty\":{\"dtype\":\"BF16\",\"shape\":[0,5],\"data_offsets\":[24,24]},"
                       "\"one\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]}}";
    CHECK(strncmp(text + 8, want, strlen(want)) == 0);
    CHECK_I64((int64_t)strspn(text + 8 + strlen(want), " "), (int64_t)(size - 8 - strlen(want)));
    stni_free(text);
}

/* Rows 1 and 2 of 4, columns 2 to 4 of 6, all of the last dim: two runs of three times two elements. */
static void chunks_are_runs_of_what_lies_together(void)
{
    stn_spec spec = {.layout = {.dtype = STN_DTYPE_F32, .ndim = 3, .shape = {4, 6, 2}},
                     .local_numel = 12,
                     .local_shape = {2, 3, 2},
                     .local_offset = {1, 2, 0}};
    struct stni_file_runs runs = stni_file_runs(&spec);
    CHECK_I64(runs.count, 2);
    CHECK_I64(runs.length, 3 * 2 * 4);
    CHECK_I64(stni_file_run_at(&runs, 0), ((1 * 6 + 2) * 2) * 4);
    CHECK_I64(stni_file_run_at(&runs, 1), ((2 * 6 + 2) * 2) * 4);
    stn_spec whole = {.layout = {.dtype = STN_DTYPE_F64, .ndim = 2, .shape = {3, 5}},
                      .local_numel = 10,
                      .local_shape = {2, 5},
                      .local_offset = {1, 0}};
    runs = stni_file_runs(&whole);
    CHECK_I64(runs.count, 1);
    CHECK_I64(runs.length, 10 * 8);
    CHECK_I64(stni_file_run_at(&runs, 0), 5 * 8);
    stn_spec empty = {.layout = {.dtype = STN_DTYPE_F64, .ndim = 2, .shape = {3, 5}},
                      .local_numel = 0,
                      .local_shape = {0, 5},
                      .local_offset = {3, 0}};
    CHECK_I64(stni_file_runs(&empty).count, 0);
    stn_spec one = {.layout = {.dtype = STN_DTYPE_F64, .ndim = 0}, .local_numel = 1};
    runs = stni_file_runs(&one);
    CHECK_I64(runs.count * runs.length, 8);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"headers_are_json_with_offsets_and_end_at_a_multiple_of_8",
         headers_are_json_with_offsets_and_end_at_a_multiple_of_8},
        {"chunks_are_runs_of_what_lies_together", chunks_are_runs_of_what_lies_together},
    };
    return TEST_MAIN(argc, argv, cases);
}
