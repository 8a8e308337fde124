/* Tensors of the same values: detached, in another layout, as chunks and back. */
#include "binding.h"

static stn_tensor *handle_of(PyObject *object)
{
    return ((stnp_tensor *)object)->handle;
}

static int enter(stnp_entry *entry, PyObject *object)
{
    return stnp_enter(entry, ((stnp_tensor *)object)->context);
}

PyObject *stnp_tensor_detach(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (enter(&entry, object) < 0)
        return NULL;
    return stnp_place(stnp_leave_tensor(&entry, stn_detach(handle_of(object))), &((stnp_tensor *)object)->placed);
}

/** Placements on the tensor's own mesh, or a spec. */
PyObject *stnp_tensor_redistribute(PyObject *object, PyObject *to)
{
    stnp_entry entry;
    if (PyObject_TypeCheck(to, stnp_spec_type)) {
        if (enter(&entry, object) < 0)
            return NULL;
        stn_tensor *moved = stn_redistribute(handle_of(object), ((stnp_spec *)to)->handle);
        return stnp_place(stnp_leave_tensor(&entry, moved), &((stnp_spec *)to)->placed);
    }
    const stn_mesh *mesh = stn_spec_mesh(stn_tensor_spec(handle_of(object)));
    stn_placement placements[STN_MAX_MESH_NDIM];
    if (!mesh)
        return PyErr_Format(PyExc_ValueError, "redistribute: a local tensor has no mesh; wanted a Spec");
    if (stnp_take_placements(to, mesh, placements) < 0 || enter(&entry, object) < 0)
        return NULL;
    stnp_placed placed = stnp_placed_of(mesh, placements);
    return stnp_place(stnp_leave_tensor(&entry, stn_redistribute_to(handle_of(object), placements)), &placed);
}

int stnp_take_convention(const char *name, stn_grad_convention *convention)
{
    static const char *const choices[] = {"per_rank", "replicated"}; /* in the order of the enum */
    const int choice = stnp_take_choice("convention", name, choices, 2);
    *convention = choice < 0 ? STN_GRAD_PER_RANK : (stn_grad_convention)choice;
    return choice < 0 ? -1 : 0;
}

/** What gradients are: a convention, or a placement for each axis of `mesh`, which wins. */
struct gradients {
    stn_grad_convention convention;
    int has_placements;
    stn_placement placements[STN_MAX_MESH_NDIM];
};

static int take_gradients(const char *convention, PyObject *placements, const stn_mesh *mesh, struct gradients *out)
{
    out->has_placements = placements != Py_None;
    if (stnp_take_convention(convention, &out->convention) < 0)
        return -1;
    if (!out->has_placements)
        return 0;
    if (mesh)
        return stnp_take_placements(placements, mesh, out->placements);
    PyErr_SetString(PyExc_ValueError, "grad_placements: a local tensor has no mesh; wanted None");
    return -1;
}

static const stn_mesh *mesh_of(PyObject *object)
{
    return stn_spec_mesh(stn_tensor_spec(handle_of(object)));
}

PyObject *stnp_tensor_full_tensor(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grad_placements", NULL};
    stnp_entry entry;
    struct gradients grads;
    PyObject *placements = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:full_tensor", names, &placements) ||
        take_gradients("replicated", placements, mesh_of(object), &grads) < 0 || enter(&entry, object) < 0)
        return NULL;
    return stnp_leave_tensor(&entry, grads.has_placements ? stn_full_tensor_with(handle_of(object), grads.placements)
                                                          : stn_full_tensor(handle_of(object)));
}

PyObject *stnp_tensor_to_local(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"convention", "grad_placements", NULL};
    stnp_entry entry;
    struct gradients grads;
    const char *convention = "replicated";
    PyObject *placements = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|sO:to_local", names, &convention, &placements) ||
        take_gradients(convention, placements, mesh_of(object), &grads) < 0 || enter(&entry, object) < 0)
        return NULL;
    return stnp_leave_tensor(&entry, grads.has_placements ? stn_to_local_with(handle_of(object), grads.placements)
                                                          : stn_to_local(handle_of(object), grads.convention));
}

PyObject *stnp_tensor_from_local(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"spec", "convention", "grad_placements", NULL};
    stnp_entry entry;
    struct gradients grads;
    const char *convention = "replicated";
    PyObject *spec, *placements = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|sO:from_local", names, &spec, &convention, &placements) ||
        stnp_want(spec, stnp_spec_type, "spec") < 0 ||
        take_gradients(convention, placements, stn_spec_mesh(((stnp_spec *)spec)->handle), &grads) < 0 ||
        enter(&entry, object) < 0)
        return NULL;
    const stn_spec *layout = ((stnp_spec *)spec)->handle;
    stn_tensor *whole = grads.has_placements ? stn_from_local_with(handle_of(object), layout, grads.placements)
                                             : stn_from_local(handle_of(object), layout, grads.convention);
    return stnp_place(stnp_leave_tensor(&entry, whole), &((stnp_spec *)spec)->placed);
}

PyObject *stnp_tensor_redistribute_begin(PyObject *object, PyObject *spec)
{
    stnp_entry entry;
    if (stnp_want(spec, stnp_spec_type, "spec") < 0 || enter(&entry, object) < 0)
        return NULL;
    stn_tensor *moved = stn_redistribute_begin(handle_of(object), ((stnp_spec *)spec)->handle);
    return stnp_place(stnp_leave_tensor(&entry, moved), &((stnp_spec *)spec)->placed);
}

PyObject *stnp_tensor_redistribute_wait(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (enter(&entry, object) < 0 || stnp_leave(&entry, stn_redistribute_wait(handle_of(object))) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *stnp_tensor_gather_to(PyObject *object, PyObject *root)
{
    stnp_entry entry;
    int rank = (int)PyLong_AsLong(root);
    if (PyErr_Occurred() || enter(&entry, object) < 0)
        return NULL;
    return stnp_leave_tensor(&entry, stn_gather_to(handle_of(object), rank));
}
