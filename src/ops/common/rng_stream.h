/* The stream of random numbers that an op draws from. The op uses the next stream of its mesh and saves the stream's
 * number and the seed in an output of its own, in device memory: backward draws the same numbers again, whatever the
 * context's seed is then, and no mask is stored. */
#ifndef STNI_OPS_COMMON_RNG_STREAM_H
#define STNI_OPS_COMMON_RNG_STREAM_H

#include "core/tensor/tensor.h"
#include "ops/exchange/remap_kernel.h"

/* What that output is: two i64, a stream's number and the seed. */
stn_meta stni_rng_stream_meta(void);

/* Its spec, with all of it on every rank of `mesh`. */
stn_status stni_rng_stream_spec(const stn_op_call *call, const stn_mesh *mesh, const stn_spec **out);

/* Takes the next stream of the mesh that output `k` is on, and writes that output, by the op's slot `slot`. */
stn_status stni_rng_stream_take(const stn_op_call *call, int k, int slot);

/* A kernel that is given the next stream of a mesh, and in each repetition of a captured step the next one then. The
 * seed stays the context's. */
struct stni_rng_use {
    stn_context *context;
    const stn_mesh *mesh;
    const stn_op *op;
    int slot;
    stn_dtype dtype;
    int is_empty;  /* nothing is launched on this rank, which draws as the others do */
    uint64_t mark; /* bits that are set in the stream's number */
    void *args;    /* of the kernel, which are copied where they are needed again */
    size_t args_size, stream_at; /* the latter: where the number goes, bytes from their begin */
};
stn_status stni_rng_launch(const struct stni_rng_use *use);

/* The slot and its kernel, rows of an op's tables. */
#define STNI_KEPT_STREAM_SLOT {"stream", sizeof(struct stni_remap_fill_args)}
#define STNI_KEPT_STREAM_KERNEL STNI_CPU_ROW("stream", 1u << STN_DTYPE_I64, struct stni_remap_fill_args, stni_remap_fill_cpu, NULL)

#endif
