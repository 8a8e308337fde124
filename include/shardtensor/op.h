/* Ops: descriptors, calls by name, handlers, kernels. For frameworks, and for whoever writes an op.
 *
 * An op is a descriptor: a schema (inputs, attributes, outputs) and up to four functions, which ops of a family may
 * share.
 *   check    metadata in, metadata out: checks shapes, dtypes and attributes, and gives the outputs' dtypes and shapes.
 *   place    from the input specs, the specs it wants and the specs it will give; STN_NO_RULE where it has none.
 *   run      launches kernels and starts collectives. Its inputs have the specs that place wanted; its outputs exist.
 *   backward from cotangents of the outputs, cotangents of the inputs, written with ops.
 * check and place communicate nothing, depend on specs and attributes alone, and are called once per distinct call:
 * their results are cached. */
#ifndef SHARDTENSOR_OP_H
#define SHARDTENSOR_OP_H

#include <shardtensor/autograd.h>

STN_BEGIN_DECLS

enum { STN_MAX_INPUTS = 32, STN_MAX_OUTPUTS = 32 };

/* Attributes */

typedef enum stn_attr_type {
    STN_ATTR_BOOL,   /* int64_t in the attribute struct: 0 or 1 */
    STN_ATTR_INT,    /* int64_t */
    STN_ATTR_FLOAT,  /* double; an INT is taken too */
    STN_ATTR_NUMBER, /* stn_number; BOOL, INT and FLOAT are taken */
    STN_ATTR_CHOICE, /* int64_t: which of the schema's `choices`; given as a STRING */
    STN_ATTR_INTS,   /* stn_ints; an INT is taken as a list of one */
    STN_ATTR_FLOATS, /* stn_floats; INTS, an INT and a FLOAT are taken, the latter two as lists of one */
    STN_ATTR_STRING  /* stn_text */
} stn_attr_type;

typedef enum stn_number_kind { STN_NUMBER_NONE, STN_NUMBER_BOOL, STN_NUMBER_INT, STN_NUMBER_FLOAT } stn_number_kind;

/** A number that knows whether it is whole: 2 keeps integers integers, 2.5 and 2.0 do not. */
typedef struct stn_number {
    int64_t kind; /* stn_number_kind */
    int64_t i;    /* BOOL, INT */
    double f;     /* FLOAT; for the others the same value */
} stn_number;

/** A list of integers; n = -1 where it is absent. */
typedef struct stn_ints {
    int64_t n;
    int64_t v[STN_MAX_NDIM];
} stn_ints;

/** A list of numbers; n = -1 where it is absent. */
typedef struct stn_floats {
    int64_t n;
    double v[STN_MAX_NDIM];
} stn_floats;

/** A text in an attribute struct: zeros from its end on, so that equal texts are equal bytes. */
enum { STN_MAX_TEXT = 512 /* bytes, with the zero */ };
typedef struct stn_text {
    char v[STN_MAX_TEXT];
} stn_text;

/** One attribute of a call by name. */
typedef struct stn_attr {
    const char *name;
    stn_attr_type type; /* which member is meant */
    union {
        int64_t i; /* BOOL, INT */
        double f;  /* FLOAT */
        stn_number number;
        const char *s; /* STRING */
        stn_ints ints;
        stn_floats floats;
    } value;
} stn_attr;

/* Schema */

typedef struct stn_input_schema {
    const char *name;
    int optional; /* may be absent (NULL) */
    int variadic; /* last input only: one or more tensors, named name0, name1, … by callers */
} stn_input_schema;

/** One attribute: where it lies in the op's attribute struct. A name may stand twice with different types
 *  (padding: a list, or "same"). */
typedef struct stn_attr_schema {
    const char *name;
    stn_attr_type type;
    size_t offset;              /* bytes */
    const char *const *choices; /* CHOICE: texts, NULL-terminated */
} stn_attr_schema;

/* What the functions of an op see */

typedef struct stn_op stn_op; /* an op of one context */
typedef struct stn_op_desc stn_op_desc;

/** dtype and global shape of an output; `check` fills it. */
typedef struct stn_meta {
    stn_dtype dtype;
    int ndim;
    int64_t shape[STN_MAX_NDIM];
} stn_meta;

typedef struct stn_op_call {
    size_t size;
    stn_context *context;
    const stn_op *op;
    const void *attrs; /* the op's attribute struct, complete */
    int n_in, n_out;   /* n_out: descriptor's, and check may lower it; for compose, how many of these the caller
                          takes */
    int local;         /* 1: the tensors are local (no mesh): nothing to communicate */
    int reports;       /* 1: kernels may report a value error for this call (stn_queue_value_error): check and place may
                          change it. Before: whether the descriptor has value_texts */
    stn_tensor *const *in; /* check and place: as given (metadata only). run: in the wanted specs; views have any
                              strides (stn_tensor_strides). Absent ones are NULL */
    stn_tensor **out;      /* run: made, dense in its spec's memory order, elements not set. An in-place op's out[0] is
                              in[0] */
    const stn_spec *const *in_spec; /* specs of the inputs as given */
    const stn_spec **want;          /* place: begins as in_spec. What place makes for want and out_spec (stn_spec_like)
                                       it may release before it returns */
    const stn_spec **out_spec;      /* place */
    stn_meta *out_meta;             /* check */
    void *arg;                      /* the descriptor's */
    uint64_t note;                  /* check and place may leave a word for run: it is kept with the specs. 0 before */
    void *kept;                     /* run: the op's kept_size bytes of such calls. NULL where the op has none */
} stn_op_call;

typedef struct stn_backward_call {
    size_t size;
    stn_context *context;
    const stn_op *op;
    const void *attrs;
    int n_in, n_out;
    uint32_t needs;                  /* bit i: input i needs a cotangent */
    stn_tensor *const *in;           /* those that `saves` named, else NULL */
    stn_tensor *const *out;          /* likewise */
    const stn_spec *const *in_spec;  /* forward specs of the inputs, as given */
    const stn_spec *const *want;     /* forward specs of the inputs, as run saw them */
    const stn_spec *const *out_spec; /* forward specs of the outputs */
    stn_tensor *const *grad_out;     /* NULL where no cotangent arrived. Never written to */
    stn_tensor **grad_in;            /* to fill where needed: any layout, the input's global shape. NULL stands for zero */
    void *arg;
} stn_backward_call;

/** What place answers for "no rule": the call goes through the fallback. A value of its own, none of the statuses, and
 *  no call returns it. */
#define STN_NO_RULE ((stn_status)STN_STATUS_COUNT)

enum stn_op_flags {
    STN_OP_IN_PLACE = 1, /* changes in[0] and returns it */
    STN_OP_ALIAS = 2, /* may return a tensor on in[0]'s memory (views): run makes out[k] itself with stn_op_alias, and
                         compose has it from ops that do */
    STN_OP_FIRST_ORDER = 4, /* backward cannot be differentiated again: create_graph is refused with the op's name */
    STN_OP_PER_RANK =
        8, /* a collective of per-rank semantics on local tensors: in grad mode recorded on every rank, whatever requires grad
                            there; its backward runs on every rank, with `needs` 0 and zero cotangents where nothing depends on it */
    STN_OP_VIEW =
        16, /* beside STN_OP_ALIAS: its results are views of in[0] in every layout and on every rank, where they have memory of
                         their own too: views apart, as ops_in_place.h says */
    STN_OP_INTERNAL =
        32 /* a part of other ops, which call it by handle: stn_op_find, stn_op_at and stn_call do not give it. Handlers and
                            kernels are set for it by name as for any other */
};

/** A kernel that an op may launch. */
typedef struct stn_kernel {
    size_t size;      /* sizeof(stn_kernel) */
    const char *name; /* of an op's own kernels the slot's: "forward". Everywhere else with the op's: "softmax.forward" */
    /** "cpu", …; "cpu/avx2" and "cpu/avx512": for contexts whose instruction set (stn_context_options) is that one or a
     *  wider one. Of an op's built-in kernels that fit a context the last one serves. */
    const char *device;
    uint32_t dtypes;  /* bit d: serves stn_dtype d */
    size_t args_size; /* of its argument struct: must equal the slot's */
    stn_kernel_fn function;
    /** Bytes of scratch that the kernel wants for these arguments on this queue; NULL: none. An op asks by
     *  stn_op_workspace, on the context's thread, before the launch, and a context that checks asks again at the
     *  launch, which fails if it wants more then; it reads no tensor's elements. */
    size_t (*workspace)(stn_queue *queue, const void *args);
} stn_kernel;

typedef struct stn_kernel_slot {
    const char *name; /* within the op: "forward" is "softmax.forward" to everybody else. No '.' in it */
    size_t args_size;
} stn_kernel_slot;

/** What an op does. The ops of a family may share one. */
typedef struct stn_op_impl {
    stn_status (*check)(stn_op_call *call);
    stn_status (*place)(stn_op_call *call); /* NULL: no rule */
    stn_status (*run)(stn_op_call *call);
    /** Which tensors backward will read, given which inputs need a cotangent: bit i input i, bit 32 + k output k. NULL:
     *  none. */
    uint64_t (*saves)(const stn_op_call *call, uint32_t needs);
    stn_status (*backward)(stn_backward_call *call); /* NULL: no gradient */
    /** For an op made of others: fills call->out (at most n_outputs, n_out of them) with handles that ops gave it, or
     *  with its inputs. n_out is how many the caller takes, and what lies behind it may be left out; where the number
     *  hangs on the arguments compose sets it. The other functions, slots and flags but STN_OP_ALIAS are not used:
     *  gradients and layouts are those of the ops that it calls. What these made on the way is released; what they
     *  refuse is told with the op's name before theirs. Without STN_OP_ALIAS the results have memory of their own: what
     *  shows an input is copied. */
    stn_status (*compose)(stn_op_call *call);
    const stn_kernel_slot *slots;
    int n_slots;
    const stn_kernel *kernels; /* built-in ones */
    int n_kernels;
    /** Texts of value errors that the kernels report (stn_queue_value_error), by `what`. {0} stands for the first
     *  number of the record, {1g} for the second one read as a double, {3*} for a list: number 3 says how many follow
     *  it. The op's name and a colon are put before. */
    const char *const *value_texts;
    int n_value_texts;
    /** Bytes that run may write to (stn_op_call.kept, aligned as by malloc) and finds again in the next call with the
     *  same attributes and input specs; zero before the first. For what follows from these alone, as a kernel's
     *  arguments do but for their pointers; may be forgotten between calls. 0: none. */
    size_t kept_size;
} stn_op_impl;

struct stn_op_desc {
    size_t size; /* sizeof(stn_op_desc) */
    const char *name;
    const stn_input_schema *inputs;
    int n_inputs;
    const stn_attr_schema *attrs;
    int n_attrs;
    size_t attrs_size;      /* bytes; the struct holds no pointers, and its padding is zero */
    const void *attrs_init; /* the defaults, attrs_size bytes; NULL: all zero */
    int n_outputs;
    int n_private;  /* how many of the outputs, the last ones, no caller gets: they are made for backward to read */
    unsigned flags; /* stn_op_flags */
    const stn_op_impl *impl;
    void *arg; /* the author's own, for the functions of `impl` */
    /** How callers write the call: the names of all inputs and attributes, each once, in positional order between
     *  commas. "name=" may be left out, and its default is that of attrs_init; "name=1" where what stands there only
     *  means that. "*" comes before those that are given by name alone; "name[]" is a variadic input given as one list,
     *  "*name" one whose tensors follow each other. " -> " and what is returned end it where that depends on the
     *  arguments. NULL: the inputs, then the attributes, each with its default. stn_op_signature makes the whole of
     *  it. */
    const char *signature;
};

/* Rows with their number, in the initialiser of a descriptor or of a stn_op_impl: each takes an array, whose rows it
 * counts. */
#define STN_ROWS_OF(array) (int)(sizeof(array) / sizeof((array)[0]))
#define STN_INPUTS(array) .inputs = (array), .n_inputs = STN_ROWS_OF(array)
#define STN_ATTRS(array, type) .attrs = (array), .n_attrs = STN_ROWS_OF(array), .attrs_size = sizeof(type) /* type: the attribute struct */
#define STN_SLOTS(array) .slots = (array), .n_slots = STN_ROWS_OF(array)
#define STN_KERNELS(array) .kernels = (array), .n_kernels = STN_ROWS_OF(array)

/* Helpers for the functions of an op */

/** Reports a failure: the message begins with the op's name. For check, place, run and compose. @return `status`. */
STN_API stn_status stn_op_fail(const stn_op_call *call, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

/** Launches the kernel of a slot for a dtype on the context's queue.
 *  @return STN_ERR_UNSUPPORTED where the device has no kernel for it (named in the message), STN_ERR_ARGUMENT (NULL);
 *  else as stn_queue_launch. */
STN_API stn_status stn_op_launch(const stn_op_call *call, int slot, stn_dtype dtype, const void *args,
                                 size_t args_size);

/** Bytes of scratch that the kernel of a slot for a dtype wants for these arguments (stn_kernel.workspace), for
 *  stn_op_scratch; 0 where it wants none, or where the device has no such kernel. `args` is complete but for the
 *  pointer to that memory. Local. */
STN_API size_t stn_op_workspace(const stn_op_call *call, int slot, stn_dtype dtype, const void *args);

/** Device memory that lasts as long as the work queued by run. At least 64-byte aligned. @return STN_ERR_MEMORY. */
STN_API stn_status stn_op_scratch(const stn_op_call *call, size_t bytes, void **out);

/** For an op with STN_OP_ALIAS: makes out[k] on the memory of `base`, at its element `offset`, with its own strides.
 *  Local, within run; the gradient is the op's. @return STN_ERR_MEMORY. */
STN_API stn_status stn_op_alias(const stn_op_call *call, int k, stn_tensor *base, int64_t offset,
                                const int64_t *strides);

/* Halos, for ops that read beyond their chunk */

/** How a dim goes on beyond its ends. */
typedef enum stn_padding_mode {
    STN_PADDING_ZEROS,
    STN_PADDING_REFLECT,   /* … 2 1 | 0 1 2 …: the end itself is not repeated */
    STN_PADDING_REPLICATE, /* … 0 0 | 0 1 2 … */
    STN_PADDING_CIRCULAR
} stn_padding_mode;

enum { STN_MAX_HALO_NDIM = 3 };

/** Where the poles of a grid of latitudes and longitudes lie. */
typedef enum stn_poles {
    STN_POLES_NONE,
    STN_POLES_BETWEEN_ROWS, /* half a cell beyond the first and the last row: … 1 0 | 0 1 2 … */
    STN_POLES_ON_ROWS       /* on them: … 2 1 | 0 1 2 … */
} stn_poles;

/** By how many elements an op reads beyond its chunk. Entry d is dim d's; at most STN_MAX_HALO_NDIM dims have a width.
 *  The same on every rank.
 *
 *  Over the poles: beyond both ends of dim `latitude` come the grid's own rows again, in reverse order and turned by
 *  half of the longitudes, as one meets them who walks on over the pole. The number of longitudes is even, and
 *  mode[longitude] is STN_PADDING_CIRCULAR; mode[latitude] is not read. Components of vectors change their sign
 *  there, which is the caller's affair. `longitude` counts as a dim with a width. */
typedef struct stn_halo {
    size_t size;                                        /* sizeof(stn_halo) */
    int64_t below[STN_MAX_NDIM], above[STN_MAX_NDIM];   /* elements before the first and behind the last of the chunk */
    stn_padding_mode mode[STN_MAX_NDIM];                /* what stands beyond the ends of the whole tensor */
    stn_poles poles;                                    /* 0: there are none, and latitude and longitude are not read */
    int latitude, longitude;                            /* dims */
} stn_halo;

/** This rank's chunk with margins, in memory that lasts as long as the work queued by run: `extended` becomes a dense
 *  row-major box of below[d] + local_shape[d] + above[d] elements along each dim. Margins come from wherever they lie:
 *  neighbours, ranks several hops away where chunks are narrower than a margin, corners, the other end. A rank whose
 *  chunk is empty gets a box without elements.
 *
 * Placement:  any Shards, even or not. `in` must not be Partial: let `place` want Replicate there.
 * Collective: for `run`, over the ranks that share the dims with a width; one exchange, which is queued. A local tensor
 *             communicates nothing.
 * Gradient:   none by itself: the op's backward uses stn_op_halo_add, or stn_op_halo with the widths exchanged.
 * @param in    one of the op's inputs or outputs.
 * @return STN_ERR_ARGUMENT (halo: size, a negative width, an unknown mode, too many dims, poles without two dims or
 *  half the longitudes), STN_ERR_SHAPE (REFLECT: a width of the dim's size or more; over the poles: more rows than
 *  there are; REPLICATE, CIRCULAR: a dim without elements), STN_ERR_PARTIAL, STN_ERR_MEMORY, STN_ERR_COMM.
 *  Source: examples/own_stencil.c. */
STN_API stn_status stn_op_halo(const stn_op_call *call, stn_tensor *in, const stn_halo *halo, stn_box *extended);

/** A box of the shape that stn_op_halo gives for `like`, its elements not set: for a kernel that fills it before
 *  stn_op_halo_add. Local. @return as stn_op_halo, without STN_ERR_COMM. */
STN_API stn_status stn_op_halo_box(const stn_op_call *call, stn_tensor *like, const stn_halo *halo, stn_box *extended);

/** The adjoint of stn_op_halo: each element of `out`, which is overwritten, becomes the sum of all places at which it
 *  stands in the ranks' extended boxes: <halo(x), y> = <x, halo_add(y)>. This rank's own come first, then those of the
 *  other ranks in a fixed order, so that two runs give the same bits.
 *
 * Placement, collectivity, errors: as stn_op_halo.
 * @param out       one of the op's outputs.
 * @param extended  a box as stn_op_halo or stn_op_halo_box gave it; read by queued work. */
STN_API stn_status stn_op_halo_add(const stn_op_call *call, const stn_box *extended, const stn_halo *halo,
                                   stn_tensor *out);

/** The op's number in its context: what a kernel's arguments carry for stn_queue_value_error. Local. */
STN_API int stn_op_number(const stn_op *op);

/* Registry */

/** Adds an op to this context. `desc` and what it points to outlive the context. Names of built-in ops are taken.
 *  Local; every rank registers the same. @return STN_ERR_ARGUMENT, STN_ERR_VERSION, STN_ERR_STATE (name taken),
 *  STN_ERR_MEMORY. */
STN_API stn_status stn_op_register(stn_context *context, const stn_op_desc *desc, const stn_op **out);

/** The op of that name, NULL if there is none, or if it is internal (STN_OP_INTERNAL). Local. */
STN_API const stn_op *stn_op_find(stn_context *context, const char *name);

/** What the op was registered with. Borrowed from whoever registered it. Local. */
STN_API const stn_op_desc *stn_op_descriptor(const stn_op *op);

/** The op that gave `tensor` and recorded how (PyTorch's grad_fn); NULL of a leaf, of what needs no gradient, and of
 *  NULL. Local. */
STN_API const stn_op *stn_grad_fn(const stn_tensor *tensor);

/** The call as one writes it in Python, in positional order with defaults:
 *
 *     group_norm(input, num_groups, weight=None, bias=None, eps=1e-05) -> Tensor
 *
 * Every name of an input and of an attribute stands there once; what has no "=" is required. Those behind "*" are given
 * by name alone. A name of an optional input and of an attribute takes a tensor or a value. None: left out. "tensors[]"
 * is a list of tensors, "*operand" one or more of them. Behind "->" stand Tensor, a tuple "(Tensor, Tensor)", a list
 * "Tensor[]", "()" for nothing, or " | " between what it may be, as the arguments say. A call with the defaults written
 * out gives what the call without them gives. Local. @return a text that lives as long as the context; NULL for
 * NULL. */
STN_API const char *stn_op_signature(const stn_op *op);

/** All ops of a context but the internal ones, by index; NULL past the end. Local. */
STN_API const stn_op *stn_op_at(stn_context *context, int index);

/** Calls an op by its handle. Inputs in schema order, NULL where absent; trailing ones may be left out.
 *  @param outputs  `n_outputs` entries; those that the op gives are written, the others become NULL. Each is a new
 *   reference, which the innermost scope owns, or outside of any the caller: but an op in place (STN_OP_IN_PLACE) gives
 *   inputs[0] itself, borrowed. No reference is added to it, so that outputs[0] is not to be released.
 *  On failure every output is the error tensor, whose references are not counted. @return the context's status.
 *  Collective as the op. */
STN_API stn_status stn_op_invoke(const stn_op *op, int n_inputs, stn_tensor *const *inputs, int n_attrs,
                                 const stn_attr *attrs, int n_outputs, stn_tensor **outputs);

/** As stn_op_invoke, by name, with the same owners of outputs; an unknown name is STN_ERR_NOT_FOUND, and the message
 *  suggests the nearest; so is that of an internal op. */
STN_API stn_status stn_call(stn_context *context, const char *name, int n_inputs, stn_tensor *const *inputs,
                            int n_attrs, const stn_attr *attrs, int n_outputs, stn_tensor **outputs);

/** As stn_op_invoke with the attribute struct itself: `attrs` points to the descriptor's attrs_size bytes, NULL:
 *  defaults. Outputs have the same owners. The quickest way in. */
STN_API stn_status stn_op_apply(const stn_op *op, int n_inputs, stn_tensor *const *inputs, const void *attrs,
                                int n_outputs, stn_tensor **outputs);

/* Handlers: an embedder's own version of an op. Inside its handler, the op itself means the built-in rule. */

typedef stn_status (*stn_op_handler)(const stn_op *op, int n_inputs, stn_tensor *const *inputs, const void *attrs,
                                     int n_outputs, stn_tensor **outputs, void *arg);

/** Sets (or with NULL removes) the handler of an op. It wins over one set by name. Local.
 *  @return STN_ERR_ARGUMENT (no op). */
STN_API stn_status stn_op_set_handler(const stn_op *op, stn_op_handler handler, void *arg);

/** Sets (or with NULL removes) the handler of every op of that name, also of one that is registered later. Local.
 *  @return STN_ERR_ARGUMENT (no context or name), STN_ERR_MEMORY. */
STN_API stn_status stn_handler_set(stn_context *context, const char *name, stn_op_handler handler, void *arg);

/** Switches the handlers of one op on or off; NULL: those of all ops. Local. @return STN_ERR_NOT_FOUND. */
STN_API stn_status stn_handler_enable(stn_context *context, const char *name, int on);

/** Adds a kernel, or replaces the one of the same name ("op.slot"), device and dtypes. One of a smaller `size`, of an
 *  older header, wants no workspace. Local.
 *  @return STN_ERR_ARGUMENT, STN_ERR_NOT_FOUND (no such slot), STN_ERR_VERSION (args_size differs). */
STN_API stn_status stn_kernel_register(stn_context *context, const stn_kernel *kernel);

/** Switches the kernels that were added to a slot on or off: the built-in ones serve meanwhile. Local.
 *  @return STN_ERR_ARGUMENT (no context), STN_ERR_NOT_FOUND. */
STN_API stn_status stn_kernel_enable(stn_context *context, const char *name, int on);

STN_END_DECLS
#endif
