/* stn_tensor_print: the text, which the first rank of the mesh writes, whatever the layout. */
#include "ranks.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 3 };

/* What this rank prints: the description, which begins so, and the lines behind it. Other ranks print nothing. */
static void check_printed(stn_tensor *tensor, int rank, const char *begins, const char *lines)
{
    static _Thread_local char text[4096];
    FILE *stream = fmemopen(text, sizeof text, "w");
    CHECK_STATUS(stn_tensor_print(tensor, stream), STN_OK);
    fclose(stream);
    const char *end = strchr(text, '\n');
    if (stn_context_rank(stn_tensor_context(tensor)) != rank) {
        CHECK_STR(text, "");
    } else if (CHECK(end != NULL)) {
        CHECK(strncmp(text, begins, strlen(begins)) == 0);
        CHECK_STR(end + 1, lines);
    }
}

static stn_status small_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {2, 3}, none[] = {0, 3}, deep[] = {2, 1, 2};
    static const double values[] = {1, -0.5, 1e30, 0, 2.0 / 3, -7};
    static const int64_t whole[] = {1, -20, 300, 4, 5, (int64_t)1 << 62};
    static const uint8_t truths[] = {1, 0, 0, 1, 1, 1};
    static const double complex[] = {1, 2, 0, -3.5};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x;
    (void)arg;
    stn_scope_begin(context);
    for (int layout = 0; layout < 3; layout++) {
        const char *const cut = layout == 0 ? "R" : layout == 1 ? "S0" : "S1";
        x = stn_from_host_global(context, stn_spec_of(mesh, STN_DTYPE_F64, cut, 2, shape), values);
        check_printed(x, 0, "f64 (2, 3)",
                      "[[       1,     -0.5,    1e+30],\n"
                      " [       0, 0.666667,       -7]]\n");
        x = stn_from_host_global(context, stn_spec_of(mesh, STN_DTYPE_I64, cut, 2, shape), whole);
        check_printed(x, 0, "i64 (2, 3)",
                      "[[                  1,                 -20,                 300],\n"
                      " [                  4,                   5, 4611686018427387904]]\n");
        x = stn_from_host_global(context, stn_spec_of(mesh, STN_DTYPE_BOOL, cut, 2, shape), truths);
        check_printed(x, 0, "bool (2, 3)", "[[ true, false, false],\n [ true,  true,  true]]\n");
        x = stn_from_host_global(context, stn_spec_of(mesh, STN_DTYPE_F64, cut, 3, deep), values);
        check_printed(x, 0, "f64 (2, 1, 2)", "[[[    1,  -0.5]],\n [[1e+30,     0]]]\n");
        x = stn_from_host_global(context, stn_spec_of(mesh, STN_DTYPE_F64, cut, 2, none), values);
        check_printed(x, 0, "f64 (0, 3)", "[]\n");
    }
    x = stn_from_host_global(context, stn_spec_of(mesh, STN_DTYPE_C128, "R", 1, (int64_t[]){2}), complex);
    check_printed(x, 0, "c128 (2)", "[  1+2i, 0-3.5i]\n");
    x = stn_from_host_global(context, stn_spec_of(mesh, STN_DTYPE_F64, "S0", 2, shape), values);
    check_printed(stn_sum(stn_slice(x, 1, 0, 2, 1), 0, NULL, 0), 0, "f64 ()", "1.16667\n");
    check_printed(stn_div_number(stn_neg(stn_relu(x)), 0), 0, "f64 (2, 3)",
                  "[[-inf,  nan, -inf],\n [ nan, -inf,  nan]]\n");
    return stn_scope_end(context);
}

static void elements_are_printed_by_the_first_rank(void)
{
    test_ranks(1, small_body, NULL);
    test_ranks(RANKS, small_body, NULL);
}

/* 1,001 elements in a row, and 8 x 200: what is between the ends stays where it is. */
static stn_status large_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const int64_t line[] = {1001}, table[] = {8, 200}, flat[] = {2, 1000};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = stn_arange(context, stn_spec_of(mesh, STN_DTYPE_F32, "S0", 1, line), 0, 1);
    check_printed(x, 0, "f32 (1001)", "[   0,    1,    2, ...,  998,  999, 1000]\n");
    x = stn_arange(context, stn_spec_of(mesh, STN_DTYPE_I32, "S0", 1, (int64_t[]){1600}), 0, 1);
    check_printed(stn_view(x, 2, table), 0, "i32 (8, 200)",
                  "[[   0,    1,    2, ...,  197,  198,  199],\n"
                  " [ 200,  201,  202, ...,  397,  398,  399],\n"
                  " [ 400,  401,  402, ...,  597,  598,  599],\n"
                  " ...,\n"
                  " [1000, 1001, 1002, ..., 1197, 1198, 1199],\n"
                  " [1200, 1201, 1202, ..., 1397, 1398, 1399],\n"
                  " [1400, 1401, 1402, ..., 1597, 1598, 1599]]\n");
    x = stn_ones(context, stn_spec_of(mesh, STN_DTYPE_BF16, "S1", 2, flat));
    check_printed(x, 0, "bf16 (2, 1000)", "[[1, 1, 1, ..., 1, 1, 1],\n [1, 1, 1, ..., 1, 1, 1]]\n");
    return stn_scope_end(context);
}

static void of_large_ones_the_ends_are_printed(void)
{
    test_ranks(1, large_body, NULL);
    test_ranks(RANKS, large_body, NULL);
}

/* A mesh of ranks 2 and 1 alone; a local tensor of each rank; NULL. Nothing is left in the graph. */
static stn_status others_body(stn_context *context, void *arg)
{
    const int two = 2, ranks[] = {2, 1}, rank = stn_context_rank(context);
    const stn_mesh *mesh;
    const stn_spec *local;
    const int64_t one = 1;
    (void)arg;
    CHECK_STATUS(stn_mesh_create(context, 1, &two, NULL, ranks, &mesh), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = stn_from_host_global(context, stn_spec_of(mesh, STN_DTYPE_I8, "S0", 1, (int64_t[]){3}),
                                         (const int8_t[]){1, 2, 3});
    if (stn_mesh_contains_me(mesh))
        check_printed(x, 2, "i8 (3)", "[1, 2, 3]\n");
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &one, NULL, &local), STN_OK);
    stn_tensor *mine = stn_full(context, local, rank);
    CHECK_STATUS(stn_set_requires_grad(mine, 1), STN_OK);
    check_printed(mine, rank, "f64 (1)", (const char *[]){"[0]\n", "[1]\n", "[2]\n"}[rank]);
    CHECK_STATUS(stn_tensor_print(NULL, stderr), STN_ERR_ARGUMENT);
    stn_spec_release(&local);
    return stn_scope_end(context);
}

static void a_mesh_of_some_ranks_and_local_tensors(void)
{
    test_ranks(RANKS, others_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"elements_are_printed_by_the_first_rank", elements_are_printed_by_the_first_rank},
        {"of_large_ones_the_ends_are_printed", of_large_ones_the_ends_are_printed},
        {"a_mesh_of_some_ranks_and_local_tensors", a_mesh_of_some_ranks_and_local_tensors},
    };
    return TEST_MAIN(argc, argv, cases);
}
