/* Flow on a rotating sphere by spherical harmonics: the barotropic vorticity equation
 *
 *     d zeta / dt = -div(v (zeta + 2 OMEGA cos(theta))),
 *
 * zeta the vorticity and v the wind without divergence that has it, on a grid whose latitudes and longitudes are cut
 * over the ranks. Vorticity is kept as its coefficients. The toroidal part of the wind has zeta's divided by l (l + 1),
 * and the divergence of a vector field is its spheroidal part times -l (l + 1), so that a step is two transforms to the
 * grid, a product there, and one back.
 *
 * The program checks that energy and enstrophy stay what they are, that a wave of one degree goes round as Rossby and
 * Haurwitz found, and that all numbers of ranks give the same. */
#include "common/same_results.h"

#include <math.h>
#include <stdio.h>

/* Products of two fields of DEGREES - 1 and their integrals are exact on this grid. */
enum { NLAT = 17, NLON = 32, DEGREES = 11, COEFFICIENTS = DEGREES * DEGREES, STEPS = 25 };
static const double OMEGA = 1, STEP = 0.01;
static const stn_sht_basis gauss = {.size = sizeof gauss, .grid = STN_SHT_LEGENDRE_GAUSS};

struct sphere {
    stn_context *context;
    const stn_mesh *mesh;
    stn_tensor *laplacian, *inverse; /* l (l + 1), and 1 / (l (l + 1)) but 0 for l = 0 */
    stn_tensor *rotation;            /* 2 OMEGA cos(theta) */
};

static stn_tensor *column(const struct sphere *s, int64_t n, const double *values)
{
    return stn_from_host_global(s->context, stn_spec_of(s->mesh, STN_DTYPE_F64, "S0,R", 2, (int64_t[]){n, 1}), values);
}

static void make_columns(struct sphere *s)
{
    double laplacian[DEGREES], inverse[DEGREES], theta[NLAT], rotation[NLAT];
    for (int l = 0; l < DEGREES; l++) {
        laplacian[l] = l * (l + 1);
        inverse[l] = l == 0 ? 0 : 1 / laplacian[l];
    }
    stn_sht_latitudes(gauss.grid, NLAT, theta, NULL);
    for (int k = 0; k < NLAT; k++)
        rotation[k] = 2 * OMEGA * cos(theta[k]);
    s->laplacian = column(s, DEGREES, laplacian);
    s->inverse = column(s, DEGREES, inverse);
    s->rotation = column(s, NLAT, rotation);
}

static stn_tensor *coefficients(const struct sphere *s, const double *pairs)
{
    const int64_t shape[] = {DEGREES, DEGREES, 2};
    return stn_view_as_complex(
        stn_from_host_global(s->context, stn_spec_of(s->mesh, STN_DTYPE_F64, "S0,S1", 3, shape), pairs));
}

static stn_tensor *tendency(const struct sphere *s, stn_tensor *zeta)
{
    stn_tensor *toroidal = stn_mul(zeta, s->inverse);
    stn_tensor *parts[] = {stn_mul_number(toroidal, 0), toroidal};
    stn_tensor *wind = stn_ivsht(stn_stack(2, parts, 0), NLAT, NLON, &gauss);
    stn_tensor *absolute = stn_add(stn_isht(zeta, NLAT, NLON, &gauss), s->rotation);
    stn_tensor *flux = stn_vsht(stn_mul(wind, absolute), DEGREES, DEGREES, &gauss);
    return stn_mul(stn_select(flux, 0, 0), s->laplacian);
}

static stn_tensor *plus(stn_tensor *x, double factor, stn_tensor *rate)
{
    return stn_add(x, stn_mul_number(rate, factor));
}

/* Runge and Kutta's step of fourth order. */
static stn_tensor *step(const struct sphere *s, stn_tensor *x)
{
    stn_tensor *a = tendency(s, x), *b = tendency(s, plus(x, STEP / 2, a));
    stn_tensor *c = tendency(s, plus(x, STEP / 2, b)), *d = tendency(s, plus(x, STEP, c));
    return plus(plus(plus(plus(x, STEP / 6, a), STEP / 3, b), STEP / 3, c), STEP / 6, d);
}

/* After STEPS steps: every rank has all coefficients. */
static stn_status run(const struct sphere *s, const double *start, double *end)
{
    stn_tensor *zeta = stn_tensor_retain(coefficients(s, start));
    for (int i = 0; i < STEPS; i++) {
        stn_scope_begin(s->context);
        stn_tensor *next = stn_tensor_retain(step(s, zeta));
        stn_tensor_release(&zeta);
        zeta = next;
        stn_scope_end(s->context);
    }
    const stn_status status = stn_to_host(stn_full_tensor(stn_view_as_real(zeta)), end, 2 * COEFFICIENTS * sizeof *end);
    stn_tensor_release(&zeta);
    return status;
}

/* Twice the kinetic energy, and the square of vorticity: integrals over the sphere. Orders below 0 are as large as
 * those above. */
static void integrate(const double *pairs, double *energy, double *enstrophy)
{
    *energy = *enstrophy = 0;
    for (int i = DEGREES; i < COEFFICIENTS; i++) {
        const int l = i / DEGREES, m = i % DEGREES;
        const double square = (m == 0 ? 1 : 2) * (pairs[2 * i] * pairs[2 * i] + pairs[2 * i + 1] * pairs[2 * i + 1]);
        *energy += square / (l * (l + 1));
        *enstrophy += square;
    }
}

static int flow_keeps_energy(const struct sphere *s, struct results *results)
{
    double start[2 * COEFFICIENTS] = {0}, end[2 * COEFFICIENTS], energy[2] = {NAN, 0}, enstrophy[2] = {NAN, 0};
    for (int l = 1; l < 7; l++)
        for (int m = 0; m <= l; m++) {
            start[2 * (l * DEGREES + m)] = cos(3 * l + m);
            start[2 * (l * DEGREES + m) + 1] = m == 0 ? 0 : sin(l + 2 * m);
        }
    if (run(s, start, end) != STN_OK)
        return 0;
    integrate(start, &energy[0], &enstrophy[0]);
    integrate(end, &energy[1], &enstrophy[1]);
    for (int i = 0; i < 2 * COEFFICIENTS; i++)
        results->value[results->n++] = end[i];
    if (stn_context_rank(s->context) == 0)
        printf("energy %.9f to %.9f, enstrophy %.9f to %.9f\n", energy[0], energy[1], enstrophy[0], enstrophy[1]);
    return fabs(energy[1] / energy[0] - 1) < 1e-8 && fabs(enstrophy[1] / enstrophy[0] - 1) < 1e-8 &&
           fabs(end[0]) < 1e-15;
}

/* A wave of degree L and order M goes west by 2 OMEGA t / (L (L + 1)). */
static int waves_go_round(const struct sphere *s)
{
    enum { L = 5, M = 4, AT = 2 * (L * DEGREES + M) };
    double start[2 * COEFFICIENTS] = {[AT] = 0.7}, end[2 * COEFFICIENTS], rest = 0;
    const double phase = M * 2 * OMEGA * STEPS * STEP / (L * (L + 1));
    if (run(s, start, end) != STN_OK)
        return 0;
    end[AT] -= 0.7 * cos(phase);
    end[AT + 1] -= 0.7 * sin(phase);
    for (int i = 0; i < 2 * COEFFICIENTS; i++)
        rest = fmax(rest, fabs(end[i]));
    return rest < 1e-9;
}

static stn_status program(stn_context *ctx, void *results)
{
    const int ranks = stn_context_size(ctx), sizes[] = {ranks == 9 ? 3 : ranks, ranks == 9 ? 3 : 1};
    struct sphere s = {.context = ctx};
    stn_mesh_create(ctx, 2, sizes, NULL, NULL, &s.mesh);
    stn_scope_begin(ctx);
    make_columns(&s);
    const int kept = flow_keeps_energy(&s, results), round = waves_go_round(&s);
    stn_agree(ctx, kept && round ? STN_OK : STN_ERR_VALUE,
              kept ? "a wave is not where it should be" : "energy is lost");
    return stn_scope_end(ctx);
}

int main(void)
{
    return same_results("vorticity", 1, program);
}
