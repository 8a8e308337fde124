/* What kernels that put elements in order share: keys, lines, and the arguments of each kernel.
 *
 * An element's key is a whole number without sign: the smaller key comes first. All that comes after is the same for
 * every dtype. */
#ifndef STNI_OPS_SORT_SORT_KERNEL_H
#define STNI_OPS_SORT_SORT_KERNEL_H

#include "core/base/inline.h"

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>

/* NaN is the greatest number, or with `nan_first` comes before all others whichever way they are ordered. */
struct stni_order {
    stn_dtype dtype;
    int descending, nan_first;
};

/* out[i] = key of x[i * stride]. +0 and -0 have one key, and so have all NaN. */
void stni_sort_keys(const struct stni_order *order, const void *x, int64_t stride, int64_t n, uint64_t *out);

enum { ORDER_IN, ORDER_VALUES, ORDER_INDICES, ORDER_TENSORS };

/* Lines of the input and of what comes of them, which lies along one dim of the outputs. A line is one dim of the
 * input, or all of them: then its indices count all elements, row-major. Strides in elements. */
struct stni_sort_lines {
    int ndim; /* dims beside the line, slowest first */
    int64_t shape[STN_MAX_NDIM];
    int64_t strides[ORDER_TENSORS][STN_MAX_NDIM];
    int64_t step[ORDER_TENSORS]; /* along the line, of the outputs */
    int n_along;                 /* dims of a line in the input, slowest first */
    int64_t along[STN_MAX_NDIM], along_in[STN_MAX_NDIM], along_index[STN_MAX_NDIM];
    int64_t first; /* index of this rank's first element */
    int64_t n;     /* elements of a line on this rank */
};

STNI_INLINE int64_t order_line_count(const struct stni_sort_lines *lines)
{
    int64_t n = 1;
    for (int d = 0; d < lines->ndim; d++)
        n *= lines->shape[d];
    return n;
}

/* Where line l begins in a tensor. */
STNI_INLINE int64_t order_line_at(const struct stni_sort_lines *lines, int tensor, int64_t l)
{
    int64_t at = 0;
    for (int d = lines->ndim - 1; d >= 0; d--) {
        at += l % lines->shape[d] * lines->strides[tensor][d];
        l /= lines->shape[d];
    }
    return at;
}

/* An element on its way to another rank: its bits, zeros above them, and its index; -1: none. */
struct stni_sort_pair {
    uint64_t bits;
    int64_t index;
};

/* An element while it is put in order. `at`: where it lies in the input. */
struct stni_sort_entry {
    uint64_t key;
    int64_t index, at;
};

/* The first k of each of some lines, in order. */
struct stni_sort_top_args {
    struct stni_order order;
    struct stni_sort_lines lines;
    int64_t k;
    const void *in;
    void *values;
    int64_t *indices;
    struct stni_sort_pair *pairs; /* not NULL: k candidates per line are written here instead */
    void *work;                   /* as many bytes as the kernel asks for */
    int64_t first_line, n_lines;
};

/* The same of candidates: n_parts parts of k pairs per line; the first k_out are the result. */
struct stni_sort_merge_args {
    struct stni_order order;
    struct stni_sort_lines lines;
    int64_t k, k_out;
    int n_parts;
    const struct stni_sort_pair *pairs;
    void *values;
    int64_t *indices;
    void *work; /* as many bytes as the kernel asks for */
    int64_t first_line, n_lines;
};

stn_status stni_sort_top_cpu(stn_queue *queue, const void *args);
size_t stni_sort_top_workspace(stn_queue *queue, const void *args);
stn_status stni_sort_merge_cpu(stn_queue *queue, const void *args);
size_t stni_sort_merge_workspace(stn_queue *queue, const void *args);

/* place: the elements of `part` to their indices' places in `whole`, zeros elsewhere. take: the elements of `whole`
 * at the indices, zeros for those that are not here. `lines` are those of whole (IN), part (VALUES) and indices. */
struct stni_sort_along_args {
    struct stni_sort_lines lines;
    size_t size; /* bytes of an element */
    size_t whole_bytes;
    int64_t k; /* elements of a line of part */
    void *whole, *part;
    const int64_t *indices;
};

stn_status stni_sort_place_cpu(stn_queue *queue, const void *args);
stn_status stni_sort_take_cpu(stn_queue *queue, const void *args);

/* Elements of a line and their indices, sorted by the piece in which the index lies, and how many there are for each
 * rank. */
struct stni_sort_pack_args {
    size_t size; /* bytes of an element */
    int64_t n;
    const void *grad;
    int64_t grad_step;
    const int64_t *indices;
    int64_t indices_step;
    int n_pieces;
    const int64_t *begins, *pieces; /* of pieces, and one more; of ranks */
    void *packed;
    int64_t *packed_indices; /* either may be NULL */
    int64_t *counts;
    int64_t *work; /* as many bytes as the kernel asks for */
};

stn_status stni_sort_pack_cpu(stn_queue *queue, const void *args);
size_t stni_sort_pack_workspace(stn_queue *queue, const void *args);

/* A stable sort of each line, one dim of the input. */
struct stni_sort_sort_args {
    struct stni_order order;
    struct stni_sort_lines lines;
    const void *in;
    void *values;
    int64_t *indices;
    void *work; /* as many bytes as the kernel asks for */
};

stn_status stni_sort_sort_cpu(stn_queue *queue, const void *args);
size_t stni_sort_sort_workspace(stn_queue *queue, const void *args);

/* What is left of a run, and the key of its next element. */
struct stni_sort_run {
    uint64_t key;
    int64_t at, end;
    int64_t piece;
};

/* A stable merge of dense runs in order, one from each rank, that lie in the order of the pieces of these ranks. */
struct stni_sort_runs_args {
    struct stni_order order;
    int n_pieces;
    const int64_t *counts, *pieces; /* of each rank */
    const void *in;
    const int64_t *in_indices;
    void *values;
    int64_t *indices;
    struct stni_sort_run *runs; /* n_pieces */
    int64_t n;                  /* elements of all runs */
};

stn_status stni_sort_runs_cpu(stn_queue *queue, const void *args);

/* Selection by counting (a distributed radix select). The element of a given place in a line that ranks share is
 * found digit by digit of its key, then of its index: each rank counts, for every value of the next digit, its
 * elements that share the digits found so far; the counts are summed over the ranks, and every rank then knows the
 * next digit. */
enum { ORDER_DIGITS = 256 };

/* The digits that are known of the target, and its place among the elements that share them. */
struct stni_sort_target {
    uint64_t key, index;
    int64_t place;
};

/* Digits of a key come first, then those of an index below n. */
struct stni_sort_digits {
    int of_key, of_index;
};

struct stni_sort_digits stni_sort_digits(stn_dtype dtype, int64_t n);

/* counts[target][digit]: of each line, whose target is the one of its number; or, where the one line is in order and
 * dense with its indices, of each target. */
struct stni_sort_count_args {
    struct stni_order order;
    struct stni_sort_lines lines;
    struct stni_sort_digits digits;
    int round;
    const void *in;
    const int64_t *sorted_indices; /* NULL: lines */
    int64_t n_targets;
    const struct stni_sort_target *targets;
    int64_t *counts;
};

/* The next digit of each target. Round -1 begins: all want `place`, or where `nans` counts some in its line, the
 * first of them. */
struct stni_sort_narrow_args {
    struct stni_sort_digits digits;
    int round;
    int64_t n_targets, place;
    const int64_t *counts, *nans;
    struct stni_sort_target *targets;
};

/* nans[line]: how many there are here. */
struct stni_sort_nans_args {
    struct stni_order order;
    struct stni_sort_lines lines;
    const void *in;
    int64_t *nans;
};

/* find: bits[line] = the target's where it is here, else 0. store: values and indices, from the sum of these. */
struct stni_sort_find_args {
    struct stni_order order;
    struct stni_sort_lines lines;
    const struct stni_sort_target *targets;
    uint64_t *bits;
    const void *in;
    void *values;
    int64_t *indices;
};

stn_status stni_sort_count_cpu(stn_queue *queue, const void *args);
stn_status stni_sort_narrow_cpu(stn_queue *queue, const void *args);
stn_status stni_sort_nans_cpu(stn_queue *queue, const void *args);
stn_status stni_sort_find_cpu(stn_queue *queue, const void *args);
stn_status stni_sort_store_cpu(stn_queue *queue, const void *args);

/* How many elements of a line in order come before each of the places where pieces begin, and so go to each rank. */
struct stni_sort_deal_args {
    struct stni_order order;
    int64_t n; /* elements of this rank */
    const void *values;
    const int64_t *indices;
    int n_pieces;
    int64_t n_all;
    const int64_t *begins;                  /* of pieces; what begins at n_all has nothing behind it */
    const int64_t *pieces;                  /* of each rank */
    const struct stni_sort_target *targets; /* the first element of pieces 1, 2, … */
    int64_t *counts;                        /* for each rank */
};

stn_status stni_sort_deal_cpu(stn_queue *queue, const void *args);

/* Element `place` of each line, counted from 0; with `nans`, the first NaN where there is one. */
struct stni_sort_select_args {
    struct stni_order order;
    struct stni_sort_lines lines;
    int64_t place;
    int nans;
    const void *in;
    void *values;
    int64_t *indices;
    void *work; /* as many bytes as the kernel asks for */
};

stn_status stni_sort_select_cpu(stn_queue *queue, const void *args);
size_t stni_sort_select_workspace(stn_queue *queue, const void *args);

/* out[i] = how many elements of a sequence in order come before value i, or are equal to it and `right`. Lines are
 * those of the sequence (IN), of the values (VALUES) and of out (INDICES); the dims along them are those of the
 * values alone, with along_index the strides of out. */
struct stni_sort_search_args {
    struct stni_order order;
    struct stni_sort_lines lines;
    int64_t n, step; /* of a sequence */
    int right;
    stn_dtype out_dtype;
    const void *sequence, *values; /* values NULL: `bits` is the one */
    uint64_t bits;
    void *out;
    void *work; /* as many bytes as the kernel asks for; NULL where that is 0 */
};

stn_status stni_sort_search_cpu(stn_queue *queue, const void *args);
size_t stni_sort_search_workspace(stn_queue *queue, const void *args);

/* range: lowest negated and highest element, -inf where there is none. count: elements by bins of equal width from
 * low to high, or from the range where these are equal. store: counts as elements of out. */
struct stni_sort_histogram_args {
    stn_dtype dtype;
    struct stni_sort_lines lines; /* one */
    const void *in;
    double low, high;
    int64_t bins;
    double *range; /* NULL: low and high hold */
    int64_t *counts;
    void *out;
    int op; /* whose value error a range without ends is */
};

/* The ends between which bins lie. */
STNI_INLINE void stni_sort_histogram_ends(const struct stni_sort_histogram_args *a, double *low, double *high)
{
    *low = a->range ? -a->range[0] : a->low;
    *high = a->range ? a->range[1] : a->high;
    if (*low == *high) {
        *low -= 1;
        *high += 1;
    }
}

/* The bin of x; -1: it lies outside, or is not a number. Ends so far apart that a double does not hold bins times their
 * distance are brought nearer, which changes no digit. Ends that 1 does not move are one, in the middle. */
STNI_INLINE int64_t stni_sort_histogram_bin(double x, double low, double high, int64_t bins)
{
    const double scale = high - low < 0x1p1022 / (double)bins ? 1 : 0x1p-70;
    if (!(x >= low && x <= high))
        return -1;
    if (low == high)
        return bins / 2;
    const int64_t bin = (int64_t)((x * scale - low * scale) * (double)bins / (high * scale - low * scale));
    return bin < bins ? bin : bins - 1;
}

stn_status stni_sort_range_cpu(stn_queue *queue, const void *args);
stn_status stni_sort_histogram_cpu(stn_queue *queue, const void *args);
stn_status stni_sort_histogram_store_cpu(stn_queue *queue, const void *args);

#endif
