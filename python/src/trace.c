/* Traces of what a rank does, and the log. */
#include "binding.h"

static _Thread_local int is_in_log;

int stnp_in_log(void)
{
    return is_in_log;
}

static const char *const levels[] = {"error", "warning", "info", "debug"};

/** May come where an exception is set, of a destructor's caller: it is set again behind. */
static void write_line(void *arg, stn_log_level level, int rank, const char *text)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *function = *(PyObject **)arg, *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (function) {
        Py_INCREF(function);
        is_in_log++;
        PyObject *result = PyObject_CallFunction(function, "sis", levels[level], rank, text);
        if (!result)
            PyErr_WriteUnraisable(function);
        is_in_log--;
        Py_XDECREF(result);
        Py_DECREF(function);
    }
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(state);
}

int stnp_take_log(PyObject *function, const char *level, PyObject **slot, stn_context_options *options)
{
    const int choice = stnp_take_choice("log_level", level, levels, sizeof levels / sizeof levels[0]);
    if (choice < 0)
        return -1;
    if (function == Py_None)
        return 0;
    if (!PyCallable_Check(function)) {
        PyErr_Format(PyExc_TypeError, "log: got %R, wanted a function", function);
        return -1;
    }
    Py_INCREF(function);
    *slot = function;
    options->log = write_line;
    options->log_arg = slot;
    options->log_level = (stn_log_level)choice;
    return 0;
}

int stnp_take_promotion(const char *name, stn_context_options *options)
{
    static const char *const choices[] = {"refuse", "warn", "silent"};
    const int choice = stnp_take_choice("promotion", name, choices, 3);
    options->promotion = choice < 0 ? STN_PROMOTE_REFUSE : (stn_promotion)choice;
    return choice < 0 ? -1 : 0;
}

static PyObject *act(PyObject *self, stn_status (*what)(stn_context *context))
{
    stnp_entry entry;
    if (stnp_enter(&entry, (stnp_context *)self) < 0 || stnp_leave(&entry, what(entry.context->handle)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *stnp_context_trace_begin(PyObject *self, PyObject *none)
{
    (void)none;
    return act(self, stn_trace_begin);
}

PyObject *stnp_context_trace_range_end(PyObject *self, PyObject *none)
{
    (void)none;
    return act(self, stn_trace_range_end);
}

PyObject *stnp_context_trace_align_clocks(PyObject *self, PyObject *none)
{
    (void)none;
    return act(self, stn_trace_align_clocks);
}

PyObject *stnp_context_trace_range_begin(PyObject *self, PyObject *text)
{
    stnp_entry entry;
    PyObject *bytes = stnp_want(text, &PyUnicode_Type, "trace_range_begin") < 0 ? NULL : PyUnicode_AsUTF8String(text);
    const int failed = !bytes || stnp_enter(&entry, (stnp_context *)self) < 0 ||
                       stnp_leave(&entry, stn_trace_range_begin(entry.context->handle, PyBytes_AsString(bytes))) < 0;
    Py_XDECREF(bytes);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *stnp_context_trace_end(PyObject *self, PyObject *path)
{
    stnp_entry entry;
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    const int failed = stnp_enter(&entry, (stnp_context *)self) < 0 ||
                       stnp_leave(&entry, stn_trace_end(entry.context->handle, PyBytes_AsString(bytes))) < 0;
    Py_DECREF(bytes);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *stnp_context_trace_nvtx(PyObject *self, PyObject *on)
{
    stnp_entry entry;
    const int value = PyObject_IsTrue(on);
    if (value < 0 || stnp_enter(&entry, (stnp_context *)self) < 0 ||
        stnp_leave(&entry, stn_trace_nvtx(entry.context->handle, value)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *stnp_context_trace_summary(PyObject *self, PyObject *none)
{
    enum { MOST = 1 << 18 }; /* bytes: a row has some hundred */
    stnp_entry entry;
    PyObject *table = NULL;
    char *text = PyMem_Calloc(MOST, 1);
    (void)none;
    if (!text)
        return PyErr_NoMemory();
    if (stnp_enter(&entry, (stnp_context *)self) == 0 &&
        stnp_leave(&entry, stn_trace_summary(entry.context->handle, text, MOST)) == 0)
        table = PyUnicode_FromString(text);
    PyMem_Free(text);
    return table;
}
