/* Collectives of dist.h on communicators that another rank has aborted, or aborts while they wait: every rank is
 * told which one and why, at once, forward and backward, and keeps what its tensors hold. */
#include "collectives.h"

#include "core/comm/comm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RANKS = 3, ABORTS = 1 };

enum moment { BEFORE_FORWARD, DURING_FORWARD, BEFORE_BACKWARD, DURING_BACKWARD, N_MOMENTS };

static const char *const moment_names[] = {"before the forward", "during the forward", "before the backward",
                                           "during the backward"};
static const char what[] = "the fuse has blown";
static const double at_once = 10, deadline = 60; /* seconds; a machine under load is slow, and far from its deadline */

struct trial {
    enum collective collective;
    enum moment moment;
    int outside; /* the rank that aborts is none of the mesh's */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void abort_family(stn_context *context, int after_a_while)
{
    const struct timespec while_they_wait = {.tv_nsec = 2000000};
    if (after_a_while)
        nanosleep(&while_they_wait, NULL);
    stni_comm_abort(stn_context_comm(context), STN_ERR_DEVICE, what);
}

/* Whoever has no need of the others may still succeed: it is told by what it calls next. */
static void expect_told(stn_context *context, const struct trial *t, double start)
{
    char text[512] = "", wanted[64];
    const double took = now() - start;
    snprintf(wanted, sizeof wanted, "rank %d: %s", ABORTS, what);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_PEER);
    if (!CHECK(strstr(text, wanted) != NULL) || !CHECK(took < at_once))
        printf("  %s, aborted %s: \"%s\" after %.3g s\n", collective_names[t->collective], moment_names[t->moment],
               text, took);
}

static void expect_intact(const struct setup *s, stn_tensor *x)
{
    expect("input", s, x, in_length(s, s->rank), in_value, 0);
}

/* Until it fails: the queue of a worker tells when somebody waits for it. */
static void forward_fails(stn_context *context, const struct setup *s, const struct trial *t, stn_tensor *x,
                          const stn_mesh *mesh)
{
    const double start = now();
    stn_status status = STN_OK;
    while (status == STN_OK && now() - start < deadline / 2) {
        double host[64];
        stn_tensor *y = call_collective(s, x, mesh);
        status = stn_context_status(context);
        if (status == STN_OK && stn_spec_numel(stn_tensor_spec(y)) <= 64)
            status = stn_to_host(y, host, (size_t)stn_spec_numel(stn_tensor_spec(y)) * sizeof *host);
    }
    CHECK_STATUS(status, STN_ERR_PEER);
    expect_told(context, t, start);
}

static void backward_fails(stn_context *context, const struct trial *t, stn_tensor *y)
{
    const double start = now();
    stn_tensor *loss = stn_sum(stn_mul(y, y), 0, NULL, 0);
    stn_status status = STN_OK;
    while (status == STN_OK && now() - start < deadline / 2)
        status = stn_backward_many(context, 1, &loss, NULL, 1);
    CHECK_STATUS(status, STN_ERR_PEER);
    expect_told(context, t, start);
}

/* All ranks, or those that do not abort. */
static const stn_mesh *mesh_of(stn_context *context, int p)
{
    static const int all[] = {0, 1, 2}, others[] = {0, 2};
    const char *name = "x";
    const stn_mesh *mesh = NULL;
    CHECK_STATUS(stn_mesh_create(context, 1, &p, &name, p == RANKS ? all : others, &mesh), STN_OK);
    return mesh;
}

static stn_status body(stn_context *context, void *arg)
{
    const struct trial *t = arg;
    const int rank = stn_context_rank(context), p = t->outside ? RANKS - 1 : RANKS;
    const int at = t->outside ? rank / 2 : rank; /* ranks 0 and 2 are its 0 and 1 */
    const struct setup s = {.collective = t->collective,
                            .p = p,
                            .rank = at,
                            .root = 0,
                            .uneven = 1,
                            .below = 1,
                            .above = 1,
                            .probe_rank = -1};
    const stn_mesh *mesh = mesh_of(context, p);
    stn_tensor *y = NULL;
    stn_scope_begin(context);
    stn_tensor *x = local(context, &s, at, in_length(&s, at), in_value);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    if (t->moment >= BEFORE_BACKWARD)
        y = call_collective(&s, x, mesh);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK); /* all have come so far */
    if (rank == ABORTS)
        abort_family(context, t->moment == DURING_FORWARD || t->moment == DURING_BACKWARD);
    else if (y)
        backward_fails(context, t, y);
    else
        forward_fails(context, &s, t, x, mesh);
    if (rank != ABORTS)
        expect_intact(&s, x);
    stn_scope_end(context);
    return STN_OK;
}

static void on_each_collective(int outside)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = deadline};
    for (int k = 0; k < N_COLLECTIVES; k++)
        for (int moment = 0; moment < N_MOMENTS; moment++) {
            struct trial t = {.collective = (enum collective)k, .moment = (enum moment)moment, .outside = outside};
            test_launch(RANKS, &options, body, &t);
        }
}

static void whoever_aborts_is_named_by_every_collective_forward_and_backward(void)
{
    on_each_collective(0);
}

static void so_is_a_rank_outside_of_the_mesh(void)
{
    on_each_collective(1);
}

/* Requests */

typedef stn_status form(stn_tensor *x, const stn_mesh *mesh, int odd, stn_dist_request **request);

static stn_tensor *rows(stn_context *context, int64_t n)
{
    const struct setup s = {.p = RANKS, .rank = stn_context_rank(context), .probe_rank = -1};
    return local(context, &s, s.rank, n, in_value);
}

static stn_status all_reduce(stn_tensor *x, const stn_mesh *mesh, int odd, stn_dist_request **request)
{
    return stn_dist_all_reduce_in_place(odd ? rows(stn_tensor_context(x), 3) : x, mesh, STN_SUM, request);
}

static stn_status broadcast(stn_tensor *x, const stn_mesh *mesh, int odd, stn_dist_request **request)
{
    return stn_dist_broadcast_in_place(odd ? rows(stn_tensor_context(x), 3) : x, mesh, 0, request);
}

static stn_status all_gather(stn_tensor *x, const stn_mesh *mesh, int odd, stn_dist_request **request)
{
    const int64_t sizes[] = {2, 2, odd ? 3 : 2};
    return stn_dist_all_gather_into(rows(stn_tensor_context(x), odd ? 7 : 6), x, mesh, sizes, request);
}

static stn_status exchange(stn_tensor *x, const stn_mesh *mesh, int odd, stn_dist_request **request)
{
    const int rank = stn_context_rank(stn_tensor_context(x));
    const stn_dist_part to = {(rank + 1) % RANKS, 0, odd ? 1 : 2}, from = {(rank + RANKS - 1) % RANKS, 0, 2};
    const stn_dist_messages messages = {sizeof messages, 1, 1, &to, &from, 2};
    return stn_dist_exchange_into(rows(stn_tensor_context(x), 2), x, mesh, &messages, request);
}

static form *const forms[] = {all_reduce, broadcast, all_gather, exchange};

/* What a rank does in place of its peers' request: the same with other arguments, an abort, or one that it alone is
 * refused. */
enum difference { ARGUMENTS, ABORT, REFUSED };

struct request_trial {
    form *call;
    enum difference difference;
};

static stn_status begin_and_wait(stn_context *context, const stn_mesh *mesh, const struct request_trial *t)
{
    const int odd = stn_context_rank(context) == ABORTS;
    stn_dist_request *request = NULL;
    stn_tensor *x = rows(context, 2);
    stn_status status = t->call(odd && t->difference == REFUSED ? stn_narrow(x, 0, 0, 2) : x, mesh,
                                odd && t->difference == ARGUMENTS, &request);
    if (status == STN_OK)
        status = stn_dist_wait(&request);
    if (status == STN_OK && t->difference != REFUSED) /* who has no need of the others is told by what it calls next */
        status = stn_dist_all_reduce_in_place(rows(context, 2), mesh, STN_SUM, NULL);
    return status;
}

static void expect_text(stn_context *context, const struct request_trial *t, stn_status status, double took)
{
    static const char *const names[] = {
        [ARGUMENTS] = "rank 1", [ABORT] = "rank 1: the fuse has blown", [REFUSED] = "rank 1"};
    const int is_right = t->difference == ABORT ? status == STN_ERR_PEER
                         : t->difference == REFUSED ? status == STN_ERR_TIMEOUT || status == STN_ERR_PEER
                                                    : status == STN_ERR_MISMATCH || status == STN_ERR_PEER;
    char text[512] = "";
    stn_context_take_error(context, text, sizeof text);
    if (!CHECK(is_right) || !CHECK(strstr(text, names[t->difference]) || strstr(text, "a message from rank ")) ||
        !CHECK(took < at_once))
        printf("  difference %d: rank %d: status %d after %.3g s: %s\n", (int)t->difference, stn_context_rank(context),
               (int)status, took, text);
}

static stn_status request_body(stn_context *context, void *arg)
{
    const struct request_trial *t = arg;
    const int odd = stn_context_rank(context) == ABORTS;
    const stn_mesh *mesh = mesh_of(context, RANKS);
    stn_scope_begin(context);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK); /* all have come so far */
    const double start = now();
    if (odd && t->difference == ABORT) {
        abort_family(context, 1);
    } else {
        const stn_status status = begin_and_wait(context, mesh, t);
        const double took = now() - start;
        if (odd && t->difference == REFUSED) {
            CHECK_STATUS(status, STN_ERR_STATE);
            CHECK_ERROR_PART(context, STN_ERR_STATE, "the result is a view");
            nanosleep(&(struct timespec){.tv_sec = 2}, NULL); /* its peers' deadline is 1 s; were it gone, they would know */
        } else {
            expect_text(context, t, status, took);
            CHECK(t->difference != REFUSED || took > 0.9);
        }
    }
    stn_scope_end(context);
    return STN_OK;
}

static void on_each_form(enum difference difference)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = deadline};
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        struct request_trial t = {forms[k], difference};
        test_launch(RANKS, &options, request_body, &t);
    }
}

static void requests_whose_arguments_differ_end_the_family_at_once(void)
{
    on_each_form(ARGUMENTS);
}

static void whoever_aborts_is_named_by_requests_that_are_under_way(void)
{
    on_each_form(ABORT);
}

static void a_request_that_one_rank_is_refused_is_waited_for_until_the_deadline(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 1};
    struct request_trial t = {all_reduce, REFUSED};
    test_launch(RANKS, &options, request_body, &t);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"whoever_aborts_is_named_by_every_collective_forward_and_backward",
         whoever_aborts_is_named_by_every_collective_forward_and_backward},
        {"so_is_a_rank_outside_of_the_mesh", so_is_a_rank_outside_of_the_mesh},
        {"requests_whose_arguments_differ_end_the_family_at_once",
         requests_whose_arguments_differ_end_the_family_at_once},
        {"whoever_aborts_is_named_by_requests_that_are_under_way",
         whoever_aborts_is_named_by_requests_that_are_under_way},
        {"a_request_that_one_rank_is_refused_is_waited_for_until_the_deadline",
         a_request_that_one_rank_is_refused_is_waited_for_until_the_deadline},
    };
    return TEST_MAIN(argc, argv, cases);
}
