/* Checkpoints: a run in one file. */
#include "binding.h"

/** What a caller names of a run, and what keeps it. */
struct run {
    stn_checkpoint checkpoint;
    stnp_named named;
    stn_metadata *texts;
    PyObject *items;
};

static void fini(struct run *run)
{
    stnp_named_fini(&run->named);
    PyMem_Free(run->texts);
    Py_XDECREF(run->items);
}

/** Each may be None. */
static int take_run(struct run *run, PyObject *optimizer, PyObject *average, PyObject *tensors)
{
    *run = (struct run){.checkpoint = {.size = sizeof run->checkpoint}};
    if ((optimizer != Py_None && stnp_want(optimizer, stnp_optimizer_type, "optimizer") < 0) ||
        (average != Py_None && stnp_want(average, stnp_average_type, "average") < 0) ||
        (tensors != Py_None && stnp_take_named(tensors, "tensors", &run->named) < 0))
        return -1;
    run->checkpoint.optimizer = optimizer == Py_None ? NULL : stnp_optimizer_handle(optimizer);
    run->checkpoint.average = average == Py_None ? NULL : stnp_average_handle(average);
    run->checkpoint.n_tensors = run->named.n;
    run->checkpoint.tensors = run->named.tensors;
    return 0;
}

PyObject *stnp_context_checkpoint_save(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"path", "optimizer", "average", "step", "tensors", "texts", NULL};
    PyObject *path, *optimizer = Py_None, *average = Py_None, *tensors = Py_None, *texts = Py_None;
    long long step = 0;
    int failed = 1;
    struct run run;
    stnp_entry entry;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|OOLOO:checkpoint_save", names, PyUnicode_FSConverter, &path,
                                     &optimizer, &average, &step, &tensors, &texts))
        return NULL;
    if (take_run(&run, optimizer, average, tensors) == 0 &&
        stnp_take_texts(texts, &run.items, &run.texts, &run.checkpoint.n_texts) == 0 &&
        stnp_enter(&entry, (stnp_context *)self) == 0) {
        run.checkpoint.step = step;
        run.checkpoint.texts = run.texts;
        failed =
            stnp_leave(&entry, stn_checkpoint_save(entry.context->handle, PyBytes_AsString(path), &run.checkpoint)) < 0;
    }
    fini(&run);
    Py_DECREF(path);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *stnp_context_checkpoint_load(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"path", "optimizer", "average", "tensors", NULL};
    PyObject *path, *optimizer = Py_None, *average = Py_None, *tensors = Py_None;
    stn_file *file = NULL;
    int failed = 1;
    struct run run;
    stnp_entry entry;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|OOO:checkpoint_load", names, PyUnicode_FSConverter, &path,
                                     &optimizer, &average, &tensors))
        return NULL;
    if (take_run(&run, optimizer, average, tensors) == 0 && stnp_enter(&entry, (stnp_context *)self) == 0)
        failed = stnp_leave(&entry, stn_checkpoint_load(entry.context->handle, PyBytes_AsString(path), &run.checkpoint,
                                                        &file)) < 0;
    fini(&run);
    Py_DECREF(path);
    if (failed)
        return NULL;
    return Py_BuildValue("(LN)", (long long)run.checkpoint.step, stnp_wrap_file(file));
}
