/* What one rank passes wrong, or differently, or a failure that it had before: all ranks get the same error, nothing
 * has been sent, and the mesh stays usable. */
#include "ranks.h"

#include <string.h>

enum { RANKS = 3 };

/* What the odd rank does; the others make the plain call. */
enum fault {
    NULL_INPUT,
    FAILED_BEFORE,
    ON_MESH,
    OTHER_DTYPE,
    OTHER_NDIM,
    OTHER_WIDTH,
    BAD_DIM,
    OTHER_DIM,
    BAD_ROOT,
    OTHER_ROOT,
    BAD_OP,
    OTHER_OP,
    BAD_CONVENTION,
    OTHER_CONVENTION,
    OTHER_SIZES,
    NEGATIVE_SIZE,
    OWN_SIZE,
    NO_SIZES,
    OTHER_COLLECTIVE,
    N_FAULTS
};

struct refusal {
    enum fault fault;
    int everybody; /* all ranks do it */
    stn_status status;
    const char *text;
};

/* What rank 1 alone can tell, or each rank for itself. */
static const struct refusal failures[] = {
    {NULL_INPUT, 0, STN_ERR_ARGUMENT, "rank 1: dist_gather: input is missing"},
    {FAILED_BEFORE, 0, STN_ERR_SHAPE, "rank 1: "},
    {ON_MESH, 0, STN_ERR_LAYOUT, "rank 1: dist_gather: input is on a mesh, wanted a local tensor"},
    {ON_MESH, 1, STN_ERR_LAYOUT, "dist_gather: input is on a mesh, wanted a local tensor"},
    {BAD_DIM, 0, STN_ERR_ARGUMENT, "rank 1: dist_gather: "},
    {BAD_DIM, 1, STN_ERR_ARGUMENT, "dist_gather: "},
    {BAD_ROOT, 0, STN_ERR_ARGUMENT, "rank 1: dist_gather: root got 3, wanted a rank of the mesh, 0 to 2"},
    {BAD_ROOT, 1, STN_ERR_ARGUMENT, "dist_gather: root got 3, wanted a rank of the mesh, 0 to 2"},
    {BAD_OP, 0, STN_ERR_ARGUMENT, "rank 1: dist_reduce: op got 77, which is none"},
    {BAD_CONVENTION, 0, STN_ERR_ARGUMENT, "rank 1: dist_gather: convention got 9"},
    {NEGATIVE_SIZE, 0, STN_ERR_ARGUMENT, "rank 1: dist_gather: sizes[2] got -3, wanted 0 or more"},
    {OWN_SIZE, 0, STN_ERR_SHAPE, "rank 1: dist_gather: input has 4 elements along dim 0, wanted sizes[1], which is 2"},
};

/* What only the comparison of two ranks' calls shows: the text begins with rank 1's. */
static const struct refusal differences[] = {
    {OTHER_DTYPE, 0, STN_ERR_MISMATCH,
     "rank 1 calls dist_gather(dtype f64, ndim 2, shape[1] 2, dim 0, convention per_rank, root 0, sizes 1 2 3), rank 0 "
     "dist_gather(dtype f32, ndim 2, "},
    {OTHER_NDIM, 0, STN_ERR_MISMATCH, "rank 1 calls dist_gather(dtype f32, ndim 1, dim 0, "},
    {OTHER_WIDTH, 0, STN_ERR_MISMATCH, "rank 1 calls dist_gather(dtype f32, ndim 2, shape[1] 5, dim 0, "},
    {OTHER_DIM, 0, STN_ERR_MISMATCH, "rank 1 calls dist_gather(dtype f32, ndim 2, shape[0] 2, dim 1, "},
    {OTHER_ROOT, 0, STN_ERR_MISMATCH,
     "rank 1 calls dist_gather(dtype f32, ndim 2, shape[1] 2, dim 0, convention per_rank, root 2, sizes 1 2 3), rank "
     "0 "},
    {OTHER_OP, 0, STN_ERR_MISMATCH,
     "rank 1 calls dist_reduce(dtype f32, ndim 2, shape[0] 2, shape[1] 2, convention per_rank, op max, root 0), rank 0 "
     "dist_reduce(dtype f32, ndim 2, shape[0] 2, shape[1] 2, convention per_rank, op sum, root 0)"},
    {OTHER_CONVENTION, 0, STN_ERR_MISMATCH,
     "rank 1 calls dist_gather(dtype f32, ndim 2, shape[1] 2, dim 0, convention replicated, "},
    {OTHER_SIZES, 0, STN_ERR_MISMATCH,
     "rank 1 calls dist_gather(dtype f32, ndim 2, shape[1] 2, dim 0, convention per_rank, root 0, sizes 7 2 3), rank "
     "0 "},
    {NO_SIZES, 1, STN_ERR_MISMATCH,
     "rank 1 calls dist_gather(dtype f32, ndim 2, shape[1] 2, dim 0, convention per_rank, root 0, elements 2), rank 0 "
     "dist_gather(dtype f32, ndim 2, shape[1] 2, dim 0, convention per_rank, root 0, elements 1); nothing was moved"},
    {OTHER_COLLECTIVE, 0, STN_ERR_MISMATCH, "rank 1 calls dist_scatter("},
};

static stn_tensor *zeros(stn_context *context, stn_dtype dtype, int ndim, int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, dtype, ndim, shape, NULL, &spec), STN_OK);
    stn_tensor *t = stn_zeros(context, spec);
    stn_spec_release(&spec);
    return t;
}

static stn_tensor *on_mesh(stn_context *context, const stn_mesh *mesh)
{
    const int64_t shape[] = {2, 2};
    const stn_placement place = stn_replicate();
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, mesh, &place, STN_DTYPE_F32, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *t = stn_zeros(context, spec);
    stn_spec_release(&spec);
    return t;
}

static stn_tensor *bad_input(stn_context *context, const stn_mesh *mesh, enum fault fault, int64_t rows)
{
    if (fault == NULL_INPUT)
        return NULL;
    if (fault == FAILED_BEFORE)
        return stn_add(zeros(context, STN_DTYPE_F32, 2, 2, 2), zeros(context, STN_DTYPE_F32, 2, 2, 3));
    if (fault == ON_MESH)
        return on_mesh(context, mesh);
    if (fault == OTHER_DTYPE)
        return zeros(context, STN_DTYPE_F64, 2, rows, 2);
    if (fault == OTHER_NDIM)
        return zeros(context, STN_DTYPE_F32, 1, rows, 2);
    if (fault == OTHER_WIDTH)
        return zeros(context, STN_DTYPE_F32, 2, rows, 5);
    return zeros(context, STN_DTYPE_F32, 2, fault == OWN_SIZE ? 4 : rows, 2);
}

static stn_tensor *call(stn_context *context, const stn_mesh *mesh, enum fault kind, int odd)
{
    const int64_t sizes[] = {kind == OTHER_SIZES && odd ? 7 : 1, 2, kind == NEGATIVE_SIZE && odd ? -3 : 3};
    const enum fault fault = odd ? kind : N_FAULTS;
    if (kind == BAD_OP || kind == OTHER_OP)
        return stn_dist_reduce(zeros(context, STN_DTYPE_F32, 2, 2, 2), mesh,
                               fault == BAD_OP     ? (stn_reduce_op)77
                               : fault == OTHER_OP ? STN_MAX
                                                   : STN_SUM,
                               0, STN_GRAD_PER_RANK);
    stn_tensor *x = bad_input(context, mesh, fault, stn_context_rank(context) + 1);
    const stn_grad_convention convention = fault == BAD_CONVENTION     ? (stn_grad_convention)9
                                           : fault == OTHER_CONVENTION ? STN_GRAD_REPLICATED
                                                                       : STN_GRAD_PER_RANK;
    if (fault == OTHER_COLLECTIVE)
        return stn_dist_scatter(x, mesh, 0, sizes, 0, convention);
    return stn_dist_gather(x, mesh,
                           fault == BAD_DIM     ? 2
                           : fault == OTHER_DIM ? 1
                                                : 0,
                           fault == NO_SIZES ? NULL : sizes,
                           fault == BAD_ROOT     ? 3
                           : fault == OTHER_ROOT ? 2
                                                 : 0,
                           convention);
}

static void expect_usable(stn_context *context, const stn_mesh *mesh)
{
    double value;
    const stn_spec *spec;
    const double one = 1;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 0, NULL, NULL, &spec), STN_OK);
    CHECK_STATUS(
        stn_item(stn_dist_all_reduce(stn_from_host(context, spec, &one), mesh, STN_SUM, STN_GRAD_PER_RANK), &value),
        STN_OK);
    CHECK_NEAR(value, RANKS, 0);
    stn_spec_release(&spec);
}

/* The text of the error that is kept begins so, and is that of all ranks; the mesh is usable after it. */
static void expect_refused(stn_context *context, const stn_mesh *mesh, stn_tensor *y, stn_status status,
                           const char *wanted)
{
    char text[512];
    CHECK(stn_tensor_is_error(y));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), status);
    if (!CHECK(strncmp(text, wanted, strlen(wanted)) == 0))
        CHECK_STR(text, wanted);
    test_same_text(context, text);
    expect_usable(context, mesh);
}

static void refuse(stn_context *context, const stn_mesh *mesh, const struct refusal *refusal)
{
    stn_stats before = {.size = sizeof before}, after = before;
    stn_scope_begin(context);
    stn_context_stats(context, &before);
    stn_tensor *y = call(context, mesh, refusal->fault, refusal->everybody || stn_context_rank(context) == 1);
    stn_context_stats(context, &after);
    CHECK(after.bytes_sent - before.bytes_sent < 4096); /* words and texts of agreements alone */
    expect_refused(context, mesh, y, refusal->status, refusal->text);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status refusal_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    (void)arg;
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++)
        refuse(context, mesh, &failures[i]);
    for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++)
        refuse(context, mesh, &differences[i]);
    return STN_OK;
}

static void all_ranks_refuse_what_one_passes_wrong(void)
{
    test_ranks(RANKS, refusal_body, NULL);
}

/* What pairs alone know. */
enum pair_fault { PEER, BEGIN, RANGE, RESULT, LENGTH, TOO_LONG, BOTH_LISTS, SUM, MARGIN, WIDE, STRUCT, N_PAIR_FAULTS };

static const struct {
    stn_status status;
    const char *text;
} pairs[N_PAIR_FAULTS] = {
    [PEER] = {STN_ERR_ARGUMENT, "rank 1: dist_exchange: send[0].peer got 3, wanted a rank of the mesh, 0 to 2"},
    [BEGIN] = {STN_ERR_ARGUMENT,
               "rank 1: dist_exchange: send[0] got begin -1 and length 2, wanted a range within 4 elements"},
    [RANGE] = {STN_ERR_ARGUMENT,
               "rank 1: dist_exchange: send[0] got begin 3 and length 2, wanted a range within 4 elements"},
    [RESULT] = {STN_ERR_ARGUMENT,
                "rank 1: dist_exchange: receive[0] got begin 1 and length 2, wanted a range within 2 elements"},
    [LENGTH] = {STN_ERR_ARGUMENT, "rank 1: dist_exchange: length got -2, wanted 0 or more"},
    [TOO_LONG] = {STN_ERR_SHAPE, "rank 1: spec: shape[0] to shape[0] give more than 2^63 - 1 bytes of f32"},
    [BOTH_LISTS] = {STN_ERR_ARGUMENT,
                    "rank 1: dist_all_to_all: send_sizes got a list of 3 sizes and receive_sizes none, wanted both "
                    "or none"},
    [SUM] = {STN_ERR_SHAPE,
             "rank 1: dist_all_to_all: input has 4 elements along dim 0, wanted the sum of send_sizes, which is 5"},
    [MARGIN] = {STN_ERR_ARGUMENT, "rank 1: dist_halo: margin got widths -1 and 0"},
    [WIDE] = {STN_ERR_ARGUMENT, "rank 1: dist_halo: margin got widths 36028797018963968 and 0, wanted at most 16777216 "
                                "where elements are repeated"},
    [STRUCT] = {STN_ERR_ARGUMENT, "rank 1: dist_exchange: list 0 of messages got a bad size"},
};

static stn_tensor *call_pairs(stn_context *context, const stn_mesh *mesh, enum pair_fault kind, int odd)
{
    const int rank = stn_context_rank(context), next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
    const enum pair_fault fault = odd ? kind : N_PAIR_FAULTS;
    const int64_t sent[] = {1, 1, fault == SUM ? 3 : 2};
    const stn_dist_part send = {fault == PEER ? 3 : next, fault == BEGIN ? -1 : fault == RANGE ? 3 : 0, 2};
    const stn_dist_part receive = {before, fault == RESULT ? 1 : 0, 2};
    const stn_dist_messages messages = {
        fault == STRUCT ? 1 : sizeof messages,      1, 1, &send, &receive,
        fault == LENGTH ? -2 : fault == TOO_LONG ? INT64_MAX / 2 : 2};
    const stn_dist_margin margin = {sizeof margin, fault == MARGIN ? -1 : fault == WIDE ? INT64_C(1) << 55 : 1, 0,
                                    kind == WIDE ? STN_PADDING_CIRCULAR : STN_PADDING_ZEROS};
    stn_tensor *x = zeros(context, STN_DTYPE_F32, 2, 4, 2);
    if (kind == BOTH_LISTS || kind == SUM)
        return stn_dist_all_to_all(x, mesh, 0, sent, fault == BOTH_LISTS ? NULL : sent, STN_GRAD_PER_RANK);
    if (kind == MARGIN || kind == WIDE)
        return stn_dist_halo(x, mesh, 0, NULL, &margin, STN_GRAD_PER_RANK);
    return stn_dist_exchange(x, mesh, 0, &messages, STN_GRAD_PER_RANK);
}

static stn_status pair_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    (void)arg;
    for (int k = 0; k < N_PAIR_FAULTS; k++) {
        stn_scope_begin(context);
        stn_tensor *y = call_pairs(context, mesh, (enum pair_fault)k, stn_context_rank(context) == 1);
        expect_refused(context, mesh, y, pairs[k].status, pairs[k].text);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void all_ranks_refuse_bad_messages_of_one(void)
{
    test_ranks(RANKS, pair_body, NULL);
}

/* What one rank sends otherwise than its peer expects it. */
enum end_fault { LONGER, TWO, CUT, UNASKED, TO_ITSELF, ROWS, N_END_FAULTS };

static const char *const end_texts[N_END_FAULTS] = {
    [LONGER] = "rank 2: dist_exchange: rank 1 sends 1 messages of 3 elements in all, wanted 1 of 2; nothing was moved",
    [TWO] = "rank 2: dist_exchange: rank 1 sends 2 messages of 2 elements in all, wanted 1 of 2; nothing was moved",
    [CUT] =
        "rank 2: dist_exchange: rank 1 sends 2 messages of 3 elements in all, wanted 2 of 3, cut elsewhere; nothing",
    [UNASKED] = "rank 0: dist_exchange: rank 1 sends 1 messages of 2 elements in all, wanted 0 of 0; nothing was moved",
    [TO_ITSELF] =
        "rank 1: dist_exchange: rank 1 sends 1 messages of 1 elements in all, wanted 0 of 0; nothing was moved",
    [ROWS] = "rank 0: dist_all_to_all: rank 1 sends 1 messages of 2 elements in all, wanted 1 of 1; nothing was moved",
};

static stn_tensor *call_ends(stn_context *context, const stn_mesh *mesh, enum end_fault kind, int odd)
{
    const int r = stn_context_rank(context), next = (r + 1) % RANKS, before = (r + RANKS - 1) % RANKS;
    const int64_t even[] = {1, 1, 2}, other[] = {2, 1, 1}, got[] = {r == 2 ? 2 : 1, r == 2 ? 2 : 1, r == 2 ? 2 : 1};
    const stn_dist_part send[N_END_FAULTS][2] = {
        [LONGER] = {{next, 0, odd ? 3 : 2}},     [TWO] = {{next, 0, odd ? 1 : 2}, {next, 1, 1}},
        [CUT] = {{next, 0, odd ? 2 : 1}, {next, 0, odd ? 1 : 2}}, [UNASKED] = {{odd ? before : next, 0, 2}},
        [TO_ITSELF] = {{next, 0, 2}, {r, 0, 1}},
    };
    const stn_dist_part receive[] = {{before, 0, kind == CUT ? 1 : 2}, {before, 0, 2}};
    const stn_dist_messages messages = {.size = sizeof messages,
                                        .n_send = kind == CUT || (odd && (kind == TWO || kind == TO_ITSELF)) ? 2 : 1,
                                        .n_receive = kind == CUT ? 2 : 1,
                                        .send = send[kind],
                                        .receive = receive,
                                        .length = 2};
    stn_tensor *x = zeros(context, STN_DTYPE_F32, 2, 4, 2);
    if (kind == ROWS)
        return stn_dist_all_to_all(x, mesh, 0, odd ? other : even, got, STN_GRAD_PER_RANK);
    return stn_dist_exchange(x, mesh, 0, &messages, STN_GRAD_PER_RANK);
}

static stn_status ends_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    (void)arg;
    for (int k = 0; k < N_END_FAULTS; k++)
        for (int odd = 0; odd < 2; odd++) {
            stn_scope_begin(context);
            stn_tensor *y = call_ends(context, mesh, (enum end_fault)k, odd && stn_context_rank(context) == 1);
            if (odd)
                expect_refused(context, mesh, y, STN_ERR_MISMATCH, end_texts[k]);
            else
                CHECK(!stn_tensor_is_error(y));
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void all_ranks_refuse_messages_whose_ends_differ(void)
{
    test_ranks(RANKS, ends_body, NULL);
}

/* Alone, a rank's messages to itself have two ends too. */
static stn_status alone_body(stn_context *context, void *arg)
{
    const stn_dist_part send = {0, 0, 2}, receive[] = {{0, 0, 2}, {0, 2, 1}};
    const stn_dist_messages messages = {sizeof messages, 1, 2, &send, receive, 3};
    char text[512];
    (void)arg;
    stn_scope_begin(context);
    CHECK(stn_tensor_is_error(stn_dist_exchange(zeros(context, STN_DTYPE_F32, 2, 4, 2), test_mesh(context, 1, 0), 0,
                                                &messages, STN_GRAD_PER_RANK)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_MISMATCH);
    CHECK_STR(text, "dist_exchange: rank 0 sends 1 messages of 2 elements in all, wanted 2 of 3; nothing was moved");
    return stn_scope_end(context);
}

static void a_rank_alone_refuses_what_it_does_not_send_itself(void)
{
    test_ranks(1, alone_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"all_ranks_refuse_what_one_passes_wrong", all_ranks_refuse_what_one_passes_wrong},
        {"all_ranks_refuse_bad_messages_of_one", all_ranks_refuse_bad_messages_of_one},
        {"all_ranks_refuse_messages_whose_ends_differ", all_ranks_refuse_messages_whose_ends_differ},
        {"a_rank_alone_refuses_what_it_does_not_send_itself", a_rank_alone_refuses_what_it_does_not_send_itself},
    };
    return TEST_MAIN(argc, argv, cases);
}
