/* Accumulated batches: one batch of 2 and two batches of 1, synchronised each, at the last, or behind them. */
#include "ranks.h"

enum { N = 7 };

static double whole_number(int64_t i)
{
    return (double)((i * 5) % 11 - 4);
}

enum mode { ONE_BATCH, SYNC_EACH, SYNC_LAST, SYNC_NONE, MODES };

static stn_tensor *batch(stn_context *context, const stn_mesh *mesh)
{
    const stn_placement rows[] = {stn_replicate(), stn_shard(1)};
    return test_tensor(context, mesh, rows, STN_DTYPE_F64, 2, (int64_t[]){2, N}, NULL, whole_number);
}

static void accumulate(stn_context *context, enum mode mode, stn_tensor *x, stn_tensor *p)
{
    const int batches = mode == ONE_BATCH ? 1 : 2;
    for (int b = 0; b < batches; b++) {
        const int defer = mode == SYNC_NONE || (mode == SYNC_LAST && b == 0);
        stn_tensor *part = mode == ONE_BATCH ? x : stn_narrow(x, 0, b, 1);
        if (defer)
            stn_no_sync_begin(context);
        CHECK_STATUS(stn_backward(stn_sum(stn_mul(stn_mul(part, part), stn_mul(p, p)), 0, NULL, 0)), STN_OK);
        if (defer)
            stn_no_sync_end(context);
    }
    if (mode == SYNC_NONE)
        CHECK_STATUS(stn_grad_sync(context, 1, &p), STN_OK);
}

static stn_status accumulate_body(stn_context *context, void *arg)
{
    const int *grid = arg;
    const stn_mesh *mesh = test_mesh(context, grid[0], grid[1]);
    const stn_placement layouts[][2] = {{stn_replicate(), stn_replicate()},
                                        {stn_replicate(), stn_shard(0)},
                                        {stn_shard(0), stn_shard(0)},
                                        {stn_partial(STN_SUM), stn_replicate()}};
    for (int l = 0; l < 4; l++) {
        double first[N], got[N];
        for (int m = 0; m < MODES; m++) {
            stn_tensor *grad = NULL;
            stn_scope_begin(context);
            stn_tensor *p =
                test_tensor(context, mesh, layouts[l], STN_DTYPE_F64, 1, (int64_t[]){N}, NULL, whole_number);
            stn_set_requires_grad(p, 1);
            accumulate(context, (enum mode)m, batch(context, mesh), p);
            CHECK_STATUS(stn_grad_of(p, &grad), STN_OK);
            if (CHECK_PTR(grad))
                test_read(grad, m == ONE_BATCH ? first : got, N);
            if (m == ONE_BATCH)
                for (int i = 0; i < N; i++)
                    CHECK_NEAR(first[i],
                               2 * whole_number(i) *
                                   (whole_number(i) * whole_number(i) + whole_number(N + i) * whole_number(N + i)),
                               0);
            else
                CHECK_BYTES(got, first, sizeof got);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    }
    return STN_OK;
}

static void one_batch_of_two_is_two_batches_of_one_whenever_they_are_synchronised(void)
{
    static const int grids[][2] = {{1, 1}, {1, 3}, {2, 1}, {2, 2}, {2, 3}};
    for (int g = 0; g < 5; g++)
        test_ranks(grids[g][0] * grids[g][1], accumulate_body, (void *)grids[g]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"one_batch_of_two_is_two_batches_of_one_whenever_they_are_synchronised",
         one_batch_of_two_is_two_batches_of_one_whenever_they_are_synchronised},
    };
    return TEST_MAIN(argc, argv, cases);
}
