/* A spherical Fourier neural operator (Bonev et al., "Spherical Fourier Neural Operators", 2023) on latitudes and
 * longitudes that are cut over the ranks: layers that multiply the coefficients of each degree by a matrix over
 * channels, so that they do the same wherever on the sphere. It learns a step of the Allen-Cahn equation,
 *
 *     d u / dt = NU laplace(u) + u - u^3,
 *
 * which is of that kind. Weights lie where their degrees do. Losses of all steps are those of one rank. */
#include "common/same_results.h"

#include <math.h>
#include <stdio.h>

enum { SAMPLES = 3, NLAT = 13, NLON = 24, DEGREES = 9, WIDTH = 8, LAYERS = 2, STEPS = 60 };
static const double NU = 0.02, STEP = 0.5;
static const stn_sht_basis gauss = {.size = sizeof gauss, .grid = STN_SHT_LEGENDRE_GAUSS};

struct sfno {
    stn_context *ctx;
    const stn_mesh *mesh; /* samples x rows x columns */
    stn_params *params;   /* made where they are first asked for */
    stn_tensor *area, *spectrum, *decay;
};

static stn_tensor *weight(const struct sfno *net, int layer, const char *what, const char *layout, int ndim,
                          const int64_t *shape, double scale)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", layer, what);
    const stn_spec *spec = stn_spec_of(net->mesh, STN_DTYPE_F64, layout, ndim, shape);
    return stn_mul_number(stn_params_get(net->params, name, spec, stn_randn), scale);
}

/* Channels of each place are mixed. */
static stn_tensor *mix(const struct sfno *net, int layer, const char *what, stn_tensor *x, int64_t in, int64_t out)
{
    const int64_t shape[] = {out, in, 1, 1};
    return stn_conv2d(x, weight(net, layer, what, "R,R,R", 4, shape, sqrt(1.0 / (double)in)), NULL, NULL);
}

/* Channels of each degree are mixed. The weights of a degree are on the ranks that have its coefficients. */
static stn_tensor *mix_degrees(const struct sfno *net, int layer, stn_tensor *x)
{
    const int64_t shape[] = {WIDTH, WIDTH, DEGREES, 2};
    stn_tensor *w = stn_view_as_complex(weight(net, layer, "degrees", "R,S2,R", 4, shape, sqrt(0.5 / WIDTH)));
    stn_tensor *c = stn_sht(x, DEGREES, DEGREES, &gauss);
    return stn_isht(stn_einsum("bilm,oil->bolm", 2, (stn_tensor *[]){c, w}), NLAT, NLON, &gauss);
}

static stn_tensor *predict(const struct sfno *net, stn_tensor *u)
{
    stn_tensor *x = mix(net, LAYERS, "in", u, 1, WIDTH);
    for (int l = 0; l < LAYERS; l++) {
        stn_tensor *y = stn_gelu(stn_add(mix_degrees(net, l, x), mix(net, l, "places", x, WIDTH, WIDTH)), STN_GELU_ERF);
        x = stn_add(x, mix(net, l, "merge", y, WIDTH, WIDTH));
    }
    return stn_add(u, stn_mul_number(mix(net, LAYERS, "out", x, WIDTH, 1), 0.1));
}

/* Fields of random coefficients, the higher the degree the smaller. */
static stn_tensor *draw(const struct sfno *net)
{
    const int64_t shape[] = {SAMPLES, 1, DEGREES, DEGREES, 2};
    stn_tensor *pairs = stn_randn(net->ctx, stn_spec_of(net->mesh, STN_DTYPE_F64, "S0,S2,S3", 5, shape));
    return stn_isht(stn_mul(stn_view_as_complex(pairs), net->spectrum), NLAT, NLON, &gauss);
}

/* Reaction by the midpoint rule, then diffusion, degree by degree. */
static stn_tensor *truth(const struct sfno *net, stn_tensor *u)
{
    stn_tensor *half = stn_add(u, stn_mul_number(stn_sub(u, stn_mul(u, stn_square(u))), STEP / 2));
    stn_tensor *whole = stn_add(u, stn_mul_number(stn_sub(half, stn_mul(half, stn_square(half))), STEP));
    return stn_isht(stn_mul(stn_sht(whole, DEGREES, DEGREES, &gauss), net->decay), NLAT, NLON, &gauss);
}

static stn_tensor *mean_square(const struct sfno *net, stn_tensor *error)
{
    return stn_weighted_mean(stn_square(error), net->area, 0, NULL, 0);
}

static stn_tensor *column(const struct sfno *net, int64_t n, const double *values)
{
    return stn_from_host_global(net->ctx, stn_spec_of(net->mesh, STN_DTYPE_F64, "R,S0,R", 2, (int64_t[]){n, 1}),
                                values);
}

static void make_columns(struct sfno *net)
{
    double area[NLAT], spectrum[DEGREES], decay[DEGREES];
    stn_sht_latitudes(gauss.grid, NLAT, NULL, area);
    for (int l = 0; l < DEGREES; l++) {
        spectrum[l] = 1.0 / (1 + l);
        decay[l] = exp(-NU * STEP * l * (l + 1));
    }
    net->area = column(net, NLAT, area);
    net->spectrum = column(net, DEGREES, spectrum);
    net->decay = column(net, DEGREES, decay);
}

/* One step; the loss, and that of a forecast that nothing changes. */
static void train_step(const struct sfno *net, stn_optimizer *optimizer, int64_t number, double loss[2])
{
    stn_scope_begin(net->ctx);
    stn_tensor *u = draw(net), *next = truth(net, u), *error = mean_square(net, stn_sub(predict(net, u), next));
    stn_backward(error);
    stn_item(error, &loss[0]);
    stn_item(mean_square(net, stn_sub(u, next)), &loss[1]);
    stn_optimizer_set_rate_factor(optimizer, stn_schedule_cosine(number, 3, STEPS, 0.1));
    stn_optimizer_step(optimizer);
    stn_params_zero_grad(net->params);
    stn_scope_end(net->ctx);
}

static void train(struct sfno *net, struct results *results)
{
    stn_optimizer *optimizer = NULL;
    double loss[2] = {0}, last[2] = {0}; /* of a step; means of the last ten */
    stn_scope_begin(net->ctx);
    predict(net, draw(net)); /* asks for every weight, which makes it */
    stn_scope_end(net->ctx);
    stn_adamw_create(net->ctx, NULL, &optimizer);
    stn_optimizer_add_params(optimizer, net->params, 0.1);
    for (int i = 0; i < STEPS && stn_context_status(net->ctx) == STN_OK; i++) {
        train_step(net, optimizer, i, loss);
        results->value[results->n++] = loss[0];
        for (int k = 0; k < 2 && i >= STEPS - 10; k++)
            last[k] += loss[k] / 10;
    }
    stn_optimizer_destroy(&optimizer);
    if (stn_context_rank(net->ctx) == 0)
        printf("mean square error %.4f in the last ten steps, %.4f if nothing changed\n", last[0], last[1]);
    stn_agree(net->ctx, last[0] < 0.4 * last[1] ? STN_OK : STN_ERR_VALUE, "the network does not learn");
}

/* Three ranks share rows, or samples; nine columns too. */
static stn_status program(stn_context *ctx, void *results)
{
    const int ranks = stn_context_size(ctx), first = ranks > 1 ? 3 : 1;
    const int by_samples = ((struct results *)results)->variant;
    const int sizes[] = {by_samples ? first : 1, by_samples ? 1 : first, ranks / first};
    struct sfno net = {.ctx = ctx};
    stn_mesh_create(ctx, 3, sizes, (const char *[]){"samples", "rows", "columns"}, NULL, &net.mesh);
    stn_params_create(ctx, &net.params);
    stn_scope_begin(ctx);
    make_columns(&net);
    train(&net, results);
    stn_params_destroy(&net.params);
    return stn_scope_end(ctx);
}

int main(void)
{
    return same_results("sfno", 2, program);
}
