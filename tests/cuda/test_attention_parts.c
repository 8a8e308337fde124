/* How gradients of attention are cut into parts whose scratch is bounded. */
#include "harness.h"

#include "ops/attention/attention_library.h"

#include <string.h>

enum { LSE = STNI_CUDNN_LSE };

/* Of heads that lie one behind the other. */
static struct stni_cudnn_attention whole_of(int64_t batch, int64_t heads, int64_t rows, int64_t keys)
{
    struct stni_cudnn_attention p;
    memset(&p, 0, sizeof p);
    p.is_gradient = 1;
    p.batch = batch, p.heads = p.key_heads = heads, p.rows = rows, p.keys = keys;
    p.stride[LSE][0] = heads * rows, p.stride[LSE][1] = rows, p.stride[LSE][2] = 1;
    return p;
}

static void check_part(int64_t batch, int64_t heads, int64_t rows, int64_t keys, int64_t part_batch, int64_t part_heads)
{
    const struct stni_cudnn_attention whole = whole_of(batch, heads, rows, keys);
    struct stni_cudnn_attention part;
    if (!CHECK(stni_attention_library_part(&whole, &part)))
        return;
    CHECK_I64(part.batch, part_batch);
    CHECK_I64(part.heads, part_heads);
    CHECK_I64(part.key_heads, part_heads);
    CHECK_I64(part.rows, rows);
    CHECK_I64(part.stride[LSE][0], heads * rows);
}

/* 2 bytes for each score: 8 MiB for 2,048 rows and keys. */
static void parts_take_256_mib_at_most(void)
{
    check_part(2, 16, 2048, 2048, 2, 16);
    check_part(8, 16, 2048, 2048, 2, 16);
    check_part(9, 16, 2048, 2048, 1, 16);
    check_part(6, 10, 2048, 2048, 3, 10);
    check_part(1, 64, 2048, 2048, 1, 32);
    check_part(3, 66, 2048, 2048, 1, 22);
    check_part(2, 37, 2048, 2048, 1, 1);
    check_part(2, 37, 2044, 2000, 1, 1);
}

/* The scratch is of whole tiles. */
static void rows_and_keys_count_as_whole_tiles(void)
{
    check_part(1, 32, 2048, 2048, 1, 32);
    check_part(1, 32, 2044, 2044, 1, 32);
    check_part(1, 32, 2052, 2048, 1, 16);
}

static void a_head_takes_1_gib_at_most(void)
{
    struct stni_cudnn_attention whole = whole_of(1, 2, 16384, 32768), part;
    check_part(1, 2, 16384, 32768, 1, 1);
    whole.rows += 4;
    CHECK(!stni_attention_library_part(&whole, &part));
    whole.is_gradient = 0;
    CHECK(stni_attention_library_part(&whole, &part));
    CHECK_I64(part.heads, 2);
}

/* The log-sum-exp of a part begins at a multiple of 16 bytes. */
static void parts_that_are_not_aligned_are_refused(void)
{
    struct stni_cudnn_attention whole = whole_of(1, 64, 2047, 2048), part;
    CHECK(stni_attention_library_part(&whole, &part)); /* 32 heads of 2,047 rows */
    whole = whole_of(3, 66, 2047, 2048);
    CHECK(!stni_attention_library_part(&whole, &part));
    whole = whole_of(1, 2, 2047, 2048);
    CHECK(stni_attention_library_part(&whole, &part));
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"parts_take_256_mib_at_most", parts_take_256_mib_at_most},
        {"rows_and_keys_count_as_whole_tiles", rows_and_keys_count_as_whole_tiles},
        {"a_head_takes_1_gib_at_most", a_head_takes_1_gib_at_most},
        {"parts_that_are_not_aligned_are_refused", parts_that_are_not_aligned_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
