/* What the environment asks of the stand-in. */
#ifndef STANDIN_SETTINGS_H
#define STANDIN_SETTINGS_H

#include <cstdint>

namespace standin {

enum : uint64_t { ASCENDING = 0, DESCENDING = 1 };
enum { ABSENT = 0, SERVING = 1, REFUSING = 2 };

struct settings_of_environment {
    int devices;    /* STANDIN_DEVICES: how many GPUs there are; default 1. 0: no driver */
    uint64_t seed;  /* STANDIN_SEED: order of a block's threads: ASCENDING, DESCENDING, else drawn from it; default 0 */
    uint64_t delay; /* STANDIN_DELAY: streams begin their work after delays drawn from it; default 0: none */
    int driver;     /* STANDIN_DRIVER: what the driver serves, in CUDA's numbers; default CUDART_VERSION;
                     * of an older major version: there are no devices */
    int capability; /* STANDIN_CAPABILITY: ten times the devices' compute capability; default 90 */
    int taken;      /* STANDIN_TAKEN: the GPU that another process has to itself; default none */
    int peers;      /* STANDIN_PEERS: 0: no GPU may use another one's memory; default 1 */
    int64_t small;  /* STANDIN_SMALL: elements from which on kernels have indices of 64 bits; default 2^31, a GPU's */
    int libraries;  /* STANDIN_LIBRARIES: what cuBLASLt, cuDNN and cuFFT do: ABSENT, SERVING, REFUSING all problems; default SERVING */
};

const settings_of_environment &settings();

}

#endif
