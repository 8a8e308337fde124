/* The module of the tests: a device whose memory no host code can read by mistake, and a communicator among threads.
 *
 * The device hands out addresses that are HIDDEN away from the true ones: whoever uses one without its kernels
 * crashes at once. */
#ifndef SHARDTENSOR_TESTS_MODULE_PROBE_H
#define SHARDTENSOR_TESTS_MODULE_PROBE_H

#include <shardtensor/module.h>

extern _Atomic(const stn_host *) probe_host;

static const uintptr_t PROBE_HIDDEN = (uintptr_t)1 << 52;

static inline void *probe_hide(void *pointer)
{
    return (void *)((uintptr_t)pointer + PROBE_HIDDEN);
}

static inline int probe_is_hidden(const void *pointer)
{
    return ((uintptr_t)pointer & PROBE_HIDDEN) != 0;
}

/* The true address; of host memory, itself. */
static inline void *probe_true(const void *pointer)
{
    return (void *)((uintptr_t)pointer & ~PROBE_HIDDEN);
}

/* dst = src with true addresses. */
void probe_copy_box(const stn_box *dst, const stn_box *src, size_t element_size);

/* Waits for a queue of the device if `data` is in its memory. */
void probe_settle(stn_queue *queue, const void *data);

int probe_device_count(void);
stn_status probe_device_join(int index, const stn_device_ops **ops, void **impl, char *text, size_t text_size);
stn_status probe_comm_open(const char *options, const stn_comm_ops **ops, void **impl, int *rank, int *size);

/* The kernel probe.scale: x *= factor, n doubles. */
struct probe_scale_args {
    double *x;
    double factor;
    int64_t n;
};

#endif
