/* Ranges of NVTX, which Nsight Systems and its like show beside the GPU's work. Where no tool listens, a call is a
 * test of a pointer. */
#ifndef STNI_CORE_DEVICE_NVTX_H
#define STNI_CORE_DEVICE_NVTX_H

/* 0 in a build without NVTX's headers, in which the others do nothing. To be called before a first push. */
int stni_nvtx_open(void);

/* On the calling thread; ranges nest. The name is read before push returns. */
void stni_nvtx_push(const char *name);
void stni_nvtx_pop(void);

#endif
