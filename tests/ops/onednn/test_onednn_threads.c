/* The number of OpenMP threads is the calling thread's own: set for oneDNN, then put back. */
#include "harness.h"

#include "ops/onednn/onednn.h"

#include <string.h>

int omp_get_max_threads(void);
void omp_set_num_threads(int n);

static void threads_of_the_caller_are_left_as_they_were(void)
{
    stn_context_options options = {.size = sizeof options, .threads = 2};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    struct stni_onednn *library = stni_onednn_of(context);
    struct stni_onednn_product q;
    memset(&q, 0, sizeof q);
    q.dtype = STN_DTYPE_F32, q.batch = 1, q.m = q.n = q.k = 2;
    q.a_row = q.b_row = q.c_row = 2, q.a_col = q.b_col = 1;
    float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, c[4] = {0};
    omp_set_num_threads(3);
    CHECK_STATUS(stni_onednn_product(library, &q, a, b, c), STN_OK);
    CHECK_NEAR(c[3], 50, 0);
    CHECK_I64(omp_get_max_threads(), 3);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"threads_of_the_caller_are_left_as_they_were", threads_of_the_caller_are_left_as_they_were},
    };
    return TEST_MAIN(argc, argv, cases);
}
