/* The CPU's kernels of scans. Lines that lie side by side in memory are scanned up to LANES at once, row by row,
 * others one by one: memory is read in order either way. Sums of floats are kept in f64 (complex ones in c128), as
 * reductions keep them. Elements of 16-bit floats and of a byte are converted, some at a time, but for sums of
 * bytes. */
#include "ops/scan/scan_block.h"
#include "ops/scan/scan_bytes.h"

#include "ops/scan/scan_real.h"
#include "ops/scan/scan_prefix_tmpl.h"
#define ORDERED 1
#define INEXACT 1
#define T float
#define RESULT float
#define NAME(f) f##_f32
#define CONVERTS 1
#include "ops/scan/scan_lines_tmpl.h"
#undef T
#undef RESULT
#undef NAME
#undef CONVERTS
#define T double
#define RESULT double
#define NAME(f) f##_f64
#define CONVERTS 0
#include "ops/scan/scan_lines_tmpl.h"
#undef T
#undef RESULT
#undef NAME
#undef CONVERTS
#undef INEXACT
#include "ops/scan/scan_end.h"

#include "ops/scan/scan_integer.h"
#include "ops/scan/scan_prefix_tmpl.h"
#define INEXACT 0
#define RESULT int64_t
#define T int64_t
#define NAME(f) f##_i64
#define CONVERTS 1
#include "ops/scan/scan_lines_tmpl.h"
#undef T
#undef NAME
#undef CONVERTS
#define T int32_t
#define NAME(f) f##_i32
#define CONVERTS 0
#include "ops/scan/scan_lines_tmpl.h"
#undef T
#undef RESULT
#undef NAME
#undef ORDERED
#undef INEXACT
#include "ops/scan/scan_end.h"

#define ACC double _Complex
#define RE(x) creal(x)
#define IM(x) cimag(x)
#define IMAGINARY(x) __builtin_complex(0.0, x)
#include "ops/scan/scan_complex.h"
#include "ops/scan/scan_prefix_tmpl.h"
#define ORDERED 0
#define INEXACT 1
#define T float _Complex
#define RESULT float _Complex
#define NAME(f) f##_c64
#include "ops/scan/scan_lines_tmpl.h"
#undef T
#undef RESULT
#undef NAME
#define T double _Complex
#define RESULT double _Complex
#define NAME(f) f##_c128
#include "ops/scan/scan_lines_tmpl.h"

typedef void (*block_fn)(const struct stni_scan_args *args, const struct block *block);

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* That whose loops scan elements of a dtype. */
static stn_dtype arithmetic_dtype(stn_dtype dtype)
{
    return dtype == STN_DTYPE_BOOL ? STN_DTYPE_I64 : dtype == STN_DTYPE_I32 ? dtype : stni_compute_dtype(dtype);
}

/* Sums and products of integers are i64. */
static stn_dtype result_dtype(const struct stni_scan_args *args)
{
    const int sums = args->op == STNI_SCAN_SUM || args->op == STNI_SCAN_PROD;
    return sums && !stn_dtype_is_differentiable(args->dtype) ? STN_DTYPE_I64 : args->dtype;
}

static struct side side_of(stn_dtype stored, stni_convert_fn convert, int converts)
{
    struct side side = {.size = (int64_t)stn_dtype_size(stored), .convert = converts ? convert : NULL};
    while (side.size >> side.log > 1)
        side.log++;
    return side;
}

static struct block block_of(const stn_queue *queue, const struct stni_scan_args *args)
{
    const struct stni_convert_kernels *convert = STNI_ISA_PICK(stni_convert_kernels, queue->isa);
    const stn_dtype own = arithmetic_dtype(args->dtype), out = result_dtype(args);
    struct block b = {.copy = STNI_ISA_PICK(stni_copy_kernels, queue->isa)};
    b.in = side_of(args->dtype, convert->pair[own][args->dtype], own != args->dtype);
    b.out = side_of(out, convert->pair[out][own], own != args->dtype && own != out);
    return b;
}

static void run_lines(const stn_queue *queue, const struct stni_scan_args *args, block_fn run)
{
    const struct stni_lines *lines = &args->lines;
    const int inner = lines->ndim - 1;
    int64_t index[STN_MAX_NDIM] = {0};
    struct block b = block_of(queue, args);
    for (int t = 0; t < SCAN_TENSORS; t++)
        b.lane[t] = lines->strides[t][inner];
    b.along = magnitude(lines->step[SCAN_X]) < magnitude(b.lane[SCAN_X]) || lines->step[SCAN_X] == 1 ||
              lines->shape[inner] < FEW;
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
        [STN_DTYPE_F32] = scan_f32, [STN_DTYPE_F64] = scan_f64, [STN_DTYPE_I64] = scan_i64,
        [STN_DTYPE_I32] = scan_i32, [STN_DTYPE_C64] = scan_c64, [STN_DTYPE_C128] = scan_c128};
    const struct stni_scan_args *args = raw;
    const int is_byte = args->dtype == STN_DTYPE_U8 || args->dtype == STN_DTYPE_BOOL;
    run_lines(queue, args, is_byte && args->op == STNI_SCAN_SUM ? scan_bytes : of[arithmetic_dtype(args->dtype)]);
    return STN_OK;
}

stn_status stni_scan_total_cpu(stn_queue *queue, const void *raw)
{
    static const block_fn of[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = total_f32, [STN_DTYPE_F64] = total_f64, [STN_DTYPE_I64] = total_i64,
        [STN_DTYPE_I32] = total_i32, [STN_DTYPE_C64] = total_c64, [STN_DTYPE_C128] = total_c128};
    const struct stni_scan_args *args = raw;
    run_lines(queue, args, of[arithmetic_dtype(args->dtype)]);
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
