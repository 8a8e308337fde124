/* Tensors of the same values: detached, in another layout, as chunks and back. */
#include "binding.h"

#include <string.h>

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

PyObject *stnp_tensor_full_tensor(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    return enter(&entry, object) < 0 ? NULL : stnp_leave_tensor(&entry, stn_full_tensor(handle_of(object)));
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

static int take_convention(PyObject *args, PyObject *keywords, PyTypeObject *wanted, PyObject **spec,
                           stn_grad_convention *convention)
{
    static char *with_spec[] = {"spec", "convention", NULL}, *without[] = {"convention", NULL};
    const char *name = "replicated";
    if (wanted ? !PyArg_ParseTupleAndKeywords(args, keywords, "O|s", with_spec, spec, &name)
               : !PyArg_ParseTupleAndKeywords(args, keywords, "|s", without, &name))
        return -1;
    *convention = strcmp(name, "per_rank") == 0 ? STN_GRAD_PER_RANK : STN_GRAD_REPLICATED;
    if (*convention == STN_GRAD_REPLICATED && strcmp(name, "replicated") != 0) {
        PyErr_Format(PyExc_ValueError, "convention: '%s', wanted 'replicated' or 'per_rank'", name);
        return -1;
    }
    return wanted ? stnp_want(*spec, wanted, "spec") : 0;
}

PyObject *stnp_tensor_to_local(PyObject *object, PyObject *args, PyObject *keywords)
{
    stnp_entry entry;
    stn_grad_convention convention;
    if (take_convention(args, keywords, NULL, NULL, &convention) < 0 || enter(&entry, object) < 0)
        return NULL;
    return stnp_leave_tensor(&entry, stn_to_local(handle_of(object), convention));
}

PyObject *stnp_tensor_from_local(PyObject *object, PyObject *args, PyObject *keywords)
{
    stnp_entry entry;
    PyObject *spec;
    stn_grad_convention convention;
    if (take_convention(args, keywords, stnp_spec_type, &spec, &convention) < 0 || enter(&entry, object) < 0)
        return NULL;
    stn_tensor *whole = stn_from_local(handle_of(object), ((stnp_spec *)spec)->handle, convention);
    return stnp_place(stnp_leave_tensor(&entry, whole), &((stnp_spec *)spec)->placed);
}

PyObject *stnp_tensor_gather_to(PyObject *object, PyObject *root)
{
    stnp_entry entry;
    int rank = (int)PyLong_AsLong(root);
    if (PyErr_Occurred() || enter(&entry, object) < 0)
        return NULL;
    return stnp_leave_tensor(&entry, stn_gather_to(handle_of(object), rank));
}
