/* An exception of Python as the failure of a collective: for both extensions that have communicators. */
#ifndef STNP_RAISED_H
#define STNP_RAISED_H

#include <Python.h> /* of the ABI that the including file names */

#include <shardtensor/shardtensor.h>

/** The text of the exception that is set goes to the queue, and the exception is gone. */
static inline stn_status stnp_fail_raised(stn_queue *queue, const char *collective)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    stn_status status = stn_queue_fail(queue, STN_ERR_COMM, "%s: %s", collective, words ? words : "an exception");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return status;
}

#endif
