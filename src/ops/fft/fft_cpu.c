/* The CPU's kernel of Fourier transforms: where a dim is strided, a few lines side by side are packed, so that every cache line is read once;
 * then they are transformed one by one, and stored. */
#include "ops/fft/fft_kernel.h"

#include <complex.h>
#include <string.h>

/* Real to real, real to complex, complex, and half lines of complex ones with factors. */
enum way { REAL, PAIRED, PLAIN, HALF };

#define R float
#define C float _Complex
#define NAME(f) f##_f32
#include "ops/fft/fft_lines_tmpl.h"

#define R double
#define C double _Complex
#define NAME(f) f##_f64
#include "ops/fft/fft_lines_tmpl.h"

static void run_lanes(const struct stni_fft_args *a, int64_t in, int64_t out, int64_t width)
{
    const int is_f64 = a->transform->dtype == STN_DTYPE_F64, inner = a->ndim - 1;
    (is_f64 ? pack_f64 : pack_f32)(a, in, a->strides_in[inner], width);
    for (int64_t l = 0; l < width; l++)
        a->transform->run(a->transform, a->from + (size_t)l * a->pitch, a->to + (size_t)l * a->pitch, a->work);
    (is_f64 ? store_f64 : store_f32)(a, out, a->strides_out[inner], width);
}

stn_status stni_fft_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_fft_args *a = raw;
    const int inner = a->ndim - 1;
    int64_t index[STN_MAX_NDIM] = {0}, in = 0, out = 0;
    (void)queue;
    for (;;) {
        for (int64_t l = 0; l < a->shape[inner]; l += a->lanes) {
            const int64_t width = a->shape[inner] - l < a->lanes ? a->shape[inner] - l : a->lanes;
            run_lanes(a, in + l * a->strides_in[inner], out + l * a->strides_out[inner], width);
        }
        int d = inner - 1;
        for (; d >= 0; d--) {
            const int64_t moved = ++index[d] < a->shape[d] ? 1 : 1 - a->shape[d];
            in += moved * a->strides_in[d];
            out += moved * a->strides_out[d];
            if (moved == 1)
                break;
            index[d] = 0;
        }
        if (d < 0)
            return STN_OK;
    }
}
