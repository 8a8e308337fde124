/* Redistributions beside the caller: the same values, gradients, messages and bytes as at once; what is refused. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <string.h>

enum { ROWS = 7, COLUMNS = 3, N = ROWS * COLUMNS };

static const stn_spec *draw_spec(uint64_t *state, const stn_tensor *tensor)
{
    const stn_spec *from = stn_tensor_spec(tensor);
    struct random_shape shape = {.ndim = stn_spec_ndim(from)};
    memcpy(shape.shape, stn_spec_shape(from), (size_t)shape.ndim * sizeof shape.shape[0]);
    return random_spec(state, stn_tensor_context(tensor), stn_spec_mesh(from), &shape, STN_DTYPE_F64, 1u << STN_SUM);
}

/* Two at once to drawn layouts; one is waited for, the other used as it is. */
static stn_tensor *call_begin(stn_tensor *const *in, const void *arg)
{
    uint64_t state = *(const uint64_t *)arg;
    const stn_spec *to[2];
    stn_tensor *moved[2];
    if (!stn_spec_mesh(stn_tensor_spec(in[0])))
        return stn_mul_number(in[0], 4);
    for (int i = 0; i < 2; i++) {
        to[i] = draw_spec(&state, in[0]);
        moved[i] = stn_redistribute_begin(in[0], to[i]);
        CHECK(stn_tensor_spec(moved[i]) == to[i]);
    }
    CHECK_STATUS(stn_redistribute_wait(moved[1]), STN_OK);
    stn_tensor *back = stn_redistribute(moved[1], to[0]);
    for (int i = 0; i < 2; i++)
        stn_spec_release(&to[i]);
    return stn_add(stn_mul_number(moved[0], 3), back);
}

static stn_status random_layouts_body(stn_context *context, void *arg)
{
    (void)arg;
    against_one_check_drawn(context, 43, 30, call_begin);
    return STN_OK;
}

static void values_and_gradients_are_those_of_one_process(void)
{
    test_worlds(random_layouts_body, NULL);
}

/* From and to what; sums that end replicated on a grid take two exchanges. */
static const stn_placement layouts[][2] = {
    {{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}},      {{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}},
    {{STN_PLACE_SHARD, 1, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}},          {{STN_PLACE_PARTIAL, 0, STN_SUM, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}},
    {{STN_PLACE_PARTIAL, 0, STN_SUM, 0}, {STN_PLACE_SHARD, 1, 0, 0}},  {{STN_PLACE_PARTIAL, 0, STN_SUM, 0}, {STN_PLACE_PARTIAL, 0, STN_MAX, 0}},
};

enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static stn_tensor *make(stn_context *context, const stn_mesh *mesh, int layout)
{
    return test_tensor(context, mesh, layouts[layout], STN_DTYPE_F64, 2, (const int64_t[]){ROWS, COLUMNS}, NULL,
                       test_value);
}

static const stn_spec *spec_of(stn_context *context, const stn_mesh *mesh, int layout)
{
    const stn_spec *spec = NULL;
    const int64_t shape[] = {ROWS, COLUMNS};
    CHECK_STATUS(stn_spec_create(context, mesh, layouts[layout], STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK);
    return spec;
}

/* All pairs of layouts, all under way at once, beside the same done at once: bits, messages, bytes. */
static stn_status pairs_body(stn_context *context, void *arg)
{
    const int *sizes = arg;
    const stn_mesh *mesh = test_mesh(context, sizes[0], sizes[1]);
    stn_tensor *begun[LAYOUTS * LAYOUTS], *done[LAYOUTS * LAYOUTS], *from[LAYOUTS];
    const stn_spec *to[LAYOUTS];
    stn_scope_begin(context);
    for (int i = 0; i < LAYOUTS; i++) {
        from[i] = make(context, mesh, i);
        to[i] = spec_of(context, mesh, i);
    }
    test_stats_reset(context);
    for (int i = 0; i < LAYOUTS * LAYOUTS; i++)
        begun[i] = stn_redistribute_begin(from[i / LAYOUTS], to[i % LAYOUTS]);
    for (int i = LAYOUTS * LAYOUTS - 1; i >= 0; i--)
        CHECK_STATUS(stn_redistribute_wait(begun[i]), STN_OK);
    const stn_stats beside = test_stats_reset(context);
    for (int i = 0; i < LAYOUTS * LAYOUTS; i++)
        done[i] = stn_redistribute(from[i / LAYOUTS], to[i % LAYOUTS]);
    const stn_stats at_once = test_stats_reset(context);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    CHECK_I64(beside.messages, at_once.messages);
    CHECK_I64(beside.bytes_sent, at_once.bytes_sent);
    CHECK_I64(beside.collectives, at_once.collectives);
    CHECK_I64(beside.redistributions, at_once.redistributions);
    for (int i = 0; i < LAYOUTS * LAYOUTS; i++) {
        const int64_t *shape = stn_tensor_local_shape(begun[i]);
        const size_t bytes = (size_t)(shape[0] * shape[1]) * sizeof(double);
        if (bytes > 0)
            CHECK_BYTES(stn_tensor_data(begun[i]), stn_tensor_data(done[i]), bytes);
    }
    for (int i = 0; i < LAYOUTS; i++)
        stn_spec_release(&to[i]);
    return stn_scope_end(context);
}

static void any_number_go_on_at_once_and_are_what_they_are_at_once(void)
{
    static int grids[][2] = {{1, 1}, {2, 1}, {3, 1}, {2, 2}, {2, 3}, {3, 2}, {1, 3}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        test_ranks(grids[i][0] * grids[i][1], pairs_body, grids[i]);
}

/* Ranks of MPI run this one. */
static void two_ranks_get_what_they_get_at_once(void)
{
    static int grid[] = {2, 1};
    test_ranks(2, pairs_body, grid);
}

/* Communicators of a grid's axes are made, over that of all ranks, while this has much to bring. */
static stn_status groups_body(stn_context *context, void *arg)
{
    enum { MUCH = 700 };
    double sum = 0;
    (void)arg;
    const stn_mesh *line = test_mesh(context, 4, 0), *grid = test_mesh(context, 2, 2);
    const stn_placement part = stn_partial(STN_SUM), whole = stn_replicate();
    stn_scope_begin(context);
    stn_tensor *x =
        test_tensor(context, line, &part, STN_DTYPE_F64, 2, (const int64_t[]){MUCH, MUCH}, NULL, test_value);
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, line, &whole, STN_DTYPE_F64, 2, (const int64_t[]){MUCH, MUCH}, NULL, &spec),
                 STN_OK);
    stn_tensor *moved[3];
    for (int i = 0; i < 3; i++)
        moved[i] = stn_redistribute_begin(x, spec);
    stn_tensor *y = make(context, grid, 0), *z = make(context, grid, 4); /* sharded along y, and pending along it */
    CHECK_STATUS(stn_item(stn_sum(y, 0, NULL, 0), &sum), STN_OK);
    stn_redistribute_to(z, layouts[2]);
    for (int i = 0; i < 3; i++) {
        double first = 0;
        CHECK_STATUS(stn_redistribute_wait(moved[i]), STN_OK);
        CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
        first = ((const double *)stn_tensor_data(moved[i]))[MUCH * MUCH - 1];
        CHECK_NEAR(first, test_value(MUCH * MUCH - 1), 0);
    }
    for (int i = 0; i < N; i++)
        sum -= test_value(i);
    CHECK(sum < 1e-12 && sum > -1e-12);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void communicators_are_made_while_something_is_under_way(void)
{
    for (int i = 0; i < 5; i++)
        test_ranks(4, groups_body, NULL);
}

/* Every rank is refused, with what it did, and the mesh goes on. What is told to have changed has not: a write would
 * race with the copy, which is why it is refused. */
static stn_status misuse_body(stn_context *context, void *arg)
{
    static const char changed[] =
        "redistribute: the tensor was changed in place before its redistribution was complete (version 0, now 1)";
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 1);
    const stn_spec *whole = spec_of(context, mesh, 1);
    stn_scope_begin(context);
    for (int use = 0; use < 2; use++) {
        stn_tensor *x = make(context, mesh, 0), *moved = stn_redistribute_begin(x, whole);
        stn_tensor_changed(x);
        if (use)
            CHECK_REFUSED(context, stn_mul_number(moved, 1), STN_ERR_STATE, changed);
        else
            CHECK_STATUS(stn_redistribute_wait(moved), STN_ERR_STATE);
        if (!use)
            CHECK_ERROR(context, STN_ERR_STATE, changed);
    }
    stn_tensor *x = make(context, mesh, 0), *moved = stn_redistribute_begin(x, whole);
    CHECK_STATUS(stn_redistribute_wait(x), STN_ERR_STATE);
    CHECK_ERROR(context, STN_ERR_STATE, "redistribute_wait: the tensor is no result of stn_redistribute_begin");
    stn_mul_number(moved, 1);
    CHECK_STATUS(stn_redistribute_wait(moved), STN_OK); /* what a use has waited for may be waited for, once */
    CHECK_STATUS(stn_redistribute_wait(moved), STN_ERR_STATE);
    CHECK_ERROR(context, STN_ERR_STATE, "redistribute_wait: the tensor was waited for before");
    stn_mul_number_(x, 2); /* what is complete does not mind */
    stn_mul_number(moved, 1);
    CHECK_STATUS(stn_redistribute_wait(NULL), STN_ERR_ARGUMENT);
    CHECK_REFUSED(context, stn_redistribute_begin(moved, NULL), STN_ERR_ARGUMENT, "redistribute: spec got NULL");
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&whole);
    return STN_OK;
}

/* A result that nobody waited for: its scope says so, and the next works. */
static stn_status forgotten_body(stn_context *context, void *arg)
{
    (void)arg;
    double got[N];
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 1);
    const stn_spec *whole = spec_of(context, mesh, 1);
    stn_scope_begin(context);
    stn_redistribute_begin(make(context, mesh, 0), whole);
    CHECK_STATUS(stn_scope_end(context), STN_ERR_STATE);
    CHECK_STR(stn_context_error_text(context),
              "redistribute_begin: a result was released before it was waited for or used");
    stn_scope_begin(context);
    test_read(stn_redistribute_begin(make(context, mesh, 0), whole), got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], test_value(i), 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&whole);
    return STN_OK;
}

struct scene {
    stn_context *context;
    stn_tensor *x, *leaf, *loss;
    stn_step *step; /* doubles x */
};

static void call_op(struct scene *s)
{
    CHECK(stn_tensor_is_error(stn_mul_number(s->x, 1)));
}

static void go_backward(struct scene *s)
{
    CHECK_STATUS(stn_backward(s->loss), STN_ERR_STATE);
}

static void synchronise(struct scene *s)
{
    CHECK_STATUS(stn_grad_sync(s->context, 1, &s->leaf), STN_ERR_STATE);
}

static void repeat(struct scene *s)
{
    CHECK_STATUS(stn_step_run(s->step), STN_ERR_STATE);
}

static void capture(struct scene *s)
{
    CHECK_STATUS(stn_capture_begin(s->context), STN_ERR_STATE);
}

/* A result that is released before is found by what is called next, which has done nothing; the ranks go on. */
static stn_status released_body(stn_context *context, void *arg)
{
    static void (*const next[])(struct scene *) = {call_op, go_backward, synchronise, repeat, capture};
    (void)arg;
    double got[N];
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 1);
    const stn_spec *whole = spec_of(context, mesh, 1);
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        struct scene s = {.context = context, .x = make(context, mesh, 0), .leaf = make(context, mesh, 0)};
        stn_tensor *begun = NULL, *grad = NULL;
        CHECK_STATUS(stn_set_requires_grad(s.leaf, 1), STN_OK);
        CHECK_STATUS(stn_capture_begin(context), STN_OK);
        stn_mul_number_(s.x, 2);
        CHECK_STATUS(stn_capture_end(context, &s.step), STN_OK);
        begun = stn_redistribute_begin(s.leaf, whole);
        stn_scope_begin(context);
        s.loss = stn_sum(stn_mul(s.leaf, s.leaf), 0, NULL, 0);
        for (int k = 0; k < 2; k++) /* called the same again an op takes a shorter way */
            stn_mul_number(s.x, 1);
        stn_tensor_release(&begun);
        next[i](&s);
        CHECK_ERROR(context, STN_ERR_STATE,
                    "redistribute_begin: a result was released before it was waited for or used");
        CHECK_STATUS(stn_grad_of(s.leaf, &grad), STN_OK);
        CHECK(grad == NULL);
        test_read(s.x, got, N);
        for (int k = 0; k < N; k++)
            CHECK_NEAR(got[k], 2 * test_value(k), 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        stn_step_destroy(&s.step);
        stn_tensor_release(&s.leaf);
        stn_tensor_release(&s.x);
    }
    stn_spec_release(&whole);
    return STN_OK;
}

static void what_follows_a_release_is_refused_and_the_ranks_go_on(void)
{
    for (int ranks = 2; ranks <= 3; ranks++)
        test_ranks(ranks, released_body, NULL);
}

static void misuse_is_refused_on_every_rank(void)
{
    for (int ranks = 2; ranks <= 3; ranks++) /* on one rank nothing moves, and a view is not changed */
        test_ranks(ranks, misuse_body, NULL);
    test_worlds(forgotten_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"values_and_gradients_are_those_of_one_process", values_and_gradients_are_those_of_one_process},
        {"any_number_go_on_at_once_and_are_what_they_are_at_once",
         any_number_go_on_at_once_and_are_what_they_are_at_once},
        {"two_ranks_get_what_they_get_at_once", two_ranks_get_what_they_get_at_once},
        {"communicators_are_made_while_something_is_under_way", communicators_are_made_while_something_is_under_way},
        {"misuse_is_refused_on_every_rank", misuse_is_refused_on_every_rank},
        {"what_follows_a_release_is_refused_and_the_ranks_go_on",
         what_follows_a_release_is_refused_and_the_ranks_go_on},
    };
    return TEST_MAIN(argc, argv, cases);
}
