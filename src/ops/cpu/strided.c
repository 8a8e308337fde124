#include "ops/cpu/strided.h"

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static void copy_dim(int64_t *shape, int n, int64_t *const *strides, int from, int to)
{
    shape[to] = shape[from];
    for (int i = 0; i < n; i++)
        strides[i][to] = strides[i][from];
}

static void swap(int64_t *a, int64_t *b)
{
    int64_t held = *a;
    *a = *b;
    *b = held;
}

static void sort_dims(int ndim, int64_t *shape, int n, int64_t *const *strides)
{
    for (int d = 1; d < ndim; d++)
        for (int e = d; e > 0 && magnitude(strides[0][e - 1]) < magnitude(strides[0][e]); e--) {
            swap(&shape[e - 1], &shape[e]);
            for (int i = 0; i < n; i++)
                swap(&strides[i][e - 1], &strides[i][e]);
        }
}

/* Whether `inner` goes on where a step of `outer` ends, for every operand. */
static int continues(const int64_t *shape, int n, int64_t *const *strides, int outer, int inner)
{
    for (int i = 0; i < n; i++)
        if (strides[i][outer] != strides[i][inner] * shape[inner])
            return 0;
    return 1;
}

static int drop_ones(int ndim, int64_t *shape, int n, int64_t *const *strides)
{
    int kept = 0;
    for (int d = 0; d < ndim; d++)
        if (shape[d] != 1)
            copy_dim(shape, n, strides, d, kept++);
    return kept;
}

int stni_join_dims(int ndim, int64_t shape[STN_MAX_NDIM], int n, int64_t *const strides[])
{
    const int kept = drop_ones(ndim, shape, n, strides);
    int last = -1;
    for (int d = 0; d < kept; d++) {
        int64_t merged = shape[d];
        if (last >= 0 && continues(shape, n, strides, last, d))
            merged *= shape[last--];
        copy_dim(shape, n, strides, d, ++last);
        shape[last] = merged;
    }
    return last + 1;
}

int stni_merge_dims(int ndim, int64_t shape[STN_MAX_NDIM], int n, int64_t *const strides[])
{
    const int kept = drop_ones(ndim, shape, n, strides);
    sort_dims(kept, shape, n, strides);
    return stni_join_dims(kept, shape, n, strides);
}
