/* The way into the library and back.
 *
 * Calls may wait for other ranks, whose Python threads need the interpreter, so that its lock is given up first. A
 * context is used by one thread at a time, so that its own lock is taken next, in this order always: who waits for a
 * context never holds the interpreter. */
#include "binding.h"

#include <stdlib.h>

struct stnp_given_up {
    void *what;
    void (*release)(void *what);
    struct stnp_given_up *next;
};

void stnp_release_given_up(stnp_context *context)
{
    pthread_mutex_lock(&context->given_up_lock);
    struct stnp_given_up *list = context->given_up;
    context->given_up = NULL;
    pthread_mutex_unlock(&context->given_up_lock);
    while (list) {
        struct stnp_given_up *next = list->next;
        list->release(list->what);
        free(list);
        list = next;
    }
}

void stnp_give_up(stnp_context *context, void *what, void (*release)(void *what))
{
    if (!what)
        return;
    if (pthread_mutex_trylock(&context->lock) == 0) {
        stnp_release_given_up(context);
        release(what);
        pthread_mutex_unlock(&context->lock);
        return;
    }
    struct stnp_given_up *entry = malloc(sizeof *entry);
    if (!entry)
        return; /* its tensors live as long as the context */
    pthread_mutex_lock(&context->given_up_lock);
    *entry = (struct stnp_given_up){what, release, context->given_up};
    context->given_up = entry;
    pthread_mutex_unlock(&context->given_up_lock);
}

int stnp_enter(stnp_entry *entry, stnp_context *context)
{
    if (stnp_in_log()) { /* the library is in the middle of something */
        stnp_raise(STN_ERR_STATE, "a function that gets lines of the log calls the library");
        return -1;
    }
    *entry = (stnp_entry){context, PyEval_SaveThread()};
    pthread_mutex_lock(&context->lock);
    if (context->given_up)
        stnp_release_given_up(context);
    if (context->handle) {
        context->depth++;
        return 0;
    }
    pthread_mutex_unlock(&context->lock);
    PyEval_RestoreThread(entry->thread);
    stnp_raise(STN_ERR_STATE, "the context is closed");
    return -1;
}

void stnp_forget_raised(stnp_context *context)
{
    for (int i = 0; i < 3; i++)
        Py_CLEAR(context->raised[i]);
}

void stnp_keep_raised(stnp_context *context)
{
    stnp_forget_raised(context);
    PyErr_Fetch(&context->raised[0], &context->raised[1], &context->raised[2]);
}

/** Raises what a function of Python's raised, by which the call failed. 0 where there was none. */
static int raise_again(stnp_context *context)
{
    PyObject **raised = context->raised;
    if (!raised[0])
        return 0;
    PyErr_Restore(raised[0], raised[1], raised[2]);
    raised[0] = raised[1] = raised[2] = NULL;
    return 1;
}

int stnp_leave(stnp_entry *entry, stn_status status)
{
    char text[2048] = "";
    if (status != STN_OK && entry->context->handle) {
        stn_status kept = stn_context_take_error(entry->context->handle, text, sizeof text);
        status = kept != STN_OK ? kept : status;
    }
    PyObject *held = --entry->context->depth == 0 ? entry->context->held : NULL;
    if (held)
        entry->context->held = NULL;
    pthread_mutex_unlock(&entry->context->lock);
    PyEval_RestoreThread(entry->thread);
    Py_XDECREF(held);
    if (status == STN_OK)
        return 0;
    if (!raise_again(entry->context))
        stnp_raise(status, text);
    return -1;
}

PyObject *stnp_leave_tensor(stnp_entry *entry, stn_tensor *tensor)
{
    stnp_context *context = entry->context;
    stn_status status = STN_OK;
    if (stn_tensor_is_error(tensor)) {
        status = stn_context_status(context->handle);
        status = status != STN_OK ? status : STN_ERR_INTERNAL;
        tensor = NULL;
    }
    if (stnp_leave(entry, status) < 0)
        return NULL;
    return stnp_wrap_tensor(context, tensor);
}
