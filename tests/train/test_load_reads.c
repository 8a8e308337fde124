/* What loading asks of the disk: each byte once and in few reads, whatever cuts the tensors; and what it does where the
 * disk refuses one rank. */
#include "ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 50, N = 3 };

static char folder[] = "/tmp/stn-reads-XXXXXX";
static char path[64];

/* The system's reads, counted, and refused to threads that ask for it from the byte `refused_from` on. */
static atomic_llong bytes_read, reads;
static _Thread_local int64_t refused_from;

__attribute__((visibility("default"))) ssize_t pread(int file, void *data, size_t bytes, off_t at)
{
    void *symbol = dlsym(RTLD_NEXT, "pread");
    ssize_t (*function)(int, void *, size_t, off_t);
    memcpy(&function, &symbol, sizeof function);
    if (refused_from > 0 && at >= refused_from) {
        errno = EIO;
        return -1;
    }
    const ssize_t n = function(file, data, bytes, at);
    atomic_fetch_add(&bytes_read, n > 0 ? n : 0);
    atomic_fetch_add(&reads, 1);
    return n;
}

/* Three tensors of rows, of which one has fewer than there are ranks. */
static const int64_t rows[N] = {40, 2, 33};
static const char *const names[N] = {"a", "b", "c"};
static const double zeros[40 * 7 * WIDTH];

static double other_value(int64_t i)
{
    return test_value(i + 1000);
}

static stn_tensor *tensor_on(stn_context *context, const stn_mesh *mesh, int i, int dim, double (*value)(int64_t))
{
    const stn_placement cut = stn_shard(dim);
    const int64_t shape[] = {rows[i], 7, WIDTH};
    return test_tensor(context, mesh, &cut, STN_DTYPE_F64, 3, shape, NULL, value);
}

static void make(stn_context *context, int dim, double (*value)(int64_t), stn_named_tensor *list)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    for (int i = 0; i < N; i++)
        list[i] = (stn_named_tensor){names[i], tensor_on(context, mesh, i, dim, value)};
}

/* Tensor i, which is cut along `dim`, is what was saved. */
static void check_loaded(stn_context *context, stn_tensor *got, int i, int dim)
{
    const stn_mesh *mesh = stn_spec_mesh(stn_tensor_spec(got));
    test_compare(stn_sub(got, tensor_on(context, mesh, i, dim, test_value)), zeros, rows[i] * 7 * WIDTH, 0);
}

static stn_status save_body(stn_context *context, void *arg)
{
    stn_named_tensor list[N];
    (void)arg;
    stn_scope_begin(context);
    make(context, 0, test_value, list);
    CHECK_STATUS(stn_save(context, path, N, list, 0, NULL), STN_OK);
    return stn_scope_end(context);
}

static stn_status load_body(stn_context *context, void *arg)
{
    const int dim = *(const int *)arg;
    stn_named_tensor list[N];
    stn_scope_begin(context);
    make(context, dim, other_value, list);
    CHECK_STATUS(stn_load(context, path, N, list), STN_OK);
    for (int i = 0; i < N; i++)
        check_loaded(context, list[i].tensor, i, dim);
    return stn_scope_end(context);
}

/* The header is each rank's, in two reads. */
static void each_byte_is_read_once_whatever_cuts_the_tensors(void)
{
    enum { HEADER = 1 << 10, HEADER_READS = 2 };
    test_ranks(1, save_body, NULL);
    const long long bytes = (rows[0] + rows[1] + rows[2]) * 7 * WIDTH * (long long)sizeof(double);
    for (int dim = 0; dim < 3; dim++)
        for (int ranks = 1; ranks <= 4; ranks++) {
            atomic_store(&bytes_read, 0);
            atomic_store(&reads, 0);
            test_ranks(ranks, load_body, &dim);
            const long long got = atomic_load(&bytes_read), calls = atomic_load(&reads);
            if (!CHECK(got >= bytes && got <= bytes + ranks * HEADER && calls <= ranks * (N + HEADER_READS)))
                fprintf(stderr, "    dim %d, %d ranks: %lld bytes of %lld in %lld reads\n", dim, ranks, got, bytes,
                        calls);
        }
}

/* Rank 1 cannot read what lies behind the header, nor can it tell the others before they have exchanged. */
static stn_status refused_body(stn_context *context, void *arg)
{
    const int dim = *(const int *)arg;
    stn_named_tensor list[N];
    stn_scope_begin(context);
    make(context, dim, other_value, list);
    refused_from = stn_context_rank(context) == 1 ? 1 << 10 : 0;
    CHECK_STATUS(stn_load(context, path, N, list), STN_ERR_IO);
    refused_from = 0;
    CHECK(strstr(stn_context_error_text(context), "cannot be read: Input/output error") != NULL);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_IO);
    CHECK_STATUS(stn_load(context, path, N, list), STN_OK);
    for (int i = 0; i < N; i++)
        check_loaded(context, list[i].tensor, i, dim);
    return stn_scope_end(context);
}

static void where_one_rank_cannot_read_all_say_so_and_can_try_again(void)
{
    test_ranks(1, save_body, NULL);
    for (int dim = 0; dim < 3; dim++)
        for (int ranks = 2; ranks <= 3; ranks++)
            test_ranks(ranks, refused_body, &dim);
}

/* Ranks 2 and 0 alone have the tensor; rank 1 joins the call and no exchange. */
static stn_status some_body(stn_context *context, void *arg)
{
    const int size = 2, ranks[] = {2, 0};
    const stn_mesh *mesh = NULL;
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_mesh_create(context, 1, &size, NULL, ranks, &mesh), STN_OK);
    const stn_named_tensor named = {names[0], tensor_on(context, mesh, 0, 2, other_value)};
    CHECK_STATUS(stn_load(context, path, 1, &named), STN_OK);
    check_loaded(context, named.tensor, 0, 2);
    return stn_scope_end(context);
}

static void ranks_outside_of_the_mesh_join_no_exchange(void)
{
    test_ranks(1, save_body, NULL);
    test_ranks(3, some_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"each_byte_is_read_once_whatever_cuts_the_tensors", each_byte_is_read_once_whatever_cuts_the_tensors},
        {"where_one_rank_cannot_read_all_say_so_and_can_try_again",
         where_one_rank_cannot_read_all_say_so_and_can_try_again},
        {"ranks_outside_of_the_mesh_join_no_exchange", ranks_outside_of_the_mesh_join_no_exchange},
    };
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    const int code = TEST_MAIN(argc, argv, cases);
    unlink(path);
    rmdir(folder);
    return code;
}
