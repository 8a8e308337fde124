/* Captured steps: repeated, they leave the same bits as steps that are called, on any number of ranks, with uneven
 * and empty chunks. */
#include "steps_door.h"

#include "ranks.h"

#include <stdlib.h>

enum { STEPS = 10, BATCH = 7, FEATURES = 5, HIDDEN = 6, MAX_BYTES = 4096 };

/* What a step works on, and what it does. */
struct program {
    stn_context *context;
    const stn_mesh *mesh;
    stn_tensor *fixed[8]; /* all tensors that are compared; the first is filled anew before each step */
    int n;
    stn_optimizer *optimizer;
    stn_tensor *(*step)(struct program *p); /* its output, kept */
};

static double input_of(int64_t i, int step)
{
    return test_value(i + 1000 * step);
}

static _Thread_local int filling;

static double filled(int64_t i)
{
    return input_of(i, filling);
}

/* One axis of ranks; six are a grid of 2 x 3. */
static const stn_mesh *mesh_of(stn_context *context)
{
    const int n = stn_context_size(context);
    return n == 6 ? test_mesh(context, 2, 3) : test_mesh(context, n, 0);
}

/* The second axis of a grid shards the last dim, or the first of what the other one repeats. */
static stn_placement along_columns(stn_placement placement, int ndim)
{
    if (placement.kind != STN_PLACE_SHARD)
        return stn_shard(0);
    return placement.dim == ndim - 1 ? stn_replicate() : stn_shard(ndim - 1);
}

/* Rows of the batch dealt 4, 0, 3 where there are three ranks. */
static stn_tensor *made(const struct program *p, stn_placement placement, int ndim, const int64_t *shape,
                        double (*value)(int64_t i))
{
    const int64_t uneven[] = {4, 0, 3}, rows[] = {2, 1, 6};
    const int64_t *sizes[STN_MAX_NDIM] = {NULL};
    const stn_placement on_grid[] = {placement, along_columns(placement, ndim)};
    if (stn_mesh_size(p->mesh) == 3 && placement.kind == STN_PLACE_SHARD)
        sizes[placement.dim] = shape[placement.dim] == BATCH ? uneven : shape[placement.dim] == 9 ? rows : NULL;
    return test_tensor(p->context, p->mesh, on_grid, STN_DTYPE_F32, ndim, shape, sizes, value);
}

static double weight_at(int64_t i)
{
    return 0.5 * test_value(i + 77);
}

static void fill_input(struct program *p, int step)
{
    stn_tensor *input = p->fixed[0];
    const stn_spec *spec = stn_tensor_spec(input);
    filling = step;
    stn_scope_begin(p->context);
    stn_copy_(input, made(p, stn_spec_placement(spec, 0), stn_tensor_ndim(input), stn_tensor_shape(input), filled));
    CHECK_STATUS(stn_scope_end(p->context), STN_OK);
}

static int64_t bytes_of(stn_tensor *t)
{
    return stn_spec_local_numel(stn_tensor_spec(t)) * (int64_t)stn_dtype_size(stn_tensor_dtype(t));
}

static void check_same(stn_tensor *got, stn_tensor *want)
{
    char a[MAX_BYTES], b[MAX_BYTES];
    size_t bytes = (size_t)bytes_of(want);
    if (bytes == 0 || !CHECK(bytes <= MAX_BYTES) || !CHECK_I64(bytes_of(got), bytes_of(want)))
        return;
    CHECK_STATUS(stn_to_host(got, a, bytes), STN_OK);
    CHECK_STATUS(stn_to_host(want, b, bytes), STN_OK);
    CHECK_BYTES(a, b, bytes);
}

/* The same steps called, and captured at the second one, so that an optimizer has state. */
static void compare(struct program *called, struct program *captured)
{
    stn_context *context = called->context;
    stn_step *step = NULL;
    stn_tensor *output = NULL;
    for (int s = 0; s <= STEPS; s++) {
        fill_input(called, s);
        fill_input(captured, s);
        stn_tensor *want = called->step(called);
        if (s == 0) {
            stn_tensor *first = captured->step(captured);
            check_same(first, want);
            stn_tensor_release(&first);
        } else if (s == 1) {
            CHECK_STATUS(stn_capture_begin(context), STN_OK);
            output = captured->step(captured);
            if (!CHECK_STATUS(stn_capture_end(context, &step), STN_OK))
                return;
        } else {
            CHECK_STATUS(stn_step_run(step), STN_OK);
        }
        if (s > 0)
            check_same(output, want);
        for (int i = 0; i < called->n; i++)
            check_same(captured->fixed[i], called->fixed[i]);
        stn_tensor_release(&want);
    }
    if (called->optimizer)
        CHECK_I64(stn_optimizer_steps(captured->optimizer), stn_optimizer_steps(called->optimizer));
    stn_step_destroy(&step);
    check_same(output, output); /* outputs outlive the step */
    stn_tensor_release(&output);
}

static void release(struct program *p)
{
    stn_optimizer_destroy(&p->optimizer);
    for (int i = 0; i < p->n; i++)
        stn_tensor_release(&p->fixed[i]);
}

/* A small net */

static stn_tensor *train(struct program *p)
{
    stn_tensor *loss;
    stn_scope_begin(p->context);
    stn_tensor *hidden = stn_gelu(stn_linear(p->fixed[0], p->fixed[2], p->fixed[3]), STN_GELU_TANH);
    stn_tensor *y = stn_linear(hidden, p->fixed[4], p->fixed[5]);
    loss = stn_mse_loss(y, p->fixed[1], NULL, STN_REDUCE_MEAN);
    stn_backward(loss);
    stn_optimizer_step(p->optimizer);
    stn_optimizer_zero_grad(p->optimizer);
    CHECK_STATUS(stn_scope_end_keep(p->context, loss, &loss), STN_OK);
    return loss;
}

static void add_parameters(struct program *p)
{
    stn_named_tensor list[4];
    static const char *const names[] = {"w0", "b0", "w1", "b1"};
    for (int i = 0; i < 4; i++) {
        stn_set_requires_grad(p->fixed[2 + i], 1);
        list[i] = (stn_named_tensor){names[i], p->fixed[2 + i]};
    }
    const stn_parameter_group group = {.size = sizeof group, .n = 4, .parameters = list};
    CHECK_STATUS(stn_optimizer_add_group(p->optimizer, &group), STN_OK);
}

static struct program net(stn_context *context, const stn_mesh *mesh, int adamw)
{
    struct program p = {.context = context, .mesh = mesh, .n = 6, .step = train};
    const int64_t x[] = {BATCH, FEATURES}, y[] = {BATCH, 2}, w0[] = {HIDDEN, FEATURES}, w1[] = {2, HIDDEN};
    const stn_sgd_options sgd = {.size = sizeof sgd, .rate = 0.1, .momentum = 0.9};
    p.fixed[0] = made(&p, stn_shard(0), 2, x, test_value);
    p.fixed[1] = made(&p, stn_shard(0), 2, y, test_value);
    p.fixed[2] = made(&p, stn_replicate(), 2, w0, weight_at);
    p.fixed[3] = made(&p, stn_replicate(), 1, w0, test_value);
    p.fixed[4] = made(&p, stn_replicate(), 2, w1, weight_at);
    p.fixed[5] = made(&p, stn_shard(0), 1, w1, test_value);
    CHECK_STATUS(adamw ? stn_adamw_create(context, NULL, &p.optimizer) : stn_sgd_create(context, &sgd, &p.optimizer),
                 STN_OK);
    add_parameters(&p);
    return p;
}

static stn_status net_body(stn_context *context, void *arg)
{
    const int adamw = *(const int *)arg;
    const stn_mesh *mesh = mesh_of(context);
    struct program called = net(context, mesh, adamw), captured = net(context, mesh, adamw);
    compare(&called, &captured);
    release(&called);
    release(&captured);
    return stn_context_status(context);
}

static void a_net_is_trained(void)
{
    steps_on_worlds(net_body, &(int){0});
    steps_on_worlds(net_body, &(int){1});
}

/* A solver: halos, a sum over all ranks, and an update in place */

static stn_tensor *solve(struct program *p)
{
    stn_tensor *sum;
    const stn_conv_attrs attrs = {
        .size = sizeof attrs, .same = 1, .mode = {STN_PADDING_CIRCULAR, STN_PADDING_REPLICATE}};
    stn_scope_begin(p->context);
    stn_tensor *change = stn_conv2d(p->fixed[1], p->fixed[2], NULL, &attrs);
    stn_copy_(p->fixed[1],
              stn_add(p->fixed[1], stn_add(stn_mul_number(change, 0.1), stn_mul_number(p->fixed[0], 0.01))));
    sum = stn_sum(stn_mul(p->fixed[1], p->fixed[1]), 0, NULL, 0);
    stn_tensor *whole = stn_full_tensor(sum);
    CHECK_STATUS(stn_scope_end_keep(p->context, whole, &whole), STN_OK);
    return whole;
}

static struct program solver(stn_context *context, const stn_mesh *mesh)
{
    struct program p = {.context = context, .mesh = mesh, .n = 3, .step = solve};
    const int64_t field[] = {1, 1, 9, 6}, stencil[] = {1, 1, 5, 3};
    p.fixed[0] = made(&p, stn_shard(2), 4, field, test_value);
    p.fixed[1] = made(&p, stn_shard(2), 4, field, weight_at);
    p.fixed[2] = made(&p, stn_replicate(), 4, stencil, weight_at);
    return p;
}

static stn_status solver_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = mesh_of(context);
    struct program called = solver(context, mesh), captured = solver(context, mesh);
    compare(&called, &captured);
    release(&called);
    release(&captured);
    return stn_context_status(context);
}

static void a_stencil_is_solved(void)
{
    steps_on_worlds(solver_body, NULL);
}

/* Random numbers are drawn anew: the same ones as by calls from the same stream on */

static stn_tensor *draw(struct program *p)
{
    stn_scope_begin(p->context);
    stn_tensor *noise = stn_normal(p->context, stn_tensor_spec(p->fixed[0]), 0, 1);
    stn_tensor *kept = stn_dropout(stn_add(p->fixed[0], noise), 0.5, 1);
    CHECK_STATUS(stn_scope_end_keep(p->context, kept, &kept), STN_OK);
    return kept;
}

static stn_status draw_body(stn_context *context, void *arg)
{
    (void)arg;
    enum { DRAWS = 4 };
    struct program p = {.context = context, .mesh = mesh_of(context), .n = 1, .step = draw};
    const int64_t shape[] = {BATCH, FEATURES};
    stn_tensor *want[DRAWS], *got;
    stn_step *step = NULL;
    p.fixed[0] = made(&p, stn_shard(0), 2, shape, test_value);
    stn_context_set_random_state(context, 5, 100);
    for (int i = 0; i < DRAWS; i++)
        want[i] = draw(&p);
    stn_context_set_random_state(context, 5, 100);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    got = draw(&p);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    for (int i = 0; i < DRAWS; i++) {
        if (i > 0)
            CHECK_STATUS(stn_step_run(step), STN_OK);
        check_same(got, want[i]);
        stn_tensor_release(&want[i]);
    }
    stn_step_destroy(&step);
    stn_tensor_release(&got);
    release(&p);
    return stn_context_status(context);
}

static void random_numbers_are_drawn_anew(void)
{
    steps_on_worlds(draw_body, NULL);
}

/* Collectives of per-rank programs, on local tensors */

static stn_tensor *share(const struct program *p, stn_tensor *x)
{
    stn_tensor *y;
    stn_scope_begin(p->context);
    y = stn_mul_number(x, 0.75);
    CHECK_STATUS(stn_dist_all_reduce_in_place(y, p->mesh, STN_SUM, NULL), STN_OK);
    stn_copy_(x, stn_mul_number(y, 0.5));
    CHECK_STATUS(stn_scope_end_keep(p->context, y, &y), STN_OK);
    return y;
}

static stn_status share_body(stn_context *context, void *arg)
{
    (void)arg;
    const int64_t shape[] = {BATCH, FEATURES};
    const stn_spec *spec;
    const struct program p = {.context = context, .mesh = test_mesh(context, stn_context_size(context), 0)};
    stn_step *step = NULL;
    stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 2, shape, NULL, &spec);
    stn_tensor *x = stn_full(context, spec, 1.5 + stn_context_rank(context)),
               *z = stn_full(context, spec, 1.5 + stn_context_rank(context));
    stn_spec_release(&spec);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *got = share(&p, x);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    for (int i = 0; i < STEPS; i++) {
        if (i > 0)
            CHECK_STATUS(stn_step_run(step), STN_OK);
        stn_tensor *want = share(&p, z);
        check_same(got, want);
        check_same(x, z);
        stn_tensor_release(&want);
    }
    stn_step_destroy(&step);
    stn_tensor_release(&got);
    stn_tensor_release(&x);
    stn_tensor_release(&z);
    return stn_context_status(context);
}

static void per_rank_collectives_are_repeated(void)
{
    steps_on_worlds(share_body, NULL);
}

/* Plans of transforms that the step needs stay, however many others are made. */
static stn_tensor *transform(struct program *p)
{
    stn_tensor *y;
    stn_scope_begin(p->context);
    y = stn_rfft(p->fixed[0], FEATURES, 1, STN_FFT_BACKWARD);
    CHECK_STATUS(stn_scope_end_keep(p->context, y, &y), STN_OK);
    return y;
}

static stn_status plans_body(stn_context *context, void *arg)
{
    (void)arg;
    enum { OTHERS = 300 };
    const int64_t shape[] = {BATCH, FEATURES};
    struct program p = {.context = context, .mesh = mesh_of(context), .n = 1, .step = transform};
    stn_step *step = NULL;
    p.fixed[0] = made(&p, stn_shard(0), 2, shape, test_value);
    stn_tensor *before = transform(&p); /* a library may want to make a plan before it can be recorded */
    stn_tensor_release(&before);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *got = transform(&p);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    for (int n = 1; n <= OTHERS; n++) {
        stn_tensor *other = stn_rfft(p.fixed[0], n, 1, STN_FFT_BACKWARD);
        CHECK(!stn_tensor_is_error(other));
        stn_tensor_release(&other);
    }
    fill_input(&p, 3);
    CHECK_STATUS(stn_step_run(step), STN_OK);
    stn_tensor *want = transform(&p);
    check_same(got, want);
    stn_step_destroy(&step);
    stn_tensor_release(&got);
    stn_tensor_release(&want);
    release(&p);
    return stn_context_status(context);
}

static void plans_of_transforms_stay(void)
{
    steps_on_worlds(plans_body, NULL);
}

/* Memory */

/* What the step made and released is nobody else's: tensors made between repetitions do not meet it. */
static stn_status memory_body(stn_context *context, void *arg)
{
    (void)arg;
    struct program p = solver(context, mesh_of(context));
    struct program q = solver(context, p.mesh);
    stn_step *step = NULL;
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *got = solve(&p);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    stn_tensor *first = solve(&q);
    stn_tensor_release(&first);
    stn_tensor *others[16];
    for (int i = 0; i < 16; i++)
        others[i] = stn_full(context, stn_tensor_spec(p.fixed[0]), i);
    CHECK_STATUS(stn_step_run(step), STN_OK);
    stn_tensor *want = solve(&q);
    check_same(got, want);
    for (int i = 0; i < 16; i++) {
        stn_tensor *alike = stn_full(context, stn_tensor_spec(p.fixed[0]), i);
        check_same(others[i], alike);
        stn_tensor_release(&alike);
        stn_tensor_release(&others[i]);
    }
    stn_tensor_release(&p.fixed[2]); /* the step still has its memory */
    p.fixed[2] = stn_full(context, stn_tensor_spec(q.fixed[2]), 9);
    CHECK_STATUS(stn_step_run(step), STN_OK);
    stn_tensor_release(&want);
    want = solve(&q);
    check_same(got, want);
    stn_step_destroy(&step);
    stn_tensor_release(&got);
    stn_tensor_release(&want);
    release(&p);
    release(&q);
    return stn_context_status(context);
}

static void its_memory_is_its_own(void)
{
    steps_on_worlds(memory_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_net_is_trained", a_net_is_trained},
        {"a_stencil_is_solved", a_stencil_is_solved},
        {"random_numbers_are_drawn_anew", random_numbers_are_drawn_anew},
        {"per_rank_collectives_are_repeated", per_rank_collectives_are_repeated},
        {"plans_of_transforms_stay", plans_of_transforms_stay},
        {"its_memory_is_its_own", its_memory_is_its_own},
    };
    return TEST_MAIN(argc, argv, cases);
}
