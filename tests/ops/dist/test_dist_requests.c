/* Requests of the forms that send to or from one rank, of exchanges and of margins: the bits of the collective with a
 * gradient, whatever is under way beside them and in whatever order they are waited for. */
#include "collectives.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 16, TOGETHER = 2 };

static int is_tested(const struct setup *s)
{
    const int serves = s->collective == REDUCE || s->collective == GATHER || s->collective == SCATTER ||
                       s->collective == EXCHANGE || s->collective == HALO;
    return serves && s->dim == 0 && s->convention == STN_GRAD_PER_RANK;
}

/* Of the collectives above, only gather, scatter and halo have sizes. */
static void sizes_of(const struct setup *s, int64_t *sizes)
{
    for (int r = 0; r < s->p; r++)
        sizes[r] = s->collective == SCATTER ? out_length(s, r) : in_length(s, r);
}

static stn_status exchange(const struct setup *s, stn_tensor *y, stn_tensor *x, const stn_mesh *mesh,
                           stn_dist_request **request)
{
    const int before = (s->rank + s->p - 1) % s->p, next = (s->rank + 1) % s->p;
    const stn_dist_part send[] = {{next, 0, 3}, {before, 2, 3}}, receive[] = {{before, 1, 3}, {next, 3, 3}};
    const stn_dist_messages messages = {sizeof messages, 2, 2, send, receive, out_length(s, s->rank)};
    return stn_dist_exchange_into(y, x, mesh, &messages, request);
}

/* Only the root's result, or input, is handed over: elsewhere it is NULL. */
static stn_status begin(const struct setup *s, stn_tensor *y, stn_tensor *x, const stn_mesh *mesh,
                        stn_dist_request **request)
{
    const stn_dist_margin margin = {sizeof margin, s->below, s->above, s->mode};
    const int is_root = s->rank == s->root;
    int64_t list[MOST_RANKS];
    sizes_of(s, list);
    const int64_t *sizes = s->uneven ? list : NULL;
    switch (s->collective) {
    case REDUCE: return stn_dist_reduce_into(is_root ? y : NULL, x, mesh, STN_SUM, s->root, request);
    case GATHER: return stn_dist_gather_into(is_root ? y : NULL, x, mesh, sizes, s->root, request);
    case SCATTER: return stn_dist_scatter_into(y, is_root ? x : NULL, mesh, list, s->root, request);
    case EXCHANGE: return exchange(s, y, x, mesh, request);
    case HALO: return stn_dist_halo_into(y, x, mesh, sizes, &margin, request);
    default: return STN_ERR_INTERNAL;
    }
}

/* Other numbers in each of several inputs. */
static double shifted(const struct setup *s, int rank, int64_t i, int64_t j)
{
    return test_value(31 + 1000 * rank + 10 * i + j) + (double)s->root;
}

static double other(const struct setup *s, int rank, int64_t i, int64_t j)
{
    return -3 + (double)(s->root + rank) - 0.1 * (double)(i * 7 + j);
}

static double (*const inputs[TOGETHER])(const struct setup *s, int rank, int64_t i, int64_t j) = {shifted, other};

static double garbage(const struct setup *s, int rank, int64_t i, int64_t j)
{
    return 1e9 + (double)(s->p + rank + i + j);
}

static void read_all(stn_tensor *t, double *out)
{
    CHECK_STATUS(stn_to_host(t, out, (size_t)stn_spec_numel(stn_tensor_spec(t)) * sizeof *out), STN_OK);
}

/* What one call of the collective gives; elsewhere than on the root, what was there. */
static void expect_bits(const struct setup *s, int k, stn_tensor *got, const stn_mesh *mesh)
{
    const int64_t n = out_length(s, s->rank) * OTHER;
    double *values = calloc((size_t)n + 1, sizeof *values), *want = calloc((size_t)n + 1, sizeof *want);
    const int writes = s->rank == s->root || (s->collective != REDUCE && s->collective != GATHER);
    stn_tensor *x = local(stn_tensor_context(got), s, s->rank, in_length(s, s->rank), inputs[k]);
    stn_tensor *y = call_collective(s, x, mesh);
    read_all(writes ? y : local(stn_tensor_context(got), s, s->rank, out_length(s, s->rank), garbage), want);
    read_all(got, values);
    if (n > 0)
        CHECK_BYTES(values, want, (size_t)n * sizeof *values);
    CHECK_I64(stn_spec_numel(stn_tensor_spec(got)), n);
    free(values);
    free(want);
}

/* At once; then two requests together, of which the later is waited for first. */
static void compare(stn_context *context, const struct setup *s, const stn_mesh *mesh)
{
    stn_tensor *x[TOGETHER], *y[TOGETHER], *blocking;
    stn_dist_request *requests[TOGETHER] = {NULL};
    if (!is_tested(s))
        return;
    stn_scope_begin(context);
    for (int k = 0; k < TOGETHER; k++) {
        x[k] = local(context, s, s->rank, in_length(s, s->rank), inputs[k]);
        y[k] = local(context, s, s->rank, out_length(s, s->rank), garbage);
    }
    blocking = local(context, s, s->rank, out_length(s, s->rank), garbage);
    CHECK_STATUS(begin(s, blocking, x[0], mesh, NULL), STN_OK);
    for (int k = 0; k < TOGETHER; k++) {
        CHECK_STATUS(begin(s, y[k], x[k], mesh, &requests[k]), STN_OK);
        CHECK_PTR(requests[k]);
    }
    for (int k = TOGETHER - 1; k >= 0; k--) {
        CHECK_STATUS(stn_dist_wait(&requests[k]), STN_OK);
        CHECK(requests[k] == NULL);
        CHECK_STATUS(stn_dist_wait(&requests[k]), STN_OK); /* of nothing */
    }
    expect_bits(s, 0, blocking, mesh);
    for (int k = 0; k < TOGETHER; k++)
        expect_bits(s, k, y[k], mesh);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status bits_body(stn_context *context, void *arg)
{
    (void)arg;
    for_each_setup(context, compare);
    return STN_OK;
}

static void requests_give_the_bits_of_the_collective_in_any_order(void)
{
    on_each_size(bits_body, NULL);
}

/* Everything under way at once, and the handles released before anything is waited for. */
struct under_way {
    stn_dist_request *requests[64];
    int n;
};

static struct under_way *current; /* of the rank that runs alone */

static void leave_under_way(stn_context *context, const struct setup *s, const stn_mesh *mesh)
{
    if (!is_tested(s) || current->n == 64)
        return;
    stn_scope_begin(context);
    stn_tensor *x = local(context, s, s->rank, in_length(s, s->rank), shifted);
    stn_tensor *y = local(context, s, s->rank, out_length(s, s->rank), garbage);
    CHECK_STATUS(begin(s, y, x, mesh, &current->requests[current->n++]), STN_OK);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static void requests_that_nobody_waited_for_outlive_their_context(void)
{
    const stn_context_options options = {.size = sizeof options};
    struct under_way all = {.n = 0};
    stn_context *context = NULL;
    if (!CHECK_STATUS(stn_context_create(&options, &context), STN_OK))
        return;
    current = &all;
    for_each_setup(context, leave_under_way);
    stn_context_destroy(&context);
    CHECK(all.n > 10);
    for (int i = 0; i < all.n; i++) {
        CHECK_STATUS(stn_dist_wait(&all.requests[i]), STN_ERR_STATE);
        CHECK(all.requests[i] == NULL);
    }
}

static stn_tensor *rows(stn_context *context, int64_t n)
{
    const struct setup s = {.dim = 0, .p = stn_context_size(context)};
    return local(context, &s, stn_context_rank(context), n, garbage);
}

static void held(stn_context *context, const stn_mesh *mesh)
{
    const int64_t sizes[] = {1, 2, 0};
    const int rank = stn_context_rank(context);
    const stn_dist_margin margin = {sizeof margin, 1, 1, STN_PADDING_CIRCULAR};
    stn_dist_request *q[3] = {NULL};
    stn_scope_begin(context);
    CHECK_STATUS(
        stn_dist_gather_into(rank == 2 ? rows(context, 3) : NULL, rows(context, sizes[rank]), mesh, sizes, 2, &q[0]),
        STN_OK);
    CHECK_STATUS(
        stn_dist_scatter_into(rows(context, sizes[rank]), rank == 1 ? rows(context, 3) : NULL, mesh, sizes, 1, &q[1]),
        STN_OK);
    stn_tensor *wide = rows(context, sizes[rank] ? sizes[rank] + 2 : 0);
    CHECK_STATUS(stn_dist_halo_into(wide, rows(context, sizes[rank]), mesh, sizes, &margin, &q[2]), STN_OK);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(stn_dist_wait(&q[(i + 1) % 3]), STN_OK);
}

static stn_status held_body(stn_context *context, void *arg)
{
    (void)arg;
    held(context, test_mesh(context, 3, 0));
    return STN_OK;
}

static void requests_hold_their_tensors(void)
{
    test_ranks(3, held_body, NULL);
}

static void expect_refused(stn_context *context, stn_status got, stn_status want, const char *words)
{
    CHECK_STATUS(got, want);
    CHECK_ERROR_PART(context, want, words);
}

/* Blocking, what one rank alone passes wrong is refused on all. */
static void refuse_one(stn_context *context, const stn_mesh *mesh)
{
    const int rank = stn_context_rank(context), odd = rank == 1;
    const int64_t sizes[] = {1, 2, 0}, own = sizes[rank];
    const stn_dist_margin margin = {sizeof margin, 1, 1, STN_PADDING_ZEROS};
    const stn_dist_part part = {(rank + 1) % 3, 0, 1}, from = {(rank + 2) % 3, 0, odd ? 2 : 1};
    const stn_dist_messages wrong = {sizeof wrong, 1, 1, &part, &from, 2};
    const stn_dist_messages outside = {sizeof outside, 1, 0, &(const stn_dist_part){odd ? 3 : 0, 0, 0}, NULL, 2};
    stn_tensor *two = rows(context, 2), *y = rows(context, 2);
    expect_refused(context, stn_dist_reduce_into(odd ? rows(context, 3) : NULL, two, mesh, STN_SUM, 1, NULL),
                   STN_ERR_SHAPE, "rank 1: dist_reduce_into: the result has 3 rows, wanted the input's 2");
    expect_refused(context, stn_dist_reduce_into(NULL, two, mesh, STN_SUM, 1, NULL), STN_ERR_ARGUMENT,
                   "rank 1: dist_reduce_into: result is missing");
    expect_refused(context, stn_dist_reduce_into(y, two, mesh, STN_SUM, rank, NULL), STN_ERR_MISMATCH, "root 1");
    expect_refused(context,
                   stn_dist_gather_into(odd ? rows(context, 4) : NULL, rows(context, own), mesh, sizes, 1, NULL),
                   STN_ERR_SHAPE, "rank 1: dist_gather_into: the sum of sizes is 3, wanted 4");
    expect_refused(
        context,
        stn_dist_gather_into(odd ? rows(context, 3) : NULL, rows(context, odd ? 3 : own), mesh, sizes, 1, NULL),
        STN_ERR_SHAPE, "rank 1: dist_gather_into: input has 9 elements, wanted 6, as sizes[1] says");
    expect_refused(
        context,
        stn_dist_scatter_into(rows(context, odd ? 3 : own), rank == 0 ? rows(context, 3) : NULL, mesh, sizes, 0, NULL),
        STN_ERR_SHAPE, "rank 1: dist_scatter_into: the result has 9 elements, wanted 6");
    expect_refused(context,
                   stn_dist_halo_into(rows(context, own + (odd   ? 1
                                                           : own ? 2
                                                                 : 0)),
                                      rows(context, own), mesh, sizes, &margin, NULL),
                   STN_ERR_SHAPE,
                   "rank 1: dist_halo_into: the result has 3 rows, wanted 4, the chunk with its margins");
    expect_refused(context, stn_dist_exchange_into(y, two, mesh, &wrong, NULL), STN_ERR_MISMATCH,
                   "dist_exchange_into: rank 0 sends 1 messages of 1 elements in all, wanted 1 of 2");
    expect_refused(context, stn_dist_exchange_into(y, two, mesh, &outside, NULL), STN_ERR_ARGUMENT,
                   "rank 1: dist_exchange_into: send[0].peer got 3, wanted a rank of the mesh, 0 to 2");
}

/* As a request, what all ranks pass wrong. */
static void refuse_all(stn_context *context, const stn_mesh *mesh)
{
    const int rank = stn_context_rank(context);
    const int64_t sizes[] = {1, 2, 0};
    const stn_dist_margin wide = {sizeof wide, 3, 1, STN_PADDING_REFLECT};
    const stn_dist_messages messages = {.size = sizeof messages, .length = 5};
    stn_dist_request *request = NULL;
    stn_tensor *own = rows(context, sizes[rank]), *two = rows(context, 2), *y = rows(context, 2);
    expect_refused(context, stn_dist_reduce_into(y, two, mesh, STN_SUM, 3, &request), STN_ERR_ARGUMENT,
                   "dist_reduce_into: root got 3, wanted a rank of the mesh, 0 to 2");
    expect_refused(context, stn_dist_scatter_into(y, two, mesh, NULL, 0, &request), STN_ERR_ARGUMENT, "sizes is NULL");
    expect_refused(context, stn_dist_exchange_into(y, two, mesh, &messages, &request), STN_ERR_SHAPE,
                   "the result has 2 rows, wanted messages->length, which is 5");
    expect_refused(context, stn_dist_exchange_into(y, two, mesh, NULL, &request), STN_ERR_ARGUMENT,
                   "messages got NULL, of 0 bytes, wanted 40");
    expect_refused(context, stn_dist_halo_into(y, own, mesh, sizes, &wide, &request), STN_ERR_SHAPE,
                   "3 elements in all to reflect");
    expect_refused(context, stn_dist_halo_into(y, y, mesh, NULL, &wide, &request), STN_ERR_ARGUMENT, "share memory");
    expect_refused(context, stn_dist_halo_into(stn_narrow(y, 0, 0, 1), own, mesh, sizes, &wide, &request),
                   STN_ERR_STATE, "is a view");
    CHECK(request == NULL);
}

static stn_status refused_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    (void)arg;
    stn_scope_begin(context);
    refuse_one(context, mesh);
    refuse_all(context, mesh);
    held(context, mesh); /* the mesh is usable */
    return stn_scope_end(context);
}

static void what_cannot_be_is_refused_on_all_ranks(void)
{
    test_ranks(3, refused_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"requests_give_the_bits_of_the_collective_in_any_order",
         requests_give_the_bits_of_the_collective_in_any_order},
        {"requests_that_nobody_waited_for_outlive_their_context",
         requests_that_nobody_waited_for_outlive_their_context},
        {"requests_hold_their_tensors", requests_hold_their_tensors},
        {"what_cannot_be_is_refused_on_all_ranks", what_cannot_be_is_refused_on_all_ranks},
    };
    return TEST_MAIN(argc, argv, cases);
}
