/* The random words of rows, on the CPU. A part of dropout_cpu.c. */
#ifndef STNI_OPS_RANDOM_DROPOUT_WORDS_H
#define STNI_OPS_RANDOM_DROPOUT_WORDS_H

#include "core/base/dtype.h"
#include "core/base/isa.h"
#include "core/box/rng.h"
#include "ops/random/dropout_kernel.h"

#include <string.h>

enum { CHUNK = 256, LANES = 16 };

/* The factors that were drawn last: those of words index, index + step, … */
struct drawn {
    uint64_t index, step;
    int64_t n; /* 0: none */
    double factor[CHUNK]; /* space for any type */
};

/* LANES blocks side by side: each is four words. */
struct blocks {
    uint32_t v[4][LANES];
};

/* The cipher of core/box/rng.h on the blocks of these numbers: the same words. Written out, so that rounds become
 * vectors. */
static void cipher(const struct stni_dropout_args *a, const uint64_t *restrict number, struct blocks *restrict out)
{
    const uint64_t stream = (uint64_t)a->stream[0], seed = (uint64_t)a->stream[1];
    const uint32_t s0 = (uint32_t)stream, s1 = (uint32_t)(stream >> 32);
    uint32_t *restrict v0 = out->v[0], *restrict v1 = out->v[1], *restrict v2 = out->v[2], *restrict v3 = out->v[3];
    for (int i = 0; i < LANES; i++) {
        v0[i] = (uint32_t)number[i];
        v1[i] = (uint32_t)(number[i] >> 32);
        v2[i] = s0;
        v3[i] = s1;
    }
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            const uint32_t low0 = 0xD2511F53u * v0[i], high0 = (uint32_t)((uint64_t)0xD2511F53u * v0[i] >> 32);
            const uint32_t low1 = 0xCD9E8D57u * v2[i], high1 = (uint32_t)((uint64_t)0xCD9E8D57u * v2[i] >> 32);
            v0[i] = high1 ^ v1[i] ^ k0;
            v1[i] = low1;
            v2[i] = high0 ^ v3[i] ^ k1;
            v3[i] = low0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Words index, index + 1, …: four of each block. */
static void draw_consecutive(const struct stni_dropout_args *a, uint64_t index, int64_t n, uint32_t *words)
{
    uint64_t number[LANES];
    struct blocks blocks;
    uint32_t flat[CHUNK + 4 * LANES];
    int64_t skipped = (int64_t)(index % 4);
    for (int64_t first = 0; 4 * first < n + skipped; first += LANES) {
        for (int i = 0; i < LANES; i++)
            number[i] = index / 4 + (uint64_t)first + (uint64_t)i;
        cipher(a, number, &blocks);
        for (int i = 0; i < LANES; i++)
            for (int w = 0; w < 4; w++)
                flat[4 * (first + i) + w] = blocks.v[w][i];
    }
    memcpy(words, flat + skipped, (size_t)n * sizeof *words);
}

/* Words index, index + step, …: one of each block. */
static void draw_apart(const struct stni_dropout_args *a, uint64_t index, uint64_t step, int64_t n, uint32_t *words)
{
    uint64_t number[LANES];
    struct blocks blocks;
    for (int64_t first = 0; first < n; first += LANES) {
        const uint64_t begin = index + (uint64_t)first * step;
        for (int i = 0; i < LANES; i++)
            number[i] = (begin + (uint64_t)i * step) / 4;
        cipher(a, number, &blocks);
        for (int i = 0; i < LANES; i++)
            words[first + i] = blocks.v[(begin + (uint64_t)i * step) % 4][i];
    }
}

/* At most CHUNK words of a row. LANES divides CHUNK: there is space for whole groups. */
static void draw(const struct stni_dropout_args *a, uint64_t index, uint64_t step, int64_t n, uint32_t *words)
{
    if (n == 1)
        words[0] = stni_rng_block((uint64_t)a->stream[1], (uint64_t)a->stream[0], index / 4).v[index % 4];
    else if (step == 1)
        draw_consecutive(a, index, n, words);
    else
        draw_apart(a, index, step, n, words);
}

#endif
