/* Margins of chunks: what a caller says of them, and chunks that have them. */
#include "binding.h"

#include <string.h>

static int take_word(PyObject *value, const char *what, const char *const *choices, int n)
{
    const char *name = stnp_want(value, &PyUnicode_Type, what) < 0 ? NULL : PyUnicode_AsUTF8AndSize(value, NULL);
    return name ? stnp_take_choice(what, name, choices, n) : -1;
}

/** (below, above) or (below, above, mode) of a dim. */
static int take_dim(PyObject *key, PyObject *value, const char *what, stn_halo *halo)
{
    static const char *const modes[] = {"zeros", "reflect", "replicate", "circular"};
    int64_t dim, widths[2];
    if (stnp_take_ints(key, what, 1, &dim) < 0)
        return -1;
    if (dim < 0 || dim >= STN_MAX_NDIM || !PyTuple_Check(value) || PyTuple_Size(value) < 2 || PyTuple_Size(value) > 3) {
        PyErr_Format(PyExc_ValueError, "%s: got %R: %R, wanted a dim and (below, above) or (below, above, mode)", what,
                     key, value);
        return -1;
    }
    PyObject *pair = PyTuple_GetSlice(value, 0, 2);
    const int n = pair ? stnp_take_ints(pair, what, 2, widths) : -1;
    Py_XDECREF(pair);
    const int mode = n < 0 ? -1 : PyTuple_Size(value) < 3 ? 0 : take_word(PyTuple_GetItem(value, 2), what, modes, 4);
    if (mode < 0)
        return -1;
    halo->below[dim] = widths[0];
    halo->above[dim] = widths[1];
    halo->mode[dim] = (stn_padding_mode)mode;
    return 0;
}

static int take_named(PyObject *key, PyObject *value, const char *what, stn_halo *halo)
{
    static const char *const poles[] = {"none", "between_rows", "on_rows"};
    static const char *const keys[] = {"poles", "latitude", "longitude"};
    const int which = take_word(key, what, keys, 3);
    if (which == 0) {
        const int choice = take_word(value, what, poles, 3);
        halo->poles = choice < 0 ? STN_POLES_NONE : (stn_poles)choice;
        return choice;
    }
    int64_t dim = -1;
    if (which < 0 || stnp_take_ints(value, what, 1, &dim) < 0)
        return -1;
    *(which == 1 ? &halo->latitude : &halo->longitude) =
        dim == (int)dim ? (int)dim : -1; /* which the library refuses */
    return 0;
}

int stnp_take_halo(PyObject *dict, const char *what, stn_halo *halo)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    memset(halo, 0, sizeof *halo);
    halo->size = sizeof *halo;
    if (stnp_want(dict, &PyDict_Type, what) < 0)
        return -1;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const int failed = PyUnicode_Check(key) ? take_named(key, value, what, halo) : take_dim(key, value, what, halo);
        if (failed < 0)
            return -1;
    }
    return 0;
}

PyObject *stnp_tensor_halo_pad(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"halo", "convention", NULL};
    const stnp_tensor *self = (const stnp_tensor *)object;
    const char *convention = "replicated";
    PyObject *dict;
    stn_halo halo;
    stn_grad_convention how;
    stnp_entry entry;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|s:halo_pad", names, &dict, &convention) ||
        stnp_take_convention(convention, &how) < 0 || stnp_take_halo(dict, "halo_pad: halo", &halo) < 0 ||
        stnp_enter(&entry, self->context) < 0)
        return NULL;
    return stnp_leave_tensor(&entry, stn_halo_pad(self->handle, &halo, how));
}

PyObject *stnp_tensor_halo_unpad_add(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"spec", "halo", "convention", NULL};
    const stnp_tensor *self = (const stnp_tensor *)object;
    const char *convention = "replicated";
    PyObject *dict, *spec;
    stn_halo halo;
    stn_grad_convention how;
    stnp_entry entry;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O|s:halo_unpad_add", names, stnp_spec_type, &spec, &dict,
                                     &convention) ||
        stnp_take_convention(convention, &how) < 0 || stnp_take_halo(dict, "halo_unpad_add: halo", &halo) < 0 ||
        stnp_enter(&entry, self->context) < 0)
        return NULL;
    stn_tensor *sum = stn_halo_unpad_add(self->handle, ((stnp_spec *)spec)->handle, &halo, how);
    return stnp_place(stnp_leave_tensor(&entry, sum), &((stnp_spec *)spec)->placed);
}
