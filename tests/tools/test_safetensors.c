/* The reader of safetensors: what it gives, and what it refuses. Hostile files are written here, byte by byte. */
#include "conform/safetensors.h"
#include "conform/rng.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file in memory: `length` stands in front instead of the header's own where it is not negative. */
static unsigned char *make_file(const char *header, int64_t length, size_t data_size, size_t *size)
{
    size_t n = strlen(header);
    uint64_t claimed = length < 0 ? (uint64_t)n : (uint64_t)length;
    *size = 8 + n + data_size;
    unsigned char *bytes = malloc(*size + 1);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(claimed >> (8 * i));
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < data_size; i++)
        bytes[8 + n + i] = (unsigned char)i;
    return bytes;
}

static int parse(const char *header, size_t data_size, char *error, size_t error_size)
{
    size_t size;
    unsigned char *bytes = make_file(header, -1, data_size, &size);
    struct safetensors file;
    error[0] = '\0';
    int good = safetensors_parse(bytes, size, &file, error, error_size);
    if (good)
        safetensors_free(&file);
    return good;
}

static void tensors_and_metadata_are_found(void)
{
    size_t size;
    unsigned char *bytes = make_file("{\"__metadata__\":{\"op\":\"add\",\"n\":\"\"},"
                                     "\"in.a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[3,27]},"
                                     "\"b\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]},"
                                     "\"c\":{\"dtype\":\"C64\",\"shape\":[4,0],\"data_offsets\":[3,3]}}   ",
                                     -1, 27, &size);
    struct safetensors file;
    char error[256] = "";
    if (!CHECK(safetensors_parse(bytes, size, &file, error, sizeof error)))
        return;
    CHECK_STR(safetensors_metadata(&file, "op"), "add");
    CHECK_STR(safetensors_metadata(&file, "n"), "");
    CHECK(safetensors_metadata(&file, "none") == NULL);
    CHECK_I64(file.n, 3);
    const struct safetensors_tensor *a = safetensors_find(&file, "in.a"), *b = safetensors_find(&file, "b");
    if (CHECK_PTR(a) && CHECK_PTR(b)) {
        CHECK_I64(a->dtype, STN_DTYPE_F32);
        CHECK_I64(a->ndim, 2);
        CHECK_I64(a->shape[1], 3);
        CHECK_I64(a->numel, 6);
        CHECK_I64(file.data[a->begin], 3);
        CHECK_I64(b->ndim, 0);
        CHECK_I64(b->numel, 1);
    }
    CHECK(safetensors_find(&file, "in.") == NULL);
    CHECK(safetensors_find(&file, "__metadata__") == NULL);
    safetensors_free(&file);
}

static void lengths_beyond_the_file_are_refused(void)
{
    static const int64_t lengths[] = {3, 1000, INT64_MAX, SAFETENSORS_MAX_HEADER + 1};
    char error[256];
    struct safetensors file;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t size;
        unsigned char *bytes = make_file("{}", lengths[i], 0, &size);
        CHECK(!safetensors_parse(bytes, size, &file, error, sizeof error));
        CHECK(strstr(error, "header length") != NULL);
    }
    size_t size;
    unsigned char *bytes = make_file("{}", -1, 0, &size);
    memset(bytes, 0xff, 8); /* 2^64 - 1: adding anything to it wraps */
    CHECK(!safetensors_parse(bytes, size, &file, error, sizeof error));
    for (size_t cut = 0; cut < 8; cut++)
        CHECK(!safetensors_parse(calloc(1, 8), cut, &file, error, sizeof error));
}

static void a_header_above_the_limit_is_refused(void)
{
    size_t n = SAFETENSORS_MAX_HEADER + 1, size;
    char *header = malloc(n + 1);
    memset(header, ' ', n);
    memcpy(header, "{}", 2);
    header[n] = '\0';
    unsigned char *bytes = make_file(header, -1, 0, &size);
    struct safetensors file;
    char error[256];
    CHECK(!safetensors_parse(bytes, size, &file, error, sizeof error));
    CHECK(strstr(error, "at most") != NULL);
    free(header);
}

static void endless_nesting_is_refused(void)
{
    enum { DEPTH = 1 << 20 };
    static const char *const brackets[] = {"[", "{\"a\":"};
    char error[256];
    for (int kind = 0; kind < 2; kind++) {
        size_t n = strlen(brackets[kind]);
        char *header = malloc(DEPTH * n + 16), *at = header;
        at += sprintf(at, "{\"a\":");
        for (int i = 0; i < DEPTH && (size_t)(at - header) + n < SAFETENSORS_MAX_HEADER; i++, at += n)
            memcpy(at, brackets[kind], n);
        *at = '\0';
        CHECK(!parse(header, 0, error, sizeof error));
        CHECK(strstr(error, "nested") != NULL);
        free(header);
    }
    CHECK(!parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[[[[[[[[1]]]]]]]],\"data_offsets\":[0,4]}}", 4, error, sizeof error));
    CHECK(parse("{\"__metadata__\":{\"deep\":\"[[[[[[[[[[[[{{{{{{{{\"}}", 0, error, sizeof error));
}

/* Each is one entry of a file with 16 bytes of data. */
static void entries_that_do_not_fit_are_refused(void)
{
    static const char *const entries[] = {
        "{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}",          /* a negative size */
        "{\"dtype\":\"F32\",\"shape\":[-2,-2],\"data_offsets\":[0,16]}",      /* negative sizes whose product fits */
        "{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,6]}",
        "{\"dtype\":\"F32\",\"shape\":[1e300],\"data_offsets\":[0,4]}",
        "{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}",            /* the product wraps to 0 */
        "{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,0]}",
        "{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}",
        "{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,16]}",
        "{\"dtype\":\"F32\",\"shape\":[\"4\"],\"data_offsets\":[0,16]}",
        "{\"dtype\":\"F32\",\"data_offsets\":[0,16]}",
        "{\"dtype\":\"F33\",\"shape\":[4],\"data_offsets\":[0,16]}",
        "{\"dtype\":7,\"shape\":[4],\"data_offsets\":[0,16]}",
        "{\"shape\":[4],\"data_offsets\":[0,16]}",
        "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,12]}",           /* too few bytes */
        "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,15]}",           /* part of an element */
        "{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]}",           /* past the end */
        "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}",           /* backwards */
        "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}",
        "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0]}",
        "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16,32]}",
        "{\"dtype\":\"F32\",\"shape\":[4]}",
        "[0,16]",
        "null",
        "\"F32\"",
    };
    char header[512], error[256];
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        snprintf(header, sizeof header, "{\"victim\":%s}", entries[i]);
        if (!CHECK(!parse(header, 16, error, sizeof error)))
            fprintf(stderr, "  taken: %s\n", header);
        CHECK(strstr(error, "victim") != NULL);
    }
    CHECK(parse("{\"victim\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16, error, sizeof error));
}

static void shared_bytes_and_names_are_refused(void)
{
    char error[256];
    CHECK(!parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
                 "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[7,15]}}", 16, error, sizeof error));
    CHECK(strstr(error, "share bytes") != NULL);
    CHECK(!parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[0,16]},"
                 "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]}}", 16, error, sizeof error));
    CHECK(!parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                 "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 16, error, sizeof error));
    CHECK(strstr(error, "twice") != NULL);
}

static void text_that_is_no_object_is_refused(void)
{
    static const char *const headers[] = {"", " ", "[]", "7", "null", "{", "{\"a\"", "{\"1\":1,", "{} x", "\xff\xfe{}", "{\"a\":\"\\"};
    char error[256];
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        CHECK(!parse(headers[i], 0, error, sizeof error));
}

static void more_tensors_than_the_limit_are_refused(void)
{
    char *header = malloc(128 * (SAFETENSORS_MAX_TENSORS + 2)), *at = header, error[256];
    at += sprintf(at, "{");
    for (int i = 0; i <= SAFETENSORS_MAX_TENSORS; i++)
        at += sprintf(at, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "", i);
    sprintf(at, "}");
    CHECK(!parse(header, 0, error, sizeof error));
    CHECK(strstr(error, "at most") != NULL);
    free(header);
}

static void a_missing_file_is_refused(void)
{
    struct safetensors file;
    char error[256];
    CHECK(!safetensors_read("/nonexistent/file.safetensors", &file, error, sizeof error));
    CHECK(!safetensors_read("/", &file, error, sizeof error));
    CHECK(file.bytes == NULL);
}

/* Whatever bytes are changed, the reader gives a file whose tensors lie inside it, or refuses. Run under the address sanitizer this finds
 * reads outside. */
static void mutated_files_are_read_within_bounds_or_refused(void)
{
    enum { ROUNDS = 20000 };
    static const char header[] = "{\"__metadata__\":{\"op\":\"add\",\"attrs\":\"{}\"},"
                                 "\"in.a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                                 "\"out.0\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[24,32]}}";
    static const char alphabet[] = "{}[]\",:0123456789-+.eE\\u \n\0F\xff";
    struct rng rng = {17, 0};
    int taken = 0, refused = 0, outside = 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t size;
        unsigned char *bytes = make_file(header, -1, 32, &size);
        for (int64_t n = 1 + rng_below(&rng, 4); n > 0; n--) {
            size_t at = (size_t)rng_below(&rng, (int64_t)(8 + sizeof header));
            bytes[at] = rng_below(&rng, 2) ? (unsigned char)alphabet[rng_below(&rng, sizeof alphabet - 1)]
                                           : (unsigned char)rng_below(&rng, 256);
        }
        if (rng_below(&rng, 4) == 0)
            size = (size_t)rng_below(&rng, (int64_t)size + 1);
        struct safetensors file;
        char error[256];
        if (!safetensors_parse(bytes, size, &file, error, sizeof error)) {
            refused++;
            continue;
        }
        taken++;
        for (int i = 0; i < file.n; i++)
            outside += file.tensors[i].begin + file.tensors[i].bytes > file.data_size ||
                       file.data + file.data_size != file.bytes + size;
        safetensors_free(&file);
    }
    CHECK_I64(outside, 0);
    CHECK(taken > ROUNDS / 100);
    CHECK(refused > ROUNDS / 2);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"tensors_and_metadata_are_found", tensors_and_metadata_are_found},
        {"lengths_beyond_the_file_are_refused", lengths_beyond_the_file_are_refused},
        {"a_header_above_the_limit_is_refused", a_header_above_the_limit_is_refused},
        {"endless_nesting_is_refused", endless_nesting_is_refused},
        {"entries_that_do_not_fit_are_refused", entries_that_do_not_fit_are_refused},
        {"shared_bytes_and_names_are_refused", shared_bytes_and_names_are_refused},
        {"text_that_is_no_object_is_refused", text_that_is_no_object_is_refused},
        {"more_tensors_than_the_limit_are_refused", more_tensors_than_the_limit_are_refused},
        {"a_missing_file_is_refused", a_missing_file_is_refused},
        {"mutated_files_are_read_within_bounds_or_refused", mutated_files_are_read_within_bounds_or_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
