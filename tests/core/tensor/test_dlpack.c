/* DLPack in both directions: the same memory, every dtype and stride, deleters called exactly once. */
#include "harness.h"

#include "core/context/context.h"
#include "core/tensor/dlpack.h"

#include <shardtensor/autograd.h>
#include <shardtensor/ops.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static stn_context *context_of_run(void)
{
    stn_context_options options = {.size = sizeof options, .queue = {.size = sizeof options.queue}};
    if (test_queue() == TEST_QUEUE_WORKER)
        options.queue = (stn_queue_options){.size = sizeof options.queue, .kind = STN_QUEUE_WORKER, .delay_seed = 9};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    return context;
}

static int64_t live_tensors(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.live_tensors;
}

static const struct {
    stn_dtype dtype;
    int code, bits;
} types[] = {
    {STN_DTYPE_F32, 2, 32}, {STN_DTYPE_F64, 2, 64},   {STN_DTYPE_BF16, 4, 16}, {STN_DTYPE_F16, 2, 16},
    {STN_DTYPE_I64, 0, 64}, {STN_DTYPE_I32, 0, 32},   {STN_DTYPE_U8, 1, 8},    {STN_DTYPE_BOOL, 6, 8},
    {STN_DTYPE_C64, 5, 64}, {STN_DTYPE_C128, 5, 128}, {STN_DTYPE_I8, 0, 8},    {STN_DTYPE_I16, 0, 16},
};

static stn_tensor *tensor_of(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, const int *order,
                             const void *data)
{
    const stn_spec *spec = NULL;
    stn_spec_options options = {.size = sizeof options, .memory_order = order};
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, dtype, ndim, shape, &options, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host(context, spec, data);
    stn_spec_release(&spec);
    return tensor;
}

static void every_dtype_goes_out_with_its_code_over_the_same_memory(void)
{
    stn_context *context = context_of_run();
    int64_t shape[2] = {3, 4}, host[24];
    for (int i = 0; i < 24; i++)
        host[i] = i;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct DLManagedTensorVersioned *managed = NULL;
        stn_tensor *tensor = tensor_of(context, types[i].dtype, 2, shape, NULL, host);
        if (!CHECK_STATUS(stn_tensor_to_dlpack(tensor, &managed), STN_OK))
            continue;
        const struct stni_dl_tensor *t = &managed->dl_tensor;
        CHECK_I64(managed->version.major, 1);
        CHECK_I64((int64_t)managed->flags, 0);
        CHECK_I64(t->dtype.code, types[i].code);
        CHECK_I64(t->dtype.bits, types[i].bits);
        CHECK_I64(t->dtype.lanes, 1);
        CHECK_I64(t->device.device_type, 1);
        CHECK_I64(t->device.device_id, 0);
        CHECK(t->data == stn_tensor_data(tensor) && t->byte_offset == 0);
        CHECK_I64(t->ndim, 2);
        CHECK(t->shape[0] == 3 && t->shape[1] == 4 && t->strides[0] == 4 && t->strides[1] == 1);
        CHECK_BYTES(t->data, host, 12 * stn_dtype_size(types[i].dtype));
        managed->deleter(managed);
        stn_tensor_release(&tensor);
    }
    CHECK_I64(live_tensors(context), 0);
    stn_context_destroy(&context);
}

static void what_is_immutable_goes_out_as_read_only(void)
{
    stn_context *context = context_of_run();
    const int64_t shape[] = {4};
    const float host[4] = {1, 2, 3, 4};
    struct DLManagedTensorVersioned *managed = NULL;
    stn_tensor *table = tensor_of(context, STN_DTYPE_F32, 1, shape, NULL, host), *part = stn_detach(table);
    CHECK_STATUS(stn_tensor_freeze(table), STN_OK);
    stn_tensor *all[] = {table, part};
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(stn_tensor_to_dlpack(all[i], &managed), STN_OK);
        CHECK_I64((int64_t)managed->flags, STNI_DL_READ_ONLY);
        managed->deleter(managed);
        stn_tensor_release(&all[i]);
    }
    stn_context_destroy(&context);
}

static void what_goes_out_outlives_the_handle_and_keeps_its_strides(void)
{
    stn_context *context = context_of_run();
    int64_t shape[3] = {2, 3, 4};
    static const int order[3] = {2, 0, 1}; /* outermost first */
    float host[24];
    for (int i = 0; i < 24; i++)
        host[i] = (float)i;
    struct DLManagedTensorVersioned *managed = NULL;
    stn_tensor *tensor = tensor_of(context, STN_DTYPE_F32, 3, shape, order, host);
    CHECK_STATUS(stn_tensor_to_dlpack(tensor, &managed), STN_OK);
    stn_tensor_release(&tensor);
    CHECK_I64(live_tensors(context), 1);
    const struct stni_dl_tensor *t = &managed->dl_tensor;
    CHECK(t->strides[0] == 3 && t->strides[1] == 1 && t->strides[2] == 6);
    for (int i = 0; i < 24; i++)
        CHECK_NEAR((double)((const float *)t->data)[i / 12 * 3 + i / 4 % 3 + i % 4 * 6], i, 0);
    managed->deleter(managed);
    CHECK_I64(live_tensors(context), 0);
    stn_context_destroy(&context);
}

/* By the last handle that is left. */
static void who_is_left_alone_owns_the_memory(void)
{
    stn_context *context = context_of_run();
    const int64_t shape[] = {4}, none[] = {0};
    const float host[4] = {1, 2, 3, 4};
    struct DLManagedTensorVersioned *managed = NULL;
    stn_tensor *tensor = tensor_of(context, STN_DTYPE_F32, 1, shape, NULL, host), *part = NULL, *second, *empty;
    CHECK_I64(stn_tensor_owns_memory(tensor), 1);
    CHECK_STATUS(stn_tensor_to_dlpack(tensor, &managed), STN_OK);
    CHECK_I64(stn_tensor_owns_memory(tensor), 0);
    managed->deleter(managed);
    CHECK_I64(stn_tensor_owns_memory(tensor), 1);
    second = stn_tensor_retain(tensor);
    CHECK_I64(stn_tensor_owns_memory(tensor), 0);
    stn_tensor_release(&second);
    part = stn_detach(tensor);
    CHECK_I64(stn_tensor_owns_memory(tensor) + stn_tensor_owns_memory(part), 0);
    stn_tensor_release(&tensor);
    CHECK_I64(stn_tensor_owns_memory(part), 1);
    second = stn_slice(part, 0, 1, 3, 1);
    stn_tensor_release(&part);
    CHECK_I64(stn_tensor_owns_memory(second), 0); /* of four elements */
    stn_tensor_release(&second);
    empty = tensor_of(context, STN_DTYPE_F32, 1, none, NULL, host);
    CHECK_I64(stn_tensor_owns_memory(empty) + stn_tensor_owns_memory(NULL), 0);
    stn_tensor_release(&empty);
    stn_context_destroy(&context);
}

static void *delete_elsewhere(void *arg)
{
    struct DLManagedTensorVersioned *managed = arg;
    managed->deleter(managed);
    return NULL;
}

static void deleter_may_run_on_another_thread(void)
{
    stn_context *context = context_of_run();
    int64_t shape[1] = {5};
    double host[5] = {1, 2, 3, 4, 5};
    struct DLManagedTensorVersioned *managed = NULL;
    pthread_t thread;
    stn_tensor *tensor = tensor_of(context, STN_DTYPE_F64, 1, shape, NULL, host);
    CHECK_STATUS(stn_tensor_to_dlpack(tensor, &managed), STN_OK);
    stn_tensor_release(&tensor);
    pthread_create(&thread, NULL, delete_elsewhere, managed);
    pthread_join(thread, NULL);
    CHECK_I64(live_tensors(context), 0);
    stn_context_destroy(&context);
}

static void scalars_and_empty_tensors_go_out_and_come_in(void)
{
    static const int64_t shapes[2][2] = {{0, 3}, {0, 0}};
    stn_context *context = context_of_run();
    int32_t host = 7;
    for (int i = 0; i < 2; i++) {
        struct DLManagedTensorVersioned *managed = NULL;
        stn_tensor *out = tensor_of(context, STN_DTYPE_I32, i == 0 ? 2 : 0, shapes[i], NULL, &host), *in;
        CHECK_STATUS(stn_tensor_to_dlpack(out, &managed), STN_OK);
        CHECK_I64(managed->dl_tensor.ndim, i == 0 ? 2 : 0);
        in = stn_tensor_from_dlpack(context, managed);
        CHECK(!stn_tensor_is_error(in));
        CHECK_I64(stn_tensor_ndim(in), i == 0 ? 2 : 0);
        if (i == 1) {
            int32_t back = 0;
            CHECK_STATUS(stn_to_host(in, &back, sizeof back), STN_OK);
            CHECK_I64(back, 7);
        }
        stn_tensor_release(&out);
        stn_tensor_release(&in);
    }
    live_tensors(context); /* frees what came in, whose deleter gives back what went out */
    stn_queue_sync(stn_context_queue(context));
    CHECK_I64(live_tensors(context), 0);
    stn_context_destroy(&context);
}

static void tensor_that_requires_grad_is_refused_until_detached(void)
{
    stn_context *context = context_of_run();
    int64_t shape[1] = {2};
    double host[2] = {1, 2};
    struct DLManagedTensorVersioned *managed = NULL;
    stn_tensor *leaf = tensor_of(context, STN_DTYPE_F64, 1, shape, NULL, host);
    CHECK_STATUS(stn_set_requires_grad(leaf, 1), STN_OK);
    CHECK_STATUS(stn_tensor_to_dlpack(leaf, &managed), STN_ERR_STATE);
    CHECK(managed == NULL);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    stn_tensor *detached = stn_detach(leaf);
    CHECK_STATUS(stn_tensor_to_dlpack(detached, &managed), STN_OK);
    managed->deleter(managed);
    stn_tensor_release(&detached);
    stn_tensor_release(&leaf);
    stn_context_destroy(&context);
}

/* What another library would hand us. */
struct foreign {
    struct DLManagedTensorVersioned managed;
    int64_t shape[8], strides[8];
    float data[64];
    int deleted;
};

static void foreign_delete(struct DLManagedTensorVersioned *self)
{
    ((struct foreign *)self->manager_ctx)->deleted++;
}

static struct foreign *foreign_new(void)
{
    struct foreign *f = calloc(1, sizeof *f);
    for (int i = 0; i < 64; i++)
        f->data[i] = (float)i;
    memcpy(f->shape, (int64_t[]){3, 4}, 2 * sizeof(int64_t));
    memcpy(f->strides, (int64_t[]){1, 5}, 2 * sizeof(int64_t));
    f->managed = (struct DLManagedTensorVersioned){
        .version = {1, 3},
        .manager_ctx = f,
        .deleter = foreign_delete,
        .dl_tensor = {.data = f->data,
                      .device = {1, 0},
                      .ndim = 2,
                      .dtype = {2, 32, 1},
                      .shape = f->shape,
                      .strides = f->strides,
                      .byte_offset = 8},
    };
    return f;
}

static void what_comes_in_is_the_same_memory_and_is_deleted_once_at_its_last_use(void)
{
    stn_context *context = context_of_run();
    struct foreign *f = foreign_new();
    float back[12];
    stn_tensor *tensor = stn_tensor_from_dlpack(context, &f->managed);
    CHECK(!stn_tensor_is_error(tensor));
    CHECK(stn_tensor_data(tensor) == (void *)(f->data + 2));
    stn_tensor *again = stn_tensor_retain(tensor);
    stn_tensor_release(&tensor);
    CHECK_STATUS(stn_to_host(again, back, sizeof back), STN_OK);
    for (int i = 0; i < 12; i++)
        CHECK_NEAR((double)back[i], 2 + i / 4 + i % 4 * 5, 0);
    CHECK_I64(f->deleted, 0);
    stn_tensor_release(&again);
    CHECK_I64(live_tensors(context), 0);
    stn_queue_sync(stn_context_queue(context));
    CHECK_I64(live_tensors(context), 0); /* an action of the context's */
    CHECK_I64(f->deleted, 1);
    stn_context_destroy(&context);
    CHECK_I64(f->deleted, 1);
    free(f);
}

static void strides_may_be_absent_and_a_deleter_too(void)
{
    stn_context *context = context_of_run();
    struct foreign *f = foreign_new();
    float back[12];
    f->managed.dl_tensor.strides = NULL;
    f->managed.dl_tensor.byte_offset = 0;
    f->managed.deleter = NULL;
    stn_tensor *tensor = stn_tensor_from_dlpack(context, &f->managed);
    CHECK_STATUS(stn_to_host(tensor, back, sizeof back), STN_OK);
    CHECK_BYTES(back, f->data, sizeof back);
    stn_tensor_release(&tensor);
    stn_context_destroy(&context);
    free(f);
}

static void tensor_of_a_scope_is_deleted_with_the_context_and_one_of_the_callers_with_its_handle(void)
{
    stn_context *context = context_of_run();
    struct foreign *owned = foreign_new(), *scoped = foreign_new();
    stn_tensor *tensor = stn_tensor_from_dlpack(context, &owned->managed);
    CHECK(!stn_tensor_is_error(tensor));
    stn_scope_begin(context);
    CHECK(!stn_tensor_is_error(stn_tensor_from_dlpack(context, &scoped->managed)));
    stn_context_destroy(&context);
    CHECK_I64(scoped->deleted, 1);
    CHECK_I64(owned->deleted, 0);
    stn_tensor_release(&tensor);
    CHECK_I64(owned->deleted, 1);
    free(owned);
    free(scoped);
}

static void check_refused(stn_context *context, struct foreign *f, stn_status status, const char *part)
{
    char text[256];
    CHECK(stn_tensor_is_error(stn_tensor_from_dlpack(context, &f->managed)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), status);
    CHECK(strstr(text, part) != NULL);
    CHECK_I64(f->deleted, 0);
    free(f);
}

static void what_we_cannot_hold_is_refused_and_stays_the_callers(void)
{
    stn_context *context = context_of_run();
    struct foreign *f = foreign_new();
    f->managed.version.major = 2;
    check_refused(context, f, STN_ERR_VERSION, "DLPack 2.3, wanted 1");
    f = foreign_new();
    f->managed.flags = 1;
    check_refused(context, f, STN_ERR_UNSUPPORTED, "read-only");
    f = foreign_new();
    f->managed.dl_tensor.device.device_type = 2;
    check_refused(context, f, STN_ERR_DEVICE, "type 2, id 0, wanted type 1");
    f = foreign_new();
    f->managed.dl_tensor.dtype = (struct stni_dl_data_type){2, 8, 1};
    check_refused(context, f, STN_ERR_DTYPE, "code 2 with 8 bits");
    f = foreign_new();
    f->managed.dl_tensor.dtype.lanes = 4;
    check_refused(context, f, STN_ERR_DTYPE, "4 lanes");
    f = foreign_new();
    f->managed.dl_tensor.ndim = 9;
    check_refused(context, f, STN_ERR_ARGUMENT, "ndim got 9");
    f = foreign_new();
    f->managed.dl_tensor.shape = NULL;
    check_refused(context, f, STN_ERR_ARGUMENT, "shape got NULL, wanted 2 sizes");
    f = foreign_new();
    f->strides[1] = -5;
    check_refused(context, f, STN_ERR_ARGUMENT, "strides[1] got -5");
    f = foreign_new();
    f->managed.dl_tensor.byte_offset = 2;
    check_refused(context, f, STN_ERR_ARGUMENT, "multiple of 4");
    CHECK(stn_tensor_is_error(stn_tensor_from_dlpack(context, NULL)));
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
    CHECK_I64(live_tensors(context), 0);
    stn_context_destroy(&context);
}

/* Without a stream nothing waits and the memory is the same; on one the CPU's memory cannot be ordered. */
static void the_cpu_has_no_streams(void)
{
    stn_context *context = context_of_run();
    struct DLManagedTensorVersioned *managed = NULL;
    const int64_t shape[1] = {3};
    const float host[3] = {1, 2, 3};
    char text[256];
    int32_t type = 0, index = -1;
    stn_tensor *x = tensor_of(context, STN_DTYPE_F32, 1, shape, NULL, host);
    CHECK_STATUS(stn_context_dlpack_device(context, &type, &index), STN_OK);
    CHECK(type == STNI_DL_CPU && index == 0);
    CHECK_STATUS(stn_context_dlpack_device(context, NULL, &index), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_tensor_to_dlpack_on(x, STN_DLPACK_LEGACY, &managed), STN_ERR_UNSUPPORTED);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_UNSUPPORTED);
    CHECK_STR(text, "to_dlpack: stream got 1, wanted -1: device cpu has no streams");
    CHECK_STATUS(stn_tensor_to_dlpack_on(x, STN_DLPACK_NO_STREAM, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    if (CHECK_STATUS(stn_tensor_to_dlpack_on(x, STN_DLPACK_NO_STREAM, &managed), STN_OK)) {
        CHECK_BYTES(managed->dl_tensor.data, host, sizeof host);
        CHECK(stn_tensor_is_error(stn_tensor_from_dlpack_on(context, managed, STN_DLPACK_PER_THREAD)));
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_UNSUPPORTED);
        stn_tensor *y = stn_tensor_from_dlpack_on(context, managed, STN_DLPACK_NO_STREAM);
        CHECK(stn_tensor_data(y) == stn_tensor_data(x));
        stn_tensor_release(&y);
    }
    stn_tensor_release(&x);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_dtype_goes_out_with_its_code_over_the_same_memory",
         every_dtype_goes_out_with_its_code_over_the_same_memory},
        {"what_is_immutable_goes_out_as_read_only", what_is_immutable_goes_out_as_read_only},
        {"what_goes_out_outlives_the_handle_and_keeps_its_strides",
         what_goes_out_outlives_the_handle_and_keeps_its_strides},
        {"who_is_left_alone_owns_the_memory", who_is_left_alone_owns_the_memory},
        {"deleter_may_run_on_another_thread", deleter_may_run_on_another_thread},
        {"scalars_and_empty_tensors_go_out_and_come_in", scalars_and_empty_tensors_go_out_and_come_in},
        {"tensor_that_requires_grad_is_refused_until_detached", tensor_that_requires_grad_is_refused_until_detached},
        {"what_comes_in_is_the_same_memory_and_is_deleted_once_at_its_last_use",
         what_comes_in_is_the_same_memory_and_is_deleted_once_at_its_last_use},
        {"strides_may_be_absent_and_a_deleter_too", strides_may_be_absent_and_a_deleter_too},
        {"tensor_of_a_scope_is_deleted_with_the_context_and_one_of_the_callers_with_its_handle",
         tensor_of_a_scope_is_deleted_with_the_context_and_one_of_the_callers_with_its_handle},
        {"the_cpu_has_no_streams", the_cpu_has_no_streams},
        {"what_we_cannot_hold_is_refused_and_stays_the_callers", what_we_cannot_hold_is_refused_and_stays_the_callers},
    };
    return TEST_MAIN(argc, argv, cases);
}
