#include "core/box/box_range.h"

stn_box stni_box_along(const stn_box *box, int dim, int64_t begin, int64_t length, size_t element_size)
{
    stn_box range = *box;
    if (range.data != NULL)
        range.data = (char *)range.data + begin * box->strides[dim] * (int64_t)element_size;
    range.shape[dim] = length;
    return range;
}

struct range {
    const stn_box *box;
    stni_box_visit visit;
    void *arg;
    size_t element_size;
    int64_t at;
};

/* Elements [from, to) of the box made of dims `dim` and after, whose first element is `offset` elements into memory. */
static void visit_range(struct range *r, int dim, int64_t offset, int64_t from, int64_t to)
{
    const stn_box *box = r->box;
    int64_t inner = 1;
    for (int d = dim + 1; d < box->ndim; d++)
        inner *= box->shape[d];
    int64_t row = from / inner, end = to / inner, stride = box->strides[dim];
    if (from % inner > 0) {
        int64_t stop = row == end ? to % inner : inner;
        visit_range(r, dim + 1, offset + row * stride, from % inner, stop);
        if (row++ == end)
            return;
    }
    if (row < end) {
        stn_box part = *box;
        part.ndim = box->ndim - dim;
        part.data = (char *)box->data + (offset + row * stride) * (int64_t)r->element_size;
        for (int d = 0; d < part.ndim; d++) {
            part.shape[d] = d == 0 ? end - row : box->shape[dim + d];
            part.strides[d] = box->strides[dim + d];
        }
        r->visit(r->arg, &part, r->at);
        r->at += (end - row) * inner;
    }
    if (to % inner > 0)
        visit_range(r, dim + 1, offset + end * stride, 0, to % inner);
}

void stni_box_range(const stn_box *box, size_t element_size, int64_t from, int64_t to, stni_box_visit visit, void *arg)
{
    struct range range = {box, visit, arg, element_size, 0};
    if (from >= to)
        return;
    if (box->ndim == 0)
        visit(arg, box, 0);
    else
        visit_range(&range, 0, 0, from, to);
}
