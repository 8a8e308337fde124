/* What the two files that know oneDNN's API share: a primitive with its memory objects, and how one is made for a
 * problem. */
#ifndef STNI_OPS_ONEDNN_ONEDNN_PRIMITIVE_H
#define STNI_OPS_ONEDNN_ONEDNN_PRIMITIVE_H

#include "core/base/hash.h"
#include "ops/onednn/onednn.h"

#include <dnnl.h>

enum { STNI_ONEDNN_MAX_ARGS = 5 };

/* Everything that tells problems apart; whole bytes. */
struct stni_onednn_key {
    struct stni_conv_problem conv;      /* all zero for a product */
    struct stni_onednn_product product; /* all zero for a convolution */
};

struct stni_onednn_buffer {
    void *data;
    size_t bytes;
};

/* A primitive with its memory objects, whose addresses are set before each run. A plain weight and the weight as the
 * primitive wants it are one where their layouts agree; reorders convert one into the other. */
struct stni_onednn_primitive {
    UT_hash_handle hh;
    struct stni_onednn_key key;
    int refused;      /* oneDNN has nothing for it but its reference code */
    const char *name; /* of the code; oneDNN's own text */
    dnnl_primitive_t run, reorder, reorder_add; /* reorder_add: to a gradient that is there already */
    dnnl_memory_t a, b, c, bias, scratch;       /* a convolution: x, weight, y; a product: its factors and result */
    dnnl_memory_t plain;                        /* weight as the caller has it; NULL: as the primitive wants it */
    size_t weight_bytes, scratch_bytes;
    int n_args;
    dnnl_exec_arg_t args[STNI_ONEDNN_MAX_ARGS];
};

struct stni_onednn {
    stn_device *device;
    struct stni_refusals *refusals; /* the context's: injected by tests */
    int threads, bf16;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr, add_attr; /* scratch pads are ours; and results are added */
    struct stni_onednn_primitive *primitives;
    struct stni_onednn_buffer weight, scratch;
    const void *held; /* the weight that lies reordered in `weight`, and how; NULL: none */
    dnnl_memory_desc_t held_desc;
};

/* oneDNN's status as ours: whatever it fails for, memory of its own or of the system's rules about code made at run
 * time, it refuses. */
stn_status stni_onednn_status(dnnl_status_t status);

/* Make the primitive of p->key, which is zero beside it. STN_ERR_UNSUPPORTED where oneDNN has nothing but its
 * reference code; what was made of it is the caller's to destroy in any case. */
stn_status stni_onednn_make_conv(struct stni_onednn *library, struct stni_onednn_primitive *p);
stn_status stni_onednn_make_product(struct stni_onednn *library, struct stni_onednn_primitive *p);

#endif
