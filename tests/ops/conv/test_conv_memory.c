/* No convolution writes past what it asked for, whosever code it is: every piece of memory is followed by bytes that
 * must stay. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256 /* bytes */, GUARD_BYTE = 0xa5 };

static void *allocate(void *arg, size_t bytes, size_t alignment)
{
    char *data = aligned_alloc(alignment, (bytes + GUARD + alignment - 1) / alignment * alignment);
    (void)arg;
    if (data)
        memset(data + bytes, GUARD_BYTE, GUARD);
    return data;
}

static void deallocate(void *arg, void *pointer, size_t bytes)
{
    int64_t *damaged = arg;
    for (size_t i = 0; i < GUARD; i++)
        *damaged += ((unsigned char *)pointer)[bytes + i] != GUARD_BYTE;
    free(pointer);
}

static const struct shape {
    int64_t n, c, o, size, kernel, stride;
} shapes[] = {{1, 1, 1, 6, 1, 2}, {1, 1, 12, 6, 1, 2}, {5, 2, 2, 6, 1, 2},  {1, 3, 9, 8, 1, 2},
              {2, 7, 5, 8, 1, 3}, {1, 9, 3, 6, 1, 2},  {1, 12, 4, 8, 1, 2}, {1, 16, 8, 6, 1, 2},
              {1, 3, 5, 7, 3, 2}, {2, 8, 8, 9, 3, 1},  {1, 1, 1, 5, 1, 1}};

static stn_status body(stn_context *context, void *arg)
{
    const struct shape *s = arg;
    const int64_t x_shape[] = {s->n, s->c, s->size, s->size}, w_shape[] = {s->o, s->c, s->kernel, s->kernel};
    const stn_conv_attrs attrs = {.size = sizeof attrs, .stride = {s->stride, s->stride}};
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, 1, 0);
    const stn_placement whole = stn_replicate();
    stn_tensor *x = test_tensor(context, mesh, &whole, STN_DTYPE_F32, 4, x_shape, NULL, test_value);
    stn_tensor *w = test_tensor(context, mesh, &whole, STN_DTYPE_F32, 4, w_shape, NULL, test_value);
    stn_set_requires_grad(x, 1);
    stn_set_requires_grad(w, 1);
    stn_tensor *y = stn_conv2d(x, w, NULL, &attrs), *cotangent = stn_detach(y);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    return stn_scope_end(context);
}

static void nothing_is_written_past_the_end(void)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t damaged = 0;
        const stn_allocator allocator = {
            .size = sizeof allocator, .arg = &damaged, .allocate = allocate, .deallocate = deallocate};
        const stn_context_options options = {.size = sizeof options, .allocator = &allocator};
        CHECK_STATUS(test_launch(1, &options, body, (void *)&shapes[i]), STN_OK);
        if (!CHECK_I64(damaged, 0))
            fprintf(stderr, "  shape %zu\n", i);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"nothing_is_written_past_the_end", nothing_is_written_past_the_end},
    };
    return TEST_MAIN(argc, argv, cases);
}
