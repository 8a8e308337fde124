/* One dtype's matrix product; included once per dtype by gemm_kernels.c.
 *
 * M, N and K are the sizes; a tile is MR rows by NR columns of C and lives in registers; a block is MC x KC of A and KC
 * x NC of B, packed so that a tile reads both consecutively. A complex matrix is packed as two planes: of each k, MR
 * (NR) real parts, then as many imaginary ones. Source: the loops of Goto and van de Geijn, "Anatomy of
 * high-performance matrix multiplication", ACM TOMS 34 (2008).
 *
 * Included with T, the type of a plane; PLANES, 1 or 2; MR; NAME(x). */
#ifndef NAME /* read alone */
#include "ops/cpu/gemm_tile.h"
#define T float
#define PLANES 1
#define MR R
#define NAME(x) x##_f32
#endif

typedef T NAME(vector) __attribute__((vector_size(VECTOR_BYTES), may_alias));

enum { NAME(LANES) = (int)(VECTOR_BYTES / sizeof(T)), NAME(NR) = 2 * NAME(LANES) };

/* acc = the product of a packed panel of A and one of B. */
static inline void NAME(tile)(int64_t k, const T *a, const T *b, NAME(vector) acc[PLANES][MR][2])
{
    enum { IM = PLANES - 1 };
    const NAME(vector) *v = (const void *)b;
    NAME(vector) sum[PLANES][MR][2];
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < 2; j++) {
            sum[0][i][j] = (NAME(vector)){0};
            sum[IM][i][j] = (NAME(vector)){0};
        }
    for (int64_t at = 0; at < k; at++, a += PLANES * MR, v += PLANES * 2)
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < 2; j++) {
                sum[0][i][j] += a[i] * v[j];
                if (IM) {
                    sum[0][i][j] -= a[IM * MR + i] * v[2 * IM + j];
                    sum[IM][i][j] += a[i] * v[2 * IM + j];
                    sum[IM][i][j] += a[IM * MR + i] * v[j];
                }
            }
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < 2; j++) {
            acc[0][i][j] = sum[0][i][j];
            acc[IM][i][j] = sum[IM][i][j];
        }
}

/* Packs one whole panel of rows that lie contiguous. */
static inline void NAME(transpose)(int width, int64_t k, const T *x, int64_t row, T *out)
{
    enum { KIND = sizeof(T) == 8 ? 3 : 2, SIZE = (int)sizeof(T) };
    STNI_ISA_NAME(stni_copy_kernels).transpose[KIND]((char *)out, width * SIZE, (const char *)x, row * SIZE, width, k,
                                                     0, 0);
}

/* Packs rows x k of a strided matrix into panels of `width` rows, the last one filled up with zeros. Of A as it is,
 * of B transposed. */
static inline void NAME(pack)(int64_t rows, int64_t k, int width, const T *x, int64_t row, int64_t col, T *out)
{
    for (int64_t r = 0; r < rows; r += width) {
        int n = (int)(rows - r < width ? rows - r : width);
        if (PLANES == 1 && n == width && col == 1) {
            NAME(transpose)(width, k, x + r * row, row, out);
            out += width * k;
            continue;
        }
        for (int64_t at = 0; at < k; at++)
            for (int p = 0; p < PLANES; p++, out += width) {
                const T *from = x + PLANES * (r * row + at * col) + p;
                if (n == width && row == 1 && PLANES == 1) {
                    memcpy(out, from, sizeof *out * (size_t)width);
                } else if (n == width) {
                    for (int i = 0; i < width; i++)
                        out[i] = from[PLANES * i * row];
                } else {
                    for (int i = 0; i < width; i++)
                        out[i] = i < n ? from[PLANES * i * row] : 0;
                }
            }
    }
}

/* Writes the part of a tile that lies in C. */
static inline void NAME(store)(NAME(vector) acc[PLANES][MR][2], int m, int n, int add, T *c, int64_t row, int64_t col)
{
    T values[PLANES][MR][NAME(NR)];
    memcpy(values, acc, sizeof values);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int p = 0; p < PLANES; p++) {
                T *at = c + PLANES * (i * row + j * col) + p;
                *at = add ? *at + values[p][i][j] : values[p][i][j];
            }
}

/* The tiles of one packed block of A against one of B. */
static void NAME(block)(int64_t m, int64_t n, int64_t k, const T *a, const T *b, int add, T *c, int64_t row,
                        int64_t col)
{
    for (int64_t j = 0; j < n; j += NAME(NR))
        for (int64_t i = 0; i < m; i += MR) {
            NAME(vector) acc[PLANES][MR][2];
            NAME(tile)(k, a + PLANES * i * k, b + PLANES * j * k, acc);
            NAME(store)(acc, (int)(m - i < MR ? m - i : MR), (int)(n - j < NAME(NR) ? n - j : NAME(NR)), add,
                        c + PLANES * (i * row + j * col), row, col);
        }
}

static void NAME(gemm)(const struct stni_gemm *g, void *workspace)
{
    const T *a = g->a, *b = g->b;
    T *c = g->c, *packed_a = workspace;
    T *packed_b = (T *)((char *)workspace + packed_bytes(g->m, MC, ROWS, g->k, PLANES * sizeof(T)));
    for (int64_t jc = 0; jc < g->n; jc += NC)
        for (int64_t pc = 0; pc < g->k; pc += KC) {
            int64_t n = g->n - jc < NC ? g->n - jc : NC, k = g->k - pc < KC ? g->k - pc : KC;
            NAME(pack)(n, k, NAME(NR), b + PLANES * (pc * g->b_row + jc * g->b_col), g->b_col, g->b_row, packed_b);
            for (int64_t ic = 0; ic < g->m; ic += MC) {
                int64_t m = g->m - ic < MC ? g->m - ic : MC;
                NAME(pack)(m, k, MR, a + PLANES * (ic * g->a_row + pc * g->a_col), g->a_row, g->a_col, packed_a);
                NAME(block)(m, n, k, packed_a, packed_b, g->accumulate || pc > 0,
                            c + PLANES * (ic * g->c_row + jc * g->c_col), g->c_row, g->c_col);
            }
        }
}

#undef T
#undef PLANES
#undef MR
#undef NAME
