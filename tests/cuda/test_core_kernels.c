/* The kernels that serve the library itself on a CUDA device, against the CPU's, bit by bit, gaps included. */
#include "both.h"

#include "harness.h"

#include "core/base/dtype.h"
#include "core/box/box_add.h"
#include "core/box/box_list.h"
#include "core/context/context.h"
#include "core/device/device.h"

#include <shardtensor/module.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_BOXES = 8, NDIM = 4 };

static uint64_t random_state = 1;

static int64_t draw(int64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)below);
}

/* A box in memory of the device, and what its memory held, which the CPU's kernels work on. */
struct area {
    unsigned char *host;
    void *device;
    size_t bytes;
    stn_box host_box, device_box;
};

static void upload(stn_context *context, struct area *area)
{
    CHECK_STATUS(stni_device_allocate(context->device, area->bytes, &area->device), STN_OK);
    CHECK_STATUS(stni_queue_copy(context->queue, area->device, area->host, area->bytes, STNI_COPY_TO_DEVICE), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
}

/* Memory of so many elements for the boxes, which begin `offset` elements into it, with random bytes. */
static void fill_area(stn_context *context, struct area *area, int64_t elements, int64_t offset, int64_t size)
{
    area->bytes = (size_t)(elements * size);
    area->host = malloc(area->bytes);
    for (size_t i = 0; i < area->bytes; i++)
        area->host[i] = (unsigned char)draw(256);
    upload(context, area);
    area->device_box = area->host_box;
    area->host_box.data = area->host + offset * size;
    area->device_box.data = (char *)area->device + offset * size;
}

/* Dims in random order in memory, with gaps after some of them, at a random offset; or dense. */
static struct area area_create(stn_context *context, int ndim, const int64_t *shape, int64_t size, int gaps)
{
    struct area area = {.host_box = {.ndim = ndim}};
    int order[NDIM] = {0};
    int64_t stride = gaps && draw(4) == 0 ? 3 : 1, offset = gaps ? draw(20) : 0;
    for (int d = 0; d < ndim; d++) {
        int at = gaps ? (int)draw(d + 1) : d;
        order[d] = order[at];
        order[at] = d;
    }
    for (int i = ndim - 1; i >= 0; i--) {
        area.host_box.shape[order[i]] = shape[order[i]];
        area.host_box.strides[order[i]] = stride;
        stride = stride * (shape[order[i]] > 0 ? shape[order[i]] : 1) + (gaps && draw(3) == 0 ? draw(9) : 0);
    }
    fill_area(context, &area, stride + offset, offset, size);
    return area;
}

/* Bytes of the device's memory that differ from what the CPU made of the host's. */
static int64_t differing_bytes(stn_context *context, const struct area *area)
{
    unsigned char *back = malloc(area->bytes);
    int64_t wrong = 0;
    CHECK_STATUS(stni_queue_copy(context->queue, back, area->device, area->bytes, STNI_COPY_TO_HOST), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    for (size_t i = 0; i < area->bytes; i++)
        wrong += back[i] != area->host[i];
    free(back);
    return wrong;
}

static void area_free(stn_context *context, struct area *area)
{
    stni_device_deallocate(context->device, area->device, area->bytes);
    free(area->host);
}

static int64_t wrong_after_copy(stn_context *context, int ndim, const int64_t *shape, int64_t size, int gaps)
{
    struct area dst = area_create(context, ndim, shape, size, gaps),
                src = area_create(context, ndim, shape, size, gaps);
    CHECK_STATUS(stni_box_copy(context->queue, &dst.device_box, &src.device_box, (size_t)size), STN_OK);
    stni_box_copy_now(STNI_ISA_BASE, &dst.host_box, &src.host_box, (size_t)size);
    int64_t wrong = differing_bytes(context, &dst);
    area_free(context, &dst);
    area_free(context, &src);
    return wrong;
}

static void copies_of_every_size_are_the_cpus(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    for (int round = 0; round < 120; round++) {
        int64_t shape[NDIM] = {1 + draw(4), draw(8) ? 1 + draw(20) : 0, 1 + draw(3), 1 + draw(40)};
        CHECK_I64(wrong_after_copy(context, (int)draw(NDIM + 1), shape, (int64_t)1 << round % 5, round % 4 != 0), 0);
    }
    stn_context_destroy(&context);
}

/* Both sides long and dense along different dims, with planes outside of them: tiles, whole and cut off. */
static void transposes_are_the_cpus(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    for (int round = 0; round < 10; round++) {
        int64_t n = 16 + draw(60), m = 16 + draw(60), planes = 1 + draw(4), size = (int64_t)1 << round % 5,
                shape[] = {planes, n, m};
        struct area dst = area_create(context, 3, shape, size, 0), src = area_create(context, 3, shape, size, 0);
        stn_box *turned[] = {&src.host_box, &src.device_box};
        for (int i = 0; i < 2; i++) {
            turned[i]->strides[1] = 1;
            turned[i]->strides[2] = n;
        }
        CHECK_STATUS(stni_box_copy(context->queue, &dst.device_box, &src.device_box, (size_t)size), STN_OK);
        stni_box_copy_now(STNI_ISA_BASE, &dst.host_box, &src.host_box, (size_t)size);
        CHECK_I64(differing_bytes(context, &dst), 0);
        area_free(context, &dst);
        area_free(context, &src);
    }
    stn_context_destroy(&context);
}

/* A box of `shape` whose dims lie in memory in `order`, slowest first, each with so many elements of `space` behind
 * it, from element `offset` of its memory on. */
static struct area area_of(stn_context *context, int ndim, const int64_t *shape, const int *order, const int64_t *space,
                           int64_t offset, int64_t size)
{
    struct area area = {.host_box = {.ndim = ndim}};
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        area.host_box.shape[order[i]] = shape[order[i]];
        area.host_box.strides[order[i]] = stride;
        stride = stride * shape[order[i]] + space[i];
    }
    fill_area(context, &area, stride + offset, offset, size);
    return area;
}

static int64_t wrong_between(stn_context *context, struct area *dst, struct area *src, int64_t size)
{
    CHECK_STATUS(stni_box_copy(context->queue, &dst->device_box, &src->device_box, (size_t)size), STN_OK);
    stni_box_copy_now(STNI_ISA_BASE, &dst->host_box, &src->host_box, (size_t)size);
    int64_t wrong = differing_bytes(context, dst);
    area_free(context, dst);
    area_free(context, src);
    return wrong;
}

/* Rows and columns that are whole packs of 16 bytes, fewer and more than a tile has, with and without gaps; where one
 * address, one stride or one length is no multiple of 16 bytes, packs do not serve. */
static void transposes_of_packs_are_the_cpus(void)
{
    enum { NOTHING, ADDRESS, STRIDE, LENGTH, BREAKS };
    static const int down[] = {0, 1, 2}, turned[] = {0, 2, 1};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    for (int round = 0; round < 100; round++) {
        const int64_t size = (int64_t)1 << round % 5, pack = 16 / size, least = (16 + pack - 1) / pack;
        const int what = round / 5 % BREAKS, side = (int)draw(2);
        int64_t shape[] = {1 + draw(3), pack * (least + draw(280 / pack)), pack * (least + draw(280 / pack))};
        int64_t space[2][3], offset[2];
        for (int i = 0; i < 2; i++) {
            offset[i] = pack * draw(3) + (what == ADDRESS && side == i);
            for (int d = 0; d < 3; d++)
                space[i][d] = pack * draw(2) + (what == STRIDE && side == i && d == 1 + round % 2);
        }
        shape[1 + side] += what == LENGTH;
        struct area dst = area_of(context, 3, shape, down, space[0], offset[0], size);
        struct area src = area_of(context, 3, shape, turned, space[1], offset[1], size);
        CHECK_I64(wrong_between(context, &dst, &src, size), 0);
    }
    stn_context_destroy(&context);
}

/* Rows that are dense on both sides, shorter and longer than what is copied in packs, at addresses that allow packs on
 * both sides, on one or on none. */
static void rows_of_any_length_are_the_cpus(void)
{
    static const int order[] = {0, 1, 2};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    for (int round = 0; round < 200; round++) {
        const int64_t size = (int64_t)1 << round % 5, pack = 16 / size, near = (round / 5 % 2 ? 64 : 16) / size;
        const int64_t more = draw(round % 3 ? 3 * pack : 40 * pack);
        const int64_t length = round % 11 == 0 ? 4096 * pack + draw(9) : near - 1 + more;
        const int64_t shape[] = {1 + draw(3), 1 + draw(9), length > 0 ? length : 1};
        int64_t space[2][3], offset[2];
        for (int i = 0; i < 2; i++) {
            offset[i] = draw(3) ? draw(2 * pack) : 0;
            space[i][0] = draw(5);
            space[i][1] = draw(3);
            space[i][2] = draw(2) ? 2 * pack - shape[2] % pack : draw(2 * pack);
        }
        struct area dst = area_of(context, 3, shape, order, space[0], offset[0], size);
        struct area src = area_of(context, 3, shape, order, space[1], offset[1], size);
        CHECK_I64(wrong_between(context, &dst, &src, size), 0);
    }
    stn_context_destroy(&context);
}

static void check_listed(stn_context *context, int n, struct area *dst, struct area *src)
{
    for (int i = 0; i < n; i++) {
        CHECK_I64(differing_bytes(context, &dst[i]), 0);
        area_free(context, &dst[i]);
        area_free(context, &src[i]);
    }
}

/* Lists of every length from none to more than one launch takes, of boxes large and small, empty and transposed. */
static void lists_of_copies_are_the_cpus(void)
{
    enum { MOST_COPIES = 120 };
    static struct area dst[MOST_COPIES], src[MOST_COPIES];
    static struct stni_box_list list;
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    CHECK(context->device->box_copies != NULL);
    for (int round = 0; round < 25; round++) {
        const int n = round == 0 ? 0 : 1 + (int)draw(round % 5 == 0 ? MOST_COPIES : 12);
        const int64_t size = (int64_t)1 << round % 5;
        stni_box_list_begin(&list, context->queue);
        for (int i = 0; i < n; i++) {
            const int64_t large = draw(8) ? 1 : 5,
                          shape[NDIM] = {1 + draw(3), draw(9) ? large * (1 + draw(10)) : 0, 1 + draw(3), 1 + draw(30)};
            const int ndim = (int)draw(NDIM + 1), gaps = (int)draw(3);
            dst[i] = area_create(context, ndim, shape, size, gaps);
            src[i] = area_create(context, ndim, shape, size, gaps);
            CHECK_STATUS(stni_box_list_add(&list, &dst[i].device_box, &src[i].device_box, (size_t)size), STN_OK);
            stni_box_copy_now(STNI_ISA_BASE, &dst[i].host_box, &src[i].host_box, (size_t)size);
        }
        CHECK_STATUS(stni_box_list_launch(&list), STN_OK);
        check_listed(context, n, dst, src);
    }
    stn_context_destroy(&context);
}

/* A copy of a list, of one of five kinds: rows, planes that are transposed, in packs or where an address does not allow
 * them, and an element that fills rows or planes. */
static void make_listed_copy(stn_context *context, int kind, int64_t size, struct area *dst, struct area *src)
{
    enum { ROWS, PACKS, ELEMENTS, REPEATED };
    static const int down[] = {0, 1, 2}, turned[] = {0, 2, 1};
    const int64_t pack = 16 / size, least = (16 + pack - 1) / pack;
    const int64_t shape[] = {1 + draw(3), pack * (least + draw(150 / pack)), pack * (least + draw(150 / pack))};
    const int64_t space[] = {pack * draw(2), pack * draw(2), pack * draw(2)};
    const int is_turned = kind == PACKS || kind == ELEMENTS;
    *dst = area_of(context, 3, shape, down, space, kind == ELEMENTS, size);
    *src = area_of(context, 3, shape, is_turned ? turned : down, space, 0, size);
    for (int d = kind - REPEATED; d >= 0 && d < 3; d++) /* all dims, or all but the planes */
        src->host_box.strides[d] = src->device_box.strides[d] = 0;
}

/* Where some are transposed and others are not the list is one grid. */
static void lists_with_transposed_copies_are_the_cpus(void)
{
    enum { COPIES = 6, KINDS = 5 };
    struct area dst[COPIES], src[COPIES];
    static struct stni_box_list list;
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    for (int round = 0; round < 30; round++) {
        const int64_t size = (int64_t)1 << round % 5;
        stni_box_list_begin(&list, context->queue);
        for (int i = 0; i < COPIES; i++) {
            make_listed_copy(context, round < KINDS ? 1 : (int)draw(KINDS), size, &dst[i], &src[i]);
            CHECK_STATUS(stni_box_list_add(&list, &dst[i].device_box, &src[i].device_box, (size_t)size), STN_OK);
            stni_box_copy_now(STNI_ISA_BASE, &dst[i].host_box, &src[i].host_box, (size_t)size);
        }
        CHECK_STATUS(stni_box_list_launch(&list), STN_OK);
        check_listed(context, COPIES, dst, src);
    }
    stn_context_destroy(&context);
}

static void fills_write_their_element_and_nothing_else(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    for (int round = 0; round < 60; round++) {
        int64_t size = (int64_t)1 << round % 5, count = round == 7 ? 0 : draw(round % 3 ? 20 : 3000),
                shape[] = {count + 40};
        struct area area = area_create(context, 1, shape, size, 0);
        int64_t offset = draw(20) * size;
        stn_fill_args args = {.data = (char *)area.device + offset, .count = count, .element_size = (size_t)size};
        for (int i = 0; i < 16; i++)
            args.element[i] = (unsigned char)draw(256);
        for (int64_t i = 0; i < count * size; i++)
            area.host[offset + i] = args.element[i % size];
        CHECK_STATUS(stn_queue_launch(context->queue, context->device->fill, &args, sizeof args), STN_OK);
        CHECK_I64(differing_bytes(context, &area), 0);
        area_free(context, &area);
    }
    stn_context_destroy(&context);
}

/* Numbers that every dtype holds, small enough that products of floats stay finite; bool values are 0 and 1. */
static void put_numbers(stn_context *context, struct area *area, stn_dtype dtype)
{
    for (size_t i = 0; i < area->bytes; i += 2) {
        uint16_t half = stni_f32_to_f16((float)(draw(65) - 32) / 8),
                 brain = stni_f32_to_bf16((float)(draw(65) - 32) / 8);
        memcpy(area->host + i, dtype == STN_DTYPE_F16 ? &half : &brain, i + 2 <= area->bytes ? 2 : 1);
    }
    for (size_t i = 0; i + 4 <= area->bytes && (dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_C64); i += 4)
        memcpy(area->host + i, &(float){(float)(draw(2001) - 1000) / 7}, 4);
    for (size_t i = 0; i + 8 <= area->bytes && (dtype == STN_DTYPE_F64 || dtype == STN_DTYPE_C128); i += 8)
        memcpy(area->host + i, &(double){(double)(draw(2001) - 1000) / 7}, 8);
    for (size_t i = 0; i < area->bytes && dtype == STN_DTYPE_BOOL; i++)
        area->host[i] = (unsigned char)draw(2);
    CHECK_STATUS(stni_queue_copy(context->queue, area->device, area->host, area->bytes, STNI_COPY_TO_DEVICE), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
}

static int64_t wrong_after_reduce(stn_context *context, const int64_t *shape, stn_dtype dtype, stn_reduce_op op,
                                  int n_src, int n_dst, int gaps)
{
    struct area areas[MOST_BOXES];
    stn_box host[MOST_BOXES] = {{0}}, device[MOST_BOXES] = {{0}};
    int64_t wrong = 0;
    for (int i = 0; i < n_dst + n_src; i++) {
        areas[i] = area_create(context, NDIM, shape, (int64_t)stn_dtype_size(dtype), gaps);
        put_numbers(context, &areas[i], dtype);
        host[i] = areas[i].host_box;
        device[i] = areas[i].device_box;
    }
    CHECK_STATUS(stni_box_reduce(context->queue, n_dst, device, n_src, device + n_dst, dtype, op), STN_OK);
    stni_box_reduce_now(STNI_ISA_BASE, n_dst, host, n_src, host + n_dst, dtype, op);
    for (int i = 0; i < n_dst + n_src; i++) {
        wrong += differing_bytes(context, &areas[i]);
        area_free(context, &areas[i]);
    }
    return wrong;
}

static void reductions_of_every_dtype_and_op_are_the_cpus(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    for (int dtype = 0; dtype < STN_DTYPE_COUNT; dtype++)
        for (int op = 0; op < STN_REDUCE_OP_COUNT; op++)
            for (int round = 0; round < 5 && stni_box_reduces((stn_dtype)dtype, (stn_reduce_op)op); round++) {
                int64_t shape[NDIM] = {1 + draw(3), draw(9) ? 1 + draw(7) : 0, 1 + draw(3), 1 + draw(30)};
                CHECK_I64(wrong_after_reduce(context, shape, (stn_dtype)dtype, (stn_reduce_op)op, 1 + round,
                                             1 + round % 3, round % 2),
                          0);
            }
    stn_context_destroy(&context);
}

/* Elements of the dims in which the sum stands still go to one. What is not rounded to 16 bits may come in parts. */
static void additions_of_many_elements_to_one_are_the_cpus(void)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F16, STN_DTYPE_BF16, STN_DTYPE_F32,
                                       STN_DTYPE_F64, STN_DTYPE_I32,  STN_DTYPE_BOOL};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    for (int i = 0; i < 60; i++) {
        const stn_dtype dtype = dtypes[i % 6];
        const int64_t size = (int64_t)stn_dtype_size(dtype), most = size == 2 ? 5 : 20;
        const int64_t shape[NDIM] = {1 + draw(most), 1 + draw(4), 1 + draw(most), 1 + draw(30)};
        struct area to = area_create(context, NDIM, shape, size, i % 2),
                    from = area_create(context, NDIM, shape, size, i % 3 == 0);
        put_numbers(context, &to, dtype);
        put_numbers(context, &from, dtype);
        to.host_box.strides[0] = to.device_box.strides[0] = 0;
        if (i % 4)
            to.host_box.strides[2] = to.device_box.strides[2] = 0;
        CHECK_STATUS(stni_box_add(context->queue, &to.device_box, &from.device_box, dtype, NULL), STN_OK);
        stni_box_add_now(STNI_ISA_BASE, &to.host_box, &from.host_box, dtype);
        CHECK_I64(differing_bytes(context, &to), 0);
        area_free(context, &to);
        area_free(context, &from);
    }
    stn_context_destroy(&context);
}

/* 20,000 ones are 20,000, and no more than two roundings off. */
static void sums_of_very_many_elements_keep_their_digits(void)
{
    const int64_t shape[NDIM] = {100, 2, 200, 3}, n = 100 * 2 * 200 * 3;
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    struct area to = area_create(context, NDIM, shape, 2, 0), from = area_create(context, NDIM, shape, 2, 0);
    void *scratch;
    uint16_t *ones = malloc((size_t)n * sizeof *ones);
    for (int64_t i = 0; i < n; i++)
        ones[i] = stni_f32_to_f16(1);
    to.device_box.strides[0] = to.device_box.strides[2] = 0;
    CHECK_STATUS(stni_queue_copy(context->queue, to.device, ones, to.bytes, STNI_COPY_TO_DEVICE), STN_OK);
    CHECK_STATUS(stni_queue_copy(context->queue, from.device, ones, from.bytes, STNI_COPY_TO_DEVICE), STN_OK);
    const size_t bytes = stni_box_add_scratch(context->queue, &to.device_box, &from.device_box, STN_DTYPE_F16);
    CHECK_STATUS(stni_device_allocate(context->device, bytes, &scratch), STN_OK);
    CHECK_STATUS(stni_box_add(context->queue, &to.device_box, &from.device_box, STN_DTYPE_F16, scratch), STN_OK);
    CHECK_STATUS(stni_queue_copy(context->queue, ones, to.device, 6 * sizeof *ones, STNI_COPY_TO_HOST), STN_OK);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(stni_f16_to_f32(ones[i]), 20001, 0x1p-10);
    stni_device_deallocate(context->device, scratch, bytes);
    area_free(context, &to);
    area_free(context, &from);
    free(ones);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"copies_of_every_size_are_the_cpus", copies_of_every_size_are_the_cpus},
        {"transposes_are_the_cpus", transposes_are_the_cpus},
        {"transposes_of_packs_are_the_cpus", transposes_of_packs_are_the_cpus},
        {"rows_of_any_length_are_the_cpus", rows_of_any_length_are_the_cpus},
        {"lists_of_copies_are_the_cpus", lists_of_copies_are_the_cpus},
        {"lists_with_transposed_copies_are_the_cpus", lists_with_transposed_copies_are_the_cpus},
        {"fills_write_their_element_and_nothing_else", fills_write_their_element_and_nothing_else},
        {"sums_of_very_many_elements_keep_their_digits", sums_of_very_many_elements_keep_their_digits},
        {"additions_of_many_elements_to_one_are_the_cpus", additions_of_many_elements_to_one_are_the_cpus},
        {"reductions_of_every_dtype_and_op_are_the_cpus", reductions_of_every_dtype_and_op_are_the_cpus},
    };
    return TEST_MAIN(argc, argv, cases);
}
