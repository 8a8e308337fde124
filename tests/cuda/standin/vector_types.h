/* Places and sizes in a grid, as the CUDA toolkit's header of this name has them. */
#ifndef STANDIN_VECTOR_TYPES_H
#define STANDIN_VECTOR_TYPES_H

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#endif
