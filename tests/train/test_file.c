/* The reader of files of tensors: what it gives, and what it refuses. Hostile files are written here, byte by byte. */
#include "conform/rng.h"
#include "harness.h"

#include <shardtensor/io.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_HEADER = 100000000 };

/* One file in memory is written again and again. */
static int memory = -1;
static char path[64];

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

/* Opens these bytes as a file; they are not freed. NULL where that is refused, with the reason in `error`. */
static stn_file *open_bytes(const void *bytes, size_t size, char *error, size_t error_size)
{
    stn_file *file = NULL;
    if (ftruncate(memory, (off_t)size) != 0 || pwrite(memory, bytes, size, 0) != (ssize_t)size)
        CHECK(0);
    error[0] = '\0';
    const stn_status status = stn_file_open(path, &file, error, error_size);
    if ((status == STN_OK) != (file != NULL) || (status == STN_ERR_IO) != (file == NULL && error[0] != '\0'))
        CHECK_STATUS(status, STN_ERR_IO);
    return file;
}

static stn_file *open_header(const char *header, size_t data_size, char *error, size_t error_size)
{
    size_t size;
    unsigned char *bytes = make_file(header, -1, data_size, &size);
    stn_file *file = open_bytes(bytes, size, error, error_size);
    free(bytes);
    return file;
}

/* Whether the file is taken. */
static int parse(const char *header, size_t data_size, char *error, size_t error_size)
{
    stn_file *file = open_header(header, data_size, error, error_size);
    const int good = file != NULL;
    stn_file_close(&file);
    return good;
}

static void tensors_and_metadata_are_found(void)
{
    char error[256];
    stn_file *file = open_header("{\"__metadata__\":{\"op\":\"add\",\"n\":\"\"},"
                                 "\"in.a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[3,27]},"
                                 "\"b\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]},"
                                 "\"d\xc3\xa9\":{\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[1,3]},"
                                 "\"c\":{\"dtype\":\"C64\",\"shape\":[4,0],\"data_offsets\":[3,3]}}   ",
                                 27, error, sizeof error);
    if (!CHECK_PTR(file))
        return;
    CHECK_STR(stn_file_metadata(file, "op"), "add");
    CHECK_STR(stn_file_metadata(file, "n"), "");
    CHECK(stn_file_metadata(file, "none") == NULL);
    CHECK_I64(stn_file_count(file), 4);
    const stn_file_tensor *a = stn_file_find(file, "in.a"), *b = stn_file_find(file, "b"),
                          *d = stn_file_find(file, "d\xc3\xa9");
    if (CHECK_PTR(a) && CHECK_PTR(b) && CHECK_PTR(d)) {
        CHECK_I64(a->dtype, STN_DTYPE_F32);
        CHECK_STR(a->dtype_name, "F32");
        CHECK_I64(a->ndim, 2);
        CHECK_I64(a->shape[1], 3);
        CHECK_I64(a->numel, 6);
        CHECK_I64(a->bytes, 24);
        CHECK_I64(b->ndim, 0);
        CHECK_I64(b->numel, 1);
        CHECK_I64(d->dtype, STN_DTYPE_COUNT);
        CHECK(stn_file_at(file, 0) == b && stn_file_at(file, 3) == a);
        unsigned char got[4] = {0};
        CHECK_STATUS(stn_file_read(file, a, 20, 4, got), STN_OK);
        CHECK_BYTES(got, "\x17\x18\x19\x1a", 4);
        CHECK_STATUS(stn_file_read(file, a, 24, 0, NULL), STN_OK);
        CHECK_STATUS(stn_file_read(file, a, 21, 4, got), STN_ERR_ARGUMENT);
        CHECK_STATUS(stn_file_read(file, a, -1, 4, got), STN_ERR_ARGUMENT);
        CHECK_STATUS(stn_file_read(file, a, 4, INT64_MAX, got), STN_ERR_ARGUMENT);
        CHECK_I64(truncate(path, 40), 0);
        CHECK_STATUS(stn_file_read(file, a, 0, 4, got), STN_ERR_IO);
    }
    CHECK(stn_file_find(file, "in.") == NULL);
    CHECK(stn_file_find(file, "__metadata__") == NULL);
    CHECK(stn_file_at(file, 4) == NULL && stn_file_at(file, -1) == NULL);
    stn_file_close(&file);
    CHECK(file == NULL);
    stn_file_close(&file);
}

static void lengths_beyond_the_file_are_refused(void)
{
    static const int64_t lengths[] = {3, 1000, INT64_MAX, MAX_HEADER + 1, -2};
    char error[256];
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t size;
        unsigned char *bytes = make_file("{}", lengths[i], 0, &size);
        if (lengths[i] < 0)
            memset(bytes, 0xff, 8); /* 2^64 - 1: adding anything to it wraps */
        CHECK(open_bytes(bytes, size, error, sizeof error) == NULL);
        CHECK(strstr(error, "a header of") != NULL);
        free(bytes);
    }
    for (size_t cut = 0; cut < 8; cut++)
        CHECK(open_bytes("\0\0\0\0\0\0\0", cut, error, sizeof error) == NULL);
}

/* The file claims terabytes and has them, as a hole: nothing of that size is allocated. */
static void a_header_above_the_limit_is_refused(void)
{
    char error[256] = "";
    const unsigned char length[8] = {0, 0, 0, 0, 0, 1};
    stn_file *file = open_bytes(length, sizeof length, error, sizeof error);
    CHECK(file == NULL);
    CHECK_I64(truncate(path, INT64_C(1) << 41), 0);
    CHECK_STATUS(stn_file_open(path, &file, error, sizeof error), STN_ERR_IO);
    CHECK(strstr(error, "at most") != NULL);
}

/* Each value would cost the parser many times its bytes. */
static void more_values_than_tensors_need_are_refused(void)
{
    size_t n = 1 << 20;
    char *header = malloc(n + 1), error[256];
    memset(header, ',', n);
    for (size_t i = 0; i < n; i += 2)
        header[i] = '1';
    memcpy(header, "{\"a\":[", 6);
    header[n] = '\0';
    CHECK(!parse(header, 0, error, sizeof error));
    CHECK(strstr(error, "more values") != NULL);
    free(header);
    CHECK(parse("{\"\":{\"dtype\":\"U8\",\"shape\":[0,0,0,0,0,0,0,0],\"data_offsets\":[0,0]},"
                "\"a\":{\"dtype\":\"U8\",\"shape\":[0,0,0,0,0,0,0,0],\"data_offsets\":[0,0]}}",
                0, error, sizeof error));
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
        for (int i = 0; i < DEPTH && (size_t)(at - header) + n < MAX_HEADER; i++, at += n)
            memcpy(at, brackets[kind], n);
        *at = '\0';
        CHECK(!parse(header, 0, error, sizeof error));
        CHECK(strstr(error, "nested") != NULL);
        free(header);
    }
    CHECK(!parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[[[[[[[[1]]]]]]]],\"data_offsets\":[0,4]}}", 4, error,
                 sizeof error));
    CHECK(parse("{\"__metadata__\":{\"deep\":\"[[[[[[[[[[[[{{{{{{{{\"}}", 0, error, sizeof error));
}

/* Each is one entry of a file with 16 bytes of data. */
static void entries_that_do_not_fit_are_refused(void)
{
    static const char *const entries[] = {
        "{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}",          /* a negative size */
        "{\"dtype\":\"F32\",\"shape\":[-2,-2],\"data_offsets\":[0,16]}",      /* negative sizes whose product fits */
        "{\"dtype\":\"F32\",\"shape\":[4.0],\"data_offsets\":[0,16]}",        /* numbers are written in digits alone */
        "{\"dtype\":\"F32\",\"shape\":[4e0],\"data_offsets\":[0,16]}",
        "{\"dtype\":\"F32\",\"shape\":[04],\"data_offsets\":[0,16]}",
        "{\"dtype\":\"F32\",\"shape\":[-0],\"data_offsets\":[0,0]}",
        "{\"dtype\":\"F32\",\"shape\":[18446744073709551620],\"data_offsets\":[0,16]}", /* 2^64 + 4 */
        "{\"dtype\":\"F32\",\"shape\":[4,],\"data_offsets\":[0,16]}",
        "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16],}",
        "{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}",
        "{\"dtype\":\"F32\",\"shape\":[4],\"shape\":[4],\"data_offsets\":[0,16]}",
        "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16],\"data_offsets\":[0,16]}",
        "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16],\"more\":[1,{\"x\":tru}]}",
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
    CHECK(parse("{\"victim\":{\"more\":[1,-2.5e3,{\"x\":[true,false,null,\"]\"]}],\"dtype\":\"F32\",\"shape\":[4],"
                "\"data_offsets\":[0,16]}}",
                16, error, sizeof error));
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
    static const char *const headers[] = {"",
                                          " ",
                                          "[]",
                                          "7",
                                          "null",
                                          "{",
                                          "{\"a\"",
                                          "{\"1\":1,",
                                          "{} x",
                                          "\xff\xfe{}",
                                          "{\"a\":\"\\",
                                          "{\"__metadata__\":{\"a\":1}}",
                                          "{\"__metadata__\":[]}",
                                          "{\"__metadata__\":{},\"__metadata__\":{}}",
                                          "{\"__metadata__\":{\"a\":\"1\",\"b\":\"\",\"a\":\"2\"}}",
                                          "{\"__metadata__\":{\"a\":\"1\",}}",
                                          "{,}"};
    char error[256];
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        CHECK(!parse(headers[i], 0, error, sizeof error));
}

static void text_that_is_not_utf8_is_refused(void)
{
    /* A lone continuation, one missing, too long a form of '/', a surrogate, beyond the last character, a control
     * character, an escaped zero. */
    static const char *const bad[] = {
        "\x80", "\xc3",     "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\x01", "a\\u0000b"};
    static const char *const good[] = {"\xc3\xa9",         "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                       "\xf4\x8f\xbf\xbf", "\\u00e9",      "\\\\u0000"};
    char header[128], error[256];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(header, sizeof header, "{\"__metadata__\":{\"a\":\"%s\"}}", bad[i]);
        if (!CHECK(!parse(header, 0, error, sizeof error)))
            fprintf(stderr, "  taken: row %zu\n", i);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(header, sizeof header, "{\"__metadata__\":{\"a\":\"%s\"}}", good[i]);
        if (!CHECK(parse(header, 0, error, sizeof error)))
            fprintf(stderr, "  refused: row %zu: %s\n", i, error);
    }
}

static void what_is_no_file_is_refused(void)
{
    stn_file *file = NULL;
    char error[256] = "";
    CHECK_STATUS(stn_file_open("/nonexistent/file.safetensors", &file, error, sizeof error), STN_ERR_IO);
    CHECK(strstr(error, "cannot be opened") != NULL);
    CHECK_STATUS(stn_file_open("/", &file, error, sizeof error), STN_ERR_IO);
    CHECK_STATUS(stn_file_open("/dev/zero", &file, NULL, 0), STN_ERR_IO);
    CHECK_STATUS(stn_file_open(NULL, &file, NULL, 0), STN_ERR_ARGUMENT);
    CHECK(file == NULL);
}

/* Whatever bytes are changed, the reader refuses, or what it gives are the file's own bytes. Under the address
 * sanitizer this finds reads outside of what was allocated. */
static const char mutable[] = "{\"__metadata__\":{\"op\":\"add\",\"attrs\":\"{}\"},"
                              "\"in.a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                              "\"in.b\":{\"dtype\":\"BF16\",\"shape\":[0,7],\"data_offsets\":[24,24]},"
                              "\"out.0\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[24,32]}}";

enum { MUTABLE_DATA = 32, MUTANT_ROOM = 1024 };

static void overwrite(struct rng *rng, unsigned char *bytes, size_t size)
{
    static const char alphabet[] = "{}[]\",:0123456789-+.eE\\u \n\0F\xff";
    for (int64_t n = 1 + rng_below(rng, 4); n > 0; n--)
        bytes[rng_below(rng, (int64_t)size)] =
            (unsigned char)(rng_below(rng, 2) ? alphabet[rng_below(rng, sizeof alphabet - 1)] : rng_below(rng, 256));
}

static void flip_bits(struct rng *rng, unsigned char *bytes, size_t size)
{
    for (int64_t n = 1 + rng_below(rng, 3); n > 0; n--)
        bytes[rng_below(rng, (int64_t)size)] ^= (unsigned char)(1 << rng_below(rng, 8));
}

/* A number in the header becomes another one. */
static void change_a_number(struct rng *rng, unsigned char *bytes, size_t size)
{
    static const char *const numbers[] = {
        "-1", "1e99", "0.5", "32", "8", "4294967296", "9007199254740993", "18446744073709551616", "1e-5", "", "-0"};
    size_t at = 8 + (size_t)rng_below(rng, (int64_t)size - 8 - MUTABLE_DATA), end = at;
    while (end < size - MUTABLE_DATA && strchr("0123456789", bytes[end] ? bytes[end] : 'x'))
        end++;
    const char *number = numbers[rng_below(rng, sizeof numbers / sizeof numbers[0])];
    if (end > at && strlen(number) <= end - at + 1)
        memcpy(bytes + at, number, strlen(number));
}

/* Two stretches of the header change places, keys or offsets among them. */
static void swap_parts(struct rng *rng, unsigned char *bytes, size_t size)
{
    const int64_t n = 1 + rng_below(rng, 24), room = (int64_t)size - 8 - MUTABLE_DATA - n;
    unsigned char *a = bytes + 8 + rng_below(rng, room), *b = bytes + 8 + rng_below(rng, room);
    for (int64_t i = 0; i < n; i++) {
        unsigned char t = a[i];
        a[i] = b[i];
        b[i] = t;
    }
}

static void nest(struct rng *rng, unsigned char *bytes, size_t size)
{
    size_t at = 8 + (size_t)rng_below(rng, (int64_t)size - 8 - MUTABLE_DATA);
    memset(bytes + at, rng_below(rng, 2) ? '[' : '{', (size_t)rng_below(rng, (int64_t)(size - at)));
}

static void (*const mutations[])(struct rng *, unsigned char *, size_t) = {overwrite, flip_bits, change_a_number,
                                                                           swap_parts, nest};

/* Every tensor lies inside the data, alone, has the bytes of its shape, is found by its name, and reads as the
 * file's bytes. */
static int is_sound(const stn_file *file, const unsigned char *bytes, size_t size)
{
    uint64_t length = 0;
    memcpy(&length, bytes, 8);
    const unsigned char *data = bytes + 8 + length;
    int64_t end = 0;
    for (int i = 0; i < stn_file_count(file); i++) {
        const stn_file_tensor *t = stn_file_at(file, i);
        unsigned char got[MUTANT_ROOM];
        int64_t numel = 1;
        for (int d = 0; d < t->ndim; d++)
            numel *= t->shape[d];
        if (t->begin < end || t->bytes < 0 || (uint64_t)(t->begin + t->bytes) > size - 8 - length || numel != t->numel)
            return 0;
        if (t->dtype != STN_DTYPE_COUNT && t->bytes != numel * (int64_t)stn_dtype_size(t->dtype))
            return 0;
        if (stn_file_find(file, t->name) != t || stn_file_read(file, t, 0, t->bytes, got) != STN_OK ||
            memcmp(got, data + t->begin, (size_t)t->bytes) != 0)
            return 0;
        end = t->begin + t->bytes;
    }
    return 1;
}

static void mutated_files_are_refused_or_read_as_they_are(void)
{
    enum { ROUNDS = 40000 };
    struct rng rng = {17, 0};
    size_t size;
    unsigned char *original = make_file(mutable, -1, MUTABLE_DATA, &size), bytes[MUTANT_ROOM];
    int taken = 0, refused = 0, unsound = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char error[256];
        memcpy(bytes, original, size);
        mutations[round % (int)(sizeof mutations / sizeof mutations[0])](&rng, bytes, size);
        const size_t shown = rng_below(&rng, 8) == 0 ? (size_t)rng_below(&rng, (int64_t)size + 1) : size;
        stn_file *file = open_bytes(bytes, shown, error, sizeof error);
        taken += file != NULL;
        refused += file == NULL;
        unsound += file != NULL && !is_sound(file, bytes, shown);
        stn_file_close(&file);
    }
    free(original);
    CHECK_I64(unsound, 0);
    CHECK(taken > ROUNDS / 50);
    CHECK(refused > ROUNDS / 2);
}

static void truncated_files_are_refused_at_every_length(void)
{
    size_t size;
    unsigned char *bytes = make_file(mutable, -1, MUTABLE_DATA, &size);
    char error[256];
    for (size_t shown = 0; shown < size; shown++) {
        stn_file *file = open_bytes(bytes, shown, error, sizeof error);
        CHECK(file == NULL);
        stn_file_close(&file);
    }
    stn_file *file = open_bytes(bytes, size, error, sizeof error);
    CHECK(file != NULL && is_sound(file, bytes, size));
    stn_file_close(&file);
    free(bytes);
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
        {"text_that_is_not_utf8_is_refused", text_that_is_not_utf8_is_refused},
        {"more_values_than_tensors_need_are_refused", more_values_than_tensors_need_are_refused},
        {"what_is_no_file_is_refused", what_is_no_file_is_refused},
        {"truncated_files_are_refused_at_every_length", truncated_files_are_refused_at_every_length},
        {"mutated_files_are_refused_or_read_as_they_are", mutated_files_are_refused_or_read_as_they_are},
    };
    memory = memfd_create("test_file", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    return TEST_MAIN(argc, argv, cases);
}
