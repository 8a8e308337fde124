/* Reading and writing tiles of every form and every pair of dtypes, against one element after the other. */
#include "harness.h"

#include "ops/elements.h"
#include "ops/cpu/tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 40 };

/* One side of a tile: memory that holds it and not a byte more. */
struct side {
    int64_t row, col, size; /* elements, and bytes of one */
    char *memory, *first;   /* first: the element at row 0, column 0 */
    size_t bytes;
};

static int64_t lower(int64_t n, int64_t stride)
{
    return stride < 0 ? (n - 1) * stride : 0;
}

static int64_t upper(int64_t n, int64_t stride)
{
    return stride > 0 ? (n - 1) * stride : 0;
}

static struct side side_create(int64_t rows, int64_t cols, int64_t row, int64_t col, stn_dtype dtype)
{
    struct side s = {.row = row, .col = col, .size = (int64_t)stn_dtype_size(dtype)};
    const int64_t low = lower(rows, row) + lower(cols, col), high = upper(rows, row) + upper(cols, col);
    s.bytes = (size_t)((high - low + 1) * s.size);
    s.memory = malloc(s.bytes);
    s.first = s.memory - low * s.size;
    return s;
}

static void draw_side(struct side *s, stn_dtype dtype, uint64_t *seed)
{
    for (size_t i = 0; i < s->bytes; i++)
        s->memory[i] = (char)draw_below(seed, dtype == STN_DTYPE_BOOL ? 2 : 120);
}

static char *at(const struct side *s, int64_t r, int64_t c)
{
    return s->first + (r * s->row + c * s->col) * s->size;
}

/* Strides of an operand: steps within a row, also backwards and none, or columns that are runs. */
static void draw_strides(int64_t rows, int64_t cols, int repeats, int64_t *row, int64_t *col, uint64_t *seed)
{
    static const int64_t steps[] = {1, 2, -1, 3, -2, 0};
    *col = steps[draw_below(seed, repeats ? 6 : 5)];
    *row = cols * (*col < 0 ? -*col : *col) + draw_below(seed, 3);
    if (draw_below(seed, 3) == 0) {
        *row = 1;
        *col = rows + draw_below(seed, 3);
    }
}

/* @return whether `got`, which was a copy of `wanted` before its tile was brought there, is what bringing single
 * elements to `wanted` gives. */
static int agrees(stni_convert_fn convert, int64_t rows, int64_t cols, struct side *wanted, const struct side *got,
                  const struct side *from)
{
    const struct stni_tile one = {.rows = 1, .cols = 1, .to_col = 1, .from_col = 1};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            convert(at(wanted, r, c), at(from, r, c), &one);
    return memcmp(wanted->memory, got->memory, wanted->bytes) == 0;
}

static void check_form(enum stni_isa isa, stn_dtype to, stn_dtype from, int writes, uint64_t *seed)
{
    const struct stni_tile_kernels kernels = stni_tile_kernels(to, from, isa);
    const int64_t rows = 1 + draw_below(seed, 70), cols = 1 + draw_below(seed, 300), dense = cols + draw_below(seed, 3);
    int64_t row, col;
    draw_strides(rows, cols, !writes, &row, &col, seed);
    struct side source = writes ? side_create(rows, cols, dense, 1, from) : side_create(rows, cols, row, col, from);
    struct side got = writes ? side_create(rows, cols, row, col, to) : side_create(rows, cols, dense, 1, to);
    struct side wanted = side_create(rows, cols, got.row, got.col, to);
    const struct stni_tile tile = {rows,       cols,       got.row, got.col,
                                   source.row, source.col, 0,       draw_below(seed, 2) ? 512 : 0};
    draw_side(&source, from, seed);
    draw_side(&got, to, seed);
    memcpy(wanted.memory, got.memory, got.bytes);
    (writes ? stni_tile_write : stni_tile_read)(&kernels, got.first, source.first, &tile);
    char what[128];
    snprintf(what, sizeof what, "%s to %s, %d x %d, strides %d %d to %d %d", stn_dtype_name(from), stn_dtype_name(to),
             (int)rows, (int)cols, (int)source.row, (int)source.col, (int)got.row, (int)got.col);
    test_check_i64(agrees(kernels.convert, rows, cols, &wanted, &got, &source), 1, __FILE__, __LINE__, what);
    free(source.memory);
    free(got.memory);
    free(wanted.memory);
}

static void check_pairs(int writes, uint64_t seed)
{
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (int d = 0; d < STN_DTYPE_COUNT; d++)
            for (int other = 0; other < STN_DTYPE_COUNT; other++) {
                const stn_dtype compute =
                    writes ? stni_compute_dtype((stn_dtype)d) : stni_compute_dtype((stn_dtype)other);
                const stn_dtype to = writes ? (stn_dtype)d : compute, from = writes ? compute : (stn_dtype)d;
                for (int round = 0; round < ROUNDS / STN_DTYPE_COUNT; round++)
                    check_form((enum stni_isa)isa, to, from, writes, &seed);
            }
}

static void tiles_of_every_form_are_read_as_single_elements_are(void)
{
    check_pairs(0, 71);
}

static void tiles_of_every_form_are_written_as_single_elements_are(void)
{
    check_pairs(1, 72);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"tiles_of_every_form_are_read_as_single_elements_are", tiles_of_every_form_are_read_as_single_elements_are},
        {"tiles_of_every_form_are_written_as_single_elements_are",
         tiles_of_every_form_are_written_as_single_elements_are},
    };
    return TEST_MAIN(argc, argv, cases);
}
