/* Size classes: up to 512 bytes the multiples of 64; above, each power of two is divided into eight. */
#ifndef STNI_CORE_DEVICE_SIZE_CLASS_H
#define STNI_CORE_DEVICE_SIZE_CLASS_H

#include <stddef.h>

enum {
    STNI_SIZE_STEP = 64,         /* bytes between the small classes, and the alignment */
    STNI_SIZE_SMALL_CLASSES = 8, /* up to 512 bytes */
    STNI_SIZE_CLASSES = 8 * 56   /* 8 small ones, then 8 for each of the powers of two from 2^9 to 2^63 */
};

/* The class whose largest size is the least that holds so many bytes; of no bytes the last one. */
static inline int stni_size_class(size_t bytes)
{
    size_t last = bytes - 1;
    if (last < STNI_SIZE_STEP * STNI_SIZE_SMALL_CLASSES)
        return (int)(last / STNI_SIZE_STEP);
    int k = 63 - __builtin_clzll(last); /* 2^k <= last < 2^(k+1), k >= 9 */
    return 8 * (k - 8) + (int)(last >> (k - 3) & 7);
}

/* The largest size of a class. 0 where it is no size_t. */
static inline size_t stni_size_of_class(int c)
{
    if (c < STNI_SIZE_SMALL_CLASSES)
        return (size_t)(c + 1) * STNI_SIZE_STEP;
    int k = c / 8 + 8;
    return (size_t)(9 + c % 8) << (k - 3);
}

#endif
