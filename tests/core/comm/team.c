/* Values of buffers, and what reductions of them give. */
#include "team.h"

#include "core/base/dtype.h"

#include <time.h>

int team_value(int rank, int64_t i, int size, stn_dtype dtype, stn_reduce_op op)
{
    int v = (int)((rank * 7 + i * 3 + i / 5) % 5);
    if (dtype == STN_DTYPE_BOOL)
        return v > 2;
    if (op == STN_PROD)
        return i % size == rank ? 3 : 1;
    return op == STN_AVG ? v % 3 * size : v + 1;
}

void team_put(void *data, stn_dtype dtype, int64_t i, int value, stn_reduce_op op)
{
    float f = (float)value;
    int imaginary = op == STN_PROD ? 0 : value;
    switch (dtype) {
    case STN_DTYPE_F32: ((float *)data)[i] = f; return;
    case STN_DTYPE_F64: ((double *)data)[i] = value; return;
    case STN_DTYPE_BF16: ((uint16_t *)data)[i] = stni_f32_to_bf16(f); return;
    case STN_DTYPE_F16: ((uint16_t *)data)[i] = stni_f32_to_f16(f); return;
    case STN_DTYPE_I64: ((int64_t *)data)[i] = value; return;
    case STN_DTYPE_I32: ((int32_t *)data)[i] = value; return;
    case STN_DTYPE_U8:
    case STN_DTYPE_I8:
    case STN_DTYPE_BOOL: ((uint8_t *)data)[i] = (uint8_t)value; return;
    case STN_DTYPE_I16: ((int16_t *)data)[i] = (int16_t)value; return;
    case STN_DTYPE_C64: ((float *)data)[2 * i] = f, ((float *)data)[2 * i + 1] = (float)imaginary; return;
    case STN_DTYPE_C128: ((double *)data)[2 * i] = value, ((double *)data)[2 * i + 1] = imaginary; return;
    case STN_DTYPE_COUNT: return;
    }
}

void *team_buffer(int rank, int64_t from, int64_t n, int size, stn_dtype dtype, stn_reduce_op op)
{
    void *data = malloc((size_t)n * stn_dtype_size(dtype) + 1);
    for (int64_t i = 0; i < n; i++)
        team_put(data, dtype, i, team_value(rank, from + i, size, dtype, op), op);
    return data;
}

static int combine(int a, int b, stn_dtype dtype, stn_reduce_op op)
{
    if (dtype == STN_DTYPE_BOOL)
        return op == STN_PROD || op == STN_MIN ? a && b : a || b;
    switch (op) {
    case STN_SUM:
    case STN_AVG: return a + b;
    case STN_PROD: return a * b;
    case STN_MIN: return a < b ? a : b;
    case STN_MAX: return a > b ? a : b;
    case STN_REDUCE_OP_COUNT: break;
    }
    return 0;
}

void *team_reduced(int64_t from, int64_t n, int size, stn_dtype dtype, stn_reduce_op op)
{
    void *data = malloc((size_t)n * stn_dtype_size(dtype) + 1);
    for (int64_t i = 0; i < n; i++) {
        int v = team_value(0, from + i, size, dtype, op);
        for (int r = 1; r < size; r++)
            v = combine(v, team_value(r, from + i, size, dtype, op), dtype, op);
        if (op == STN_AVG && dtype != STN_DTYPE_BOOL)
            v /= size;
        team_put(data, dtype, i, v, op);
    }
    return data;
}

double team_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void team_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}
