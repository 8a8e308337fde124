/* What a context does: scalars of its state here, everything larger in the file of its noun. */
#include "binding.h"

static PyObject *begin_or_end(PyObject *self, PyObject *on, void (*begin)(stn_context *context),
                              void (*end)(stn_context *context))
{
    stnp_entry entry;
    const int begins = PyObject_IsTrue(on);
    if (begins < 0 || stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    (begins ? begin : end)(entry.context->handle);
    stnp_leave(&entry, STN_OK);
    Py_RETURN_NONE;
}

static PyObject *no_grad(PyObject *self, PyObject *on)
{
    return begin_or_end(self, on, stn_no_grad_begin, stn_no_grad_end);
}

static PyObject *no_sync(PyObject *self, PyObject *on)
{
    return begin_or_end(self, on, stn_no_sync_begin, stn_no_sync_end);
}

static PyObject *allow_stale_views(PyObject *self, PyObject *on)
{
    return begin_or_end(self, on, stn_allow_stale_views_begin, stn_allow_stale_views_end);
}

static PyObject *host_memory(PyObject *self, PyObject *on)
{
    stnp_entry entry;
    const int begins = PyObject_IsTrue(on);
    if (begins < 0 || stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    stn_status status = STN_OK;
    if (begins)
        status = stn_host_memory_begin(entry.context->handle);
    if (!begins || status != STN_OK) /* what raises has not begun */
        stn_host_memory_end(entry.context->handle);
    if (stnp_leave(&entry, status) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *grad_enabled(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    int enabled = stn_grad_enabled(entry.context->handle);
    stnp_leave(&entry, STN_OK);
    return PyBool_FromLong(enabled);
}

static PyObject *random_state(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    uint64_t seed, stream;
    if (stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    stn_context_random_state(entry.context->handle, &seed, &stream);
    stnp_leave(&entry, STN_OK);
    return Py_BuildValue("(KK)", (unsigned long long)seed, (unsigned long long)stream);
}

static PyObject *set_random_state(PyObject *self, PyObject *args)
{
    stnp_entry entry;
    unsigned long long seed, stream = 0;
    if (!PyArg_ParseTuple(args, "K|K:set_random_state", &seed, &stream) || stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    stn_context_set_random_state(entry.context->handle, seed, stream);
    stnp_leave(&entry, STN_OK);
    Py_RETURN_NONE;
}

static PyObject *trim(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    stn_context_trim(entry.context->handle);
    stnp_leave(&entry, STN_OK);
    Py_RETURN_NONE;
}

static PyObject *dump_calls(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    stn_context_dump_calls(entry.context->handle);
    stnp_leave(&entry, STN_OK);
    Py_RETURN_NONE;
}

static PyObject *stats_reset(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    stn_context_stats_reset(entry.context->handle);
    stnp_leave(&entry, STN_OK);
    Py_RETURN_NONE;
}

/** What this rank has found: None, a text, or an exception. Its text, a new reference; NULL, with an exception where
 * that is what went wrong. */
static PyObject *take_finding(PyObject *finding, stn_status *status)
{
    *status = STN_OK;
    if (finding == Py_None)
        return NULL;
    *status = stnp_status_of(finding);
    if (PyObject_IsInstance(finding, PyExc_BaseException) != 1) {
        if (stnp_want(finding, &PyUnicode_Type, "agree: finding") < 0)
            return NULL;
        return PyUnicode_FromObject(finding);
    }
    PyObject *name = PyType_GetName(Py_TYPE(finding));
    PyObject *text = name ? PyUnicode_FromFormat("%U: %S", name, finding) : NULL;
    Py_XDECREF(name);
    return text;
}

/** An exception of this rank's is what it gets back. */
static PyObject *agree(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"finding", NULL};
    stnp_entry entry;
    stn_status status;
    PyObject *finding = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:agree", names, &finding))
        return NULL;
    PyObject *text = take_finding(finding, &status);
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    int failed = PyErr_Occurred() != NULL;
    if (!failed && words && !PyUnicode_Check(finding)) {
        PyErr_SetObject((PyObject *)Py_TYPE(finding), finding);
        stnp_keep_raised((stnp_context *)self);
    }
    failed = failed || stnp_enter(&entry, (stnp_context *)self) < 0 ||
             stnp_leave(&entry, stn_agree(entry.context->handle, status, words)) < 0;
    Py_XDECREF(text);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *agree_on_values(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (stnp_enter(&entry, (stnp_context *)self) < 0 ||
        stnp_leave(&entry, stn_agree_on_values(entry.context->handle)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/** A record in a device's own memory is not looked at: there the next agreement tells. */
static PyObject *has_value_error(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    int32_t type = 0, index = 0;
    int found = 0;
    if (stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    stn_context *handle = entry.context->handle;
    const stn_value_record *record = stn_queue_value_record(stn_context_queue(handle));
    if (stn_context_dlpack_device(handle, &type, &index) != STN_OK)
        stn_context_take_error(handle, NULL, 0);
    else if (record && type == STNP_DLPACK_CPU)
        found = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE) == STN_VALUE_WRITTEN;
    stnp_leave(&entry, STN_OK);
    return PyBool_FromLong(found);
}

static PyObject *get_op(PyObject *self, PyObject *name)
{
    return (PyObject *)stnp_find_op((stnp_context *)self, name);
}

static PyObject *op_names(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    PyObject *list = PyList_New(0);
    const stn_op *op;
    if (!list || stnp_enter(&entry, (stnp_context *)self) < 0) {
        Py_XDECREF(list);
        return NULL;
    }
    stn_context *handle = entry.context->handle;
    stnp_leave(&entry, STN_OK);
    for (int i = 0; (op = stn_op_at(handle, i)) != NULL; i++) {
        PyObject *name = PyUnicode_FromString(stn_op_descriptor(op)->name);
        if (!name || PyList_Append(list, name) < 0) {
            Py_XDECREF(name);
            Py_DECREF(list);
            return NULL;
        }
        Py_DECREF(name);
    }
    return list;
}

/** Why the host waited, in the order of stn_sync_reason. */
static int add_reasons(PyObject *dict, const stn_stats *stats)
{
    static const char *const reasons[STN_SYNC_REASONS] = {"caller", "agreement", "values", "counts", "memory",
                                                          "export", "group",     "trace",  "staging"};
    PyObject *by = PyDict_New();
    int failed = !by;
    for (int i = 0; i < STN_SYNC_REASONS && !failed; i++) {
        PyObject *value = PyLong_FromLongLong(stats->host_syncs_by[i]);
        failed = !value || PyDict_SetItemString(by, reasons[i], value) < 0;
        Py_XDECREF(value);
    }
    failed = failed || PyDict_SetItemString(dict, "host_syncs_by", by) < 0;
    Py_XDECREF(by);
    return failed ? -1 : 0;
}

PyObject *stnp_context_stats(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    stn_stats s = {.size = sizeof s};
    if (stnp_enter(&entry, (stnp_context *)self) < 0 ||
        stnp_leave(&entry, stn_context_stats(entry.context->handle, &s)) < 0)
        return NULL;
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {
        {"live_tensors", s.live_tensors},
        {"live_storages", s.live_storages},
        {"live_bytes", s.live_bytes},
        {"peak_bytes", s.peak_bytes},
        {"reserved_bytes", s.reserved_bytes},
        {"allocations", s.allocations},
        {"allocator_calls", s.allocator_calls},
        {"specs", s.specs},
        {"splits", s.splits},
        {"meshes", s.meshes},
        {"collectives", s.collectives},
        {"messages", s.messages},
        {"bytes_sent", s.bytes_sent},
        {"redistributions", s.redistributions},
        {"dispatches", s.dispatches},
        {"place_hits", s.place_hits},
        {"fallbacks", s.fallbacks},
        {"kernels", s.kernels},
        {"host_syncs", s.host_syncs},
        {"nodes", s.nodes},
        {"waited_ns", s.waited_ns},
        {"host_live_bytes", s.host_live_bytes},
        {"host_peak_bytes", s.host_peak_bytes},
        {"host_reserved_bytes", s.host_reserved_bytes},
    };
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < sizeof rows / sizeof rows[0]; i++) {
        PyObject *value = PyLong_FromLongLong(rows[i].value);
        if (!value || PyDict_SetItemString(dict, rows[i].name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    if (dict && add_reasons(dict, &s) < 0)
        Py_CLEAR(dict);
    return dict;
}

PyMethodDef stnp_context_methods[] = {
    {"mesh", STNP_KEYWORDS(stnp_context_mesh),
     "mesh(sizes, names=None, ranks=None): a grid of ranks. Every rank makes the same ones."},
    {"spec", STNP_KEYWORDS(stnp_context_spec),
     "spec(mesh, placements, shape, dtype='f32', sizes=None, axis_order=None, memory_order=None): a layout. mesh None: "
     "a local tensor's; sizes {dim: "
     "[elements of each piece]}."},
    {"factory", stnp_context_factory, METH_VARARGS,
     "factory(name, spec, *numbers): empty, zeros, ones, full (value), eye, arange (start, step), linspace (start, "
     "end), "
     "rand, randn, uniform (low, high), normal (mean, std), trunc_normal (mean, std, low, high), randint (low, high), "
     "xavier_uniform and xavier_normal (gain), kaiming_uniform and kaiming_normal (gain, 'in' or 'out')."},
    {"from_host", stnp_context_from_host, METH_VARARGS,
     "from_host(spec, data, whole=False): copies this rank's chunk, or its part of the whole."},
    {"wrap", stnp_context_wrap, METH_VARARGS,
     "wrap(address, dtype, shape, strides, owner): a local tensor on memory that owner keeps."},
    {"from_dlpack", stnp_context_from_dlpack, METH_O,
     "from_dlpack(x): a local tensor on the memory of anything with __dlpack__, zero copy."},
    {"scatter", STNP_KEYWORDS(stnp_context_scatter),
     "scatter(local, root, spec, requires_grad=False): one rank's tensor, cut. Collective."},
    {"from_local_gather_shapes", stnp_context_gather_shapes, METH_VARARGS,
     "from_local_gather_shapes(local, mesh, placements): chunks whose sizes the other ranks do not know as one tensor. "
     "Collective over the world."},
    {"backward", STNP_KEYWORDS(stnp_context_backward),
     "backward(losses, cotangents=None, retain_graph=False). Collective."},
    {"grad", STNP_KEYWORDS(stnp_context_grad),
     "grad(outputs, inputs, cotangents=None, retain_graph=False, create_graph=False): a list, None where nothing "
     "depends. Collective."},
    {"sgd", STNP_KEYWORDS(stnp_context_sgd),
     "sgd(parameters, rate=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False): an Optimizer of {name: "
     "leaf}."},
    {"adam", STNP_KEYWORDS(stnp_context_adam),
     "adam(parameters, rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0): an Optimizer of {name: "
     "leaf}; weight_decay is added to the gradient."},
    {"adamw", STNP_KEYWORDS(stnp_context_adamw),
     "adamw(parameters, rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0): an Optimizer of {name: "
     "leaf}."},
    {"clip_grad_norm", STNP_KEYWORDS(stnp_context_clip_grad_norm),
     "clip_grad_norm(parameters, most): scales their gradients so that the norm of all is at most that; the norm "
     "before. Collective."},
    {"grad_unscale", STNP_KEYWORDS(stnp_context_grad_unscale),
     "grad_unscale(parameters, scale): divides their gradients by what the loss was multiplied with; whether all are "
     "finite on all ranks. Collective."},
    {"grad_sync", stnp_context_grad_sync, METH_O,
     "grad_sync(parameters): reduces what no_sync left pending. Collective."},
    {"grad_all_reduce", STNP_KEYWORDS(stnp_context_grad_all_reduce),
     "grad_all_reduce(parameters, mesh, axis, op='avg'): joins the gradients of groups of ranks that train apart, in "
     "line along an axis of a mesh. Collective."},
    {"average", stnp_context_average, METH_O, "average(parameters): the Average of {name: leaf} from now on."},
    {"save", STNP_KEYWORDS(stnp_context_save),
     "save(path, tensors, metadata=None): {name: tensor} and {key: text} as a safetensors file. Collective."},
    {"load", STNP_KEYWORDS(stnp_context_load),
     "load(path, tensors): reads {name: tensor} in place, from a file of any layout. Collective."},
    {"recompute", (PyCFunction)(void (*)(void))stnp_context_recompute, METH_VARARGS | METH_KEYWORDS,
     "recompute(function, *tensors, outputs=1): function(*tensors), of which nothing is kept but the tensors that it "
     "returns, so many: backward calls it again for what it needs, with the same random numbers."},
    {"local_map", STNP_KEYWORDS(stnp_context_local_map),
     "local_map(function, inputs, out, mesh=None, in_placements=None, in_halos=None, backward=None, *, "
     "backward_of_ops=False, redistribute=True, convention='per_rank', in_grad_placements=None, "
     "out_grad_placements=None): function(*chunks) on each rank of the mesh; what it returns are the chunks of `out`: "
     "a "
     "Spec or placements, or a list of them. Collective."},
    {"checkpoint_save", STNP_KEYWORDS(stnp_context_checkpoint_save),
     "checkpoint_save(path, optimizer=None, average=None, step=0, tensors=None, texts=None): a run in one file. "
     "Collective."},
    {"checkpoint_load", STNP_KEYWORDS(stnp_context_checkpoint_load),
     "checkpoint_load(path, optimizer=None, average=None, tensors=None): reads a run in place, whatever the layouts "
     "are "
     "now. (step, File). Collective."},
    {"set_grad_overlap", stnp_context_set_grad_overlap, METH_O,
     "set_grad_overlap(on): gradients are reduced while the backward goes on. Every rank sets the same."},
    {"set_gather_again", stnp_context_set_gather_again, METH_O,
     "set_gather_again(on): what is gathered of a sharded tensor is gathered again in backward, not kept. Every rank "
     "sets the same."},
    {"set_halo_overlap", stnp_context_set_halo_overlap, METH_O,
     "set_halo_overlap(when): 'where_it_pays', 'never' or 'always'. Results are the same."},
    {"set_ring_attention", stnp_context_set_ring_attention, METH_O,
     "set_ring_attention(when): 'where_it_pays', 'never' or 'always'. Every rank sets the same."},
    {"trace_begin", stnp_context_trace_begin, METH_NOARGS, "Begins to record. shardtensor.trace is the way."},
    {"trace_end", stnp_context_trace_end, METH_O,
     "trace_end(path): ends it, and writes this rank's file for Perfetto."},
    {"trace_range_begin", stnp_context_trace_range_begin, METH_O, "trace_range_begin(text): begins a band. They nest."},
    {"trace_range_end", stnp_context_trace_range_end, METH_NOARGS, "Ends the innermost band."},
    {"trace_align_clocks", stnp_context_trace_align_clocks, METH_NOARGS,
     "Later traces have the times of rank 0's clock. Collective."},
    {"trace_nvtx", stnp_context_trace_nvtx, METH_O, "trace_nvtx(on): ranges for Nsight Systems."},
    {"trace_summary", stnp_context_trace_summary, METH_NOARGS,
     "A table of what was traced so far on all ranks, the same text on each. Collective."},
    {"trim", trim, METH_NOARGS, "Gives cached memory back. Waits for the queue."},
    {"dump_calls", dump_calls, METH_NOARGS, "Writes the last collectives of this rank to the log, at 'info'."},
    {"capture_begin", stnp_context_capture_begin, METH_NOARGS,
     "Begins to record what is called as a step. shardtensor.capture is the way. Collective."},
    {"capture_end", stnp_context_capture_end, METH_NOARGS, "The step that was recorded. Collective."},
    {"op", get_op, METH_O, "op(name): the op of that name, to be called."},
    {"op_names", op_names, METH_NOARGS, "The names of all ops."},
    {"allow_stale_views", allow_stale_views, METH_O,
     "allow_stale_views(on): begins or ends a part in which views do not hinder a change of what they show, which they "
     "need not show then. They nest."},
    {"host_memory", host_memory, METH_O,
     "host_memory(on): begins or ends a part in which tensors are made in memory of the host. They nest."},
    {"no_grad", no_grad, METH_O, "no_grad(on): begins or ends a part in which nothing is recorded. They nest."},
    {"no_sync", no_sync, METH_O,
     "no_sync(on): begins or ends a part whose backwards leave replicas' gradients pending. They nest."},
    {"grad_enabled", grad_enabled, METH_NOARGS, "Whether ops are recorded."},
    {"random_state", random_state, METH_NOARGS, "(seed, stream)."},
    {"set_random_state", set_random_state, METH_VARARGS, "set_random_state(seed, stream=0): the same on every rank."},
    {"agree", STNP_KEYWORDS(agree),
     "agree(finding=None): raises on every rank what one of them has found: a text, an exception, or values out of "
     "range. "
     "Collective."},
    {"agree_on_values", agree_on_values, METH_NOARGS,
     "As agree, where since then an op that may meet a value out of range ran of what ranks have parts of; else raises "
     "what this rank has met. Every rank calls it."},
    {"has_value_error", has_value_error, METH_NOARGS,
     "Whether a kernel of this rank has met a value out of range since the last agreement. Local; on the CPU alone."},
    {"stats", stnp_context_stats, METH_NOARGS, "Counters of this rank."},
    {"stats_reset", stats_reset, METH_NOARGS, "Sets to zero what counts events."},
    {0},
};
