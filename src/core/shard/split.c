/* Splits: where pieces begin, who holds an element, and interning. */
#include "core/shard/split.h"

#include "core/context/context.h"
#include "core/shard/tables.h"

#include <string.h>

/* Words of a key before the offsets. */
enum { KEY_N, KEY_LEVELS, KEY_PARTS };

__extension__ typedef __int128 int128;

static int piece_count(int n_levels, const int *parts)
{
    int n = 1;
    for (int l = 0; l < n_levels; l++)
        n *= parts[l];
    return n;
}

/* Offset of piece i where each level is balanced: level by level, a piece of [low, low + n) is divided again. */
static int64_t nested_offset(const struct stni_split *split, int i)
{
    if (i == split->n_parts)
        return split->n;
    int64_t low = 0, n = split->n;
    int below = split->n_parts;
    for (int l = 0; l < split->n_levels; l++) {
        int parts = split->parts[l];
        below /= parts;
        int digit = i / below % parts;
        int64_t begin = stni_balanced_offset(n, parts, digit), end = stni_balanced_offset(n, parts, digit + 1);
        low += begin;
        n = end - begin;
    }
    return low;
}

/* The part of a balanced split of n elements that holds element x. */
static int64_t balanced_find(int64_t n, int64_t parts, int64_t x)
{
    int64_t q = n / parts, longer = n % parts * (q + 1);
    return x < longer ? x / (q + 1) : n % parts + (x - longer) / q;
}

static int nested_find(const struct stni_split *split, int64_t x)
{
    int i = 0;
    int64_t n = split->n;
    for (int l = 0; l < split->n_levels; l++) {
        int parts = split->parts[l], digit = (int)balanced_find(n, parts, x);
        int64_t begin = stni_balanced_offset(n, parts, digit), end = stni_balanced_offset(n, parts, digit + 1);
        i = i * parts + digit;
        x -= begin;
        n = end - begin;
    }
    return i;
}

int64_t stni_split_offset(const struct stni_split *split, int i)
{
    return split->offsets != NULL ? split->offsets[i] : nested_offset(split, i);
}

int stni_split_find(const struct stni_split *split, int64_t x)
{
    if (split->offsets == NULL)
        return nested_find(split, x);
    /* The last piece that begins at or before x: empty pieces at x's place begin there too and stand before it. */
    int low = 0, high = split->n_parts;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (split->offsets[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int stni_split_part(const struct stni_split *split, int level, int i)
{
    for (int l = split->n_levels - 1; l > level; l--)
        i /= split->parts[l];
    return i % split->parts[level];
}

static unsigned hash_key(const int64_t *key, size_t words)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < words; i++)
        hash = stni_hash_step(hash, (uint64_t)key[i]);
    return stni_hash_end(hash);
}

/* Writes what stands before the offsets; returns its length in words. */
static int write_key(int64_t *key, int64_t n, int n_levels, const int *parts)
{
    key[KEY_N] = n;
    key[KEY_LEVELS] = n_levels;
    for (int l = 0; l < n_levels; l++)
        key[KEY_PARTS + l] = parts[l];
    return KEY_PARTS + n_levels;
}

static struct stni_split *find_key(stn_context *context, const int64_t *key, size_t words, unsigned hash)
{
    struct stni_split *found;
    HASH_FIND_BYHASHVALUE(hh, context->shard.splits, key, words * sizeof *key, hash, found);
    return found;
}

/* A split with space for `words` of key, of which the first are written. */
static struct stni_split *allocate(int64_t n, int n_levels, const int *parts, size_t words)
{
    struct stni_split *split = stni_calloc(1, sizeof *split + words * sizeof split->key[0]);
    if (split == NULL)
        return NULL;
    split->n = n;
    split->n_levels = n_levels;
    split->n_parts = piece_count(n_levels, parts);
    for (int l = 0; l < n_levels; l++)
        split->parts[l] = parts[l];
    write_key(split->key, n, n_levels, parts);
    return split;
}

static stn_status add(stn_context *context, struct stni_split *split, size_t words, unsigned hash,
                      const struct stni_split **out)
{
    size_t bytes = words * sizeof split->key[0];
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, context->shard.splits, split->key, bytes, hash, split);
    if (split->hh.tbl == NULL) {
        stni_free(split);
        return stni_fail_memory(context, "table of splits", sizeof *split);
    }
    context->shard.n_splits++;
    *out = split;
    return STN_OK;
}

stn_status stni_split_balanced(stn_context *context, int64_t n, int n_levels, const int *parts,
                               const struct stni_split **out)
{
    int64_t key[KEY_PARTS + STN_MAX_MESH_NDIM];
    size_t words = (size_t)write_key(key, n, n_levels, parts);
    unsigned hash = hash_key(key, words);
    struct stni_split *split = find_key(context, key, words, hash);
    if (split != NULL) {
        *out = split;
        return STN_OK;
    }
    split = allocate(n, n_levels, parts, words);
    if (split == NULL)
        return stni_fail_memory(context, "split", sizeof *split);
    return add(context, split, words, hash, out);
}

static int is_balanced(const struct stni_split *split, const int64_t *offsets)
{
    for (int i = 0; i <= split->n_parts; i++)
        if (offsets[i] != nested_offset(split, i))
            return 0;
    return 1;
}

/* Takes over `split`, whose offsets stand in its key: gives the interned one in its place. */
static stn_status intern_explicit(stn_context *context, struct stni_split *split, const struct stni_split **out)
{
    const int64_t *offsets = split->key + KEY_PARTS + split->n_levels;
    if (is_balanced(split, offsets)) {
        stn_status status = stni_split_balanced(context, split->n, split->n_levels, split->parts, out);
        stni_free(split);
        return status;
    }
    size_t words = (size_t)(KEY_PARTS + split->n_levels + split->n_parts + 1);
    unsigned hash = hash_key(split->key, words);
    struct stni_split *found = find_key(context, split->key, words, hash);
    if (found != NULL) {
        stni_free(split);
        *out = found;
        return STN_OK;
    }
    split->offsets = offsets;
    return add(context, split, words, hash, out);
}

/* A split with uninterned offsets to be written at *offsets. */
static stn_status begin_explicit(stn_context *context, int64_t n, int n_levels, const int *parts,
                                 struct stni_split **out, int64_t **offsets)
{
    int n_parts = piece_count(n_levels, parts);
    size_t words = (size_t)(KEY_PARTS + n_levels + n_parts + 1);
    struct stni_split *split = allocate(n, n_levels, parts, words);
    if (split == NULL)
        return stni_fail_memory(context, "split", sizeof *split + words * sizeof split->key[0]);
    *offsets = split->key + KEY_PARTS + n_levels;
    *out = split;
    return STN_OK;
}

stn_status stni_split_explicit(stn_context *context, int64_t n, int n_levels, const int *parts, const int64_t *offsets,
                               const struct stni_split **out)
{
    struct stni_split *split = NULL;
    int64_t *own = NULL;
    STNI_TRY(begin_explicit(context, n, n_levels, parts, &split, &own));
    memcpy(own, offsets, (size_t)(split->n_parts + 1) * sizeof *own);
    return intern_explicit(context, split, out);
}

/* offset'[i] = ceil(offset[i] * a / b), n' likewise. */
static stn_status scale_each(stn_context *context, const struct stni_split *in, int64_t a, int64_t b,
                             const struct stni_split **out)
{
    int64_t n = (int64_t)(((int128)in->n * a + b - 1) / b);
    struct stni_split *split = NULL;
    int64_t *offsets = NULL;
    STNI_TRY(begin_explicit(context, n, in->n_levels, in->parts, &split, &offsets));
    for (int i = 0; i <= in->n_parts; i++)
        offsets[i] = (int64_t)(((int128)stni_split_offset(in, i) * a + b - 1) / b);
    return intern_explicit(context, split, out);
}

stn_status stni_split_scaled(stn_context *context, const struct stni_split *in, int64_t n_out,
                             const struct stni_split **out)
{
    if (in->offsets == NULL || in->n == 0)
        return stni_split_balanced(context, n_out, in->n_levels, in->parts, out);
    return scale_each(context, in, n_out, in->n, out);
}

/* Whether ceil(offset / k) of the balanced split of m k elements over p parts is the balanced split of m elements.
 * With m = a p + b (b < p), b k = f p + r (r < p), offset[i] = i a k + i f + min(i, r), so ceil(offset[i] / k) = i a
 * + ceil((i f + min(i, r)) / k), and the last term must be min(i, b). It never exceeds that; it falls short at some
 * i <= b exactly if it does at the last i of each of the two linear pieces, i <= r and i > r. */
static int divides_balanced(int64_t m, int64_t k, int64_t p)
{
    int64_t b = m % p;
    int64_t f = (int64_t)((int128)b * k / p), r = (int64_t)((int128)b * k % p);
    int64_t i = b < r ? b : r;
    if (i > 0 && (int128)(i - 1) * k >= (int128)i * (f + 1))
        return 0;
    return b <= r || (int128)(b - 1) * k < (int128)b * f + r;
}

/* Equal pieces stay equal when their elements are grouped or multiplied. */
static int is_even(const struct stni_split *split)
{
    return split->offsets == NULL && split->n % split->n_parts == 0;
}

static int divides_to_balanced(const struct stni_split *in, int64_t k)
{
    if (in->n == 0)
        return 1;
    if (in->offsets != NULL)
        return 0;
    return in->n / k % in->n_parts == 0 || (in->n_levels == 1 && divides_balanced(in->n / k, k, in->parts[0]));
}

stn_status stni_split_divided(stn_context *context, const struct stni_split *in, int64_t k,
                              const struct stni_split **out)
{
    if (divides_to_balanced(in, k))
        return stni_split_balanced(context, in->n / k, in->n_levels, in->parts, out);
    return scale_each(context, in, 1, k, out);
}

stn_status stni_split_multiplied(stn_context *context, const struct stni_split *in, int64_t k,
                                 const struct stni_split **out)
{
    if (is_even(in) || in->n == 0 || k == 0)
        return stni_split_balanced(context, in->n * k, in->n_levels, in->parts, out);
    return scale_each(context, in, k, 1, out);
}

stn_status stni_split_refined(stn_context *context, const struct stni_split *in, int64_t n, int parts,
                              const struct stni_split **out)
{
    if (in == NULL)
        return stni_split_balanced(context, n, 1, &parts, out);
    int levels[STN_MAX_MESH_NDIM + 1];
    memcpy(levels, in->parts, sizeof in->parts);
    levels[in->n_levels] = parts;
    if (in->offsets == NULL)
        return stni_split_balanced(context, n, in->n_levels + 1, levels, out);
    struct stni_split *split = NULL;
    int64_t *offsets = NULL;
    STNI_TRY(begin_explicit(context, n, in->n_levels + 1, levels, &split, &offsets));
    for (int i = 0; i < in->n_parts; i++)
        for (int j = 0; j < parts; j++)
            offsets[i * parts + j] =
                in->offsets[i] + stni_balanced_offset(in->offsets[i + 1] - in->offsets[i], parts, j);
    offsets[split->n_parts] = n;
    return intern_explicit(context, split, out);
}
