/* Copies of boxes against loops over single elements, on random shapes, orders of dims and gaps. */
#include "core/box/areas.h"
#include "every_isa.h"

#include <string.h>

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
    };
    return TEST_MAIN(argc, argv, cases);
}
