#include "ops/index/named.h"

#include "core/base/host_alloc.h"
#include "core/shard/spec.h"
#include "ops/index/access.h"
#include "ops/index/true_places.h"
#include "ops/placement/splits.h"

#include <shardtensor/ops.h>

#include <string.h>

/* The first dims of a tensor as one. */
static stn_tensor *merged(stn_tensor *tensor, int dims)
{
    return dims == 0 ? stn_unsqueeze(tensor, 0) : dims == 1 ? tensor : stn_flatten(tensor, 0, dims - 1);
}

static stn_status laid(stn_tensor *tensor, const struct stni_layout *layout, stn_tensor **out)
{
    const stn_spec *spec;
    *out = tensor;
    if (!layout->mesh)
        return STN_OK;
    STNI_TRY(stni_spec_intern(tensor->context, layout, &spec));
    *out = stn_redistribute(tensor, spec);
    return stn_context_status(tensor->context);
}

static stn_status lay_rows(stn_tensor *rows, const struct stni_layout *mask, stn_tensor **out)
{
    struct stni_layout layout = rows->spec->layout;
    stni_layout_reduce(&layout, 0);
    if (layout.mesh == mask->mesh && !stni_layout_axes_mask(&layout, 0)) {
        for (int a = 0; layout.mesh && a < layout.mesh->ndim; a++)
            if (layout.placement[a].kind == STN_PLACE_REPLICATE && mask->placement[a].kind == STN_PLACE_SHARD)
                layout.placement[a] = stn_shard(0);
        stni_splits_take(&layout, 0, mask, 0, 1);
    }
    return laid(rows, &layout, out);
}

/* A layout of one dim that is cut by the same axes as the rows. */
static struct stni_layout line_along(const stn_spec *rows, stn_dtype dtype, int64_t n, const struct stni_split *split)
{
    struct stni_layout line;
    stni_layout_init(&line, rows->layout.mesh, dtype, 1, &n);
    for (int a = 0; line.mesh && a < line.mesh->ndim; a++)
        if (rows->layout.placement[a].kind == STN_PLACE_SHARD && rows->layout.placement[a].dim == 0)
            line.placement[a] = stn_shard(0);
    memcpy(line.axis_order, rows->layout.axis_order, sizeof line.axis_order);
    line.split[0] = split;
    return line;
}

static stn_tensor *chunk_of(stn_tensor *tensor)
{
    return stn_spec_mesh(stn_tensor_spec(tensor)) ? stn_to_local(tensor, STN_GRAD_REPLICATED) : tensor;
}

/* Nobody else will use the chunk: what comes of it is no view. */
static stn_tensor *whole_of(stn_tensor *chunk, const struct stni_layout *layout)
{
    const stn_spec *spec;
    if (!layout->mesh || stn_tensor_is_error(chunk))
        return chunk;
    if (stni_spec_intern(chunk->context, layout, &spec) != STN_OK)
        return chunk->context->error_tensor;
    stn_tensor *whole = stn_from_local(chunk, spec, STN_GRAD_REPLICATED);
    if (!stn_tensor_is_error(whole))
        stni_tensor_show_nothing(whole);
    return whole;
}

/* How many rows each piece of the mask names. */
static stn_status count(stn_tensor *mask, int n_pieces, int64_t *counts)
{
    static const int64_t one = 1;
    const struct stni_layout each = line_along(mask->spec, STN_DTYPE_I64, n_pieces, NULL);
    stn_tensor *own = stn_view(stn_count_nonzero(chunk_of(mask), 0, NULL), 1, &one);
    if (n_pieces > 1)
        own = stn_full_tensor(whole_of(own, &each));
    return stn_to_host(own, counts, (size_t)n_pieces * sizeof *counts);
}

/* The layout of the numbers: those of a piece stay with the rank that has it. Ends with offsets in the place of counts,
 * behind which is room for one more. */
static stn_status cut(const stn_spec *rows, int n_pieces, int64_t *counts, struct stni_layout *out)
{
    const struct stni_split *split = rows->layout.split[0], *of_named = NULL;
    int64_t sum = 0;
    for (int i = 0; i <= n_pieces; i++) {
        const int64_t here = i < n_pieces ? counts[i] : 0;
        counts[i] = sum;
        sum += here;
    }
    if (split)
        STNI_TRY(stni_split_explicit(rows->context, sum, split->n_levels, split->parts, counts, &of_named));
    *out = line_along(rows, STN_DTYPE_I64, sum, of_named);
    return STN_OK;
}

static stn_status find(stn_tensor *mask, int64_t *counts, int n_pieces, struct stni_named *out)
{
    const stn_spec *rows = out->rows->spec;
    const stn_mesh *mesh = rows->layout.mesh;
    struct stni_layout layout;
    memset(counts, 0, ((size_t)n_pieces + 1) * sizeof *counts);
    out->outside = mesh && !mesh->member;
    if (out->outside)
        counts[0] = 1;
    else
        STNI_TRY(count(mask, n_pieces, counts));
    const int64_t own = out->outside ? 0 : counts[n_pieces > 1 ? stni_spec_piece(rows, 0, mesh->coordinate) : 0];
    STNI_TRY(cut(rows, n_pieces, counts, &layout));
    stn_tensor *places = stni_true_places(chunk_of(mask), own);
    const int64_t first = mesh ? rows->local_offset[0] : 0;
    out->numbers = whole_of(first ? stn_add_number(places, (double)first) : places, &layout);
    return stn_context_status(rows->context);
}

stn_status stni_named_find(stn_tensor *table, stn_tensor *mask, struct stni_named *out)
{
    stn_context *context = table->context;
    const int dims = stn_tensor_ndim(mask);
    stn_tensor *rows = merged(table, dims), *line = merged(mask, dims);
    STNI_TRY(stn_context_status(context));
    STNI_TRY(lay_rows(rows, &line->spec->layout, &out->rows));
    const struct stni_split *split = out->rows->spec->layout.split[0];
    const struct stni_layout along = line_along(out->rows->spec, STN_DTYPE_BOOL, line->spec->layout.shape[0], split);
    STNI_TRY(laid(line, &along, &line));
    const int n_pieces = split ? split->n_parts : 1;
    const size_t bytes = ((size_t)n_pieces + 1) * sizeof(int64_t);
    int64_t *counts = stni_malloc(bytes);
    if (!counts)
        return stni_fail_memory(context, "numbers of rows that a mask names", bytes);
    stn_status status = find(line, counts, n_pieces, out);
    stni_free(counts);
    return status;
}

/* The numbers are right: nobody looks for bad ones. */
static struct stni_access_attrs access_by_numbers(enum stni_access_mode mode)
{
    return (struct stni_access_attrs){.slices = 1, .quiet = 1, .at_home = 1, .mode = mode};
}

stn_tensor *stni_named_read(const struct stni_named *named)
{
    const struct stni_access_attrs by = access_by_numbers(STNI_ACCESS_SET);
    return stni_index_read(named->rows, named->numbers, &by);
}

stn_tensor *stni_named_write(const struct stni_named *named, stn_tensor *values, int accumulate)
{
    const struct stni_access_attrs by = access_by_numbers(accumulate ? STNI_ACCESS_ADD : STNI_ACCESS_SET);
    const struct stni_layout *numbers = &named->numbers->spec->layout;
    struct stni_layout layout = named->rows->spec->layout;
    layout.shape[0] = numbers->shape[0];
    layout.split[0] = numbers->split[0];
    if (laid(values, &layout, &values) != STN_OK)
        return named->rows->context->error_tensor;
    return stni_index_write(named->rows, named->numbers, values, &by);
}

int64_t stni_named_count(const struct stni_named *named)
{
    return named->numbers->spec->layout.shape[0];
}
