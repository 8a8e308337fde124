/* The GPU that was the thread's current one when a library made something, which serves no other. */
#ifndef STANDIN_MADE_ON_H
#define STANDIN_MADE_ON_H

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace standin {

class made_on {
public:
    made_on()
    {
        cudaGetDevice(&device);
    }

    /* Ends the program where another one is current now. */
    void expect(const char *call) const
    {
        int current = 0;
        cudaGetDevice(&current);
        if (current == device)
            return;
        fprintf(stderr, "stand-in: %s: made on GPU %d, used on GPU %d\n", call, device, current);
        abort();
    }

private:
    int device = 0;
};

}

#endif
