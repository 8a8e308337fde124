/* What the files of the short way share: see shortcut.c. */
#ifndef STNP_SHORTCUT_H
#define STNP_SHORTCUT_H

#include "binding.h"

/* What Python hands over. */
enum {
    SHARD_TENSOR,  /* the class */
    TENSOR,        /* torch.Tensor */
    PARAMETER,     /* torch.nn.Parameter */
    MAKE,          /* torch.Tensor._make_wrapper_subclass */
    LONG_WAY,      /* the function for all else: (cls, func, types, args, kwargs) */
    NAMES,         /* {function of torch: name of an op, None of one in place, False of one that changes the tensors of
                     its first list and True of one that changes those of all its lists, a tuple of an op's name of one
                     that is this op of each of a list, ... of one that is torch's own whatever a tensor holds, or
                     steps(args, kwargs), which gives [(name of an op, its attributes), ...], None, or the result,
                     ... of nothing}: those that may come here */
    UNLESS,        /* {name of an op: what there is to look at in its calls, of the following enum} */
    AUTOCAST,      /* whether torch's autocast is on, for any device */
    CAST,          /* (name of an op, inputs): the inputs as autocast has it see them, a tuple */
    TAKES_PLAIN,   /* whether plain tensors may come beside ShardTensors, as Replicate ones */
    DTYPES,        /* {dtype of torch: its name} */
    COUNT_CHANGES, /* (tensors): torch counts that they are changed */
    WHOLE,         /* ([handle or None], 0, forward spec): the gradient of a plain tensor as torch gets it */
    HANDLERS,      /* a list of dicts: where one of them holds something, users come first */
    BELOW,         /* as LONG_WAY, below torch's autograd */
    BELOW_NAMES,   /* {address of a function: (it, name of an op, words of its positional arguments)} */
    BELOW_HANDLERS,
    GRAD_ENABLED,  /* whether torch records */
    SAVING_HOOKS,  /* hooks through which nodes keep their tensors, or None */
    UNDISTURBED,   /* (func, types, args): calls func without asking classes */
    REQUIRES_GRAD, /* (tensor) */
    RECORD,        /* ((op, handles), attributes, *tensors): the node of torch's graph, whose forward is ours below */
    LEAF_NODE,     /* the class of torch's nodes that add up gradients of leaves */
    KEEPS_GRAPH,   /* whether the backward that runs retains its graph */
    SAVES,         /* {name of an op: what its nodes save}: those that may save else than their inputs */
    LEAST,         /* numbers in a result that is saved in their place */
    GENERAL_BACKWARD, /* (node, *cotangents): gradients, where the short way does not serve */
    FIT,              /* (handle or None, forward spec, is a leaf's, cotangent): a gradient as torch gets it */
    IGNORED,          /* {name of an argument: the value that says nothing; ...: any} */
    REFUSALS,         /* exceptions for which torch is asked too */
    LAY_GRADIENTS,    /* (tensor): before a node of torch's own gets it */
    SPREAD,           /* names of ops with a list that may come as integers one after the other */
    NOTE_VIEWS,       /* (op, attributes, tensors, results): of results of which some are views */
    SHAPE,            /* (op, results, a tuple): several results as torch has them */
    WORDS,            /* (device): {name of a dtype: the keywords of MAKE there} */
    N_PARTS
};

/* What there is to look at, as _shortcut.py counts it: autocast, inputs of several dtypes, a third input. With the last
 * two a call goes the long way. */
enum { STNP_UNLESS_CAST = 1, STNP_UNLESS_MIXED = 2, STNP_UNLESS_WEIGHED = 4 };

/* Names of attributes. */
enum {
    STNP_HANDLE,   /* of a ShardTensor */
    STNP_DATA_PTR, /* of a plain tensor, from here on */
    STNP_DETACH,
    STNP_CONTIGUOUS,
    STNP_IS_CONJ,
    STNP_IS_NEG,
    STNP_SHAPE,
    STNP_DTYPE,
    STNP_DEVICE,
    STNP_CHUNK, /* of a ShardTensor: its chunk as torch sees it, the handle that this is of, and what asks for both */
    STNP_CHUNK_OF,
    STNP_LOCAL_TENSOR,
    STNP_INPLACE,          /* a word of torch's functions */
    STNP_NEEDS_INPUT_GRAD, /* of torch's nodes, from here on */
    STNP_KEPT,
    STNP_TO_SAVE,
    STNP_MATERIALIZE_GRADS,
    STNP_NEXT_FUNCTIONS,
    STNP_SAVED_TENSORS,
    STNP_FIRST_WATCHED, /* those of tensors that are not simply changed in place, from here on */
    STNP_LENT = STNP_FIRST_WATCHED,
    STNP_GATHERED_VIEW,
    STNP_NODE_VIEW,
    STNP_NODE_VIEWS,
    STNP_N_NAMES
};

/* What a node keeps of its call, a tuple. */
enum {
    STNP_KEPT_OP,
    STNP_KEPT_ATTRS,
    STNP_KEPT_SPECS,    /* of the inputs; None of one that is absent */
    STNP_KEPT_PULLBACK, /* or None */
    STNP_KEPT_NEEDS,    /* bit i: input i needs a gradient */
    STNP_KEPT_SHORTCUT,
    STNP_KEPT_SAVES,     /* one of the following */
    STNP_KEPT_PLAIN,     /* bit i: input i is plain */
    STNP_KEPT_ADDRESSES, /* of saved tensors that are plain, None of others; () where none is */
    STNP_N_KEPT
};

/* What torch saves of a call, as _results.py counts it: nothing, where the gradient does not depend on its tensors; its
 * inputs, which a gradient of the gradient is a function of; nothing but what the pullback keeps; its result; its
 * inputs of integers and truths; of two factors each whose other one has a gradient. */
enum {
    STNP_SAVES_NOTHING,
    STNP_SAVES_INPUTS,
    STNP_SAVES_KEPT,
    STNP_SAVES_RESULT,
    STNP_SAVES_PLACES,
    STNP_SAVES_FACTORS
};

typedef struct stnp_shortcut {
    PyObject_HEAD PyObject *parts[N_PARTS];
    PyObject *names[STNP_N_NAMES];
} stnp_shortcut;

/** A call that is under way. */
typedef struct stnp_short_call {
    stnp_op *op; /* owned */
    stnp_bound bound;
    PyObject *handles[STN_MAX_INPUTS]; /* owned; NULL: absent */
    int n_handles;
    uint32_t plain; /* bit i: input i is a plain tensor */
    PyObject *cast; /* owned: the inputs in autocast's dtype; NULL: as they are */
    uint32_t rigid; /* bit i: result i has no gradient, as integers and truths have none */
    int is_view;    /* whether a result is */
} stnp_short_call;

/** Objects as a tuple, None where one is NULL. */
PyObject *stnp_short_tuple(PyObject *const *objects, int n);

/** Whether a reduction is pending. */
int stnp_short_is_pending(const stn_spec *spec);

/** A call that holds nothing yet. */
void stnp_short_begin(stnp_short_call *call);

/** A ShardTensor on a handle, whose reference it takes over. */
PyObject *stnp_short_wrap(stnp_shortcut *self, stnp_context *context, stn_tensor *tensor, const stnp_placed *placed);

/** The handle of a ShardTensor, a new reference; NULL without an exception for anything else. */
stnp_tensor *stnp_short_handle(stnp_shortcut *self, PyObject *object);

/** Finds the op and sorts the arguments. `words`: the op's names of the positional ones, a tuple, or NULL where they
 * have their places. @return 0, or -1: the long way, perhaps with an exception that it will raise again. */
int stnp_short_bind(stnp_shortcut *self, PyObject *name, PyObject *args, PyObject *words, PyObject *keywords,
                    stnp_short_call *call);

/** A handle for each input. @return 0, or -1: one is absent or no ShardTensor. */
int stnp_short_take_handles(stnp_shortcut *self, PyObject *const *tensors, int n, stnp_short_call *call);

/** The same of inputs that may be plain tensors, or absent. @return 0, or -1, perhaps with an exception: the long
 * way. */
int stnp_short_take_operands(stnp_shortcut *self, PyObject *const *tensors, int n, stnp_short_call *call);

/** The inputs, in bound, become what autocast has the op see. @return 0, or -1 with an exception. */
int stnp_short_autocast(stnp_shortcut *self, PyObject *name, stnp_short_call *call);

/** Whether the call, whose handles are there, goes the long way for its dtypes, or for a third input. */
int stnp_short_is_unfit(stnp_shortcut *self, PyObject *name, const stnp_short_call *call);

/** For a node: where the memory of the plain ones of what torch saves is. */
PyObject *stnp_short_addresses(stnp_shortcut *self, const stnp_short_call *call, PyObject *saved);

/** Whether some of it is elsewhere by now, as FSDP frees memory and makes it anew. @return -1 with an exception. */
int stnp_short_is_moved(stnp_shortcut *self, PyObject *node, PyObject *addresses);

/** The gradient of a plain tensor of spec `spec`, which all ranks of the mesh get. Takes `grad` over; NULL: zero. */
PyObject *stnp_short_whole(stnp_shortcut *self, stnp_context *context, stn_tensor *grad, PyObject *spec);

/** The library's call of the handles and attributes. @return 0 or -1. */
int stnp_short_fill(stnp_short_call *call, stnp_call *sorted);

/** Calls the op on the handles. A ShardTensor, or a list of them where the op returns one, or there are several. */
PyObject *stnp_short_run(stnp_shortcut *self, stnp_short_call *call, uint32_t needs, stn_pullback **pullback);

void stnp_short_fini(stnp_short_call *call);

/** Whether torch's graph gets a node for some of n tensors. @return -1 with an exception. */
int stnp_short_is_recorded(stnp_shortcut *self, PyObject *const *tensors, int n);

/** The attributes as a dict of its own, in which lists are copies. NULL without an exception where there is a tensor in
 * one. */
PyObject *stnp_short_attrs(stnp_shortcut *self, const stnp_bound *bound);

/** The arguments of a function of torch, a new reference: integers one after the other, where the op wants a list, are
 * one. */
PyObject *stnp_short_gather(stnp_shortcut *self, PyObject *name, PyObject *args);

/** Has Python know a result, or those of a list, for a view of the first of n tensors, if it is one.
 * @return 0 or -1. */
int stnp_short_note(stnp_shortcut *self, const stnp_short_call *call, PyObject *attrs, PyObject *const *tensors, int n,
                    PyObject *result);

/** Calls the op on the handles, outside of torch's graph. NULL without an exception: as stnp_short_attrs. */
PyObject *stnp_short_run_plain(stnp_shortcut *self, stnp_short_call *call);

/** RECORD((op, handles), attributes, *tensors); NULL without an exception where hooks want the tensors. */
PyObject *stnp_short_record(stnp_shortcut *self, const stnp_short_call *call);

/** Whether Python has something to say to a change of it: see _dispatch and _node. @return -1 with an exception. */
int stnp_short_is_watched(stnp_shortcut *self, PyObject *tensor);

/** Torch's function without asking the classes of its arguments. */
PyObject *stnp_short_torch_s(stnp_shortcut *self, PyObject *func, PyObject *args, PyObject *keywords);

/** A function of torch in place, above its autograd. @return NULL without an exception, or with one of `refusals`: the
 * long way. */
PyObject *stnp_short_change(stnp_shortcut *self, PyObject *func, PyObject *args, PyObject *keywords);

/** A function of torch that changes the tensors of its first list, or of all, as stnp_short_change. */
PyObject *stnp_short_change_lists(stnp_shortcut *self, PyObject *func, PyObject *args, PyObject *keywords, int all);

/** The op of each tensor of a list, as torch has it. NULL: as above. */
PyObject *stnp_short_each(stnp_shortcut *self, PyObject *name, PyObject *args, PyObject *keywords);

/** An op of that name. NULL without an exception, or with one of `refusals`: the long way. */
PyObject *stnp_short_op(stnp_shortcut *self, PyObject *name, PyObject *args, PyObject *keywords);

/** Whether chunks and plain tensors are now what they seem. */
int stnp_short_takes_plain(const stnp_shortcut *self);

/** Whether one of the dicts in the list `part` holds something. */
int stnp_short_users_come_first(stnp_shortcut *self, int part);

/** parts[part](cls, func, types, args, kwargs). An exception that is none of `refusals` stands. */
PyObject *stnp_short_long_way(stnp_shortcut *self, int part, PyObject *const *args, Py_ssize_t n);

/** __torch_dispatch__(cls, func, types, args=(), kwargs=None). */
PyObject *stnp_short_dispatch(PyObject *self, PyObject *const *args, Py_ssize_t n);

/** put_backward(type): nodes of that type go back the short way. */
PyObject *stnp_short_put_backward(PyObject *self, PyObject *type);

/** forward(node, (op, handles), attributes, *tensors), which torch calls by RECORD. */
PyObject *stnp_short_forward(PyObject *self, PyObject *const *args, Py_ssize_t n);

#endif
