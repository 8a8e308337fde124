#include "ops/conv/image.h"

#include "core/box/box.h"

#include <string.h>

int64_t stni_conv_row_elements(const struct stni_conv *conv, const struct stni_conv_image *image)
{
    int64_t n = image->channels;
    for (int d = 1; d < conv->dims; d++)
        n *= stni_range_length(image->range[d]);
    return n;
}

int64_t stni_conv_image_elements(const struct stni_conv *conv, const struct stni_conv_image *image)
{
    return stni_conv_row_elements(conv, image) * stni_range_length(image->range[0]);
}

struct stni_conv_image stni_conv_image_rows(const struct stni_conv_images *images, const struct stni_conv_image *image,
                                            struct stni_range rows)
{
    struct stni_conv_image part = *image;
    int64_t skipped = (rows.begin - image->range[0].begin) * stni_conv_row_elements(images->conv, image);
    part.data = (char *)image->data + skipped * (int64_t)stn_dtype_size(images->dtype);
    part.range[0] = rows;
    return part;
}

stn_status stni_conv_image_make(const struct stni_conv_images *images, int64_t channels, const struct stni_range *range,
                                struct stni_conv_image *out)
{
    struct stni_conv_image image = {.channels = channels};
    memcpy(image.range, range, sizeof image.range);
    size_t bytes = (size_t)(images->n * stni_conv_image_elements(images->conv, &image)) * stn_dtype_size(images->dtype);
    STNI_TRY(stn_op_scratch(images->call, bytes, &image.data));
    *out = image;
    return STN_OK;
}

stn_box stni_conv_image_box(const struct stni_conv_images *images, const struct stni_conv_image *image,
                            const struct stni_range *range)
{
    const struct stni_conv *conv = images->conv;
    stn_box box = {.ndim = conv->batched + 1 + conv->dims};
    int64_t step = conv->row_major ? 1 : image->channels, first = 0;
    box.shape[conv->batched] = image->channels;
    box.strides[conv->batched] = 1;
    for (int d = conv->dims; d-- > 0;) {
        int dim = stni_conv_dim(conv, d);
        box.shape[dim] = stni_range_length(range[d]);
        box.strides[dim] = step;
        first += (range[d].begin - image->range[d].begin) * step;
        step *= stni_range_length(image->range[d]);
    }
    if (conv->row_major) {
        box.strides[conv->batched] = step;
        step *= image->channels;
    }
    if (conv->batched) {
        box.shape[0] = images->n;
        box.strides[0] = step;
    }
    box.data = (char *)image->data + first * (int64_t)stn_dtype_size(images->dtype);
    return box;
}

void stni_conv_ranges(const struct stni_conv *conv, const stn_spec *spec, const int *coordinate,
                      struct stni_range *ranges)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    const int64_t *s = spec->local_shape, *o = spec->local_offset;
    if (coordinate != NULL && spec->layout.mesh != NULL) {
        stni_spec_chunk_at(spec, coordinate, shape, offset);
        s = shape, o = offset;
    }
    for (int d = 0; d < conv->dims; d++) {
        int dim = stni_conv_dim(conv, d);
        ranges[d] = (struct stni_range){o[dim], o[dim] + s[dim]};
    }
}

static struct stni_conv_image image_of(const struct stni_conv *conv, const stn_tensor *t)
{
    struct stni_conv_image image = {t->data, t->spec->local_shape[stni_conv_channel_dim(conv)], {{0, 0}}};
    stni_conv_ranges(conv, t->spec, NULL, image.range);
    return image;
}

stn_status stni_conv_image_take(const struct stni_conv *conv, stn_tensor *t, stn_tensor **held,
                                struct stni_conv_image *out)
{
    STNI_TRY(stni_tensor_dense(t, held));
    *out = image_of(conv, *held);
    return STN_OK;
}

void stni_conv_image_find(const struct stni_conv_images *images, const stn_tensor *t, struct stni_conv_image *out)
{
    *out = image_of(images->conv, t);
    const stn_box dense = stni_conv_image_box(images, out, out->range);
    for (int d = 0; d < dense.ndim; d++)
        if (dense.shape[d] > 1 && dense.strides[d] != t->strides[d])
            out->data = NULL;
}

static stn_status copy(const struct stni_conv_images *images, const struct stni_conv_image *to, const stn_box *from)
{
    const stn_box box = stni_conv_image_box(images, to, to->range);
    return stni_box_copy(images->call->context->queue, &box, from, stn_dtype_size(images->dtype));
}

stn_status stni_conv_image_order(const struct stni_conv_images *images, const stn_tensor *t,
                                 struct stni_conv_image *image)
{
    stn_box from;
    stni_tensor_box(t, &from);
    STNI_TRY(stni_conv_image_make(images, image->channels, image->range, image));
    return copy(images, image, &from);
}

stn_status stni_conv_image_crop(const struct stni_conv_images *images, const struct stni_conv_image *from,
                                const struct stni_range *range, struct stni_conv_image *out)
{
    const stn_box part = stni_conv_image_box(images, from, range);
    STNI_TRY(stni_conv_image_make(images, from->channels, range, out));
    return copy(images, out, &part);
}
