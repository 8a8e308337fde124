/* A search in a tree of points, of one dtype: a template of core/box/each_float.h. From the root the nearer child comes
 * first, and what is farther than the farthest candidate is left out. */
#ifndef NAME /* read alone */
#include "ops/points/neighbours_kernel.h"
#include "core/box/as_f32.h"
#include <tgmath.h>
enum { DEPTH = 64 };
#include "ops/points/block_box_tmpl.h"
#endif

/* A block as its kernel sees it. */
struct NAME(tree) {
    const struct stni_near_search_args *a;
    const int64_t *index;
    const ACC *x, *boxes;
};

struct NAME(search) {
    struct NAME(tree) tree;
    const ACC *query;
    struct stni_candidate *heap;
};

/* Leaves a to b - 1, how far their box, number `node`, is. */
struct NAME(node) {
    int64_t node, a, b;
    ACC square;
};

/* Candidates among the points of a leaf, with their squares. `!(x > y)` is true of NaN, which a candidate may be. */
static inline void NAME(take)(const struct NAME(tree) *tree, int64_t leaf, const ACC *square,
                              struct stni_candidate *heap)
{
    const int64_t first = leaf * STNI_LEAF,
                  n = tree->a->shape.n - first < STNI_LEAF ? tree->a->shape.n - first : STNI_LEAF;
    ACC farthest = MATH(near_square)(heap[0].key);
    int any = 0;
#pragma omp simd reduction(| : any)
    for (int i = 0; i < STNI_LEAF; i++)
        any |= !(square[i] > farthest);
    if (!any)
        return;
    for (int64_t i = 0; i < n; i++)
        if (!(square[i] > farthest)) {
            stni_near_put(heap, tree->a->k, (struct stni_candidate){MATH(near_key)(square[i]), tree->index[first + i]});
            farthest = MATH(near_square)(heap[0].key);
        }
}

static void NAME(visit_leaf)(const struct NAME(search) *s, int64_t leaf)
{
    const int64_t d = s->tree.a->shape.d;
    const ACC *x = s->tree.x + leaf * STNI_LEAF * d;
    ACC square[STNI_LEAF] = {0};
    for (int64_t c = 0; c < d; c++) {
        const ACC q = s->query[c], *column = x + c * STNI_LEAF;
#pragma omp simd
        for (int i = 0; i < STNI_LEAF; i++) {
            const ACC t = q - column[i];
            square[i] += t * t;
        }
    }
    NAME(take)(&s->tree, leaf, square, s->heap);
}

/* The nearer child first; the other one waits. No more wait than the tree is deep. */
static void NAME(search_query)(const struct NAME(search) *s)
{
    struct NAME(node) waiting[DEPTH], at = {0, 0, stni_leaves(s->tree.a->shape.n), 0};
    int n = 0;
    for (;;) {
        if (at.square > MATH(near_square)(s->heap[0].key)) {
            if (n == 0)
                return;
            at = waiting[--n];
            continue;
        }
        if (at.b - at.a == 1) {
            NAME(visit_leaf)(s, at.a);
            if (n == 0)
                return;
            at = waiting[--n];
            continue;
        }
        const int64_t middle = (at.a + at.b) / 2;
        struct NAME(node) near = {at.node + 1, at.a, middle, 0}, far = {at.node + 2 * (middle - at.a), middle, at.b, 0};
        near.square = NAME(box_square)(s->tree.boxes, near.node, s->query, s->tree.a->shape.d);
        far.square = NAME(box_square)(s->tree.boxes, far.node, s->query, s->tree.a->shape.d);
        const int turned = far.square < near.square;
        waiting[n++] = turned ? near : far;
        at = turned ? far : near;
    }
}

static struct NAME(tree) NAME(tree_of)(const struct stni_near_search_args *a)
{
    const struct stni_block_layout at = stni_block_layout(&a->shape, 1);
    const char *block = a->block;
    struct NAME(tree) tree = {.a = a};
    if (a->shape.n > 0) {
        tree.index = (const int64_t *)(const void *)(block + at.indices);
        tree.x = (const ACC *)(const void *)(block + at.coordinates);
        tree.boxes = (const ACC *)(const void *)(block + at.boxes);
    }
    return tree;
}

/* Queries from `first` on, one by one. */
static void NAME(search_each)(const struct NAME(tree) *tree, int64_t first)
{
    const struct stni_near_search_args *a = tree->a;
    ACC *query = a->work;
    struct NAME(search) s = {.tree = *tree, .query = query};
    for (int64_t i = first; i < a->queries.rows; i++) {
        const T *row = (const T *)a->queries.data + i * a->queries.row;
        s.heap = a->candidates + i * a->k;
        for (int64_t c = 0; c < a->shape.d; c++)
            query[c] = LOAD(row[c * a->queries.col]);
        NAME(search_query)(&s);
    }
}

static void NAME(finish)(const struct stni_near_finish_args *a)
{
    T *distances = a->distances;
    for (int64_t i = 0; i < a->n; i++) {
        struct stni_candidate *heap = a->candidates + i * a->k;
        int64_t found = 0;
        for (int64_t part = 1; part < a->parts; part++)
            for (int64_t j = 0; j < a->k; j++) {
                const struct stni_candidate candidate = a->candidates[(part * a->n + i) * a->k + j];
                if (candidate.index >= 0)
                    stni_near_put(heap, a->k, candidate);
            }
        stni_near_sort(heap, a->k);
        for (int64_t j = 0; j < a->k; j++) {
            const int there = heap[j].index >= 0;
            found += there;
            a->indices[i * a->k + j] = there ? heap[j].index : 0;
            const ACC distance = there ? sqrt(MATH(near_square)(heap[j].key)) : 0;
            distances[i * a->k + j] = STORE(distance);
        }
        if (a->counts)
            a->counts[i] = found;
    }
}
