/* Indices that keep their routes, on ranks of a device: the values of one process on the CPU, and to the bit what the
 * device gives without; what a call still waits for; bad indices; captured steps. */
#include "harness.h"
#include "on_ranks.h"

#include <shardtensor/capture.h>

#include <string.h>

enum { RANKS = 3, ROWS = 11, COLUMNS = 3, MANY = 40, CALLS = 3 };

struct accessed {
    double read[MANY * COLUMNS], written[ROWS * COLUMNS], grad[ROWS * COLUMNS];
};

struct tensors {
    stn_tensor *table, *values, *index;
};

static uint64_t drawn(uint64_t i)
{
    return (i + 1) * 6364136223846793005u >> 33;
}

/* Sharded along the first dim, the chunks' sizes differ. */
static stn_tensor *made(stn_context *context, stn_dtype dtype, int ndim, int64_t rows, const void *whole)
{
    const int64_t shape[] = {rows, COLUMNS};
    const stn_placement cut = stn_shard(0);
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, on_ranks_line(context), &cut, dtype, ndim, shape, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host_global(context, spec, whole);
    stn_spec_release(&spec);
    return tensor;
}

/* `bad`: an index that is out of range. */
static struct tensors make(stn_context *context, int keep, int bad)
{
    double table[ROWS * COLUMNS], values[MANY * COLUMNS];
    int64_t index[MANY];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        table[i] = 0.37 * (double)(drawn((uint64_t)i) % 100);
    for (int i = 0; i < MANY * COLUMNS; i++)
        values[i] = 0.11 * (double)(drawn((uint64_t)i + 500) % 100);
    for (int i = 0; i < MANY; i++)
        index[i] = i == bad ? ROWS : (int64_t)(drawn((uint64_t)i + 900) % ROWS);
    const struct tensors t = {made(context, STN_DTYPE_F64, 2, ROWS, table),
                              made(context, STN_DTYPE_F64, 2, MANY, values),
                              made(context, STN_DTYPE_I64, 1, MANY, index)};
    CHECK_STATUS(stn_tensor_keep_routes(t.index, keep), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(t.table, 1), STN_OK);
    return t;
}

static int64_t collectives(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    stn_context_stats_reset(context);
    return stats.collectives;
}

static void access(stn_context *context, const struct tensors *t, struct accessed *out)
{
    stn_tensor *grad, *y = stn_index_select(t->table, 0, t->index);
    CHECK_STATUS(stn_grad(context, 1, &y, &t->values, 1, &t->table, 0, 0, &grad), STN_OK);
    on_ranks_keep(context, y, out->read);
    on_ranks_keep(context, stn_index_add(stn_detach(t->table), 0, t->index, t->values, -1.5), out->written);
    on_ranks_keep(context, grad, out->grad);
}

static stn_status accesses(stn_context *context, void *arg)
{
    struct accessed plain, *const kept = arg;
    static struct accessed others[RANKS]; /* what ranks but the first keep of nothing */
    struct accessed *const to = stn_context_rank(context) == 0 ? kept : &others[stn_context_rank(context)];
    memset(&plain, 0, sizeof plain);
    stn_scope_begin(context);
    const struct tensors without = make(context, 0, -1), with = make(context, 1, -1);
    access(context, &without, &plain);
    for (int call = 0; call < CALLS; call++) {
        access(context, &with, to);
        CHECK_BYTES(to, &plain, sizeof plain);
        collectives(context);
        stn_index_select(with.table, 0, with.index);
        CHECK_I64(collectives(context), stn_context_size(context) > 1);
    }
    return stn_scope_end(context);
}

static void kept_routes_give_the_bits_of_others(void)
{
    static struct accessed want, got;
    on_ranks(RANKS, accesses, &want, &got);
    for (int i = 0; i < MANY * COLUMNS; i++)
        CHECK_NEAR(got.read[i], want.read[i], 0);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        CHECK_NEAR(got.written[i], want.written[i], 1e-12);
        CHECK_NEAR(got.grad[i], want.grad[i], 1e-12);
    }
}

static stn_status refusals(stn_context *context, void *arg)
{
    char said[CALLS][256];
    (void)arg;
    for (int call = 0; call < CALLS; call++) {
        stn_scope_begin(context);
        const struct tensors t = make(context, call > 0, 17);
        for (int again = 0; again < CALLS; again++) {
            stn_index_select(t.table, 0, t.index);
            CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
            CHECK_STATUS(stn_context_take_error(context, said[call], sizeof said[call]), STN_ERR_VALUE);
            CHECK_STR(said[call], said[0]);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void an_index_out_of_range_is_found_by_each_call(void)
{
    on_ranks(RANKS, refusals, NULL, NULL);
}

static stn_status captured(stn_context *context, void *arg)
{
    double want[MANY * COLUMNS] = {0}, got[MANY * COLUMNS] = {0};
    stn_step *step = NULL;
    (void)arg;
    stn_scope_begin(context);
    const struct tensors plain = make(context, 0, -1), t = make(context, 1, -1);
    stn_tensor *table = stn_clone(stn_detach(t.table));
    stn_index_select(table, 0, t.index);
    CHECK_STATUS(stn_tensor_freeze(t.index), STN_OK);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *y = stn_index_select(table, 0, t.index);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    for (int round = 0; round < CALLS; round++) {
        stn_copy_(table, stn_add_number(stn_mul_number(table, -1.5), 0.25));
        CHECK_STATUS(stn_step_run(step), STN_OK);
        on_ranks_keep(context, stn_index_select(table, 0, plain.index), want);
        on_ranks_keep(context, y, got);
        CHECK_BYTES(got, want, sizeof got);
    }
    stn_step_destroy(&step);
    return stn_scope_end(context);
}

static void a_captured_step_has_kept_routes(void)
{
    on_ranks(RANKS, captured, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"kept_routes_give_the_bits_of_others", kept_routes_give_the_bits_of_others},
        {"an_index_out_of_range_is_found_by_each_call", an_index_out_of_range_is_found_by_each_call},
        {"a_captured_step_has_kept_routes", a_captured_step_has_kept_routes},
    };
    return TEST_MAIN(argc, argv, cases);
}
