/* A small causal transformer on characters: data parallel x tensor parallel, tokens sharded between the blocks, bf16
 * with f32 parameters, accumulation over micro-batches, and a run that is saved on 2 x 2 ranks and goes on on 1 x 3
 * ranks as if it had never stopped. */
#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>

enum { BATCH = 8, TIME = 24, WIDTH = 32, HEADS = 4, LAYERS = 2, LETTERS = 27, MICRO_BATCHES = 2, STEPS = 30 };

static const char text[] = "peter piper picked a peck of pickled peppers a peck of pickled peppers peter piper picked "
                           "if peter piper picked a peck of pickled peppers where is the peck of pickled peppers peter "
                           "piper picked ";

/* Placements over the axes (data, tensor) of an activation (batch, time, width). */
static const stn_placement tokens_sharded[] = {STN_S(0), STN_S(1)}, tokens_whole[] = {STN_S(0), STN_R};

struct model {
    stn_context *ctx;
    const stn_mesh *mesh;
    stn_params *params;
};

static stn_tensor *small_normal(stn_context *ctx, const stn_spec *spec)
{
    return stn_normal(ctx, spec, 0, 0.08);
}

/* A weight by its name, made where it is asked for first, in the dtype of computing: its gradient comes back through the cast, in f32. */
static stn_tensor *weight(const struct model *m, int layer, const char *what, const char *layout, int64_t rows, int64_t columns)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", layer, what);
    const stn_spec *spec = stn_spec_of(m->mesh, STN_DTYPE_F32, layout, 2, (int64_t[]){rows, columns});
    stn_tensor *found = stn_params_find(m->params, name);
    return stn_cast(found ? found : stn_params_make(m->params, name, spec, small_normal), STN_DTYPE_BF16);
}

/* Normalised, with all tokens on every rank of the tensor axis. */
static stn_tensor *whole_norm(stn_tensor *x)
{
    return stn_redistribute_to(stn_rms_norm(x, 1, (int64_t[]){WIDTH}, NULL, 1e-5), tokens_whole);
}

/* (batch, time, width) -> (batch, heads, time, width of a head): features are sharded, so heads are, unevenly where they do not divide. */
static stn_tensor *heads(const struct model *m, int l, const char *what, stn_tensor *x)
{
    stn_tensor *y = stn_linear(x, weight(m, l, what, "R,S0", WIDTH, WIDTH), NULL);
    return stn_transpose(stn_view(y, 4, (int64_t[]){BATCH, TIME, HEADS, WIDTH / HEADS}), 1, 2);
}

/* Pairs of products as in Megatron-LM: the first weight is sharded by output features, the second by input features, so that what lies
 * between stays on its rank, and the result is Partial. Three weights rather than one fused one make heads lie together. */
static stn_tensor *block(const struct model *m, int l, stn_tensor *x)
{
    const stn_attention_attrs causal = {.size = sizeof causal, .is_causal = 1};
    stn_tensor *h = whole_norm(x);
    stn_tensor *query = heads(m, l, "query", h), *key = heads(m, l, "key", h), *value = heads(m, l, "value", h);
    h = stn_transpose(stn_scaled_dot_product_attention(query, key, value, NULL, &causal), 1, 2);
    h = stn_reshape(h, 3, (int64_t[]){BATCH, TIME, WIDTH});
    h = stn_linear(h, weight(m, l, "merge", "R,S1", WIDTH, WIDTH), NULL);
    x = stn_add(x, stn_dropout(stn_redistribute_to(h, tokens_sharded), 0.05, 1));
    h = stn_gelu(stn_linear(whole_norm(x), weight(m, l, "up", "R,S0", 4 * WIDTH, WIDTH), NULL), STN_GELU_TANH);
    h = stn_linear(h, weight(m, l, "down", "R,S1", WIDTH, 4 * WIDTH), NULL);
    return stn_add(x, stn_redistribute_to(h, tokens_sharded));
}

/* Of the letters of a batch, each told from those before it. */
static stn_tensor *loss_of(const struct model *m, stn_tensor *letters)
{
    stn_tensor *input = stn_narrow(letters, 1, 0, TIME), *target = stn_narrow(letters, 1, 1, TIME);
    stn_tensor *x = stn_embedding(input, weight(m, LAYERS, "letters", "R,R", LETTERS, WIDTH), NULL);
    x = stn_redistribute_to(stn_add(x, weight(m, LAYERS, "places", "R,R", TIME, WIDTH)), tokens_sharded);
    for (int l = 0; l < LAYERS; l++)
        x = block(m, l, x);
    stn_tensor *logits = stn_linear(whole_norm(x), weight(m, LAYERS, "head", "R,S0", LETTERS, WIDTH), NULL); /* letters are sharded */
    logits = stn_flatten(stn_cast(logits, STN_DTYPE_F32), 0, 1);
    return stn_cross_entropy(logits, stn_flatten(target, 0, 1), NULL, -100, STN_REDUCE_MEAN, 0);
}

/* Rows of the text from places that follow from the number of the batch: every rank fills in the whole and keeps its own rows. */
static stn_tensor *batch(const struct model *m, int64_t number)
{
    int64_t letters[BATCH][TIME + 1];
    for (int b = 0; b < BATCH; b++)
        for (int t = 0; t <= TIME; t++) {
            const char letter = text[(number * 37 + b * 11) % (int64_t)(sizeof text - TIME - 2) + t];
            letters[b][t] = letter == ' ' ? 26 : letter - 'a';
        }
    return stn_from_host_global(m->ctx, stn_spec_of(m->mesh, STN_DTYPE_I64, "S0,R", 2, (int64_t[]){BATCH, TIME + 1}), letters);
}

/* One step: gradients of the micro-batches add up on each rank, and are reduced over the data axis once. */
static stn_status step(const struct model *m, stn_optimizer *optimizer, int64_t number, double *mean)
{
    *mean = 0;
    stn_scope_begin(m->ctx);
    stn_no_sync_begin(m->ctx);
    for (int i = 0; i < MICRO_BATCHES; i++) {
        double value = 0;
        stn_tensor *loss = stn_mul_number(loss_of(m, batch(m, number * MICRO_BATCHES + i)), 1.0 / MICRO_BATCHES);
        stn_backward(loss);
        stn_item(loss, &value);
        *mean += value;
    }
    stn_no_sync_end(m->ctx);
    stn_grad_sync(m->ctx, stn_params_count(m->params), stn_params_tensors(m->params));
    stn_clip_grad_norm(m->ctx, stn_params_count(m->params), stn_params_tensors(m->params), 1, NULL);
    stn_optimizer_set_rate_factor(optimizer, stn_schedule_cosine(number, 5, STEPS, 0.1));
    stn_optimizer_step(optimizer);
    stn_params_zero_grad(m->params);
    return stn_scope_end(m->ctx);
}

struct run {
    int data, tensor;        /* ranks along the axes */
    const char *save, *load; /* after half of the steps; before the first */
    double loss;             /* of the last step */
};

static stn_status train(const struct model *m, stn_optimizer *optimizer, struct run *run)
{
    stn_checkpoint state = {.size = sizeof state, .optimizer = optimizer};
    double loss = NAN;
    stn_status status = run->load ? stn_checkpoint_load(m->ctx, run->load, &state, NULL) : STN_OK;
    while (status == STN_OK && state.step < STEPS) {
        status = step(m, optimizer, state.step++, &loss);
        if (status == STN_OK && run->save && state.step == STEPS / 2)
            status = stn_checkpoint_save(m->ctx, run->save, &state);
    }
    if (stn_context_rank(m->ctx) == 0)
        run->loss = loss;
    return status;
}

static stn_status rank_main(stn_context *ctx, void *arg)
{
    struct run *run = arg;
    struct model m = {.ctx = ctx};
    const stn_adamw_options options = {.size = sizeof options, .rate = 1e-2};
    stn_optimizer *optimizer = NULL;
    stn_mesh_create(ctx, 2, (int[]){run->data, run->tensor}, (const char *[]){"data", "tensor"}, NULL, &m.mesh);
    stn_params_create(ctx, &m.params);
    stn_scope_begin(ctx);
    stn_no_grad_begin(ctx);
    loss_of(&m, batch(&m, 0)); /* asks for every weight, which makes it */
    stn_no_grad_end(ctx);
    stn_parameter_group all = {.size = sizeof all, .n = stn_params_count(m.params), .parameters = stn_params_named(m.params)};
    stn_adamw_create(ctx, &options, &optimizer);
    stn_optimizer_add_group(optimizer, &all);
    stn_status status = stn_scope_end(ctx);
    if (status == STN_OK)
        status = train(&m, optimizer, run);
    stn_optimizer_destroy(&optimizer);
    stn_params_destroy(&m.params);
    return status;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "transformer.safetensors";
    struct run runs[] = {{.data = 2, .tensor = 2, .save = path, .loss = NAN}, {.data = 1, .tensor = 3, .load = path, .loss = NAN}};
    char error[512] = "";
    for (int i = 0; i < 2 && !error[0]; i++) {
        stn_launch_options options = {.size = sizeof options, .ranks = runs[i].data * runs[i].tensor,
                                      .context = {.seed = 1, .error_text = error, .error_text_size = sizeof error}};
        stn_launch(&options, rank_main, &runs[i]);
        printf("%d x %d ranks: loss %.4f after %d steps %s\n", runs[i].data, runs[i].tensor, runs[i].loss, STEPS, error);
    }
    remove(path);
    return runs[0].loss < 1.5 && fabs(runs[0].loss - runs[1].loss) < 0.05 ? 0 : 1;
}
