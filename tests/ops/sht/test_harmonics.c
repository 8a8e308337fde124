/* What spherical harmonic transforms are: closed forms, round trips, Parseval's identity, rotations, gradients of
 * potentials. On one rank and on six. */
#include "ranks.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NLAT = 9,
    NLON = 16,
    N = NLAT * NLON,
    LMAX = 5,
    MMAX = 5,
    COEFFICIENTS = LMAX * MMAX,
    N_GRIDS = 3,
    HARMONICS = 7
};

typedef double _Complex complex_number;

/* On the grid under test, latitudes and longitudes on different axes of a mesh. */
struct grid {
    stn_context *context;
    const stn_mesh *mesh;
    stn_sht_basis basis;
    double theta[NLAT], weight[NLAT];
};

static double longitude(int j)
{
    return 2 * M_PI * j / NLON;
}

/* A harmonic, its derivative along theta, and its derivative along phi divided by sin(theta). */
struct harmonic {
    complex_number value, meridional, zonal;
};

/* With the Condon-Shortley phase; at poles the limits. */
static struct harmonic harmonic(int which, double t, double phi)
{
    const double s = sin(t), c = cos(t);
    const complex_number e = cexp(I * phi), e2 = e * e, e3 = e2 * e;
    switch (which) {
    case 0: return (struct harmonic){sqrt(1 / (4 * M_PI)), 0, 0};
    case 1: return (struct harmonic){sqrt(3 / (4 * M_PI)) * c, -sqrt(3 / (4 * M_PI)) * s, 0};
    case 2:
        return (struct harmonic){-sqrt(3 / (8 * M_PI)) * s * e, -sqrt(3 / (8 * M_PI)) * c * e,
                                 -sqrt(3 / (8 * M_PI)) * I * e};
    case 3: return (struct harmonic){sqrt(5 / (16 * M_PI)) * (3 * c * c - 1), -sqrt(5 / (16 * M_PI)) * 6 * c * s, 0};
    case 4:
        return (struct harmonic){-sqrt(15 / (8 * M_PI)) * s * c * e, -sqrt(15 / (8 * M_PI)) * (c * c - s * s) * e,
                                 -sqrt(15 / (8 * M_PI)) * c * I * e};
    case 5:
        return (struct harmonic){sqrt(15 / (32 * M_PI)) * s * s * e2, sqrt(15 / (32 * M_PI)) * 2 * s * c * e2,
                                 sqrt(15 / (32 * M_PI)) * s * 2 * I * e2};
    default:
        return (struct harmonic){-sqrt(35 / (64 * M_PI)) * s * s * s * e3, -sqrt(35 / (64 * M_PI)) * 3 * s * s * c * e3,
                                 -sqrt(35 / (64 * M_PI)) * s * s * 3 * I * e3};
    }
}

static const struct {
    int l, m;
} numbers[HARMONICS] = {{0, 0}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {2, 2}, {3, 3}};

/* The amplitude of a harmonic in the real field Re(amplitude Y), and the coefficient that it has then. */
static const complex_number amplitude = 1 - 2 * I;

static complex_number coefficient_of(int which)
{
    return numbers[which].m == 0 ? creal(amplitude) : amplitude / 2;
}

static void fill_coefficients(double *out)
{
    memset(out, 0, HARMONICS * COEFFICIENTS * 2 * sizeof *out);
    for (int h = 0; h < HARMONICS; h++) {
        double *to = out + 2 * (h * COEFFICIENTS + numbers[h].l * MMAX + numbers[h].m);
        to[0] = creal(coefficient_of(h));
        to[1] = cimag(coefficient_of(h));
    }
}

static void fill_fields(const struct grid *g, double *value, double *meridional, double *zonal)
{
    for (int h = 0; h < HARMONICS; h++)
        for (int i = 0; i < N; i++) {
            const struct harmonic y = harmonic(h, g->theta[i / NLON], longitude(i % NLON));
            value[h * N + i] = creal(amplitude * y.value);
            meridional[h * N + i] = creal(amplitude * y.meridional);
            zonal[h * N + i] = creal(amplitude * y.zonal);
        }
}

static stn_tensor *tensor_of(const struct grid *g, const char *placements, int ndim, const int64_t *shape,
                             const double *values)
{
    return stn_from_host_global(g->context, stn_spec_of(g->mesh, STN_DTYPE_F64, placements, ndim, shape), values);
}

/* Fields, and pairs of coefficients. */
static stn_tensor *fields_of(const struct grid *g, int64_t n, const double *values)
{
    return tensor_of(g, "S1,S2", 3, (const int64_t[]){n, NLAT, NLON}, values);
}

static stn_tensor *coefficients_of(const struct grid *g, int64_t n, const double *values)
{
    return stn_view_as_complex(tensor_of(g, "S1,S2", 4, (const int64_t[]){n, LMAX, MMAX, 2}, values));
}

/* Differences are measured by the size of numbers, which is 1. */
static void compare(stn_tensor *tensor, const double *want, int64_t n)
{
    double *got = malloc((size_t)n * sizeof *got), largest = 0;
    test_read(tensor, got, n);
    for (int64_t i = 0; i < n; i++)
        largest = test_worst(largest, fabs(got[i] - want[i]));
    CHECK(largest < 1e-14 * 16);
    free(got);
}

static void harmonics_of(const struct grid *g)
{
    double value[HARMONICS * N], meridional[HARMONICS * N], zonal[HARMONICS * N], c[HARMONICS * COEFFICIENTS * 2];
    fill_fields(g, value, meridional, zonal);
    fill_coefficients(c);
    compare(stn_view_as_real(stn_sht(fields_of(g, HARMONICS, value), LMAX, MMAX, &g->basis)), c,
            HARMONICS * COEFFICIENTS * 2);
    compare(stn_isht(coefficients_of(g, HARMONICS, c), NLAT, NLON, &g->basis), value, HARMONICS * N);
}

/* The gradient of a potential has no toroidal part; turned by a right angle it has no other. The constant has none. */
static void gradients_of(const struct grid *g)
{
    double value[HARMONICS * N], meridional[HARMONICS * N], zonal[HARMONICS * N], c[HARMONICS * COEFFICIENTS * 2];
    static const double zeros[HARMONICS * COEFFICIENTS * 2];
    fill_fields(g, value, meridional, zonal);
    fill_coefficients(c);
    stn_tensor *south = fields_of(g, HARMONICS, meridional), *east = fields_of(g, HARMONICS, zonal);
    stn_tensor *some = coefficients_of(g, HARMONICS, c), *none = coefficients_of(g, HARMONICS, zeros);
    stn_tensor *gradient = stn_stack(2, (stn_tensor *[]){south, east}, 1);
    stn_tensor *turned = stn_stack(2, (stn_tensor *[]){east, stn_neg(south)}, 1);
    stn_tensor *spheroidal = stn_vsht(gradient, LMAX, MMAX, &g->basis),
               *toroidal = stn_vsht(turned, LMAX, MMAX, &g->basis);
    c[0] = c[1] = 0;
    compare(stn_view_as_real(stn_select(spheroidal, 1, 0)), c, HARMONICS * COEFFICIENTS * 2);
    compare(stn_view_as_real(stn_select(spheroidal, 1, 1)), zeros, HARMONICS * COEFFICIENTS * 2);
    compare(stn_view_as_real(stn_select(toroidal, 1, 0)), zeros, HARMONICS * COEFFICIENTS * 2);
    compare(stn_view_as_real(stn_select(toroidal, 1, 1)), c, HARMONICS * COEFFICIENTS * 2);
    stn_tensor *back = stn_ivsht(stn_stack(2, (stn_tensor *[]){some, none}, 1), NLAT, NLON, &g->basis);
    compare(stn_select(back, 1, 0), meridional, HARMONICS * N);
    compare(stn_select(back, 1, 1), zonal, HARMONICS * N);
    back = stn_ivsht(stn_stack(2, (stn_tensor *[]){none, some}, 1), NLAT, NLON, &g->basis);
    compare(stn_select(back, 1, 0), zonal, HARMONICS * N);
    for (int i = 0; i < HARMONICS * N; i++)
        meridional[i] = -meridional[i];
    compare(stn_select(back, 1, 1), meridional, HARMONICS * N);
}

/* Coefficients of a field: real for order 0, none below the order. */
static void draw(double *c)
{
    for (int l = 0; l < LMAX; l++)
        for (int m = 0; m < MMAX; m++)
            for (int part = 0; part < 2; part++)
                c[2 * (l * MMAX + m) + part] = m > l || (m == 0 && part == 1) ? 0 : test_value(17 * l + 5 * m + part);
}

/* Round trip; Parseval's identity, by the quadrature's weights; a turn of the sphere is a phase. */
static void identities_of(const struct grid *g)
{
    enum { TURN = 3 };
    double c[COEFFICIENTS * 2], turned[COEFFICIENTS * 2], field[N], power[LMAX] = {0}, integral = 0, energy = 0;
    draw(c);
    stn_tensor *x = stn_isht(coefficients_of(g, 1, c), NLAT, NLON, &g->basis);
    compare(stn_view_as_real(stn_sht(x, LMAX, MMAX, &g->basis)), c, COEFFICIENTS * 2);
    test_read(x, field, N);
    for (int i = 0; i < N; i++)
        integral += 2 * M_PI / NLON * g->weight[i / NLON] * field[i] * field[i];
    for (int i = 0; i < COEFFICIENTS; i++) {
        const int m = i % MMAX;
        const complex_number z = (c[2 * i] + I * c[2 * i + 1]) * cexp(-I * (m * longitude(TURN)));
        energy += (m == 0 ? 1 : 2) * pow(cabs(z), 2);
        power[i / MMAX] += (m == 0 ? 1 : 2) * pow(cabs(z), 2);
        turned[2 * i] = creal(z);
        turned[2 * i + 1] = cimag(z);
    }
    CHECK_NEAR(integral, energy, 1e-13);
    compare(stn_degree_power(stn_sht(x, LMAX, MMAX, &g->basis)), power, LMAX);
    x = stn_roll(x, 1, (const int64_t[]){TURN}, (const int[]){2});
    compare(stn_view_as_real(stn_sht(x, LMAX, MMAX, &g->basis)), turned, COEFFICIENTS * 2);
}

/* Factors of the norms, and the sign of odd orders. */
static void norms_of(const struct grid *g)
{
    double c[COEFFICIENTS * 2], want[COEFFICIENTS * 2];
    draw(c);
    stn_tensor *x = stn_isht(coefficients_of(g, 1, c), NLAT, NLON, &g->basis);
    for (int norm = STN_SHT_ORTHO; norm <= STN_SHT_SCHMIDT; norm++)
        for (int without = 0; without < 2; without++) {
            const stn_sht_basis basis = {sizeof basis, g->basis.grid, (stn_sht_norm)norm, without};
            for (int i = 0; i < 2 * COEFFICIENTS; i++) {
                const int l = i / 2 / MMAX, m = i / 2 % MMAX;
                const double factor = norm == STN_SHT_ORTHO     ? 1
                                      : norm == STN_SHT_FOUR_PI ? sqrt(4 * M_PI)
                                                                : sqrt(4 * M_PI / (2 * l + 1));
                want[i] = c[i] * factor * (without && m % 2 ? -1 : 1);
            }
            stn_tensor *got = stn_sht(x, LMAX, MMAX, &basis);
            compare(stn_view_as_real(got), want, 2 * COEFFICIENTS);
            compare(stn_view_as_real(stn_sht(stn_isht(got, NLAT, NLON, &basis), LMAX, MMAX, &g->basis)), c,
                    2 * COEFFICIENTS);
        }
}

static stn_status on_each_grid(stn_context *context, void *arg)
{
    void (*const *check)(const struct grid *) = arg;
    const int is_one = stn_context_size(context) == 1;
    for (int kind = 0; kind < N_GRIDS; kind++) {
        struct grid g = {.context = context,
                         .mesh = test_mesh(context, is_one ? 1 : 2, is_one ? 1 : 3),
                         .basis = {sizeof g.basis, (stn_sht_grid)kind, STN_SHT_ORTHO, 0}};
        CHECK_STATUS(stn_sht_latitudes(g.basis.grid, NLAT, g.theta, g.weight), STN_OK);
        stn_scope_begin(context);
        (*check)(&g);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void on_one_rank_and_six(void (*check)(const struct grid *))
{
    test_ranks(1, on_each_grid, &check);
    test_ranks(6, on_each_grid, &check);
}

static void coefficients_are_those_of_closed_forms(void)
{
    on_one_rank_and_six(harmonics_of);
}

static void vectors_are_gradients_and_turned_gradients(void)
{
    on_one_rank_and_six(gradients_of);
}

static void round_trips_energies_and_turns_are_kept(void)
{
    on_one_rank_and_six(identities_of);
}

static void norms_and_phases_are_factors(void)
{
    on_one_rank_and_six(norms_of);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"coefficients_are_those_of_closed_forms", coefficients_are_those_of_closed_forms},
        {"vectors_are_gradients_and_turned_gradients", vectors_are_gradients_and_turned_gradients},
        {"round_trips_energies_and_turns_are_kept", round_trips_energies_and_turns_are_kept},
        {"norms_and_phases_are_factors", norms_and_phases_are_factors},
    };
    return TEST_MAIN(argc, argv, cases);
}
