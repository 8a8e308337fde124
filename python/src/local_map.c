/* Python functions on the chunks of tensors. The library calls them in scopes that own what they make. */
#include "binding.h"

#include <string.h>

/** Lives as long as the graph of the map, and the call that made it. */
typedef struct map_functions {
    stnp_callback *forward, *backward;
} map_functions;

static PyObject *wrap_all(const stnp_calling *calling, int n, stn_tensor *const *tensors)
{
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++) {
        PyObject *tensor = Py_None;
        if (tensors[i])
            tensor = stnp_wrap_kept(calling->context, stn_tensor_retain(tensors[i]));
        else
            Py_INCREF(tensor);
        if (!tensor || PyTuple_SetItem(tuple, i, tensor) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/** A tensor, or a tuple or list of as many as are wanted; None where `may_lack`. */
static int take_results(stnp_calling *calling, PyObject *result, const char *what, int may_lack, int n,
                        stn_tensor **tensors)
{
    const int is_list = PyTuple_Check(result) || PyList_Check(result);
    PyObject *tuple = is_list ? PySequence_Tuple(result) : PyTuple_Pack(1, result);
    if (tuple && PyTuple_Size(tuple) != n) {
        PyErr_Format(PyExc_ValueError, "%s gave %zd tensors, wanted %d", what, PyTuple_Size(tuple), n);
        Py_CLEAR(tuple);
    }
    for (int i = 0; tuple && i < n; i++) {
        PyObject *entry = PyTuple_GetItem(tuple, i);
        if (may_lack && entry == Py_None)
            continue;
        if (stnp_want(entry, stnp_tensor_type, what) < 0 || stnp_function_hold(calling->context, entry) < 0)
            Py_CLEAR(tuple);
        else
            tensors[i] = ((stnp_tensor *)entry)->handle;
    }
    Py_XDECREF(tuple);
    return tuple ? 0 : -1;
}

static stn_status run_forward(stn_local_call *call)
{
    static const char what[] = "local_map: the function";
    stnp_calling calling;
    if (!stnp_call_begin(&calling, ((map_functions *)call->arg)->forward))
        return stn_context_fail(call->context, STN_ERR_STATE, "local_map: the context has ended");
    PyObject *inputs = wrap_all(&calling, call->n_in, call->in);
    PyObject *result = inputs ? PyObject_CallObject(calling.function, inputs) : NULL;
    const int failed = !result || take_results(&calling, result, what, 0, call->n_out, call->out) < 0;
    Py_XDECREF(result);
    Py_XDECREF(inputs);
    return stnp_call_end(&calling, failed, what);
}

static PyObject *bits(uint32_t needs, int n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++)
        PyTuple_SetItem(tuple, i, PyBool_FromLong(needs >> i & 1));
    return tuple;
}

static stn_status run_backward(stn_local_backward_call *call)
{
    static const char what[] = "local_map: backward";
    stnp_calling calling;
    if (!stnp_call_begin(&calling, ((map_functions *)call->arg)->backward))
        return stn_context_fail(call->context, STN_ERR_STATE, "local_map: the context has ended");
    PyObject *inputs = wrap_all(&calling, call->n_in, call->in), *outputs = wrap_all(&calling, call->n_out, call->out);
    PyObject *grads = wrap_all(&calling, call->n_out, call->grad_out), *needs = bits(call->needs, call->n_in);
    PyObject *result = inputs && outputs && grads && needs
                           ? PyObject_CallFunctionObjArgs(calling.function, inputs, outputs, grads, needs, NULL)
                           : NULL;
    const int failed = !result || take_results(&calling, result, what, 1, call->n_in, call->grad_in) < 0;
    for (int i = 0; i < call->n_in; i++)
        call->grad_in[i] = call->needs >> i & 1 ? call->grad_in[i] : NULL;
    Py_XDECREF(result);
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    Py_XDECREF(grads);
    Py_XDECREF(needs);
    return stnp_call_end(&calling, failed, what);
}

static void destroy_functions(void *arg)
{
    if (!Py_IsInitialized())
        return;
    map_functions *functions = arg;
    PyGILState_STATE state = PyGILState_Ensure();
    stnp_callback_release(functions->forward);
    stnp_callback_release(functions->backward);
    PyMem_Free(functions);
    PyGILState_Release(state);
}

/** What the options point to. */
typedef struct map_call {
    stn_local_map_options options;
    int n_in, n_out, is_one;
    stn_tensor **in;
    PyObject *in_tuple, *out_list; /* keep the inputs, and what is said of each output */
    const stn_mesh *mesh;
    stn_placement *rows; /* 4 blocks of rows: in, out, in_grad, out_grad */
    const stn_placement *places[4][STN_MAX_INPUTS];
    stn_halo *halos;
    const stn_halo *halo_of[STN_MAX_INPUTS];
    const stn_spec *specs[STN_MAX_OUTPUTS];
    stnp_placed placed[STN_MAX_OUTPUTS];
} map_call;

enum { IN, OUT, IN_GRAD, OUT_GRAD };

static void fini(map_call *m)
{
    PyMem_Free(m->in);
    PyMem_Free(m->rows);
    PyMem_Free(m->halos);
    Py_XDECREF(m->in_tuple);
    Py_XDECREF(m->out_list);
}

/** A tuple of `list`, which is None or has n entries. @return a new reference; Py_None's; NULL. */
static PyObject *entries_of(PyObject *list, const char *what, int n)
{
    PyObject *tuple = list == Py_None ? list : PySequence_Tuple(list);
    if (list == Py_None)
        Py_INCREF(tuple);
    else if (tuple && PyTuple_Size(tuple) != n) {
        PyErr_Format(PyExc_ValueError, "local_map: %s has %zd entries, wanted %d", what, PyTuple_Size(tuple), n);
        Py_CLEAR(tuple);
    }
    return tuple;
}

/** Placements of each of n tensors: None, or a list whose entries are None or what placements are written as. */
static int take_rows(map_call *m, int block, PyObject *list, const char *what, int n)
{
    PyObject *tuple = entries_of(list, what, n);
    int failed = !tuple;
    for (int i = 0; !failed && tuple != Py_None && i < n; i++) {
        PyObject *entry = PyTuple_GetItem(tuple, i);
        stn_placement *row = m->rows + (block * STN_MAX_INPUTS + i) * STN_MAX_MESH_NDIM;
        if (entry == Py_None)
            continue;
        failed = stnp_take_placements(entry, m->mesh, row) < 0;
        m->places[block][i] = row;
    }
    Py_XDECREF(tuple);
    return failed ? -1 : 0;
}

static int take_halos(map_call *m, PyObject *list)
{
    PyObject *tuple = entries_of(list, "in_halos", m->n_in);
    int failed = !tuple;
    for (int i = 0; !failed && tuple != Py_None && i < m->n_in; i++) {
        PyObject *entry = PyTuple_GetItem(tuple, i);
        if (entry == Py_None)
            continue;
        failed = stnp_take_halo(entry, "local_map: in_halos", &m->halos[i]) < 0;
        m->halo_of[i] = &m->halos[i];
    }
    Py_XDECREF(tuple);
    return failed ? -1 : 0;
}

static int take_mesh(map_call *m, PyObject *mesh)
{
    if (mesh != Py_None) {
        m->mesh = stnp_want(mesh, stnp_mesh_type, "local_map: mesh") < 0 ? NULL : ((stnp_mesh *)mesh)->handle;
        return m->mesh ? 0 : -1;
    }
    for (int i = 0; i < m->n_in && !m->mesh; i++)
        m->mesh = m->in[i] ? stn_spec_mesh(stn_tensor_spec(m->in[i])) : NULL;
    if (!m->mesh)
        PyErr_SetString(PyExc_ValueError, "local_map: no mesh: wanted mesh=, or an input that lies on one");
    return m->mesh ? 0 : -1;
}

/** Each output is a Spec, or placements. One alone is one output, which is returned as it is. */
static int take_outputs(map_call *m, PyObject *out)
{
    m->is_one = PyUnicode_Check(out) || PyObject_TypeCheck(out, stnp_spec_type);
    m->out_list = m->is_one ? PyTuple_Pack(1, out) : PySequence_Tuple(out);
    m->n_out = m->out_list ? (int)PyTuple_Size(m->out_list) : -1;
    if (m->n_out > STN_MAX_OUTPUTS) {
        PyErr_Format(PyExc_ValueError, "local_map: out has %d entries, wanted at most %d", m->n_out, STN_MAX_OUTPUTS);
        return -1;
    }
    for (int k = 0; k < m->n_out; k++) {
        PyObject *entry = PyTuple_GetItem(m->out_list, k);
        stn_placement *row = m->rows + (OUT * STN_MAX_INPUTS + k) * STN_MAX_MESH_NDIM;
        if (PyObject_TypeCheck(entry, stnp_spec_type)) {
            m->specs[k] = ((stnp_spec *)entry)->handle;
            m->placed[k] = ((stnp_spec *)entry)->placed;
        } else if (stnp_take_placements(entry, m->mesh, row) < 0) {
            return -1;
        } else {
            m->places[OUT][k] = row;
            m->placed[k] = stnp_placed_of(m->mesh, row);
        }
    }
    return m->n_out < 0 ? -1 : 0;
}

static map_functions *new_functions(stnp_context *context, PyObject *forward, PyObject *backward)
{
    map_functions *made = PyMem_Calloc(1, sizeof *made);
    if (!made) {
        PyErr_NoMemory();
        return NULL;
    }
    made->forward = stnp_callback_new(context, forward, "local_map: function");
    if (made->forward && backward != Py_None)
        made->backward = stnp_callback_new(context, backward, "local_map: backward");
    if (made->forward && (made->backward || backward == Py_None))
        return made;
    destroy_functions(made);
    return NULL;
}

static PyObject *wrap_outputs(stnp_context *context, const map_call *m, stn_tensor *const *out)
{
    PyObject *tuple = PyTuple_New(m->n_out);
    for (int k = 0; k < m->n_out; k++) {
        PyObject *output = stnp_place(stnp_wrap_tensor(context, out[k]), &m->placed[k]);
        if (!tuple)
            Py_XDECREF(output);
        else if (!output || PyTuple_SetItem(tuple, k, output) < 0)
            Py_CLEAR(tuple);
    }
    if (!tuple || !m->is_one)
        return tuple;
    PyObject *only = PyTuple_GetItem(tuple, 0);
    Py_INCREF(only);
    Py_DECREF(tuple);
    return only;
}

/** The library gives the functions up, failed or not. */
static PyObject *run(stnp_context *context, map_call *m, map_functions *functions)
{
    stn_tensor *out[STN_MAX_OUTPUTS] = {NULL};
    stnp_entry entry;
    m->options.size = sizeof m->options;
    m->options.mesh = m->mesh;
    m->options.function = run_forward;
    m->options.backward = functions->backward ? run_backward : NULL;
    m->options.arg = functions;
    m->options.destroy = destroy_functions;
    m->options.in_placements = m->places[IN];
    m->options.in_halos = m->halo_of;
    m->options.out_specs = m->specs;
    m->options.out_placements = m->places[OUT];
    m->options.in_grad_placements = m->places[IN_GRAD];
    m->options.out_grad_placements = m->places[OUT_GRAD];
    if (stnp_enter(&entry, context) < 0) {
        destroy_functions(functions);
        return NULL;
    }
    const stn_status status = stn_local_map(&m->options, m->n_in, m->in, m->n_out, out);
    return stnp_leave(&entry, status) < 0 ? NULL : wrap_outputs(context, m, out);
}

/** What is said of each input and output beside the functions. */
struct lists {
    PyObject *in_placements, *in_halos, *in_grads, *out_grads;
};

static int take_all(map_call *m, PyObject *inputs, PyObject *out, PyObject *mesh, const struct lists *lists)
{
    m->in = stnp_take_tensors(inputs, "local_map: inputs", &m->n_in, &m->in_tuple);
    if (m->in && m->n_in >= STN_MAX_INPUTS) {
        PyErr_Format(PyExc_ValueError, "local_map: %d inputs, wanted at most %d", m->n_in, STN_MAX_INPUTS - 1);
        return -1;
    }
    m->rows = PyMem_Calloc((size_t)4 * STN_MAX_INPUTS * STN_MAX_MESH_NDIM, sizeof *m->rows);
    m->halos = PyMem_Calloc(STN_MAX_INPUTS, sizeof *m->halos);
    if (!m->rows || !m->halos)
        PyErr_NoMemory();
    return m->in && m->rows && m->halos && take_mesh(m, mesh) == 0 && take_outputs(m, out) == 0 &&
                   take_rows(m, IN, lists->in_placements, "in_placements", m->n_in) == 0 &&
                   take_halos(m, lists->in_halos) == 0 &&
                   take_rows(m, IN_GRAD, lists->in_grads, "in_grad_placements", m->n_in) == 0 &&
                   take_rows(m, OUT_GRAD, lists->out_grads, "out_grad_placements", m->n_out) == 0
               ? 0
               : -1;
}

PyObject *stnp_context_local_map(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {
        "function", "inputs",          "out",          "mesh",       "in_placements",      "in_halos",
        "backward", "backward_of_ops", "redistribute", "convention", "in_grad_placements", "out_grad_placements",
        NULL};
    PyObject *function, *inputs, *out, *mesh = Py_None, *backward = Py_None;
    struct lists lists = {Py_None, Py_None, Py_None, Py_None};
    const char *convention = "per_rank";
    int redistribute = 1;
    map_call m = {.n_in = 0};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO|OOOO$ppsOO:local_map", names, &function, &inputs, &out, &mesh,
                                     &lists.in_placements, &lists.in_halos, &backward, &m.options.backward_of_ops,
                                     &redistribute, &convention, &lists.in_grads, &lists.out_grads) ||
        stnp_take_convention(convention, &m.options.convention) < 0)
        return NULL;
    m.options.no_redistribution = !redistribute;
    map_functions *functions =
        take_all(&m, inputs, out, mesh, &lists) == 0 ? new_functions((stnp_context *)self, function, backward) : NULL;
    PyObject *result = functions ? run((stnp_context *)self, &m, functions) : NULL;
    fini(&m);
    return result;
}
