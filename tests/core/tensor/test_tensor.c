/* Tensors: memory orders, gaps, views, copies from and to the host, accessors, cost of a handle. */
#include "core/counted.h"
#include "core/gaps.h"
#include "harness.h"
#include "core/core_ranks.h"

#include "core/tensor/tensor.h"

#include <string.h>

static const stn_spec *make_spec(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape,
                                 const int *order)
{
    const stn_spec *spec = NULL;
    stn_spec_options options = {.size = sizeof options, .memory_order = order};
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, dtype, ndim, shape, &options, &spec), STN_OK);
    return spec;
}

static int64_t live_tensors(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.live_tensors;
}

/* Distinct bytes everywhere. */
static void fill_bytes(unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 7 + i / 256 * 31 + 1);
}

/* `arg` not NULL: the CPU plays another device, whose memory the host reaches by dense copies only. */
static void copy_there_and_back(stn_context *context, void *arg)
{
    context->device->is_cpu = arg == NULL;
    static const int orders[3][3] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}};
    static const int64_t shapes[4][3] = {{3, 4, 5}, {1, 7, 1}, {2, 0, 3}, {17, 1, 9}};
    unsigned char from[4096], to[4096];
    fill_bytes(from, sizeof from);
    for (int d = 0; d < STN_DTYPE_COUNT; d++)
        for (int o = 0; o < 3; o++)
            for (int s = 0; s < 4; s++) {
                const stn_spec *spec = make_spec(context, (stn_dtype)d, 3, shapes[s], orders[o]);
                size_t n = (size_t)stn_spec_local_numel(spec) * stn_dtype_size((stn_dtype)d);
                stn_tensor *tensor = stn_from_host(context, spec, from);
                CHECK(stni_tensor_is_dense(tensor));
                memset(to, 0, sizeof to);
                CHECK_STATUS(stn_to_host(tensor, to, n), STN_OK);
                if (n > 0)
                    CHECK_BYTES(to, from, n);
                CHECK(to[n] == 0);
                stn_tensor_release(&tensor);
                stn_spec_release(&spec);
            }
    CHECK_I64(live_tensors(context), 0);
}

static void host_copies_are_row_major_whatever_the_memory_order(void)
{
    int other_device = 1;
    on_one_rank(copy_there_and_back, NULL);
    on_one_rank(copy_there_and_back, &other_device);
}

static void look_at_memory(stn_context *context, void *arg)
{
    (void)arg;
    static const int64_t shape[] = {2, 3};
    static const int order[] = {1, 0};
    static const float host[] = {1, 2, 3, 4, 5, 6}, want[] = {1, 4, 2, 5, 3, 6};
    const stn_spec *spec = make_spec(context, STN_DTYPE_F32, 2, shape, order);
    stn_tensor *tensor = stn_from_host(context, spec, host);
    CHECK_I64(stn_tensor_strides(tensor)[0], 1);
    CHECK_I64(stn_tensor_strides(tensor)[1], 2);
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    CHECK_BYTES(stn_tensor_data(tensor), want, sizeof want);
    stn_tensor_release(&tensor);
    stn_spec_release(&spec);
}

static void chunk_lies_in_the_specs_memory_order(void)
{
    on_one_rank(look_at_memory, NULL);
}

/* Ten rows over three ranks: 4, 3, 3; and explicit cuts with an empty chunk. */
static void copy_chunks(stn_context *context, void *arg)
{
    (void)arg;
    int size = context->size;
    int64_t shape[] = {10, 3}, cuts[] = {0, 9, 1}, back[30], host[30];
    const int64_t *sizes[] = {cuts, NULL};
    stn_spec_options explicit_cuts = {.size = sizeof explicit_cuts, .sizes = sizes};
    stn_placement placement = stn_shard(0);
    const stn_mesh *mesh;
    CHECK_STATUS(stn_mesh_create(context, 1, &size, NULL, NULL, &mesh), STN_OK);
    for (int balanced = 0; balanced < 2; balanced++) {
        const stn_spec *spec;
        CHECK_STATUS(stn_spec_create(context, mesh, &placement, STN_DTYPE_I64, 2, shape,
                                     balanced ? NULL : &explicit_cuts, &spec),
                     STN_OK);
        int64_t n = stn_spec_local_numel(spec);
        int64_t rows = balanced ? (context->rank == 0 ? 4 : 3) : cuts[context->rank];
        CHECK_I64(n, 3 * rows);
        for (int64_t i = 0; i < n; i++)
            host[i] = 100 * context->rank + i;
        stn_tensor *tensor = stn_from_host(context, spec, n > 0 ? host : NULL);
        CHECK_I64(stn_tensor_shape(tensor)[0], 10);
        CHECK_I64(stn_tensor_local_shape(tensor)[0], rows);
        CHECK((stn_tensor_data(tensor) == NULL) == (n == 0));
        CHECK_STATUS(stn_to_host(tensor, n > 0 ? back : NULL, (size_t)n * sizeof *back), STN_OK);
        for (int64_t i = 0; i < n; i++)
            CHECK_I64(back[i], host[i]);
        stn_tensor_release(&tensor);
        stn_spec_release(&spec);
    }
}

static void each_rank_copies_its_own_chunk_empty_ones_too(void)
{
    on_ranks(3, copy_chunks, NULL);
}

static void refuse_host_copies(stn_context *context, void *arg)
{
    const stn_spec *foreign = arg;
    float host[4] = {0};
    const stn_spec *spec = make_spec(context, STN_DTYPE_F32, 1, stn_spec_shape(foreign), NULL);
    stn_tensor *tensor = stn_from_host(context, spec, host);
    CHECK_STATUS(stn_to_host(tensor, host, 12), STN_ERR_ARGUMENT);
    CHECK_STR(stn_context_error_text(context), "to_host: size got 12 bytes, wanted 16 (4 elements of f32)");
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_to_host(tensor, NULL, 16), STN_ERR_ARGUMENT);
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_to_host(NULL, host, 16), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_status(context), STN_OK);
    CHECK(stn_from_host(context, foreign, host) == context->error_tensor);
    CHECK_STR(stn_context_error_text(context), "from_host: spec got one of another context");
    stn_context_take_error(context, NULL, 0);
    CHECK(stn_empty(context, NULL) == context->error_tensor);
    CHECK_STATUS(stn_to_host(context->error_tensor, host, 16), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_to_host(context->error_tensor, host, 16), STN_ERR_STATE); /* left over */
    stn_context_take_error(context, NULL, 0);
    CHECK(stn_empty(NULL, spec) == NULL);
    CHECK(stn_from_host(NULL, spec, host) == NULL);
    stn_tensor_release(&tensor);
    stn_spec_release(&spec);
}

static void refuse_on_two_contexts(stn_context *context, void *arg)
{
    (void)arg;
    static const int64_t shape[] = {4};
    const stn_spec *spec = make_spec(context, STN_DTYPE_F32, 1, shape, NULL);
    on_one_rank(refuse_host_copies, (void *)(uintptr_t)spec);
    stn_spec_release(&spec);
}

static void bad_host_copies_are_refused_and_named(void)
{
    on_one_rank(refuse_on_two_contexts, NULL);
}

static void fill_gaps(stn_context *context, void *arg)
{
    (void)arg;
    static const int64_t shape[] = {1, 3, 4, 2}, before[] = {0, 0, 2, 1}, after[] = {0, 0, 1, 3};
    static const int order[] = {0, 2, 3, 1}; /* channels last */
    float host[24], back[24] = {0};
    for (int i = 0; i < 24; i++)
        host[i] = (float)i;
    const stn_spec *spec = make_spec(context, STN_DTYPE_F32, 4, shape, order);
    stn_tensor *tensor;
    CHECK_STATUS(make_with_gaps(context, spec, before, after, &tensor), STN_OK);
    /* 2 + 4 + 1 rows of 1 + 2 + 3 columns of 3 channels */
    CHECK_I64((int64_t)tensor->storage->bytes, 7 * 6 * 3 * 4);
    CHECK_I64(tensor->strides[1], 1);
    CHECK_I64(tensor->strides[3], 3);
    CHECK_I64(tensor->strides[2], 18);
    CHECK_I64((char *)tensor->data - (char *)tensor->storage->data, (2 * 18 + 1 * 3) * 4);
    CHECK_I64(stni_tensor_is_dense(tensor), 0);

    stn_tensor *from = stn_from_host(context, spec, host), *dense = NULL;
    stn_box to_box, from_box;
    stni_tensor_box(tensor, &to_box);
    stni_tensor_box(from, &from_box);
    CHECK_STATUS(stni_box_copy(context->queue, &to_box, &from_box, 4), STN_OK);
    CHECK_STATUS(stn_to_host(tensor, back, sizeof back), STN_OK);
    CHECK_BYTES(back, host, sizeof host);
    CHECK_STATUS(stni_tensor_dense(tensor, &dense), STN_OK);
    CHECK(dense != tensor && stni_tensor_is_dense(dense));
    CHECK_STATUS(stn_queue_sync(context->queue), STN_OK);
    CHECK_BYTES(dense->data, from->data, sizeof host);
    stn_tensor_release(&dense);
    CHECK_STATUS(stni_tensor_dense(from, &dense), STN_OK);
    CHECK(dense == from);
    stn_tensor_release(&dense);
    stn_tensor_release(&from);
    stn_tensor_release(&tensor);
    stn_spec_release(&spec);
}

static void a_chunk_with_gaps_is_copied_without_them(void)
{
    on_one_rank(fill_gaps, NULL);
}

static void share(stn_context *context, void *arg)
{
    (void)arg;
    static const int64_t shape[] = {4, 5}, row[] = {5}, column[] = {4}, column_stride[] = {5};
    float host[20], back[4];
    for (int i = 0; i < 20; i++)
        host[i] = (float)i;
    const stn_spec *whole = make_spec(context, STN_DTYPE_F32, 2, shape, NULL),
                   *one_row = make_spec(context, STN_DTYPE_F32, 1, row, NULL);
    const stn_spec *one_column = make_spec(context, STN_DTYPE_F32, 1, column, NULL);
    stn_tensor *base = stn_from_host(context, whole, host), *third_row, *second_column;
    struct stni_storage *storage = base->storage;
    float *data = base->data;
    CHECK_STATUS(stni_tensor_on(context, one_row, storage, data + 10, NULL, 0, &third_row), STN_OK);
    CHECK_STATUS(stni_tensor_on(context, one_column, storage, data + 1, column_stride, 0, &second_column), STN_OK);
    stni_tensor_show(third_row, base);
    stni_tensor_show(second_column, third_row);
    CHECK_I64(atomic_load(&storage->views), 2);
    CHECK_I64(stni_tensor_is_dense(third_row), 1);
    CHECK_I64(stni_tensor_is_dense(second_column), 0);
    stn_tensor_release(&base);
    stn_tensor_release(&third_row);
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    CHECK_I64(stats.live_tensors, 1);
    CHECK_I64(stats.live_storages, 1);
    CHECK_I64(atomic_load(&storage->views), 1);
    for (int is_cpu = 0; is_cpu < 2; is_cpu++) {
        context->device->is_cpu = is_cpu;
        CHECK_STATUS(stn_to_host(second_column, back, sizeof back), STN_OK);
        for (int i = 0; i < 4; i++)
            CHECK_NEAR(back[i], host[5 * i + 1], 0);
    }
    stn_tensor_release(&second_column);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.live_storages, 0);
    stn_spec_release(&whole);
    stn_spec_release(&one_row);
    stn_spec_release(&one_column);
    stni_shard_collect(context, 1);
    CHECK_I64(context->shard.n_specs, 0); /* no handle keeps one */
}

static void views_keep_the_storage_alive(void)
{
    on_one_rank(share, NULL);
}

/* A view may have elements of its own: what it shows counts it, and goes without waiting for it. */
static void show(stn_context *context, void *arg)
{
    (void)arg;
    static const int64_t shape[] = {4};
    const stn_spec *spec = make_spec(context, STN_DTYPE_F32, 1, shape, NULL);
    stn_tensor *base = stn_empty(context, spec), *view = stn_empty(context, spec), *of_view = stn_empty(context, spec),
               *other;
    struct stni_storage *storage = base->storage;
    stni_tensor_show(view, base);
    stni_tensor_show(of_view, view);
    CHECK_I64(atomic_load(&storage->views), 2);
    CHECK_I64(atomic_load(&view->storage->views), 0);
    CHECK(stn_tensor_is_view(view) && stn_tensor_is_view(of_view) && !stn_tensor_is_view(base));
    stni_tensor_show_nothing(of_view);
    CHECK(!stn_tensor_is_view(of_view));
    stni_tensor_show_nothing(of_view);
    CHECK_I64(atomic_load(&storage->views), 1);
    stn_tensor_release(&base);
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    CHECK_I64(stats.live_storages, 2);
    other = stn_empty(context, spec); /* its storage is another handle than the one that the view knows */
    CHECK(other->storage != storage);
    CHECK_I64(atomic_load(&storage->views), 1);
    stn_tensor_release(&view);
    stn_tensor_release(&of_view);
    stn_tensor_release(&other);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.live_storages, 0);
    stn_spec_release(&spec);
}

static void a_view_with_memory_of_its_own_is_counted(void)
{
    on_one_rank(show, NULL);
}

static void ask(stn_context *context, void *arg)
{
    (void)arg;
    char text[128];
    const stn_tensor *tensors[] = {NULL, context->error_tensor};
    for (int i = 0; i < 2; i++) {
        CHECK_I64(stn_tensor_is_error(tensors[i]), 1);
        CHECK(stn_tensor_spec(tensors[i]) == NULL);
        CHECK(stn_tensor_data(tensors[i]) == NULL);
        CHECK_I64(stn_tensor_ndim(tensors[i]), 0);
        for (int d = 0; d < STN_MAX_NDIM; d++)
            CHECK_I64(stn_tensor_shape(tensors[i])[d] | stn_tensor_local_shape(tensors[i])[d] |
                          stn_tensor_strides(tensors[i])[d],
                      0);
        CHECK_I64((int64_t)stn_tensor_dtype(tensors[i]), STN_DTYPE_F32);
    }
    CHECK(stn_tensor_context(NULL) == NULL);
    CHECK(stn_tensor_context(context->error_tensor) == context);
    CHECK(stn_tensor_retain(NULL) == NULL);
    for (int i = 0; i < 10; i++) {
        stn_tensor *error = context->error_tensor;
        stn_tensor_release(&error); /* never counted */
        stni_tensor_release_here(context->error_tensor);
    }
    CHECK(stn_tensor_retain(context->error_tensor) == context->error_tensor);
    CHECK(!stn_tensor_is_view(context->error_tensor) && !stn_tensor_is_view(NULL));
    stn_tensor *none = NULL;
    stn_tensor_release(&none);
    stn_tensor_release(NULL);
    stni_fail(context, STN_ERR_SHAPE, "add: they differ");
    stn_tensor_describe(context->error_tensor, text, sizeof text);
    CHECK_STR(text, "error tensor: add: they differ");
    stn_tensor_describe(NULL, text, sizeof text);
    CHECK_STR(text, "no tensor");
    stn_context_take_error(context, NULL, 0);
}

static void null_and_error_tensors_answer_every_question(void)
{
    on_one_rank(ask, NULL);
}

static void describe(stn_context *context, void *arg)
{
    (void)arg;
    static const int64_t shape[] = {3, 4};
    char whole[256], part[256], of_spec[256];
    const stn_spec *spec = make_spec(context, STN_DTYPE_F32, 2, shape, NULL);
    stn_tensor *base = stn_empty(context, spec), *tensor = stn_empty(context, spec);
    stni_tensor_show(tensor, base);
    tensor->flags |= STNI_TENSOR_REQUIRES_GRAD;
    int n = stn_tensor_describe(tensor, whole, sizeof whole);
    stn_spec_describe(spec, of_spec, sizeof of_spec);
    CHECK_I64(n, (int64_t)strlen(whole));
    CHECK(strncmp(whole, of_spec, strlen(of_spec)) == 0);
    CHECK_STR(whole + strlen(of_spec), ", view, requires grad");
    /* As snprintf: cut anywhere, the length of the whole is returned. */
    for (size_t size = 0; size <= strlen(whole); size++) {
        memset(part, '#', sizeof part);
        CHECK_I64(stn_tensor_describe(tensor, part, size), n);
        CHECK(part[size] == '#');
        if (size > 0)
            CHECK(part[size - 1] == '\0' && strncmp(part, whole, size - 1) == 0);
    }
    stn_tensor_release(&tensor);
    stn_tensor_release(&base);
    stn_spec_release(&spec);
}

static void description_is_the_specs_and_the_flags(void)
{
    on_one_rank(describe, NULL);
}

static void make_many(stn_context *context, void *arg)
{
    (void)arg;
    enum { N = 10000 };
    static stn_tensor *tensors[N];
    static const int64_t shape[] = {0};
    const stn_spec *spec = make_spec(context, STN_DTYPE_F32, 1, shape, NULL);
    int64_t before = counted_host_bytes();
    for (int i = 0; i < N; i++)
        tensors[i] = stn_empty(context, spec);
    CHECK(counted_host_bytes() - before <= 256 * N);
    for (int i = 0; i < N; i++)
        stn_tensor_release(&tensors[i]);
    CHECK_I64(live_tensors(context), 0);
    int64_t calls = counted_calls();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++)
            tensors[i] = stn_empty(context, spec);
        for (int i = 0; i < N; i++)
            stn_tensor_release(&tensors[i]);
    }
    CHECK_I64(counted_calls(), calls);
    stn_spec_release(&spec);
}

static void handle_and_storage_take_256_bytes_at_most_and_are_reused(void)
{
    on_one_rank(make_many, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"host_copies_are_row_major_whatever_the_memory_order", host_copies_are_row_major_whatever_the_memory_order},
        {"chunk_lies_in_the_specs_memory_order", chunk_lies_in_the_specs_memory_order},
        {"each_rank_copies_its_own_chunk_empty_ones_too", each_rank_copies_its_own_chunk_empty_ones_too},
        {"bad_host_copies_are_refused_and_named", bad_host_copies_are_refused_and_named},
        {"a_chunk_with_gaps_is_copied_without_them", a_chunk_with_gaps_is_copied_without_them},
        {"views_keep_the_storage_alive", views_keep_the_storage_alive},
        {"a_view_with_memory_of_its_own_is_counted", a_view_with_memory_of_its_own_is_counted},
        {"null_and_error_tensors_answer_every_question", null_and_error_tensors_answer_every_question},
        {"description_is_the_specs_and_the_flags", description_is_the_specs_and_the_flags},
        {"handle_and_storage_take_256_bytes_at_most_and_are_reused",
         handle_and_storage_take_256_bytes_at_most_and_are_reused},
    };
    return TEST_MAIN(argc, argv, cases);
}
