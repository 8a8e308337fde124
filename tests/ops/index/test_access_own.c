/* Indices of a sharded dim that name what the rank itself has, what others have, or both: values, the order in which
 * they are joined, and what is sent. Lines are longer than the blocks in which indices are looked at. */
#include "ops/layouts.h"
#include "ranks.h"
#include "stats.h"

#include <string.h>

enum { ROWS = 60, MANY = 3600 };
enum mixture { OWN, FOREIGN, FEW_FOREIGN, ANY, ONE_ROW, MIXTURES };

/* A row of a table that `ranks` have, for index `i`, which one of them has; -1 and ROWS, which are none, among those
 * of ANY. Cuts are balanced, and even. */
static int64_t row_of(enum mixture mixture, int ranks, int64_t i)
{
    const int64_t each = ROWS / ranks, rank = i / (MANY / ranks), own = rank * each + i * 7 % each;
    switch (mixture) {
    case OWN: return own;
    case FOREIGN: return (own + each) % ROWS;
    case FEW_FOREIGN: return i % 1000 == 999 ? (own + each) % ROWS : own;
    case ANY: return i % 500 == 499 ? (i % 1000 == 999 ? -1 : ROWS) : i * 31 % 97 * 13 % ROWS;
    case ONE_ROW: return ROWS / 2;
    case MIXTURES: break;
    }
    return 0;
}

struct problem {
    struct elements table, index, values, read, set, sum, most;
};

static void make(struct problem *p, enum mixture mixture, int ranks, stn_dtype index_dtype)
{
    static const int64_t rows[] = {ROWS}, many[] = {MANY};
    uint64_t seed = 21 + (uint64_t)mixture;
    elements_draw(&p->table, STN_DTYPE_F64, 1, rows, &seed);
    elements_draw(&p->index, index_dtype, 1, many, &seed);
    elements_draw(&p->values, STN_DTYPE_F64, 1, many, &seed);
    for (int64_t row = 0; row < ROWS; row++)
        p->table.v[row] += 100; /* above all values, so that one counts that should not */
    p->read = p->values;
    p->set = p->sum = p->most = p->table;
    int is_named[ROWS] = {0};
    for (int64_t i = 0; i < MANY; i++) {
        const int64_t row = row_of(mixture, ranks, i);
        p->index.v[i] = (double)row;
        p->read.v[i] = row >= 0 && row < ROWS ? p->table.v[row] : 0;
        if (row < 0 || row >= ROWS)
            continue;
        p->set.v[row] = p->values.v[i];
        p->sum.v[row] += p->values.v[i];
        const double most = creal(p->most.v[row]), value = creal(p->values.v[i]);
        p->most.v[row] = is_named[row]++ && most > value ? most : value;
    }
}

static stn_tensor *cut_by_rows(stn_context *context, const struct elements *e)
{
    const stn_placement cut = stn_shard(0);
    return layout_tensor_placed(context, test_mesh(context, stn_context_size(context), 0), e, &cut);
}

static void check_mixture(stn_context *context, enum mixture mixture, stn_dtype index_dtype)
{
    static _Thread_local struct problem p;
    stn_scope_begin(context);
    make(&p, mixture, stn_context_size(context), index_dtype);
    stn_tensor *table = cut_by_rows(context, &p.table), *index = cut_by_rows(context, &p.index);
    stn_tensor *values = cut_by_rows(context, &p.values);
    layout_check(stn_index_select(table, 0, index), &p.read, "index_select");
    layout_check(stn_gather(table, 0, index), &p.read, "gather");
    layout_check(stn_scatter_from(table, 0, index, values), &p.set, "scatter");
    layout_check(stn_scatter_add(table, 0, index, values), &p.sum, "scatter_add");
    layout_check(stn_scatter_reduce(table, 0, index, values, STN_SCATTER_AMAX, 0), &p.most, "amax");
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), mixture == ANY ? STN_ERR_VALUE : STN_OK);
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status mixtures_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int mixture = 0; mixture < MIXTURES; mixture++) {
        check_mixture(context, (enum mixture)mixture, STN_DTYPE_I64);
        check_mixture(context, (enum mixture)mixture, STN_DTYPE_I32);
    }
    return STN_OK;
}

static void own_and_foreign_rows_are_read_and_written(void)
{
    static const int worlds[] = {1, 2, 3, 5};
    for (int i = 0; i < 4; i++)
        test_ranks(worlds[i], mixtures_body, NULL);
}

/* What rank `rank` adds to a row: numbers that give another sum in another order. */
static double addend(int64_t rank, int64_t row)
{
    static const double numbers[] = {1e16, 1, -1e16};
    return numbers[(rank + row) % 3] + (double)(row % 5);
}

/* Each of 3 ranks adds once to each row. */
static stn_status order_body(stn_context *context, void *arg)
{
    static _Thread_local struct problem p;
    static const int64_t rows[] = {ROWS}, many[] = {3 * ROWS};
    uint64_t seed = 4;
    (void)arg;
    elements_draw(&p.table, STN_DTYPE_F64, 1, rows, &seed);
    elements_draw(&p.index, STN_DTYPE_I64, 1, many, &seed);
    elements_draw(&p.values, STN_DTYPE_F64, 1, many, &seed);
    p.sum = p.set = p.table;
    for (int64_t i = 0; i < 3 * ROWS; i++) {
        p.index.v[i] = (double)(i % ROWS);
        p.values.v[i] = addend(i / ROWS, i % ROWS);
        p.sum.v[i % ROWS] += p.values.v[i];
        p.set.v[i % ROWS] = p.values.v[i];
    }
    stn_scope_begin(context);
    stn_tensor *table = cut_by_rows(context, &p.table), *index = cut_by_rows(context, &p.index);
    stn_tensor *values = cut_by_rows(context, &p.values);
    layout_check(stn_scatter_add(table, 0, index, values), &p.sum, "added in the order of ranks");
    layout_check(stn_index_copy(table, 0, index, values), &p.set, "the last rank's");
    return stn_scope_end(context);
}

static void own_values_take_their_turn_in_the_order_of_ranks(void)
{
    test_ranks(3, order_body, NULL);
}

/* Collectives are as many whatever the indices are; of rows, only the foreign ones' are sent. */
static stn_status traffic_body(stn_context *context, void *arg)
{
    static _Thread_local struct problem p;
    (void)arg;
    for (int mixture = OWN; mixture <= FEW_FOREIGN; mixture++) {
        make(&p, (enum mixture)mixture, 2, STN_DTYPE_I64);
        stn_scope_begin(context);
        stn_tensor *table = cut_by_rows(context, &p.table), *index = cut_by_rows(context, &p.index);
        stn_tensor *values = cut_by_rows(context, &p.values);
        const int64_t counts = sizeof(int64_t), row = sizeof(int64_t) + sizeof(double);
        const int64_t few = stn_context_rank(context) == 0 ? 1 : 2;
        const int64_t foreign = mixture == FOREIGN ? ROWS / 2 : mixture == OWN ? 0 : few;
        for (int writes = 0; writes < 2; writes++) {
            test_stats_reset(context);
            stn_tensor *y = writes ? stn_scatter_add(table, 0, index, values) : stn_index_select(table, 0, index);
            const stn_stats stats = test_stats_reset(context);
            CHECK(!stn_tensor_is_error(y));
            CHECK_I64(stats.collectives, 3);
            if (mixture != FEW_FOREIGN || writes)
                CHECK_I64(stats.bytes_sent, counts + foreign * row);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void only_foreign_rows_are_sent(void)
{
    test_ranks(2, traffic_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case tests[] = {
        {"own_and_foreign_rows_are_read_and_written", own_and_foreign_rows_are_read_and_written},
        {"own_values_take_their_turn_in_the_order_of_ranks", own_values_take_their_turn_in_the_order_of_ranks},
        {"only_foreign_rows_are_sent", only_foreign_rows_are_sent},
    };
    return TEST_MAIN(argc, argv, tests);
}
