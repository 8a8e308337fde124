/* Context: a rank's. Everything that this rank makes is made by it. */
#include "binding.h"

#include <shardtensor/nccl.h>

#include <stdio.h>
#include <string.h>

PyTypeObject *stnp_context_type;

static stnp_context *open_contexts; /* with the interpreter's lock */

static stnp_context *allocate(PyTypeObject *type)
{
    stnp_context *self = PyObject_GC_New(stnp_context, type);
    if (!self)
        return NULL;
    self->handle = NULL;
    self->owned = 0;
    self->given_up = NULL;
    self->function_thread = 0;
    self->function_number = self->functions_begun = 0;
    memset(self->raised, 0, sizeof self->raised);
    self->callbacks = NULL;
    self->log = NULL;
    self->depth = 0;
    self->held = NULL;
    self->ops = PyDict_New();
    self->wrapper_words = NULL;
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&self->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&self->given_up_lock, NULL);
    self->previous = NULL;
    self->next = open_contexts;
    if (open_contexts)
        open_contexts->previous = self;
    open_contexts = self;
    PyObject_GC_Track((PyObject *)self);
    return self;
}

static void forget(stnp_context *self)
{
    if (self->previous)
        self->previous->next = self->next;
    else if (open_contexts == self)
        open_contexts = self->next;
    if (self->next)
        self->next->previous = self->previous;
    self->next = self->previous = NULL;
}

stnp_context *stnp_context_borrow(stn_context *handle)
{
    stnp_context *self = allocate(stnp_context_type);
    if (self)
        self->handle = handle;
    return self;
}

void stnp_context_leave(stnp_context *self)
{
    stnp_entry entry;
    if (stnp_enter(&entry, self) < 0) {
        PyErr_Clear();
        return;
    }
    stn_context *handle = self->handle;
    self->handle = NULL;
    if (self->owned)
        stn_context_destroy(&handle);
    stnp_leave(&entry, STN_OK);
    forget(self);
    stnp_callbacks_end(self);
    PyDict_Clear(self->ops);
}

/** What is asked of a context beside the library's own options. */
struct wishes {
    PyObject *collectives, *allocator, *log;
    const char *log_level, *promotion;
    int rank, size, nccl;
};

static PyObject *take_options(PyObject *args, PyObject *keywords, stn_context_options *options, struct wishes *wishes)
{
    static char *names[] = {"comm",
                            "rank",
                            "size",
                            "threads",
                            "checks",
                            "seed",
                            "deadline_seconds",
                            "device",
                            "isa",
                            "without",
                            "module_path",
                            "allow_tf32",
                            "stream",
                            "nccl",
                            "allocator",
                            "promotion",
                            "reproducible_sums",
                            "log",
                            "log_level",
                            NULL};
    unsigned long long seed = 0, stream = 0;
    if (!PyArg_ParseTupleAndKeywords(
            args, keywords, "|OiiipKdzzzzpKpOspOs:Context", names, &wishes->collectives, &wishes->rank, &wishes->size,
            &options->threads, &options->checks, &seed, &options->deadline_seconds, &options->device, &options->isa,
            &options->without, &options->module_path, &options->allow_tf32, &stream, &wishes->nccl, &wishes->allocator,
            &wishes->promotion, &options->reproducible_sums, &wishes->log, &wishes->log_level) ||
        stnp_take_promotion(wishes->promotion, options) < 0)
        return NULL;
    options->seed = seed;
    if (stream)
        options->queue = (stn_queue_options){.size = sizeof options->queue, .stream = (void *)(uintptr_t)stream};
    return Py_None;
}

/** Puts NCCL over a communicator of the hosts, which is its control from then on. */
static stn_status add_nccl(const stn_context_options *options, stn_comm **comm)
{
    stn_nccl_options nccl = {.size = sizeof nccl,
                             .module_path = options->module_path,
                             .deadline_seconds = options->deadline_seconds,
                             .error_text = options->error_text,
                             .error_text_size = options->error_text_size};
    stn_comm *control = *comm;
    nccl.has_device = options->device && sscanf(options->device, "cuda:%d", &nccl.device) == 1;
    return stn_comm_create_nccl(control, &nccl, comm);
}

static stn_status create(const struct wishes *wishes, stn_context_options *options, stn_context **out)
{
    stn_status status = STN_OK;
    if (wishes->collectives != Py_None)
        status = stnp_comm_create(wishes->collectives, wishes->rank, wishes->size, options->error_text,
                                  options->error_text_size, &options->comm);
    if (status == STN_OK) {
        Py_BEGIN_ALLOW_THREADS if (wishes->nccl) status = add_nccl(options, &options->comm);
        if (status == STN_OK)
            status = stn_context_create(options, out);
        if (status != STN_OK)
            stn_comm_destroy(&options->comm);
        Py_END_ALLOW_THREADS
    }
    return status;
}

PyObject *stnp_new_context(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    char text[1024] = "";
    stn_context_options options = {.size = sizeof options, .error_text = text, .error_text_size = sizeof text};
    struct wishes wishes = {.collectives = Py_None,
                            .allocator = Py_None,
                            .log = Py_None,
                            .log_level = "warning",
                            .promotion = "refuse",
                            .size = 1};
    stn_device_allocator allocator;
    if (!take_options(args, keywords, &options, &wishes))
        return NULL;
    if (wishes.allocator != Py_None && stnp_take_allocator(wishes.allocator, &allocator) < 0)
        return NULL;
    options.device_allocator = wishes.allocator != Py_None ? &allocator : NULL;
    if (wishes.nccl && wishes.collectives == Py_None)
        return stnp_raise(STN_ERR_ARGUMENT, "Context: nccl got True without comm, over which the hosts meet");
    stnp_context *self = allocate(type);
    if (!self || stnp_take_log(wishes.log, wishes.log_level, &self->log, &options) < 0) {
        Py_XDECREF((PyObject *)self);
        return NULL;
    }
    stn_status status = create(&wishes, &options, &self->handle);
    self->owned = 1;
    if (status == STN_OK)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return stnp_raise(status, text);
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((stnp_context *)object)->ops);
    Py_VISIT(((stnp_context *)object)->wrapper_words);
    Py_VISIT(((stnp_context *)object)->log);
    return 0;
}

static int clear(PyObject *object)
{
    Py_CLEAR(((stnp_context *)object)->ops);
    Py_CLEAR(((stnp_context *)object)->wrapper_words);
    Py_CLEAR(((stnp_context *)object)->log);
    return 0;
}

static void destroy(PyObject *object)
{
    stnp_context *self = (stnp_context *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    forget(self);
    stnp_release_given_up(self);
    if (self->handle && self->owned) {
        Py_BEGIN_ALLOW_THREADS stn_context_destroy(&self->handle);
        Py_END_ALLOW_THREADS
    }
    stnp_callbacks_end(self);
    Py_CLEAR(self->ops);
    Py_CLEAR(self->wrapper_words);
    Py_CLEAR(self->held);
    Py_CLEAR(self->log);
    stnp_forget_raised(self);
    pthread_mutex_destroy(&self->lock);
    pthread_mutex_destroy(&self->given_up_lock);
    PyObject_GC_Del(object);
    Py_DECREF((PyObject *)type);
}

PyObject *stnp_close_all(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    for (stnp_context *self = open_contexts, *next; self; self = next) {
        next = self->next;
        if (!self->owned || !self->handle || pthread_mutex_trylock(&self->lock) != 0)
            continue;
        Py_INCREF((PyObject *)self);
        stnp_context_leave(self);
        pthread_mutex_unlock(&self->lock);
        next = open_contexts; /* what ran meanwhile may have changed the list */
        Py_DECREF((PyObject *)self);
    }
    Py_RETURN_NONE;
}

static PyObject *close_context(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_context *self = (stnp_context *)object;
    if (!self->owned)
        return stnp_raise(STN_ERR_STATE, "close: the context is that of a launch, which closes it");
    if (self->function_thread)
        return stnp_raise(STN_ERR_STATE, "close: the context is in a function that it calls, which ends first");
    if (self->handle)
        stnp_context_leave(self);
    Py_RETURN_NONE;
}

static PyObject *get_rank(PyObject *object, void *which)
{
    const stn_context *handle = ((stnp_context *)object)->handle;
    if (!handle)
        return stnp_raise(STN_ERR_STATE, "the context is closed");
    return PyLong_FromLong(which ? stn_context_size(handle) : stn_context_rank(handle));
}

static PyObject *get_device(PyObject *object, void *none)
{
    (void)none;
    stnp_entry entry;
    int32_t type = 0, index = 0;
    if (stnp_enter(&entry, (stnp_context *)object) < 0)
        return NULL;
    stn_status status = stn_context_dlpack_device(entry.context->handle, &type, &index);
    if (stnp_leave(&entry, status) < 0)
        return NULL;
    return type == STNP_DLPACK_CPU ? PyUnicode_FromString("cpu") : PyUnicode_FromFormat("cuda:%d", (int)index);
}

static PyObject *get_closed(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(!((stnp_context *)object)->handle);
}

PyTypeObject *stnp_make_context_type(void)
{
    static PyGetSetDef members[] = {
        {"rank", get_rank, NULL, "This rank in the world.", NULL},
        {"size", get_rank, NULL, "Ranks of the world.", (void *)1},
        {"device", get_device, NULL, "Where its tensors are: \"cpu\", or \"cuda:0\".", NULL},
        {"closed", get_closed, NULL,
         "Whether the context is closed: what it made can still be looked at, and not be used.", NULL},
        {0},
    };
    /* close stands here, for it is the counterpart of the constructor; the other methods in context_methods.c */
    static PyMethodDef own[] = {
        {"close", close_context, METH_NOARGS, "Gives back what the context holds. Handles may outlive it."}, {0}};
    PyType_Slot slots[] = {
        {Py_tp_new, stnp_new_context},
        {Py_tp_dealloc, destroy},
        {Py_tp_traverse, traverse},
        {Py_tp_clear, clear},
        {Py_tp_getset, members},
        {Py_tp_methods, stnp_context_methods},
        {Py_tp_doc, "Context(comm=None, rank=0, size=1, threads=1, checks=False, seed=0, ...): a rank's context. comm "
                    "None: a world of one."},
        {0},
    };
    PyType_Spec spec = {"shardtensor._c.Context", sizeof(stnp_context), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                        slots};
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&spec);
    PyObject *method = type ? PyDescr_NewMethod(type, own) : NULL;
    int failed = !method || PyObject_SetAttrString((PyObject *)type, "close", method) < 0;
    Py_XDECREF(method);
    return failed ? NULL : type;
}
