/* Attention on a CUDA device by tiles: wherever tiles end and however operands lie in memory, results and gradients are
 * the CPU's. */
#include "both.h"

#include "harness.h"

#include <math.h>
#include <stdlib.h>

enum { QUERIES, KEYS, WIDTH }; /* of a shape */

/* Queries and keys around the side of a tile, and heads around packs, a tile and two; the last has none. */
static const int64_t counts[][2] = {{1, 1}, {1, 65}, {63, 64}, {65, 1}, {65, 66}, {64, 128}, {130, 130}, {7, 200}};
static const int64_t widths[] = {1, 5, 8, 64, 65, 96, 128, 130};
enum { COUNTS = sizeof counts / sizeof *counts, WIDTHS = sizeof widths / sizeof *widths };

static stn_tensor *leaf(stn_context *context, stn_dtype dtype, int64_t heads, int64_t rows, int64_t cols, int seed)
{
    stn_tensor *x = both_input(context, dtype, 4, (int64_t[]){1, heads, rows, cols}, seed);
    stn_set_requires_grad(x, 1);
    return x;
}

/* The result and the gradients of n leaves. */
static int with_gradients(stn_context *context, stn_tensor *result, int n, stn_tensor *const *leaves, stn_tensor **out)
{
    const stn_spec *spec = stn_tensor_spec(result);
    stn_tensor *weight = both_input(context, stn_spec_dtype(spec), 4, stn_tensor_shape(result), 9);
    out[0] = result;
    stn_backward(stn_sum(stn_mul(result, weight), 0, NULL, 0));
    for (int i = 0; i < n; i++)
        if (stn_grad_of(leaves[i], &out[1 + i]) != STN_OK || !out[1 + i])
            return 0;
    return 1 + n;
}

static int attend(stn_context *context, stn_dtype dtype, const int64_t *shape, int64_t key_heads,
                  stn_attention_attrs attrs, stn_tensor *mask, stn_tensor **out)
{
    stn_tensor *leaves[] = {leaf(context, dtype, 2, shape[QUERIES], shape[WIDTH], 1),
                            leaf(context, dtype, key_heads, shape[KEYS], shape[WIDTH], 2),
                            leaf(context, dtype, key_heads, shape[KEYS], shape[WIDTH], 3)};
    attrs.size = sizeof attrs;
    stn_tensor *result = stn_scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], mask, &attrs);
    return with_gradients(context, result, 3, leaves, out);
}

static int plain(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    return attend(context, dtype, shape, 2, (stn_attention_attrs){.has_scale = 1, .scale = 0.05}, NULL, out);
}

/* Two query heads share one of keys. */
static int causal(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_attention_attrs attrs = {.is_causal = 1, .enable_gqa = 1, .has_scale = 1, .scale = 0.05};
    return attend(context, dtype, shape, 1, attrs, NULL, out);
}

static int below(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    return attend(context, dtype, shape, 2, (stn_attention_attrs){.is_causal = 1}, NULL, out);
}

static int dropped(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_attention_attrs attrs = {.dropout_p = 0.3, .has_scale = 1, .scale = 0.05};
    return attend(context, dtype, shape, 2, attrs, NULL, out);
}

/* Keys and values have one head, which is broadcast; rows below -3.5 attend to nothing. */
static int allowed(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *rows = both_input(context, STN_DTYPE_F32, 4, (int64_t[]){1, 2, shape[QUERIES], 1}, 4);
    stn_tensor *keys = both_input(context, STN_DTYPE_F32, 4, (int64_t[]){1, 1, shape[QUERIES], shape[KEYS]}, 5);
    stn_tensor *mask = stn_logical_and(stn_gt_number(rows, -3.5), stn_gt_number(keys, -1));
    return attend(context, dtype, shape, 1, (stn_attention_attrs){.has_scale = 1, .scale = 0.05}, mask, out);
}

/* A mask that is added, -infinity in places, and its gradient; operands whose rows are columns of memory. */
static int added(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = both_input(context, dtype, 4, (int64_t[]){1, 2, shape[QUERIES], shape[KEYS]}, 6);
    stn_tensor *mask = stn_masked_fill(x, stn_gt_number(x, 3), -(double)INFINITY);
    stn_tensor *leaves[] = {leaf(context, dtype, 1, shape[WIDTH], shape[QUERIES], 1),
                            leaf(context, dtype, 2, shape[KEYS], shape[WIDTH] + 1, 2),
                            leaf(context, dtype, 2, shape[KEYS], 2 * shape[WIDTH], 3), stn_detach(mask)};
    stn_set_requires_grad(leaves[3], 1);
    stn_tensor *query = stn_transpose(leaves[0], 2, 3), *key = stn_narrow(leaves[1], 3, 1, shape[WIDTH]);
    stn_tensor *value = stn_narrow(leaves[2], 3, 0, shape[WIDTH]);
    stn_tensor *result = stn_scaled_dot_product_attention(query, key, value, leaves[3], NULL);
    return with_gradients(context, result, 4, leaves, out);
}

/* A mask that is added hides keys by nearly the smallest number; rows of which all are hidden attend to all alike. */
static int hidden(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *rows = both_input(context, STN_DTYPE_F32, 4, (int64_t[]){1, 2, shape[QUERIES], 1}, 4);
    stn_tensor *keys = both_input(context, STN_DTYPE_F32, 4, (int64_t[]){1, 1, shape[QUERIES], shape[KEYS]}, 5);
    stn_tensor *hides = stn_logical_or(stn_lt_number(rows, -2), stn_lt_number(keys, -1));
    stn_tensor *mask = stn_cast(stn_masked_fill(stn_cast(hides, STN_DTYPE_F32), hides, -3e38), dtype);
    return attend(context, dtype, shape, 2, (stn_attention_attrs){.has_scale = 1, .scale = 0.05}, mask, out);
}

/* Values have one head, which is broadcast, and fewer columns than keys: their gradients are summed over other elements
 * of the batch than those of keys. */
static int apart(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_attention_attrs attrs = {sizeof attrs, .dropout_p = 0.3, .has_scale = 1, .scale = 0.05};
    stn_tensor *leaves[] = {leaf(context, dtype, 2, shape[QUERIES], shape[WIDTH], 1),
                            leaf(context, dtype, 2, shape[KEYS], shape[WIDTH], 2),
                            leaf(context, dtype, 1, shape[KEYS], (shape[WIDTH] + 1) / 2, 3)};
    stn_tensor *result = stn_scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], NULL, &attrs);
    return with_gradients(context, result, 3, leaves, out);
}

/* Values have more columns than keys: up to two tiles where keys have one. */
static int wider(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *leaves[] = {leaf(context, dtype, 2, shape[QUERIES], (shape[WIDTH] + 1) / 2, 1),
                            leaf(context, dtype, 2, shape[KEYS], (shape[WIDTH] + 1) / 2, 2),
                            leaf(context, dtype, 2, shape[KEYS], shape[WIDTH], 3)};
    stn_tensor *result = stn_scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], NULL, NULL);
    return with_gradients(context, result, 3, leaves, out);
}

/* Keys without columns: every score is 0, whatever the scale. */
static int unscored(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *queries = leaf(context, dtype, 2, shape[QUERIES], 0, 1);
    stn_tensor *keys = leaf(context, dtype, 2, shape[KEYS], 0, 2);
    stn_tensor *values = leaf(context, dtype, 2, shape[KEYS], shape[WIDTH], 3);
    stn_tensor *result = stn_scaled_dot_product_attention(queries, keys, values, NULL, NULL);
    return with_gradients(context, result, 1, &values, out);
}

/* Sizes from which on f64 goes by products of whole matrices; f32 where there are no tiles. */
static const int64_t large[][3] = {{130, 130, 8}, {90, 100, 130}};
enum { LARGE = sizeof large / sizeof *large };

static void compare_whole(const both_work *work)
{
    for (int i = 0; i < LARGE; i++) {
        both_compare(work, STN_DTYPE_F64, large[i], 1e-11);
        both_compare(work, STN_DTYPE_F32, large[i], 2e-4);
    }
}

static void compare(const both_work *work)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_F16};
    /* Factors of 16-bit products are rounded to these. Gradients of rows of one element are sums of few terms that
     * nearly cancel, and have the error of the terms. */
    static const double tolerances[] = {1e-4, 1e-2, 2e-3};
    for (int i = 0; i < COUNTS; i++)
        for (int w = 0; w < 2; w++) {
            const int64_t shape[] = {counts[i][0], counts[i][1], widths[(3 * i + w) % WIDTHS]};
            if (!both_takes(i + w))
                continue;
            both_compare(work, dtypes[0], shape, tolerances[0]);
            for (int d = 1; d < 3; d++)
                both_compare_sums(work, dtypes[d], shape, tolerances[d] * (shape[WIDTH] == 1 ? 4 : 1));
        }
}

static void tiles_are_the_cpus(void)
{
    compare(&(both_work){"plain", plain});
    compare(&(both_work){"causal", causal});
    compare(&(both_work){"apart", apart});
    compare(&(both_work){"wider", wider});
}

static void masks_are_the_cpus(void)
{
    compare(&(both_work){"allowed", allowed});
    compare(&(both_work){"added", added});
    compare(&(both_work){"hidden", hidden});
    compare(&(both_work){"dropped", dropped});
}

static void whole_matrices_are_the_cpus(void)
{
    compare_whole(&(both_work){"plain", plain});
    compare_whole(&(both_work){"causal", causal});
    compare_whole(&(both_work){"below", below});
    compare_whole(&(both_work){"wider", wider});
    compare_whole(&(both_work){"apart", apart});
    compare_whole(&(both_work){"dropped", dropped});
    compare_whole(&(both_work){"allowed", allowed});
    compare_whole(&(both_work){"added", added});
}

/* Of f32, from so many scores on. */
static void gradients_beside_tiles_are_the_cpus(void)
{
    const int64_t shape[] = {400, 330, 72};
    both_compare(&(both_work){"plain", plain}, STN_DTYPE_F32, shape, 2e-4);
}

/* Scores of one head and of all: more than is taken at a time, of which the stand-in has less. */
static void whole_matrices_come_in_parts(void)
{
    static const int64_t f32[][3] = {{8192, 8192, 72}, {400, 330, 72}}, f64[][3] = {{5000, 5000, 16}, {500, 290, 8}};
    static const both_work works[] = {
        {"plain", plain}, {"dropped", dropped}, {"allowed", allowed}, {"added", added}};
    const int small = both_on_standin() || getenv("STN_TEST_FEW");
    both_compare(&works[0], STN_DTYPE_F32, f32[small], 2e-4);
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        both_compare(&works[i], STN_DTYPE_F64, f64[small || i > 0], 1e-11);
}

static void keys_without_columns_weigh_alike(void)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    static const double tolerances[] = {1e-5, 1e-11, 1e-2, 2e-3};
    const int64_t shape[] = {6, 5, 4};
    for (int d = 0; d < 4; d++)
        both_compare(&(both_work){"unscored", unscored}, dtypes[d], shape, tolerances[d]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"tiles_are_the_cpus", tiles_are_the_cpus},
        {"masks_are_the_cpus", masks_are_the_cpus},
        {"whole_matrices_are_the_cpus", whole_matrices_are_the_cpus},
        {"gradients_beside_tiles_are_the_cpus", gradients_beside_tiles_are_the_cpus},
        {"whole_matrices_come_in_parts", whole_matrices_come_in_parts},
        {"keys_without_columns_weigh_alike", keys_without_columns_weigh_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
