/* What the files of shardtensor._c share: the objects that Python sees, and the one way into the library.
 *
 * CPython's stable ABI of 3.11 alone, and the library's public headers: one build serves every later Python. */
#ifndef STNP_BINDING_H
#define STNP_BINDING_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <shardtensor/shardtensor.h>

/* Objects */

enum { STNP_DLPACK_CPU = 1 }; /* what DLPack calls the CPU */

typedef struct stnp_callback stnp_callback; /* a function of Python's that the library calls: callback.c */

/** A context, and the lock that makes it safe to use from several Python threads. */
typedef struct stnp_context {
    PyObject_HEAD stn_context *handle; /* NULL once closed */
    int owned;                         /* 0: stn_launch's, which destroys it */
    pthread_mutex_t lock;              /* recursive: a callback of the library may come back */
    pthread_mutex_t given_up_lock;
    struct stnp_given_up *given_up;              /* what objects that are gone kept, released at the next way in */
    unsigned long function_thread;               /* which is in a function that the library calls in a scope; 0: none */
    uint64_t function_number, functions_begun;   /* which of all that were called it is; 0: none */
    PyObject *raised[3];                         /* what that function raised, for the call that ends by it */
    stnp_callback *callbacks;                    /* all that the library may still call */
    PyObject *log;                               /* where the library's lines go; NULL: nowhere */
    int depth;                                   /* calls of the library within one another, with `lock` */
    PyObject *held;                              /* a list of what lives until the outermost is over; or NULL */
    PyObject *ops;                               /* name: Op */
    PyObject *wrapper_words;                     /* {dtype: keywords of torch's wrappers there}; NULL until asked for */
    PyObject *wrapper_keywords[STN_DTYPE_COUNT]; /* the same by dtype, borrowed; NULL: torch has no such dtype */
    struct stnp_context *next, *previous;        /* all that are open, for the end of the interpreter */
} stnp_context;

typedef struct stnp_mesh {
    PyObject_HEAD stnp_context *context;
    const stn_mesh *handle;
} stnp_mesh;

/** What callers placed on mesh axes of size 1: see placed.c. */
typedef struct stnp_placed {
    int any; /* 0: nothing but Replicate, and `at` is not set */
    stn_placement at[STN_MAX_MESH_NDIM];
} stnp_placed;

typedef struct stnp_spec {
    PyObject_HEAD stnp_context *context;
    const stn_spec *handle;
    stnp_placed placed;
} stnp_spec;

typedef struct stnp_tensor {
    PyObject_HEAD stnp_context *context;
    stn_tensor *handle;
    uint64_t function_number; /* of the function in whose scope it was made; 0: in none */
    stnp_placed placed;
} stnp_tensor;

/** What one call keeps for its gradients. */
typedef struct stnp_pullback {
    PyObject_HEAD stnp_context *context;
    stn_pullback *handle; /* NULL once given up */
    int n_inputs, n_outputs;
} stnp_pullback;

/** One name of an op's signature. */
typedef struct stnp_parameter {
    PyObject *name;
    int input;     /* which input of the schema; -1: none */
    int attribute; /* 1: an attribute has the name, perhaps beside an input */
    int list;      /* LIST: one list of tensors; REST: the positional arguments from here on */
    int required, keyword_only;
} stnp_parameter;

enum { STNP_ONE, STNP_LIST, STNP_REST };
enum { STNP_MAX_ATTRS = 24 };

typedef struct stnp_op {
    PyObject_HEAD stnp_context *context;
    const stn_op *handle;
    int n_outputs; /* that callers get */
    int in_place, returns_list;
    int follows; /* how its result follows what was placed on axes of size 1 */
    int n_parameters, n_positional;
    stnp_parameter *parameters;
} stnp_op;

extern PyTypeObject *stnp_context_type, *stnp_mesh_type, *stnp_spec_type, *stnp_tensor_type, *stnp_op_type,
    *stnp_pullback_type, *stnp_step_type, *stnp_hook_type, *stnp_file_type, *stnp_optimizer_type, *stnp_average_type,
    *stnp_shortcut_type;

/** An object of `type`, whose struct begins with PyObject_HEAD and the context, which it keeps; the rest is not set. */
void *stnp_owned_new(PyTypeObject *type, stnp_context *context);
void stnp_owned_free(PyObject *object); /**< The end of such a type's tp_dealloc. */
PyTypeObject *stnp_owned_type(const char *name, size_t size, PyType_Slot *slots);

/** A new reference to a wrapper; each takes over one reference of `handle`, also where it fails. A tensor that the
 *  library has made is its caller's, or that of the scope of a function that the library calls: then it is kept. */
PyObject *stnp_wrap_tensor(stnp_context *context, stn_tensor *handle);
PyObject *stnp_wrap_kept(stnp_context *context, stn_tensor *handle); /**< Of a reference that is the caller's anyway. */
PyObject *stnp_wrap_spec(stnp_context *context, const stn_spec *handle);
PyObject *stnp_wrap_spec_of(const stnp_tensor *tensor); /**< With what was placed on axes of size 1. */
PyObject *stnp_wrap_mesh(stnp_context *context, const stn_mesh *handle);
PyObject *stnp_wrap_pullback(stnp_context *context, stn_pullback *handle, int n_inputs,
                             int n_outputs); /**< None of NULL. */

/** A local tensor on memory that `owner`, to which the library has a reference meanwhile, keeps. `strides` NULL:
 *  row-major. */
PyObject *stnp_wrap_memory(stnp_context *context, stn_dtype dtype, int ndim, const int64_t *shape,
                           const int64_t *strides, uintptr_t address, PyObject *owner);

/** The wrapper of a context that stn_launch made. */
stnp_context *stnp_context_borrow(stn_context *handle);

/** The library's context ends: what comes later is refused. Its owner destroys it. */
void stnp_context_leave(stnp_context *context);

/* Functions of Python's that the library calls in a scope of its own, on the thread that is in the context */

/** What was so before such a function, and is so again behind it. */
typedef struct stnp_frame {
    unsigned long thread;
    uint64_t number;
    PyObject *raised[3];
} stnp_frame;

void stnp_function_begin(stnp_context *context, stnp_frame *frame);
void stnp_function_end(stnp_context *context, stnp_frame *frame);

/** Before what the function returned is let go: a tensor that the scope does not own lives on until the library has
 *  taken it. @return 0 or -1. */
int stnp_function_hold(stnp_context *context, PyObject *result);

/** An exception (NULL: none could be had) becomes the context's error, with `what` in its text, which peers are told.
 * @return the status that is kept now. */
stn_status stnp_fail_by(stn_context *context, PyObject *exception, const char *what);

/** The exception that is set becomes the context's error, with `what` in its text, and is kept for the end of the call
 *  that it fails. @return the status for the library. */
stn_status stnp_fail_by_raised(stnp_context *context, const char *what);

/** A function that the library keeps; `what` is for the exception where it is none. All with the interpreter's lock. */
stnp_callback *stnp_callback_new(stnp_context *context, PyObject *function, const char *what);
stnp_callback *stnp_callback_retain(stnp_callback *callback);
void stnp_callback_let_go(stnp_callback *callback);  /**< It is not called any more. */
void stnp_callback_release(stnp_callback *callback); /**< NULL excepted. */
void stnp_callback_destroy(void *callback);          /**< The same without that lock: for the library. */
void stnp_callbacks_end(stnp_context *context);      /**< Lets all go that a context still has. */
PyObject *stnp_wrap_hook(stnp_context *context, stnp_callback *callback); /**< Takes over a reference. */

/** One call of it. */
typedef struct stnp_calling {
    stnp_context *context;
    PyObject *function;
    stnp_callback *callback;
    PyGILState_STATE state;
    stnp_frame frame;
} stnp_calling;

/** Takes the interpreter's lock. @return 1; 0 where it was let go: then stnp_call_end is not called. */
int stnp_call_begin(stnp_calling *calling, stnp_callback *callback);

/** Gives it back. Where `failed`, the exception that is set becomes the context's error, with `what` in its text.
 *  @return the status for the library. */
stn_status stnp_call_end(stnp_calling *calling, int failed, const char *what);

void stnp_keep_raised(stnp_context *context); /**< The exception that is set, for the end of the call that it fails. */
void stnp_forget_raised(stnp_context *context);

/* The way in */

/** One call of the library: the interpreter's lock is given up, and the context's is taken. */
typedef struct stnp_entry {
    stnp_context *context;
    PyThreadState *thread;
} stnp_entry;

/** @return 0; -1 with an exception where the context is closed: then stnp_leave is not called. */
int stnp_enter(stnp_entry *entry, stnp_context *context);

/** Back again. Where `status` says so, the kept error becomes an exception and is forgotten. @return 0, or -1 with
 * an exception. */
int stnp_leave(stnp_entry *entry, stn_status status);

/** The same for a call that gives a tensor: NULL with an exception where it is the error tensor. */
PyObject *stnp_leave_tensor(stnp_entry *entry, stn_tensor *tensor);

/** Gives up what a Pullback keeps; it is of no use then. */
void stnp_pullback_release(stnp_pullback *pullback);

/** Releases what the context made, NULL excepted, at once where nobody is in the context, else at the next way in:
 * destructors never wait. */
void stnp_give_up(stnp_context *context, void *what, void (*release)(void *what));
void stnp_give_up_pullback(stnp_context *context, stn_pullback *pullback);

/** Releases what was given up meanwhile. With the context's lock, or where nobody has the context any more. */
void stnp_release_given_up(stnp_context *context);

/** Destroys what is owned and still open; an `owned` context in use by a thread that was left behind is left alone. */
PyObject *stnp_close_all(PyObject *module, PyObject *none);

/* Errors */

/** Makes the exception classes and adds them to the module. @return 0 or -1. */
int stnp_errors_init(PyObject *module);

/** Raises the class of a status. @return NULL. */
PyObject *stnp_raise(stn_status status, const char *text);

int stnp_is_error(PyObject *exception); /**< Whether it is one of ours. */

/** The status of an exception that is one of ours, STN_ERR_CALLBACK of any other. */
stn_status stnp_status_of(PyObject *exception);

/* Values */

PyObject *stnp_ints(const int64_t *values, int n); /**< A tuple. */

/** Reads an integer or a sequence of at most `most` integers. @return how many, or -1 with an exception that names
 * `what`. */
int stnp_take_ints(PyObject *object, const char *what, int most, int64_t *values);

/** Handles of a tensor or a sequence of them, in memory of the caller's, who frees it; `*n` of them. None is NULL.
 * `tuple` keeps them. NULL with an exception that names `what`. */
stn_tensor **stnp_take_tensors(PyObject *object, const char *what, int *n, PyObject **tuple);

/** Tensors by name, as the library takes them; `items` keeps both. */
typedef struct stnp_named {
    int n;
    stn_named_tensor *tensors;
    PyObject *items;
} stnp_named;

/** Reads {name: Tensor}. @return 0, or -1 with an exception that names `what`. */
int stnp_take_named(PyObject *dict, const char *what, stnp_named *out);
void stnp_named_fini(stnp_named *named);

/** A dtype by its name ("f32"), or any object with an attribute `name` such. @return 0 or -1. */
int stnp_take_dtype(PyObject *object, stn_dtype *dtype);

/** "S0,R", or one text per axis of the mesh. @return 0 or -1. */
int stnp_take_placements(PyObject *object, const stn_mesh *mesh, stn_placement *placements);

PyObject *stnp_placement_text(stn_placement placement); /**< "R", "S0", "P(sum)". */

/** Which of n words `got` is. @return -1 with an exception that names `what` and lists them. */
int stnp_take_choice(const char *what, const char *got, const char *const *choices, int n);

/** "per_rank" or "replicated". @return 0 or -1. */
int stnp_take_convention(const char *name, stn_grad_convention *convention);

/** {dim: (below, above, mode), "poles": …}. @return 0, or -1 with an exception that names `what`. */
int stnp_take_halo(PyObject *dict, const char *what, stn_halo *halo);

/** Texts by key, of a dict or None; `items` keeps them. Both are the caller's to free, also where this fails. @return 0
 *  or -1. */
int stnp_take_texts(PyObject *dict, PyObject **items, stn_metadata **texts, int *n);

/** Where the library's lines go: None, or a function, to which `*slot`, where it stays, gets a reference. @return 0 or
 *  -1. */
int stnp_take_log(PyObject *function, const char *level, PyObject **slot, stn_context_options *options);

/** "refuse", "warn" or "silent". @return 0 or -1. */
int stnp_take_promotion(const char *name, stn_context_options *options);

/** Whether this thread is in a function that gets the library's lines. */
int stnp_in_log(void);

/** Checks that an object is of a type. @return 0, or -1 with an exception that names `what`. */
int stnp_want(PyObject *object, PyTypeObject *type, const char *what);

/* Placements of axes of size 1 */

/** Of placements that a spec of `mesh` is made from. */
stnp_placed stnp_placed_of(const stn_mesh *mesh, const stn_placement *given);

/** The same of a complete gradient: nothing is pending. */
stnp_placed stnp_placed_gradient(const stnp_placed *forward);

int stnp_placed_equal(const stnp_placed *a, const stnp_placed *b);

/** What is reported of an axis of a spec. */
stn_placement stnp_placed_at(const stnp_placed *placed, const stn_spec *spec, int axis);

/** A Tensor that is new, or NULL, gets them. @return the same. */
PyObject *stnp_place(PyObject *tensor, const stnp_placed *placed);

/** For stnp_op.follows. */
int stnp_placed_kind(stn_context *context, const stn_op *op);

/* Calls */

/** A call whose arguments are sorted: inputs in the schema's order, attributes by name. All borrowed but `list`. */
typedef struct stnp_bound {
    int n_inputs, n_attrs;
    PyObject *inputs[STN_MAX_INPUTS]; /* NULL: absent */
    PyObject *names[STNP_MAX_ATTRS], *values[STNP_MAX_ATTRS];
    PyObject *list; /* keeps the tensors of a list; may be NULL */
} stnp_bound;

/** The same as the library takes it. */
typedef struct stnp_call {
    int n_inputs, n_attrs;
    stn_tensor *inputs[STN_MAX_INPUTS];
    stn_attr attrs[STNP_MAX_ATTRS];
} stnp_call;

/** Fills op->parameters from its signature. @return 0 or -1. */
int stnp_parameters_read(stnp_op *op);

/** Sorts the arguments of a call: n positional ones, then those that `names` (a tuple, or NULL) names. What is of
 * `tensor_type` is an input. */
int stnp_bind(stnp_op *op, PyTypeObject *tensor_type, PyObject *const *args, Py_ssize_t n, PyObject *names,
              stnp_bound *bound);
void stnp_bound_fini(stnp_bound *bound);

/** Turns sorted arguments, whose inputs are Tensors, into the library's. @return 0 or -1. */
int stnp_call_fill(stnp_op *op, const stnp_bound *bound, stnp_call *call);

/** Reads attributes of a dict, without those that are None. All borrowed. @return 0 or -1. */
int stnp_take_attrs(PyObject *attrs, stnp_bound *bound);

/** Calls the op; where `needs` names inputs, `*pullback` is what it keeps for their gradients. @return 0 or -1. */
int stnp_invoke(stnp_op *op, const stnp_call *call, uint32_t needs, stn_tensor **outputs, stn_pullback **pullback);

/** The context's op of that name, a new reference: a call gives up the interpreter, and another thread may close the
 * context then. NULL with an exception. */
stnp_op *stnp_find_op(stnp_context *context, PyObject *name);

/** Calls it with n positional arguments and those that `names` names, and gives what the op returns. */
PyObject *stnp_op_call(stnp_op *op, PyObject *const *args, Py_ssize_t n, PyObject *names);

/** Calls `name` with one or two arguments, of which one is a Tensor: what operators do. */
PyObject *stnp_call_named(const char *name, PyObject *a, PyObject *b);

/** What follows for an output from the inputs, which are Tensors. */
stnp_placed stnp_placed_result(const stnp_op *op, const stnp_bound *bound, const stn_tensor *output);

/** The outputs of a call as a tuple, or as what the op returns. Takes over their references. */
PyObject *stnp_outputs(stnp_op *op, const stnp_bound *bound, stn_tensor **outputs, int as_tuple);

/* Parts of objects that stand in files of their own */

extern PyMethodDef stnp_context_methods[];
extern PyType_Slot stnp_number_slots[];
PyObject *stnp_new_context(PyTypeObject *type, PyObject *args, PyObject *keywords);
PyObject *stnp_context_spec(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_mesh(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_mesh_spec_from_bytes(PyObject *self, PyObject *bytes);
PyObject *stnp_mesh_spec_of_chunks(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_factory(PyObject *self, PyObject *args);
PyObject *stnp_context_from_host(PyObject *self, PyObject *args);
PyObject *stnp_context_wrap(PyObject *self, PyObject *args);
PyObject *stnp_context_from_dlpack(PyObject *self, PyObject *object);
PyObject *stnp_context_backward(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_grad(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_scatter(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_gather_shapes(PyObject *self, PyObject *args);
PyObject *stnp_context_stats(PyObject *self, PyObject *none);
PyObject *stnp_context_sgd(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_adam(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_adamw(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_average(PyObject *self, PyObject *parameters);
PyObject *stnp_context_clip_grad_norm(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_grad_unscale(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_grad_sync(PyObject *self, PyObject *parameters);
PyObject *stnp_context_recompute(PyObject *object, PyObject *args, PyObject *keywords);
PyObject *stnp_context_grad_all_reduce(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_save(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_load(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_local_map(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_checkpoint_save(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_checkpoint_load(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_context_set_grad_overlap(PyObject *self, PyObject *on);
PyObject *stnp_context_set_gather_again(PyObject *self, PyObject *on);
PyObject *stnp_context_set_halo_overlap(PyObject *self, PyObject *when);
PyObject *stnp_context_set_ring_attention(PyObject *self, PyObject *when);
PyObject *stnp_context_trace_begin(PyObject *self, PyObject *none);
PyObject *stnp_context_trace_end(PyObject *self, PyObject *path);
PyObject *stnp_context_trace_range_begin(PyObject *self, PyObject *text);
PyObject *stnp_context_trace_range_end(PyObject *self, PyObject *none);
PyObject *stnp_context_trace_align_clocks(PyObject *self, PyObject *none);
PyObject *stnp_context_trace_nvtx(PyObject *self, PyObject *on);
PyObject *stnp_context_trace_summary(PyObject *self, PyObject *none);
PyObject *stnp_context_capture_begin(PyObject *self, PyObject *none);
PyObject *stnp_context_capture_end(PyObject *self, PyObject *none);
PyObject *stnp_tensor_detach(PyObject *self, PyObject *none);
PyObject *stnp_tensor_full_tensor(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_tensor_redistribute_begin(PyObject *self, PyObject *spec);
PyObject *stnp_tensor_redistribute_wait(PyObject *self, PyObject *none);
PyObject *stnp_tensor_halo_pad(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_tensor_halo_unpad_add(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_tensor_redistribute(PyObject *self, PyObject *to);
PyObject *stnp_tensor_to_local(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_tensor_from_local(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_tensor_gather_to(PyObject *self, PyObject *root);
PyObject *stnp_tensor_add_tensor_hook(PyObject *self, PyObject *function);
PyObject *stnp_tensor_add_grad_hook(PyObject *self, PyObject *function);
PyObject *stnp_tensor_retain_grad(PyObject *self, PyObject *none);
PyObject *stnp_tensor_dlpack(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *stnp_tensor_dlpack_device(PyObject *self, PyObject *none);
PyObject *stnp_op_pullback(PyObject *self, PyObject *args);
PyObject *stnp_launch(PyObject *module, PyObject *args, PyObject *keywords);
PyObject *stnp_function(PyObject *module, PyObject *name);
PyObject *stnp_schedule_constant(PyObject *module, PyObject *args, PyObject *keywords);
PyObject *stnp_schedule_cosine(PyObject *module, PyObject *args, PyObject *keywords);
PyObject *stnp_sht_latitudes(PyObject *module, PyObject *args, PyObject *keywords);

/** A communicator whose entries are methods of a Python object, to which it owns a reference; or what a capsule holds,
 * which knows its rank and size itself. @return STN_OK and `*out`, else the text. */
/** Device memory from a pair of functions of Python, which are kept for good. @return 0, or -1 with an exception. */
int stnp_take_allocator(PyObject *functions, stn_device_allocator *out);

stn_status stnp_comm_create(PyObject *collectives, int rank, int size, char *text, size_t text_size, stn_comm **out);

/** fake_comm(rank, size): see module.c. */
PyObject *stnp_fake_comm(PyObject *module, PyObject *args);

/** tcp_comm(host, port, rank, size, job="", deadline_seconds=0): see module.c. */
PyObject *stnp_tcp_comm(PyObject *module, PyObject *args, PyObject *keywords);

/** Each makes its type. NULL with an exception. */
PyTypeObject *stnp_make_context_type(void);
PyTypeObject *stnp_make_mesh_type(void);
PyTypeObject *stnp_make_spec_type(void);
PyTypeObject *stnp_make_tensor_type(void);
PyTypeObject *stnp_make_op_type(void);
PyTypeObject *stnp_make_pullback_type(void);
PyTypeObject *stnp_make_step_type(void);
PyTypeObject *stnp_make_optimizer_type(void);
PyTypeObject *stnp_make_average_type(void);
PyTypeObject *stnp_make_shortcut_type(void);
PyTypeObject *stnp_make_hook_type(void);
PyTypeObject *stnp_make_file_type(void);
stn_optimizer *stnp_optimizer_handle(PyObject *optimizer); /**< Of an Optimizer. */
stn_average *stnp_average_handle(PyObject *average);       /**< Of an Average. */
PyObject *stnp_wrap_file(stn_file *file);                  /**< Takes it over. */
int stnp_functions_init(void);

/** A method that takes keywords, as PyMethodDef wants it. */
#define STNP_KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

#endif
