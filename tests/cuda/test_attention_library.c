/* Attention by cuDNN on a CUDA device: results and gradients are the CPU's, how often the library ran, and that our own
 * kernels serve where it refuses. */
#include "both.h"

#include "harness.h"

#include "core/tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVES = 3, RESULTS = LEAVES + 1, SERVED = 2 /* runs: for the result and for all gradients */ };

/* Heads and elements of the batch, rows, keys and widths. */
struct shape {
    int64_t batch, heads, key_heads, rows, keys, width, value_width;
};

enum how { PLAIN, CAUSAL, TURNED, MASKED, DROPPED };

static const struct call {
    const char *name;
    struct shape shape;
    enum how how;
    int runs; /* of the library */
} calls[] = {
    {"plain", {2, 4, 4, 200, 170, 16, 24}, PLAIN, SERVED},
    {"no batch", {1, 4, 4, 257, 260, 8, 8}, PLAIN, SERVED},
    {"causal", {1, 4, 4, 262, 262, 8, 16}, CAUSAL, SERVED},
    {"causal, fewer keys", {2, 4, 4, 300, 130, 16, 8}, CAUSAL, SERVED},
    {"causal, more keys", {1, 8, 8, 190, 250, 8, 16}, CAUSAL, SERVED},
    {"rows of heads side by side", {2, 4, 4, 200, 170, 16, 24}, TURNED, SERVED},
    {"shared keys", {2, 4, 2, 200, 170, 16, 24}, PLAIN, 1},
    {"shared keys, causal", {1, 6, 1, 220, 220, 16, 16}, CAUSAL, 1},
    {"few scores", {1, 2, 2, 200, 170, 16, 24}, PLAIN, 0},
    {"rows that are no packs", {2, 4, 4, 200, 170, 12, 24}, PLAIN, 0},
    {"a mask", {2, 4, 4, 200, 170, 16, 24}, MASKED, 0},
    {"dropout", {2, 4, 4, 200, 170, 16, 24}, DROPPED, 0},
};
enum { CALLS = sizeof calls / sizeof *calls };

struct results {
    double *numbers[RESULTS];
    int64_t n[RESULTS];
    int64_t runs;
};

static stn_tensor *leaf(stn_context *context, stn_dtype dtype, const struct call *call, int operand)
{
    const struct shape *s = &call->shape;
    const int64_t rows = operand == 0 ? s->rows : s->keys, heads = operand == 0 ? s->heads : s->key_heads;
    const int64_t width = operand == 2 ? s->value_width : s->width;
    const int is_turned = call->how == TURNED, has_batch = s->batch > 1;
    const int64_t shape[] = {s->batch, is_turned ? rows : heads, is_turned ? heads : rows, width};
    stn_tensor *x = both_input(context, dtype, 3 + has_batch, shape + !has_batch, operand + 1);
    stn_set_requires_grad(x, 1);
    return x;
}

static stn_tensor *attend(const struct call *call, stn_tensor *const *leaves, stn_tensor *mask)
{
    stn_attention_attrs attrs = {.size = sizeof attrs, .has_scale = 1, .scale = 0.05};
    stn_tensor *in[LEAVES];
    attrs.is_causal = call->how == CAUSAL;
    attrs.enable_gqa = call->shape.heads != call->shape.key_heads;
    attrs.dropout_p = call->how == DROPPED ? 0.3 : 0;
    for (int i = 0; i < LEAVES; i++)
        in[i] = call->how == TURNED ? stn_transpose(leaves[i], 1, 2) : leaves[i];
    return stn_scaled_dot_product_attention(in[0], in[1], in[2], mask, &attrs);
}

static void keep(stn_tensor *t, struct results *to, int k)
{
    to->n[k] = stn_spec_numel(stn_tensor_spec(t));
    to->numbers[k] = malloc((size_t)to->n[k] * sizeof(double));
    CHECK_STATUS(stn_to_host(stn_cast(stn_detach(t), STN_DTYPE_F64), to->numbers[k], (size_t)to->n[k] * sizeof(double)),
                 STN_OK);
}

/* Results with this many of the library's answers refused; -1: all. */
static void solve(stn_context *context, const struct call *call, stn_dtype dtype, struct stni_refusals refusals,
                  struct results *out)
{
    enum { MANY = 1000 };
    struct stni_refusals *injected = &context->foreign.refusals[STNI_LIBRARY_CUDNN];
    const int64_t of_mask[] = {call->shape.rows, call->shape.keys};
    stn_tensor *leaves[LEAVES], *grad = NULL;
    stn_scope_begin(context);
    for (int i = 0; i < LEAVES; i++)
        leaves[i] = leaf(context, dtype, call, i);
    stn_tensor *mask = call->how == MASKED ? both_input(context, dtype, 2, of_mask, 7) : NULL;
    *injected = refusals;
    if (injected->run == 0)
        injected->run = MANY;
    const int64_t before = injected->run;
    stn_tensor *result = attend(call, leaves, mask);
    stn_tensor *cotangent =
        both_input(context, dtype, stn_spec_ndim(stn_tensor_spec(result)), stn_tensor_shape(result), 9);
    CHECK_STATUS(stn_backward_many(context, 1, &result, &cotangent, 0), STN_OK);
    out->runs = before - injected->run;
    memset(injected, 0, sizeof *injected);
    keep(result, out, 0);
    for (int i = 0; i < LEAVES; i++)
        if (CHECK_STATUS(stn_grad_of(leaves[i], &grad), STN_OK))
            keep(grad, out, 1 + i);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

/* Factors are rounded to 16 bits: the root of the mean square of errors beside that of the numbers. */
static void check_results(const struct call *call, stn_dtype dtype, const struct results *got,
                          const struct results *want)
{
    const double tolerance = dtype == STN_DTYPE_BF16 ? 1e-2 : 2e-3;
    for (int k = 0; k < RESULTS; k++) {
        double off = 0, size = 0;
        for (int64_t i = 0; i < want->n[k]; i++) {
            off += (got->numbers[k][i] - want->numbers[k][i]) * (got->numbers[k][i] - want->numbers[k][i]);
            size += want->numbers[k][i] * want->numbers[k][i];
        }
        if (!CHECK(got->n[k] == want->n[k] && sqrt(off) <= tolerance * sqrt(size)))
            fprintf(stderr, "  %s, %s, result %d: differs by %g of %g\n", call->name, stn_dtype_name(dtype), k,
                    sqrt(off), sqrt(size));
    }
}

static void forget(struct results *r)
{
    for (int k = 0; k < RESULTS; k++)
        free(r->numbers[k]);
}

static void compare(const struct call *call, stn_dtype dtype, struct stni_refusals refusals, int64_t runs)
{
    struct results got = {{NULL}, {0}, 0}, want = {{NULL}, {0}, 0};
    stn_context *device = both_open((stn_context_options){.device = "cuda"});
    stn_context *cpu = both_open((stn_context_options){.device = "cpu"});
    if (device && cpu) {
        solve(device, call, dtype, refusals, &got);
        solve(cpu, call, dtype, (struct stni_refusals){0}, &want);
        if (refusals.run == 0)
            CHECK_I64(got.runs, runs);
        check_results(call, dtype, &got, &want);
    }
    forget(&got);
    forget(&want);
    stn_context_destroy(&device);
    stn_context_destroy(&cpu);
}

static void results_and_gradients_are_the_cpus(void)
{
    for (int i = 0; i < CALLS; i += CALLS / test_draws(CALLS))
        compare(&calls[i], i % 2 ? STN_DTYPE_F16 : STN_DTYPE_BF16, (struct stni_refusals){0}, calls[i].runs);
}

/* Two heads at a time: of 128 MiB of scratch each, of 336 KiB on the stand-in, which has 1 MiB for them. The last part
 * may be refused where others are there already. */
static void gradients_are_solved_in_parts(void)
{
    enum { RUNS = 1 + 4 };
    static const struct call large = {"large", {2, 4, 4, 8192, 8192, 16, 16}, PLAIN, RUNS},
                             small = {"parts", {2, 4, 4, 400, 330, 8, 8}, PLAIN, RUNS};
    const struct call *call = both_on_standin() ? &small : &large;
    compare(call, STN_DTYPE_BF16, (struct stni_refusals){0}, call->runs);
    if (both_on_standin())
        compare(call, STN_DTYPE_F16, (struct stni_refusals){.run = RUNS}, 0);
}

static void other_dtypes_are_our_own_kernels(void)
{
    compare(&calls[0], STN_DTYPE_F32, (struct stni_refusals){0}, 0);
    compare(&calls[0], STN_DTYPE_F64, (struct stni_refusals){0}, 0);
}

static void all_may_be_refused(void)
{
    compare(&calls[0], STN_DTYPE_BF16, (struct stni_refusals){.question = -1}, 0);
    compare(&calls[4], STN_DTYPE_F16, (struct stni_refusals){.run = -1}, 0);
    for (int n = 1; n <= 2; n++)
        compare(&calls[4], STN_DTYPE_BF16, (struct stni_refusals){.run = n}, 0);
}

/* The result and the gradients of queries, keys and values. */
static void attend_with_gradients(stn_context *context, const struct call *call, stn_tensor *const *leaves,
                                  stn_tensor *cotangent, stn_tensor **out)
{
    out[0] = attend(call, leaves, NULL);
    CHECK_STATUS(stn_grad(context, 1, out, &cotangent, LEAVES, leaves, 0, 0, out + 1), STN_OK);
    CHECK_STR(stn_context_error_text(context), "");
}

/* A plan that is there is recorded, and so is one that is made meanwhile: what repeats has the bits of a call. */
static void attention_is_recorded(void)
{
    static const struct call *const recorded[] = {&calls[0], &calls[2]};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    stn_tensor *leaves[2][LEAVES], *cotangents[2], *repeated[2][RESULTS], *called[2][RESULTS];
    stn_graph *graph = NULL;
    if (!context)
        return;
    stn_scope_begin(context);
    for (int c = 0; c < 2; c++) {
        const struct shape *s = &recorded[c]->shape;
        const int64_t shape[] = {s->batch, s->heads, s->rows, s->value_width};
        const int has_batch = s->batch > 1;
        for (int i = 0; i < LEAVES; i++)
            leaves[c][i] = leaf(context, STN_DTYPE_BF16, recorded[c], i);
        cotangents[c] = both_input(context, STN_DTYPE_BF16, 3 + has_batch, shape + !has_batch, 9);
    }
    attend_with_gradients(context, recorded[0], leaves[0], cotangents[0], called[0]);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    CHECK_STATUS(stn_queue_capture_begin(stn_context_queue(context)), STN_OK);
    for (int c = 0; c < 2; c++)
        attend_with_gradients(context, recorded[c], leaves[c], cotangents[c], repeated[c]);
    CHECK_STATUS(stn_queue_capture_end(stn_context_queue(context), &graph), STN_OK);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(stn_graph_launch(graph, stn_context_queue(context)), STN_OK);
    attend_with_gradients(context, recorded[1], leaves[1], cotangents[1], called[1]);
    for (int c = 0; c < 2; c++)
        for (int k = 0; k < RESULTS; k++) {
            double off = 1;
            stn_tensor *apart = stn_abs(stn_sub(stn_detach(repeated[c][k]), stn_detach(called[c][k])));
            CHECK_STATUS(stn_item(stn_amax(apart, 0, NULL, 0), &off), STN_OK);
            CHECK_NEAR(off, 0, 0);
        }
    stn_graph_destroy(&graph);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"results_and_gradients_are_the_cpus", results_and_gradients_are_the_cpus},
        {"gradients_are_solved_in_parts", gradients_are_solved_in_parts},
        {"other_dtypes_are_our_own_kernels", other_dtypes_are_our_own_kernels},
        {"all_may_be_refused", all_may_be_refused},
        {"attention_is_recorded", attention_is_recorded},
    };
    return TEST_MAIN(argc, argv, cases);
}
