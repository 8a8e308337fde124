/* scaled_dot_product_attention: blocks against a plain loop, layouts against one process with gradients, dropout,
 * rows that attend to nothing, what moves, memory, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static stn_tensor *call_attention(stn_tensor *const *in, const void *arg)
{
    const stn_attention_attrs *attrs = arg;
    stn_context_set_random_state(stn_tensor_context(in[0]), 17, 5);
    return stn_scaled_dot_product_attention(in[0], in[1], in[2], NULL, attrs);
}

static stn_tensor *call_masked(stn_tensor *const *in, const void *arg)
{
    const stn_attention_attrs *attrs = arg;
    stn_context_set_random_state(stn_tensor_context(in[0]), 17, 5);
    return stn_scaled_dot_product_attention(in[0], in[1], in[2], in[3], attrs);
}

struct sizes {
    int64_t heads, key_heads, l, s, e, v;
};

/* Row by row: out[h, i] = sum_j p_j value[j], p the softmax of scores. `mask` (l, s) may be NULL. */
static void plain_attention(const struct sizes *n, const double *q, const double *k, const double *v,
                            const double *mask, int causal, double scale, double *out)
{
    double *p = malloc((size_t)n->s * sizeof *p);
    for (int64_t h = 0; h < n->heads; h++)
        for (int64_t i = 0; i < n->l; i++) {
            const int64_t shared = h / (n->heads / n->key_heads);
            double sum = 0, largest = -INFINITY;
            for (int64_t j = 0; j < n->s; j++) {
                p[j] = mask ? mask[i * n->s + j] : 0;
                for (int64_t c = 0; c < n->e; c++)
                    p[j] += scale * q[(h * n->l + i) * n->e + c] * k[(shared * n->s + j) * n->e + c];
                p[j] = causal && j > i ? -INFINITY : p[j];
                largest = fmax(largest, p[j]);
            }
            for (int64_t j = 0; j < n->s; j++)
                sum += p[j] = exp(p[j] - largest);
            for (int64_t c = 0; c < n->v; c++) {
                double *to = &out[(h * n->l + i) * n->v + c];
                *to = 0;
                for (int64_t j = 0; j < n->s; j++)
                    *to += p[j] / sum * v[(shared * n->s + j) * n->v + c];
            }
        }
    free(p);
}

/* More rows of both kinds than a block has. */
static stn_status blocks_body(stn_context *context, void *arg)
{
    static const struct {
        struct sizes n;
        int causal, masked, has_scale;
    } cases[] = {{{1, 1, 150, 300, 3, 5}, 0, 0, 0},
                 {{2, 2, 130, 140, 4, 2}, 1, 0, 0},
                 {{4, 2, 67, 129, 2, 3}, 0, 1, 1},
                 {{3, 1, 200, 70, 5, 1}, 1, 0, 1}};
    uint64_t state = 3;
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sizes n = cases[i].n;
        const struct random_shape qs = {3, {n.heads, n.l, n.e}}, ks = {3, {n.key_heads, n.s, n.e}},
                                  vs = {3, {n.key_heads, n.s, n.v}}, ms = {2, {n.l, n.s}};
        double *q = against_one_draw(&state, against_one_numel(&qs)),
               *k = against_one_draw(&state, against_one_numel(&ks)),
               *v = against_one_draw(&state, against_one_numel(&vs)), *m = against_one_draw(&state, n.l * n.s),
               *want = calloc((size_t)(n.heads * n.l * n.v), sizeof *want);
        stn_attention_attrs attrs = {.size = sizeof attrs,
                                     .is_causal = cases[i].causal,
                                     .enable_gqa = 1,
                                     .has_scale = cases[i].has_scale,
                                     .scale = 2.5};
        for (int64_t j = 0; j < n.e; j++)
            q[j] *= 100; /* scores far apart: the largest comes late or early */
        stn_scope_begin(context);
        stn_tensor *mask = cases[i].masked ? against_one_local(context, STN_DTYPE_F64, &ms, m) : NULL;
        plain_attention(&n, q, k, v, mask ? m : NULL, cases[i].causal, cases[i].has_scale ? 2.5 : 1 / sqrt((double)n.e),
                        want);
        against_one_compare(stn_scaled_dot_product_attention(against_one_local(context, STN_DTYPE_F64, &qs, q),
                                                             against_one_local(context, STN_DTYPE_F64, &ks, k),
                                                             against_one_local(context, STN_DTYPE_F64, &vs, v), mask,
                                                             &attrs),
                            want, 1e-12);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        free(q), free(k), free(v), free(m), free(want);
    }
    return STN_OK;
}

static void blocks_give_what_a_plain_loop_gives(void)
{
    test_ranks(1, blocks_body, NULL);
}

static const struct {
    stn_attention_attrs attrs;
    struct random_shape in[4]; /* the last one without dims: no mask */
} calls[] = {
    {{.size = sizeof(stn_attention_attrs)}, {{4, {2, 3, 5, 4}}, {4, {2, 3, 7, 4}}, {4, {2, 3, 7, 2}}}},
    {{.size = sizeof(stn_attention_attrs), .is_causal = 1}, {{3, {2, 6, 3}}, {3, {2, 4, 3}}, {3, {2, 4, 2}}}},
    {{.size = sizeof(stn_attention_attrs), .enable_gqa = 1}, {{3, {6, 5, 2}}, {3, {3, 4, 2}}, {3, {3, 4, 3}}}},
    {{.size = sizeof(stn_attention_attrs), .enable_gqa = 1}, {{4, {2, 4, 3, 2}}, {3, {1, 4, 2}}, {4, {1, 1, 4, 3}}}},
    {{.size = sizeof(stn_attention_attrs)}, {{2, {5, 2}}, {3, {3, 4, 2}}, {2, {4, 3}}}},
    {{.size = sizeof(stn_attention_attrs)}, {{4, {2, 2, 5, 3}}, {4, {2, 2, 4, 3}}, {4, {2, 2, 4, 2}}, {3, {2, 1, 4}}}},
    {{.size = sizeof(stn_attention_attrs)}, {{3, {2, 5, 3}}, {3, {2, 4, 3}}, {3, {2, 4, 2}}, {3, {1, 5, 4}}}},
    {{.size = sizeof(stn_attention_attrs)}, {{2, {5, 3}}, {2, {4, 3}}, {2, {4, 2}}, {1, {4}}}},
    {{.size = sizeof(stn_attention_attrs), .dropout_p = 0.3},
     {{4, {2, 3, 5, 4}}, {4, {2, 3, 7, 4}}, {4, {2, 3, 7, 2}}}},
    {{.size = sizeof(stn_attention_attrs), .dropout_p = 0.5, .is_causal = 1, .enable_gqa = 1},
     {{3, {4, 5, 2}}, {3, {2, 6, 2}}, {3, {2, 6, 3}}}},
    {{.size = sizeof(stn_attention_attrs)}, {{3, {4, 3, 5}}, {3, {1, 4, 5}}, {3, {4, 4, 2}}}},
    {{.size = sizeof(stn_attention_attrs), .is_causal = 1}, {{3, {4, 3, 5}}, {2, {4, 5}}, {3, {4, 4, 2}}}},
    {{.size = sizeof(stn_attention_attrs)},
     {{4, {2, 3, 3, 2}}, {4, {2, 3, 4, 2}}, {4, {2, 1, 4, 3}}, {4, {1, 3, 1, 4}}}},
    {{.size = sizeof(stn_attention_attrs), .dropout_p = 0.3}, {{3, {1, 3, 2}}, {4, {2, 5, 4, 2}}, {4, {2, 1, 4, 3}}}},
    {{.size = sizeof(stn_attention_attrs), .enable_gqa = 1, .is_causal = 1},
     {{4, {1, 6, 3, 2}}, {3, {2, 4, 2}}, {4, {5, 2, 4, 3}}}},
    {{.size = sizeof(stn_attention_attrs)}, {{3, {2, 0, 3}}, {3, {2, 4, 3}}, {3, {2, 4, 2}}}},
    {{.size = sizeof(stn_attention_attrs), .enable_gqa = 1}, {{3, {0, 2, 3}}, {3, {5, 4, 3}}, {3, {5, 4, 2}}}},
    {{.size = sizeof(stn_attention_attrs)}, {{3, {2, 3, 3}}, {3, {2, 0, 3}}, {3, {2, 0, 2}}}},
};

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 5;
    (void)arg;
    for (int round = 0; round < test_draws(3); round++)
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            const int masked = calls[i].in[3].ndim > 0;
            struct against_one_op op = {.call = masked ? call_masked : call_attention,
                                        .arg = &calls[i].attrs,
                                        .n_in = 3 + masked,
                                        .tolerance = 1e-11,
                                        .first_order = 1};
            double *v[4] = {NULL};
            for (int k = 0; k < op.n_in; k++) {
                v[k] = against_one_draw(&state, against_one_numel(&calls[i].in[k]));
                op.in[k] = (struct against_one_input){STN_DTYPE_F64, calls[i].in[k], v[k], 1u << STN_SUM};
            }
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0)
                against_one_differences(context, &state, &op);
            for (int k = 0; k < 4; k++)
                free(v[k]);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

struct narrow {
    stn_attention_attrs attrs;
    stn_dtype dtype;
};

static stn_tensor *call_narrow(stn_tensor *const *in, const void *arg)
{
    const struct narrow *narrow = arg;
    stn_tensor *x[3];
    for (int k = 0; k < 3; k++)
        x[k] = stn_cast(in[k], narrow->dtype);
    return stn_cast(call_attention(x, &narrow->attrs), STN_DTYPE_F32);
}

/* What one operand lacks of a dim that another is sharded along. */
static stn_status broadcast_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_F16};
    static const double tolerances[] = {1e-5, 2e-2, 2e-3};
    static const struct random_shape shapes[][3] = {{{3, {4, 3, 5}}, {3, {1, 4, 5}}, {3, {4, 4, 2}}},
                                                    {{3, {4, 3, 5}}, {2, {4, 5}}, {3, {4, 4, 2}}},
                                                    {{3, {4, 3, 5}}, {3, {4, 4, 5}}, {2, {4, 2}}}};
    uint64_t state = 11;
    (void)arg;
    for (int t = 0; t < 9; t++) {
        struct narrow narrow = {{.size = sizeof narrow.attrs}, dtypes[t / 3]};
        struct against_one_op op = {
            .call = call_narrow, .arg = &narrow, .n_in = 3, .tolerance = tolerances[t / 3], .first_order = 1};
        double *v[3];
        for (int k = 0; k < 3; k++) {
            v[k] = against_one_draw(&state, against_one_numel(&shapes[t % 3][k]));
            op.in[k] = (struct against_one_input){STN_DTYPE_F32, shapes[t % 3][k], v[k], 0};
        }
        for (int round = 0; round < test_draws(6); round++)
            against_one_check(context, &state, test_mesh(context, stn_context_size(context), 0), &op);
        for (int k = 0; k < 3; k++)
            free(v[k]);
    }
    return STN_OK;
}

static void operands_broadcast_over_sharded_heads_in_every_dtype(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, broadcast_body, NULL);
}

/* With values of ones a row is the sum of the weights that dropout left. */
static stn_status dropout_body(stn_context *context, void *arg)
{
    enum { L = 100, S = 200 };
    const struct random_shape rows = {2, {L, 1}}, keys = {2, {S, 1}};
    const stn_attention_attrs attrs = {.size = sizeof attrs, .dropout_p = 0.25};
    double zeros[S] = {0}, ones[S], got[L], sum = 0;
    int64_t distinct = 0;
    (void)arg;
    for (int i = 0; i < S; i++)
        ones[i] = 1;
    stn_scope_begin(context);
    test_read(stn_scaled_dot_product_attention(against_one_local(context, STN_DTYPE_F64, &rows, zeros),
                                               against_one_local(context, STN_DTYPE_F64, &keys, zeros),
                                               against_one_local(context, STN_DTYPE_F64, &keys, ones), NULL, &attrs),
              got, L);
    for (int i = 0; i < L; i++) {
        sum += got[i];
        distinct += i > 0 && got[i] != got[i - 1];
        CHECK_NEAR(got[i] * S * 0.75, round(got[i] * S * 0.75), 1e-9); /* whole numbers of kept weights */
    }
    CHECK_NEAR(sum / L, 1, 0.02);
    CHECK(distinct > L / 2);
    return stn_scope_end(context);
}

static void dropout_keeps_the_mean_of_weights(void)
{
    test_ranks(1, dropout_body, NULL);
}

/* Whatever the seed is by the time of the backward. */
static stn_status reseeded_body(stn_context *context, void *arg)
{
    enum { L = 6, E = 2 };
    const struct random_shape rows = {2, {L, E}};
    const stn_attention_attrs attrs = {.size = sizeof attrs, .dropout_p = 0.5};
    double values[L * E], want[L * E], got[L * E];
    stn_tensor *grad;
    (void)arg;
    for (int i = 0; i < L * E; i++)
        values[i] = test_value(i);
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &rows, values);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    for (int again = 0; again < 2; again++) {
        stn_context_set_random_state(context, 5, 1);
        stn_tensor *y = stn_scaled_dot_product_attention(x, x, x, NULL, &attrs);
        if (again)
            stn_context_set_random_state(context, 6, 1);
        CHECK_STATUS(stn_grad(context, 1, &y, &x, 1, &x, 1, 0, &grad), STN_OK);
        test_read(grad, again ? got : want, L * E);
    }
    CHECK_BYTES(got, want, sizeof got);
    return stn_scope_end(context);
}

static void a_new_seed_changes_no_gradient_of_what_was_drawn_before(void)
{
    test_ranks(1, reseeded_body, NULL);
}

static stn_status nothing_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {2, {2, 2}};
    const double values[] = {1, -2, 3, 4}, forbids[] = {-INFINITY, -INFINITY, 0, -INFINITY}, want[] = {0, 0, 1, -2},
                 none[] = {0, 0, 0, 0};
    const double of_value[] = {1, 1, 0, 0};
    stn_attention_attrs attrs = {.size = sizeof attrs};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x[3], *mask = against_one_local(context, STN_DTYPE_F64, &shape, forbids), *grad[3];
    for (int i = 0; i < 3; i++) {
        x[i] = against_one_local(context, STN_DTYPE_F64, &shape, values);
        CHECK_STATUS(stn_set_requires_grad(x[i], 1), STN_OK);
    }
    for (int boolean = 0; boolean < 2; boolean++) {
        stn_tensor *y =
            stn_scaled_dot_product_attention(x[0], x[1], x[2], boolean ? stn_eq_number(mask, 0) : mask, &attrs);
        stn_tensor *ones = stn_add_number(stn_mul_number(stn_detach(y), 0), 1);
        against_one_compare(y, want, 0);
        CHECK_STATUS(stn_grad(context, 1, &y, &ones, 3, x, 0, 0, grad), STN_OK);
        against_one_compare(grad[0], none, 0);
        against_one_compare(grad[1], none, 0);
        against_one_compare(grad[2], of_value, 0);
    }
    return stn_scope_end(context);
}

static void a_row_that_may_attend_to_nothing_gives_zeros(void)
{
    test_ranks(1, nothing_body, NULL);
}

static stn_status moves_body(stn_context *context, void *arg)
{
    const int64_t q[] = {4, 4, 6, 2}, k[] = {4, 2, 8, 2};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_attention_attrs attrs = {.size = sizeof attrs, .enable_gqa = 1};
    const struct {
        stn_placement q, k;
        int64_t bytes; /* from each rank */
    } cases[] = {
        {stn_shard(0), stn_shard(0), 0},
        {stn_shard(1), stn_shard(1), 0}, /* groups of heads */
        {stn_shard(1), stn_replicate(), 0},
        {stn_shard(2), stn_replicate(), 0},
        {stn_shard(2), stn_shard(2), 2 * 4 * 2 * 4 * 2 * 8}, /* keys and values are made whole */
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_stats stats = {.size = sizeof stats};
        stn_scope_begin(context);
        stn_tensor *query = test_tensor(context, mesh, &cases[i].q, STN_DTYPE_F64, 4, q, NULL, test_value),
                   *key = test_tensor(context, mesh, &cases[i].k, STN_DTYPE_F64, 4, k, NULL, test_value),
                   *value = test_tensor(context, mesh, &cases[i].k, STN_DTYPE_F64, 4, k, NULL, test_value);
        stn_context_stats_reset(context);
        stn_tensor *y = stn_scaled_dot_product_attention(query, key, value, NULL, &attrs);
        stn_context_stats(context, &stats);
        stn_placement have = stn_spec_placement(stn_tensor_spec(y), 0);
        CHECK(have.kind == cases[i].q.kind && have.dim == cases[i].q.dim);
        CHECK_I64(stats.bytes_sent, cases[i].bytes);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void batch_heads_and_rows_stay_cut(void)
{
    test_ranks(2, moves_body, NULL);
}

/* Forward and backward hold some blocks of rows beside their results. */
static stn_status memory_body(stn_context *context, void *arg)
{
    enum { N = 2048, E = 8, ROWS_BYTES = N * E * 4, BLOCKS = 1 << 20 };
    const int64_t shape[] = {N, E};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement rows = stn_shard(0);
    const stn_attention_attrs attrs = {.size = sizeof attrs, .is_causal = 1, .dropout_p = 0.1};
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F32, 2, shape, NULL, test_value), *grad;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_context_stats_reset(context);
    stn_tensor *y = stn_scaled_dot_product_attention(x, x, x, NULL, &attrs),
               *ones = stn_add_number(stn_mul_number(stn_detach(y), 0), 1);
    CHECK_STATUS(stn_grad(context, 1, &y, &ones, 1, &x, 0, 0, &grad), STN_OK);
    stn_context_stats(context, &stats);
    CHECK(stats.peak_bytes < 16 * ROWS_BYTES + BLOCKS); /* scores alone would be 8 MiB on each rank */
    return stn_scope_end(context);
}

static void memory_does_not_grow_with_the_product_of_rows(void)
{
    test_ranks(2, memory_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const struct random_shape q = {3, {4, 5, 2}}, k = {3, {3, 6, 2}}, other = {3, {4, 6, 3}}, m = {2, {5, 5}},
                              flat = {1, {2}};
    const double zeros[128] = {0};
    stn_attention_attrs plain = {.size = sizeof plain}, gqa = {.size = sizeof gqa, .enable_gqa = 1},
                        causal = {.size = sizeof causal, .is_causal = 1},
                        dropout = {.size = sizeof dropout, .dropout_p = 1.5};
    char text[512];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *a = against_one_local(context, STN_DTYPE_F32, &q, zeros),
               *b = against_one_local(context, STN_DTYPE_F32, &k, zeros),
               *c = against_one_local(context, STN_DTYPE_F32, &other, zeros),
               *mask = against_one_local(context, STN_DTYPE_F32, &m, zeros),
               *wide = against_one_local(context, STN_DTYPE_F64, &q, zeros),
               *line = against_one_local(context, STN_DTYPE_F32, &flat, zeros), *grad;
#define REFUSED(a, b, c, mask, attrs, status, message)                                         \
    CHECK(stn_tensor_is_error(stn_scaled_dot_product_attention(a, b, c, mask, attrs)));        \
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), status);                  \
    CHECK_STR(text, "scaled_dot_product_attention: " message)
    REFUSED(a, c, c, NULL, &plain, STN_ERR_SHAPE,
            "got query, key and value of shapes (4, 5, 2), (4, 6, 3) and (4, 6, 3), wanted (…, l, e), (…, s, e) and "
            "(…, s, v)");
    REFUSED(
        line, a, a, NULL, &plain, STN_ERR_SHAPE,
        "got query, key and value of shapes (2), (4, 5, 2) and (4, 5, 2), wanted (…, l, e), (…, s, e) and (…, s, v)");
    REFUSED(a, b, b, NULL, &plain, STN_ERR_SHAPE,
            "'key' got shape (3, 6, 2), whose batch does not broadcast with that of shape (4, 5, 2)");
    REFUSED(a, b, b, NULL, &gqa, STN_ERR_SHAPE, "'key' got 3 heads, wanted key's, a divisor of query's 4");
    REFUSED(a, wide, a, NULL, &plain, STN_ERR_DTYPE, "'key' got f64, wanted query's f32");
    REFUSED(a, a, a, mask, &causal, STN_ERR_ARGUMENT, "'is_causal' got true beside 'attn_mask', wanted one of them");
    REFUSED(a, a, a, b, &plain, STN_ERR_SHAPE,
            "'attn_mask' got shape (3, 6, 2), wanted one that broadcasts to (4, 5, 5)");
    REFUSED(a, a, a, NULL, &dropout, STN_ERR_ARGUMENT, "'dropout_p' got 1.5, wanted 0 <= dropout_p <= 1");
    CHECK_STATUS(stn_set_requires_grad(a, 1), STN_OK);
    stn_tensor *y = stn_scaled_dot_product_attention(a, a, a, NULL, NULL), *ones = stn_detach(y);
    CHECK(stn_grad(context, 1, &y, &ones, 1, &a, 1, 1, &grad) != STN_OK);
    stn_context_take_error(context, text, sizeof text);
    CHECK(strstr(text, "scaled_dot_product_attention") != NULL);
    return stn_scope_end(context);
}

static void bad_arguments_and_second_derivatives_are_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"blocks_give_what_a_plain_loop_gives", blocks_give_what_a_plain_loop_gives},
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"operands_broadcast_over_sharded_heads_in_every_dtype", operands_broadcast_over_sharded_heads_in_every_dtype},
        {"dropout_keeps_the_mean_of_weights", dropout_keeps_the_mean_of_weights},
        {"a_new_seed_changes_no_gradient_of_what_was_drawn_before",
         a_new_seed_changes_no_gradient_of_what_was_drawn_before},
        {"a_row_that_may_attend_to_nothing_gives_zeros", a_row_that_may_attend_to_nothing_gives_zeros},
        {"batch_heads_and_rows_stay_cut", batch_heads_and_rows_stay_cut},
        {"memory_does_not_grow_with_the_product_of_rows", memory_does_not_grow_with_the_product_of_rows},
        {"bad_arguments_and_second_derivatives_are_refused", bad_arguments_and_second_derivatives_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
