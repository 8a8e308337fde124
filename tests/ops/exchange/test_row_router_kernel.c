/* Kernels of routed rows on raw memory: plans of many sizes. */
#include "core/base/isa.h"
#include "harness.h"
#include "ops/exchange/row_router.h"

#include <stdlib.h>
#include <string.h>

static uint64_t seed;

static int64_t draw(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 20) % (uint64_t)n);
}

/* Memory of one plan. */
struct plan {
    struct stni_rows_plan_args args;
    int64_t *index, *ranges;
};

static void plan_init(struct plan *p, int64_t n, int64_t n_rows, int n_ranks)
{
    *p = (struct plan){.args = {.n = n, .n_rows = n_rows, .n_ranks = n_ranks}};
    p->index = calloc((size_t)n + 1, sizeof(int64_t));
    p->ranges = calloc(2 * (size_t)n_ranks, sizeof(int64_t));
    p->args.rows = p->index;
    p->args.ranges = p->ranges;
    p->args.work = calloc(4 * (size_t)n + 1, sizeof(int64_t));
    p->args.unique = calloc((size_t)n + 1, sizeof(int64_t));
    p->args.slot = calloc((size_t)n + 1, sizeof(int64_t));
    p->args.counts = calloc((size_t)n_ranks + 1, sizeof(int64_t));
}

static void plan_fini(struct plan *p)
{
    free(p->index);
    free(p->ranges);
    free(p->args.work);
    free(p->args.unique);
    free(p->args.slot);
    free(p->args.counts);
}

/* Ranks own pieces of the table in an order that is not theirs; some own nothing, and some rows are nobody's. */
static void draw_ranges(struct plan *p)
{
    int n = p->args.n_ranks;
    int64_t at = 0, n_rows = p->args.n_rows;
    for (int i = 0; i < n; i++) {
        int r = (i * 2 + 1) % n == 0 && n % 2 == 0 ? i : n % 2 ? (i * 2 + 1) % n : n - 1 - i;
        int64_t end = at + draw(n_rows - at + 1);
        p->ranges[r] = at;
        p->ranges[n + r] = end;
        at = end;
    }
}

static int owner_of(const struct plan *p, int64_t row)
{
    for (int r = 0; r < p->args.n_ranks; r++)
        if (row >= p->ranges[r] && row < p->ranges[p->args.n_ranks + r])
            return r;
    return -1;
}

/* What a plan promises, checked against its words. */
static void check_plan(const struct plan *p)
{
    const struct stni_rows_plan_args *a = &p->args;
    int64_t begin = 0;
    for (int r = 0; r < a->n_ranks; r++) {
        for (int64_t u = begin; u < begin + a->counts[r]; u++) {
            CHECK_I64(owner_of(p, a->unique[u]), r);
            if (u > begin)
                CHECK(a->unique[u] > a->unique[u - 1]);
        }
        begin += a->counts[r];
    }
    CHECK_I64(a->counts[a->n_ranks], begin);
    int *asked = calloc((size_t)begin + 1, sizeof *asked);
    for (int64_t i = 0; i < a->n; i++) {
        int64_t row = p->index[i], slot = a->slot[i];
        int left_out = row >= a->own_begin && row < a->own_end;
        int there = row >= 0 && row < a->n_rows && owner_of(p, row) >= 0 && !left_out;
        if (!CHECK_I64(slot >= 0, there) || !there)
            continue;
        CHECK_I64(a->unique[slot], row);
        asked[slot] = 1;
    }
    for (int64_t u = 0; u < begin; u++)
        CHECK_I64(asked[u], 1);
    free(asked);
}

static stn_status plan_with(enum stni_isa isa, const struct stni_rows_plan_args *args)
{
    return STNI_ISA_PICK(stni_rows_plan, isa)(NULL, args);
}

/* Rank `own`, -1: none, has its own rows left out. */
static void check_drawn(int64_t n, int64_t n_rows, int n_ranks, int own, enum stni_isa isa)
{
    struct plan p;
    plan_init(&p, n, n_rows, n_ranks);
    for (int64_t i = 0; i < n; i++)
        p.index[i] = draw(n_rows + 1) - draw(2); /* -1 and n_rows among them */
    draw_ranges(&p);
    p.args.own_begin = own < 0 ? 0 : p.ranges[own];
    p.args.own_end = own < 0 ? 0 : p.ranges[n_ranks + own];
    for (int64_t i = n / 4; i < n / 2 && p.args.own_begin < p.args.own_end; i++)
        p.index[i] = p.args.own_begin; /* whole blocks of nothing else */
    CHECK_STATUS(plan_with(isa, &p.args), STN_OK);
    check_plan(&p);
    CHECK_I64(own < 0 ? 0 : p.args.counts[own], 0);
    plan_fini(&p);
}

static void plans_list_each_distinct_row_once_under_its_owner(void)
{
    static const int64_t sizes[][2] = {{0, 5},     {1, 1},      {7, 3},      {50, 20},
                                       {200, 5000}, {300, 9000}, {3000, 500}, {300, INT64_C(1) << 40}};
    seed = 9;
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int n_ranks = 1; n_ranks <= 5; n_ranks++)
                for (int own = -1; own < n_ranks; own++)
                    check_drawn(sizes[s][0], sizes[s][1], n_ranks, own, (enum stni_isa)isa);
}

static void a_plan_for_one_owner_leaves_out_what_it_has_not(void)
{
    struct plan p;
    plan_init(&p, 4, 10, 1);
    static const int64_t index[] = {7, 2, 7, 5};
    memcpy(p.index, index, sizeof index);
    p.ranges[0] = 5;
    p.ranges[1] = 10;
    plan_with(stni_isa_best(), &p.args);
    CHECK_I64(p.args.counts[0], 2);
    CHECK_I64(p.args.counts[1], 2);
    CHECK_I64(p.args.unique[0], 5);
    CHECK_I64(p.args.unique[1], 7);
    CHECK_I64(p.args.slot[0], 1);
    CHECK_I64(p.args.slot[1], -1);
    CHECK_I64(p.args.slot[3], 0);
    plan_fini(&p);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"plans_list_each_distinct_row_once_under_its_owner", plans_list_each_distinct_row_once_under_its_owner},
        {"a_plan_for_one_owner_leaves_out_what_it_has_not", a_plan_for_one_owner_leaves_out_what_it_has_not},
    };
    return TEST_MAIN(argc, argv, cases);
}
