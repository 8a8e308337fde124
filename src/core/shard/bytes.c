/* Specs as bytes, in the form that spec.h tells. */
#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "core/shard/spec.h"

#include <string.h>

enum { VERSION = 1, CHECK_BYTES = 4, LEAST_BYTES = 8 + CHECK_BYTES };

static const uint8_t magic[4] = {'S', 'T', 'N', 'S'};

static uint32_t check_of(const uint8_t *bytes, size_t n)
{
    uint32_t check = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        check = (check ^ bytes[i]) * 16777619u;
    return check;
}

/* Writing */

struct writer {
    uint8_t *to; /* NULL: only counts */
    size_t length;
};

static void put(struct writer *w, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes && w->to != NULL; i++)
        w->to[w->length + (size_t)i] = (uint8_t)(value >> 8 * i);
    w->length += (size_t)bytes;
}

static void put_axis(struct writer *w, const struct stni_layout *layout, int axis)
{
    const stn_placement p = layout->placement[axis];
    put(w, (uint64_t)layout->mesh->sizes[axis], 4);
    put(w, p.kind, 1);
    put(w, (uint8_t)p.dim, 1);
    put(w, p.op, 1);
    put(w, layout->axis_order[axis], 1);
}

static void put_pieces(struct writer *w, const struct stni_split *split)
{
    const int n = split != NULL && split->offsets != NULL ? split->n_parts : 0;
    put(w, (uint64_t)n, 4);
    for (int i = 0; i < n; i++)
        put(w, (uint64_t)(split->offsets[i + 1] - split->offsets[i]), 8);
}

static void put_spec(struct writer *w, const struct stni_layout *layout)
{
    const int axes = layout->mesh == NULL ? 0 : layout->mesh->ndim;
    for (int i = 0; i < 4; i++)
        put(w, magic[i], 1);
    put(w, VERSION, 1);
    put(w, (uint64_t)layout->dtype, 1);
    put(w, (uint64_t)layout->ndim, 1);
    put(w, (uint64_t)axes, 1);
    for (int a = 0; a < axes; a++)
        put_axis(w, layout, a);
    for (int d = 0; d < layout->ndim; d++) {
        put(w, (uint64_t)layout->shape[d], 8);
        put(w, layout->memory_order[d], 1);
    }
    for (int d = 0; d < layout->ndim; d++)
        put_pieces(w, layout->split[d]);
}

size_t stn_spec_write(const stn_spec *spec, void *buffer, size_t size)
{
    struct writer counted = {NULL, 0}, written = {buffer, 0};
    if (spec == NULL)
        return 0;
    put_spec(&counted, &spec->layout);
    const size_t wanted = counted.length + CHECK_BYTES;
    if (buffer == NULL || size < wanted)
        return wanted;
    put_spec(&written, &spec->layout);
    put(&written, check_of(buffer, written.length), CHECK_BYTES);
    return wanted;
}

/* Reading */

struct reader {
    stn_context *context;
    const uint8_t *from;
    size_t length, at; /* bytes before the check */
    int short_of;      /* 1: they ended too early */
};

static uint64_t read_integer(struct reader *r, int bytes)
{
    uint64_t value = 0;
    if (r->short_of || r->length - r->at < (size_t)bytes) {
        r->short_of = 1;
        return 0;
    }
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)r->from[r->at++] << 8 * i;
    return value;
}

/* What the bytes say, as stn_spec_create takes it. */
struct form {
    stn_dtype dtype;
    int ndim, axes;
    stn_placement placement[STN_MAX_MESH_NDIM];
    int axis_order[STN_MAX_MESH_NDIM], memory_order[STN_MAX_NDIM];
    int64_t shape[STN_MAX_NDIM];
    const int64_t *sizes[STN_MAX_NDIM];
    int64_t *pieces; /* of all dims */
};

static stn_status check_frame(struct reader *r, const uint8_t *bytes, size_t size)
{
    if (bytes == NULL || size < LEAST_BYTES)
        return stni_fail(r->context, STN_ERR_ARGUMENT, "stn_spec_read: got %zu bytes, wanted at least %d",
                         bytes == NULL ? 0 : size, LEAST_BYTES);
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return stni_fail(r->context, STN_ERR_ARGUMENT,
                         "stn_spec_read: the bytes begin with 0x%02x%02x%02x%02x, wanted \"STNS\"", bytes[0], bytes[1],
                         bytes[2], bytes[3]);
    if (bytes[4] != VERSION)
        return stni_fail(r->context, STN_ERR_VERSION, "stn_spec_read: the form has version %d, wanted %d", bytes[4],
                         VERSION);
    r->from = bytes;
    r->length = size;
    r->at = size - CHECK_BYTES;
    const uint32_t got = (uint32_t)read_integer(r, CHECK_BYTES), wanted = check_of(bytes, size - CHECK_BYTES);
    if (got != wanted)
        return stni_fail(r->context, STN_ERR_ARGUMENT,
                         "stn_spec_read: the check got 0x%08x, wanted 0x%08x for these %zu bytes", got, wanted, size);
    r->length = size - CHECK_BYTES;
    r->at = 5;
    return STN_OK;
}

static stn_status read_axis(struct reader *r, const stn_mesh *mesh, int axis, struct form *form)
{
    const uint64_t size = read_integer(r, 4);
    stn_placement *p = &form->placement[axis];
    p->kind = (uint8_t)read_integer(r, 1);
    p->dim = (int8_t)read_integer(r, 1);
    p->op = (uint8_t)read_integer(r, 1);
    form->axis_order[axis] = (int)read_integer(r, 1);
    if (!r->short_of && size != (uint64_t)mesh->sizes[axis])
        return stni_fail(r->context, STN_ERR_ARGUMENT, "stn_spec_read: axis %d has %llu ranks, wanted the mesh's %d",
                         axis, (unsigned long long)size, mesh->sizes[axis]);
    return STN_OK;
}

static stn_status read_head(struct reader *r, const stn_mesh *mesh, struct form *form)
{
    form->dtype = (stn_dtype)read_integer(r, 1);
    form->ndim = (int)read_integer(r, 1);
    form->axes = (int)read_integer(r, 1);
    if (form->ndim > STN_MAX_NDIM)
        return stni_fail(r->context, STN_ERR_ARGUMENT, "stn_spec_read: got %d dims, wanted at most %d", form->ndim,
                         STN_MAX_NDIM);
    if (form->axes != 0 && form->axes != mesh->ndim)
        return stni_fail(r->context, STN_ERR_ARGUMENT, "stn_spec_read: got %d axes, wanted the mesh's %d, or 0",
                         form->axes, mesh->ndim);
    for (int a = 0; a < form->axes; a++)
        STNI_TRY(read_axis(r, mesh, a, form));
    for (int d = 0; d < form->ndim; d++) {
        form->shape[d] = (int64_t)read_integer(r, 8);
        form->memory_order[d] = (int)read_integer(r, 1);
    }
    return STN_OK;
}

/* Into how many pieces the axes cut a dim. */
static uint64_t count_pieces(const stn_mesh *mesh, const struct form *form, int dim)
{
    uint64_t n = 1;
    for (int a = 0; a < form->axes; a++)
        if (form->placement[a].kind == STN_PLACE_SHARD && form->placement[a].dim == dim)
            n *= (uint64_t)mesh->sizes[a];
    return n;
}

static stn_status read_pieces(struct reader *r, const stn_mesh *mesh, int dim, int64_t **next, struct form *form)
{
    const uint64_t n = read_integer(r, 4);
    if (n == 0)
        return STN_OK;
    if (n != count_pieces(mesh, form, dim))
        return stni_fail(r->context, STN_ERR_ARGUMENT, "stn_spec_read: dim %d has %llu pieces, wanted %llu, or 0", dim,
                         (unsigned long long)n, (unsigned long long)count_pieces(mesh, form, dim));
    form->sizes[dim] = *next;
    for (uint64_t i = 0; i < n && !r->short_of; i++)
        *(*next)++ = (int64_t)read_integer(r, 8);
    return STN_OK;
}

static stn_status read_form(struct reader *r, const stn_mesh *mesh, struct form *form)
{
    STNI_TRY(read_head(r, mesh, form));
    const size_t left = r->length - r->at;
    form->pieces = stni_malloc(left + sizeof *form->pieces); /* no more numbers than bytes can be left */
    if (form->pieces == NULL)
        return stni_fail_memory(r->context, "pieces of a spec", left);
    int64_t *next = form->pieces;
    for (int d = 0; d < form->ndim; d++)
        STNI_TRY(read_pieces(r, mesh, d, &next, form));
    if (r->short_of || r->at != r->length)
        return stni_fail(r->context, STN_ERR_ARGUMENT, "stn_spec_read: got %zu bytes, wanted %s for what they say",
                         r->length + CHECK_BYTES, r->short_of ? "more" : "fewer");
    return STN_OK;
}

stn_status stn_spec_read(const stn_mesh *mesh, const void *buffer, size_t size, const stn_spec **out)
{
    struct form form = {0};
    if (mesh == NULL)
        return STN_ERR_ARGUMENT;
    struct reader r = {.context = mesh->context};
    STNI_TRY(r.context->error.status);
    if (out == NULL)
        return stni_fail(r.context, STN_ERR_ARGUMENT, "stn_spec_read: out is NULL, wanted where to put the spec");
    stn_status status = check_frame(&r, buffer, size);
    if (status == STN_OK)
        status = read_form(&r, mesh, &form);
    const stn_spec_options options = {
        .size = sizeof options, .axis_order = form.axis_order, .memory_order = form.memory_order, .sizes = form.sizes};
    if (status == STN_OK)
        status = stn_spec_create(r.context, form.axes > 0 ? mesh : NULL, form.axes > 0 ? form.placement : NULL,
                                 form.dtype, form.ndim, form.shape, &options, out);
    stni_free(form.pieces);
    return status;
}
