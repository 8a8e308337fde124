/* Chunks cut from whole tensors, and the parts of a pending sum. */
#include "parts.h"

#include "number.h"

#include <stdlib.h>
#include <string.h>

/* Specs */

stn_status parts_spec(stn_context *context, const stn_mesh *mesh, const struct layout *layout, stn_dtype dtype,
                      int ndim, const int64_t *shape, const stn_spec **out)
{
    const int64_t *sizes[STN_MAX_NDIM] = {0};
    for (int d = 0; d < ndim; d++)
        if (layout->n_pieces[d] > 0)
            sizes[d] = layout->sizes[d];
    const stn_spec_options options = {
        .size = sizeof options,
        .axis_order = layout->axis_order,
        .memory_order = layout->memory_order,
        .sizes = sizes,
    };
    return stn_spec_create(context, mesh, layout->placement, dtype, ndim, shape, &options, out);
}

struct layout parts_gradient_layout(const struct layout *layout)
{
    struct layout gradient = *layout;
    for (int a = 0; a < STN_MAX_MESH_NDIM; a++)
        if (gradient.placement[a].kind == STN_PLACE_PARTIAL)
            gradient.placement[a] = stn_replicate();
    return gradient;
}

/* Sizes of the pieces of `dim`, the major axis slowest, read off the chunks of the ranks that hold them; returns how
 * many. */
static int read_sizes(const stn_spec *spec, int dim, int n_axes, const int *axes, int64_t *sizes)
{
    const stn_mesh *mesh = stn_spec_mesh(spec);
    int pieces = 1;
    for (int i = 0; i < n_axes; i++)
        pieces *= stn_mesh_axis_size(mesh, axes[i]);
    for (int piece = 0; piece < pieces; piece++) {
        int coordinates[STN_MAX_MESH_NDIM] = {0}, rest = piece;
        for (int i = n_axes - 1; i >= 0; i--) {
            coordinates[axes[i]] = rest % stn_mesh_axis_size(mesh, axes[i]);
            rest /= stn_mesh_axis_size(mesh, axes[i]);
        }
        int64_t shape[STN_MAX_NDIM];
        stn_spec_chunk(spec, stn_mesh_rank_at(mesh, coordinates), shape, NULL);
        sizes[piece] = shape[dim];
    }
    return pieces;
}

static stn_placement dual(stn_placement p)
{
    if (p.kind == STN_PLACE_SHARD)
        return p;
    return p.kind == STN_PLACE_PARTIAL ? stn_replicate() : stn_partial(STN_SUM);
}

void parts_layout(const stn_spec *spec, struct layout *layout)
{
    memset(layout, 0, sizeof *layout);
    const stn_mesh *mesh = stn_spec_mesh(spec);
    int mesh_ndim = stn_mesh_ndim(mesh), ndim = stn_spec_ndim(spec);
    for (int a = 0; a < mesh_ndim; a++) {
        layout->placement[a] = stn_spec_placement(spec, a);
        layout->axis_order[a] = stn_spec_axis_order(spec)[a];
    }
    for (int d = 0; d < ndim; d++) {
        layout->memory_order[d] = stn_spec_memory_order(spec)[d];
        int axes[STN_MAX_MESH_NDIM], n = 0;
        for (int i = 0; i < mesh_ndim; i++) {
            const stn_placement *p = &layout->placement[layout->axis_order[i]];
            if (p->kind == STN_PLACE_SHARD && p->dim == d)
                axes[n++] = layout->axis_order[i];
        }
        if (n > 0)
            layout->n_pieces[d] = read_sizes(spec, d, n, axes, layout->sizes[d]);
    }
}

stn_status parts_dual_spec(stn_context *context, const stn_spec *spec, const stn_spec **out)
{
    struct layout layout;
    parts_layout(spec, &layout);
    for (int a = 0; a < stn_mesh_ndim(stn_spec_mesh(spec)); a++)
        layout.placement[a] = dual(layout.placement[a]);
    return parts_spec(context, stn_spec_mesh(spec), &layout, stn_spec_dtype(spec), stn_spec_ndim(spec),
                      stn_spec_shape(spec), out);
}

/* Parts of a pending sum */

/* Which of the parts this rank holds, among how many. */
struct dealing {
    int parts, mine;
    uint64_t seed;
};

static struct dealing dealing_of(const stn_spec *spec, uint64_t seed)
{
    struct dealing deal = {1, 0, seed};
    const stn_mesh *mesh = stn_spec_mesh(spec);
    for (int a = 0; a < stn_mesh_ndim(mesh); a++)
        if (stn_spec_placement(spec, a).kind == STN_PLACE_PARTIAL) {
            deal.mine = deal.mine * stn_mesh_axis_size(mesh, a) + stn_mesh_coordinate(mesh, a);
            deal.parts *= stn_mesh_axis_size(mesh, a);
        }
    return deal;
}

/* Whether x + k is exact: its rounding error, by Knuth's two-sum, is 0, and it survives in the dtype. */
static int sum_is_exact(double x, double k, stn_dtype dtype)
{
    double s = x + k, b = s - x;
    double error = (x - (s - b)) + (k - b);
    return error == 0 && number_round(dtype, s) == s;
}

/* This rank's part of the value x, which is element `at` of the whole. */
static double part_of(const struct dealing *deal, int64_t at, double x, stn_dtype dtype)
{
    struct rng rng = {rng_mix(deal->seed, (uint64_t)at), 0};
    int owner = (int)rng_below(&rng, deal->parts);
    int plus = (int)rng_below(&rng, deal->parts);
    int minus = (plus + 1 + (int)rng_below(&rng, deal->parts - 1)) % deal->parts;
    double k = (double)(1 + rng_below(&rng, 3));
    /* With 16 bits an op that keeps the sum pending would round the parts by more than the value bears. */
    if (stn_dtype_size(dtype) == 2 || !sum_is_exact(x, k, dtype) || !sum_is_exact(x, -k, dtype))
        k = 0;
    return (deal->mine == owner ? x : 0) + (deal->mine == plus ? k : 0) - (deal->mine == minus ? k : 0);
}

static void put_part(const struct dealing *deal, int64_t at, stn_dtype dtype, const unsigned char *from,
                     unsigned char *to)
{
    double element[2]; /* aligned; large enough for any dtype */
    memcpy(element, from, stn_dtype_size(dtype));
    for (int i = 0; i < number_parts(dtype); i++)
        number_put(dtype, element, i, part_of(deal, at, number_at(dtype, element, i), dtype));
    memcpy(to, element, stn_dtype_size(dtype));
}

void parts_fill(const struct value *value, const stn_spec *spec, uint64_t seed, void *chunk)
{
    const struct dealing deal = dealing_of(spec, seed);
    const int64_t *shape = stn_spec_local_shape(spec), *offset = stn_spec_local_offset(spec);
    const size_t element = stn_dtype_size(value->dtype);
    unsigned char *to = chunk;
    int64_t index[STN_MAX_NDIM] = {0};
    for (int64_t n = stn_spec_local_numel(spec); n > 0; n--, to += element) {
        int64_t at = 0;
        for (int d = 0; d < value->ndim; d++)
            at = at * value->shape[d] + offset[d] + index[d];
        const unsigned char *from = (const unsigned char *)value->data + (size_t)at * element;
        if (deal.parts > 1)
            put_part(&deal, at, value->dtype, from, to);
        else
            memcpy(to, from, element);
        for (int d = value->ndim - 1; d >= 0 && ++index[d] == shape[d]; d--)
            index[d] = 0;
    }
}

stn_tensor *parts_tensor(stn_context *context, const struct value *value, const stn_spec *spec, uint64_t seed)
{
    void *chunk = malloc((size_t)stn_spec_local_numel(spec) * stn_dtype_size(value->dtype) + 1);
    if (chunk == NULL)
        return NULL;
    parts_fill(value, spec, seed, chunk);
    stn_tensor *tensor = stn_from_host(context, spec, chunk);
    free(chunk);
    return tensor;
}
