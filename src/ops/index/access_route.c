#include "ops/index/access_route.h"

#include "ops/index/access_kept.h"
#include "core/context/context.h"
#include "core/device/device.h"
#include "ops/placement/splits.h"

#include <string.h>

/* The chunk of positions: the values', or what they would be. Returns how many dims they have. */
static int make_positions(const struct stni_access_here *here, int64_t *shape, int64_t *offset)
{
    const stn_spec *index = here->index->spec, *table = here->table->spec;
    int n = stni_access_shape(&here->dims, table->layout.ndim, table->local_shape, index->local_shape, shape);
    stni_access_shape(&here->dims, table->layout.ndim, table->local_offset, index->local_offset, offset);
    if (here->values) {
        memcpy(shape, here->values->spec->local_shape, (size_t)n * sizeof *shape);
        memcpy(offset, here->values->spec->local_offset, (size_t)n * sizeof *offset);
    }
    return n;
}

static void make_table(const struct stni_access_here *here, const struct stni_access_attrs *attrs,
                       struct stni_access *a)
{
    const stn_spec *spec = here->table->spec;
    a->table = here->table->data;
    a->n_keys = 1;
    a->key_shape[0] = spec->local_shape[attrs->dim];
    a->key_strides[0] = here->table->strides[attrs->dim];
    a->first = spec->local_offset[attrs->dim];
    a->n = spec->layout.shape[attrs->dim];
    a->wrap = (int)attrs->wrap;
    a->skip = attrs->skip;
}

void stni_access_make(const stn_op_call *call, const stn_tensor *table, const stn_tensor *index,
                      const stn_tensor *values, struct stni_access_here *out)
{
    const struct stni_access_attrs *attrs = call->attrs;
    struct stni_access *a = &out->all;
    *out = (struct stni_access_here){.call = call, .table = table, .index = index, .values = values};
    out->dims = stni_access_dims(attrs, &index->spec->layout);
    out->axes =
        attrs->at_home ? 0 : stni_layout_axes_mask(&table->spec->layout, out->dims.dim) & index->spec->shard_axes;
    out->apart = out->axes && call->context->device->is_cpu; /* elsewhere all indices are sorted in any case */
    a->report = (struct stni_access_report){.on = !attrs->quiet, .op = (int)attrs->what};
    a->ndim = make_positions(out, a->shape, a->report.offset);
    a->index = index->data;
    a->index_dtype = index->spec->layout.dtype;
    a->values = values ? values->data : NULL;
    make_table(out, attrs, a);
    for (int p = 0; p < a->ndim; p++) {
        int t = stni_table_dim(&out->dims, p), i = stni_index_dim(&out->dims, p);
        a->index_strides[p] = i >= 0 ? index->strides[i] : 0;
        a->value_strides[p] = values ? values->strides[p] : 0;
        a->table_strides[p] = t >= 0 ? table->strides[t] : 0;
        a->base += t >= 0 ? (a->report.offset[p] - table->spec->local_offset[t]) * table->strides[t] : 0;
    }
}

enum which_dims { ALL, ROWS, SLICES };

static int is_one_of(const struct stni_access_here *here, enum which_dims which, int position)
{
    return which == ALL || stni_is_row_dim(&here->dims, position) == (which == ROWS);
}

/* Row-major strides over some dims of positions, 0 along the others. Returns how many positions they count. */
static int64_t dense(const struct stni_access_here *here, enum which_dims which, int64_t *strides)
{
    int64_t n = 1;
    for (int p = here->all.ndim - 1; p >= 0; p--) {
        strides[p] = is_one_of(here, which, p) ? n : 0;
        n *= is_one_of(here, which, p) ? here->all.shape[p] : 1;
    }
    return n;
}

int64_t stni_access_width(const struct stni_access_here *here)
{
    int64_t unused[STN_MAX_NDIM];
    return here->dims.slices ? dense(here, SLICES, unused) : 1;
}

/* Dense strides of the index over positions; returns how many there are. */
static int64_t index_strides(const struct stni_access_here *here, int64_t *strides)
{
    return dense(here, here->dims.slices ? ROWS : ALL, strides);
}

/* An element's number in the chunk of the table, were its dims but `dim` dense; returns how many there are. */
static int64_t number_elements(const struct stni_access_here *here, struct stni_access *a)
{
    const stn_spec *table = here->table->spec;
    int64_t n = 1;
    for (int d = a->ndim - 1; d >= 0; d--) {
        a->table_strides[d] = d == here->dims.dim ? 0 : n;
        a->base += (a->report.offset[d] - table->local_offset[d]) * a->table_strides[d];
        n *= d == here->dims.dim ? 1 : table->local_shape[d];
    }
    return n;
}

/* A row is a slice of the table, or an element: then its number tells its place in the owner's chunk, which is
 * sharded like this rank's in all dims but `dim`. */
static int64_t make_keys(const struct stni_access_here *here, struct stni_access_keys_args *out)
{
    struct stni_access *a = &out->at;
    int64_t each = 1;
    *a = here->all;
    index_strides(here, a->value_strides);
    a->base = 0;
    if (here->dims.slices) {
        for (int p = 0; p < a->ndim; p++)
            a->shape[p] = stni_is_row_dim(&here->dims, p) ? a->shape[p] : 1;
        memset(a->table_strides, 0, sizeof a->table_strides);
    } else {
        each = number_elements(here, a);
    }
    a->key_shape[0] = a->n;
    a->key_strides[0] = each;
    a->first = 0;
    return each;
}

/* Finds what each index that is here names, and reports those that are bad. */
static stn_status find_keys(const struct stni_access_here *here, struct stni_access_keys_args *keys, int64_t *rows_each,
                            int64_t *n)
{
    int64_t strides[STN_MAX_NDIM];
    *n = index_strides(here, strides);
    memset(keys, 0, sizeof *keys);
    *rows_each = make_keys(here, keys);
    STNI_TRY(stni_rows_memory(here->call, *n, sizeof(int64_t), &keys->keys));
    return stn_op_launch(here->call, STNI_ACCESS_KEYS, STN_DTYPE_I64, keys, sizeof *keys);
}

/* Bad indices of a route that was kept: who opens one looks at all of them. At home they are looked at again, unless
 * there is nothing to move. */
static stn_status check_again(const struct stni_access_here *here)
{
    struct stni_access_keys_args keys;
    int64_t rows_each, n;
    if (!here->all.report.on || (here->apart && stni_access_width(here) > 0))
        return STN_OK;
    return find_keys(here, &keys, &rows_each, &n);
}

stn_status stni_access_open(const struct stni_access_here *here, struct stni_rows_route *route)
{
    struct stni_access_keys_args keys;
    struct stni_rows_owners owners = {.spec = here->table->spec, .dim = here->dims.dim, .axes = here->axes,
                                      .without_own = here->apart, .lasts = stni_access_keeps(here)};
    int64_t n;
    if (stni_access_recall(here, route))
        return check_again(here);
    STNI_TRY(find_keys(here, &keys, &owners.rows_each, &n));
    struct stni_rows_plan_args plan = {.rows = keys.keys, .n = n};
    STNI_TRY(stni_rows_open(here->call, STNI_ACCESS_PLAN, &owners, &plan, route));
    if (owners.lasts)
        stni_access_keep(here, route);
    return STN_OK;
}

/* Whether a slice has no elements. */
static int slices_are_empty(const struct stni_access_here *here)
{
    const struct stni_layout *table = &here->table->spec->layout;
    int empty = 0;
    for (int d = 0; d < table->ndim; d++)
        empty |= here->dims.slices && d != here->dims.dim && table->shape[d] == 0;
    return empty;
}

stn_status stni_access_check_unmoved(const struct stni_access_here *here)
{
    struct stni_access_keys_args keys;
    int64_t rows_each, n;
    return here->all.report.on && slices_are_empty(here) ? find_keys(here, &keys, &rows_each, &n) : STN_OK;
}

/* Dims of slices after one that counts rows. */
static void add_slice_dims(const struct stni_access_here *here, struct stni_access *out)
{
    const struct stni_access *all = &here->all;
    int64_t strides[STN_MAX_NDIM];
    dense(here, SLICES, strides);
    for (int p = 0; p < all->ndim; p++) {
        if (stni_is_row_dim(&here->dims, p))
            continue;
        out->shape[out->ndim] = all->shape[p];
        out->value_strides[out->ndim] = strides[p];
        out->table_strides[out->ndim++] = all->table_strides[p];
    }
}

/* The digits of a key after the first: where the element lies in the other dims of the chunk. */
static void add_digits(const struct stni_access_here *here, struct stni_access *out)
{
    for (int d = 0; d < here->all.ndim; d++) {
        if (d == here->dims.dim)
            continue;
        out->key_shape[out->n_keys] = here->table->spec->local_shape[d];
        out->key_strides[out->n_keys++] = here->table->strides[d];
    }
}

struct stni_access stni_access_at_home(const struct stni_access_here *here, const struct stni_rows_route *route)
{
    struct stni_access a = here->all;
    a.report.on &= route->is_again;
    return a;
}

struct stni_access stni_access_at_owner(const struct stni_access_here *here, const struct stni_rows_route *route,
                                        void *rows)
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
    if (here->dims.slices) {
        a.base = all->base;
        add_slice_dims(here, &a);
    } else {
        add_digits(here, &a);
    }
    return a;
}

struct stni_access stni_access_at_asker(const struct stni_access_here *here, const struct stni_rows_route *route,
                                        void *rows)
{
    struct stni_access a = here->all;
    a.index = route->slot;
    a.index_dtype = STN_DTYPE_I64;
    index_strides(here, a.index_strides);
    a.table = rows;
    a.base = 0;
    memset(a.table_strides, 0, sizeof a.table_strides);
    if (here->dims.slices)
        dense(here, SLICES, a.table_strides);
    a.key_shape[0] = a.n = route->n_asked;
    a.key_strides[0] = stni_access_width(here);
    a.first = 0;
    a.wrap = 0;
    a.skip = 0;
    memset(&a.report, 0, sizeof a.report);
    return a;
}
