/* Copies of runs, of strided elements and transposes. Compiled once per instruction set. */
#include "core/box/box_kernel.h"
#include "core/box/copy_stream.h"

/* One short run: two pieces that overlap serve every size up to twice their own. */
static inline void copy_short(char *dst, const char *src, int64_t bytes)
{
    if (bytes > 64) {
        int64_t at = 0;
        for (; at + 32 <= bytes; at += 32)
            memcpy(dst + at, src + at, 32);
        memcpy(dst + bytes - 32, src + bytes - 32, 32);
    } else if (bytes > 32) {
        memcpy(dst, src, 32);
        memcpy(dst + bytes - 32, src + bytes - 32, 32);
    } else if (bytes > 16) {
        memcpy(dst, src, 16);
        memcpy(dst + bytes - 16, src + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(dst, src, 8);
        memcpy(dst + bytes - 8, src + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(dst, src, 4);
        memcpy(dst + bytes - 4, src + bytes - 4, 4);
    } else {
        for (int64_t i = 0; i < bytes; i++)
            dst[i] = src[i];
    }
}

static void copy_runs(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n, int64_t bytes)
{
    if (bytes > 256)
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * dst_stride, src + i * src_stride, (size_t)bytes);
    else
        for (int64_t i = 0; i < n; i++)
            copy_short(dst + i * dst_stride, src + i * src_stride, bytes);
}

static void copy_runs_streamed(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n,
                               int64_t bytes)
{
    if (((uintptr_t)dst | (uint64_t)dst_stride | (uint64_t)bytes) % STNI_LINE == 0)
        for (int64_t i = 0; i < n; i++)
            for (int64_t at = 0; at < bytes; at += STNI_LINE)
                stni_stream_line(dst + i * dst_stride + at, src + i * src_stride + at);
    else
        for (int64_t i = 0; i < n; i++)
            copy_stream(dst + i * dst_stride, src + i * src_stride, bytes);
}

static void fence(void)
{
    stni_stream_fence();
}

struct __attribute__((may_alias)) pair64 {
    uint64_t low, high;
};

#define T uint8_t
#define LANES 16
#define ROWS 128
#define NAME(x) x##_1
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#include "core/box/box_copy_tmpl.h"

#define T uint16_t
#define LANES 8
#define ROWS 128
#define NAME(x) x##_2
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#include "core/box/box_copy_tmpl.h"

#define T uint32_t
#define LANES 4
#define ROWS 128
#define NAME(x) x##_4
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#include "core/box/box_copy_tmpl.h"

#define T uint64_t
#define LANES 2
#define ROWS 64
#define NAME(x) x##_8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 2)
#define HIGH(a, b) __builtin_shufflevector(a, b, 1, 3)
#include "core/box/box_copy_tmpl.h"

#define T struct pair64
#define LANES 1
#define ROWS 32
#define NAME(x) x##_16
#include "core/box/box_copy_tmpl.h"

extern const struct stni_copy_kernels STNI_ISA_NAME(stni_copy_kernels);
const struct stni_copy_kernels STNI_ISA_NAME(stni_copy_kernels) = {
    .stream = copy_stream,
    .runs = copy_runs,
    .runs_streamed = copy_runs_streamed,
    .elements = {elements_1, elements_2, elements_4, elements_8, elements_16},
    .transpose = {transpose_1, transpose_2, transpose_4, transpose_8, transpose_16},
    .fence = fence,
};
