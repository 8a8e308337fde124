/* Combinations of placements as numbers in a mixed radix: one digit for each input and mesh axis. */
#include "layouts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replicate, Shard of each dim, Partial. */
static int option_count(const struct grid *grid, int axis, const struct subject *s)
{
    if (grid->sizes[axis] == 1)
        return 1;
    return 1 + s->ndim + (stn_dtype_is_differentiable(s->dtype) ? 1 : 0);
}

static stn_placement option(int which, const struct subject *s)
{
    if (which == 0)
        return stn_replicate();
    return which <= s->ndim ? stn_shard(which - 1) : stn_partial(STN_SUM);
}

int64_t layouts_count(const struct grid *grid, int n, const struct subject *subjects)
{
    int64_t count = 1;
    for (int i = 0; i < n; i++)
        for (int a = 0; a < grid->ndim; a++) {
            int options = option_count(grid, a, &subjects[i]);
            if (count > INT64_MAX / options)
                return INT64_MAX;
            count *= options;
        }
    return count;
}

static void layout_init(struct layout *layout)
{
    memset(layout, 0, sizeof *layout);
    for (int a = 0; a < STN_MAX_MESH_NDIM; a++)
        layout->axis_order[a] = a;
    for (int d = 0; d < STN_MAX_NDIM; d++)
        layout->memory_order[d] = d;
}

void layouts_nth(const struct grid *grid, int n, const struct subject *subjects, int64_t index, struct layout *layouts)
{
    for (int i = 0; i < n; i++) {
        layout_init(&layouts[i]);
        for (int a = 0; a < grid->ndim; a++) {
            int options = option_count(grid, a, &subjects[i]);
            layouts[i].placement[a] = option((int)(index % options), &subjects[i]);
            index /= options;
        }
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

void layouts_draw(int64_t count, int64_t most, uint64_t seed, int64_t *indices)
{
    struct rng rng = {seed, 0};
    int64_t n = 0;
    while (n < most) {
        int64_t index = rng_below(&rng, count), i = 0;
        while (i < n && indices[i] != index)
            i++;
        if (i == n)
            indices[n++] = index;
    }
    qsort(indices, (size_t)n, sizeof *indices, by_value);
}

/* Cutting */

static void shuffle(struct rng *rng, int n, int *items)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rng_below(rng, i + 1), t = items[i];
        items[i] = items[j];
        items[j] = t;
    }
}

static int is_balanced(int64_t n, int pieces, const int64_t *sizes)
{
    for (int i = 0; i < pieces; i++)
        if (sizes[i] != n / pieces + (i < n % pieces))
            return 0;
    return 1;
}

/* Sizes of the pieces between cut points drawn anywhere; then one piece may be emptied, or all but one. */
static void draw_sizes(struct rng *rng, int64_t n, int pieces, int64_t *sizes)
{
    int64_t cuts[GRID_MAX_RANKS + 1];
    for (int i = 1; i < pieces; i++)
        cuts[i] = rng_below(rng, n + 1);
    cuts[0] = 0;
    cuts[pieces] = n;
    qsort(cuts + 1, (size_t)pieces - 1, sizeof *cuts, by_value);
    for (int i = 0; i < pieces; i++)
        sizes[i] = cuts[i + 1] - cuts[i];

    int kind = (int)rng_below(rng, 4), from = (int)rng_below(rng, pieces), to = (from + 1) % pieces;
    for (int i = 0; i < pieces; i++)
        if (kind == 0 || (kind == 1 && i == from)) {
            int64_t moved = sizes[i];
            sizes[i] = 0;
            sizes[to] += moved;
        }
}

static void draw_uneven(struct rng *rng, int64_t n, int pieces, int64_t *sizes)
{
    for (int attempt = 0; attempt < 8; attempt++) {
        draw_sizes(rng, n, pieces, sizes);
        if (!is_balanced(n, pieces, sizes))
            return;
    }
}

/* Product of the axes that shard `dim`, and their number. */
static int count_pieces(const struct grid *grid, const struct layout *layout, int dim, int *axes)
{
    int pieces = 1;
    *axes = 0;
    for (int a = 0; a < grid->ndim; a++)
        if (layout->placement[a].kind == STN_PLACE_SHARD && layout->placement[a].dim == dim) {
            pieces *= grid->sizes[a];
            ++*axes;
        }
    return *axes > 0 ? pieces : 0;
}

static void cut(const struct grid *grid, const struct subject *s, uint64_t shared_seed, struct rng *rng,
                struct layout *layout)
{
    int shares = rng_below(rng, 2) == 0;
    for (int d = 0; d < s->ndim; d++) {
        int axes, pieces = count_pieces(grid, layout, d, &axes);
        if (pieces == 0)
            continue;
        struct rng shared = {rng_mix(rng_mix(shared_seed, (uint64_t)s->shape[d]), (uint64_t)pieces), 0};
        draw_uneven(shares ? &shared : rng, s->shape[d], pieces, layout->sizes[d]);
        layout->n_pieces[d] = pieces;
        if (axes > 1)
            shuffle(rng, grid->ndim, layout->axis_order);
    }
    if (rng_below(rng, 4) == 0)
        shuffle(rng, s->ndim, layout->memory_order);
}

void layouts_cut(const struct grid *grid, int n, const struct subject *subjects, uint64_t seed, struct layout *layouts)
{
    uint64_t shared_seed = rng_mix(seed, UINT64_MAX - 1);
    for (int i = 0; i < n; i++) {
        struct rng rng = {rng_mix(seed, (uint64_t)i), 0};
        cut(grid, &subjects[i], shared_seed, &rng, &layouts[i]);
    }
}

/* Describing */

struct text {
    char *at;
    size_t size;
    int length; /* that it would have */
};

STN_PRINTF(2, 3)
static void append(struct text *text, const char *format, ...)
{
    size_t used = (size_t)text->length < text->size ? (size_t)text->length : text->size;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->size > used ? text->at + used : NULL, text->size - used, format, args);
    va_end(args);
    text->length += n > 0 ? n : 0;
}

static void describe_order(struct text *text, const char *name, int n, const int *order)
{
    int natural = 1;
    for (int i = 0; i < n; i++)
        natural = natural && order[i] == i;
    for (int i = 0; !natural && i < n; i++)
        append(text, "%s%d", i == 0 ? name : " ", order[i]);
}

int layout_describe(const struct grid *grid, const struct layout *layout, int ndim, char *text, size_t size)
{
    static const char letters[] = {'R', 'S', 'P'};
    struct text out = {text, size, 0};
    for (int a = 0; a < grid->ndim; a++) {
        const stn_placement *p = &layout->placement[a];
        append(&out, "%s%c", a > 0 ? "," : "", letters[p->kind]);
        if (p->kind == STN_PLACE_SHARD)
            append(&out, "(%d)", p->dim);
    }
    for (int d = 0; d < ndim; d++)
        for (int i = 0; i < layout->n_pieces[d]; i++)
            append(&out, "%s%lld%s", i == 0 ? "[" : " ", (long long)layout->sizes[d][i],
                   i + 1 == layout->n_pieces[d] ? "]" : "");
    describe_order(&out, " axes ", grid->ndim, layout->axis_order);
    describe_order(&out, " memory ", ndim, layout->memory_order);
    return out.length;
}
