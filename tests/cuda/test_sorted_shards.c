/* The gradient of a line that is sorted over ranks of a device, which goes back to where its elements stood: each rank
 * has several tiles of it. */
#include "harness.h"
#include "on_ranks.h"

enum { RANKS = 3, N = 20011 /* a prime */ };

/* Element i: a number from 0 to N - 1 that no other element has. */
static double number(int64_t i)
{
    return (double)(i * 7919 % N);
}

static double cotangent(int64_t place)
{
    return (double)(3 * place + 1);
}

static stn_tensor *line(stn_context *context, double (*value)(int64_t))
{
    static _Thread_local double whole[N];
    const int64_t n = N;
    const stn_placement cut = stn_shard(0);
    const stn_spec *spec = NULL;
    for (int64_t i = 0; i < N; i++)
        whole[i] = value(i);
    CHECK_STATUS(stn_spec_create(context, on_ranks_line(context), &cut, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host_global(context, spec, whole);
    stn_spec_release(&spec);
    return tensor;
}

static stn_status differentiate(stn_context *context, void *arg)
{
    stn_scope_begin(context);
    stn_tensor *x = line(context, number), *of_y = line(context, cotangent), *grad = NULL;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *y = stn_sort(x, 0, 0, NULL);
    CHECK_STATUS(stn_grad(context, 1, &y, &of_y, 1, &x, 0, 0, &grad), STN_OK);
    on_ranks_keep(context, grad, arg);
    return stn_scope_end(context);
}

/* A number's place in the sorted line is the number. */
static void gradients_of_a_sorted_line_go_back(void)
{
    static double want[N], got[N];
    int64_t wrong = 0;
    on_ranks(RANKS, differentiate, want, got);
    for (int64_t i = 0; i < N; i++) {
        const double right = cotangent((int64_t)number(i));
        wrong += got[i] < right || got[i] > right || want[i] < right || want[i] > right;
    }
    CHECK_I64(wrong, 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_of_a_sorted_line_go_back", gradients_of_a_sorted_line_go_back},
    };
    return TEST_MAIN(argc, argv, cases);
}
