/* Strided copies of boxes.
 *
 * The dims are sorted by the destination's strides and merged. What is dense in both boxes is a run. Without a run,
 * where another dim is dense in the source, the copy is a transpose; otherwise it is rows of runs. Large copies use
 * non-temporal stores: ordinary ones read the destination first, which costs half the time, and evict everything
 * else from the caches. Elements that repeat, as in what a sum gives back, are read once. */
#include "core/box/box.h"

#include "core/box/box_kernel.h"
#include "core/box/box_walk.h"
#include "core/device/device.h"
#include "core/box/nontemporal_line.h"

#include <shardtensor/module.h>

#include <assert.h>
#include <string.h>

enum {
    STREAM_BYTES = 1 << 20, /* copies of this much go by non-temporal stores */
    STREAM_RUN = 256,       /* where runs are at least this long or whole lines */
    BLOCK = 32              /* short runs in transposed order are copied in squares of so many */
};

/* A copy with its strides in bytes; outermost dim first. */
struct copy {
    const struct stni_copy_kernels *kernels;
    int ndim;
    int64_t shape[STN_MAX_BOX_NDIM], dst_stride[STN_MAX_BOX_NDIM], src_stride[STN_MAX_BOX_NDIM];
    int64_t run;  /* bytes that are dense in both */
    int streamed;
};

static int log2_size(int64_t bytes)
{
    static const int8_t table[17] = {-1, 0, 1, -1, 2, -1, -1, -1, 3, -1, -1, -1, -1, -1, -1, -1, 4};
    return bytes <= 16 ? table[bytes] : -1;
}

/* Returns 0 where there is nothing to copy. */
static int copy_init(struct copy *copy, enum stni_isa isa, const stn_box *dst, const stn_box *src, int64_t element_size)
{
    struct stni_box_walk walk;
    int64_t elements = stni_box_walk_begin(&walk, dst);
    if (elements == 0)
        return 0;
    stni_box_walk_join(&walk, 1, dst);
    stni_box_walk_join(&walk, 1, src);
    stni_box_walk_end(&walk);
    copy->ndim = walk.ndim;
    for (int i = 0; i < walk.ndim; i++) {
        copy->shape[i] = walk.shape[i];
        copy->dst_stride[i] = dst->strides[walk.dim[i]] * element_size;
        copy->src_stride[i] = src->strides[walk.dim[i]] * element_size;
    }
    copy->run = element_size;
    int last = copy->ndim - 1;
    if (last >= 0 && copy->dst_stride[last] == element_size && copy->src_stride[last] == element_size) {
        copy->run *= copy->shape[last];
        copy->ndim--;
    }
    copy->streamed = elements * element_size >= STREAM_BYTES;
    copy->kernels = STNI_ISA_PICK(stni_copy_kernels, isa);
    return 1;
}

/* `bytes` of copies of one element of `size` bytes, by non-temporal stores of a line that stays in registers. */
static void repeat_streamed(char *dst, const char *element, int64_t size, int64_t bytes)
{
    char line[2 * STNI_LINE]; /* of which a whole line begins anywhere in the first element */
    const int64_t head = (int64_t)(-(uintptr_t)dst % STNI_LINE);
    for (int64_t at = 0; at < (int64_t)sizeof line; at += size)
        memcpy(line + at, element, (size_t)size);
    memcpy(dst, line, (size_t)head);
    const char *next = line + head % size;
    int64_t at = head;
    for (; at + STNI_LINE <= bytes; at += STNI_LINE)
        stni_stream_line(dst + at, next);
    memcpy(dst + at, next, (size_t)(bytes - at));
}

/* The last dim, as rows of runs. */
static void copy_row(const struct copy *copy, char *dst, const char *src)
{
    int last = copy->ndim - 1, size = log2_size(copy->run);
    int64_t ds = copy->dst_stride[last], ss = copy->src_stride[last], n = copy->shape[last];
    int whole_lines = ((uintptr_t)dst | (uint64_t)ds | (uint64_t)copy->run) % STNI_LINE == 0;
    if (copy->streamed && ss == 0 && size >= 0 && ds == copy->run && n * ds >= STREAM_RUN)
        repeat_streamed(dst, src, ds, n * ds);
    else if (copy->streamed && (copy->run >= STREAM_RUN || whole_lines))
        copy->kernels->runs_streamed(dst, ds, src, ss, n, copy->run);
    else if (size >= 0)
        copy->kernels->elements[size](dst, ds, src, ss, n);
    else
        copy->kernels->runs(dst, ds, src, ss, n, copy->run);
}

/* The last two dims, of which the outer one is the nearest in the source. */
static void copy_plane(const struct copy *copy, char *dst, const char *src)
{
    int i = copy->ndim - 1, j = copy->ndim - 2, size = log2_size(copy->run);
    if (size >= 0 && copy->dst_stride[i] == copy->run && copy->src_stride[j] == copy->run) {
        copy->kernels->transpose[size](dst, copy->dst_stride[j], src, copy->src_stride[i], copy->shape[i],
                                       copy->shape[j], copy->streamed, 0);
        return;
    }
    struct copy square = *copy;
    int64_t n = copy->shape[i], m = copy->shape[j];
    for (int64_t at_j = 0; at_j < m; at_j += BLOCK)
        for (int64_t at_i = 0; at_i < n; at_i += BLOCK) {
            square.shape[i] = n - at_i < BLOCK ? n - at_i : BLOCK;
            int64_t rows = m - at_j < BLOCK ? m - at_j : BLOCK;
            for (int64_t row = at_j; row < at_j + rows; row++)
                copy_row(&square, dst + row * copy->dst_stride[j] + at_i * copy->dst_stride[i],
                         src + row * copy->src_stride[j] + at_i * copy->src_stride[i]);
        }
}

/* Moves the dim that is nearest in the source next to the last one, where that is another and runs are short.
 * Returns whether it did. */
static int order_plane(struct copy *copy)
{
    int nearest = copy->ndim - 1;
    for (int i = copy->ndim - 2; i >= 0; i--)
        if (copy->src_stride[i] < copy->src_stride[nearest])
            nearest = i;
    if (copy->run >= STREAM_RUN || nearest == copy->ndim - 1)
        return 0;
    int64_t shape = copy->shape[nearest], ds = copy->dst_stride[nearest], ss = copy->src_stride[nearest];
    for (int i = nearest; i < copy->ndim - 2; i++) {
        copy->shape[i] = copy->shape[i + 1];
        copy->dst_stride[i] = copy->dst_stride[i + 1];
        copy->src_stride[i] = copy->src_stride[i + 1];
    }
    copy->shape[copy->ndim - 2] = shape;
    copy->dst_stride[copy->ndim - 2] = ds;
    copy->src_stride[copy->ndim - 2] = ss;
    return 1;
}

/* Runs `inner` at every index of the first `outer` dims. */
static void copy_outer(const struct copy *copy, int outer, char *dst, const char *src,
                       void (*inner)(const struct copy *, char *, const char *))
{
    int64_t index[STN_MAX_BOX_NDIM] = {0};
    for (;;) {
        inner(copy, dst, src);
        int d = outer - 1;
        for (; d >= 0 && ++index[d] == copy->shape[d]; d--) {
            index[d] = 0;
            dst -= (copy->shape[d] - 1) * copy->dst_stride[d];
            src -= (copy->shape[d] - 1) * copy->src_stride[d];
        }
        if (d < 0)
            return;
        dst += copy->dst_stride[d];
        src += copy->src_stride[d];
    }
}

void stni_box_copy_now(enum stni_isa isa, const stn_box *dst, const stn_box *src, size_t element_size)
{
    struct copy copy;
    assert(dst->ndim == src->ndim && log2_size((int64_t)element_size) >= 0);
    if (!copy_init(&copy, isa, dst, src, (int64_t)element_size))
        return;
    if (copy.ndim == 0) {
        if (copy.streamed)
            copy.kernels->stream(dst->data, src->data, copy.run);
        else
            memcpy(dst->data, src->data, (size_t)copy.run);
    } else if (order_plane(&copy)) {
        copy_outer(&copy, copy.ndim - 2, dst->data, src->data, copy_plane);
    } else {
        copy_outer(&copy, copy.ndim - 1, dst->data, src->data, copy_row);
    }
    if (copy.streamed)
        copy.kernels->fence();
}

static stn_status copy_kernel(stn_queue *queue, const void *args)
{
    const stn_box_copy_args *a = args;
    stni_box_copy_now(queue->isa, &a->dst, &a->src, a->element_size);
    return STN_OK;
}

stn_status stni_box_copy(stn_queue *queue, const stn_box *dst, const stn_box *src, size_t element_size)
{
    for (int d = 0; d < dst->ndim; d++)
        if (dst->shape[d] == 0)
            return STN_OK;
    stn_box_copy_args args = {*dst, *src, element_size};
    return stni_queue_launch_named(queue, queue->device->box_copy ? queue->device->box_copy : copy_kernel, &args,
                                   sizeof args, "copy");
}
