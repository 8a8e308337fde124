/* Rows by random index, beside copying as many rows in order. */
#include "chunks.h"

#include <math.h>

enum { ROWS = 1 << 18, WIDTH = 64, CHOSEN = 1 << 17 };

#define TABLE(cut) {2, {ROWS, WIDTH}, cut}
#define CHOICE(cut) {1, {CHOSEN}, cut}
#define CHOSEN_ROWS(cut) {2, {CHOSEN, WIDTH}, cut}
#define REPORTED .gate = NAN, .goal = NAN

/* Of the last input's shape and layout, each a row of the table. */
static stn_tensor *indices_like(stn_tensor *like, int64_t rows)
{
    stn_tensor *indices = stn_cast(like, STN_DTYPE_I64);
    if (stn_tensor_is_error(indices))
        return indices;
    int64_t *at = stn_tensor_data(indices), n = stn_spec_local_numel(stn_tensor_spec(indices));
    uint64_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        at[i] = (int64_t)((state >> 33) % (uint64_t)rows);
    }
    return indices;
}

static stn_tensor *chosen(stn_tensor *const *x) { return indices_like(x[1], stn_tensor_shape(x[0])[0]); }
static stn_tensor *chosen_last(stn_tensor *const *x) { return indices_like(x[2], stn_tensor_shape(x[0])[0]); }

/* Their routes are found once, by the calls that come before those that are measured. */
static stn_tensor *chosen_to_keep(stn_tensor *const *x)
{
    stn_tensor *indices = chosen(x);
    stn_tensor_keep_routes(indices, 1);
    return indices;
}

static stn_tensor *select_rows(stn_tensor *const *x) { return stn_index_select(x[0], 0, x[1]); }
static stn_tensor *embed(stn_tensor *const *x) { return stn_embedding(x[1], x[0], NULL); }
static stn_tensor *gather(stn_tensor *const *x) { return stn_gather(x[0], 0, x[1]); }
static stn_tensor *add_rows(stn_tensor *const *x) { return stn_index_add(x[0], 0, x[2], x[1], 1); }

static const struct chunks_case cases[] = {
    {.label = "index_select of 256 byte rows",
     .input = {TABLE(-1), CHOICE(0)},
     .prepare = chosen,
     .ours = select_rows,
     .read = 0.25,
     .written = 0.25,
     REPORTED},
    {.label = "embedding",
     .input = {TABLE(-1), CHOICE(0)},
     .prepare = chosen,
     .ours = embed,
     .read = 0.25,
     .written = 0.25,
     REPORTED},
    {.label = "embedding, rows at their owners",
     .input = {TABLE(0), CHOICE(0)},
     .prepare = chosen,
     .ours = embed,
     .read = 0.5,
     .written = 0.5,
     REPORTED},
    {.label = "embedding, rows at their owners, routes kept",
     .input = {TABLE(0), CHOICE(0)},
     .prepare = chosen_to_keep,
     .ours = embed,
     .read = 0.5,
     .written = 0.5,
     REPORTED},
    {.label = "gather of single elements",
     .input = {TABLE(-1), CHOSEN_ROWS(0)},
     .prepare = chosen,
     .ours = gather,
     .read = 0.75,
     .written = 0.25,
     REPORTED},
    {.label = "index_add",
     .input = {TABLE(1), CHOSEN_ROWS(1), CHOICE(-1)},
     .prepare = chosen_last,
     .ours = add_rows,
     .read = 2.5,
     .written = 1.5,
     REPORTED},
};

void bench_index(struct bench *bench)
{
    chunks_run(bench, "index", cases, sizeof cases / sizeof cases[0]);
}
