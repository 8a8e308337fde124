/* Optimizer: parameters, their state, and steps; made by Context.sgd, adam and adamw. Schedules of its rate. */
#include "binding.h"

#include <string.h>

PyTypeObject *stnp_optimizer_type;

typedef struct stnp_optimizer {
    PyObject_HEAD stnp_context *context;
    stn_optimizer *handle;
} stnp_optimizer;

/** The library reads 0 as the number that it has by default, which a caller who writes 0 does not mean. */
static int check_not_zero(const char *whose, const char *name, double value)
{
    char text[64];
    if (value != 0)
        return 0;
    PyOS_snprintf(text, sizeof text, "%s: %s got 0, wanted more", whose, name);
    stnp_raise(STN_ERR_ARGUMENT, text);
    return -1;
}

static stn_status add(stn_optimizer *optimizer, const stnp_named *named, double rate, const double *weight_decay)
{
    const stn_parameter_group group = {.size = sizeof group,
                                       .n = named->n,
                                       .parameters = named->tensors,
                                       .rate = rate,
                                       .has_weight_decay = weight_decay != NULL,
                                       .weight_decay = weight_decay ? *weight_decay : 0};
    return stn_optimizer_add_group(optimizer, &group);
}

stn_optimizer *stnp_optimizer_handle(PyObject *optimizer)
{
    return ((stnp_optimizer *)optimizer)->handle;
}

static void release(void *handle)
{
    stn_optimizer *optimizer = handle;
    stn_optimizer_destroy(&optimizer);
}

static void destroy(PyObject *object)
{
    stnp_optimizer *self = (stnp_optimizer *)object;
    stnp_give_up(self->context, self->handle, release);
    stnp_owned_free(object);
}

typedef stn_status (*create_fn)(stn_context *context, const void *options, stn_optimizer **out);

static stn_status create_sgd(stn_context *context, const void *options, stn_optimizer **out)
{
    return stn_sgd_create(context, options, out);
}

static stn_status create_adam(stn_context *context, const void *options, stn_optimizer **out)
{
    return stn_adam_create(context, options, out);
}

static stn_status create_adamw(stn_context *context, const void *options, stn_optimizer **out)
{
    return stn_adamw_create(context, options, out);
}

static PyObject *make(PyObject *context, PyObject *parameters, create_fn create, const void *options)
{
    stnp_entry entry;
    stnp_named named;
    stn_status status;
    stnp_optimizer *self = stnp_owned_new(stnp_optimizer_type, (stnp_context *)context);
    if (!self)
        return NULL;
    self->handle = NULL;
    if (stnp_take_named(parameters, "parameters", &named) < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    int failed = stnp_enter(&entry, (stnp_context *)context) < 0;
    if (!failed) {
        stn_context *handle = entry.context->handle;
        status = create(handle, options, &self->handle);
        failed = stnp_leave(&entry, status == STN_OK ? add(self->handle, &named, 0, NULL) : status) < 0;
    }
    stnp_named_fini(&named);
    if (!failed)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

PyObject *stnp_context_sgd(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"parameters", "rate", "momentum", "dampening", "weight_decay", "nesterov", NULL};
    stn_sgd_options options = {.size = sizeof options, .rate = 1e-3};
    PyObject *parameters;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|ddddp:sgd", names, &parameters, &options.rate,
                                     &options.momentum, &options.dampening, &options.weight_decay, &options.nesterov) ||
        check_not_zero("sgd", "rate", options.rate) < 0)
        return NULL;
    return make(self, parameters, create_sgd, &options);
}

/** `format` ends in the name, which begins messages behind its colon. */
static PyObject *make_adam(PyObject *self, PyObject *args, PyObject *keywords, const char *format, create_fn create)
{
    static char *names[] = {"parameters", "rate", "beta1", "beta2", "epsilon", "weight_decay", NULL};
    stn_adamw_options options = {.size = sizeof options, .rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
    const char *name = strchr(format, ':') + 1;
    PyObject *parameters;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &parameters, &options.rate, &options.beta1,
                                     &options.beta2, &options.epsilon, &options.weight_decay) ||
        check_not_zero(name, "rate", options.rate) < 0 || check_not_zero(name, "beta1", options.beta1) < 0 ||
        check_not_zero(name, "beta2", options.beta2) < 0 || check_not_zero(name, "epsilon", options.epsilon) < 0)
        return NULL;
    return make(self, parameters, create, &options);
}

PyObject *stnp_context_adam(PyObject *self, PyObject *args, PyObject *keywords)
{
    return make_adam(self, args, keywords, "O|ddddd:adam", create_adam);
}

PyObject *stnp_context_adamw(PyObject *self, PyObject *args, PyObject *keywords)
{
    return make_adam(self, args, keywords, "O|ddddd:adamw", create_adamw);
}

static PyObject *add_group(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"parameters", "rate", "weight_decay", NULL};
    stnp_optimizer *self = (stnp_optimizer *)object;
    PyObject *parameters, *rate = Py_None, *decay = Py_None;
    stnp_entry entry;
    stnp_named named;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OO:add_group", names, &parameters, &rate, &decay))
        return NULL;
    const double own_rate = rate == Py_None ? 0 : PyFloat_AsDouble(rate);
    const double own_decay = decay == Py_None ? 0 : PyFloat_AsDouble(decay);
    if (PyErr_Occurred() || (rate != Py_None && check_not_zero("add_group", "rate", own_rate) < 0) ||
        stnp_take_named(parameters, "parameters", &named) < 0)
        return NULL;
    int failed = stnp_enter(&entry, self->context) < 0;
    if (!failed)
        failed = stnp_leave(&entry, add(self->handle, &named, own_rate, decay == Py_None ? NULL : &own_decay)) < 0;
    stnp_named_fini(&named);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *act(PyObject *object, stn_status (*what)(stn_optimizer *))
{
    stnp_entry entry;
    stnp_optimizer *self = (stnp_optimizer *)object;
    if (stnp_enter(&entry, self->context) < 0 || stnp_leave(&entry, what(self->handle)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *step(PyObject *object, PyObject *none)
{
    (void)none;
    return act(object, stn_optimizer_step);
}

static PyObject *zero_grad(PyObject *object, PyObject *none)
{
    (void)none;
    return act(object, stn_optimizer_zero_grad);
}

static PyObject *set_rate_factor(PyObject *object, PyObject *factor)
{
    stnp_entry entry;
    stnp_optimizer *self = (stnp_optimizer *)object;
    const double value = PyFloat_AsDouble(factor);
    if (PyErr_Occurred() || stnp_enter(&entry, self->context) < 0)
        return NULL;
    stn_optimizer_set_rate_factor(self->handle, value);
    stnp_leave(&entry, STN_OK);
    Py_RETURN_NONE;
}

static PyObject *in_file(PyObject *object, PyObject *path, stn_status (*what)(stn_optimizer *, const char *))
{
    stnp_entry entry;
    stnp_optimizer *self = (stnp_optimizer *)object;
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    int failed =
        stnp_enter(&entry, self->context) < 0 || stnp_leave(&entry, what(self->handle, PyBytes_AsString(bytes))) < 0;
    Py_DECREF(bytes);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *save(PyObject *object, PyObject *path)
{
    return in_file(object, path, stn_optimizer_save);
}

static PyObject *load(PyObject *object, PyObject *path)
{
    return in_file(object, path, stn_optimizer_load);
}

static PyObject *get_steps(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromLongLong(stn_optimizer_steps(((stnp_optimizer *)object)->handle));
}

PyObject *stnp_schedule_constant(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"step", "warm_up", NULL};
    long long at, warm_up;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "LL:schedule_constant", names, &at, &warm_up))
        return NULL;
    return PyFloat_FromDouble(stn_schedule_constant(at, warm_up));
}

PyObject *stnp_schedule_cosine(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"step", "warm_up", "total", "least", NULL};
    long long at, warm_up, total;
    double least = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "LLL|d:schedule_cosine", names, &at, &warm_up, &total, &least))
        return NULL;
    return PyFloat_FromDouble(stn_schedule_cosine(at, warm_up, total, least));
}

PyTypeObject *stnp_make_optimizer_type(void)
{
    static PyMethodDef methods[] = {
        {"step", step, METH_NOARGS, "One step from the parameters' gradients. Communicates nothing."},
        {"zero_grad", zero_grad, METH_NOARGS, "Forgets the gradients of all parameters."},
        {"add_group", STNP_KEYWORDS(add_group),
         "add_group(parameters, rate=None, weight_decay=None): more parameters, {name: leaf}, with numbers of theirs."},
        {"set_rate_factor", set_rate_factor, METH_O, "What all rates are multiplied by from now on; 1 at first."},
        {"save", save, METH_O, "save(path): parameters, state and steps in a safetensors file. Collective."},
        {"load", load, METH_O, "load(path): reads them back, whatever the layouts are now. Collective."},
        {0},
    };
    static PyGetSetDef members[] = {
        {"steps", get_steps, NULL, "Steps done so far.", NULL},
        {0},
    };
    PyType_Slot slots[] = {
        {Py_tp_dealloc, destroy},
        {Py_tp_methods, methods},
        {Py_tp_getset, members},
        {Py_tp_doc, "An optimizer; made by Context.sgd, Context.adam and Context.adamw."},
        {0},
    };
    return stnp_owned_type("shardtensor._c.Optimizer", sizeof(stnp_optimizer), slots);
}
