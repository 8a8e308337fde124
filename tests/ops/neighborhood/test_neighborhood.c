/* neighborhood_attention: windows against a plain loop, layouts against one process with gradients, the same bits
 * whatever cuts space, what moves, what does not reach a query, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static stn_tensor *call_neighborhood(stn_tensor *const *in, const void *arg)
{
    return stn_neighborhood_attention(in[0], in[1], in[2], arg);
}

#define ATTRS .size = sizeof(stn_neighborhood_attrs)

/* A plain loop */

struct sizes {
    int64_t space[3]; /* 1 where there is no such dim */
    int64_t heads, key_heads, e, v;
};

static int64_t dilation_of(const stn_neighborhood_attrs *a, int d)
{
    return a->dilation[d] > 0 ? a->dilation[d] : 1;
}

/* Whether a query at i attends to a key at j, along one dim of n: by the window that begins nearest to where it would
 * without ends. */
static int attends(const stn_neighborhood_attrs *a, int d, int64_t n, int64_t i, int64_t j)
{
    const int64_t step = dilation_of(a, d), kernel = a->kernel_size[d], p = i / step, q = j / step;
    int64_t best = -1;
    if (i % step != j % step)
        return 0;
    if (a->is_causal[d])
        return q <= p && p - q < kernel;
    for (int64_t begin = 0; (begin + kernel - 1) * step + i % step < n; begin++)
        if (best < 0 || llabs(begin - (p - kernel / 2)) < llabs(best - (p - kernel / 2)))
            best = begin;
    return q >= best && q < best + kernel;
}

static int attends_in_space(const stn_neighborhood_attrs *a, const struct sizes *n, int64_t i, int64_t j)
{
    for (int d = 2; d >= 0; d--) {
        if (!attends(a, d, n->space[d], i % n->space[d], j % n->space[d]))
            return 0;
        i /= n->space[d], j /= n->space[d];
    }
    return 1;
}

static void plain(const stn_neighborhood_attrs *a, const struct sizes *n, const double *q, const double *k,
                  const double *v, double *out)
{
    const int64_t places = n->space[0] * n->space[1] * n->space[2];
    const double scale = a->has_scale ? a->scale : 1 / sqrt((double)n->e);
    double *p = malloc((size_t)places * sizeof *p);
    for (int64_t i = 0; i < places; i++)
        for (int64_t h = 0; h < n->heads; h++) {
            const int64_t own = h / (n->heads / n->key_heads);
            double sum = 0;
            for (int64_t j = 0; j < places; j++) {
                p[j] = 0;
                for (int64_t c = 0; c < n->e; c++)
                    p[j] += scale * q[(i * n->heads + h) * n->e + c] * k[(j * n->key_heads + own) * n->e + c];
                p[j] = attends_in_space(a, n, i, j) ? exp(p[j]) : 0;
                sum += p[j];
            }
            for (int64_t c = 0; c < n->v; c++) {
                double *to = &out[(i * n->heads + h) * n->v + c];
                *to = 0;
                for (int64_t j = 0; j < places; j++)
                    *to += p[j] / sum * v[(j * n->key_heads + own) * n->v + c];
            }
        }
    free(p);
}

/* The first dims of space are those with a window of theirs: a dim of one element has none. */
static struct random_shape shape_of(const struct sizes *n, int64_t heads, int64_t cols)
{
    struct random_shape s = {.ndim = 1, .shape = {1}};
    for (int d = 0; d < 3; d++)
        if (n->space[d] > 1)
            s.shape[s.ndim++] = n->space[d];
    s.shape[s.ndim++] = heads;
    s.shape[s.ndim++] = cols;
    return s;
}

/* More elements along the last dim than a vector has lanes, ends and middles; whole windows; even ones. */
static stn_status plain_body(stn_context *context, void *arg)
{
    static const struct {
        struct sizes n;
        stn_neighborhood_attrs attrs;
    } cases[] = {
        {{{67, 1, 1}, 2, 2, 3, 5}, {ATTRS, .kernel_size = {7, 1, 1}}},
        {{{61, 1, 1}, 2, 1, 3, 7}, {ATTRS, .kernel_size = {6, 1, 1}, .dilation = {9}}},
        {{{50, 1, 1}, 1, 1, 2, 1}, {ATTRS, .kernel_size = {50, 1, 1}}},
        {{{43, 1, 1}, 1, 1, 8, 6}, {ATTRS, .kernel_size = {5, 1, 1}, .dilation = {3}, .is_causal = {1}}},
        {{{7, 37, 1}, 2, 1, 4, 4}, {ATTRS, .kernel_size = {3, 5, 1}, .has_scale = 1, .scale = 0.3}},
        {{{9, 21, 1}, 1, 1, 4, 3}, {ATTRS, .kernel_size = {2, 4, 1}, .dilation = {4, 2}}},
        {{{6, 18, 1}, 1, 1, 3, 2}, {ATTRS, .kernel_size = {3, 6, 1}, .is_causal = {1, 1}, .dilation = {2, 1}}},
        {{{4, 5, 19}, 2, 2, 3, 2}, {ATTRS, .kernel_size = {3, 2, 5}}},
        {{{5, 4, 9}, 2, 1, 2, 3}, {ATTRS, .kernel_size = {1, 2, 3}, .dilation = {2, 2, 3}, .is_causal = {0, 1, 0}}},
    };
    uint64_t state = 3;
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sizes *n = &cases[i].n;
        const struct random_shape shapes[] = {shape_of(n, n->heads, n->e), shape_of(n, n->key_heads, n->e),
                                              shape_of(n, n->key_heads, n->v), shape_of(n, n->heads, n->v)};
        double *x[4];
        for (int k = 0; k < 4; k++)
            x[k] = against_one_draw(&state, against_one_numel(&shapes[k]));
        plain(&cases[i].attrs, n, x[0], x[1], x[2], x[3]);
        for (int f64 = 0; f64 < 2; f64++) {
            const stn_dtype dtype = f64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
            stn_scope_begin(context);
            against_one_compare(stn_neighborhood_attention(against_one_local(context, dtype, &shapes[0], x[0]),
                                                           against_one_local(context, dtype, &shapes[1], x[1]),
                                                           against_one_local(context, dtype, &shapes[2], x[2]),
                                                           &cases[i].attrs),
                                x[3], f64 ? 1e-13 : 1e-5);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
        for (int k = 0; k < 4; k++)
            free(x[k]);
    }
    return STN_OK;
}

static void windows_give_what_a_plain_loop_gives(void)
{
    test_ranks(1, plain_body, NULL);
}

/* Layouts */

static const struct {
    stn_neighborhood_attrs attrs;
    struct random_shape in[3];
} calls[] = {
    {{ATTRS, .kernel_size = {3}}, {{4, {2, 7, 2, 3}}, {4, {2, 7, 2, 3}}, {4, {2, 7, 2, 2}}}},
    {{ATTRS, .kernel_size = {7}}, {{4, {1, 7, 2, 2}}, {4, {1, 7, 2, 2}}, {4, {1, 7, 2, 3}}}},
    {{ATTRS, .kernel_size = {2}, .dilation = {4}}, {{4, {2, 9, 1, 3}}, {4, {2, 9, 1, 3}}, {4, {2, 9, 1, 2}}}},
    {{ATTRS, .kernel_size = {4}, .dilation = {2}, .is_causal = {1}},
     {{4, {1, 11, 4, 2}}, {4, {1, 11, 2, 2}}, {4, {1, 11, 2, 2}}}},
    {{ATTRS, .kernel_size = {3, 2}}, {{5, {2, 4, 5, 2, 2}}, {5, {2, 4, 5, 2, 2}}, {5, {2, 4, 5, 2, 3}}}},
    {{ATTRS, .kernel_size = {2, 3}, .dilation = {2, 1}, .is_causal = {1, 0}},
     {{5, {1, 5, 6, 6, 2}}, {5, {1, 5, 6, 3, 2}}, {5, {1, 5, 6, 3, 2}}}},
    {{ATTRS, .kernel_size = {3, 2, 2}, .is_causal = {0, 0, 1}},
     {{6, {1, 4, 3, 3, 3, 2}}, {6, {1, 4, 3, 3, 1, 2}}, {6, {1, 4, 3, 3, 1, 2}}}},
    {{ATTRS, .kernel_size = {2}}, {{4, {0, 3, 2, 2}}, {4, {0, 3, 2, 2}}, {4, {0, 3, 2, 2}}}},
    {{ATTRS, .kernel_size = {2}}, {{4, {1, 3, 2, 2}}, {4, {1, 3, 2, 2}}, {4, {1, 3, 2, 0}}}},
    {{ATTRS, .kernel_size = {2}}, {{4, {1, 5, 2, 0}}, {4, {1, 5, 2, 0}}, {4, {1, 5, 2, 3}}}},
};

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 5;
    (void)arg;
    for (int round = 0; round < test_draws(4); round++)
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            struct against_one_op op = {
                .call = call_neighborhood, .arg = &calls[i].attrs, .n_in = 3, .tolerance = 1e-11, .first_order = 1};
            double *v[3];
            for (int k = 0; k < 3; k++) {
                v[k] = against_one_draw(&state, against_one_numel(&calls[i].in[k]));
                op.in[k] = (struct against_one_input){STN_DTYPE_F64, calls[i].in[k], v[k], 1u << STN_SUM};
            }
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0)
                against_one_differences(context, &state, &op);
            for (int k = 0; k < 3; k++)
                free(v[k]);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

/* Bits. Every query's and every key's sums have one order. */

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype,
                        const struct random_shape *shape, const int64_t *const *sizes)
{
    stn_tensor *x = test_tensor(context, mesh, placements, STN_DTYPE_F32, shape->ndim, shape->shape, sizes, test_value);
    x = stn_detach(stn_cast(x, dtype));
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    return x;
}

/* The result and three gradients, one behind the other. */
static int64_t all_of(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype,
                      const struct random_shape *shape, const int64_t *const *sizes,
                      const stn_neighborhood_attrs *attrs, double *out)
{
    const int64_t n = against_one_numel(shape);
    stn_scope_begin(context);
    stn_tensor *x[3], *grad[3];
    for (int k = 0; k < 3; k++)
        x[k] = leaf(context, mesh, placements, dtype, shape, sizes);
    stn_tensor *y = stn_neighborhood_attention(x[0], x[1], x[2], attrs), *cotangent = stn_detach(stn_mul(y, y));
    CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 3, x, 0, 0, grad), STN_OK);
    test_read(stn_cast(y, STN_DTYPE_F32), out, n);
    for (int k = 0; k < 3; k++)
        test_read(stn_cast(grad[k], STN_DTYPE_F32), out + (k + 1) * n, n);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return 4 * n;
}

static stn_status bits_body(stn_context *context, void *arg)
{
    static const struct random_shape shape = {5, {1, 9, 40, 2, 5}};
    static const stn_neighborhood_attrs attrs = {ATTRS, .kernel_size = {3, 5}, .dilation = {2, 3}};
    static const int64_t rows[] = {1, 8}, columns[] = {29, 0, 11}, *const sizes[] = {NULL, rows, columns, NULL, NULL};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16};
    const stn_placement whole[] = {stn_replicate(), stn_replicate()}, cut[] = {stn_shard(1), stn_shard(2)};
    const stn_mesh *mesh = test_mesh(context, 2, 3);
    const int64_t n = 4 * against_one_numel(&shape);
    double *want = malloc((size_t)n * sizeof *want), *got = malloc((size_t)n * sizeof *got);
    (void)arg;
    for (int t = 0; t < 2; t++) {
        all_of(context, mesh, whole, dtypes[t], &shape, NULL, &attrs, want);
        for (int uneven = 0; uneven < 2; uneven++) {
            int64_t differ = 0;
            all_of(context, mesh, cut, dtypes[t], &shape, uneven ? sizes : NULL, &attrs, got);
            for (int64_t i = 0; i < n; i++)
                differ += got[i] != want[i];
            CHECK_I64(differ, 0);
        }
    }
    free(want), free(got);
    return STN_OK;
}

static void cuts_of_space_change_no_bit(void)
{
    test_ranks(6, bits_body, NULL);
}

/* What moves */

static stn_status moves_body(stn_context *context, void *arg)
{
    enum { B = 2, N = 12, HEADS = 4, KEYS = 2, E = 3, ROW = B * KEYS * 2 * E * 8 }; /* bytes of one position */
    static const int64_t q[] = {B, N, HEADS, E}, k[] = {B, N, KEYS, E}, uneven[] = {9, 3};
    static const int64_t *const sizes[] = {NULL, uneven, NULL, NULL};
    const stn_neighborhood_attrs near = {ATTRS, .kernel_size = {5}}, far = {ATTRS, .kernel_size = {2}, .dilation = {3}},
                                 causal = {ATTRS, .kernel_size = {4}, .is_causal = {1}},
                                 one = {ATTRS, .kernel_size = {1}};
    const struct {
        stn_placement placement;
        const stn_neighborhood_attrs *attrs;
        const int64_t *const *key_sizes;
        int64_t positions[2]; /* from each rank */
    } cases[] = {
        {stn_shard(0), &near, NULL, {0, 0}},
        {stn_shard(2), &near, NULL, {0, 0}},
        {stn_shard(1), &near, NULL, {2, 2}},
        {stn_shard(1), &far, NULL, {3, 0}},   /* even: before the query alone */
        {stn_shard(1), &causal, NULL, {3, 0}},
        {stn_shard(1), &one, NULL, {0, 0}},
        {stn_shard(1), &near, sizes, {5, 0}}, /* keys 4 … 8 of queries 6 … 11 lie on the first rank */
    };
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stn_placement *p = &cases[i].placement;
        stn_stats stats = {.size = sizeof stats};
        stn_scope_begin(context);
        stn_tensor *query = test_tensor(context, mesh, p, STN_DTYPE_F64, 4, q, NULL, test_value),
                   *key = test_tensor(context, mesh, p, STN_DTYPE_F64, 4, k, cases[i].key_sizes, test_value),
                   *value = test_tensor(context, mesh, p, STN_DTYPE_F64, 4, k, cases[i].key_sizes, test_value);
        stn_context_stats_reset(context);
        stn_tensor *y = stn_neighborhood_attention(query, key, value, cases[i].attrs);
        stn_context_stats(context, &stats);
        CHECK(stn_tensor_spec(y) == stn_tensor_spec(query));
        CHECK_I64(stats.bytes_sent, cases[i].positions[stn_context_rank(context)] * ROW);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void only_what_windows_need_of_other_ranks_moves(void)
{
    test_ranks(2, moves_body, NULL);
}

/* A NaN in keys, values and a query's own place reaches the queries that attend to it, and no others, whichever lanes
 * of a vector these are. */
static stn_status nan_body(stn_context *context, void *arg)
{
    enum { N = 40 };
    static const struct random_shape shape = {4, {1, N, 1, 2}};
    const stn_neighborhood_attrs attrs = {ATTRS, .kernel_size = {5, 1, 1}, .dilation = {2}};
    double values[2 * N], got[2 * N], gradient[2 * N];
    (void)arg;
    for (int64_t at = 0; at < N; at++)
        for (int k = 1; k < 3; k++) {
            int64_t wrong = 0;
            stn_scope_begin(context);
            stn_tensor *x[3], *grad;
            for (int i = 0; i < 3; i++) {
                for (int64_t j = 0; j < 2 * N; j++)
                    values[j] = i == k && j / 2 == at ? (double)NAN : test_value(j + i);
                x[i] = against_one_local(context, STN_DTYPE_F32, &shape, values);
            }
            CHECK_STATUS(stn_set_requires_grad(x[0], 1), STN_OK);
            stn_tensor *y = call_neighborhood(x, &attrs), *sum = stn_sum(y, 0, NULL, 0);
            test_read(y, got, 2 * N);
            CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, x, 0, 0, &grad), STN_OK);
            test_read(grad, gradient, 2 * N);
            for (int64_t i = 0; i < N; i++)
                wrong += isnan(got[2 * i]) != attends(&attrs, 0, N, i, at) ||
                         isnan(gradient[2 * i]) != attends(&attrs, 0, N, i, at);
            CHECK_I64(wrong, 0);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void nan_reaches_those_that_attend_to_it(void)
{
    test_ranks(1, nan_body, NULL);
}

/* Refusals */

static stn_tensor *zeros(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape)
{
    static const double values[512];
    struct random_shape s = {.ndim = ndim};
    memcpy(s.shape, shape, (size_t)ndim * sizeof *shape);
    return against_one_local(context, dtype, &s, values);
}

#define OP "neighborhood_attention: "

static void check_shapes_refused(stn_context *context)
{
    const stn_neighborhood_attrs attrs = {ATTRS, .kernel_size = {3, 3}};
    static const int64_t q[] = {1, 4, 5, 3, 2}, longer[] = {1, 4, 6, 3, 2}, two[] = {1, 4, 5, 2, 2}, flat[] = {4, 5, 2};
    stn_tensor *x = zeros(context, STN_DTYPE_F32, 5, q), *y = zeros(context, STN_DTYPE_F32, 5, longer),
               *heads = zeros(context, STN_DTYPE_F32, 5, two), *line = zeros(context, STN_DTYPE_F32, 3, flat),
               *wide = zeros(context, STN_DTYPE_F64, 5, q);
#define WANTED \
    ", wanted (b, space…, heads, e), (b, space…, key heads, e) and (b, space…, key heads, v) with 1 to 3 dims of space"
    CHECK_REFUSED(context, stn_neighborhood_attention(x, y, y, &attrs), STN_ERR_SHAPE,
                  OP "got query, key and value of shapes (1, 4, 5, 3, 2), (1, 4, 6, 3, 2) and (1, 4, 6, 3, 2)" WANTED);
    CHECK_REFUSED(context, stn_neighborhood_attention(x, x, heads, &attrs), STN_ERR_SHAPE,
                  OP "got query, key and value of shapes (1, 4, 5, 3, 2), (1, 4, 5, 3, 2) and (1, 4, 5, 2, 2)" WANTED);
    CHECK_REFUSED(context, stn_neighborhood_attention(line, line, line, &attrs), STN_ERR_SHAPE,
                  OP "got query, key and value of shapes (4, 5, 2), (4, 5, 2) and (4, 5, 2)" WANTED);
    CHECK_REFUSED(context, stn_neighborhood_attention(x, heads, heads, &attrs), STN_ERR_SHAPE,
                  OP "'key' got 2 heads, wanted a divisor of query's 3");
    CHECK_REFUSED(context, stn_neighborhood_attention(x, wide, x, &attrs), STN_ERR_DTYPE,
                  OP "'key' got f64, wanted query's f32");
}

static stn_tensor *by_name(stn_tensor *x, const char *name, int64_t n, int64_t first, int64_t second)
{
    stn_attr attrs[] = {{.name = "kernel_size", .type = STN_ATTR_INTS, .value.ints = {1, {2}}},
                        {.name = name, .type = STN_ATTR_INTS, .value.ints = {n, {first, second}}}};
    stn_tensor *out = NULL;
    const int other = strcmp(name, "kernel_size") != 0;
    stn_call(stn_tensor_context(x), "neighborhood_attention", 3, (stn_tensor *[]){x, x, x}, 1 + other,
             attrs + 1 - other, 1, &out);
    return out;
}

static void check_attributes_refused(stn_context *context)
{
    const stn_neighborhood_attrs large = {ATTRS, .kernel_size = {3, 2}, .dilation = {1, 3}}, old = {.size = 8},
                                 none = {ATTRS};
    static const int64_t q[] = {1, 4, 5, 3, 2};
    stn_tensor *x = zeros(context, STN_DTYPE_F32, 5, q);
    char text[128];
    CHECK_REFUSED(context, stn_neighborhood_attention(x, x, x, &large), STN_ERR_SHAPE,
                  OP "'kernel_size' got 2 with a dilation of 3 along dim 2, "
                     "wanted a product of at most its 5 elements");
    CHECK_REFUSED(context, stn_neighborhood_attention(x, x, x, &none), STN_ERR_ARGUMENT,
                  OP "'kernel_size' got 0, wanted at least 1");
    snprintf(text, sizeof text, OP "attrs.size got 8, wanted %zu", sizeof old);
    CHECK_REFUSED(context, stn_neighborhood_attention(x, x, x, &old), STN_ERR_ARGUMENT, text);
    CHECK_REFUSED(context, by_name(x, "kernel_size", 0, 0, 0), STN_ERR_ARGUMENT,
                  OP "'kernel_size' got none, wanted 1 or 2 numbers");
    CHECK_REFUSED(context, by_name(x, "dilation", 3, 1, 1), STN_ERR_ARGUMENT,
                  OP "'dilation' got 3 numbers, wanted 1 or 2");
    CHECK_REFUSED(context, by_name(x, "dilation", 2, 1, 0), STN_ERR_ARGUMENT, OP "'dilation' got 0, wanted at least 1");
    CHECK_REFUSED(context, by_name(x, "is_causal", 1, 2, 0), STN_ERR_ARGUMENT, OP "'is_causal' got 2, wanted 0 or 1");
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const int64_t q[] = {1, 4, 5, 3, 2};
    const stn_neighborhood_attrs attrs = {ATTRS, .kernel_size = {3, 3}};
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_context_stats_reset(context);
    check_shapes_refused(context);
    check_attributes_refused(context);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.bytes_sent, 0);
    stn_tensor *x = zeros(context, STN_DTYPE_F32, 5, q), *grad;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *y = stn_neighborhood_attention(x, x, x, &attrs), *ones = stn_detach(y);
    CHECK(stn_grad(context, 1, &y, &ones, 1, &x, 1, 1, &grad) != STN_OK);
    CHECK_ERROR_PART(context, STN_ERR_UNSUPPORTED, "neighborhood_attention");
    return stn_scope_end(context);
}

static void bad_arguments_and_second_derivatives_are_refused(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"windows_give_what_a_plain_loop_gives", windows_give_what_a_plain_loop_gives},
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"cuts_of_space_change_no_bit", cuts_of_space_change_no_bit},
        {"only_what_windows_need_of_other_ranks_moves", only_what_windows_need_of_other_ranks_moves},
        {"nan_reaches_those_that_attend_to_it", nan_reaches_those_that_attend_to_it},
        {"bad_arguments_and_second_derivatives_are_refused", bad_arguments_and_second_derivatives_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
