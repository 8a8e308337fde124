/* A split: how the n elements of a dim are divided among the ranks that shard it.
 *
 * Where several axes shard a dim, the major one divides it first, and each axis after it divides each piece, so a
 * split has levels. A balanced split is in closed form and stores only these numbers; an explicit one is one
 * cumulative array over all pieces. Interned: equal splits of a context are the same pointer, and an explicit one
 * that equals the balanced one IS the balanced one. */
#ifndef STNI_CORE_SHARD_SPLIT_H
#define STNI_CORE_SHARD_SPLIT_H

#include "core/base/status.h"

#include <shardtensor/mesh.h>

#include "core/base/hash.h"

struct stni_split {
    UT_hash_handle hh;
    int refs; /* specs that use it */
    int n_levels; /* 0: one piece */
    int parts[STN_MAX_MESH_NDIM]; /* ranks of each axis, major to minor */
    int n_parts;                  /* their product */
    int64_t n;
    const int64_t *offsets; /* n_parts + 1 entries inside `key`, NULL where balanced */
    int64_t key[];          /* n, levels, parts, offsets: what is hashed and compared */
};

/* The first n mod parts pieces get one more: where piece i of n elements begins; i = parts gives n. */
static inline int64_t stni_balanced_offset(int64_t n, int64_t parts, int64_t i)
{
    int64_t q = n / parts, r = n % parts;
    return i * q + (i < r ? i : r);
}

/* First element of piece i (all levels, major slowest), 0 <= i <= n_parts. */
int64_t stni_split_offset(const struct stni_split *split, int i);

/* Piece that holds element x, 0 <= x < n: the one with offset <= x < next offset. */
int stni_split_find(const struct stni_split *split, int64_t x);

/* Which part of level `level` piece i lies in. */
int stni_split_part(const struct stni_split *split, int level, int i);

/* Interning, per context. Not retained: a new split without users lives until the next stni_shard_collect. */
stn_status stni_split_balanced(stn_context *context, int64_t n, int n_levels, const int *parts,
                               const struct stni_split **out);
stn_status stni_split_explicit(stn_context *context, int64_t n, int n_levels, const int *parts, const int64_t *offsets,
                               const struct stni_split **out);

/* Derived splits of windowed ops (contract 2): offset'[i] = ceil(offset[i] * n_out / n_in) in 128 bits; balanced
 * from balanced and where n_in is 0. */
stn_status stni_split_scaled(stn_context *context, const struct stni_split *in, int64_t n_out,
                             const struct stni_split **out);

/* Derived splits of views (contract 2): offset'[i] = ceil(offset[i] / k), also of a balanced split, so that whole
 * rows of k elements stay where they begin. k >= 1 divides n. Balanced where that is the same, found in closed form
 * for one level. */
stn_status stni_split_divided(stn_context *context, const struct stni_split *in, int64_t k,
                              const struct stni_split **out);

/* Each piece of `in` (NULL: one piece of n) divided among `parts` ranks: one more level, the minor one, balanced in
 * each piece. */
stn_status stni_split_refined(stn_context *context, const struct stni_split *in, int64_t n, int parts,
                              const struct stni_split **out);

/* offset'[i] = offset[i] * k: the split of a dim whose elements became k each. */
stn_status stni_split_multiplied(stn_context *context, const struct stni_split *in, int64_t k,
                                 const struct stni_split **out);

#endif
