/* The CPU's kernels of scans. Lines that lie side by side in memory are scanned up to LANES at once, row by row, others one by one: memory is read
 * in order either way. Sums of floats are kept in f64 (complex ones in c128), as reductions keep them. */
#include "core/base/dtype.h"
#include "core/box/box_kernel.h"
#include "core/device/device.h"
#include "ops/scan/scan_kernel.h"

#include <complex.h>
#include <math.h>

enum { LANES = 256, FEW = 4 };

#define LOG_SIZE(type) (sizeof(type) == 1 ? 0 : sizeof(type) == 2 ? 1 : sizeof(type) == 4 ? 2 : sizeof(type) == 8 ? 3 : 4)

struct block {
    int along; /* one by one */
    const struct stni_copy_kernels *copy;
    int64_t line, width; /* the first line, and how many */
    int64_t at[SCAN_TENSORS], lane[SCAN_TENSORS];
};

#include "ops/scan/scan_real.h"
#include "ops/scan/scan_prefix_tmpl.h"
#define WIDE T
#define WIDEN(x) STORE((A)(x))
#define ORDERED 1
#define INEXACT 1
#define TEMPLATE "ops/scan/scan_lines_tmpl.h"
#include "core/box/each_float.h"
#undef WIDE
#undef WIDEN
#undef ORDERED
#undef INEXACT
#include "ops/scan/scan_end.h"

#include "ops/scan/scan_integer.h"
#include "ops/scan/scan_prefix_tmpl.h"
#define WIDE int64_t
#define WIDEN(x) (x)
#define ORDERED 1
#define INEXACT 0
#include "core/box/each_integer.h"
#undef WIDE
#undef WIDEN
#undef ORDERED
#undef INEXACT
#include "ops/scan/scan_end.h"

#define S double _Complex
#define RE(x) creal(x)
#define IM(x) cimag(x)
#define IMAGINARY(x) __builtin_complex(0.0, x)
#include "ops/scan/scan_complex.h"
#include "ops/scan/scan_prefix_tmpl.h"
#define WIDE T
#define WIDEN(x) ((T)(x))
#define ORDERED 0
#define INEXACT 1
#include "core/box/each_complex.h"

typedef void (*block_fn)(const struct stni_scan_args *args, const struct block *block);

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static void run_lines(const stn_queue *queue, const struct stni_scan_args *args, block_fn run)
{
    const struct stni_lines *lines = &args->lines;
    const int inner = lines->ndim - 1;
    int64_t index[STN_MAX_NDIM] = {0};
    struct block b = {.copy = STNI_ISA_PICK(stni_copy_kernels, queue->isa)};
    for (int t = 0; t < SCAN_TENSORS; t++)
        b.lane[t] = lines->strides[t][inner];
    b.along = magnitude(lines->step[SCAN_X]) < magnitude(b.lane[SCAN_X]) || lines->step[SCAN_X] == 1 || lines->shape[inner] < FEW;
    for (int64_t rows = stni_lines_count(lines) / lines->shape[inner]; rows > 0; rows--) {
        for (int64_t l = 0; l < lines->shape[inner]; l += LANES) {
            b.width = lines->shape[inner] - l < LANES ? lines->shape[inner] - l : LANES;
            for (int t = 0; t < SCAN_TENSORS; t++) {
                b.at[t] = l * b.lane[t];
                for (int d = 0; d < inner; d++)
                    b.at[t] += index[d] * lines->strides[t][d];
            }
            run(args, &b);
            b.line += b.width;
        }
        for (int d = inner - 1; d >= 0 && ++index[d] == lines->shape[d]; d--)
            index[d] = 0;
    }
}

stn_status stni_scan_cpu(stn_queue *queue, const void *raw)
{
    static const block_fn of[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = scan_f32, [STN_DTYPE_F64] = scan_f64, [STN_DTYPE_BF16] = scan_bf16, [STN_DTYPE_F16] = scan_f16,
        [STN_DTYPE_I64] = scan_i64, [STN_DTYPE_I32] = scan_i32, [STN_DTYPE_U8] = scan_u8, [STN_DTYPE_BOOL] = scan_u8,
        [STN_DTYPE_C64] = scan_c64, [STN_DTYPE_C128] = scan_c128,
    };
    const struct stni_scan_args *args = raw;
    run_lines(queue, args, of[args->dtype]);
    return STN_OK;
}

stn_status stni_scan_total_cpu(stn_queue *queue, const void *raw)
{
    static const block_fn of[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = total_f32, [STN_DTYPE_F64] = total_f64, [STN_DTYPE_BF16] = total_bf16, [STN_DTYPE_F16] = total_f16,
        [STN_DTYPE_I64] = total_i64, [STN_DTYPE_I32] = total_i32, [STN_DTYPE_U8] = total_u8, [STN_DTYPE_BOOL] = total_u8,
        [STN_DTYPE_C64] = total_c64, [STN_DTYPE_C128] = total_c128,
    };
    const struct stni_scan_args *args = raw;
    run_lines(queue, args, of[args->dtype]);
    return STN_OK;
}

stn_status stni_scan_prefix_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_scan_prefix_args *args = raw;
    (void)queue;
    if (stni_dtype_is_complex(args->dtype))
        prefix_complex(args);
    else if (stni_dtype_is_floating(args->dtype))
        prefix_real(args);
    else
        prefix_integer(args);
    return STN_OK;
}
