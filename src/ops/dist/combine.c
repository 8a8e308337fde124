#include "ops/dist/combine.h"

#include "core/base/host_alloc.h"
#include "core/box/box_range.h"
#include "core/redistribute/identity.h"

#include <stdlib.h>
#include <string.h>

enum { ADDENDS = 8 }; /* combined at a time: their boxes fit a kernel's arguments */

static int by_begin(const void *a, const void *b)
{
    const struct stni_message_range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->length < y->length ? -1 : x->length > y->length;
}

static struct stni_cover cover_of(const struct stni_message_range *sorted, int64_t n, int64_t length)
{
    struct stni_cover cover = {0};
    int64_t end = 0, last = -1; /* of what has been covered; the part that covered it last */
    for (int64_t i = 0; i < n; i++) {
        const struct stni_message_range *p = &sorted[i];
        int is_same = last >= 0 && p->begin == sorted[last].begin && p->length == sorted[last].length;
        cover.has_overlap |= !is_same && p->begin < end;
        cover.has_gaps |= p->begin > end;
        end = p->begin + p->length > end ? p->begin + p->length : end;
        last = i;
    }
    cover.has_gaps |= end < length;
    return cover;
}

stn_status stni_ranges_cover(stn_context *context, const struct stni_message_range *parts, int64_t n, int64_t length,
                             struct stni_cover *out)
{
    struct stni_message_range *sorted = stni_malloc((size_t)(n + 1) * sizeof *sorted);
    if (sorted == NULL)
        return stni_fail_memory(context, "a list of messages", (size_t)n * sizeof *sorted);
    if (n > 0)
        memcpy(sorted, parts, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_begin);
    *out = cover_of(sorted, n, length);
    stni_free(sorted);
    return STN_OK;
}

/* One range of the result, in which all sources begin and end together. */
struct segment {
    stn_context *context;
    stn_box out;
    int dim;
    stn_dtype dtype;
    stn_reduce_op op;
    int n; /* sources that wait in `addends` */
    stn_box addends[ADDENDS];
    int begun; /* `out` holds some of them already */
};

/* Puts the waiting sources, and what `out` holds, into `out`. */
static stn_status flush(struct segment *s)
{
    stn_queue *queue = s->context->queue;
    stn_status status = s->n == 1 ? stni_box_copy(queue, &s->out, &s->addends[0], stn_dtype_size(s->dtype))
                                  : stni_box_reduce(queue, 1, &s->out, s->n, s->addends, s->dtype, s->op);
    s->addends[0] = s->out;
    s->n = s->begun = 1;
    return status;
}

static stn_status add(struct segment *s, const stn_box *source)
{
    if (s->n == ADDENDS)
        STNI_TRY(flush(s));
    s->addends[s->n++] = *source;
    return STN_OK;
}

/* Zeros by a dense stretch of the result at a time: dims before `dim` are walked. */
static stn_status fill_zeros(struct segment *s, stn_box box, int d)
{
    int64_t n = 1;
    for (int k = s->dim; k < box.ndim; k++)
        n *= box.shape[k];
    if (d == s->dim)
        return n > 0 ? stni_fill_zeros(s->context->queue, box.data, n, s->dtype) : STN_OK;
    int64_t rows = box.shape[d];
    char *data = box.data;
    box.shape[d] = 1;
    for (int64_t i = 0; i < rows; i++) {
        box.data = data ? data + i * box.strides[d] * (int64_t)stn_dtype_size(s->dtype) : NULL;
        STNI_TRY(fill_zeros(s, box, d + 1));
    }
    return STN_OK;
}

static stn_status finish(struct segment *s)
{
    if (s->n == 0)
        return fill_zeros(s, s->out, 0);
    return s->begun && s->n == 1 ? STN_OK : flush(s);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The ends of all parts and of the result, each once; returns how many. */
static int64_t find_ends(const struct stni_message_range *parts, int64_t n, int64_t length, int64_t *ends)
{
    int64_t kept = 0;
    ends[0] = 0;
    ends[1] = length;
    for (int64_t i = 0; i < n; i++) {
        ends[2 * i + 2] = parts[i].begin;
        ends[2 * i + 3] = parts[i].begin + parts[i].length;
    }
    qsort(ends, (size_t)(2 * n + 2), sizeof *ends, by_value);
    for (int64_t i = 0; i < 2 * n + 2; i++)
        if (kept == 0 || ends[kept - 1] != ends[i])
            ends[kept++] = ends[i];
    return kept;
}

stn_status stni_ranges_combine(stn_context *context, const stn_box *out, int dim,
                               const struct stni_message_range *parts, int64_t n, const stn_box *sources,
                               stn_dtype dtype, stn_reduce_op op)
{
    const size_t size = stn_dtype_size(dtype);
    int64_t *ends = stni_malloc((size_t)(2 * n + 2) * sizeof *ends);
    stn_status status = STN_OK;
    if (ends == NULL)
        return stni_fail_memory(context, "a list of ranges", (size_t)(2 * n + 2) * sizeof *ends);
    int64_t n_ends = find_ends(parts, n, out->shape[dim], ends);
    for (int64_t e = 0; e + 1 < n_ends && status == STN_OK; e++) {
        const int64_t begin = ends[e], length = ends[e + 1] - begin;
        struct segment s = {.context = context,
                            .out = stni_box_along(out, dim, begin, length, size),
                            .dim = dim,
                            .dtype = dtype,
                            .op = op};
        for (int64_t i = 0; i < n && status == STN_OK; i++)
            if (parts[i].begin <= begin && begin < parts[i].begin + parts[i].length) {
                stn_box source = stni_box_along(&sources[i], dim, begin - parts[i].begin, length, size);
                status = add(&s, &source);
            }
        if (status == STN_OK)
            status = finish(&s);
    }
    stni_free(ends);
    return status;
}
