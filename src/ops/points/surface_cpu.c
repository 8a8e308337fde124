/* Distances from a surface on the CPU, compiled once per instruction set. */
#include "ops/points/surface_kernel.h"

#include <string.h>

#define TEMPLATE "ops/points/block_box_tmpl.h"
#include "core/box/each_float.h"

enum { DEPTH = 64 }; /* of a tree of as many leaves as there are numbers */

struct tree {
    int64_t n;
    const int64_t *index;
    const double *x, *boxes;
};

/* Leaves a to b - 1, how far their box, number `node`, is. */
struct node {
    int64_t node, a, b;
    double square;
};

static void visit_leaf(const struct tree *tree, int64_t leaf, const double *query, struct stni_hit *hit)
{
    const int64_t first = leaf * STNI_LEAF, n = tree->n - first < STNI_LEAF ? tree->n - first : STNI_LEAF;
    const double *x = tree->x + leaf * STNI_LEAF * 9;
    double square[STNI_LEAF];
#pragma omp simd
    for (int i = 0; i < STNI_LEAF; i++)
        square[i] = stni_triangle_square(x + i, STNI_LEAF, query);
    for (int64_t i = 0; i < n; i++)
        if (square[i] <= hit->square)
            stni_hit_add(hit, x + i, STNI_LEAF, query, tree->index[first + i]);
}

/* The nearer child first; the other one waits. No more wait than the tree is deep. */
static void search_query(const struct tree *tree, const double *query, struct stni_hit *hit)
{
    struct node waiting[DEPTH] = {{0, 0, stni_leaves(tree->n), 0}};
    for (int n = 1; n > 0;) {
        const struct node at = waiting[--n];
        if (at.square > hit->square)
            continue;
        if (at.b - at.a == 1) {
            visit_leaf(tree, at.a, query, hit);
            continue;
        }
        const int64_t middle = (at.a + at.b) / 2;
        struct node left = {at.node + 1, at.a, middle, 0}, right = {at.node + 2 * (middle - at.a), middle, at.b, 0};
        left.square = box_square_f64(tree->boxes, left.node, query, 3);
        right.square = box_square_f64(tree->boxes, right.node, query, 3);
        const int turned = right.square < left.square;
        waiting[n++] = turned ? left : right;
        waiting[n++] = turned ? right : left;
    }
}

stn_status STNI_ISA_NAME(stni_surface_search)(stn_queue *queue, const void *args)
{
    const struct stni_surface_search_args *a = args;
    const struct stni_block_layout at = stni_block_layout(&a->shape, 1);
    const char *block = a->block;
    struct tree tree = {.n = a->shape.n};
    (void)queue;
    for (int64_t i = 0; a->fresh && i < a->queries.rows; i++)
        a->hits[i] = stni_no_hit();
    if (tree.n == 0)
        return STN_OK;
    tree.index = (const int64_t *)(const void *)(block + at.indices);
    tree.x = (const double *)(const void *)(block + at.coordinates);
    tree.boxes = (const double *)(const void *)(block + at.boxes);
    for (int64_t i = 0; i < a->queries.rows; i++) {
        const double *row = (const double *)a->queries.data + i * a->queries.row;
        const double query[] = {row[0], row[a->queries.col], row[2 * a->queries.col]};
        search_query(&tree, query, &a->hits[i]);
    }
    return STN_OK;
}

stn_status STNI_ISA_NAME(stni_surface_finish)(stn_queue *queue, const void *args)
{
    const struct stni_surface_finish_args *a = args;
    (void)queue;
    for (int64_t i = 0; i < a->n; i++)
        stni_surface_finish_one(a, i);
    return STN_OK;
}
