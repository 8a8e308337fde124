#include "ops/index/routed.h"

#include "ranks.h"
#include "stats.h"

static const stn_placement cut = {.kind = STN_PLACE_SHARD, .dim = 0};

stn_tensor *routed_tensor(stn_context *context, const struct elements *e)
{
    return layout_tensor_placed(context, test_mesh(context, stn_context_size(context), 0), e, &cut);
}

stn_tensor *routed_numbers(stn_context *context, stn_dtype dtype, int64_t rows, int64_t columns)
{
    static _Thread_local struct elements e;
    const int64_t shape[] = {rows, columns};
    uint64_t seed = 3 + (uint64_t)columns;
    elements_draw(&e, dtype, columns ? 2 : 1, shape, &seed);
    return routed_tensor(context, &e);
}

void routed_draw(struct elements *e, uint64_t seed)
{
    static const int64_t many[] = {ROUTED_MANY};
    elements_draw(e, STN_DTYPE_I64, 1, many, &seed);
    for (int64_t i = 0; i < ROUTED_MANY; i++)
        e->v[i] = (double)draw_below(&seed, ROUTED_ROWS);
}

stn_tensor *routed_index(stn_context *context, uint64_t seed, int keep)
{
    static _Thread_local struct elements e;
    routed_draw(&e, seed);
    stn_tensor *index = routed_tensor(context, &e);
    CHECK_STATUS(stn_tensor_keep_routes(index, keep), STN_OK);
    return index;
}

int64_t routed_exchanges(stn_context *context, stn_tensor *result)
{
    CHECK(!stn_tensor_is_error(result));
    return test_stats_reset(context).collectives;
}

int64_t routed_live_bytes(stn_context *context)
{
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    return test_stats(context).live_bytes;
}

int64_t routed_visit(stn_context *context, stn_tensor *index, int64_t rows)
{
    stn_scope_begin(context);
    stn_tensor *table = routed_numbers(context, STN_DTYPE_F64, rows, 0);
    test_stats_reset(context);
    const int64_t n = routed_exchanges(context, stn_index_select(table, 0, index));
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return n;
}
