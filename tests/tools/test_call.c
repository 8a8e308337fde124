/* Calls by name: a number draws the same call, every op gets calls that it answers, and what differs is found. */
#include "fuzz/call_run.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 400 };

static struct call *new_call(void)
{
    struct call *call = calloc(1, sizeof *call);
    if (!CHECK_PTR(call))
        exit(EXIT_FAILURE);
    return call;
}

/* No block above 16 MiB: some shapes are drawn out of reason. */
static void *allocate(void *arg, size_t bytes, size_t alignment)
{
    void *pointer = NULL;
    (void)arg;
    return bytes > (size_t)16 << 20 || posix_memalign(&pointer, alignment < 8 ? 8 : alignment, bytes ? bytes : 1) != 0
               ? NULL
               : pointer;
}

static void deallocate(void *arg, void *pointer, size_t bytes)
{
    (void)arg;
    (void)bytes;
    free(pointer);
}

static stn_context *new_context(void)
{
    static const stn_allocator memory = {sizeof memory, NULL, allocate, deallocate};
    const stn_context_options options = {.size = sizeof options, .allocator = &memory, .seed = 5};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    return context;
}

static void a_number_draws_the_same_call(void)
{
    stn_context *context = new_context();
    const stn_op_desc *descs[] = {stn_op_descriptor(stn_op_find(context, "conv2d")),
                                  stn_op_descriptor(stn_op_find(context, "einsum"))};
    const struct call_ops ops = {2, descs};
    struct call *a = new_call(), *b = new_call();
    int others = 0;
    for (uint64_t n = 0; n < 200; n++) {
        call_draw(a, &ops, 3, n, 0);
        call_draw(b, &ops, 3, n, 0);
        CHECK_BYTES(a, b, sizeof *a);
        call_draw(b, &ops, 4, n, 0);
        others += memcmp(a, b, sizeof *a) != 0;
        CHECK(a->world.ranks >= 2 && a->world.ranks <= 4);
    }
    CHECK_I64(others, 200);
    free(a);
    free(b);
    stn_context_destroy(&context);
}

/* Of one op: 1 if a call of it ran, 2 if a gradient came too. */
static int reach(stn_context *context, const stn_op_desc *op, struct call *call, struct call_outcome *outcome)
{
    const struct call_ops ops = {1, &op};
    int reached = 0;
    for (uint64_t n = 0; n < TRIES && reached < 2; n++) {
        call_draw(call, &ops, 7, n, 2);
        call_run(context, call, NULL, outcome);
        if (outcome->status == STN_OK && !outcome->refused && reached < 1)
            reached = 1;
        if (outcome->gradient == STN_OK && outcome->n_gradients > 0)
            reached = 2;
        if (!CHECK(outcome->fault[0] == '\0'))
            fprintf(stderr, "  %s, call %llu: %s\n", op->name, (unsigned long long)n, outcome->fault);
        call_outcome_free(outcome);
    }
    return reached;
}

/* All but those that need a mesh's number, or a length that follows from four lists. */
static void every_op_gets_calls_that_run(void)
{
    static const char never[] = " fold dist_all_gather dist_all_reduce dist_all_to_all "
                                "dist_broadcast dist_exchange "
                                "dist_gather dist_halo dist_reduce dist_reduce_scatter dist_scatter ";
    stn_context *context = new_context();
    struct call *call = new_call();
    struct call_outcome *outcome = calloc(1, sizeof *outcome);
    int n = 0, with_gradient = 0;
    for (const stn_op *op; (op = stn_op_at(context, n)) != NULL; n++) {
        char word[CALL_NAME + 2];
        const int reached = reach(context, stn_op_descriptor(op), call, outcome);
        snprintf(word, sizeof word, " %s ", stn_op_descriptor(op)->name);
        if (!CHECK(reached > 0 || strstr(never, word)))
            fprintf(stderr, "  %s\n", word);
        with_gradient += reached == 2;
    }
    CHECK(with_gradient * 4 >= n * 3);
    free(outcome);
    free(call);
    stn_context_destroy(&context);
}

/* Judging */

static float one_number, other_number;

static struct call_outcome outcome_of(float *number)
{
    return (struct call_outcome){.n_outputs = 1,
                                 .outputs = {{.present = 1, .dtype = STN_DTYPE_F32, .numel = 1, .data = number}}};
}

static struct call_outcome *perturbed; /* NULL: none are known */

static int judged(const struct call *call, const struct call_outcome *alone, const struct call_outcome *ranks,
                  const char *word)
{
    char text[1024] = "";
    int64_t compared = 0;
    const int wrong = call_judge(call, alone, perturbed, 2, ranks, text, sizeof text, &compared);
    if (wrong && !CHECK(strstr(text, word) != NULL))
        fprintf(stderr, "  %s\n", text);
    return wrong;
}

static void what_differs_is_found(void)
{
    static const stn_op_desc op = {.size = sizeof op, .name = "probe"};
    struct call *call = new_call();
    struct call_outcome alone = outcome_of(&one_number), *ranks = calloc(2, sizeof *ranks);
    call->op = &op;
    for (float difference = 0; difference < 2; difference++) {
        one_number = 1;
        other_number = 1 + difference;
        ranks[0] = ranks[1] = outcome_of(&other_number);
        CHECK_I64(judged(call, &alone, ranks, "output 0, number 0: one rank 1, 2 ranks 2"), (int)difference);
    }
    one_number = other_number = NAN;
    CHECK(!judged(call, &alone, ranks, ""));
    other_number = 1;
    CHECK(judged(call, &alone, ranks, "nan"));
    one_number = 1;
    ranks[1].status = STN_ERR_SHAPE;
    CHECK(judged(call, &alone, ranks, "rank 1 shapes do not fit"));
    ranks[0].status = STN_ERR_SHAPE;
    CHECK(judged(call, &alone, ranks, "one rank ok"));
    alone.status = STN_ERR_SHAPE;
    CHECK(!judged(call, &alone, ranks, ""));
    snprintf(ranks[1].text, sizeof ranks[1].text, "another text");
    CHECK(judged(call, &alone, ranks, "another text"));
    ranks[1].text[0] = '\0';
    ranks[1].last = STN_ERR_TIMEOUT;
    CHECK(judged(call, &alone, ranks, "rank 1 was aborted: deadline passed"));
    snprintf(alone.fault, sizeof alone.fault, "1 tensors before, 2 after");
    CHECK(judged(call, &alone, ranks, "1 tensors before, 2 after"));
    free(ranks);
    free(call);
}

/* One rank gives 1, also of perturbed inputs but for one draw, which gives `reached`; the ranks give `other`. */
static int judged_beside(float other, float reached)
{
    static const stn_op_desc op = {.size = sizeof op, .name = "probe"};
    struct call *call = new_call();
    struct call_outcome alone = outcome_of(&one_number), many = outcome_of(&other_number), ranks[2] = {many, many};
    perturbed = calloc(CALL_PERTURBED, sizeof *perturbed);
    for (int i = 0; i < CALL_PERTURBED; i++)
        perturbed[i] = outcome_of(i == 1 ? &reached : &one_number);
    one_number = 1;
    other_number = other;
    call->op = &op;
    const int wrong = judged(call, &alone, ranks, "output 0, number 0");
    free(perturbed);
    perturbed = NULL;
    free(call);
    return wrong;
}

static void what_rounding_of_inputs_reaches_is_no_difference(void)
{
    CHECK(judged_beside(2, 1));
    CHECK(judged_beside(2, 1.1f));
    CHECK(!judged_beside(2, 1.3f));
    CHECK(judged_beside(NAN, 1.3f));
    CHECK(!judged_beside(NAN, NAN));
    CHECK(!judged_beside(2, INFINITY));
    CHECK(!judged_beside(2, NAN)); /* the root of a variance and a negative eps */
}

/* A perturbed call differs from the drawn one in the last digits of what is floating. */
static void only_last_digits_are_perturbed(void)
{
    stn_context *context = new_context();
    struct call_outcome *drawn = calloc(1, sizeof *drawn), *changed = calloc(1, sizeof *changed);
    struct call *call = new_call();
    for (stn_dtype dtype = STN_DTYPE_F32; dtype <= STN_DTYPE_I64; dtype++) {
        *call = (struct call){.op = stn_op_descriptor(stn_op_find(context, "neg")), .n_inputs = 1, .n_outputs = 1};
        call->inputs[0] = (struct call_input){.dtype = dtype, .ndim = 1, .shape = {50}, .seed = 3};
        call_run(context, call, NULL, drawn);
        call->perturbed = 1;
        call_run(context, call, NULL, changed);
        double most = 0;
        for (int64_t i = 0; i < 50; i++) {
            const double x = call_number_at(dtype, drawn->outputs[0].data, i);
            most = test_worst(most, fabs(x - call_number_at(dtype, changed->outputs[0].data, i)));
            CHECK_NEAR(call_number_at(dtype, changed->outputs[0].data, i), x, dtype == STN_DTYPE_BF16 ? 0.05 : 0.005);
        }
        CHECK_I64(most > 0, dtype != STN_DTYPE_I64);
        call_outcome_free(drawn);
        call_outcome_free(changed);
    }
    free(call);
    free(drawn);
    free(changed);
    stn_context_destroy(&context);
}

/* Of two inputs with NaN and infinities among them. */
static int judged_special(const char *op_name, int pending, float alone_number, float ranks_number)
{
    const stn_op_desc op = {.size = sizeof op, .name = op_name};
    struct call *call = new_call();
    struct call_outcome alone = outcome_of(&one_number),
                        ranks[2] = {outcome_of(&other_number), outcome_of(&other_number)};
    one_number = alone_number;
    other_number = ranks_number;
    call->op = &op;
    call->n_inputs = 2;
    call->special = 1;
    call->pending = pending;
    const int wrong = judged(call, &alone, ranks, "output 0, number 0");
    free(call);
    return wrong;
}

static void special_numbers_of_several_inputs_are_compared(void)
{
    CHECK(judged_special("probe", 0, 1, 2));
    CHECK(judged_special("probe", 0, 1, NAN));
    CHECK(judged_special("probe", 0, INFINITY, NAN));
    CHECK(judged_special("probe", 0, 1, INFINITY));
    CHECK(judged_special("probe", 1, 1, NAN));
    CHECK(!judged_special("probe", 0, NAN, NAN));
    CHECK(!judged_special("scatter_reduce", 0, INFINITY, NAN)); /* of 1e30, 1e30 and 0 */
    CHECK(!judged_special("probe", 0, INFINITY, 3e38f)); /* a rounding apart */
    CHECK(!judged_special("probe", 1, INFINITY, NAN));   /* infinity times a part of 0 */
    CHECK(!judged_special("matmul", 0, 1, NAN));
    CHECK(!judged_special("weighted_mean", 0, 0, 2.9f)); /* of 1e18 with a weight of 1e-40 */
}

/* Unsorted ones have no one answer, whatever their layout is. */
static void boundaries_are_in_order(void)
{
    stn_context *context = new_context();
    const stn_op_desc *desc = stn_op_descriptor(stn_op_find(context, "bucketize"));
    const struct call_ops ops = {1, &desc};
    struct call *call = new_call();
    int averages = 0;
    for (uint64_t n = 0; n < 2000; n++) {
        call_draw(call, &ops, 1, n, 0);
        CHECK(call->n_inputs < 2 || call->inputs[1].numbers == NUMBERS_RISING);
        for (int a = 0; call->n_inputs > 1 && a < STN_MAX_MESH_NDIM; a++) {
            const stn_placement p = call->inputs[1].layout.placement[a];
            averages += p.kind == STN_PLACE_PARTIAL && p.op == STN_AVG;
        }
    }
    CHECK(averages > 0);
    free(call);
    stn_context_destroy(&context);
}

/* A complex number's finite part, with extremes among the terms, has no digits where its other part is NaN. */
static void a_part_beside_nan_is_not_compared(void)
{
    static const stn_op_desc op = {.size = sizeof op, .name = "probe"};
    static float one_pair[2], other_pair[2] = {-0.08f, NAN};
    struct call *call = new_call();
    struct call_outcome alone = outcome_of(one_pair), ranks[2] = {outcome_of(other_pair), outcome_of(other_pair)};
    alone.outputs[0].dtype = ranks[0].outputs[0].dtype = ranks[1].outputs[0].dtype = STN_DTYPE_C64;
    call->op = &op;
    call->special = 1;
    CHECK(judged(call, &alone, ranks, "output 0, number 0"));
    one_pair[1] = NAN;
    CHECK(!judged(call, &alone, ranks, ""));
    call->special = 0;
    CHECK(judged(call, &alone, ranks, "output 0, number 0"));
    free(call);
}

/* Of gradients that extremes cancel in; of results that one rank gives without storing them. */
static void large_results_excuse_what_follows_from_them(void)
{
    static const stn_op_desc op = {.size = sizeof op, .name = "probe"};
    static float large = 2.5e17f;
    struct call *call = new_call();
    struct call_outcome alone = outcome_of(&large), ranks[2] = {outcome_of(&large), outcome_of(&large)};
    one_number = 4e9f;
    other_number = 8e9f;
    call->op = &op;
    alone.n_gradients = ranks[0].n_gradients = ranks[1].n_gradients = 1;
    alone.gradients[0] = outcome_of(&one_number).outputs[0];
    ranks[0].gradients[0] = ranks[1].gradients[0] = outcome_of(&other_number).outputs[0];
    CHECK(judged(call, &alone, ranks, "gradient 0, number 0"));
    call->special = 1;
    CHECK(!judged(call, &alone, ranks, ""));
    ranks[0].status = ranks[1].status = STN_ERR_MEMORY;
    CHECK(judged(call, &alone, ranks, "rank 0 was aborted: out of memory"));
    alone.outputs[0].numel = CALL_MOST_READ + 1;
    CHECK(!judged(call, &alone, ranks, ""));
    free(call);
}

/* Alone no rank has the mesh; the ranks of the first one are compared with each other. */
static void replicas_of_a_collective_are_compared(void)
{
    static const stn_op_desc op = {.size = sizeof op, .name = "dist_all_reduce", .flags = STN_OP_PER_RANK};
    struct call *call = new_call();
    struct call_outcome alone = {.status = STN_ERR_ARGUMENT},
                        ranks[2] = {outcome_of(&one_number), outcome_of(&other_number)};
    call->op = &op;
    call->n_attrs = 1;
    call->attrs[0].attr.type = STN_ATTR_INT;
    snprintf(call->attrs[0].name, sizeof call->attrs[0].name, "mesh");
    one_number = 1;
    other_number = 1 + 0x1p-23f;
    CHECK(judged(call, &alone, ranks, "ranks 0 and 1 have other bits"));
    other_number = 1;
    CHECK(!judged(call, &alone, ranks, ""));
    other_number = 2;
    call->attrs[0].attr.value.i = 2; /* another mesh, which may have some of the ranks */
    CHECK(!judged(call, &alone, ranks, ""));
    free(call);
}

static void a_bad_index_beside_no_elements_is_to_be_found_on_one_rank_too(void)
{
    static const stn_op_desc op = {.size = sizeof op, .name = "probe"};
    struct call *call = new_call();
    struct call_outcome alone = outcome_of(&one_number), ranks[2] = {outcome_of(&one_number), outcome_of(&one_number)};
    call->op = &op;
    call->n_inputs = 1;
    call->inputs[0].ndim = 1;
    CHECK(!judged(call, &alone, ranks, ""));
    ranks[0].later = ranks[1].later = STN_ERR_VALUE;
    CHECK(judged(call, &alone, ranks, "agreement: one rank ok"));
    free(call);
}

static void a_printed_call_names_what_is_given(void)
{
    stn_context *context = new_context();
    const stn_op_desc *desc = stn_op_descriptor(stn_op_find(context, "gather"));
    const struct call_ops ops = {1, &desc};
    struct call *call = new_call();
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    call_draw(call, &ops, 1, 4, 3);
    call->way = WAY_NAME;
    call_print(out, call, &(const struct platform){0});
    fclose(out);
    CHECK(strstr(text, "stn_call(c, \"gather\", ") != NULL);
    CHECK(strstr(text, "options.ranks = 3;") != NULL);
    free(text);
    free(call);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_number_draws_the_same_call", a_number_draws_the_same_call},
        {"every_op_gets_calls_that_run", every_op_gets_calls_that_run},
        {"what_differs_is_found", what_differs_is_found},
        {"what_rounding_of_inputs_reaches_is_no_difference", what_rounding_of_inputs_reaches_is_no_difference},
        {"only_last_digits_are_perturbed", only_last_digits_are_perturbed},
        {"special_numbers_of_several_inputs_are_compared", special_numbers_of_several_inputs_are_compared},
        {"boundaries_are_in_order", boundaries_are_in_order},
        {"a_part_beside_nan_is_not_compared", a_part_beside_nan_is_not_compared},
        {"large_results_excuse_what_follows_from_them", large_results_excuse_what_follows_from_them},
        {"replicas_of_a_collective_are_compared", replicas_of_a_collective_are_compared},
        {"a_bad_index_beside_no_elements_is_to_be_found_on_one_rank_too",
         a_bad_index_beside_no_elements_is_to_be_found_on_one_rank_too},
        {"a_printed_call_names_what_is_given", a_printed_call_names_what_is_given},
    };
    return TEST_MAIN(argc, argv, cases);
}
