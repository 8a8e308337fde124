/* Chunks and buffers of x and y, dense, and channels-last but for those of a convolution whose `row_major` is set. */
#ifndef STNI_OPS_CONV_IMAGE_H
#define STNI_OPS_CONV_IMAGE_H

#include "core/tensor/tensor.h"
#include "ops/conv/conv_geometry.h"

/* A chunk, or a buffer: its first element, channels, positions along the windowed dims. */
struct stni_conv_image {
    void *data;
    int64_t channels;
    struct stni_range range[STNI_CONV_MAX_DIMS];
};

/* What those of a call have in common. */
struct stni_conv_images {
    const stn_op_call *call;
    const struct stni_conv *conv;
    stn_dtype dtype;
    int64_t n; /* images of the local batch */
};

/* Elements of a row (dim 0) and of an image, of one batch entry. */
int64_t stni_conv_row_elements(const struct stni_conv *conv, const struct stni_conv_image *image);
int64_t stni_conv_image_elements(const struct stni_conv *conv, const struct stni_conv_image *image);

/* The rows of a channels-last image, of its first batch entry; or all of any image. */
struct stni_conv_image stni_conv_image_rows(const struct stni_conv_images *images, const struct stni_conv_image *image,
                                            struct stni_range rows);

/* A buffer of the local batch. */
stn_status stni_conv_image_make(const struct stni_conv_images *images, int64_t channels, const struct stni_range *range,
                                struct stni_conv_image *out);

/* The part of an image at `range` as a box with the dims of x and y. */
stn_box stni_conv_image_box(const struct stni_conv_images *images, const struct stni_conv_image *image,
                            const struct stni_range *range);

/* Windowed dims of the chunk that the rank at a mesh's coordinates holds; NULL: this one. */
void stni_conv_ranges(const struct stni_conv *conv, const stn_spec *spec, const int *coordinate,
                      struct stni_range *ranges);

/* A tensor's chunk in dense memory of the images' order: `*held` is a reference to it. */
stn_status stni_conv_image_take(const struct stni_conv *conv, stn_tensor *t, stn_tensor **held,
                                struct stni_conv_image *out);

/* A tensor's chunk that may lie otherwise: then the image's memory is NULL. */
void stni_conv_image_find(const struct stni_conv_images *images, const stn_tensor *t, struct stni_conv_image *out);

/* A copy in a buffer of its own, of that chunk or of a part of an image. */
stn_status stni_conv_image_order(const struct stni_conv_images *images, const stn_tensor *t,
                                 struct stni_conv_image *image);
stn_status stni_conv_image_crop(const struct stni_conv_images *images, const struct stni_conv_image *from,
                                const struct stni_range *range, struct stni_conv_image *out);

#endif
