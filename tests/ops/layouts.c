#include "ops/layouts.h"

#include "harness.h"

#include "core/redistribute/redistribute.h"

#include <stdio.h>
#include <stdlib.h>

void elements_draw(struct elements *e, stn_dtype dtype, int ndim, const int64_t *shape, uint64_t *seed)
{
    e->dtype = dtype;
    e->ndim = ndim;
    e->n = 1;
    for (int d = 0; d < ndim; d++) {
        e->shape[d] = shape[d];
        e->n *= shape[d];
    }
    for (int64_t i = 0; i < e->n; i++)
        e->v[i] = element_draw(dtype, seed);
}

struct elements elements_drawn(stn_dtype dtype, int ndim, const int64_t *shape, int64_t below)
{
    struct elements e;
    uint64_t seed = 5;
    elements_draw(&e, dtype, ndim, shape, &seed);
    for (int64_t i = 0; i < e.n && below; i++)
        e.v[i] = (double)(i * 7 % below);
    return e;
}

/* Cuts n elements at drawn places. */
static void draw_sizes(int64_t n, int pieces, uint64_t *seed, int64_t *sizes)
{
    int64_t left = n;
    for (int p = 0; p < pieces - 1; p++) {
        sizes[p] = draw_below(seed, 3) ? draw_below(seed, left + 1) : 0;
        left -= sizes[p];
    }
    sizes[pieces - 1] = left;
}

static void draw_order(int n, uint64_t *seed, int *order)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int other = (int)draw_below(seed, i + 1), held = order[i];
        order[i] = order[other];
        order[other] = held;
    }
}

const stn_spec *layout_draw(stn_context *context, const stn_mesh *mesh, const struct elements *e, uint64_t *seed)
{
    stn_placement placements[STN_MAX_MESH_NDIM];
    int pieces[STN_MAX_NDIM], kinds = stn_dtype_is_differentiable(e->dtype) ? 2 : 1;
    int64_t drawn[STN_MAX_NDIM][64];
    const int64_t *sizes[STN_MAX_NDIM] = {0};
    for (int d = 0; d < e->ndim; d++)
        pieces[d] = 1;
    for (int a = 0; a < stn_mesh_ndim(mesh); a++) {
        int64_t kind = draw_below(seed, kinds + e->ndim);
        placements[a] = kind == 0      ? stn_replicate()
                        : kind < kinds ? stn_partial(STN_SUM)
                                       : stn_shard((int)kind - kinds);
        if (placements[a].kind == STN_PLACE_SHARD)
            pieces[placements[a].dim] *= stn_mesh_axis_size(mesh, a);
    }
    int uneven = draw_below(seed, 2) == 0;
    for (int d = 0; d < e->ndim && uneven; d++) {
        draw_sizes(e->shape[d], pieces[d], seed, drawn[d]);
        sizes[d] = pieces[d] > 1 ? drawn[d] : NULL;
    }
    int axis_order[STN_MAX_MESH_NDIM], memory_order[STN_MAX_NDIM], reorder = draw_below(seed, 3) == 0;
    draw_order(stn_mesh_ndim(mesh), seed, axis_order);
    draw_order(e->ndim, seed, memory_order);
    const stn_spec_options options = {.size = sizeof options, .sizes = sizes, .axis_order = axis_order,
                                      .memory_order = reorder ? memory_order : NULL};
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, placements, e->dtype, e->ndim, e->shape, &options, &spec), STN_OK);
    return spec;
}

/* Where this rank stands among those whose parts are added, and how many they are. */
static int partial_position(const stn_spec *spec, int *size)
{
    const stn_mesh *mesh = stn_spec_mesh(spec);
    int position = 0;
    *size = 1;
    for (int a = 0; mesh && a < stn_mesh_ndim(mesh); a++) {
        if (stn_spec_placement(spec, a).kind != STN_PLACE_PARTIAL)
            continue;
        position = position * stn_mesh_axis_size(mesh, a) + stn_mesh_coordinate(mesh, a);
        *size *= stn_mesh_axis_size(mesh, a);
    }
    return position;
}

stn_tensor *layout_tensor(stn_context *context, const stn_spec *spec, const struct elements *e)
{
    const int64_t *local = stn_spec_local_shape(spec), *offset = stn_spec_local_offset(spec);
    int64_t n = stn_spec_local_numel(spec);
    int size, position = partial_position(spec, &size);
    char *data = calloc((size_t)n + 1, stn_dtype_size(e->dtype));
    for (int64_t i = 0; i < n; i++) {
        int64_t global = 0, stride = 1, rest = i;
        for (int d = e->ndim - 1; d >= 0; d--) {
            global += (offset[d] + rest % local[d]) * stride;
            rest /= local[d];
            stride *= e->shape[d];
        }
        double _Complex part = size == 1 ? e->v[global] : position ? 1.0 : e->v[global] - (size - 1);
        element_set(e->dtype, data, i, part);
    }
    stn_tensor *tensor = stn_from_host(context, spec, data);
    free(data);
    return tensor;
}

stn_tensor *layout_tensor_drawn(stn_context *context, const stn_mesh *mesh, const struct elements *e, uint64_t *seed)
{
    const stn_spec *spec = layout_draw(context, mesh, e, seed);
    stn_tensor *tensor = layout_tensor(context, spec, e);
    stn_spec_release(&spec);
    return tensor;
}

stn_tensor *layout_tensor_placed(stn_context *context, const stn_mesh *mesh, const struct elements *e,
                                 const stn_placement *placements)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, placements, e->dtype, e->ndim, e->shape, NULL, &spec), STN_OK);
    stn_tensor *tensor = layout_tensor(context, spec, e);
    stn_spec_release(&spec);
    return tensor;
}

static stn_tensor *replicated(stn_tensor *tensor)
{
    const stn_spec *spec = stn_tensor_spec(tensor), *whole;
    stn_placement placements[STN_MAX_MESH_NDIM] = {{0}};
    stn_context *context = stn_tensor_context(tensor);
    stn_tensor *full = NULL;
    CHECK_STATUS(stn_spec_create(context, stn_spec_mesh(spec), stn_spec_mesh(spec) ? placements : NULL,
                                 stn_spec_dtype(spec), stn_spec_ndim(spec), stn_spec_shape(spec), NULL, &whole),
                 STN_OK);
    CHECK_STATUS(stni_redistribute(tensor, whole, &full), STN_OK);
    stn_spec_release(&whole);
    return full;
}

static void describe(int ndim, const int64_t *shape, stn_dtype dtype, char text[128])
{
    int at = snprintf(text, 128, "%s", stn_dtype_name(dtype));
    for (int d = 0; d < ndim; d++)
        at += snprintf(text + at, (size_t)(128 - at), " %lld", (long long)shape[d]);
}

void layout_check(stn_tensor *tensor, const struct elements *e, const char *what)
{
    char got[128], wanted[128];
    if (!test_check(!stn_tensor_is_error(tensor), __FILE__, __LINE__, what))
        return;
    describe(stn_tensor_ndim(tensor), stn_tensor_shape(tensor), stn_tensor_dtype(tensor), got);
    describe(e->ndim, e->shape, e->dtype, wanted);
    if (!test_check_str(got, wanted, __FILE__, __LINE__, what))
        return;
    stn_tensor *full = replicated(tensor);
    size_t bytes = (size_t)e->n * stn_dtype_size(e->dtype);
    void *data = calloc(1, bytes + 1);
    CHECK_STATUS(stn_to_host(full, data, bytes), STN_OK);
    stn_tensor_release(&full);
    int64_t wrong = -1;
    for (int64_t i = 0; i < e->n && wrong < 0; i++)
        if (element_get(e->dtype, data, i) != e->v[i])
            wrong = i;
    char text[160] = "";
    if (wrong >= 0) {
        double _Complex value = element_get(e->dtype, data, wrong);
        snprintf(text, sizeof text, "%s: element %lld is %g%+gi, wanted %g%+gi", what, (long long)wrong, creal(value),
                 cimag(value), creal(e->v[wrong]), cimag(e->v[wrong]));
    }
    free(data);
    test_check(wrong < 0, __FILE__, __LINE__, text);
}
