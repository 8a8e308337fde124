/* Windows along one dim: every size, window, dilation and place against windows chosen by their distance; queries of
 * keys against keys of queries; ranges over them. */
#include "harness.h"

#include "ops/neighborhood/neighborhood_window.h"

#include <stdlib.h>

enum { MOST = 13 };

/* Whether query i attends to key j: of all windows on the line the one whose begin is the nearest to where the query's
 * would lie without ends. */
static int attends(const struct stni_neighborhood_dim *dim, int64_t i, int64_t j)
{
    int64_t best = -1, p = i / dim->dilation, q = j / dim->dilation, length = 0;
    if (i % dim->dilation != j % dim->dilation)
        return 0;
    if (dim->is_causal)
        return q <= p && p - q < dim->kernel;
    for (int64_t k = i % dim->dilation; k < dim->n; k += dim->dilation)
        length++;
    for (int64_t begin = 0; begin + dim->kernel <= length; begin++)
        if (best < 0 || llabs(begin - (p - dim->kernel / 2)) < llabs(best - (p - dim->kernel / 2)))
            best = begin;
    return q >= best && q < best + dim->kernel;
}

static int has(struct stni_neighbors neighbors, int64_t step, int64_t position)
{
    const int64_t behind = position - neighbors.first;
    return behind >= 0 && behind % step == 0 && behind / step < neighbors.count;
}

static void every_dim(void (*check)(const struct stni_neighborhood_dim *dim))
{
    struct stni_neighborhood_dim dim;
    for (dim.n = 1; dim.n <= MOST; dim.n++)
        for (dim.kernel = 1; dim.kernel <= dim.n; dim.kernel++)
            for (dim.dilation = 1; dim.dilation * dim.kernel <= dim.n; dim.dilation++)
                for (dim.is_causal = 0; dim.is_causal < 2; dim.is_causal++)
                    check(&dim);
}

static void check_neighbors(const struct stni_neighborhood_dim *dim)
{
    int wrong = 0;
    for (int64_t i = 0; i < dim->n; i++)
        for (int64_t j = 0; j < dim->n; j++) {
            const int want = attends(dim, i, j);
            wrong += has(stni_neighborhood_keys(dim, i), dim->dilation, j) != want;
            wrong += has(stni_neighborhood_queries(dim, j), dim->dilation, i) != want;
        }
    for (int64_t i = 0; i < dim->n; i++) {
        const int64_t count = stni_neighborhood_keys(dim, i).count, of_key = stni_neighborhood_queries(dim, i).count;
        wrong += dim->is_causal ? count < 1 || count > dim->kernel : count != dim->kernel;
        wrong += of_key < 1 || of_key > 2 * dim->kernel - 1;
    }
    CHECK_I64(wrong, 0);
}

static void keys_and_queries_are_those_of_the_nearest_window(void)
{
    every_dim(check_neighbors);
}

typedef struct stni_range (*over_fn)(const struct stni_neighborhood_dim *dim, int64_t at);
typedef struct stni_neighbors (*neighbors_fn)(const struct stni_neighborhood_dim *dim, int64_t at);

static int64_t wrong_ranges(const struct stni_neighborhood_dim *dim, over_fn over, neighbors_fn neighbors)
{
    int64_t wrong = 0;
    struct stni_range before = {0, 0};
    for (int64_t i = 0; i < dim->n; i++) {
        const struct stni_range range = over(dim, i);
        const struct stni_neighbors own = neighbors(dim, i);
        const int64_t below = own.first - range.begin, last = own.first + (own.count - 1) * dim->dilation;
        const int64_t above = range.end - 1 - last;
        wrong += range.begin < 0 || range.end > dim->n || range.begin < before.begin || range.end < before.end;
        wrong += below < 0 || above < 0 || below >= dim->dilation || above >= dim->dilation;
        before = range;
    }
    return wrong;
}

static void check_ranges(const struct stni_neighborhood_dim *dim)
{
    CHECK_I64(wrong_ranges(dim, stni_neighborhood_keys_over, stni_neighborhood_keys), 0);
    CHECK_I64(wrong_ranges(dim, stni_neighborhood_queries_over, stni_neighborhood_queries), 0);
}

static void ranges_over_them_never_decrease_and_are_near(void)
{
    every_dim(check_ranges);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"keys_and_queries_are_those_of_the_nearest_window", keys_and_queries_are_those_of_the_nearest_window},
        {"ranges_over_them_never_decrease_and_are_near", ranges_over_them_never_decrease_and_are_near},
    };
    return TEST_MAIN(argc, argv, cases);
}
