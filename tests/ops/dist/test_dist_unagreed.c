/* Collectives that a rank is refused without an agreement: of no mesh of its context, or begun as requests. Ranks that
 * are all refused lose nothing. One that is refused alone tells its peers, who wait for it, by where it comes next, or
 * by leaving. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

enum { N = 4 };

/* On the ranks of a job, where mpirun has started them; else on threads, as few as `least`, up to 3. */
static void run(int least, const stn_context_options *options, stn_rank_main body, void *arg)
{
    const int is_job = getenv("STN_TEST_MODULES") != NULL;
    for (int ranks = is_job ? 3 : least; ranks <= 3; ranks++)
        CHECK_STATUS(test_launch(is_job ? 0 : ranks, options, body, arg), STN_OK);
}

static stn_tensor *vector(stn_context *context)
{
    const int64_t n = N;
    return test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, test_value);
}

/* A mesh of another context of this thread, whose only rank it is. */
struct foreign {
    stn_context *context;
    const stn_mesh *mesh;
};

static void by_function(stn_context *context, const struct foreign *foreign)
{
    (void)foreign;
    stn_dist_all_reduce(vector(context), NULL, STN_SUM, STN_GRAD_PER_RANK);
}

static void of_another_context(stn_context *context, const struct foreign *foreign)
{
    stn_dist_all_gather(vector(context), foreign->mesh, 0, NULL, STN_GRAD_PER_RANK);
}

static void by_name(stn_context *context, const struct foreign *foreign)
{
    const stn_attr attr = {.name = "mesh", .type = STN_ATTR_INT, .value.i = 7};
    stn_tensor *x = vector(context), *y;
    (void)foreign;
    stn_call(context, "dist_all_reduce", 1, &x, 1, &attr, 1, &y);
}

static void in_place(stn_context *context, const struct foreign *foreign)
{
    (void)foreign;
    CHECK_STATUS(stn_dist_all_reduce_in_place(vector(context), NULL, STN_SUM, NULL), STN_ERR_ARGUMENT);
}

static void by_request(stn_context *context, const struct foreign *foreign)
{
    stn_dist_request *request = NULL;
    (void)foreign;
    CHECK_STATUS(stn_dist_broadcast_in_place(vector(context), NULL, 0, &request), STN_ERR_ARGUMENT);
    CHECK(request == NULL);
}

static void of_gradients(stn_context *context, const struct foreign *foreign)
{
    stn_tensor *w = vector(context);
    (void)foreign;
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    CHECK_STATUS(stn_grad_all_reduce(1, &w, NULL, 0, STN_SUM), STN_ERR_ARGUMENT);
}

static const struct way {
    void (*call)(stn_context *context, const struct foreign *foreign);
    const char *text;
} ways[] = {
    {by_function, "dist_all_reduce: mesh is NULL, wanted one of the tensor's context"},
    {of_another_context, "dist_all_gather: mesh is another context's, wanted one of the tensor's context"},
    {by_name, "dist_all_reduce: mesh got 7, wanted the number of a mesh of this context"},
    {in_place, "dist_all_reduce_in_place: mesh is NULL, wanted one of the tensor's context"},
    {by_request, "dist_broadcast_in_place: mesh is NULL, wanted one of the tensor's context"},
    {of_gradients, "grad_all_reduce: mesh is NULL, wanted one of the tensor's context"},
};

enum { WAYS = sizeof ways / sizeof *ways };

static int64_t collectives(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.collectives;
}

static stn_status reduce(stn_tensor *x, const stn_mesh *mesh)
{
    return stn_dist_all_reduce_in_place(x, mesh, STN_SUM, NULL);
}

static void check_usable(stn_context *context, const stn_mesh *mesh)
{
    double got[N];
    stn_tensor *x = vector(context);
    CHECK_STATUS(reduce(x, mesh), STN_OK);
    test_read(x, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], stn_mesh_size(mesh) * test_value(i), 1e-12);
}

/* As many times in a row, or with a collective behind each. */
static stn_status alike_body(stn_context *context, void *arg)
{
    const int each = *(const int *)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    struct foreign foreign = {NULL, NULL};
    CHECK_STATUS(stn_context_create(NULL, &foreign.context), STN_OK);
    CHECK_STATUS(stn_mesh_create(foreign.context, 1, (int[]){1}, NULL, NULL, &foreign.mesh), STN_OK);
    for (int w = 0; w < WAYS; w++) {
        stn_scope_begin(context);
        const int64_t before = collectives(context);
        ways[w].call(context, &foreign);
        CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, ways[w].text);
        CHECK_I64(collectives(context) - before, 0);
        if (each)
            check_usable(context, mesh);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    stn_context_destroy(&foreign.context);
    stn_scope_begin(context);
    check_usable(context, mesh);
    return stn_scope_end(context);
}

static void ranks_that_all_lack_a_mesh_are_refused_and_lose_nothing(void)
{
    for (int each = 0; each < 2; each++)
        run(1, NULL, alike_body, &each);
}

/* Rank 1 keeps its error, and brings it to the next collective. Its peers wait in the one that it was refused. */
static stn_status kept_body(stn_context *context, void *arg)
{
    const int odd = stn_context_rank(context) == 1;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = vector(context);
    if (odd)
        CHECK_STATUS(reduce(x, NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(reduce(x, mesh), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT,
                "rank 1: dist_all_reduce_in_place: mesh is NULL, wanted one of the tensor's context");
    check_usable(context, mesh);
    return stn_scope_end(context);
}

/* Rank 1 has taken its error, and goes on with a call that is the same as the one in which its peers wait. */
static stn_status taken_body(stn_context *context, void *arg)
{
    const int odd = stn_context_rank(context) == 1;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = vector(context);
    for (int i = 0; i < 2; i++) {
        if (odd) {
            CHECK_STATUS(reduce(x, NULL), STN_ERR_ARGUMENT);
            CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
        }
        CHECK_STATUS(reduce(x, mesh), STN_ERR_MISMATCH);
        CHECK_ERROR_PART(context, STN_ERR_MISMATCH, "refused calls before it ");
        check_usable(context, mesh);
    }
    return stn_scope_end(context);
}

static void a_rank_that_alone_lacks_a_mesh_tells_its_peers_in_its_next_collective(void)
{
    run(2, NULL, kept_body, NULL);
    run(2, NULL, taken_body, NULL);
}

/* Rank 1 has no tensor, its peers wait for what they have begun. It leaves. */
static stn_status request_body(stn_context *context, void *arg)
{
    const int odd = stn_context_rank(context) == 1;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_dist_request *request = NULL;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = vector(context);
    stn_status status = stn_dist_all_reduce_in_place(odd ? NULL : x, mesh, STN_SUM, &request);
    if (odd) {
        CHECK_STATUS(status, STN_ERR_ARGUMENT);
    } else {
        CHECK_STATUS(status == STN_OK ? stn_dist_wait(&request) : status, STN_ERR_PEER);
        CHECK_ERROR_PART(context, STN_ERR_PEER, "rank 1: dist_all_reduce_in_place: input is missing");
    }
    stn_scope_end(context);
    return STN_OK;
}

static void peers_of_a_refused_request_are_told_why_a_rank_has_left(void)
{
    const stn_context_options options = {.size = sizeof options, .deadline_seconds = 60};
    run(2, &options, request_body, NULL);
}

/* Other numbers of requests are refused for what all ranks have kept, one on each mesh: those who are between meshes
 * have more of them. All goes on once it was taken. */
static stn_status wake_body(stn_context *context, void *arg)
{
    const int rank = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_dist_request *request = NULL;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = vector(context);
    stn_matmul(test_tensor(context, NULL, NULL, STN_DTYPE_F64, 2, (int64_t[]){2, 3}, NULL, test_value), x);
    for (int i = 0; i <= rank; i++)
        CHECK_STATUS(stn_dist_all_reduce_in_place(x, mesh, STN_SUM, &request), STN_ERR_SHAPE);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_SHAPE);
    check_usable(context, mesh);
    return stn_scope_end(context);
}

static void what_is_refused_in_the_wake_of_an_error_is_no_difference(void)
{
    run(2, NULL, wake_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"ranks_that_all_lack_a_mesh_are_refused_and_lose_nothing",
         ranks_that_all_lack_a_mesh_are_refused_and_lose_nothing},
        {"a_rank_that_alone_lacks_a_mesh_tells_its_peers_in_its_next_collective",
         a_rank_that_alone_lacks_a_mesh_tells_its_peers_in_its_next_collective},
        {"peers_of_a_refused_request_are_told_why_a_rank_has_left",
         peers_of_a_refused_request_are_told_why_a_rank_has_left},
        {"what_is_refused_in_the_wake_of_an_error_is_no_difference",
         what_is_refused_in_the_wake_of_an_error_is_no_difference},
    };
    return TEST_MAIN(argc, argv, cases);
}
