/* An op that is made of others refuses in its own name, and names its own arguments: what it calls is its affair. */
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_OF_MESHES = 2 /* inputs that an op needs to have them on different meshes */ };

static stn_tensor *make(stn_context *context, const stn_mesh *mesh, stn_dtype dtype, int ndim, const int64_t *shape)
{
    const stn_placement replicate = stn_replicate();
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, mesh, mesh ? &replicate : NULL, dtype, ndim, shape, NULL, &spec), STN_OK);
    stn_tensor *out = stn_ones(context, spec);
    stn_spec_release(&spec);
    return out;
}

static stn_tensor *square(stn_context *context, const stn_mesh *mesh)
{
    return make(context, mesh, STN_DTYPE_F32, 2, (const int64_t[]){4, 4});
}

/* Every op with an input that is local where the first is on a mesh. @return whether the op has such a call. */
static int try_mixed(stn_context *context, const stn_mesh *mesh, const stn_op *op)
{
    const stn_op_desc *desc = stn_op_descriptor(op);
    stn_tensor *in[STN_MAX_INPUTS] = {NULL}, *out;
    char wanted[200], name[64];
    if (desc->n_inputs < FIRST_OF_MESHES || desc->flags & STN_OP_PER_RANK)
        return 0;
    for (int i = 0; i < desc->n_inputs; i++)
        in[i] = square(context, i == 1 ? NULL : mesh);
    snprintf(name, sizeof name, desc->inputs[1].variadic ? "%s0" : "%s", desc->inputs[1].name);
    snprintf(wanted, sizeof wanted, "%s: input '%s' is local, wanted on a mesh as the others", desc->name, name);
    CHECK_STATUS(stn_op_apply(op, desc->n_inputs, in, NULL, 1, &out), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, wanted);
    return 1;
}

static stn_status mixed_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_op *op;
    int n = 0;
    (void)arg;
    for (int i = 0; (op = stn_op_at(context, i)); i++) {
        stn_scope_begin(context);
        n += try_mixed(context, mesh, op);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK(n > 100);
    return STN_OK;
}

static void an_input_on_another_mesh_is_named_as_the_caller_named_it(void)
{
    test_ranks(2, mixed_body, NULL);
}

/* Tensors that fit nowhere. */
struct misfits {
    stn_tensor *square, *other /* (3, 5) */, *empty /* (2, 0) */, *whole /* integers, none of them */, *complex, *most;
};

static stn_tensor *diff_prepend(const struct misfits *x)
{
    return stn_diff(x->square, 1, 1, x->other, NULL);
}
static stn_tensor *diff_append(const struct misfits *x)
{
    return stn_diff(x->square, 1, 1, NULL, x->other);
}

static stn_tensor *gaussian(const struct misfits *x, stn_tensor *target, stn_tensor *var)
{
    return stn_gaussian_nll_loss(x->square, target, var, 0, 1e-6, STN_REDUCE_MEAN);
}

static stn_tensor *gaussian_target(const struct misfits *x)
{
    return gaussian(x, x->other, x->square);
}
static stn_tensor *gaussian_var(const struct misfits *x)
{
    return gaussian(x, x->square, x->other);
}
static stn_tensor *gaussian_complex(const struct misfits *x)
{
    return gaussian(x, x->square, x->complex);
}

static stn_tensor *triplet(const struct misfits *x, stn_tensor *positive, stn_tensor *negative)
{
    return stn_triplet_margin_loss(x->square, positive, negative, 1, 2, 1e-6, 0, STN_REDUCE_MEAN);
}

static stn_tensor *triplet_positive(const struct misfits *x)
{
    return triplet(x, x->other, x->square);
}
static stn_tensor *triplet_negative(const struct misfits *x)
{
    return triplet(x, x->square, x->other);
}
static stn_tensor *norm_of_none(const struct misfits *x)
{
    return stn_vector_norm(x->empty, INFINITY, 0, NULL, 0);
}
static stn_tensor *normalize_none(const struct misfits *x)
{
    return stn_normalize(x->empty, -INFINITY, 1, (const int[]){1}, 1e-12);
}
static stn_tensor *normalize_eps(const struct misfits *x)
{
    return stn_normalize(x->square, 2, 0, NULL, INFINITY);
}
static stn_tensor *cosine_eps(const struct misfits *x)
{
    return stn_cosine_similarity(x->square, x->square, 1, -INFINITY);
}
static stn_tensor *median_of_none(const struct misfits *x)
{
    return stn_median(x->whole);
}
static stn_tensor *spectrum_of_none(const struct misfits *x)
{
    return stn_power_spectrum(x->empty, 1);
}
static stn_tensor *reshape(const struct misfits *x)
{
    return stn_reshape(x->square, 1, (const int64_t[]){5});
}
static stn_tensor *reshape_list(const struct misfits *x)
{
    return stn_reshape(x->square, 9, NULL);
}
static stn_tensor *unflatten_rest(const struct misfits *x)
{
    return stn_unflatten(x->square, 0, 2, (const int64_t[]){-1, 3});
}
static stn_tensor *unflatten_two(const struct misfits *x)
{
    return stn_unflatten(x->square, 0, 3, (const int64_t[]){-1, 2, -1});
}
static stn_tensor *unsqueeze(const struct misfits *x)
{
    return stn_unsqueeze(x->most, 0);
}
static stn_tensor *stack(const struct misfits *x)
{
    return stn_stack(1, (stn_tensor *[]){x->most}, 0);
}

static stn_tensor *index_too_far(const struct misfits *x)
{
    return stn_index(x->square, 1, (stn_tensor *[]){stn_cast(x->most, STN_DTYPE_I64)});
}

static stn_tensor *put_misfit(const struct misfits *x)
{
    return stn_index_put(x->square, 1, (stn_tensor *[]){stn_cast(stn_select(x->square, 0, 0), STN_DTYPE_BOOL)},
                         stn_select(x->other, 0, 0), 0);
}

static stn_tensor *unique(const struct misfits *x)
{
    stn_tensor *out;
    stn_call(stn_tensor_context(x->complex), "unique", 1, (stn_tensor *[]){x->complex}, 0, NULL, 1, &out);
    return out;
}

static const struct {
    stn_tensor *(*call)(const struct misfits *x);
    stn_status status;
    const char *text;
} refused[] = {
    {diff_prepend, STN_ERR_SHAPE, "diff: 'prepend' got shape (3, 5), wanted that of 'input', (4, 4), but for dim 1"},
    {diff_append, STN_ERR_SHAPE, "diff: 'append' got shape (3, 5), wanted that of 'input', (4, 4), but for dim 1"},
    {gaussian_target, STN_ERR_SHAPE,
     "gaussian_nll_loss: 'target' got shape (3, 5), wanted one that broadcasts with (4, 4)"},
    {gaussian_var, STN_ERR_SHAPE, "gaussian_nll_loss: 'var' got shape (3, 5), wanted one that broadcasts with (4, 4)"},
    {gaussian_complex, STN_ERR_DTYPE, "gaussian_nll_loss: 'var' got c64, wanted a floating dtype"},
    {triplet_positive, STN_ERR_SHAPE,
     "triplet_margin_loss: 'positive' got shape (3, 5), wanted one that broadcasts with that of 'anchor', (4, 4)"},
    {triplet_negative, STN_ERR_SHAPE,
     "triplet_margin_loss: 'negative' got shape (3, 5), wanted one that broadcasts with that of 'anchor', (4, 4)"},
    {norm_of_none, STN_ERR_SHAPE, "vector_norm: 'input' got shape (2, 0), wanted at least one element to reduce"},
    {normalize_none, STN_ERR_SHAPE, "normalize: 'input' got shape (2, 0), wanted at least one element to reduce"},
    {normalize_eps, STN_ERR_ARGUMENT, "normalize: 'eps' got inf, wanted a finite number"},
    {cosine_eps, STN_ERR_ARGUMENT, "cosine_similarity: 'eps' got -inf, wanted a finite number"},
    {median_of_none, STN_ERR_SHAPE,
     "median: 'input' got i64 without elements, wanted a floating dtype or at least one"},
    {spectrum_of_none, STN_ERR_SHAPE, "power_spectrum: 'input' got no elements along dim 1, wanted at least 1"},
    {reshape, STN_ERR_SHAPE, "reshape: 'shape' got (5), wanted as many elements as input (4, 4) has: 16"},
    {reshape_list, STN_ERR_ARGUMENT, "reshape: 'ndim' got 9, wanted 0 to 8"},
    {unflatten_rest, STN_ERR_SHAPE, "unflatten: 'sizes' got (-1, 3), wanted sizes whose product is that of dim 0, 4"},
    {unflatten_two, STN_ERR_ARGUMENT, "unflatten: 'sizes' got -1 at 2, wanted sizes and at most one -1"},
    {unsqueeze, STN_ERR_SHAPE, "unsqueeze: 'input' got 8 dims, wanted fewer than 8"},
    {stack, STN_ERR_SHAPE, "stack: 'tensor0' got 8 dims, wanted fewer than 8"},
    {index_too_far, STN_ERR_SHAPE,
     "index: 'indices' got 8 dims in place of 1 of the 2 of 'input', wanted at most 8 in all"},
    {put_misfit, STN_ERR_SHAPE, "index_put: 'values' got shape (5), wanted one that broadcasts to (1, 4)"},
    {unique, STN_ERR_DTYPE, "unique: 'input' got c64, wanted a dtype with an order"},
};

static stn_status refused_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
        stn_scope_begin(context);
        const struct misfits x = {
            .square = square(context, mesh),
            .other = make(context, mesh, STN_DTYPE_F32, 2, (const int64_t[]){3, 5}),
            .empty = make(context, mesh, STN_DTYPE_F32, 2, (const int64_t[]){2, 0}),
            .whole = make(context, mesh, STN_DTYPE_I64, 1, (const int64_t[]){0}),
            .complex = make(context, mesh, STN_DTYPE_C64, 1, (const int64_t[]){4}),
            .most = make(context, mesh, STN_DTYPE_F32, 8, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1}),
        };
        CHECK_REFUSED(context, refused[k].call(&x), refused[k].status, refused[k].text);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void what_does_not_fit_is_named_as_the_caller_named_it(void)
{
    test_ranks(1, refused_body, NULL);
    test_ranks(2, refused_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"an_input_on_another_mesh_is_named_as_the_caller_named_it",
         an_input_on_another_mesh_is_named_as_the_caller_named_it},
        {"what_does_not_fit_is_named_as_the_caller_named_it", what_does_not_fit_is_named_as_the_caller_named_it},
    };
    return TEST_MAIN(argc, argv, cases);
}
