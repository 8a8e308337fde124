/* Identities of reductions, and filling memory with them. */
#include "core/redistribute/identity.h"

#include "core/device/device.h"
#include "core/base/dtype.h"

#include <shardtensor/module.h>

#include <math.h>
#include <string.h>

enum { BLOCK_BYTES = 16384 };

static stn_status fill_kernel(stn_queue *queue, const void *args)
{
    (void)queue;
    const stn_fill_args *a = args;
    size_t bytes = (size_t)a->count * a->element_size, done = a->element_size;
    static const unsigned char zeros[sizeof a->element];
    if (memcmp(a->element, zeros, a->element_size) == 0) {
        memset(a->data, 0, bytes);
        return STN_OK;
    }
    /* What is filled so far is copied behind itself, doubling while the source fits the L1 cache. */
    memcpy(a->data, a->element, a->element_size);
    for (size_t n = done; done < bytes; done += n) {
        n = done < BLOCK_BYTES ? done : n;
        memcpy((char *)a->data + done, a->data, n < bytes - done ? n : bytes - done);
    }
    return STN_OK;
}

/* One, the least and the greatest value of each dtype. */
union value {
    double f64[2];
    float f32[2];
    uint16_t u16;
    int64_t i64;
    int32_t i32;
    int16_t i16;
    uint8_t u8;
    int8_t i8;
};

static union value one(stn_dtype dtype)
{
    static const union value values[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = {.f32 = {1}},    [STN_DTYPE_F64] = {.f64 = {1}}, [STN_DTYPE_BF16] = {.u16 = 0x3f80},
        [STN_DTYPE_F16] = {.u16 = 0x3c00}, [STN_DTYPE_I64] = {.i64 = 1},   [STN_DTYPE_I32] = {.i32 = 1},
        [STN_DTYPE_U8] = {.u8 = 1},        [STN_DTYPE_BOOL] = {.u8 = 1},   [STN_DTYPE_C64] = {.f32 = {1}},
        [STN_DTYPE_C128] = {.f64 = {1}},   [STN_DTYPE_I8] = {.i8 = 1},     [STN_DTYPE_I16] = {.i16 = 1}};
    return values[dtype];
}

static union value least(stn_dtype dtype)
{
    static const union value values[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = {.f32 = {-INFINITY}}, [STN_DTYPE_F64] = {.f64 = {-INFINITY}},
        [STN_DTYPE_BF16] = {.u16 = 0xff80},     [STN_DTYPE_F16] = {.u16 = 0xfc00},
        [STN_DTYPE_I64] = {.i64 = INT64_MIN},   [STN_DTYPE_I32] = {.i32 = INT32_MIN},
        [STN_DTYPE_I8] = {.i8 = INT8_MIN},      [STN_DTYPE_I16] = {.i16 = INT16_MIN}};
    return values[dtype];
}

static union value greatest(stn_dtype dtype)
{
    static const union value values[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = {.f32 = {INFINITY}}, [STN_DTYPE_F64] = {.f64 = {INFINITY}},
        [STN_DTYPE_BF16] = {.u16 = 0x7f80},    [STN_DTYPE_F16] = {.u16 = 0x7c00},
        [STN_DTYPE_I64] = {.i64 = INT64_MAX},  [STN_DTYPE_I32] = {.i32 = INT32_MAX},
        [STN_DTYPE_U8] = {.u8 = UINT8_MAX},    [STN_DTYPE_BOOL] = {.u8 = 1},
        [STN_DTYPE_I8] = {.i8 = INT8_MAX},     [STN_DTYPE_I16] = {.i16 = INT16_MAX}};
    return values[dtype];
}

static union value negative_zero(stn_dtype dtype)
{
    static const union value values[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = {.f32 = {-0.0f}},        [STN_DTYPE_F64] = {.f64 = {-0.0}},
        [STN_DTYPE_BF16] = {.u16 = 0x8000},        [STN_DTYPE_F16] = {.u16 = 0x8000},
        [STN_DTYPE_C64] = {.f32 = {-0.0f, -0.0f}}, [STN_DTYPE_C128] = {.f64 = {-0.0, -0.0}}};
    return values[dtype];
}

static stn_status fill(stn_queue *queue, void *data, int64_t numel, stn_dtype dtype, union value value)
{
    stn_fill_args args = {.data = data, .count = numel, .element_size = stn_dtype_size(dtype)};
    if (numel == 0)
        return STN_OK;
    memcpy(args.element, &value, args.element_size);
    return stni_queue_launch_named(queue, queue->device->fill ? queue->device->fill : fill_kernel, &args, sizeof args,
                                   "fill");
}

stn_status stni_fill_identity(stn_queue *queue, void *data, int64_t numel, stn_dtype dtype, stn_reduce_op op)
{
    static union value (*const identities[STN_REDUCE_OP_COUNT])(stn_dtype) = {
        [STN_SUM] = negative_zero, [STN_PROD] = one, [STN_MIN] = greatest, [STN_MAX] = least};
    return fill(queue, data, numel, dtype, identities[op](dtype));
}

stn_status stni_fill_zeros(stn_queue *queue, void *data, int64_t numel, stn_dtype dtype)
{
    return fill(queue, data, numel, dtype, (union value){.f64 = {0, 0}});
}
