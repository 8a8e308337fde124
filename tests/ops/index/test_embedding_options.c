/* embedding's options: gradients over frequencies, and rows brought to a largest norm in the table. */
#include "harness.h"
#include "ops/layouts.h"
#include "ranks.h"

#include <math.h>
#include <string.h>

enum { ROWS = 5, WIDTH = 2, READ = 7, ROUNDS = 20 };

static const int64_t read[READ] = {1, 4, 1, 1, 0, 4, 1}; /* row 1 four times, 4 twice, 0 once; 2 and 3 never */

static struct elements indices(void)
{
    struct elements e = {.dtype = STN_DTYPE_I64, .ndim = 1, .shape = {READ}, .n = READ};
    for (int i = 0; i < READ; i++)
        e.v[i] = (double)read[i];
    return e;
}

/* Row r is (3 (r + 1), 4 (r + 1)): its norm is 5 (r + 1). */
static struct elements table(void)
{
    struct elements e = {.dtype = STN_DTYPE_F64, .ndim = 2, .shape = {ROWS, WIDTH}, .n = ROWS * WIDTH};
    for (int i = 0; i < ROWS * WIDTH; i++)
        e.v[i] = (3 + i % WIDTH) * (i / WIDTH + 1);
    return e;
}

static void close_to(stn_context *context, stn_tensor *got, const struct elements *want, const char *what)
{
    double difference = HUGE_VAL;
    stn_tensor *whole = stn_full_tensor(got), *wanted = layout_tensor_placed(context, NULL, want, NULL);
    stn_tensor *local = stn_to_local(whole, STN_GRAD_REPLICATED);
    CHECK_STATUS(stn_item(stn_sum(stn_abs(stn_sub(local, wanted)), 0, NULL, 0), &difference), STN_OK);
    test_check(difference < 1e-6, __FILE__, __LINE__, what);
}

static stn_tensor *call(stn_context *context, stn_tensor *index, stn_tensor *weight, const stn_attr *attr)
{
    stn_tensor *out, *in[] = {index, weight};
    CHECK_STATUS(stn_call(context, "embedding", 2, in, 1, attr, 1, &out), STN_OK);
    return out;
}

/* The cotangent of output row i is i + 1: row 1 of the gradient is the mean of those that read it. */
static stn_status frequencies(stn_context *context, void *arg)
{
    const stn_attr by_frequency = {.name = "scale_grad_by_freq", .type = STN_ATTR_BOOL, .value.i = 1};
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    struct elements index = indices(), rows = table(), want = rows,
                    cotangent = {.dtype = STN_DTYPE_F64, .ndim = 2, .shape = {READ, 1}, .n = READ};
    static const double means[ROWS] = {5, (1 + 3 + 4 + 7) / 4.0, 0, 0, (2 + 6) / 2.0};
    uint64_t seed = 3;
    (void)arg;
    for (int i = 0; i < READ; i++)
        cotangent.v[i] = i + 1;
    for (int i = 0; i < want.n; i++)
        want.v[i] = means[i / WIDTH];
    for (int round = 0; round < ROUNDS; round++) {
        stn_tensor *grad;
        stn_scope_begin(context);
        stn_tensor *x = layout_tensor_drawn(context, mesh, &index, &seed),
                   *w = layout_tensor_drawn(context, mesh, &rows, &seed);
        stn_set_requires_grad(w, 1);
        stn_tensor *y = call(context, x, w, &by_frequency);
        stn_tensor *loss = stn_sum(stn_mul(y, layout_tensor_drawn(context, mesh, &cotangent, &seed)), 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &w, 0, 0, &grad), STN_OK);
        close_to(context, grad, &want, "gradient over frequencies");
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void gradients_over_frequencies(void)
{
    test_ranks(3, frequencies, NULL);
}

/* Rows 1 and 4 are too long and are read, 2 and 3 are too long and are not. */
static stn_status norms(stn_context *context, void *arg)
{
    const stn_attr most = {.name = "max_norm", .type = STN_ATTR_FLOAT, .value.f = 7};
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    struct elements index = indices(), rows = table(), changed = rows,
                    want = {.dtype = STN_DTYPE_F64, .ndim = 2, .shape = {READ, WIDTH}, .n = READ * WIDTH};
    uint64_t seed = 5;
    (void)arg;
    for (int i = 0; i < changed.n; i++)
        if (i / WIDTH == 1 || i / WIDTH == 4)
            changed.v[i] = creal(rows.v[i]) * 7 / (5 * (i / WIDTH + 1));
    for (int i = 0; i < want.n; i++)
        want.v[i] = changed.v[read[i / WIDTH] * WIDTH + i % WIDTH];
    for (int round = 0; round < ROUNDS; round++) {
        stn_scope_begin(context);
        stn_tensor *x = layout_tensor_drawn(context, mesh, &index, &seed),
                   *w = layout_tensor_drawn(context, mesh, &rows, &seed);
        const stn_spec *spec = stn_tensor_spec(w);
        stn_set_requires_grad(w, 1);
        close_to(context, call(context, x, w, &most), &want, "rows read");
        close_to(context, w, &changed, "the table");
        CHECK(stn_tensor_spec(w) == spec && stn_is_leaf(w));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void rows_that_are_read_are_brought_to_a_largest_norm(void)
{
    test_ranks(3, norms, NULL);
}

static void expect_refused(stn_context *context, stn_tensor *weight, stn_status status, const char *wanted)
{
    const stn_attr most = {.name = "max_norm", .type = STN_ATTR_FLOAT, .value.f = 7};
    struct elements index = indices();
    const stn_placement replica = stn_replicate();
    char text[300] = "";
    stn_tensor *in[] = {layout_tensor_placed(context, stn_spec_mesh(stn_tensor_spec(weight)), &index, &replica),
                        weight},
               *out;
    CHECK_STATUS(stn_call(context, "embedding", 2, in, 1, &most, 1, &out), status);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), status);
    CHECK_STR(text, wanted);
}

static stn_status refusals(stn_context *context, void *arg)
{
    const stn_placement pending = stn_partial(STN_MAX), replica = stn_replicate();
    const struct elements rows = table();
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *w = layout_tensor_placed(context, test_mesh(context, 2, 0), &rows, &pending);
    expect_refused(context, w, STN_ERR_PARTIAL,
                   "embedding: 'weight' is a pending reduction other than a sum, wanted a sum or a complete tensor: "
                   "'max_norm' scales its rows in place");
    stn_tensor *whole = layout_tensor_placed(context, test_mesh(context, 2, 0), &rows, &replica),
               *part = stn_slice(whole, 0, 0, ROWS, 1);
    expect_refused(context, part, STN_ERR_STATE,
                   "embedding: 'weight' is a view, wanted neither a view nor one that has views: 'max_norm' scales its "
                   "rows in place");
    expect_refused(context, whole, STN_ERR_STATE,
                   "embedding: 'weight' has views, wanted neither a view nor one that has views: 'max_norm' scales its "
                   "rows in place");
    return stn_scope_end(context);
}

static void a_table_that_cannot_be_changed_in_place_is_refused_by_its_name(void)
{
    test_ranks(2, refusals, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_over_frequencies", gradients_over_frequencies},
        {"rows_that_are_read_are_brought_to_a_largest_norm", rows_that_are_read_are_brought_to_a_largest_norm},
        {"a_table_that_cannot_be_changed_in_place_is_refused_by_its_name",
         a_table_that_cannot_be_changed_in_place_is_refused_by_its_name},
    };
    return TEST_MAIN(argc, argv, cases);
}
