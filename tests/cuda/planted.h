/* Faults that are planted into kernels and into work on streams, for the stand-in to find. */
#ifndef CUDA_PLANTED_H
#define CUDA_PLANTED_H

#ifdef __cplusplus
extern "C" {
#endif

/** Runs the work of that name on the stand-in. @return 0 where values came out right, 1 where they did not, which it
 *  says; faults that the stand-in itself finds end the program before. */
int planted_run(const char *name);

/** What watches memory in this build. */
int planted_has_address_sanitizer(void);
int planted_has_thread_sanitizer(void);

#ifdef __cplusplus
}
#endif
#endif
