#include "ops/index/access_route.h"

#include "ops/util/cuts.h"

#include <string.h>

static const struct stni_access_attrs *attrs_of(const struct stni_access_here *here)
{
    return here->call->attrs;
}

/* The chunk of positions: the values', or what they would be. */
static void make_positions(const struct stni_access_here *here, int64_t *shape, int64_t *offset)
{
    const struct stni_access_attrs *attrs = attrs_of(here);
    const stn_spec *index = here->index->spec;
    const stn_spec *from = here->values ? here->values->spec : attrs->line ? here->table->spec : index;
    memcpy(shape, from->local_shape, STN_MAX_NDIM * sizeof *shape);
    memcpy(offset, from->local_offset, STN_MAX_NDIM * sizeof *offset);
    shape[attrs->dim] = index->local_shape[attrs->line ? 0 : attrs->dim];
    offset[attrs->dim] = index->local_offset[attrs->line ? 0 : attrs->dim];
}

void stni_access_make(const stn_op_call *call, const stn_tensor *table, const stn_tensor *index, const stn_tensor *values,
                      struct stni_access_here *out)
{
    const struct stni_access_attrs *attrs = call->attrs;
    const stn_spec *spec = table->spec;
    int64_t offset[STN_MAX_NDIM];
    *out = (struct stni_access_here){.call = call, .table = table, .index = index, .values = values};
    struct stni_access *a = &out->all;
    out->axes = stni_layout_axes_mask(&spec->layout, (int)attrs->dim) & index->spec->shard_axes;
    a->ndim = spec->layout.ndim;
    make_positions(out, a->shape, offset);
    a->index = index->data;
    a->index_dtype = index->spec->layout.dtype;
    a->table = table->data;
    a->values = values ? values->data : NULL;
    for (int d = 0; d < a->ndim; d++) {
        int here = d == attrs->dim;
        a->index_strides[d] = !attrs->line ? index->strides[d] : here ? index->strides[0] : 0;
        a->value_strides[d] = values ? values->strides[d] : 0;
        a->table_strides[d] = here ? 0 : table->strides[d];
        a->base += here ? 0 : (offset[d] - spec->local_offset[d]) * table->strides[d];
    }
    a->n_keys = 1;
    a->key_shape[0] = spec->local_shape[attrs->dim];
    a->key_strides[0] = table->strides[attrs->dim];
    a->first = spec->local_offset[attrs->dim];
    a->n = spec->layout.shape[attrs->dim];
    a->wrap = (int)attrs->wrap;
    a->report = (struct stni_access_report){.context = attrs->quiet ? NULL : call->context, .what = stni_op_table[attrs->what]->name};
    memcpy(a->report.offset, offset, sizeof offset);
}

/* Row-major strides over the dims that `skip` is not. Returns how many elements they count. */
static int64_t dense(int ndim, const int64_t *shape, int skip, int64_t *strides)
{
    int64_t n = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        strides[d] = d == skip ? 0 : n;
        n *= d == skip ? 1 : shape[d];
    }
    return n;
}

int64_t stni_access_width(const struct stni_access_here *here)
{
    int64_t unused[STN_MAX_NDIM];
    return attrs_of(here)->line ? dense(here->all.ndim, here->all.shape, (int)attrs_of(here)->dim, unused) : 1;
}

/* Dense strides of the index over positions; returns how many there are. */
static int64_t index_strides(const struct stni_access_here *here, int64_t *strides)
{
    const struct stni_access *a = &here->all;
    if (!attrs_of(here)->line)
        return dense(a->ndim, a->shape, -1, strides);
    memset(strides, 0, STN_MAX_NDIM * sizeof *strides);
    strides[attrs_of(here)->dim] = 1;
    return a->shape[attrs_of(here)->dim];
}

/* A row is a slice of the table, or an element: then its number has the element's place in the owner's chunk, which is cut like this rank's in all
 * dims but `dim`. */
static int64_t make_keys(const struct stni_access_here *here, struct stni_access_keys_args *out)
{
    const stn_spec *table = here->table->spec;
    int64_t offset[STN_MAX_NDIM], shape[STN_MAX_NDIM], each = 1;
    int dim = (int)attrs_of(here)->dim;
    struct stni_access *a = &out->at;
    *a = here->all;
    index_strides(here, a->value_strides);
    make_positions(here, shape, offset);
    a->base = 0;
    if (attrs_of(here)->line) {
        for (int d = 0; d < a->ndim; d++)
            a->shape[d] = d == dim ? a->shape[d] : 1;
        memset(a->table_strides, 0, sizeof a->table_strides);
    } else {
        each = dense(a->ndim, table->local_shape, dim, a->table_strides);
        for (int d = 0; d < a->ndim; d++)
            a->base += d == dim ? 0 : (offset[d] - table->local_offset[d]) * a->table_strides[d];
    }
    a->key_shape[0] = a->n;
    a->key_strides[0] = each;
    a->first = 0;
    return each;
}

stn_status stni_access_open(const struct stni_access_here *here, struct stni_rows_route *route)
{
    int64_t strides[STN_MAX_NDIM], n = index_strides(here, strides);
    struct stni_rows_plan_args plan = {.index_dtype = STN_DTYPE_I64, .skip = -1};
    struct stni_access_keys_args keys;
    memset(&keys, 0, sizeof keys);
    struct stni_rows_owners owners = {.spec = here->table->spec, .dim = (int)attrs_of(here)->dim, .axes = here->axes};
    owners.rows_each = make_keys(here, &keys);
    STNI_TRY(stni_rows_memory(here->call, n, sizeof(int64_t), &keys.keys));
    STNI_TRY(stn_op_launch(here->call, STNI_ACCESS_KEYS, STN_DTYPE_I64, &keys, sizeof keys));
    plan.index = stni_rows_dense(keys.keys, n, 1);
    return stni_rows_open(here->call, STNI_ACCESS_PLAN, &owners, &plan, route);
}

/* Dims of positions other than `dim` after one that counts rows. */
static void add_slice_dims(const struct stni_access_here *here, struct stni_access *out)
{
    const struct stni_access *all = &here->all;
    int64_t strides[STN_MAX_NDIM];
    dense(all->ndim, all->shape, (int)attrs_of(here)->dim, strides);
    for (int d = 0; d < all->ndim; d++) {
        if (d == attrs_of(here)->dim)
            continue;
        out->shape[out->ndim] = all->shape[d];
        out->value_strides[out->ndim] = strides[d];
        out->table_strides[out->ndim++] = all->table_strides[d];
    }
}

/* The digits of a key after the first: where the element lies in the other dims of the chunk. */
static void add_digits(const struct stni_access_here *here, struct stni_access *out)
{
    const stn_tensor *table = here->table;
    for (int d = 0; d < here->all.ndim; d++) {
        if (d == attrs_of(here)->dim)
            continue;
        out->key_shape[out->n_keys] = table->spec->local_shape[d];
        out->key_strides[out->n_keys++] = here->table->strides[d];
    }
}

struct stni_access stni_access_at_owner(const struct stni_access_here *here, const struct stni_rows_route *route, void *rows)
{
    struct stni_access a = {.ndim = 1, .index_dtype = STN_DTYPE_I64};
    const struct stni_access *all = &here->all;
    a.shape[0] = route->n_received;
    a.index = route->received;
    a.index_strides[0] = 1;
    a.values = rows;
    a.value_strides[0] = stni_access_width(here);
    a.table = all->table;
    a.n_keys = 1;
    a.key_shape[0] = all->key_shape[0];
    a.key_strides[0] = all->key_strides[0];
    a.first = all->first;
    a.n = all->n;
    if (attrs_of(here)->line) {
        a.base = all->base;
        add_slice_dims(here, &a);
    } else {
        add_digits(here, &a);
    }
    return a;
}

struct stni_access stni_access_at_asker(const struct stni_access_here *here, const struct stni_rows_route *route, void *rows)
{
    struct stni_access a = here->all;
    a.index = route->slot;
    a.index_dtype = STN_DTYPE_I64;
    index_strides(here, a.index_strides);
    a.table = rows;
    a.base = 0;
    memset(a.table_strides, 0, sizeof a.table_strides);
    if (attrs_of(here)->line)
        dense(a.ndim, a.shape, (int)attrs_of(here)->dim, a.table_strides);
    a.key_shape[0] = a.n = route->n_asked;
    a.key_strides[0] = stni_access_width(here);
    a.first = 0;
    a.wrap = 0;
    memset(&a.report, 0, sizeof a.report);
    return a;
}
