/* Integers near the ends of 64 bits, in every integer attribute of every op: refused, or as good as any other. Under
 * the sanitizer of undefined behaviour this finds each sum that overflows. */
#include "ranks.h"

#include <string.h>

static const int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};
enum { N_EXTREMES = sizeof extremes / sizeof *extremes, MAX_CALLS = 200000, LENGTHS = 4, MAX_DIMS = 5 };
enum { LEFT_OUT = 255 }; /* on several ranks */

/* What each call returned on one rank, and on each of two. */
struct outcomes {
    int n;
    unsigned char one[MAX_CALLS], two[2][MAX_CALLS];
};

/* With one to five dims. */
static stn_tensor *make(stn_context *context, int ndim, int of_integers)
{
    const int64_t shape[] = {ndim < 3 ? 4 : 2, ndim < 3 ? 4 : 2, 4, 4, 4};
    const stn_placement shard = stn_shard(0);
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, test_mesh(context, stn_context_size(context), 0), &shard,
                                 of_integers ? STN_DTYPE_I64 : STN_DTYPE_F32, ndim, shape, NULL, &spec),
                 STN_OK);
    stn_tensor *out = stn_ones(context, spec);
    stn_spec_release(&spec);
    return out;
}

static stn_tensor *matrix(stn_context *context)
{
    return make(context, 2, 0);
}

static stn_status call_with(stn_context *context, const stn_op *op, int ndim, int of_integers, const stn_attr *attr)
{
    const stn_op_desc *desc = stn_op_descriptor(op);
    stn_tensor *in[STN_MAX_INPUTS] = {NULL}, *out[2] = {NULL};
    stn_scope_begin(context);
    for (int i = 0; i < desc->n_inputs; i++)
        in[i] = desc->inputs[i].optional ? NULL : make(context, ndim, of_integers && i > 0);
    stn_op_invoke(op, desc->n_inputs, in, 1, attr, 2, out);
    return stn_scope_end(context);
}

/* A call that ends for want of memory would end the family, and so would a collective over the number of no mesh: these
 * are left out on several ranks. */
static unsigned char on_one_rank(stn_context *context, const stn_op *op, int ndim, int of_integers,
                                 const stn_attr *attr)
{
    const stn_status status = call_with(context, op, ndim, of_integers, attr);
    return status == STN_ERR_MEMORY || strcmp(attr->name, "mesh") == 0 ? LEFT_OUT : (unsigned char)status;
}

static void try_call(stn_context *context, const stn_op *op, int ndim, int of_integers, const stn_attr *attr,
                     struct outcomes *outcomes, int n)
{
    if (stn_context_size(context) == 1)
        outcomes->one[n] = on_one_rank(context, op, ndim, of_integers, attr);
    else if (outcomes->one[n] != LEFT_OUT)
        outcomes->two[stn_context_rank(context)][n] = (unsigned char)call_with(context, op, ndim, of_integers, attr);
}

static void try_attr(stn_context *context, const stn_op *op, const stn_attr *attr, struct outcomes *outcomes, int *n)
{
    for (int ndim = 1; ndim <= MAX_DIMS; ndim++)
        for (int of_integers = 0; of_integers < 2 && *n < MAX_CALLS; of_integers++)
            try_call(context, op, ndim, of_integers, attr, outcomes, (*n)++);
}

static void try_ints(stn_context *context, const stn_op *op, const char *name, struct outcomes *outcomes, int *n)
{
    for (int length = 1; length <= LENGTHS; length++)
        for (int a = 0; a < N_EXTREMES; a++)
            for (int b = 0; b <= N_EXTREMES && (length > 1 || b == 0); b++) {
                stn_attr attr = {name, STN_ATTR_INTS, {.ints = {.n = length}}};
                for (int i = 0; i < length; i++)
                    attr.value.ints.v[i] = i % 2 == 0 ? extremes[a] : b < N_EXTREMES ? extremes[b] : 1;
                try_attr(context, op, &attr, outcomes, n);
            }
}

static void try_row(stn_context *context, const stn_op *op, const stn_attr_schema *row, struct outcomes *outcomes,
                    int *n)
{
    if (row->type == STN_ATTR_INTS)
        try_ints(context, op, row->name, outcomes, n);
    if (row->type != STN_ATTR_INT && row->type != STN_ATTR_NUMBER)
        return;
    for (int a = 0; a < N_EXTREMES; a++) {
        const stn_attr attr = {row->name, STN_ATTR_INT, {.i = extremes[a]}};
        try_attr(context, op, &attr, outcomes, n);
    }
}

static stn_status every_body(stn_context *context, void *arg)
{
    struct outcomes *outcomes = arg;
    const stn_op *op;
    int n = 0;
    for (int i = 0; (op = stn_op_at(context, i)); i += test_thread_step(3)) {
        const stn_op_desc *desc = stn_op_descriptor(op);
        for (int k = 0; k < desc->n_attrs; k++)
            try_row(context, op, &desc->attrs[k], outcomes, &n);
    }
    if (stn_context_rank(context) == 0)
        outcomes->n = n; /* the other ranks' too */
    return STN_OK;
}

static void every_integer_attribute_takes_or_refuses_them_alike_on_all_ranks(void)
{
    static struct outcomes outcomes;
    test_ranks(1, every_body, &outcomes);
    test_ranks(2, every_body, &outcomes);
    CHECK(outcomes.n > 1000 && outcomes.n < MAX_CALLS);
    for (int i = 0; i < outcomes.n; i++)
        if (outcomes.one[i] != LEFT_OUT) {
            CHECK_I64(outcomes.two[0][i], outcomes.two[1][i]);
            CHECK_I64(outcomes.two[0][i], outcomes.one[i]);
        }
}

static stn_status pad_body(stn_context *context, void *arg)
{
    const int64_t pads[][2] = {{INT64_MIN, 0},
                               {INT64_MIN, INT64_MAX},
                               {INT64_MAX, INT64_MIN},
                               {INT64_MIN + 1, INT64_MAX},
                               {INT64_MAX, INT64_MIN + 1},
                               {INT64_MIN, INT64_MIN},
                               {INT64_MAX, INT64_MAX}};
    (void)arg;
    for (int mode = STN_PAD_CONSTANT; mode <= STN_PAD_CIRCULAR; mode++)
        for (size_t k = 0; k < sizeof pads / sizeof *pads; k++) {
            CHECK(stn_tensor_is_error(stn_pad(matrix(context), 2, pads[k], (stn_pad_mode)mode, 0)));
            CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_SHAPE);
        }
    return STN_OK;
}

static stn_status in_scope(stn_context *context, stn_status (*body)(stn_context *, void *))
{
    stn_scope_begin(context);
    body(context, NULL);
    return stn_scope_end(context);
}

static stn_status scoped_pad_body(stn_context *context, void *arg)
{
    (void)arg;
    return in_scope(context, pad_body);
}

static void margins_of_them_are_refused(void)
{
    test_ranks(1, scoped_pad_body, NULL);
    test_ranks(3, scoped_pad_body, NULL);
}

static stn_status triangle_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int k = 0; k < N_EXTREMES; k++) {
        double lower[16], upper[16];
        test_read(stn_tril(matrix(context), extremes[k]), lower, 16);
        test_read(stn_triu(matrix(context), extremes[k]), upper, 16);
        for (int i = 0; i < 16; i++) {
            CHECK_NEAR(lower[i], extremes[k] > 0, 0);
            CHECK_NEAR(upper[i], extremes[k] < 0, 0);
        }
    }
    return STN_OK;
}

static stn_status scoped_triangle_body(stn_context *context, void *arg)
{
    (void)arg;
    return in_scope(context, triangle_body);
}

static void triangles_beyond_the_corners_are_all_or_nothing(void)
{
    test_ranks(1, scoped_triangle_body, NULL);
    test_ranks(3, scoped_triangle_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_integer_attribute_takes_or_refuses_them_alike_on_all_ranks",
         every_integer_attribute_takes_or_refuses_them_alike_on_all_ranks},
        {"margins_of_them_are_refused", margins_of_them_are_refused},
        {"triangles_beyond_the_corners_are_all_or_nothing", triangles_beyond_the_corners_are_all_or_nothing},
    };
    return TEST_MAIN(argc, argv, cases);
}
