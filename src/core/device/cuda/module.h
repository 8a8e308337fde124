/* The CUDA module inside: its host's table, and what its kernels need of it. */
#ifndef STNI_CORE_DEVICE_CUDA_MODULE_H
#define STNI_CORE_DEVICE_CUDA_MODULE_H

#include <shardtensor/module.h>

STN_BEGIN_DECLS

const stn_host *stni_cuda_host(void);

/* The stream of a queue. */
void *stni_cuda_stream(stn_queue *queue);

/* After a launch: fails the queue where the runtime refused it. */
stn_status stni_cuda_launched(stn_queue *queue);

int stni_cuda_device_count(void);

/* STN_OK where the device can be opened: there is a driver, it is new enough, the module has code for the GPU, and no
 * other process has it to itself. Else the reason. */
stn_status stni_cuda_device_check(int index, char *text, size_t text_size);
/* Of an opened device: PTX, which others have, is compiled when it is loaded. */
int stni_cuda_has_machine_code(int index);
stn_status stni_cuda_device_join(int index, const stn_device_ops **ops, void **impl, char *text, size_t text_size);

/* A stn_module.comm_join: communicators of NCCL, by the words that shardtensor/nccl.h writes. */
stn_status stni_cuda_comm_join(const char *options, const stn_comm_ops **ops, void **impl, int *rank, int *size,
                               char *text, size_t text_size);

/* The kernels' tables, each ended by a row without a name; the list itself ends in NULL. Generated: one table a .cu
 * file. */
extern const stn_kernel *const stni_cuda_kernel_tables[];

STN_END_DECLS
#endif
