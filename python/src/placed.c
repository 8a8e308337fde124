/* What callers placed on mesh axes of size 1.
 *
 * Along such an axis every placement is the same layout, which the library calls Replicate. Who asks a tensor how it
 * was placed wants to hear what was asked for, as torch's DTensor says it. So it is kept here, beside the handles and
 * never in a spec: no layout, and nothing that ranks agree on, depends on it. Results of pointwise ops and of
 * reductions follow their inputs, as on any other axis, and gradients follow what they are gradients of; all else
 * reports Replicate. */
#include "binding.h"

#include <string.h>

/* How results follow. */
enum { NOT, AS_IT_IS, POINTWISE, REDUCED };

stnp_placed stnp_placed_of(const stn_mesh *mesh, const stn_placement *given)
{
    stnp_placed placed = {.any = 0};
    for (int axis = 0; mesh && axis < stn_mesh_ndim(mesh); axis++) {
        if (stn_mesh_axis_size(mesh, axis) != 1 || given[axis].kind == STN_PLACE_REPLICATE)
            continue;
        placed.any = 1;
        placed.at[axis] = given[axis];
    }
    return placed;
}

static stnp_placed of_axes(const stn_placement *at)
{
    stnp_placed placed = {.any = 0};
    memcpy(placed.at, at, sizeof placed.at);
    for (int axis = 0; axis < STN_MAX_MESH_NDIM; axis++)
        placed.any |= at[axis].kind != STN_PLACE_REPLICATE;
    return placed;
}

stnp_placed stnp_placed_gradient(const stnp_placed *forward)
{
    if (!forward->any)
        return *forward;
    stnp_placed placed = *forward;
    for (int axis = 0; axis < STN_MAX_MESH_NDIM; axis++) {
        if (placed.at[axis].kind == STN_PLACE_PARTIAL)
            placed.at[axis] = stn_replicate();
    }
    return of_axes(placed.at);
}

int stnp_placed_equal(const stnp_placed *a, const stnp_placed *b)
{
    return a->any == b->any && (!a->any || memcmp(a->at, b->at, sizeof a->at) == 0);
}

stn_placement stnp_placed_at(const stnp_placed *placed, const stn_spec *spec, int axis)
{
    int alone = placed->any && stn_mesh_axis_size(stn_spec_mesh(spec), axis) == 1;
    return alone ? placed->at[axis] : stn_spec_placement(spec, axis);
}

PyObject *stnp_place(PyObject *tensor, const stnp_placed *placed)
{
    if (tensor)
        ((stnp_tensor *)tensor)->placed = *placed;
    return tensor;
}

/* Results */

static const stn_op_impl *impl_of(stn_context *context, const char *name)
{
    const stn_op *op = stn_op_find(context, name);
    return op ? stn_op_descriptor(op)->impl : NULL;
}

int stnp_placed_kind(stn_context *context, const stn_op *op)
{
    const stn_op_impl *impl = stn_op_descriptor(op)->impl; /* which families share */
    return impl == impl_of(context, "clone") ? AS_IT_IS
           : impl == impl_of(context, "neg") ? POINTWISE
           : impl == impl_of(context, "sum") ? REDUCED
                                             : NOT;
}

/** A Shard of a dim that is broadcast counts as Replicate; a pending reduction is taken. */
static void follow_operand(const stn_tensor *input, const stnp_placed *placed, const stn_tensor *output,
                           stn_placement *at)
{
    int shift = stn_tensor_ndim(output) - stn_tensor_ndim(input);
    for (int axis = 0; axis < STN_MAX_MESH_NDIM; axis++) {
        stn_placement p = placed->at[axis];
        if (p.kind != STN_PLACE_SHARD || at[axis].kind == STN_PLACE_SHARD)
            continue;
        if (stn_tensor_shape(input)[p.dim] == stn_tensor_shape(output)[p.dim + shift])
            at[axis] = stn_shard(p.dim + shift);
    }
}

static PyObject *attribute(const stnp_bound *bound, const char *name)
{
    for (int i = 0; i < bound->n_attrs; i++) {
        if (PyUnicode_CompareWithASCIIString(bound->names[i], name) == 0)
            return bound->values[i];
    }
    return NULL;
}

/** Bit d: dim d is reduced. */
static uint32_t reduced_dims(const stnp_bound *bound, int ndim)
{
    PyObject *dims = attribute(bound, "dim");
    int64_t list[STN_MAX_NDIM];
    int n = dims ? stnp_take_ints(dims, "dim", STN_MAX_NDIM, list) : 0;
    uint32_t reduced = 0;
    PyErr_Clear(); /* the op itself has taken them already */
    for (int i = 0; i < n; i++)
        reduced |= 1u << (list[i] < 0 ? list[i] + ndim : list[i]);
    return reduced ? reduced : ~0u;
}

static stn_reduce_op pending_of(const stn_op *op)
{
    static const struct {
        const char *name;
        stn_reduce_op pending;
    } rows[] = {{"amax", STN_MAX}, {"any", STN_MAX}, {"amin", STN_MIN}, {"all", STN_MIN}, {"prod", STN_PROD}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(stn_op_descriptor(op)->name, rows[i].name) == 0)
            return rows[i].pending;
    }
    return STN_SUM;
}

/** What is sharded along a dim that is reduced becomes pending; other dims move up into the places of these. */
static void follow_reduced(const stnp_op *op, const stnp_bound *bound, const stnp_tensor *input, stn_placement *at)
{
    uint32_t reduced = reduced_dims(bound, stn_tensor_ndim(input->handle));
    PyObject *kept = attribute(bound, "keepdim");
    int keepdim = kept && PyObject_IsTrue(kept) > 0;
    for (int axis = 0; axis < STN_MAX_MESH_NDIM; axis++) {
        stn_placement p = input->placed.at[axis];
        if (p.kind != STN_PLACE_SHARD)
            continue;
        int before = 0;
        for (int d = 0; d < p.dim && !keepdim; d++)
            before += (reduced >> d & 1) != 0;
        at[axis] = reduced >> p.dim & 1 ? stn_partial(pending_of(op->handle)) : stn_shard(p.dim - before);
    }
}

stnp_placed stnp_placed_result(const stnp_op *op, const stnp_bound *bound, const stn_tensor *output)
{
    stn_placement at[STN_MAX_MESH_NDIM] = {STN_R};
    int any = 0;
    for (int i = 0; i < bound->n_inputs && op->follows != NOT; i++) {
        const stnp_tensor *input = (const stnp_tensor *)bound->inputs[i];
        if (!input || !input->placed.any)
            continue;
        any = 1;
        if (op->follows == AS_IT_IS)
            memcpy(at, input->placed.at, sizeof at);
        else if (op->follows == POINTWISE)
            follow_operand(input->handle, &input->placed, output, at);
        else
            follow_reduced(op, bound, input, at);
    }
    return any ? of_axes(at) : (stnp_placed){.any = 0};
}
