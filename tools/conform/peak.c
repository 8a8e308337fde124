/* The bound, in one place. */
#include "peak.h"

enum { TIMES = 3, BUFFER = 512 << 10 /* bytes */ };

int64_t peak_chunk(const stn_spec *spec)
{
    const int ranks = stn_mesh_size(stn_spec_mesh(spec));
    int64_t most = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int64_t shape[STN_MAX_NDIM], numel = 1;
        stn_spec_chunk(spec, rank, shape, NULL);
        for (int d = 0; d < stn_spec_ndim(spec); d++)
            numel *= shape[d];
        most = numel > most ? numel : most;
    }
    return most * (int64_t)stn_dtype_size(stn_spec_dtype(spec));
}

int64_t peak_bound(int64_t chunks)
{
    return BUFFER + TIMES * chunks;
}
