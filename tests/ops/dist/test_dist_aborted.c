/* Collectives of dist.h on communicators that another rank has aborted, or aborts while they wait: every rank is told which one and why, at once,
 * forward and backward, and keeps what its tensors hold. */
#include "collectives.h"

#include "core/comm/comm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RANKS = 3, ABORTS = 1 };

enum moment { BEFORE_FORWARD, DURING_FORWARD, BEFORE_BACKWARD, DURING_BACKWARD, N_MOMENTS };

static const char *const moment_names[] = {"before the forward", "during the forward", "before the backward", "during the backward"};
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
        printf("  %s, aborted %s: \"%s\" after %.3g s\n", collective_names[t->collective], moment_names[t->moment], text, took);
}

static void expect_intact(const struct setup *s, stn_tensor *x)
{
    expect("input", s, x, in_length(s, s->rank), in_value, 0);
}

/* Until it fails: the queue of a worker tells when somebody waits for it. */
static void forward_fails(stn_context *context, const struct setup *s, const struct trial *t, stn_tensor *x, const stn_mesh *mesh)
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
    const struct setup s = {.collective = t->collective, .p = p, .rank = at, .root = 0, .uneven = 1, .below = 1, .above = 1, .probe_rank = -1};
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

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"whoever_aborts_is_named_by_every_collective_forward_and_backward", whoever_aborts_is_named_by_every_collective_forward_and_backward},
        {"so_is_a_rank_outside_of_the_mesh", so_is_a_rank_outside_of_the_mesh},
    };
    return TEST_MAIN(argc, argv, cases);
}
