/* Diffusion on a region cut among ranks: a model that draws the next field of a storm, given the present one. It is
 * trained as in Karras et al., "Elucidating the Design Space of Diffusion-Based Generative Models", 2022, on a mesh of
 * samples x rows x columns, saved on four ranks half-way, goes on from there on three others, and draws an ensemble.
 * Every step has the loss that one rank has, and every member its field: noise, too, does not depend on the mesh. */
#include "diffusion/unet.h"

#include <math.h>
#include <stdio.h>

enum { SAMPLES = 6, ROWS = 19, COLUMNS = 23, STEPS = 60, DRAWING_STEPS = 12 };

static const double SPREAD = 0.3; /* of the data: sigma_data */
static const char path[] = "diffusion.safetensors";
static const char fields[] = "S0,S2,S3", samples[] = "S0,R,R"; /* layouts over the axes of the mesh */

struct found {
    double loss[STEPS];   /* a run that goes on has those of the second half */
    double score, spread; /* of the ensemble */
};

struct run {
    int mesh[3];
    int resumes; /* from what the run before has saved */
    struct found found;
};

/* Storms: a bump that moves with the wind and grows or decays by a factor that the present field does not tell. */

struct storms {
    stn_tensor *present, *change; /* (samples, 1, rows, columns) */
};

static stn_tensor *per_sample(const struct unet *net, double low, double high)
{
    const int64_t shape[] = {SAMPLES, 1, 1, 1};
    return stn_uniform(net->ctx, stn_spec_of(net->mesh, STN_DTYPE_F64, samples, 4, shape), low, high);
}

/* From 0 to 1 along a dim of the region. */
static stn_tensor *coordinate(const struct unet *net, int dim)
{
    const int64_t n = dim == 2 ? ROWS : COLUMNS, along_rows[] = {1, 1, n, 1}, along_columns[] = {1, 1, 1, n};
    const stn_spec *spec = stn_spec_of(net->mesh, STN_DTYPE_F64, dim == 2 ? "R,S0,R" : "R,R,S0", 1, &n);
    return stn_view(stn_linspace(net->ctx, spec, 0, 1), 4, dim == 2 ? along_rows : along_columns);
}

static stn_tensor *bump(const struct unet *net, stn_tensor *row, stn_tensor *column)
{
    stn_tensor *dy = stn_sub(coordinate(net, 2), row), *dx = stn_sub(coordinate(net, 3), column);
    return stn_exp(stn_mul_number(stn_add(stn_square(dy), stn_square(dx)), -30));
}

static struct storms draw_storms(const struct unet *net)
{
    stn_tensor *row = per_sample(net, 0.1, 0.7), *column = per_sample(net, 0.1, 0.6), *present = bump(net, row, column);
    stn_tensor *growth = per_sample(net, 0.5, 1.5);
    stn_tensor *moved = bump(net, stn_add_number(row, 0.15), stn_add_number(column, 0.25));
    return (struct storms){present, stn_sub(stn_mul(moved, growth), present)};
}

/* Diffusion */

/* What a noisy change was before noise of size sigma was added, as the model has it. */
static stn_tensor *denoise(const struct unet *net, stn_tensor *noisy, stn_tensor *sigma, stn_tensor *present)
{
    stn_tensor *total = stn_add_number(stn_square(sigma), SPREAD * SPREAD), *root = stn_rsqrt(total);
    stn_tensor *input = stn_cat(2, (stn_tensor *[]){stn_mul(noisy, root), present}, 1);
    stn_tensor *size = stn_view(stn_mul_number(stn_log(sigma), 0.25), 2, (int64_t[]){SAMPLES, 1});
    stn_tensor *kept = stn_mul(noisy, stn_mul_number(stn_reciprocal(total), SPREAD * SPREAD));
    stn_tensor *made = stn_mul(unet(net, input, size, 1), stn_mul(sigma, stn_mul_number(root, SPREAD)));
    return stn_add(kept, made);
}

static stn_tensor *noise(const struct unet *net)
{
    const int64_t shape[] = {SAMPLES, 1, ROWS, COLUMNS};
    return stn_randn(net->ctx, stn_spec_of(net->mesh, STN_DTYPE_F64, fields, 4, shape));
}

static stn_tensor *loss_of(const struct unet *net)
{
    const struct storms storms = draw_storms(net);
    const int64_t shape[] = {SAMPLES, 1, 1, 1};
    stn_tensor *sigma =
        stn_exp(stn_normal(net->ctx, stn_spec_of(net->mesh, STN_DTYPE_F64, samples, 4, shape), -1.2, 1.2));
    stn_tensor *noisy = stn_add(storms.change, stn_mul(sigma, noise(net)));
    stn_tensor *error = stn_square(stn_sub(denoise(net, noisy, sigma, storms.present), storms.change));
    stn_tensor *weight = stn_add_number(stn_reciprocal(stn_square(sigma)), 1 / (SPREAD * SPREAD));
    return stn_mean(stn_mul(error, weight), 0, NULL, 0);
}

static void train_step(const struct unet *net, stn_optimizer *optimizer, int64_t number, double *loss)
{
    stn_scope_begin(net->ctx);
    stn_tensor *mean = loss_of(net);
    stn_backward(mean);
    stn_item(mean, loss);
    stn_clip_grad_norm(net->ctx, stn_params_count(net->params), stn_params_tensors(net->params), 1, NULL);
    stn_optimizer_set_rate_factor(optimizer, stn_schedule_cosine(number, 5, STEPS, 0.1));
    stn_optimizer_step(optimizer);
    stn_params_zero_grad(net->params);
    stn_scope_end(net->ctx);
}

/* An ensemble of changes of one storm, from noise to data in steps of Euler's method, and its score against the change
 * of mean growth. */
static void draw_ensemble(const struct unet *net, struct found *found)
{
    stn_scope_begin(net->ctx);
    stn_no_grad_begin(net->ctx);
    const int64_t shape[] = {SAMPLES, 1, 1, 1};
    const stn_spec *spec = stn_spec_of(net->mesh, STN_DTYPE_F64, samples, 4, shape);
    stn_tensor *present = bump(net, stn_full(net->ctx, spec, 0.3), stn_full(net->ctx, spec, 0.3));
    stn_tensor *truth = stn_sub(bump(net, stn_full(net->ctx, spec, 0.45), stn_full(net->ctx, spec, 0.55)), present);
    stn_tensor *x = stn_mul_number(noise(net), 3);
    for (int i = 0; i < DRAWING_STEPS; i++) {
        const double sigma = 3 * pow(0.5, i), next = i + 1 < DRAWING_STEPS ? sigma / 2 : 0;
        stn_tensor *slope = stn_sub(x, denoise(net, x, stn_full(net->ctx, spec, sigma), present));
        x = stn_add(x, stn_mul_number(slope, next / sigma - 1));
    }
    stn_item(stn_mean(stn_crps_ensemble(x, stn_select(truth, 0, 0), 0, 1), 0, NULL, 0), &found->score);
    stn_item(stn_mean(stn_std(x, 1, (int[]){0}, 1, 0), 0, NULL, 0), &found->spread);
    stn_no_grad_end(net->ctx);
    stn_scope_end(net->ctx);
}

/* A failure is kept in the context: what follows does nothing. */
static stn_status rank_main(stn_context *ctx, void *arg)
{
    struct run *run = arg;
    struct found found = {.loss = {0}};
    struct unet net = {.ctx = ctx};
    stn_checkpoint state = {.size = sizeof state};
    stn_mesh_create(ctx, 3, run->mesh, (const char *[]){"samples", "rows", "columns"}, NULL, &net.mesh);
    stn_params_create(ctx, &net.params);
    stn_scope_begin(ctx);
    loss_of(&net); /* asks for every weight, which makes it */
    stn_scope_end(ctx);
    stn_adamw_create(ctx, NULL, &state.optimizer);
    stn_optimizer_add_params(state.optimizer, net.params, 0.02);
    if (run->resumes)
        stn_checkpoint_load(ctx, path, &state, NULL);
    for (; stn_context_status(ctx) == STN_OK && state.step < STEPS; state.step++) {
        if (state.step == STEPS / 2 && !run->resumes)
            stn_checkpoint_save(ctx, path, &state);
        train_step(&net, state.optimizer, state.step, &found.loss[state.step]);
    }
    draw_ensemble(&net, &found);
    if (stn_context_rank(ctx) == 0)
        run->found = found;
    stn_optimizer_destroy(&state.optimizer);
    stn_params_destroy(&net.params);
    return stn_context_status(ctx);
}

/* The largest relative difference of what two runs found. */
static double difference(const struct run *one, const struct run *other)
{
    double worst = fabs(other->found.score / one->found.score - 1);
    worst = fmax(worst, fabs(other->found.spread / one->found.spread - 1));
    for (int i = other->resumes ? STEPS / 2 : 0; i < STEPS; i++)
        worst = fmax(worst, fabs(other->found.loss[i] / one->found.loss[i] - 1));
    return isnan(worst) ? INFINITY : worst;
}

static double mean_loss(const struct run *run, int begin, int end)
{
    double sum = 0;
    for (int i = begin; i < end; i++)
        sum += run->found.loss[i];
    return sum / (end - begin);
}

int main(void)
{
    struct run runs[] = {{.mesh = {1, 1, 1}}, {.mesh = {2, 2, 1}}, {.mesh = {1, 1, 3}, .resumes = 1}};
    char error[512] = "";
    double apart = 0;
    for (int i = 0; i < 3 && !error[0]; i++) {
        const int *mesh = runs[i].mesh;
        const struct found *found = &runs[i].found;
        const stn_launch_options options = {.size = sizeof options,
                                            .ranks = mesh[0] * mesh[1] * mesh[2],
                                            .context = {.error_text = error, .error_text_size = sizeof error}};
        stn_launch(&options, rank_main, &runs[i]);
        apart = fmax(apart, difference(&runs[0], &runs[i]));
        printf("%d x %d x %d ranks%s: loss %.4f in the last ten steps; score of the ensemble %.4f, its spread %.4f; "
               "%.1e from one rank's %s\n",
               mesh[0], mesh[1], mesh[2], runs[i].resumes ? ", from the checkpoint" : "",
               mean_loss(&runs[i], STEPS - 10, STEPS), found->score, found->spread, apart, error);
    }
    remove(path);
    const int learns = mean_loss(&runs[0], STEPS - 10, STEPS) < 0.5 * mean_loss(&runs[0], 0, 10);
    return !error[0] && apart < 1e-9 && learns ? 0 : 1;
}
