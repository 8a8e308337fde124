/* What a context chooses for the calls that follow. */
#include "binding.h"

#include <string.h>

int stnp_take_choice(const char *what, const char *got, const char *const *choices, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(got, choices[i]) == 0)
            return i;
    }
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++) {
        PyObject *choice = PyUnicode_FromString(choices[i]);
        if (!choice || PyList_Append(list, choice) < 0)
            Py_CLEAR(list);
        Py_XDECREF(choice);
    }
    if (list)
        PyErr_Format(PyExc_ValueError, "%s got '%s', wanted one of %S", what, got, list);
    Py_XDECREF(list);
    return -1;
}

static PyObject *set(PyObject *self, PyObject *on, void (*what)(stn_context *context, int on))
{
    stnp_entry entry;
    const int value = PyObject_IsTrue(on);
    if (value < 0 || stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    what(entry.context->handle, value);
    stnp_leave(&entry, STN_OK);
    Py_RETURN_NONE;
}

PyObject *stnp_context_set_grad_overlap(PyObject *self, PyObject *on)
{
    return set(self, on, stn_set_grad_overlap);
}

PyObject *stnp_context_set_gather_again(PyObject *self, PyObject *on)
{
    return set(self, on, stn_set_gather_again);
}

/** The choices stand in the order of the enums. */
static int take_when(const char *what, PyObject *when)
{
    static const char *const choices[] = {"where_it_pays", "never", "always"};
    const char *name = stnp_want(when, &PyUnicode_Type, what) < 0 ? NULL : PyUnicode_AsUTF8AndSize(when, NULL);
    return name ? stnp_take_choice(what, name, choices, 3) : -1;
}

PyObject *stnp_context_set_halo_overlap(PyObject *self, PyObject *when)
{
    stnp_entry entry;
    const int choice = take_when("set_halo_overlap", when);
    if (choice < 0 || stnp_enter(&entry, (stnp_context *)self) < 0 ||
        stnp_leave(&entry, stn_set_halo_overlap(entry.context->handle, (stn_halo_overlap)choice)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *stnp_context_set_ring_attention(PyObject *self, PyObject *when)
{
    stnp_entry entry;
    const int choice = take_when("set_ring_attention", when);
    if (choice < 0 || stnp_enter(&entry, (stnp_context *)self) < 0 ||
        stnp_leave(&entry, stn_set_ring_attention(entry.context->handle, (stn_ring_attention)choice)) < 0)
        return NULL;
    Py_RETURN_NONE;
}
