/* Every collective of dist.h by the law of adjoints, <A x, y> = <x, A' y>, with cotangents that differ between ranks,
 * under the convention that differentiates the sum over ranks; A' is what backward gives. Prints the table of
 * docs/gradients.md: on threads the worst of each number of ranks, under mpirun that of the job. */
#include "collectives.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { MOST_RANKS = 8 };

struct worst {
    double error[N_COLLECTIVES][MOST_RANKS + 1]; /* by collective and number of ranks; rank 0 writes */
    int tried[N_COLLECTIVES][MOST_RANKS + 1];
};

static struct worst table;

static double cotangent_at(const struct setup *s, int rank, int64_t i, int64_t j)
{
    (void)s;
    return cotangent_value(rank, i, j);
}

/* <a, b>, and the squares of both norms, of this rank's elements. */
static void add_products(stn_tensor *a, stn_tensor *b, double sums[3])
{
    double x[256] = {0}, y[256] = {0};
    const int64_t n = stn_spec_numel(stn_tensor_spec(a));
    if (!CHECK(n <= 256) || !CHECK_I64(stn_spec_numel(stn_tensor_spec(b)), n))
        return;
    test_read(a, x, n);
    test_read(b, y, n);
    for (int64_t i = 0; i < n; i++) {
        sums[0] += x[i] * y[i];
        sums[1] += x[i] * x[i];
        sums[2] += y[i] * y[i];
    }
}

/* Relative to the product of the norms of A x and y, which bounds what rounding may do. */
static double relative_error(const double forward[3], const double backward[3])
{
    const double scale = sqrt(forward[1]) * sqrt(forward[2]);
    return fabs(forward[0] - backward[0]) / (scale > 0 ? scale : 1);
}

static void compare(stn_context *context, const struct setup *s, const stn_mesh *mesh)
{
    double products[6] = {0};
    if (s->convention != STN_GRAD_PER_RANK)
        return;
    stn_scope_begin(context);
    stn_tensor *x = local(context, s, s->rank, in_length(s, s->rank), in_value), *grad = NULL;
    stn_set_requires_grad(x, 1);
    stn_tensor *y = call_collective(s, x, mesh),
               *cotangent = local(context, s, s->rank, out_length(s, s->rank), cotangent_at);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    add_products(y, cotangent, products);
    add_products(x, grad, products + 3);
    test_sum(context, products, 6);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    const double error = relative_error(products, products + 3);
    CHECK(error <= 8 * DBL_EPSILON);
    if (s->rank != 0 || s->p > MOST_RANKS)
        return;
    table.error[s->collective][s->p] = fmax(table.error[s->collective][s->p], error);
    table.tried[s->collective][s->p]++;
}

static stn_status body(stn_context *context, void *arg)
{
    (void)arg;
    for_each_setup(context, compare);
    return stn_context_status(context);
}

static void print_row(enum collective collective, const int *sizes, int n)
{
    int tried = 0;
    printf("| %s |", collective_names[collective]);
    for (int k = 0; k < n; k++) {
        tried += table.tried[collective][sizes[k]];
        printf(" %.1e |", table.error[collective][sizes[k]]);
    }
    printf(" %d |\n", tried);
}

static void print_table(void)
{
    int sizes[MOST_RANKS], n = 0;
    for (int p = 1; p <= MOST_RANKS; p++)
        if (table.tried[ALL_GATHER][p])
            sizes[n++] = p;
    if (n == 0) /* another rank of the job prints */
        return;
    printf("| collective |");
    for (int k = 0; k < n; k++)
        printf(" %d |", sizes[k]);
    printf(" calls |\n");
    for (int v = 0; v < N_COLLECTIVES; v++)
        print_row((enum collective)v, sizes, n);
}

static void dot_products_of_a_collective_and_its_adjoint_are_equal(void)
{
    on_each_size(body, NULL);
    print_table();
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"dot_products_of_a_collective_and_its_adjoint_are_equal",
         dot_products_of_a_collective_and_its_adjoint_are_equal},
    };
    return TEST_MAIN(argc, argv, cases);
}
