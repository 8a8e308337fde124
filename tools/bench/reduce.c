/* Reductions of contiguous chunks beside reading them once. */
#include "chunks.h"

enum { ROWS = 4096, COLUMNS = 4096 };

#define MATRIX {2, {ROWS, COLUMNS}, 0}
#define BESIDE_MEMORY .input = {MATRIX}, .read = 1, .gate = 0.8, .goal = 0.95

static const int rows[] = {0}, columns[] = {1};

static stn_tensor *sum_all(stn_tensor *const *x) { return stn_sum(x[0], 0, NULL, 0); }
static stn_tensor *sum_rows(stn_tensor *const *x) { return stn_sum(x[0], 1, columns, 0); }
static stn_tensor *sum_columns(stn_tensor *const *x) { return stn_sum(x[0], 1, rows, 0); }
static stn_tensor *mean_rows(stn_tensor *const *x) { return stn_mean(x[0], 1, columns, 0); }
static stn_tensor *amax_all(stn_tensor *const *x) { return stn_amax(x[0], 0, NULL, 0); }
static stn_tensor *amax_rows(stn_tensor *const *x) { return stn_amax(x[0], 1, columns, 0); }
static stn_tensor *amax_columns(stn_tensor *const *x) { return stn_amax(x[0], 1, rows, 0); }
static stn_tensor *var_all(stn_tensor *const *x) { return stn_var(x[0], 0, NULL, 1, 0); }
static stn_tensor *var_rows(stn_tensor *const *x) { return stn_var(x[0], 1, columns, 1, 0); }
static stn_tensor *counted(stn_tensor *const *x) { return stn_count_nonzero(x[0], 0, NULL); }

static const struct chunks_case cases[] = {
    {.label = "sum of all", .ours = sum_all, BESIDE_MEMORY},
    {.label = "sum of each row", .ours = sum_rows, BESIDE_MEMORY},
    {.label = "sum of each column", .ours = sum_columns, BESIDE_MEMORY},
    {.label = "mean of each row", .ours = mean_rows, BESIDE_MEMORY},
    {.label = "amax of all", .ours = amax_all, BESIDE_MEMORY},
    {.label = "amax of each row", .ours = amax_rows, BESIDE_MEMORY},
    {.label = "amax of each column", .ours = amax_columns, BESIDE_MEMORY},
    {.label = "var of all", .ours = var_all, BESIDE_MEMORY},
    {.label = "var of each row", .ours = var_rows, BESIDE_MEMORY},
    {.label = "count_nonzero of all", .ours = counted, BESIDE_MEMORY},
};

void bench_reduce(struct bench *bench)
{
    chunks_run(bench, "reduce", cases, sizeof cases / sizeof cases[0]);
}
