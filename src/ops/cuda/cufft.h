/* cuFFT, for Fourier transforms on a CUDA device. cufft.c alone knows its API; builds without its header have another
 * file, in which it refuses. */
#ifndef STNI_OPS_CUDA_CUFFT_H
#define STNI_OPS_CUDA_CUFFT_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

enum stni_cufft_kind {
    STNI_CUFFT_COMPLEX, /* n complex to n complex, either way */
    STNI_CUFFT_HALVE,   /* n real to n / 2 + 1 complex, forward */
    STNI_CUFFT_RESTORE  /* back, backward; what is read may be overwritten */
};

enum { STNI_CUFFT_MOST_DIMS = 3 };

/* Where lines lie: elements from one element of a line to the next, and from one line to the next. Of more dims a line
 * is all that is transformed together, `step` is of the last dim, and that of each dim before is `enclosing` of the
 * one behind it times its step. All above 0; enclosing[0] is the first dim's length. */
struct stni_cufft_side {
    int64_t step, line, enclosing[STNI_CUFFT_MOST_DIMS];
};

/* Transforms of lengths n, slowest dim first, one a line, not scaled; the last dim is the one that is halved or
 * restored. Of halves that are restored, what stands for its own conjugate is real, and with more dims, what stand for
 * each other's are conjugates. Addresses are those of complex numbers, of real elements too. Compared by its bytes:
 * set whole from {0}. */
struct stni_cufft_lines {
    int32_t kind; /* enum stni_cufft_kind */
    int32_t real; /* f32 or f64: the dtype of real numbers, and of the parts of complex ones */
    int64_t dims, n[STNI_CUFFT_MOST_DIMS], count;
    struct stni_cufft_side in, out;
};

/* Bytes of scratch, aligned to 256. STN_ERR_UNSUPPORTED where cuFFT is not there or refuses, for whatever reason; and
 * while the queue records, of lines that it had no plan for before. */
stn_status stni_cufft_workspace(stn_queue *queue, const struct stni_cufft_lines *lines, size_t *bytes);

/* Puts the transforms on the queue's stream; `backward` is for complex ones to say. `in` may be `out` where lines lie
 * alike on both sides. STN_ERR_UNSUPPORTED as above: nothing was put there then. */
stn_status stni_cufft_run(stn_queue *queue, const struct stni_cufft_lines *lines, int backward, void *in, void *out,
                          void *workspace);

STN_END_DECLS
#endif
