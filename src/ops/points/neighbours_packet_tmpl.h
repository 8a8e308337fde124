/* A search for several queries at once, of one dtype: a template of core/box/each_float.h, behind
 * neighbours_search_tmpl.h.
 *
 * Where there are many columns most boxes are near, and most leaves are visited: so a leaf that is in the cache serves
 * all queries of a packet, and boxes are compared with all of them in vectors. */
#ifndef NAME /* read alone */
#include "ops/points/neighbours_kernel.h"
#include "core/box/as_f32.h"
#include <tgmath.h>
enum { DEPTH = 64, PACKET = 16, TOGETHER = 4, PACKET_COLUMNS = 10 };
#include "ops/points/block_box_tmpl.h"
#include "ops/points/neighbours_search_tmpl.h"
#endif

/* `query`: column by column, PACKET of each. `home`: the leaf in which a query would be, which it has visited. */
struct NAME(packet) {
    struct NAME(tree) tree;
    const ACC *query;
    struct stni_candidate *heaps;
    int64_t home[PACKET];
};

struct NAME(packet_node) {
    int64_t node, a, b;
    uint32_t active; /* queries to which the box was not too far */
};

static void NAME(box_squares)(const struct NAME(packet) *p, int64_t node, ACC *square)
{
    const int64_t d = p->tree.a->shape.d;
    const ACC *box = p->tree.boxes + node * 2 * d;
    for (int i = 0; i < PACKET; i++)
        square[i] = 0;
    for (int64_t c = 0; c < d; c++) {
        const ACC lo = box[c], hi = box[d + c], *q = p->query + c * PACKET;
#pragma omp simd
        for (int i = 0; i < PACKET; i++) {
            const ACC below = lo - q[i], above = q[i] - hi;
            const ACC t = below > 0 ? below : above > 0 ? above : 0;
            square[i] += t * t;
        }
    }
}

/* Squares of TOGETHER queries to the points of a leaf. */
static void NAME(leaf_squares)(const struct NAME(packet) *p, int64_t leaf, const int *which,
                               ACC square[TOGETHER][STNI_LEAF])
{
    const int64_t d = p->tree.a->shape.d;
    const ACC *x = p->tree.x + leaf * STNI_LEAF * d;
    memset(square, 0, TOGETHER * sizeof *square);
    for (int64_t c = 0; c < d; c++) {
        const ACC *column = x + c * STNI_LEAF, *q = p->query + c * PACKET;
        const ACC q0 = q[which[0]], q1 = q[which[1]], q2 = q[which[2]], q3 = q[which[3]];
#pragma omp simd
        for (int i = 0; i < STNI_LEAF; i++) {
            const ACC t0 = q0 - column[i], t1 = q1 - column[i], t2 = q2 - column[i], t3 = q3 - column[i];
            square[0][i] += t0 * t0;
            square[1][i] += t1 * t1;
            square[2][i] += t2 * t2;
            square[3][i] += t3 * t3;
        }
    }
}

static void NAME(visit_packet_leaf)(const struct NAME(packet) *p, int64_t leaf, uint32_t active)
{
    int which[PACKET + TOGETHER] = {0}, n = 0;
    ACC square[TOGETHER][STNI_LEAF];
    for (int i = 0; i < PACKET; i++)
        if (active >> i & 1)
            which[n++] = i;
    for (int i = 0; i < n; i += TOGETHER) {
        NAME(leaf_squares)(p, leaf, which + i, square);
        for (int j = 0; j < TOGETHER && i + j < n; j++)
            NAME(take)(&p->tree, leaf, square[j], p->heaps + which[i + j] * p->tree.a->k);
    }
}

/* Of the queries of `active`, those to which a box is not too far. */
static uint32_t NAME(near_queries)(const struct NAME(packet) *p, const ACC *square, uint32_t active)
{
    uint32_t near = 0;
    for (int i = 0; i < PACKET; i++)
        if (active >> i & 1 && !(square[i] > MATH(near_square)(p->heaps[i * p->tree.a->k].key)))
            near |= 1u << i;
    return near;
}

/* The leaf that is reached through the nearer of two boxes, again and again: its points set a first limit. */
static void NAME(visit_home)(struct NAME(packet) *p, int which, ACC *query)
{
    struct NAME(search) s = {.tree = p->tree, .query = query, .heap = p->heaps + which * p->tree.a->k};
    const int64_t d = p->tree.a->shape.d;
    int64_t node = 0, a = 0, b = stni_leaves(p->tree.a->shape.n);
    for (int64_t c = 0; c < d; c++)
        query[c] = p->query[c * PACKET + which];
    while (b - a > 1) {
        const int64_t middle = (a + b) / 2, left = node + 1, right = node + 2 * (middle - a);
        const int turned =
            NAME(box_square)(p->tree.boxes, right, query, d) < NAME(box_square)(p->tree.boxes, left, query, d);
        node = turned ? right : left;
        a = turned ? middle : a;
        b = turned ? b : middle;
    }
    p->home[which] = a;
    NAME(visit_leaf)(&s, a);
}

static void NAME(search_packet)(struct NAME(packet) *p, uint32_t active)
{
    struct NAME(packet_node) waiting[DEPTH + 1] = {{0, 0, stni_leaves(p->tree.a->shape.n), active}};
    ACC square[PACKET];
    for (int n = 1; n > 0;) {
        struct NAME(packet_node) at = waiting[--n];
        NAME(box_squares)(p, at.node, square);
        at.active = NAME(near_queries)(p, square, at.active);
        if (at.active == 0)
            continue;
        if (at.b - at.a > 1) {
            const int64_t middle = (at.a + at.b) / 2;
            waiting[n++] = (struct NAME(packet_node)){at.node + 2 * (middle - at.a), middle, at.b, at.active};
            waiting[n++] = (struct NAME(packet_node)){at.node + 1, at.a, middle, at.active};
            continue;
        }
        for (int i = 0; i < PACKET; i++)
            if (p->home[i] == at.a)
                at.active &= ~(1u << i);
        NAME(visit_packet_leaf)(p, at.a, at.active);
    }
}

/* Queries in packets; the rest is fewer than one. Returns where it begins. */
static int64_t NAME(search_packets)(const struct NAME(tree) *tree)
{
    const struct stni_near_search_args *a = tree->a;
    ACC *query = a->work, *one = query + PACKET * a->shape.d;
    struct NAME(packet) p = {.tree = *tree, .query = query};
    int64_t first = 0;
    for (; first + PACKET <= a->queries.rows; first += PACKET) {
        p.heaps = a->candidates + first * a->k;
        for (int i = 0; i < PACKET; i++)
            for (int64_t c = 0; c < a->shape.d; c++)
                query[c * PACKET + i] =
                    LOAD(((const T *)a->queries.data)[(first + i) * a->queries.row + c * a->queries.col]);
        for (int i = 0; i < PACKET; i++)
            NAME(visit_home)(&p, i, one);
        NAME(search_packet)(&p, (1u << PACKET) - 1);
    }
    return first;
}

static void NAME(search)(const struct stni_near_search_args *a)
{
    const struct NAME(tree) tree = NAME(tree_of)(a);
    for (int64_t i = 0; a->fresh && i < a->queries.rows * a->k; i++)
        a->candidates[i] = (struct stni_candidate){a->limit, -1};
    if (a->shape.n > 0)
        NAME(search_each)(&tree, a->shape.d < PACKET_COLUMNS ? 0 : NAME(search_packets)(&tree));
}
