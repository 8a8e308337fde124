/* Routes by an index follow from its elements, from its layout and from how the table is cut: along `dim` alone where
 * the index names slices, in all dims where it names elements. Neither the table's dtype nor, for slices, its other
 * dims tell routes apart, so that a field, its gradient and fields of other widths share one.
 *
 * Ranks have to find the same, or they would not meet in the same exchanges. So only what is equal on all of them
 * decides: layouts, never chunks, which may be equal here and differ there; the index's version, which ops count alike
 * on all ranks; and the order of calls, by which routes are replaced. */
#include "ops/index/access_kept.h"

#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "core/tensor/kept.h"

#include <shardtensor/ops_index.h>

#include <string.h>

enum { ROUTES = 4 }; /* of an index */

/* What a route is of, beside the index. */
struct entry {
    const stn_spec *table; /* retained; NULL: no route is here */
    struct stni_access_dims dims;
    int wrap;
    int64_t skip;
    uint64_t used; /* when, counted in uses of the index's routes */
    struct stni_rows_route route;
};

struct routes {
    struct stni_kept kept;
    int is_on;
    uint32_t version; /* of the index, that the entries are of */
    uint64_t uses;
    struct entry entry[ROUTES];
};

static void forget(struct entry *e)
{
    if (!e->table)
        return;
    stni_spec_release(e->table);
    stni_rows_close(&e->route);
    *e = (struct entry){.table = NULL};
}

static void forget_all(struct routes *routes)
{
    for (int i = 0; i < ROUTES; i++)
        forget(&routes->entry[i]);
}

static void destroy(struct stni_kept *kept)
{
    struct routes *routes = (struct routes *)kept;
    forget_all(routes);
    stni_free(routes);
}

static struct routes *routes_of(const stn_tensor *index)
{
    return index->flags & STNI_TENSOR_KEEPS ? (struct routes *)index->kept : NULL;
}

/* The routes of the index's elements as they are now; NULL where none are kept. */
static struct routes *current(const stn_tensor *index)
{
    struct routes *routes = routes_of(index);
    if (!routes || !routes->is_on)
        return NULL;
    const uint32_t version = stni_tensor_root(index)->version;
    if (routes->version != version)
        forget_all(routes);
    routes->version = version;
    return routes;
}

/* Whether two tables are cut alike in a dim: by the same axes, in the same order, at the same places. */
static int is_cut_alike(const struct stni_layout *a, const struct stni_layout *b, int dim_a, int dim_b)
{
    int axes_a[STN_MAX_MESH_NDIM], axes_b[STN_MAX_MESH_NDIM];
    const int n = stni_layout_dim_axes(a, dim_a, axes_a);
    return a->shape[dim_a] == b->shape[dim_b] && a->split[dim_a] == b->split[dim_b] &&
           n == stni_layout_dim_axes(b, dim_b, axes_b) && memcmp(axes_a, axes_b, (size_t)n * sizeof *axes_a) == 0;
}

static int is_of(const struct entry *e, const struct stni_access_here *here)
{
    const struct stni_layout *table = &here->table->spec->layout;
    if (!e->table || e->dims.slices != here->dims.slices || e->wrap != here->all.wrap || e->skip != here->all.skip)
        return 0;
    if (e->dims.slices)
        return is_cut_alike(&e->table->layout, table, e->dims.dim, here->dims.dim);
    int alike = e->dims.dim == here->dims.dim;
    for (int d = 0; d < table->ndim && alike; d++)
        alike = is_cut_alike(&e->table->layout, table, d, d);
    return alike;
}

int stni_access_keeps(const struct stni_access_here *here)
{
    return current(here->index) != NULL;
}

/* A captured step does it again whatever the index is by then: it has to be one that nobody changes. */
static int may_recall(const struct stni_access_here *here)
{
    return !here->call->context->capture || stni_tensor_root(here->index)->frozen;
}

int stni_access_recall(const struct stni_access_here *here, struct stni_rows_route *route)
{
    struct routes *routes = current(here->index);
    if (!routes || !may_recall(here))
        return 0;
    for (int i = 0; i < ROUTES; i++)
        if (is_of(&routes->entry[i], here)) {
            routes->entry[i].used = ++routes->uses;
            stni_rows_open_again(here->call, &routes->entry[i].route, route);
            return 1;
        }
    return 0;
}

void stni_access_keep(const struct stni_access_here *here, struct stni_rows_route *route)
{
    struct routes *routes = (struct routes *)here->index->kept;
    struct entry *to = &routes->entry[0];
    for (int i = 1; i < ROUTES; i++)
        if (routes->entry[i].used < to->used)
            to = &routes->entry[i];
    forget(to);
    *to = (struct entry){.table = stni_spec_retain(here->table->spec),
                         .dims = here->dims,
                         .wrap = here->all.wrap,
                         .skip = here->all.skip,
                         .used = ++routes->uses};
    stni_rows_keep(route, &to->route);
}

static stn_status begin_keeping(stn_tensor *index)
{
    struct routes *routes = stni_calloc(1, sizeof *routes);
    if (!routes)
        return stni_fail_memory(index->context, "routes of an index", sizeof *routes);
    routes->kept = (struct stni_kept){.refs = 1, .destroy = destroy};
    stni_tensor_keep(index, &routes->kept);
    return STN_OK;
}

stn_status stn_tensor_keep_routes(stn_tensor *index, int keep)
{
    STNI_TRY(stni_tensor_require(index, "stn_tensor_keep_routes: index"));
    const stn_dtype dtype = index->spec->layout.dtype;
    if (!(STNI_INDEX_DTYPES >> dtype & 1))
        return stni_fail(index->context, STN_ERR_DTYPE, "stn_tensor_keep_routes: index got %s, wanted i64 or i32",
                         stn_dtype_name(dtype));
    if (keep && !routes_of(index))
        STNI_TRY(begin_keeping(index));
    struct routes *routes = routes_of(index);
    if (!routes)
        return STN_OK;
    routes->is_on = keep != 0;
    if (!keep)
        forget_all(routes);
    return STN_OK;
}

int stn_tensor_keeps_routes(const stn_tensor *index)
{
    return index && !stni_is_error(index) && routes_of(index) && routes_of(index)->is_on;
}
