/* A diffusion transformer (Peebles and Xie, "Scalable diffusion models with transformers", 2023) on images whose rows
 * ranks share unevenly, one of them with none, by cuts that go through patches. It learns to tell noise from images of
 * waves, given how much of it there is. Keys and values of attention go round from rank to rank, nothing is gathered,
 * as the counters show, and the losses of all steps and the weights in the end are those of one rank. */
#include "common/same_results.h"
#include "common/uneven_cut.h"

#include <math.h>
#include <stdio.h>

enum { SAMPLES = 6, ROWS = 22, COLUMNS = 12, PATCH = 2, WIDTH = 16, HEADS = 2, LAYERS = 2, STEPS = 40 };
enum { TOKEN_ROWS = ROWS / PATCH, TOKEN_COLUMNS = COLUMNS / PATCH, TOKENS = TOKEN_ROWS * TOKEN_COLUMNS };
static const double PI = 3.14159265358979;

struct transformer {
    stn_context *ctx;
    const stn_mesh *mesh; /* samples x rows */
    stn_params *params;   /* made where they are first asked for */
    stn_stats *attention; /* what attention has counted */
};

static stn_tensor *by_inputs(stn_context *ctx, const stn_spec *spec)
{
    return stn_kaiming_normal(ctx, spec, 1, STN_FAN_IN);
}

static stn_tensor *weight(const struct transformer *net, int layer, const char *what, const stn_spec *spec,
                          stn_initialiser initialiser)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", layer, what);
    return stn_params_get(net->params, name, spec, initialiser);
}

/* Every rank has the whole of a matrix. */
static stn_tensor *linear(const struct transformer *net, int layer, const char *what, stn_tensor *x, int64_t in,
                          int64_t out, stn_initialiser initialiser)
{
    const stn_spec *spec = stn_spec_of(net->mesh, STN_DTYPE_F64, "R,R", 2, (int64_t[]){out, in});
    return stn_linear(x, weight(net, layer, what, spec, initialiser), NULL);
}

/* Numbers by which the noise changes what tokens are: (samples, 1, width) each, zeros at first. */
static void modulation(const struct transformer *net, int layer, stn_tensor *noise, int n, stn_tensor **parts)
{
    stn_tensor *all = linear(net, layer, "modulation", noise, WIDTH, n * WIDTH, stn_zeros);
    stn_chunk(stn_unsqueeze(all, 1), 2, n, n, parts);
}

/* Normalised, scaled and shifted. */
static stn_tensor *modulate(stn_tensor *x, stn_tensor *scale, stn_tensor *shift)
{
    stn_tensor *y = stn_layer_norm(x, 1, (int64_t[]){WIDTH}, NULL, NULL, 1e-6);
    return stn_add(stn_addcmul(y, y, scale, 1), shift);
}

/* (samples, tokens, width) -> (samples, heads, tokens, width of a head) */
static stn_tensor *heads(const struct transformer *net, int layer, const char *what, stn_tensor *x)
{
    stn_tensor *y = linear(net, layer, what, x, WIDTH, WIDTH, by_inputs);
    return stn_transpose(stn_view(y, 4, (int64_t[]){SAMPLES, TOKENS, HEADS, WIDTH / HEADS}), 1, 2);
}

static stn_tensor *attend(const struct transformer *net, int l, stn_tensor *x)
{
    stn_tensor *query = heads(net, l, "query", x), *key = heads(net, l, "key", x), *value = heads(net, l, "value", x);
    stn_stats before = {.size = sizeof before}, after = before;
    stn_context_stats(net->ctx, &before);
    x = stn_scaled_dot_product_attention(query, key, value, NULL, NULL);
    stn_context_stats(net->ctx, &after);
    net->attention->bytes_sent += after.bytes_sent - before.bytes_sent;
    net->attention->redistributions += after.redistributions - before.redistributions;
    return linear(net, l, "merge", stn_flatten(stn_transpose(x, 1, 2), 2, 3), WIDTH, WIDTH, by_inputs);
}

static stn_tensor *block(const struct transformer *net, int l, stn_tensor *x, stn_tensor *noise)
{
    stn_tensor *part[6] = {NULL}, *h;
    modulation(net, l, noise, 6, part);
    x = stn_addcmul(x, attend(net, l, modulate(x, part[0], part[1])), part[2], 1);
    h = stn_gelu(linear(net, l, "up", modulate(x, part[3], part[4]), WIDTH, 4 * WIDTH, by_inputs), STN_GELU_TANH);
    return stn_addcmul(x, linear(net, l, "down", h, 4 * WIDTH, WIDTH, by_inputs), part[5], 1);
}

/* Of times (samples, 1) from 0 to 1: waves of them, mixed. */
static stn_tensor *embed_time(const struct transformer *net, stn_tensor *time)
{
    const int64_t half = WIDTH / 2;
    const stn_spec *spec = stn_spec_of(net->mesh, STN_DTYPE_F64, "R,R", 1, &half);
    stn_tensor *phase = stn_mul(time, stn_mul_number(stn_exp2(stn_arange(net->ctx, spec, 0, 0.5)), PI));
    stn_tensor *waves = stn_cat(2, (stn_tensor *[]){stn_cos(phase), stn_sin(phase)}, 1);
    return stn_silu(linear(net, LAYERS, "time", waves, WIDTH, WIDTH, by_inputs));
}

/* Patches as tokens, (samples, tokens, width), each on the rank that has its first row, and there, too, is what tells
 * where in an image it is. */
static stn_tensor *tokens(const struct transformer *net, stn_tensor *images)
{
    static const stn_conv_attrs apart = {.size = sizeof apart, .stride = {PATCH, PATCH}};
    static const stn_placement as_tokens[] = {STN_R, STN_S(1)};
    const stn_spec *spec = stn_spec_of(net->mesh, STN_DTYPE_F64, "R,R", 4, (int64_t[]){WIDTH, 1, PATCH, PATCH});
    stn_tensor *x = stn_conv2d(images, weight(net, LAYERS, "patch", spec, by_inputs), NULL, &apart);
    x = stn_transpose(stn_flatten(x, 2, 3), 1, 2);
    stn_spec_like(stn_tensor_spec(x), as_tokens, STN_DTYPE_F64, 3, (int64_t[]){1, TOKENS, WIDTH}, &spec);
    x = stn_add(x, weight(net, LAYERS, "places", spec, stn_randn));
    stn_spec_release(&spec);
    return x;
}

/* The noise that is in images (samples, 1, rows, columns). */
static stn_tensor *predict(const struct transformer *net, stn_tensor *images, stn_tensor *time)
{
    stn_tensor *noise = embed_time(net, time), *x = tokens(net, images), *part[2] = {NULL};
    for (int l = 0; l < LAYERS; l++)
        x = block(net, l, x, noise);
    modulation(net, LAYERS, noise, 2, part);
    x = linear(net, LAYERS, "out", modulate(x, part[0], part[1]), WIDTH, PATCH * PATCH, stn_zeros);
    x = stn_view(stn_transpose(x, 1, 2), 4, (int64_t[]){SAMPLES, PATCH * PATCH, TOKEN_ROWS, TOKEN_COLUMNS});
    return stn_pixel_shuffle(x, PATCH);
}

static stn_tensor *per_sample(const struct transformer *net, double low, double high)
{
    const int64_t shape[] = {SAMPLES, 1, 1, 1};
    return stn_uniform(net->ctx, stn_spec_of(net->mesh, STN_DTYPE_F64, "S0,R", 4, shape), low, high);
}

/* Plane waves of some length, direction and phase. */
static stn_tensor *draw_images(const struct transformer *net)
{
    const int64_t rows = ROWS, columns = COLUMNS;
    stn_tensor *y = stn_arange(net->ctx, uneven_spec(net->mesh, "R,S0", 1, &rows), 0, 1);
    stn_tensor *x = stn_arange(net->ctx, stn_spec_of(net->mesh, STN_DTYPE_F64, "R,R", 1, &columns), 0, 1);
    stn_tensor *down = stn_mul(per_sample(net, 0.3, 1), stn_view(y, 4, (int64_t[]){1, 1, ROWS, 1}));
    stn_tensor *across = stn_mul(per_sample(net, -1, 1), x);
    return stn_sin(stn_add(stn_add(down, across), per_sample(net, 0, 2 * PI)));
}

static stn_tensor *loss_of(const struct transformer *net)
{
    const int64_t shape[] = {SAMPLES, 1, ROWS, COLUMNS};
    stn_tensor *images = draw_images(net), *noise = stn_randn(net->ctx, uneven_spec(net->mesh, "S0,S2", 4, shape));
    stn_tensor *time = per_sample(net, 0, 1), *angle = stn_mul_number(time, PI / 2);
    stn_tensor *noisy = stn_add(stn_mul(stn_cos(angle), images), stn_mul(stn_sin(angle), noise));
    return stn_mse_loss(predict(net, noisy, stn_flatten(time, 1, 3)), noise, NULL, STN_REDUCE_MEAN);
}

/* Beside attention, which moves no tensor to another layout, what crosses between ranks on the way to a loss is the
 * rows of patches that another rank begins: once for the patch, once for what it is compared with. */
static stn_status check_sent(const struct transformer *net)
{
    enum { CALLS = 512 }; /* bytes by which ranks that check each other's calls (STN_CHECKS) compare them */
    const int64_t rows = 2 * (PATCH - 1) * COLUMNS * SAMPLES * (int64_t)sizeof(double);
    stn_stats all = {.size = sizeof all};
    stn_context_stats(net->ctx, &all);
    const int is_little = all.bytes_sent - net->attention->bytes_sent <= rows + CALLS && all.redistributions <= 1;
    return is_little && net->attention->redistributions == 0 && all.fallbacks == 0 ? STN_OK : STN_ERR_STATE;
}

static double train_step(const struct transformer *net, stn_optimizer *optimizer, int64_t number)
{
    double loss = NAN;
    stn_scope_begin(net->ctx);
    stn_context_stats_reset(net->ctx);
    *net->attention = (stn_stats){0};
    stn_tensor *mean = loss_of(net);
    stn_agree(net->ctx, check_sent(net), "more was sent than keys, values and rows of patches");
    stn_backward(mean);
    stn_item(mean, &loss);
    stn_optimizer_set_rate_factor(optimizer, stn_schedule_cosine(number, 3, STEPS, 0.1));
    stn_optimizer_step(optimizer);
    stn_params_zero_grad(net->params);
    stn_scope_end(net->ctx);
    return loss;
}

static void train(const struct transformer *net, struct results *results)
{
    stn_optimizer *optimizer = NULL;
    double begin = 0, end = 0; /* means of ten steps */
    loss_of(net);              /* asks for every weight, which makes it */
    stn_adamw_create(net->ctx, NULL, &optimizer);
    stn_optimizer_add_params(optimizer, net->params, 0.02);
    for (int i = 0; i < STEPS && stn_context_status(net->ctx) == STN_OK; i++) {
        results->value[i] = train_step(net, optimizer, i);
        begin += i < 10 ? results->value[i] / 10 : 0;
        end += i >= STEPS - 10 ? results->value[i] / 10 : 0;
    }
    results->n = STEPS;
    for (int i = 0; i < stn_params_count(net->params); i++)
        results_add(results, stn_params_tensors(net->params)[i]);
    stn_optimizer_destroy(&optimizer);
    if (stn_context_rank(net->ctx) == 0)
        printf("mean square error %.4f in the first ten steps, %.4f in the last ten\n", begin, end);
    stn_agree(net->ctx, end < 0.65 * begin ? STN_OK : STN_ERR_VALUE, "the network does not learn");
}

/* Ranks share rows, or three groups of them samples too. */
static stn_status program(stn_context *ctx, void *results)
{
    const int ranks = stn_context_size(ctx), groups = ((struct results *)results)->variant && ranks > 1 ? 3 : 1;
    stn_stats attention = {0};
    struct transformer net = {.ctx = ctx, .attention = &attention};
    stn_mesh_create(ctx, 2, (int[]){groups, ranks / groups}, (const char *[]){"samples", "rows"}, NULL, &net.mesh);
    stn_params_create(ctx, &net.params);
    stn_set_ring_attention(ctx, STN_RING_ATTENTION_ALWAYS); /* short keys, too */
    stn_scope_begin(ctx);
    train(&net, results);
    stn_params_destroy(&net.params);
    return stn_scope_end(ctx);
}

int main(void)
{
    return same_results("vision_transformer", 2, program);
}
