/* A thread's current GPU, which is the caller's: calls on another one come between these two. */
#ifndef STNI_CORE_DEVICE_CUDA_CURRENT_H
#define STNI_CORE_DEVICE_CUDA_CURRENT_H

/* Makes a GPU current; returns the one that was. */
int stni_cuda_make_current(int gpu);

/* Makes `before` current again, but for one that this process does not use: a thread that has chosen no GPU has the
 * first one, on which going back would begin a context of some hundred MB. It keeps `gpu` then. No error is kept by
 * the runtime. */
void stni_cuda_go_back(int gpu, int before);

#endif
