/* What kernels that put elements in order share: keys, lines, and the arguments of each kernel.
 *
 * An element's key is a whole number without sign: the smaller key comes first. All that comes after is the same for every dtype. */
#ifndef STNI_OPS_ORDER_ORDER_KERNEL_H
#define STNI_OPS_ORDER_ORDER_KERNEL_H

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>

/* NaN is the greatest number, or with `nan_first` comes before all others whichever way they are ordered. */
struct stni_order {
    stn_dtype dtype;
    int descending, nan_first;
};

/* out[i] = key of x[i * stride]. +0 and -0 have one key, and so have all NaN. */
void stni_order_keys(const struct stni_order *order, const void *x, int64_t stride, int64_t n, uint64_t *out);

/* Bits of a key that can differ: 8, 32 or 64. */
int stni_order_key_bits(stn_dtype dtype);

enum { ORDER_IN, ORDER_VALUES, ORDER_INDICES, ORDER_TENSORS };

/* Lines of the input and of what comes of them, which lies along one dim of the outputs. A line is one dim of the input, or all of them: then its
 * indices count all elements, row-major. Strides in elements. */
struct stni_order_lines {
    int ndim; /* dims beside the line, slowest first */
    int64_t shape[STN_MAX_NDIM];
    int64_t strides[ORDER_TENSORS][STN_MAX_NDIM];
    int64_t step[ORDER_TENSORS]; /* along the line, of the outputs */
    int n_along;                 /* dims of a line in the input, slowest first */
    int64_t along[STN_MAX_NDIM], along_in[STN_MAX_NDIM], along_index[STN_MAX_NDIM];
    int64_t first;               /* index of this rank's first element */
    int64_t n;                   /* elements of a line on this rank */
};

/* An element on its way to another rank: its bits, zeros above them, and its index; -1: none. */
struct stni_order_pair {
    uint64_t bits;
    int64_t index;
};

/* An element while it is put in order. `at`: where it lies in the input. */
struct stni_order_entry {
    uint64_t key;
    int64_t index, at;
};

/* The first k of each line, in order. */
struct stni_order_top_args {
    struct stni_order order;
    struct stni_order_lines lines;
    int64_t k;
    const void *in;
    void *values;
    int64_t *indices;
    struct stni_order_pair *pairs; /* not NULL: k candidates per line are written here instead */
    struct stni_order_entry *heap; /* k entries */
};

/* The same of candidates: n_parts parts of k pairs per line; the first k_out are the result. */
struct stni_order_merge_args {
    struct stni_order order;
    struct stni_order_lines lines;
    int64_t k, k_out;
    int n_parts;
    const struct stni_order_pair *pairs;
    void *values;
    int64_t *indices;
    struct stni_order_entry *heap; /* k_out entries */
};

stn_status stni_order_top_cpu(stn_queue *queue, const void *args);
stn_status stni_order_merge_cpu(stn_queue *queue, const void *args);

/* place: the elements of `part` to their indices' places in `whole`, zeros elsewhere. take: the elements of `whole` at the indices, zeros for those
 * that are not here. `lines` are those of whole (IN), part (VALUES) and indices. */
struct stni_order_along_args {
    struct stni_order_lines lines;
    size_t size; /* bytes of an element */
    size_t whole_bytes;
    int64_t k; /* elements of a line of part */
    void *whole, *part;
    const int64_t *indices;
};

stn_status stni_order_place_cpu(stn_queue *queue, const void *args);
stn_status stni_order_take_cpu(stn_queue *queue, const void *args);

/* Each line in order; equal elements keep theirs. */
struct stni_order_sort_args {
    struct stni_order order;
    struct stni_order_lines lines;
    const void *in;
    const int64_t *in_indices; /* NULL: elements are numbered from lines.first on. Else of one line, as dense as the input */
    void *values;
    int64_t *indices;
    struct stni_order_entry *work; /* 2 lines.n entries */
};

stn_status stni_order_sort_cpu(stn_queue *queue, const void *args);

#endif
