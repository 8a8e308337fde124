/* Tensors of more elements than 32 bits can number, or on the stand-in more than it is told that they can. */
#include "harness.h"
#include "on_ranks.h"

#include "core/context/context.h"

#include <stdio.h>
#include <stdlib.h>

/* A tensor has so many more elements than 32-bit indices, in two rows. */
enum { MORE = 4 };

/* Where each access takes long (STN_TEST_FEW) a GPU has the 32-bit indices alone. */
static int64_t small_count(void)
{
    const char *text = getenv("STANDIN_SMALL");
    return text ? strtoll(text, NULL, 10) : getenv("STN_TEST_FEW") ? 4096 : (int64_t)1 << 31;
}

static stn_tensor *range(stn_context *context, int64_t n, double start, double step)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_arange(context, spec, start, step);
    stn_spec_release(&spec);
    return tensor;
}

/* Its only element. */
static int64_t value_of(stn_tensor *tensor)
{
    int64_t value = -1;
    stn_to_host(tensor, &value, sizeof value);
    return value;
}

static int64_t sum_of(stn_tensor *tensor)
{
    return value_of(stn_sum(tensor, 0, NULL, 0));
}

static int64_t n_different(stn_tensor *a, stn_tensor *b)
{
    return value_of(stn_count_nonzero(stn_ne(a, b), 0, NULL));
}

/* Whether each element and the one that lies as far from the other end are n - 1 together: whatever is once there and
 * once in reverse order, element 0 with the last one. */
static void check_symmetric(stn_tensor *x, int64_t n)
{
    const int dim = 0;
    stn_scope_begin(stn_tensor_context(x));
    stn_tensor *sums = stn_add(x, stn_flip(x, 1, &dim));
    CHECK_I64(value_of(stn_count_nonzero(stn_ne_number(sums, (double)(n - 1)), 0, NULL)), 0);
    stn_scope_end(stn_tensor_context(x));
}

static void check_picked(stn_context *context, stn_tensor *x, int64_t n)
{
    const int64_t places[] = {0, small_count() - 1, small_count(), n - 1}, n_places = 4;
    const stn_spec *spec = NULL;
    int64_t got[4] = {0}, last[2] = {0};
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, &n_places, NULL, &spec), STN_OK);
    stn_to_host(stn_index_select(x, 0, stn_from_host(context, spec, places)), got, sizeof got);
    stn_spec_release(&spec);
    CHECK_BYTES(got, places, sizeof got);
    stn_to_host(stn_slice(x, 0, n - 2, n, 1), last, sizeof last);
    CHECK(last[0] == n - 2 && last[1] == n - 1);
}

/* As two rows: sums along both dims, a row that is added to both, and the columns one after the other. */
static void check_rows(stn_context *context, stn_tensor *x, int64_t n)
{
    const int64_t m = n / 2, rows[] = {2, m};
    const int first = 0, second = 1;
    int64_t got[2] = {0};
    stn_scope_begin(context);
    stn_tensor *v = stn_view(x, 2, rows), *w = range(context, m, 0, 1);
    CHECK_I64(n_different(stn_sum(v, 1, &first, 0), range(context, m, (double)m, 2)), 0);
    stn_to_host(stn_sum(v, 1, &second, 0), got, sizeof got);
    CHECK_I64(got[0], m * (m - 1) / 2);
    CHECK_I64(got[1], m * (m - 1) / 2 + m * m);
    CHECK_I64(sum_of(stn_add(v, w)), n * (n - 1) / 2 + m * (m - 1));
    stn_tensor *columns = stn_reshape(stn_transpose(v, 0, 1), 1, &n);
    check_symmetric(columns, n);
    CHECK_I64(n_different(stn_slice(columns, 0, 1, n, 2), stn_add_number(w, (double)m)), 0);
    stn_scope_end(context);
}

/* Whether the device has the memory for it, which it then keeps. */
static int fits(stn_context *context, int64_t n)
{
    enum { AT_ONCE = 7 };
    const stn_spec *spec = NULL;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, &n, NULL, &spec), STN_OK);
    for (int i = 0; i < AT_ONCE; i++)
        stn_empty(context, spec);
    stn_spec_release(&spec);
    const stn_status status = stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK(status == STN_OK || status == STN_ERR_MEMORY);
    return status == STN_OK;
}

static stn_status body(stn_context *context, void *arg)
{
    const int64_t n = small_count() + MORE;
    (void)arg;
    if (context->device->is_cpu)
        return STN_OK;
    if (!fits(context, n)) {
        printf("seven tensors of %lld i64 are more than the device's memory\n", (long long)n);
        return STN_OK;
    }
    stn_scope_begin(context);
    stn_tensor *x = range(context, n, 0, 1);
    CHECK_I64(sum_of(x), n * (n - 1) / 2);
    CHECK_I64(value_of(stn_argmax(x, NULL, 0)), n - 1);
    check_symmetric(x, n);
    check_picked(context, x, n);
    check_rows(context, x, n);
    CHECK_I64(n_different(stn_cumsum(stn_add_number(stn_mul_number(x, 0), 1), 0), stn_add_number(x, 1)), 0);
    return stn_scope_end(context);
}

static void indices_of_64_bits_reach_every_element(void)
{
    on_ranks(1, body, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"indices_of_64_bits_reach_every_element", indices_of_64_bits_reach_every_element},
    };
    return TEST_MAIN(argc, argv, cases);
}
