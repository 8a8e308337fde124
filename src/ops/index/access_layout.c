/* Layouts of indexed access: what each mesh axis does to table, index and values.
 *
 * All of the table's dims but `dim` are dims of positions too; where the table's are sharded the positions' must be
 * sharded alike. Along `dim` there are three ways: every rank along the axis has all indices, and serves those that
 * name its own piece (no exchange); or indices are sharded, and are sent to the owners of the elements (routed); or
 * the table is not sharded, and indices stay where they are. */
#include "ops/index/access.h"

#include "ops/placement/splits.h"

#include <string.h>

/* Placements of the index are those of positions, which are the values': what is read, or what is written. */
struct layouts {
    struct stni_access_dims dims;
    int axes;
    int ordered; /* of several values for one element the last one must win */
    struct stni_layout table, index, values;
};

static int is_shard(stn_placement p)
{
    return p.kind == STN_PLACE_SHARD;
}

static int is_partial(stn_placement p)
{
    return p.kind == STN_PLACE_PARTIAL;
}

static int is_sum(stn_placement p)
{
    return is_partial(p) && p.op == STN_SUM;
}

/* The dim that an axis cuts; -1: none. */
static int cut_of(stn_placement p)
{
    return is_shard(p) ? p.dim : -1;
}

/* Whether another axis cuts the table's dim that a dim of positions is. */
static int other_axis_cuts(const struct layouts *l, int axis, int position)
{
    int dim = stni_table_dim(&l->dims, position);
    for (int a = 0; a < l->axes && dim >= 0; a++)
        if (a != axis && cut_of(l->table.placement[a]) == dim)
            return 1;
    return 0;
}

/* Whether an axis that cuts the table cuts another dim than `dim`. */
static int cuts_slices(const struct layouts *l, stn_placement table)
{
    return is_shard(table) && table.dim != l->dims.dim;
}

/* The index along an axis that cuts a dim of positions. */
static stn_placement index_along(const struct layouts *l, int position)
{
    return stni_index_dim(&l->dims, position) >= 0 ? stn_shard(position) : stn_replicate();
}

/* The table along an axis that cuts a dim of positions, so that nothing is exchanged. */
static stn_placement table_along(const struct layouts *l, int position)
{
    return stn_shard(stni_is_row_dim(&l->dims, position) ? l->dims.dim : stni_table_dim(&l->dims, position));
}

static void begin(const stn_op_call *call, struct layouts *l)
{
    const struct stni_access_attrs *attrs = call->attrs;
    const stn_spec *table = call->in_spec[STNI_ACCESS_TABLE];
    memset(l, 0, sizeof *l);
    l->table = table ? table->layout : call->in_spec[STNI_ACCESS_LIKE]->layout;
    l->index = call->in_spec[STNI_ACCESS_INDEX]->layout;
    l->dims = stni_access_dims(attrs, &l->index);
    l->axes = l->table.mesh ? l->table.mesh->ndim : 0;
    for (int a = 0; a < l->axes && l->dims.slices; a++)
        if (is_shard(l->index.placement[a]))
            l->index.placement[a].dim = (int8_t)(l->index.placement[a].dim + l->dims.dim);
}

/* Reading */

/* Slices are sharded along the axis, and the index too: which of the two is to be whole. */
static int table_is_smaller(const struct layouts *l)
{
    int64_t table = (int64_t)stn_dtype_size(l->table.dtype), index = (int64_t)stn_dtype_size(l->index.dtype);
    for (int d = 0; d < l->table.ndim; d++)
        table *= l->table.shape[d];
    for (int d = 0; d < l->index.ndim; d++)
        index *= l->index.shape[d];
    return l->dims.slices && table < index;
}

static void read_axis(struct layouts *l, int a)
{
    stn_placement *t = &l->table.placement[a], *i = &l->index.placement[a], *v = &l->values.placement[a];
    if (is_partial(*i))
        *i = stn_replicate();
    if (is_sum(*t) && !is_shard(*i)) {
        *v = *t;
        return;
    }
    if (is_partial(*t))
        *t = is_shard(*i) ? table_along(l, i->dim) : stn_shard(l->dims.dim);
    if (cuts_slices(l, *t) && is_shard(*i) && table_is_smaller(l))
        *t = stn_replicate();
    if (cuts_slices(l, *t)) {
        *v = stn_shard(stni_table_position(&l->dims, t->dim));
        *i = index_along(l, v->dim);
        return;
    }
    if (is_shard(*i) && other_axis_cuts(l, a, i->dim)) {
        if (is_shard(*t))
            *i = stn_replicate();
        else
            *t = table_along(l, i->dim);
    }
    *v = is_shard(*i) ? *i : is_shard(*t) ? stn_partial(STN_SUM) : stn_replicate();
}

/* Axes that cut other dims of the table come first: what they cut decides what the others may. */
static void read_axes(struct layouts *l)
{
    uint32_t done = 0;
    for (int a = 0; a < l->axes; a++)
        if (cuts_slices(l, l->table.placement[a]) || is_partial(l->table.placement[a])) {
            read_axis(l, a);
            done |= 1u << a;
        }
    for (int a = 0; a < l->axes; a++)
        if (!(done >> a & 1))
            read_axis(l, a);
}

/* Writing */

struct write_rule {
    int adds;    /* the sum of what is there and of values: linear in both, whoever adds */
    int sets;    /* linear in both where every rank writes everything: values replace what is there */
    int given;   /* there are values */
    int zeros;   /* the table begins as zeros, which can lie anywhere */
};

static struct write_rule write_rule(const stn_op_call *call)
{
    const struct stni_access_attrs *attrs = call->attrs;
    int given = call->in_spec[STNI_ACCESS_VALUES] != NULL;
    return (struct write_rule){
        .adds = attrs->mode == STNI_ACCESS_ADD && !attrs->fresh && given,
        .sets = attrs->mode == STNI_ACCESS_SET && (given || attrs->value.f == 0),
        .given = given,
        .zeros = call->in_spec[STNI_ACCESS_TABLE] == NULL,
    };
}

/* Along one axis the values are sharded in dim d of positions. */
static void cut_values(struct layouts *l, int a, int d)
{
    l->values.placement[a] = stn_shard(d);
    l->index.placement[a] = index_along(l, d);
}

/* What stays a pending sum, or becomes one so that nothing has to move. */
static int write_pending(struct layouts *l, const struct write_rule *rule, int a, int cut)
{
    stn_placement *t = &l->table.placement[a], *v = &l->values.placement[a];
    int whole = t->kind == STN_PLACE_REPLICATE, wanted = is_sum(*t) || (whole && cut < 0 && is_sum(*v));
    if (rule->adds && cut >= 0 && (is_sum(*t) || (whole && stni_is_row_dim(&l->dims, cut)))) {
        cut_values(l, a, other_axis_cuts(l, a, cut) ? l->dims.dim : cut);
        *t = stn_partial(STN_SUM);
        return 1;
    }
    if (!wanted || !(rule->adds || rule->sets) || (cut >= 0 && rule->given))
        return 0;
    *t = stn_partial(STN_SUM);
    *v = rule->given ? *t : stn_replicate();
    l->index.placement[a] = stn_replicate();
    return 1;
}

static void write_axis(struct layouts *l, const struct write_rule *rule, int a)
{
    stn_placement *t = &l->table.placement[a], *i = &l->index.placement[a], *v = &l->values.placement[a];
    int cut = is_shard(*v) ? v->dim : cut_of(*i), whole = t->kind == STN_PLACE_REPLICATE;
    if (is_partial(*i))
        *i = stn_replicate();
    if (cuts_slices(l, *t)) {
        cut_values(l, a, stni_table_position(&l->dims, t->dim));
        return;
    }
    if (!is_shard(*t)) {
        if (write_pending(l, rule, a, cut))
            return;
        if (cut >= 0 && !stni_is_row_dim(&l->dims, cut) && (whole || !rule->adds)) {
            *t = table_along(l, cut);
            cut_values(l, a, cut);
            return;
        }
        if (whole && cut < 0 && !is_partial(*v))
            return;
        *t = stn_shard(l->dims.dim);
    }
    if (cut < 0 && !is_partial(*v))
        return;
    if (cut < 0 || !is_shard(index_along(l, cut)) || other_axis_cuts(l, a, cut))
        cut = l->dims.dim;
    cut_values(l, a, cut);
}

/* In the order in which axes decide: those that cut other dims, those that may come to cut them, pending ones, those
 * that cut `dim`. */
static int turn_of(const struct layouts *l, stn_placement t)
{
    return is_partial(t) ? 2 : !is_shard(t) ? 1 : cuts_slices(l, t) ? 0 : 3;
}

static void write_axes(struct layouts *l, const struct write_rule *rule)
{
    int turn[STN_MAX_MESH_NDIM];
    for (int a = 0; a < l->axes; a++)
        turn[a] = turn_of(l, l->table.placement[a]);
    for (int t = 0; t < 4; t++)
        for (int a = 0; a < l->axes; a++)
            if (turn[a] == t)
                write_axis(l, rule, a);
}

/* Cuts */

/* The table keeps its own cuts; where it has none it takes those of positions of the same size. */
static stn_status table_spec(const stn_op_call *call, struct layouts *l, const stn_spec **out)
{
    const stn_spec *table = call->in_spec[STNI_ACCESS_TABLE],
                   *like = call->n_in > STNI_ACCESS_LIKE ? call->in_spec[STNI_ACCESS_LIKE] : NULL;
    const stn_spec *values = call->n_in > STNI_ACCESS_VALUES ? call->in_spec[STNI_ACCESS_VALUES] : NULL,
                   *index = call->in_spec[STNI_ACCESS_INDEX];
    memset(l->table.split, 0, sizeof l->table.split);
    stni_splits_take(&l->table, 0, table ? &table->layout : &like->layout, 0, l->table.ndim);
    for (int p = 0; p < l->values.ndim; p++) {
        int t = stni_table_dim(&l->dims, p), i = stni_index_dim(&l->dims, p);
        if (t >= 0 && values && values->layout.shape[p] == l->table.shape[t])
            stni_splits_take(&l->table, t, &values->layout, p, 1);
        if (t >= 0 && i >= 0 && index->layout.shape[i] == l->table.shape[t])
            stni_splits_take(&l->table, t, &index->layout, i, 1);
    }
    return stni_spec_intern(call->context, &l->table, out);
}

/* Whether an earlier piece of a dim belongs to an earlier rank of every communicator. */
static int in_order(const struct stni_layout *layout, int dim)
{
    int axes[STN_MAX_MESH_NDIM], n = stni_layout_dim_axes(layout, dim, axes);
    for (int i = 1; i < n; i++)
        if (axes[i] < axes[i - 1])
            return 0;
    return 1;
}

/* Positions are cut as the table's elements are in dims in which it is sharded by the same axes; else as `own`, then
 * as the index. */
static stn_status values_spec(const stn_op_call *call, struct layouts *l, const stn_spec *table, const stn_spec *own,
                              const stn_spec **out)
{
    const struct stni_layout *index = &call->in_spec[STNI_ACCESS_INDEX]->layout;
    memset(l->values.split, 0, sizeof l->values.split);
    for (int a = 0; a < l->axes; a++)
        l->values.axis_order[a] = (uint8_t)a;
    for (int p = 0; p < l->values.ndim; p++) {
        int t = stni_table_dim(&l->dims, p), i = stni_index_dim(&l->dims, p), ordered = l->ordered && t < 0;
        if (t >= 0)
            STNI_TRY(stni_splits_take_part(call->context, &l->values, p, &table->layout, t, 0));
        if (own && !(ordered && !in_order(&own->layout, p)))
            stni_splits_take(&l->values, p, &own->layout, p, 1);
        if (i >= 0 && !(ordered && !in_order(index, i)))
            stni_splits_take(&l->values, p, index, i, 1);
    }
    return stni_spec_intern(call->context, &l->values, out);
}

static stn_status index_spec(const stn_op_call *call, struct layouts *l, const stn_spec *values, const stn_spec **out)
{
    int first = l->dims.slices ? l->dims.dim : 0; /* of positions, the index's first dim */
    for (int a = 0; a < l->axes; a++)
        if (is_shard(l->index.placement[a]))
            l->index.placement[a].dim = (int8_t)(l->index.placement[a].dim - first);
    memset(l->index.split, 0, sizeof l->index.split);
    stni_splits_take(&l->index, 0, &values->layout, first, l->index.ndim);
    return stni_spec_intern(call->context, &l->index, out);
}

stn_status stni_index_read_place(stn_op_call *call)
{
    const stn_meta *meta = &call->out_meta[0];
    struct layouts l;
    begin(call, &l);
    stni_layout_init(&l.values, l.table.mesh, meta->dtype, meta->ndim, meta->shape);
    read_axes(&l);
    STNI_TRY(table_spec(call, &l, &call->want[STNI_ACCESS_TABLE]));
    STNI_TRY(values_spec(call, &l, call->want[STNI_ACCESS_TABLE], NULL, &call->out_spec[0]));
    return index_spec(call, &l, call->out_spec[0], &call->want[STNI_ACCESS_INDEX]);
}

stn_status stni_index_write_place(stn_op_call *call)
{
    const stn_spec *given = call->in_spec[STNI_ACCESS_VALUES], *values;
    const stn_meta *meta = &call->out_meta[0];
    const struct stni_access_attrs *attrs = call->attrs;
    struct write_rule rule = write_rule(call);
    struct layouts l;
    int64_t shape[STN_MAX_NDIM];
    int ndim;
    begin(call, &l);
    l.table.dtype = meta->dtype;
    l.ordered = attrs->mode == STNI_ACCESS_SET && !attrs->at_home;
    ndim = stni_access_shape(&l.dims, l.table.ndim, l.table.shape, l.index.shape, shape);
    if (given)
        l.values = given->layout;
    else
        stni_layout_init(&l.values, l.table.mesh, meta->dtype, ndim, shape);
    if (rule.zeros)
        stni_layout_reduce(&l.table, 0);
    write_axes(&l, &rule);
    STNI_TRY(table_spec(call, &l, &call->out_spec[0]));
    STNI_TRY(values_spec(call, &l, call->out_spec[0], given, &values));
    STNI_TRY(index_spec(call, &l, values, &call->want[STNI_ACCESS_INDEX]));
    if (given)
        call->want[STNI_ACCESS_VALUES] = values;
    if (!rule.zeros)
        call->want[STNI_ACCESS_TABLE] = call->out_spec[0];
    return STN_OK;
}
