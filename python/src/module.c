/* shardtensor._c: the library for Python. */
#include "binding.h"

static PyMethodDef functions[] = {
    {"launch", STNP_KEYWORDS(stnp_launch),
     "launch(ranks, function, threads=1, checks=False, seed=0, deadline_seconds=0, device=None, ...): "
     "function(context) "
     "on as many threads, each with a Context of these options. A list of what they return."},
    {"fake_comm", stnp_fake_comm, METH_VARARGS,
     "fake_comm(rank, size): for Context(comm=…), which acts as that rank without the others. It moves nothing."},
    {"tcp_comm", STNP_KEYWORDS(stnp_tcp_comm),
     "tcp_comm(host, port, rank, size, job='', deadline_seconds=0): for Context(comm=…), of processes that know where "
     "rank 0 is: at the first of port … port + 15 that is free on `host`. Collective; who says another `job` is not "
     "let in. The deadline is for meeting: 300 s unless given."},
    {"function", stnp_function, METH_O, "function(name): calls the op of that name in its arguments' context."},
    {"sht_latitudes", STNP_KEYWORDS(stnp_sht_latitudes),
     "sht_latitudes(grid, nlat): angles from the north pole, and weights whose sum is 2: two lists."},
    {"schedule_constant", STNP_KEYWORDS(stnp_schedule_constant),
     "schedule_constant(step, warm_up): a factor of the rate, which rises over `warm_up` steps, then is 1."},
    {"schedule_cosine", STNP_KEYWORDS(stnp_schedule_cosine),
     "schedule_cosine(step, warm_up, total, least=0): the same rise, then half a cosine down to `least`."},
    {"close_all", stnp_close_all, METH_NOARGS, "Closes all contexts, for the end of the interpreter."},
    {0},
};

static int add_type(PyObject *module, const char *name, PyTypeObject **kept, PyTypeObject *type)
{
    *kept = type;
    return type ? PyModule_AddObjectRef(module, name, (PyObject *)type) : -1;
}

/** The contexts go before the interpreter does: what they hold may be Python's. */
static int close_at_exit(PyObject *module)
{
    PyObject *atexit = PyImport_ImportModule("atexit"), *close = PyObject_GetAttrString(module, "close_all");
    PyObject *result = atexit && close ? PyObject_CallMethod(atexit, "register", "O", close) : NULL;
    int failed = !result;
    Py_XDECREF(result);
    Py_XDECREF(close);
    Py_XDECREF(atexit);
    return failed ? -1 : 0;
}

PyMODINIT_FUNC PyInit__c(void);

PyMODINIT_FUNC PyInit__c(void)
{
    static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "shardtensor._c", .m_size = -1,
                                            .m_methods = functions};
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    if (stnp_errors_init(module) < 0 || stnp_functions_init() < 0 ||
        add_type(module, "Context", &stnp_context_type, stnp_make_context_type()) < 0 ||
        add_type(module, "Mesh", &stnp_mesh_type, stnp_make_mesh_type()) < 0 ||
        add_type(module, "Spec", &stnp_spec_type, stnp_make_spec_type()) < 0 ||
        add_type(module, "Tensor", &stnp_tensor_type, stnp_make_tensor_type()) < 0 ||
        add_type(module, "Op", &stnp_op_type, stnp_make_op_type()) < 0 ||
        add_type(module, "Pullback", &stnp_pullback_type, stnp_make_pullback_type()) < 0 ||
        add_type(module, "Step", &stnp_step_type, stnp_make_step_type()) < 0 ||
        add_type(module, "Optimizer", &stnp_optimizer_type, stnp_make_optimizer_type()) < 0 ||
        add_type(module, "Average", &stnp_average_type, stnp_make_average_type()) < 0 ||
        add_type(module, "Hook", &stnp_hook_type, stnp_make_hook_type()) < 0 ||
        add_type(module, "File", &stnp_file_type, stnp_make_file_type()) < 0 ||
        add_type(module, "Shortcut", &stnp_shortcut_type, stnp_make_shortcut_type()) < 0 ||
        PyModule_AddStringConstant(module, "version", stn_version_string()) < 0 || close_at_exit(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
