/* Functions of the CUDA runtime that time work, found by name in the module, so that this builds without CUDA. */
#ifndef STN_TESTS_CUDA_BENCH_RUNTIME_H
#define STN_TESTS_CUDA_BENCH_RUNTIME_H

/* Finds them, once; 0 where they are not there. */
int runtime_find(const char *folder);

/* Of events: 0 or an error of the runtime's. */
int runtime_event_create(void **out);
void runtime_event_destroy(void *event);
int runtime_event_record(void *event, void *stream);
int runtime_elapsed(double *seconds, void *from, void *to);

/* How many devices there are, and the one that this thread's calls mean from now on. */
int runtime_devices(void);
int runtime_choose(int device);

/* An attribute of device 0 by CUDA's number; 0 where it is not told. */
int runtime_attribute(int attribute);

#endif
