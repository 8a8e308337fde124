/* A framework's side: its own memory, allocator, queue and log; ops found by name, called by handle with attributes. */
#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct counts {
    long allocated, freed, released;
};

static void *count_allocate(void *arg, size_t bytes, size_t alignment)
{
    ((struct counts *)arg)->allocated++;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void count_deallocate(void *arg, void *pointer, size_t bytes)
{
    (void)bytes;
    ((struct counts *)arg)->freed++;
    free(pointer);
}

static void count_release(void *arg)
{
    ((struct counts *)arg)->released++;
}

static void print_log(void *arg, stn_log_level level, int rank, const char *text)
{
    (void)arg;
    fprintf(stderr, "rank %d, level %d: %s\n", rank, (int)level, text);
}

static stn_status use(stn_context *ctx, struct counts *counts, double *value)
{
    static float memory[2][3] = {{1, 2, 3}, {4, 5, 6}}; /* the framework's own */
    const stn_op *softmax = stn_op_find(ctx, "softmax");
    const stn_attr dim = {"dim", STN_ATTR_INT, {.i = -1}}, first = {"dim", STN_ATTR_INTS, {.ints = {1, {0}}}};
    stn_scope_begin(ctx);
    stn_tensor *x = stn_wrap(ctx, STN_DTYPE_F32, 2, (int64_t[]){2, 3}, NULL, memory, count_release, counts), *y, *sum,
               *all;
    stn_op_invoke(softmax, 1, &x, 1, &dim, 1, &y);
    stn_call(ctx, "sum", 1, &y, 1, &first, 1, &sum); /* (3): what the two rows give together */
    stn_call(ctx, "sum", 1, &sum, 0, NULL, 1, &all);
    stn_item(all, value);
    return stn_scope_end(ctx);
}

int main(void)
{
    struct counts counts = {0, 0, 0};
    const stn_allocator allocator = {sizeof allocator, &counts, count_allocate, count_deallocate};
    char error[256] = "";
    stn_context_options options = {.size = sizeof options,
                                   .allocator = &allocator,
                                   .log = print_log,
                                   .log_level = STN_LOG_WARNING,
                                   .queue = {.size = sizeof options.queue, .kind = STN_QUEUE_WORKER},
                                   .error_text = error,
                                   .error_text_size = sizeof error};
    stn_context *ctx;
    double value = 0;
    if (stn_context_create(&options, &ctx) != STN_OK) {
        fprintf(stderr, "embed: %s\n", error);
        return 1;
    }
    stn_status status = use(ctx, &counts, &value);
    stn_context_destroy(&ctx);
    printf("two rows of softmax sum to %g; %ld allocations, %ld freed, the wrapped memory given back %ld times\n",
           value, counts.allocated, counts.freed, counts.released);
    return status == STN_OK && fabs(value - 2) < 1e-6 && counts.allocated == counts.freed && counts.released == 1 ? 0
                                                                                                                  : 1;
}
