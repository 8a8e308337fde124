/* A small U-Net for fields of a region: its two halves of resolutions, each block told how noisy the input is. */
#ifndef SHARDTENSOR_EXAMPLES_DIFFUSION_UNET_H
#define SHARDTENSOR_EXAMPLES_DIFFUSION_UNET_H

#include <shardtensor/shardtensor.h>

struct unet {
    stn_context *ctx;
    const stn_mesh *mesh; /* of three axes */
    stn_params *params;   /* made where they are first asked for */
};

/** (samples, c, rows, columns) and the logarithm of the noise's size (samples, 1) -> (samples, out, rows, columns). */
stn_tensor *unet(const struct unet *net, stn_tensor *input, stn_tensor *noise, int64_t out);

#endif
