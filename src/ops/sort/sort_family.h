/* What the ops of this family share: lines of tensors, candidates of ranks, and the way back from values to the
 * elements that they are. */
#ifndef STNI_OPS_SORT_SORT_H
#define STNI_OPS_SORT_SORT_H

#include "core/tensor/tensor.h"
#include "ops/sort/sort_kernel.h"
#include "ops/table.h"

enum {
    STNI_SORT_FLOATING = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16,
    STNI_SORT_DTYPES = STNI_SORT_FLOATING | 1 << STN_DTYPE_I64 | 1 << STN_DTYPE_I32 | 1 << STN_DTYPE_U8 |
                       1 << STN_DTYPE_BOOL | 1 << STN_DTYPE_I8 | 1 << STN_DTYPE_I16,
    STNI_SORT_ALL = (1 << STN_DTYPE_COUNT) - 1
};

/* Lines along the dims of a mask: one dim, or all. Outputs lack these dims, or have them with `keepdim`; they may be
 * NULL. */
void stni_sort_lines_make(struct stni_sort_lines *lines, uint32_t dims, int keepdim, const stn_tensor *in,
                          const stn_tensor *values, const stn_tensor *indices);

/* Checks input 0: its dtype has an order, `dim` is one of its dims, and a line has at least one element where
 * `needs_elements`. `dim` absent means all dims; *dims is a mask. */
stn_status stni_sort_check(const stn_op_call *call, const stn_ints *dim, int needs_elements, uint32_t *dims);

/* The same of a call that has been checked. */
uint32_t stni_sort_dims(const stn_op_call *call, const stn_ints *dim);

/* For an op that gives `n` values of each line of input 0, and their indices, as outputs 0 and 1: their metadata;
 * and, when the input is wanted as `in`, their specs. The note: the axes whose ranks share lines. */
void stni_sort_line_metas(stn_op_call *call, uint32_t dims, int keepdim, int64_t n);
stn_status stni_sort_line_specs(stn_op_call *call, struct stni_layout *in, uint32_t dims, int keepdim);

/* Values and indices of an op that gives both. `indices` may be NULL. */
stn_tensor *stni_sort_call(enum stni_op_index op, stn_tensor *input, const void *attrs, stn_tensor **indices);

/* Calls of typed functions. */
stn_ints stni_sort_dim(const int *dim);

/* order_top: the first k of each line. */
struct stni_sort_top_attrs {
    stn_ints dim; /* absent: all */
    int64_t k, largest, nan_first, keepdim;
};

/* order_select: element k (from 1) of each line. */
struct stni_sort_select_attrs {
    stn_ints dim; /* absent: all */
    int64_t k, nans, keepdim;
};

/* order_search: places of values in a sequence along its last dim. */
struct stni_sort_search_attrs {
    stn_number value; /* without values */
    int64_t right, out_int32;
};

/* order_sort: a stable sort of a dim. */
struct stni_sort_sort_attrs {
    int64_t dim, descending;
};

/* One line that ranks share, sorted by them together: each rank ends with the part of the line that its layout gives
 * it. `axes`: those that cut the dim. */
enum { STNI_SORT_SORT, STNI_SORT_COUNT, STNI_SORT_NARROW, STNI_SORT_DEAL, STNI_SORT_RUNS, STNI_SORT_SORT_SLOTS };
stn_status stni_sort_sort_shared(const stn_op_call *call, int dim, uint32_t axes, struct stni_order order);

/* What a choice by counting works on; its kernels are the slots `count` and `narrow` of the op. */
struct stni_sort_choice {
    const stn_op_call *call;
    stn_comm *comm;
    int count_slot, narrow_slot;
    int64_t n; /* elements of a line, of all ranks */
    struct stni_sort_count_args count;
};

/* Finds the keys and indices of choice->count.targets, whose places are set. */
stn_status stni_sort_choose(struct stni_sort_choice *choice, struct stni_sort_target *targets);

/* How a dim that has to be seen as a whole is dealt with. */
enum stni_sort_way {
    STNI_SORT_HERE,  /* it is whole */
    STNI_SORT_RECUT, /* what cuts it cuts `other` instead */
    STNI_SORT_SHARED /* no other dim is long enough: its ranks work together */
};

enum stni_sort_way stni_sort_way(const struct stni_layout *layout, int dim, int *other);

/* Lines along a dim, of all ranks: the elements beside it. */
int64_t stni_sort_lines_of(const struct stni_layout *layout, int dim);

/* Every rank's `count` numbers of `own` in `all`, in the order of ranks. */
stn_status stni_sort_gather(const stn_op_call *call, stn_comm *comm, const void *own, void *all, int64_t count);

/* Whether this rank has lines along `dim`: a dim beside them may be empty here, and then is so for all that share
 * them. */
int stni_sort_has_lines(const stn_spec *spec, int dim);

/* sort_backward: the elements of a sorted line that is sharded, put back where they were before the sort. `indices`
 * are those that the sort gave. */
stn_tensor *stni_sort_send_back(stn_tensor *grad, stn_tensor *indices, int dim);

/* grad's elements, one per index, at their places along `dim` of a tensor of spec `like`, zeros elsewhere. No line
 * names an element twice. Without `keepdim` grad and indices lack the dim. In the layout of `like`, if that is not
 * Partial; linear in grad. */
stn_tensor *stni_sort_place(stn_tensor *grad, stn_tensor *indices, const stn_spec *like, int dim, int keepdim);

/* The gradient of one value that stands for all elements that equal it: they share it in equal parts. */
stn_tensor *stni_sort_share(stn_tensor *grad, stn_tensor *input, stn_tensor *value);

#endif
