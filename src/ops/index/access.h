/* Indexed access: the two ops that all others of this folder are made of.
 *
 *     index_read    values[p] = table[… index[p] …]        gather, index_select, take_along_dim, embedding
 *     index_write   table[… index[p] …] op= values[p]      scatter and its like, index_add and its like, index_put
 *
 * p runs over positions, whose dims are the values'. The index stands for the table's dim `dim`: either it has all dims
 * of positions, which are as many as the table's (gather), or its dims take the place of `dim`, and it names whole
 * slices (index_select). Each op is the other's adjoint. */
#ifndef STNI_OPS_INDEX_ACCESS_H
#define STNI_OPS_INDEX_ACCESS_H

#include "core/tensor/tensor.h"
#include "ops/index/access_kernel.h"
#include "ops/table.h"

enum { STNI_INDEX_DTYPES = 1 << STN_DTYPE_I64 | 1 << STN_DTYPE_I32, STNI_ALL_DTYPES = (1 << STN_DTYPE_COUNT) - 1 };

/* Of both ops; those from `mode` on of a write alone. */
struct stni_access_attrs {
    int64_t dim;       /* not negative */
    int64_t slices;    /* 1: the index names slices; of a write that sets it has one dim */
    int64_t wrap;      /* 1: negative indices count from the end */
    int64_t what;      /* the op that users called, for value errors: an stni_op_index */
    int64_t quiet;     /* 1: bad indices were reported before */
    int64_t skip;      /* one more than the index that names nothing; 0: none */
    int64_t reads_all; /* 1: a read does not skip; its adjoint does */
    int64_t by_frequency; /* 1: of a read of slices: cotangents are divided by how often their slice is read */
    int64_t at_home;   /* 1: each index names what its own rank has, and all is laid so that nothing moves (named.c) */
    int64_t mode;      /* stni_access_mode */
    int64_t fresh;     /* 1: what is written to counts for nothing itself */
    stn_number value;  /* SET without values */
    stn_number scale;  /* ADD: of the values; kind NONE is 1 */
};

/* Another access by the same index, as a backward makes: a read, or a write that sets zeros or adds. */
static inline struct stni_access_attrs stni_access_like(const struct stni_access_attrs *attrs,
                                                        enum stni_access_mode mode)
{
    return (struct stni_access_attrs){.dim = attrs->dim,
                                      .slices = attrs->slices,
                                      .wrap = attrs->wrap,
                                      .what = attrs->what,
                                      .quiet = 1, /* the first one has reported */
                                      .skip = attrs->skip,
                                      .at_home = attrs->at_home,
                                      .mode = mode,
                                      .value = {STN_NUMBER_INT, 0, 0}};
}

/* Which dims of positions are which of the table and of the index. */
struct stni_access_dims {
    int dim, rows; /* positions `dim` to `dim` + `rows` - 1 are not the table's: the index stands there for `dim` */
    int slices;
};

static inline struct stni_access_dims stni_access_dims(const struct stni_access_attrs *attrs,
                                                       const struct stni_layout *index)
{
    return (struct stni_access_dims){(int)attrs->dim, attrs->slices ? index->ndim : 1, (int)attrs->slices};
}

static inline int stni_is_row_dim(const struct stni_access_dims *d, int position)
{
    return position >= d->dim && position < d->dim + d->rows;
}

/* The table's dim; -1: none. */
static inline int stni_table_dim(const struct stni_access_dims *d, int position)
{
    return stni_is_row_dim(d, position) ? -1 : position < d->dim ? position : position - d->rows + 1;
}

/* The dim of positions that a dim of the table, other than `dim`, is. */
static inline int stni_table_position(const struct stni_access_dims *d, int table_dim)
{
    return table_dim < d->dim ? table_dim : table_dim + d->rows - 1;
}

/* The index's dim; -1: none. */
static inline int stni_index_dim(const struct stni_access_dims *d, int position)
{
    return !d->slices ? position : stni_is_row_dim(d, position) ? position - d->dim : -1;
}

/* Positions of a table and an index: their shape; returns how many dims. Of shapes as of chunks. */
static inline int stni_access_shape(const struct stni_access_dims *d, int table_ndim, const int64_t *table,
                                    const int64_t *index, int64_t *out)
{
    int n = table_ndim + d->rows - 1;
    for (int p = 0; p < n; p++)
        out[p] = stni_index_dim(d, p) >= 0 ? index[stni_index_dim(d, p)] : table[stni_table_dim(d, p)];
    return n;
}

/* Inputs of index_read, and of index_write: the table (absent: zeros, laid out where that suits a tensor like LIKE),
 * the index, the values, LIKE, of which only the spec counts. */
enum { STNI_ACCESS_TABLE, STNI_ACCESS_INDEX, STNI_ACCESS_VALUES, STNI_ACCESS_LIKE };

stn_tensor *stni_index_read(stn_tensor *table, stn_tensor *index, const struct stni_access_attrs *attrs);
stn_tensor *stni_index_write(stn_tensor *table, stn_tensor *index, stn_tensor *values,
                             const struct stni_access_attrs *attrs);

/* The same on zeros of the shape and dims of `like`, in values' dtype. */
stn_tensor *stni_index_write_zeros(const stn_spec *like, stn_tensor *index, stn_tensor *values,
                                   const struct stni_access_attrs *attrs);

/* A cotangent, where indices are at home laid as what it is of. */
stn_tensor *stni_index_cotangent(stn_tensor *cotangent, const stn_spec *forward, const struct stni_access_attrs *attrs);

/* How often each row of a table that lies as `table` is named, as a column of f64. */
stn_tensor *stni_index_count_reads(stn_context *context, stn_tensor *index, const stn_spec *table,
                                   const struct stni_access_attrs *attrs);

/* Cotangents of the table and, of a write, of the values, where the call needs them. */
stn_status stni_index_read_backward(stn_backward_call *call);
stn_status stni_index_write_backward(stn_backward_call *call);

/* Layouts (access_layout.c): fill want and out_spec. */
stn_status stni_index_read_place(stn_op_call *call);
stn_status stni_index_write_place(stn_op_call *call);

/* Slots of the two ops; PLAN's kernel is that of routed rows. A read has the first three. */
enum { STNI_ACCESS_KEYS, STNI_ACCESS_PLAN, STNI_ACCESS_MOVE, STNI_ACCESS_FILL, STNI_ACCESS_CONVERT };

#endif
