/* Collectives in the caller's memory: values, requests under way, what a saved tensor's backward says, what is
 * refused. */
#include "collectives.h"

#include <string.h>

static stn_tensor *matrix(stn_context *context, int64_t rows, double first)
{
    const int64_t shape[] = {rows, 2};
    double values[64];
    const stn_spec *spec;
    for (int i = 0; i < 2 * rows; i++)
        values[i] = first + i;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *t = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return t;
}

static void expect_rows(stn_tensor *t, int64_t rows, double (*want)(int64_t i, int p, int r), int p, int r)
{
    double got[64] = {0};
    if (!CHECK_I64(stn_spec_numel(stn_tensor_spec(t)), 2 * rows))
        return;
    test_read(t, got, 2 * rows);
    for (int64_t i = 0; i < 2 * rows; i++)
        CHECK_NEAR(got[i], want(i, p, r), 0);
}

static double summed(int64_t i, int p, int r)
{
    (void)r;
    return (double)p * (double)i + 100.0 * p * (p - 1) / 2;
}

static double from_last(int64_t i, int p, int r)
{
    (void)r;
    return 100.0 * (p - 1) + (double)i;
}

static int64_t uneven(int r)
{
    return r % 3; /* 0, 1, 2, 0, … */
}

static int64_t rows_before(int r)
{
    int64_t n = 0;
    for (int s = 0; s < r; s++)
        n += uneven(s);
    return n;
}

static double gathered(int64_t i, int p, int r)
{
    int s = 0;
    (void)p, (void)r;
    while (i / 2 >= rows_before(s + 1))
        s++;
    return 100.0 * s + (double)(i - 2 * rows_before(s));
}

static double scattered(int64_t i, int p, int r)
{
    return summed(i + 2 * rows_before(r), p, r);
}

/* Row s of rank r goes to rank s: it holds 100 r + 2 s and the number after it. */
static double turned(int64_t i, int p, int r)
{
    (void)p;
    return 100.0 * (double)(i / 2) + 2.0 * r + (double)(i % 2);
}

static void wait_all(stn_dist_request **requests, int n, int begun)
{
    for (int i = 0; i < n && begun; i++) {
        CHECK_PTR(requests[i]);
        CHECK_STATUS(stn_dist_wait(&requests[i]), STN_OK);
        CHECK(requests[i] == NULL);
    }
}

static stn_status values_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    int64_t sizes[8], ones[8];
    (void)arg;
    for (int s = 0; s < p; s++) {
        sizes[s] = uneven(s);
        ones[s] = 1;
    }
    const int64_t all = rows_before(p);
    for (int begun = 0; begun < 2; begun++) {
        stn_dist_request *q[5] = {NULL};
        stn_scope_begin(context);
        stn_tensor *sum = matrix(context, 3, 100 * r), *root = matrix(context, 2, 100 * r),
                   *own = matrix(context, uneven(r), 100 * r);
        stn_tensor *whole = matrix(context, all, 0), *terms = matrix(context, all, 100 * r),
                   *part = matrix(context, uneven(r), 0);
        stn_tensor *sent = matrix(context, p, 100 * r), *got = matrix(context, p, 0);
        CHECK_STATUS(stn_dist_all_reduce_in_place(sum, mesh, STN_SUM, begun ? &q[0] : NULL), STN_OK);
        CHECK_STATUS(stn_dist_broadcast_in_place(root, mesh, p - 1, begun ? &q[1] : NULL), STN_OK);
        CHECK_STATUS(stn_dist_all_gather_into(whole, own, mesh, sizes, begun ? &q[2] : NULL), STN_OK);
        CHECK_STATUS(stn_dist_reduce_scatter_into(part, terms, mesh, sizes, STN_SUM, begun ? &q[3] : NULL), STN_OK);
        CHECK_STATUS(stn_dist_all_to_all_into(got, sent, mesh, ones, ones, begun ? &q[4] : NULL), STN_OK);
        wait_all(q, 5, begun);
        expect_rows(sum, 3, summed, p, r);
        expect_rows(root, 2, from_last, p, r);
        expect_rows(whole, all, gathered, p, r);
        expect_rows(part, uneven(r), scattered, p, r);
        expect_rows(got, p, turned, p, r);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void values_come_at_once_and_by_request(void)
{
    on_each_size(values_body, NULL);
}

/* Small whole numbers, of which every reduction is exact in 16 bits: 1 and 2, every second column below 0; for
 * averages times the ranks. */

struct numbers {
    stn_reduce_op op;
    stn_dtype dtype;
    int begun; /* by requests */
};

static double number(const struct numbers *n, int64_t i, int p, int r)
{
    return (double)((1 + (r + i / 2) % 2) * (i % 2 ? -1 : 1) * (n->op == STN_AVG ? p : 1));
}

static double reduced(const struct numbers *n, int64_t i, int p)
{
    double y = number(n, i, p, 0);
    for (int r = 1; r < p; r++) {
        const double x = number(n, i, p, r);
        y = n->op == STN_PROD ? y * x : n->op == STN_MIN ? (x < y ? x : y) : n->op == STN_MAX ? (x > y ? x : y) : y + x;
    }
    return n->op == STN_AVG ? y / p : y;
}

/* `first`: of the whole whose rows these are. */
static stn_tensor *numbers_of(stn_context *context, const struct numbers *n, int64_t rows, int64_t first, int r)
{
    const int64_t shape[] = {rows, 2};
    double values[64];
    const stn_spec *spec;
    for (int i = 0; i < 2 * rows; i++)
        values[i] = number(n, 2 * first + i, stn_context_size(context), r);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *t = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return n->dtype == STN_DTYPE_F64 ? t : stn_cast(t, n->dtype);
}

static void expect_reduced(const struct numbers *n, stn_tensor *t, int64_t rows, int64_t first)
{
    double got[64] = {0};
    const int p = stn_context_size(stn_tensor_context(t));
    CHECK_I64((int64_t)stn_tensor_dtype(t), (int64_t)n->dtype);
    test_read(stn_cast(t, STN_DTYPE_F64), got, 2 * rows);
    for (int64_t i = 0; i < 2 * rows; i++)
        CHECK_NEAR(got[i], reduced(n, 2 * first + i, p), 0);
}

static void reduce_numbers(stn_context *context, const stn_mesh *mesh, const struct numbers *n)
{
    const int p = stn_context_size(context), r = stn_context_rank(context), root = p - 1;
    int64_t sizes[8];
    stn_dist_request *q[3] = {NULL};
    for (int s = 0; s < p; s++)
        sizes[s] = uneven(s);
    const int64_t all = rows_before(p);
    stn_tensor *whole = numbers_of(context, n, 3, 0, r), *input = numbers_of(context, n, 3, 0, r),
               *at_root = numbers_of(context, n, 3, 5, r), *terms = numbers_of(context, n, all, 0, r),
               *part = numbers_of(context, n, uneven(r), 7, r);
    CHECK_STATUS(stn_dist_all_reduce_in_place(whole, mesh, n->op, n->begun ? &q[0] : NULL), STN_OK);
    CHECK_STATUS(stn_dist_reduce_into(at_root, input, mesh, n->op, root, n->begun ? &q[1] : NULL), STN_OK);
    CHECK_STATUS(stn_dist_reduce_scatter_into(part, terms, mesh, sizes, n->op, n->begun ? &q[2] : NULL), STN_OK);
    wait_all(q, 3, n->begun);
    expect_reduced(n, whole, 3, 0);
    if (r == root)
        expect_reduced(n, at_root, 3, 0);
    expect_reduced(n, part, uneven(r), rows_before(r));
}

static void gather_numbers(stn_context *context, const stn_mesh *mesh, const struct numbers *n)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    double got[64];
    stn_dist_request *q[2] = {NULL};
    stn_tensor *all = numbers_of(context, n, p, 1, r), *own = numbers_of(context, n, 1, 0, r),
               *first = numbers_of(context, n, 3, 0, r);
    CHECK_STATUS(stn_dist_all_gather_into(all, own, mesh, NULL, n->begun ? &q[0] : NULL), STN_OK);
    CHECK_STATUS(stn_dist_broadcast_in_place(first, mesh, 0, n->begun ? &q[1] : NULL), STN_OK);
    wait_all(q, 2, n->begun);
    test_read(stn_cast(all, STN_DTYPE_F64), got, 2 * p);
    for (int64_t i = 0; i < 2 * p; i++)
        CHECK_NEAR(got[i], number(n, i % 2, p, (int)(i / 2)), 0);
    test_read(stn_cast(first, STN_DTYPE_F64), got, 6);
    for (int64_t i = 0; i < 6; i++)
        CHECK_NEAR(got[i], number(n, i, p, 0), 0);
}

static stn_status numbers_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F64, STN_DTYPE_BF16};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (int op = 0; op < STN_REDUCE_OP_COUNT; op++)
        for (int k = 0; k < 4; k++) {
            const struct numbers n = {(stn_reduce_op)op, dtypes[k % 2], k / 2};
            stn_scope_begin(context);
            reduce_numbers(context, mesh, &n);
            gather_numbers(context, mesh, &n);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void every_op_is_exact_in_16_bits_too(void)
{
    on_each_size(numbers_body, NULL);
}

static stn_tensor *rows_of_nothing(stn_context *context, int64_t rows)
{
    const int64_t shape[] = {rows, 0};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *t = stn_zeros(context, spec);
    stn_spec_release(&spec);
    return t;
}

/* Whoever has several of them, and who has one. */
static stn_status nothing_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    const int64_t sizes[] = {3, 1, 0};
    (void)arg;
    for (int begun = 0; begun < 2; begun++) {
        stn_dist_request *q[2] = {NULL};
        stn_scope_begin(context);
        stn_tensor *own = rows_of_nothing(context, sizes[r]), *all = rows_of_nothing(context, 4),
                   *part = rows_of_nothing(context, sizes[r]);
        CHECK_STATUS(stn_dist_all_gather_into(all, own, mesh, sizes, begun ? &q[0] : NULL), STN_OK);
        CHECK_STATUS(stn_dist_reduce_scatter_into(part, all, mesh, sizes, STN_SUM, begun ? &q[1] : NULL), STN_OK);
        wait_all(q, 2, begun);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void rows_without_elements_are_rows(void)
{
    test_ranks(3, nothing_body, NULL);
}

/* The tensors of a request may be released before it is waited for. */
static stn_status held_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_dist_request *request = NULL;
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_dist_all_reduce_in_place(matrix(context, 20, 1), mesh, STN_SUM, &request), STN_OK);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK_PTR(request);
    CHECK_STATUS(stn_dist_wait(&request), STN_OK);
    return STN_OK;
}

static void a_request_holds_its_tensors(void)
{
    on_each_size(held_body, NULL);
}

/* x x saves x; whoever overwrites x before backward is told, whether by a blocking collective or by one under way. */
static stn_status saved_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    char text[512];
    (void)arg;
    for (int begun = 0; begun < 2; begun++) {
        stn_dist_request *request = NULL;
        stn_scope_begin(context);
        stn_tensor *w = matrix(context, 2, 1), *x = matrix(context, 2, 3);
        stn_set_requires_grad(w, 1);
        stn_tensor *loss = stn_sum(stn_mul(w, x), 0, NULL, 0);
        CHECK_STATUS(stn_dist_all_reduce_in_place(x, mesh, STN_SUM, begun ? &request : NULL), STN_OK);
        CHECK_STATUS(stn_dist_wait(&request), STN_OK);
        CHECK_STATUS(stn_backward(loss), STN_ERR_STATE);
        stn_context_take_error(context, text, sizeof text);
        if (!CHECK(strstr(text, "'other' of mul was changed in place after it was saved") != NULL))
            CHECK_STR(text, "");
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void backward_sees_that_a_saved_tensor_was_overwritten(void)
{
    on_each_size(saved_body, NULL);
}

static void expect_refused(stn_context *context, stn_status got, stn_status want, const char *words)
{
    CHECK_STATUS(got, want);
    CHECK_ERROR_PART(context, want, words);
}

/* Alike on all ranks, and on rank 1 alone. */
static stn_status refused_body(stn_context *context, void *arg)
{
    const int r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const int64_t sizes[] = {1, r == 1 ? 4 : 3};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = matrix(context, 2, 1), *y = matrix(context, 4, 1), *leaf = matrix(context, 2, 1),
               *odd = r == 1 ? matrix(context, 3, 1) : x;
    stn_set_requires_grad(leaf, 1);
    expect_refused(context, stn_dist_all_reduce_in_place(leaf, mesh, STN_SUM, NULL), STN_ERR_STATE,
                   "requires grad while grad mode is on");
    expect_refused(context, stn_dist_all_reduce_in_place(stn_mul(leaf, x), mesh, STN_SUM, NULL), STN_ERR_STATE,
                   "requires grad while grad mode is on");
    stn_no_grad_begin(context);
    CHECK_STATUS(stn_dist_all_reduce_in_place(leaf, mesh, STN_AVG, NULL), STN_OK);
    stn_no_grad_end(context);
    expect_refused(context, stn_dist_all_reduce_in_place(x, mesh, (stn_reduce_op)9, NULL), STN_ERR_ARGUMENT,
                   "op got 9");
    expect_refused(context, stn_dist_all_reduce_in_place(r == 1 ? NULL : x, mesh, STN_SUM, NULL), STN_ERR_ARGUMENT,
                   "rank 1: dist_all_reduce_in_place: input is missing");
    expect_refused(context, stn_dist_all_reduce_in_place(odd, mesh, STN_SUM, NULL), STN_ERR_MISMATCH,
                   "rank 1 calls dist_all_reduce_in_place(");
    expect_refused(context, stn_dist_broadcast_in_place(x, mesh, r, NULL), STN_ERR_MISMATCH, "root 1)");
    expect_refused(context, stn_dist_broadcast_in_place(x, mesh, 2, NULL), STN_ERR_ARGUMENT,
                   "root got 2, wanted a rank of the mesh, 0 to 1");
    expect_refused(context, stn_dist_all_gather_into(y, x, mesh, sizes, NULL), STN_ERR_SHAPE,
                   "rank 0: dist_all_gather_into: input has 4 elements, wanted 2");
    expect_refused(context, stn_dist_all_gather_into(x, y, mesh, NULL, NULL), STN_ERR_SHAPE,
                   "the sum of sizes is 8, wanted 2");
    expect_refused(context, stn_dist_all_to_all_into(y, matrix(context, 4, 1), mesh, sizes, NULL, NULL),
                   STN_ERR_ARGUMENT, "send_sizes or receive_sizes is NULL");
    stn_tensor *view = stn_narrow(y, 0, 0, 2);
    expect_refused(context, stn_dist_all_reduce_in_place(view, mesh, STN_SUM, NULL), STN_ERR_STATE, "is a view");
    expect_refused(context, stn_dist_all_reduce_in_place(y, mesh, STN_SUM, NULL), STN_ERR_STATE, "has views");
    CHECK_STATUS(stn_dist_all_reduce_in_place(x, mesh, STN_SUM, NULL), STN_OK);
    return stn_scope_end(context);
}

static void what_cannot_be_is_refused_on_all_ranks(void)
{
    test_ranks(2, refused_body, NULL);
}

/* Without a mesh */

typedef stn_status form(stn_tensor *x, const stn_mesh *mesh, stn_dist_request **request);

static stn_status reduce_in_place(stn_tensor *x, const stn_mesh *mesh, stn_dist_request **request)
{
    return stn_dist_all_reduce_in_place(x, mesh, STN_SUM, request);
}

/* Of the two tensors the one that is there tells the context. */
static stn_status reduce_into_nothing(stn_tensor *x, const stn_mesh *mesh, stn_dist_request **request)
{
    return stn_dist_reduce_into(NULL, x, mesh, STN_SUM, 0, request);
}

static stn_status scatter_nothing(stn_tensor *x, const stn_mesh *mesh, stn_dist_request **request)
{
    return stn_dist_scatter_into(x, NULL, mesh, NULL, 0, request);
}

static stn_status exchange_nothing(stn_tensor *x, const stn_mesh *mesh, stn_dist_request **request)
{
    return stn_dist_exchange_into(x, x, mesh, NULL, request);
}

static const struct {
    form *call;
    const char *text;
} forms[] = {
    {reduce_in_place, "dist_all_reduce_in_place: mesh is NULL, wanted one of the tensor's context"},
    {reduce_into_nothing, "dist_reduce_into: mesh is NULL, wanted one of the tensor's context"},
    {scatter_nothing, "dist_scatter_into: mesh is NULL, wanted one of the tensor's context"},
    {exchange_nothing, "dist_exchange_into: mesh is NULL, wanted one of the tensor's context"},
};

static stn_status alone_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int k = 0; k < 8; k++) {
        stn_dist_request *request = (stn_dist_request *)&request; /* written to also where there is no mesh */
        stn_scope_begin(context);
        expect_refused(context, forms[k / 2].call(matrix(context, 2, 1), NULL, k % 2 ? &request : NULL),
                       STN_ERR_ARGUMENT, forms[k / 2].text);
        CHECK(!(k % 2) || request == NULL);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK_STATUS(stn_dist_all_reduce_in_place(NULL, NULL, STN_SUM, NULL), STN_ERR_ARGUMENT);
    return STN_OK;
}

/* Rank 1 has none, and its peer waits for it: in the agreement, or for the request. */
static stn_status peer_body(stn_context *context, void *arg)
{
    const int begun = *(const int *)arg, odd = stn_context_rank(context) == 1;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_dist_request *request = NULL;
    char text[512];
    stn_scope_begin(context);
    stn_status status = reduce_in_place(matrix(context, 2, 1), odd ? NULL : mesh, begun ? &request : NULL);
    if (status == STN_OK)
        status = stn_dist_wait(&request);
    CHECK_STATUS(status, odd ? STN_ERR_ARGUMENT : STN_ERR_PEER);
    stn_context_take_error(context, text, sizeof text);
    if (!CHECK(strstr(text, odd ? forms[0].text : "rank 1: dist_all_reduce_in_place: mesh is NULL") != NULL))
        CHECK_STR(text, forms[0].text);
    stn_scope_end(context);
    return STN_OK;
}

static void a_text_is_kept_without_a_mesh(void)
{
    test_ranks(1, alone_body, NULL);
}

static void peers_of_a_rank_without_a_mesh_are_told(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 60};
    for (int begun = 0; begun < 2; begun++)
        test_launch(2, &options, peer_body, &begun);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"values_come_at_once_and_by_request", values_come_at_once_and_by_request},
        {"every_op_is_exact_in_16_bits_too", every_op_is_exact_in_16_bits_too},
        {"rows_without_elements_are_rows", rows_without_elements_are_rows},
        {"a_request_holds_its_tensors", a_request_holds_its_tensors},
        {"backward_sees_that_a_saved_tensor_was_overwritten", backward_sees_that_a_saved_tensor_was_overwritten},
        {"what_cannot_be_is_refused_on_all_ranks", what_cannot_be_is_refused_on_all_ranks},
        {"a_text_is_kept_without_a_mesh", a_text_is_kept_without_a_mesh},
        {"peers_of_a_rank_without_a_mesh_are_told", peers_of_a_rank_without_a_mesh_are_told},
    };
    return TEST_MAIN(argc, argv, cases);
}
