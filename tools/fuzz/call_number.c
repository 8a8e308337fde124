/* Numbers that inputs are made of, and the meshes that they lie on. */
#include "call.h"

#include "conform/number.h"

#include <math.h>

static double special(uint64_t bits)
{
    static const double values[] = {NAN, INFINITY, -INFINITY, -0.0, 0, 1e-40, 1e18, 1, -1};
    const uint64_t n = sizeof values / sizeof *values;
    return bits % 12 < n ? values[bits % 12] : (double)(bits >> 11) / 9007199254740992.0 * 4 - 2;
}

static double special_whole(stn_dtype dtype, uint64_t bits)
{
    static const double values[] = {-2147483648.0, 2147483647, 100, -1, -9223372036854775808.0, 4611686018427387904.0};
    return values[(bits >> 20) % (dtype == STN_DTYPE_I64 ? 6 : 4)];
}

static double whole(enum call_numbers numbers, stn_dtype dtype, uint64_t bits)
{
    if (dtype == STN_DTYPE_BOOL)
        return (double)(bits & 1);
    if (dtype == STN_DTYPE_U8)
        return (double)(bits % 7);
    if (numbers == NUMBERS_SPECIAL && bits % 5 == 0)
        return special_whole(dtype, bits);
    return (double)(int)(bits % 8) - (numbers == NUMBERS_INDEX ? 0 : 2);
}

double call_number(enum call_numbers numbers, stn_dtype dtype, uint64_t seed, int64_t i, int64_t last)
{
    const uint64_t bits = rng_mix(seed, (uint64_t)i);
    if (numbers == NUMBERS_RISING)
        return (double)(i % (last > 0 ? last : 1));
    if (number_parts(dtype) == 0)
        return whole(numbers, dtype, bits);
    if (numbers == NUMBERS_SPECIAL)
        return special(bits);
    if (numbers == NUMBERS_WHOLE || numbers == NUMBERS_INDEX)
        return (double)(int)(bits % 5) - 2;
    return (double)(bits >> 11) / 9007199254740992.0 * 4 - 2;
}

void call_number_put(stn_dtype dtype, void *data, int64_t i, double x)
{
    if (number_parts(dtype) > 0)
        number_put(dtype, data, i, x);
    else if (dtype == STN_DTYPE_I64)
        ((int64_t *)data)[i] = (int64_t)x;
    else if (dtype == STN_DTYPE_I32)
        ((int32_t *)data)[i] = (int32_t)x;
    else if (dtype == STN_DTYPE_I16)
        ((int16_t *)data)[i] = (int16_t)(int64_t)x;
    else if (dtype == STN_DTYPE_BOOL)
        ((uint8_t *)data)[i] = x != 0;
    else
        ((uint8_t *)data)[i] = (uint8_t)(int64_t)x;
}

double call_number_at(stn_dtype dtype, const void *data, int64_t i)
{
    if (number_parts(dtype) > 0)
        return number_at(dtype, data, i);
    if (dtype == STN_DTYPE_I64)
        return (double)((const int64_t *)data)[i];
    if (dtype == STN_DTYPE_I16)
        return ((const int16_t *)data)[i];
    if (dtype == STN_DTYPE_I8)
        return ((const int8_t *)data)[i];
    return dtype == STN_DTYPE_I32 ? ((const int32_t *)data)[i] : ((const uint8_t *)data)[i];
}

struct grid call_grid(enum call_mesh mesh, int world, int ranks[GRID_MAX_RANKS])
{
    struct grid grid = {.ndim = 1, .sizes = {world}, .ranks = world};
    for (int i = 0; i < world; i++)
        ranks[i] = mesh == MESH_BACKWARDS ? world - 1 - i : i;
    if (mesh == MESH_LOCAL)
        grid = (struct grid){0};
    if (mesh == MESH_GRID) {
        grid.ndim = 2;
        grid.sizes[0] = world % 2 == 0 ? 2 : 1;
        grid.sizes[1] = world / grid.sizes[0];
    }
    if (mesh == MESH_PART && world > 1) {
        grid.sizes[0] = grid.ranks = world - 1;
        for (int i = 0; i + 1 < world; i++)
            ranks[i] = i + 1;
    }
    return grid;
}
