/* Copies and reductions of boxes against loops over single elements, on random shapes, orders of dims and gaps. */
#include "harness.h"

#include "core/box/box.h"
#include "core/device/device.h"
#include "core/base/dtype.h"
#include "every_isa.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state;

static int64_t draw(int64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)below);
}

/* Memory with a box inside. */
struct area {
    unsigned char *memory;
    size_t bytes;
    stn_box box;
};

static int64_t elements_of(const stn_box *box)
{
    int64_t n = 1;
    for (int d = 0; d < box->ndim; d++)
        n *= box->shape[d];
    return n;
}

/* A box of a shape whose dims lie in random order in memory, some with a gap after them, at a random offset. */
static struct area area_create(int ndim, const int64_t *shape, int64_t size, int gaps)
{
    struct area area = {.box = {.ndim = ndim}};
    int order[STN_MAX_BOX_NDIM] = {0};
    for (int d = 0; d < ndim; d++) {
        int at = (int)draw(d + 1);
        order[d] = order[at];
        order[at] = d;
    }
    int64_t stride = gaps && draw(4) == 0 ? 3 : 1;
    for (int i = ndim - 1; i >= 0; i--) {
        area.box.shape[order[i]] = shape[order[i]];
        area.box.strides[order[i]] = stride;
        stride *= shape[order[i]] > 0 ? shape[order[i]] : 1;
        stride += gaps && draw(2) ? draw(20) : 0;
    }
    int64_t offset = gaps ? draw(70) : 0;
    area.bytes = (size_t)((stride + offset) * size);
    area.memory = aligned_alloc(64, (area.bytes + 63) / 64 * 64 + 64);
    area.box.data = area.memory + offset * size;
    return area;
}

static unsigned char *element(const stn_box *box, const int64_t *index, int64_t size)
{
    int64_t offset = 0;
    for (int d = 0; d < box->ndim; d++)
        offset += index[d] * box->strides[d];
    return (unsigned char *)box->data + offset * size;
}

/* The next index in row-major order; 0 past the last. */
static int next(const stn_box *box, int64_t *index)
{
    for (int d = box->ndim - 1; d >= 0; d--) {
        if (++index[d] < box->shape[d])
            return 1;
        index[d] = 0;
    }
    return 0;
}

static void fill(struct area *area)
{
    for (size_t i = 0; i < area->bytes; i += sizeof random_state) { /* the area is a multiple of 64 bytes */
        draw(1);
        memcpy(area->memory + i, &random_state, sizeof random_state);
    }
}

/* Copies a random box and counts bytes that differ from what element-wise copying of the same leaves, gaps included. */
static int64_t wrong_after_copy(int ndim, const int64_t *shape, int64_t size, int gaps)
{
    struct area src = area_create(ndim, shape, size, gaps), dst = area_create(ndim, shape, size, gaps);
    fill(&src);
    fill(&dst);
    unsigned char *want = malloc(dst.bytes + 1);
    memcpy(want, dst.memory, dst.bytes);
    int64_t index[STN_MAX_BOX_NDIM] = {0};
    if (elements_of(&dst.box) > 0)
        do
            memcpy(want + (element(&dst.box, index, size) - dst.memory), element(&src.box, index, size), (size_t)size);
        while (next(&dst.box, index));
    stni_box_copy_now(next_isa(), &dst.box, &src.box, (size_t)size);
    int64_t wrong = 0;
    for (size_t i = 0; i < dst.bytes; i++)
        wrong += dst.memory[i] != want[i];
    free(want);
    free(src.memory);
    free(dst.memory);
    return wrong;
}

static void copy_of_any_box_moves_its_elements_and_nothing_else(void)
{
    static const int64_t sizes[] = {1, 2, 4, 8, 16};
    random_state = 1;
    for (int round = 0; round < test_draws(2000); round++) {
        int ndim = (int)draw(6);
        int64_t shape[STN_MAX_BOX_NDIM], size = sizes[round % 5], room = 6000;
        for (int d = 0; d < ndim; d++) {
            shape[d] = draw(8) == 0 ? draw(3) : 1 + draw(draw(3) == 0 && room > 100 ? 97 : 9);
            room /= shape[d] > 0 ? shape[d] : 1;
            if (room < 1)
                shape[d] = 1;
        }
        CHECK_I64(wrong_after_copy(ndim, shape, size, round % 3 != 0), 0);
    }
}

/* Copies of one thread show the thread sanitizer nothing, and take it minutes. */
#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 1, FEWER = 8 };
#else
enum { ROUNDS = 4, FEWER = 1 };
#endif

/* Beyond the size from which copies stream: transposes, runs of every length, odd edges. */
static void copy_of_large_boxes_moves_their_elements_and_nothing_else(void)
{
    static const struct {
        int ndim;
        int64_t shape[4], size;
    } cases[] = {
        {1, {3000001}, 1},       {2, {1031, 517}, 4},      {2, {1024, 512}, 4},     {2, {640, 384}, 8},
        {2, {301, 299}, 16},     {2, {800, 700}, 2},       {2, {2048, 1031}, 1},    {3, {71, 67, 33}, 8},
        {3, {33, 130, 66}, 4},   {4, {9, 33, 65, 16}, 4},  {3, {2053, 3, 67}, 4},   {4, {3, 129, 130, 7}, 4},
        {3, {35, 40, 300}, 4},   {4, {2, 32, 64, 48}, 8},  {2, {37, 512}, 8},       {2, {21, 1024}, 4},
    };
    random_state = 2;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int round = 0; round < test_draws(ROUNDS); round++)
            CHECK_I64(wrong_after_copy(cases[c].ndim, cases[c].shape, cases[c].size, round % 2), 0);
}

static void copy_from_a_broadcast_dim_repeats_its_element(void)
{
    int32_t src[3] = {5, 6, 7}, dst[12] = {0};
    stn_box from = {.data = src, .ndim = 2, .shape = {4, 3}, .strides = {0, 1}};
    stn_box to = {.data = dst, .ndim = 2, .shape = {4, 3}, .strides = {1, 4}};
    stni_box_copy_now(next_isa(), &to, &from, sizeof *src);
    for (int i = 0; i < 12; i++)
        CHECK_I64(dst[i], src[i / 4]);
}

/* Beyond the size from which copies stream: rows of one element each, or one element for all, at every offset from a
 * line, with gaps behind rows. */
static void large_rows_of_one_element_are_whole_and_nothing_else_is_written(void)
{
    enum { ROWS = 37, BYTES = 40000, GAP = 96, LINE = 64 }; /* in all a multiple of a line */
    unsigned char *memory = aligned_alloc(LINE, (ROWS + 1) * (BYTES + GAP)), *want = malloc((ROWS + 1) * (BYTES + GAP)),
                  elements[ROWS * 16];
    for (size_t i = 0; i < sizeof elements; i++)
        elements[i] = (unsigned char)(i * 7 + 1);
    for (int64_t size = 1; size <= 16; size *= 2)
        for (int64_t offset = 0; offset < LINE; offset += FEWER * (size < 8 ? size : size / 2)) /* numbers of two parts lie at multiples of a part */
            for (int same = 0; same < 2; same++) {
                const int64_t n = BYTES / size - 4 - offset % 3, row = (BYTES + GAP) / size;
                const stn_box from = {.data = elements, .ndim = 2, .shape = {ROWS, n}, .strides = {!same, 0}};
                const stn_box to = {.data = memory + offset, .ndim = 2, .shape = {ROWS, n}, .strides = {row, 1}};
                memset(memory, 42, (ROWS + 1) * (BYTES + GAP));
                memset(want, 42, (ROWS + 1) * (BYTES + GAP));
                for (int64_t r = 0; r < ROWS; r++)
                    for (int64_t i = 0; i < n; i++)
                        memcpy(want + offset + (r * row + i) * size, elements + (same ? 0 : r * size), (size_t)size);
                stni_box_copy_now(next_isa(), &to, &from, (size_t)size);
                CHECK_BYTES(memory, want, (ROWS + 1) * (BYTES + GAP));
            }
    free(memory);
    free(want);
}

static stn_device *device; /* of `queue` */
static stn_queue *queue;   /* NULL: the calling thread reduces */

static void queue_begin(void)
{
    stn_queue_options options = {.size = sizeof options,
                                 .kind = test_queue() == TEST_QUEUE_WORKER ? STN_QUEUE_WORKER : STN_QUEUE_IMMEDIATE,
                                 .delay_seed = 4};
    CHECK_STATUS(stni_device_create_cpu(NULL, &device), STN_OK);
    CHECK_STATUS(stni_queue_create(device, &options, &queue), STN_OK);
}

static void queue_end(void)
{
    stni_queue_destroy(&queue);
    stni_device_destroy(&device);
}

static void queued_copy_keeps_its_boxes(void)
{
    int64_t src[6] = {1, 2, 3, 4, 5, 6}, dst[6] = {0};
    queue_begin();
    stn_box from = {.data = src, .ndim = 2, .shape = {2, 3}, .strides = {3, 1}};
    stn_box to = {.data = dst, .ndim = 2, .shape = {2, 3}, .strides = {1, 2}};
    CHECK_STATUS(stni_box_copy(queue, &to, &from, sizeof *src), STN_OK);
    memset(&from, 0, sizeof from);
    memset(&to, 0, sizeof to);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    static const int64_t want[6] = {1, 4, 2, 5, 3, 6};
    CHECK_BYTES(dst, want, sizeof want);
    stn_box empty = {.ndim = 2, .shape = {0, 3}, .strides = {3, 1}};
    CHECK_STATUS(stni_box_copy(queue, &empty, &empty, sizeof *src), STN_OK);
    CHECK_I64(atomic_load(&queue->kernels), 1);
    queue_end();
}

/* Elements as pairs of numbers; the second is 0 but for complex ones. */
static void get(const void *at, stn_dtype dtype, double out[2])
{
    uint16_t h = 0;
    int16_t s = 0;
    float f[2] = {0};
    int32_t i = 0;
    int64_t l = 0;
    out[0] = out[1] = 0;
    switch (dtype) {
    case STN_DTYPE_F32: memcpy(f, at, 4); out[0] = (double)f[0]; break;
    case STN_DTYPE_F64: memcpy(out, at, 8); break;
    case STN_DTYPE_BF16: memcpy(&h, at, 2); out[0] = (double)stni_bf16_to_f32(h); break;
    case STN_DTYPE_F16: memcpy(&h, at, 2); out[0] = (double)stni_f16_to_f32(h); break;
    case STN_DTYPE_I64: memcpy(&l, at, 8); out[0] = (double)l; break;
    case STN_DTYPE_I32: memcpy(&i, at, 4); out[0] = i; break;
    case STN_DTYPE_U8:
    case STN_DTYPE_BOOL: out[0] = *(const unsigned char *)at; break;
    case STN_DTYPE_C64: memcpy(f, at, 8); out[0] = (double)f[0]; out[1] = (double)f[1]; break;
    case STN_DTYPE_C128: memcpy(out, at, 16); break;
    case STN_DTYPE_I8: out[0] = *(const signed char *)at; break;
    case STN_DTYPE_I16: memcpy(&s, at, 2); out[0] = s; break;
    case STN_DTYPE_COUNT: break;
    }
}

static void put(void *at, stn_dtype dtype, const double in[2])
{
    uint16_t h;
    float f[2] = {(float)in[0], (float)in[1]};
    int64_t l = stni_dtype_is_integer(dtype) || dtype == STN_DTYPE_BOOL ? (int64_t)in[0] : 0;
    int32_t i = (int32_t)l;
    switch (dtype) {
    case STN_DTYPE_F32: memcpy(at, f, 4); break;
    case STN_DTYPE_F64: memcpy(at, in, 8); break;
    case STN_DTYPE_BF16: h = stni_f32_to_bf16(f[0]); memcpy(at, &h, 2); break;
    case STN_DTYPE_F16: h = stni_f32_to_f16(f[0]); memcpy(at, &h, 2); break;
    case STN_DTYPE_I64: memcpy(at, &l, 8); break;
    case STN_DTYPE_I32: memcpy(at, &i, 4); break;
    case STN_DTYPE_U8:
    case STN_DTYPE_I8:
    case STN_DTYPE_BOOL: *(unsigned char *)at = (unsigned char)l; break;
    case STN_DTYPE_I16: h = (uint16_t)l; memcpy(at, &h, 2); break;
    case STN_DTYPE_C64: memcpy(at, f, 8); break;
    case STN_DTYPE_C128: memcpy(at, in, 16); break;
    case STN_DTYPE_COUNT: break;
    }
}

/* As the dtype rounds: 16-bit floats are accumulated in f32. */
static double rounded(stn_dtype dtype, double x)
{
    int single = dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_C64 || dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16;
    return single ? (double)(float)x : x;
}

static void combine(stn_dtype dtype, stn_reduce_op op, double acc[2], const double b[2])
{
    int is_bool = dtype == STN_DTYPE_BOOL;
    double a[2] = {acc[0], acc[1]};
    switch (op) {
    case STN_SUM:
    case STN_AVG:
        acc[0] = is_bool ? a[0] + b[0] > 0 : rounded(dtype, a[0] + b[0]);
        acc[1] = rounded(dtype, a[1] + b[1]);
        break;
    case STN_PROD:
        acc[0] = rounded(dtype, rounded(dtype, a[0] * b[0]) - rounded(dtype, a[1] * b[1]));
        acc[1] = rounded(dtype, rounded(dtype, a[0] * b[1]) + rounded(dtype, a[1] * b[0]));
        break;
    case STN_MIN: acc[0] = isnan(a[0]) || isnan(b[0]) ? (double)NAN : fmin(a[0], b[0]); break;
    case STN_MAX: acc[0] = isnan(a[0]) || isnan(b[0]) ? (double)NAN : fmax(a[0], b[0]); break;
    case STN_REDUCE_OP_COUNT: break;
    }
}

/* Small values, so that integers do not wrap; now and then a NaN. */
static void fill_values(struct area *area, stn_dtype dtype)
{
    int64_t index[STN_MAX_BOX_NDIM] = {0}, size = (int64_t)stn_dtype_size(dtype);
    memset(area->memory, 77, area->bytes);
    if (elements_of(&area->box) == 0)
        return;
    do {
        double value[2] = {(double)draw(dtype == STN_DTYPE_BOOL ? 2 : 4), (double)(draw(9) - 4)};
        if (stni_dtype_is_floating(dtype) || stni_dtype_is_complex(dtype))
            value[0] = draw(50) == 0 ? (double)NAN : (double)(draw(2001) - 1000) / 256;
        put(element(&area->box, index, size), dtype, value);
    } while (next(&area->box, index));
}

enum { MOST_SOURCES = 5, MOST_RESULTS = 3 };

static void reduce(int n_dst, const stn_box *dst, int n_src, const stn_box *src, stn_dtype dtype, stn_reduce_op op)
{
    if (queue) {
        CHECK_STATUS(stni_box_reduce(queue, n_dst, dst, n_src, src, dtype, op), STN_OK);
        CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    } else {
        stni_box_reduce_now(next_isa(), n_dst, dst, n_src, src, dtype, op);
    }
}

/* Reduces random boxes; counts elements of any result that differ from the loop, bit by bit but for which NaN it is.
 * `in_place`: the first result is the second source. */
static int64_t wrong_after_reduce(int ndim, const int64_t *shape, stn_dtype dtype, stn_reduce_op op, int n_src,
                                  int n_dst, int in_place, int gaps)
{
    int64_t size = (int64_t)stn_dtype_size(dtype), wrong = 0, index[STN_MAX_BOX_NDIM] = {0};
    struct area src[MOST_SOURCES], dst[MOST_RESULTS];
    stn_box from[MOST_SOURCES], to[MOST_RESULTS];
    for (int s = 0; s < n_src; s++) {
        src[s] = area_create(ndim, shape, size, gaps);
        fill_values(&src[s], dtype);
        from[s] = src[s].box;
    }
    for (int d = 0; d < n_dst; d++) {
        dst[d] = area_create(ndim, shape, size, gaps);
        to[d] = in_place && d == 0 ? from[1] : dst[d].box;
    }
    int64_t n = elements_of(&from[0]), at = 0;
    double *want = calloc((size_t)(2 * n + 1), sizeof *want);
    if (n > 0)
        do {
            double b[2], *acc = want + 2 * at++;
            get(element(&from[0], index, size), dtype, acc);
            for (int s = 1; s < n_src; s++) {
                get(element(&from[s], index, size), dtype, b);
                combine(dtype, op, acc, b);
            }
            if (op == STN_AVG && dtype != STN_DTYPE_BOOL)
                for (int i = 0; i < 2; i++)
                    acc[i] = stni_dtype_is_integer(dtype) ? trunc(acc[i] / n_src) : rounded(dtype, acc[i] / n_src);
        } while (next(&from[0], index));
    reduce(n_dst, to, n_src, from, dtype, op);
    for (int d = 0; d < n_dst && n > 0; d++) {
        at = 0;
        do {
            unsigned char bytes[16];
            double got[2], wanted[2];
            put(bytes, dtype, want + 2 * at++);
            get(bytes, dtype, wanted);
            get(element(&to[d], index, size), dtype, got);
            for (int i = 0; i < 2; i++)
                wrong += isnan(wanted[i]) ? !isnan(got[i]) : got[i] != wanted[i];
        } while (next(&from[0], index));
    }
    free(want);
    for (int s = 0; s < n_src; s++)
        free(src[s].memory);
    for (int d = 0; d < n_dst; d++)
        free(dst[d].memory);
    return wrong;
}

static void reduction_of_every_dtype_and_op_is_the_loop_in_order(void)
{
    random_state = 3;
    int ran = 0;
    for (int dtype = 0; dtype < STN_DTYPE_COUNT; dtype++)
        for (int op = 0; op < STN_REDUCE_OP_COUNT; op++) {
            int complex = stni_dtype_is_complex((stn_dtype)dtype);
            CHECK_I64(stni_box_reduces((stn_dtype)dtype, (stn_reduce_op)op),
                      !(complex && (op == STN_MIN || op == STN_MAX)));
            if (!stni_box_reduces((stn_dtype)dtype, (stn_reduce_op)op))
                continue;
            for (int round = 0; round < test_draws(24); round++, ran++) {
                int64_t shape[4] = {1 + draw(9), 1 + draw(40), draw(12) ? 1 + draw(25) : 0, 1 + draw(3)};
                int ndim = (int)draw(5);
                CHECK_I64(wrong_after_reduce(ndim, shape, (stn_dtype)dtype, (stn_reduce_op)op, 1 + round % MOST_SOURCES,
                                             1 + round % MOST_RESULTS, round % 4 == 3 && round % MOST_SOURCES > 0,
                                             round % 2),
                          0);
            }
        }
    CHECK_I64(ran, 56 * test_draws(24));
}

static void queued_reductions_are_the_loop_in_order(void)
{
    random_state = 5;
    queue_begin();
    for (int round = 0; round < test_draws(400); round++) {
        int64_t shape[7] = {1 + draw(5), 1 + draw(9), draw(12) ? 1 + draw(7) : 0, 1 + draw(3), 1 + draw(2),
                            2,           1 + draw(3)};
        stn_dtype dtype = (stn_dtype)draw(STN_DTYPE_COUNT);
        stn_reduce_op op = (stn_reduce_op)draw(STN_REDUCE_OP_COUNT);
        if (stni_box_reduces(dtype, op))
            CHECK_I64(wrong_after_reduce((int)draw(8), shape, dtype, op, 2 + round % (MOST_SOURCES - 1),
                                         1 + round % MOST_RESULTS, round % 4 == 3, round % 2),
                      0);
    }
    queue_end();
}

/* More results than the arguments of one kernel hold are copied from the first; more sources are refused. */
static void queued_reductions_of_many_boxes_are_whole_or_refused(void)
{
    enum { N = 7, BOXES = 140 };
    static int32_t values[BOXES][N], results[BOXES][N];
    stn_box src[BOXES], dst[BOXES];
    for (int b = 0; b < BOXES; b++) {
        src[b] = (stn_box){values[b], 1, {N}, {1}};
        dst[b] = (stn_box){results[b], 1, {N}, {1}};
        for (int i = 0; i < N; i++)
            values[b][i] = b + 1000 * i;
    }
    queue_begin();
    CHECK_STATUS(stni_box_reduce(queue, BOXES, dst, 127, src, STN_DTYPE_I32, STN_SUM), STN_OK);
    CHECK_STATUS(stn_queue_sync(queue), STN_OK);
    for (int b = 0; b < BOXES; b++)
        for (int i = 0; i < N; i++)
            CHECK_I64(results[b][i], 127 * 126 / 2 + 127000 * i);
    CHECK_STATUS(stni_box_reduce(queue, 1, dst, 128, src, STN_DTYPE_I32, STN_SUM), STN_ERR_UNSUPPORTED);
    CHECK(strstr(stn_queue_error_text(queue), "128 boxes") != NULL);
    queue_end();
}

static void reduction_of_large_boxes_is_the_loop_in_order(void)
{
    static const int64_t shapes[][3] = {{600011, 1, 1}, {700, 1, 801}, {9, 331, 201}};
    random_state = 4;
    for (int i = 0; i < 3; i += test_thread_step(3))
        for (int gaps = 0; gaps < 2; gaps += test_thread_step(2)) {
            CHECK_I64(wrong_after_reduce(3, shapes[i], STN_DTYPE_F32, STN_SUM, 3, 2, 1, gaps), 0);
            CHECK_I64(wrong_after_reduce(3, shapes[i], STN_DTYPE_F32, STN_SUM, 2, 1, gaps, gaps), 0);
            CHECK_I64(wrong_after_reduce(3, shapes[i], STN_DTYPE_F64, STN_SUM, 3, 1, gaps, gaps), 0);
            CHECK_I64(wrong_after_reduce(3, shapes[i], STN_DTYPE_BF16, STN_AVG, 3, 1, 0, gaps), 0);
            CHECK_I64(wrong_after_reduce(3, shapes[i], STN_DTYPE_F64, STN_MAX, 2, 2, 0, gaps), 0);
        }
}

static void integers_wrap_and_negative_averages_truncate(void)
{
    int32_t a[2] = {INT32_MAX, -3}, b[2] = {1, -4}, out[2];
    stn_box src[2] = {{a, 1, {2}, {1}}, {b, 1, {2}, {1}}}, dst = {out, 1, {2}, {1}};
    stni_box_reduce_now(next_isa(), 1, &dst, 2, src, STN_DTYPE_I32, STN_SUM);
    CHECK_I64(out[0], INT32_MIN);
    CHECK_I64(out[1], -7);
    stni_box_reduce_now(next_isa(), 1, &dst, 2, src, STN_DTYPE_I32, STN_AVG);
    CHECK_I64(out[1], -3);
}

/* f16 has steps of 4 beyond 4096: the sum 4098.5 rounds to 4100, but to 4096 where each step is rounded. */
static void sixteen_bit_sums_are_rounded_once(void)
{
    double values[3][2] = {{4096, 0}, {1, 0}, {1.5, 0}}, got[2];
    uint16_t cell[3], out;
    stn_box src[3], dst = {&out, 0, {0}, {0}};
    for (int i = 0; i < 3; i++) {
        put(&cell[i], STN_DTYPE_F16, values[i]);
        src[i] = (stn_box){&cell[i], 0, {0}, {0}};
    }
    stni_box_reduce_now(next_isa(), 1, &dst, 3, src, STN_DTYPE_F16, STN_SUM);
    get(&out, STN_DTYPE_F16, got);
    CHECK_NEAR(got[0], 4100, 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"copy_of_any_box_moves_its_elements_and_nothing_else", copy_of_any_box_moves_its_elements_and_nothing_else},
        {"copy_of_large_boxes_moves_their_elements_and_nothing_else",
         copy_of_large_boxes_moves_their_elements_and_nothing_else},
        {"copy_from_a_broadcast_dim_repeats_its_element", copy_from_a_broadcast_dim_repeats_its_element},
        {"large_rows_of_one_element_are_whole_and_nothing_else_is_written",
         large_rows_of_one_element_are_whole_and_nothing_else_is_written},
        {"queued_copy_keeps_its_boxes", queued_copy_keeps_its_boxes},
        {"reduction_of_every_dtype_and_op_is_the_loop_in_order", reduction_of_every_dtype_and_op_is_the_loop_in_order},
        {"queued_reductions_are_the_loop_in_order", queued_reductions_are_the_loop_in_order},
        {"queued_reductions_of_many_boxes_are_whole_or_refused", queued_reductions_of_many_boxes_are_whole_or_refused},
        {"reduction_of_large_boxes_is_the_loop_in_order", reduction_of_large_boxes_is_the_loop_in_order},
        {"integers_wrap_and_negative_averages_truncate", integers_wrap_and_negative_averages_truncate},
        {"sixteen_bit_sums_are_rounded_once", sixteen_bit_sums_are_rounded_once},
    };
    return TEST_MAIN(argc, argv, cases);
}
