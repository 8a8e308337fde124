/* The kernel of factories: elements by their place in the whole. */
#ifndef STNI_OPS_FACTORY_FACTORY_KERNEL_H
#define STNI_OPS_FACTORY_FACTORY_KERNEL_H

#include <shardtensor/comm.h>

/* What element `place`, row-major in the whole, is. Random ones are drawn from the words of a stream that belong to
 * the place. */
enum stni_factory_value {
    STNI_FACTORY_CONSTANT,  /* a */
    STNI_FACTORY_RAMP,      /* a + b place */
    STNI_FACTORY_LINE,      /* from a to b */
    STNI_FACTORY_DIAGONAL,  /* 1 where row and column are equal, else 0 */
    STNI_FACTORY_UNIFORM,   /* from a up to b */
    STNI_FACTORY_NORMAL,    /* mean a, standard deviation b */
    STNI_FACTORY_TRUNCATED, /* the same between low and high, below which c and d of a standard normal's numbers fall */
    STNI_FACTORY_INTEGER,   /* a, a + 1, …, b - 1 */
    STNI_FACTORY_VALUES
};

struct stni_factory_args {
    enum stni_factory_value value;
    stn_dtype dtype;
    stn_box dst;
    int64_t shape[STN_MAX_BOX_NDIM], offset[STN_MAX_BOX_NDIM]; /* the whole's, and where dst lies in it */
    uint64_t seed, stream;
    double a, b, c, d, low, high;
};

stn_status stni_factory_cpu(stn_queue *queue, const void *args);

#endif
