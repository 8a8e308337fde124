/* Specs as text, for errors, logs and people. */
#include "core/base/text.h"
#include "core/shard/spec.h"

/* Pieces of a split that are listed; the rest is counted. */
enum { LISTED = 8 };

static void put_sizes(struct stni_text *text, const struct stni_split *split)
{
    stni_text_put(text, " sizes");
    for (int i = 0; i < split->n_parts && i < LISTED; i++)
        stni_text_put(text, " %lld", (long long)(stni_split_offset(split, i + 1) - stni_split_offset(split, i)));
    if (split->n_parts > LISTED)
        stni_text_put(text, " ... (%d pieces%s)", split->n_parts, split->offsets == NULL ? ", balanced" : "");
}

/* The minor axis of a dim tells the sizes; each other one has the next major axis named. */
static void put_shard(struct stni_text *text, const struct stni_layout *layout, int axis)
{
    int dim = layout->placement[axis].dim, axes[STN_MAX_MESH_NDIM];
    int n = stni_layout_dim_axes(layout, dim, axes);
    stni_text_put(text, "Shard(%d)", dim);
    for (int l = 1; l < n; l++)
        if (axes[l] == axis)
            stni_text_put(text, " within %s", layout->mesh->names[axes[l - 1]]);
    if (n > 0 && axes[n - 1] == axis && layout->split[dim] != NULL)
        put_sizes(text, layout->split[dim]);
}

static void put_placement(struct stni_text *text, const struct stni_layout *layout, int axis)
{
    static const char *const ops[STN_REDUCE_OP_COUNT] = {
        [STN_SUM] = "sum", [STN_AVG] = "avg", [STN_PROD] = "prod", [STN_MIN] = "min", [STN_MAX] = "max"};
    stn_placement p = layout->placement[axis];
    if (p.kind == STN_PLACE_SHARD)
        put_shard(text, layout, axis);
    else if (p.kind == STN_PLACE_PARTIAL)
        stni_text_put(text, "Partial(%s)", ops[p.op]);
    else
        stni_text_put(text, "Replicate");
}

static void put_mesh(struct stni_text *text, const struct stni_layout *layout)
{
    stni_text_put(text, " on");
    for (int a = 0; a < layout->mesh->ndim; a++)
        stni_text_put(text, " %s=%d", layout->mesh->names[a], layout->mesh->sizes[a]);
    for (int a = 0; a < layout->mesh->ndim; a++) {
        stni_text_put(text, a == 0 ? ": " : ", ");
        put_placement(text, layout, a);
    }
}

static void put_memory_order(struct stni_text *text, const struct stni_layout *layout)
{
    int plain = 1, last = -1;
    for (int k = 0; k < layout->ndim; k++) {
        int d = layout->memory_order[k];
        plain &= layout->shape[d] == 1 || d > last;
        last = layout->shape[d] == 1 ? last : d;
    }
    if (plain)
        return;
    stni_text_put(text, ", memory order");
    for (int k = 0; k < layout->ndim; k++)
        stni_text_put(text, " %d", layout->memory_order[k]);
}

int stn_spec_describe(const stn_spec *spec, char *text, size_t size)
{
    struct stni_text out = {text, text == NULL ? 0 : size, 0};
    if (out.size > 0)
        text[0] = '\0';
    if (spec == NULL) {
        stni_text_put(&out, "no spec");
        return (int)out.length;
    }
    const struct stni_layout *layout = &spec->layout;
    stni_text_put(&out, "%s (", stn_dtype_name(layout->dtype));
    for (int d = 0; d < layout->ndim; d++)
        stni_text_put(&out, d == 0 ? "%lld" : ", %lld", (long long)layout->shape[d]);
    stni_text_put(&out, ")");
    if (layout->mesh == NULL)
        stni_text_put(&out, " local");
    else
        put_mesh(&out, layout);
    put_memory_order(&out, layout);
    return (int)out.length;
}
