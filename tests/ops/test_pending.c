/* Ops that are made of others reduce a pending input once: no layout of their inputs sends more than reducing what is
 * pending before the call does, and the values are the same. */
#include "ranks.h"
#include "stats.h"

#include <stdio.h>

enum { MOST_INPUTS = 3, MEMBERS = 5, ROWS = 4, COLUMNS = 3 /* coordinates of a cross product */ };

static stn_tensor *call_triplet(stn_tensor **x)
{
    return stn_triplet_margin_loss(x[0], x[1], x[2], 1, 2, 1e-6, 0, STN_REDUCE_MEAN);
}

static stn_tensor *call_triplet_swap(stn_tensor **x)
{
    return stn_triplet_margin_loss(x[0], x[1], x[2], 1, 2, 1e-6, 1, STN_REDUCE_MEAN);
}

static stn_tensor *call_cross(stn_tensor **x)
{
    return stn_cross(x[0], x[1], NULL);
}
static stn_tensor *call_cosine(stn_tensor **x)
{
    return stn_cosine_similarity(x[0], x[1], 1, 1e-8);
}
static stn_tensor *call_normalize(stn_tensor **x)
{
    return stn_normalize(x[0], 2, 0, NULL, 1e-12);
}
static stn_tensor *call_crps(stn_tensor **x)
{
    return stn_crps_ensemble(x[0], x[1], 0, 0);
}

static stn_tensor *call_energy(stn_tensor **x)
{
    return stn_energy_score(x[0], x[1], x[2], 0, 0, NULL, 0);
}

static stn_tensor *call_prelu(stn_tensor **x)
{
    return stn_prelu(x[0], x[1]);
}

static stn_tensor *call_gaussian(stn_tensor **x)
{
    return stn_gaussian_nll_loss(x[0], x[1], x[2], 0, 1e-6, STN_REDUCE_MEAN);
}

struct shape {
    int ndim;
    int64_t sizes[3];
};

static const struct shape matrix = {2, {ROWS, COLUMNS}}, ensemble = {3, {MEMBERS, ROWS, COLUMNS}}, row = {1, {COLUMNS}};

static const struct made {
    const char *op;
    stn_tensor *(*call)(stn_tensor **x);
    int n;
    const struct shape *shapes[MOST_INPUTS];
} made[] = {
    {"triplet_margin_loss", call_triplet, 3, {&matrix, &matrix, &matrix}},
    {"triplet_margin_loss, swapped", call_triplet_swap, 3, {&matrix, &matrix, &matrix}},
    {"cross", call_cross, 2, {&matrix, &matrix}},
    {"cosine_similarity", call_cosine, 2, {&matrix, &matrix}},
    {"normalize", call_normalize, 1, {&matrix}},
    {"crps_ensemble", call_crps, 2, {&ensemble, &matrix}},
    {"energy_score", call_energy, 3, {&ensemble, &matrix, &row}},
    {"prelu", call_prelu, 2, {&matrix, &row}},
    {"gaussian_nll_loss", call_gaussian, 3, {&matrix, &matrix, &matrix}},
};

/* The inputs of one call, those whose bit is set pending. */
static void make_inputs(stn_context *context, const struct made *op, int pending, stn_tensor **x)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    for (int i = 0; i < op->n; i++) {
        const stn_placement placement = pending >> i & 1 ? stn_partial(STN_SUM) : stn_replicate();
        x[i] = test_tensor(context, mesh, &placement, STN_DTYPE_F64, op->shapes[i]->ndim, op->shapes[i]->sizes, NULL,
                           test_value);
    }
}

static stn_tensor *complete(stn_tensor *x)
{
    const stn_placement replicate = stn_replicate();
    const stn_spec *whole;
    CHECK_STATUS(stn_spec_create(stn_tensor_context(x), stn_spec_mesh(stn_tensor_spec(x)), &replicate, STN_DTYPE_F64,
                                 stn_tensor_ndim(x), stn_tensor_shape(x), NULL, &whole),
                 STN_OK);
    x = stn_redistribute(x, whole);
    stn_spec_release(&whole);
    return x;
}

/* @return the bytes that the call sends. */
static int64_t run(stn_context *context, const struct made *op, int pending, int complete_first, double *out,
                   int64_t *numel)
{
    stn_tensor *x[MOST_INPUTS] = {NULL};
    stn_scope_begin(context);
    make_inputs(context, op, pending, x);
    test_stats_reset(context);
    for (int i = 0; complete_first && i < op->n; i++)
        x[i] = complete(x[i]);
    stn_tensor *y = op->call(x);
    const int64_t bytes = test_stats_reset(context).bytes_sent;
    *numel = 1;
    for (int d = 0; d < stn_tensor_ndim(y); d++)
        *numel *= stn_tensor_shape(y)[d];
    test_read(y, out, *numel);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return bytes;
}

static stn_status once_body(stn_context *context, void *arg)
{
    double got[ROWS * COLUMNS], wanted[ROWS * COLUMNS];
    (void)arg;
    for (size_t k = 0; k < sizeof made / sizeof *made; k++)
        for (int pending = 0; pending < 1 << made[k].n; pending++) {
            int64_t n;
            const int64_t before = run(context, &made[k], pending, 1, wanted, &n);
            const int64_t bytes = run(context, &made[k], pending, 0, got, &n);
            if (!CHECK(bytes <= before))
                printf("  %s with inputs pending by mask %d: %lld bytes, %lld where they are reduced before\n",
                       made[k].op, pending, (long long)bytes, (long long)before);
            for (int64_t i = 0; i < n; i++)
                CHECK_NEAR(got[i], wanted[i], 1e-12);
        }
    return STN_OK;
}

static void a_pending_input_is_reduced_once(void)
{
    test_ranks(2, once_body, NULL);
    test_ranks(3, once_body, NULL);
}

/* An input that one difference reads goes straight to where the other operand lies. */
static stn_status direct_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement cut = stn_shard(0), partial = stn_partial(STN_SUM);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *rows = test_tensor(context, mesh, &cut, STN_DTYPE_F64, 2, matrix.sizes, NULL, test_value),
               *pending = test_tensor(context, mesh, &partial, STN_DTYPE_F64, 2, matrix.sizes, NULL, test_value);
    test_stats_reset(context);
    stn_redistribute(pending, stn_tensor_spec(rows));
    const int64_t once = test_stats_reset(context).bytes_sent;
    stn_triplet_margin_loss(rows, pending, rows, 1, 2, 1e-6, 0, STN_REDUCE_MEAN);
    CHECK_I64(test_stats_reset(context).bytes_sent, once);
    return stn_scope_end(context);
}

static void what_is_read_once_is_reduced_to_where_it_is_read(void)
{
    test_ranks(2, direct_body, NULL);
    test_ranks(3, direct_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_pending_input_is_reduced_once", a_pending_input_is_reduced_once},
        {"what_is_read_once_is_reduced_to_where_it_is_read", what_is_read_once_is_reduced_to_where_it_is_read},
    };
    return TEST_MAIN(argc, argv, cases);
}
