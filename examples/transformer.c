/* A small causal transformer on characters: data parallel x tensor parallel, tokens sharded between the blocks, bf16
 * with f32 parameters, accumulation over micro-batches, and a run that is saved on 2 x 2 ranks and goes on on 1 x 3
 * ranks as if it had never stopped. */
#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>

enum { BATCH = 8, TIME = 24, WIDTH = 32, HEADS = 4, LAYERS = 2, LETTERS = 128, MICRO_BATCHES = 2, STEPS = 30 };

static const char path[] = "transformer.safetensors"; /* of the checkpoint */
static const char text[] = "peter piper picked a peck of pickled peppers a peck of pickled peppers peter piper picked ";

/* Placements over the axes (data, tensor) of an activation (batch, time, width). */
static const stn_placement tokens_sharded[] = {STN_S(0), STN_S(1)}, tokens_whole[] = {STN_S(0), STN_R};

struct model {
    stn_context *ctx;
    const stn_mesh *mesh;
    stn_params *params;
};

/* A weight by its name, made where it is asked for first, scaled by the number of its inputs, and in the dtype of
 * computing: its gradient comes back through the cast, in f32. */
static stn_tensor *weight(const struct model *m, int layer, const char *what, const char *layout, int64_t rows,
                          int64_t columns)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", layer, what);
    const stn_spec *spec = stn_spec_of(m->mesh, STN_DTYPE_F32, layout, 2, (int64_t[]){rows, columns});
    stn_tensor *made = stn_params_get(m->params, name, spec, stn_randn);
    return stn_cast(stn_mul_number(made, 1 / sqrt((double)columns)), STN_DTYPE_BF16);
}

/* Normalised, with all tokens on every rank of the tensor axis. */
static stn_tensor *whole_norm(stn_tensor *x)
{
    return stn_redistribute_to(stn_rms_norm(x, 1, (int64_t[]){WIDTH}, NULL, 1e-5), tokens_whole);
}

/* (batch, time, width) -> (batch, heads, time, width of a head): features are sharded, so heads are, unevenly where
 * they do not divide. */
static stn_tensor *heads(const struct model *m, int l, const char *what, stn_tensor *x)
{
    stn_tensor *y = stn_linear(x, weight(m, l, what, "R,S0", WIDTH, WIDTH), NULL);
    return stn_transpose(stn_view(y, 4, (int64_t[]){BATCH, TIME, HEADS, WIDTH / HEADS}), 1, 2);
}

/* Pairs of products as in Megatron-LM: the first weight is sharded by output features, the second by input features, so
 * that what lies between stays on its rank, and the result is Partial. Three weights rather than one fused one make
 * heads lie together. */
static stn_tensor *block(const struct model *m, int l, stn_tensor *x)
{
    const stn_attention_attrs causal = {.size = sizeof causal, .is_causal = 1};
    stn_tensor *h = whole_norm(x);
    stn_tensor *query = heads(m, l, "query", h), *key = heads(m, l, "key", h), *value = heads(m, l, "value", h);
    h = stn_flatten(stn_transpose(stn_scaled_dot_product_attention(query, key, value, NULL, &causal), 1, 2), 2, 3);
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

/* Rows of the text from places that follow from the batch's number: every rank has the whole and keeps its own rows. */
static stn_tensor *batch(const struct model *m, int64_t number)
{
    int64_t letters[BATCH][TIME + 1];
    for (int b = 0; b < BATCH; b++)
        for (int t = 0; t <= TIME; t++)
            letters[b][t] = text[(number * 37 + b * 11) % (int64_t)(sizeof text - TIME - 2) + t];
    return stn_from_host_global(m->ctx, stn_spec_of(m->mesh, STN_DTYPE_I64, "S0,R", 2, (int64_t[]){BATCH, TIME + 1}),
                                letters);
}

/* One step: gradients of the micro-batches add up on each rank, and are reduced over the data axis once. */
static void step(const struct model *m, stn_optimizer *optimizer, int64_t number, double *last_loss)
{
    stn_scope_begin(m->ctx);
    stn_no_sync_begin(m->ctx);
    for (int i = 0; i < MICRO_BATCHES; i++) {
        stn_tensor *loss = loss_of(m, batch(m, number * MICRO_BATCHES + i));
        stn_backward(stn_mul_number(loss, 1.0 / MICRO_BATCHES));
        stn_item(loss, last_loss);
    }
    stn_no_sync_end(m->ctx);
    stn_grad_sync(m->ctx, stn_params_count(m->params), stn_params_tensors(m->params));
    stn_clip_grad_norm(m->ctx, stn_params_count(m->params), stn_params_tensors(m->params), 1, NULL);
    stn_optimizer_set_rate_factor(optimizer, stn_schedule_cosine(number, 5, STEPS, 0.1));
    stn_optimizer_step(optimizer);
    stn_params_zero_grad(m->params);
    stn_scope_end(m->ctx);
}

struct run {
    int data, tensor; /* ranks along the axes */
    int resumes;      /* from what a run has saved after half of the steps */
    double loss[4];   /* of the last batch, as each rank has it */
};

/* A failure is kept in the context: what follows does nothing. */
static stn_status rank_main(stn_context *ctx, void *arg)
{
    struct run *run = arg;
    struct model m = {.ctx = ctx};
    stn_checkpoint state = {.size = sizeof state};
    stn_mesh_create(ctx, 2, (int[]){run->data, run->tensor}, (const char *[]){"data", "tensor"}, NULL, &m.mesh);
    stn_params_create(ctx, &m.params);
    stn_scope_begin(ctx);
    loss_of(&m, batch(&m, 0)); /* asks for every weight, which makes it */
    stn_scope_end(ctx);
    stn_adamw_create(ctx, NULL, &state.optimizer);
    stn_optimizer_add_params(state.optimizer, m.params, 0.05);
    if (run->resumes)
        stn_checkpoint_load(ctx, path, &state, NULL);
    while (stn_context_status(ctx) == STN_OK && state.step < STEPS) {
        step(&m, state.optimizer, state.step++, &run->loss[stn_context_rank(ctx)]);
        if (state.step == STEPS / 2)
            stn_checkpoint_save(ctx, path, &state);
    }
    stn_optimizer_destroy(&state.optimizer);
    stn_params_destroy(&m.params);
    return stn_context_status(ctx);
}

int main(void)
{
    struct run runs[] = {{.data = 2, .tensor = 2}, {.data = 1, .tensor = 3, .resumes = 1}};
    char error[512] = "";
    for (int i = 0; i < 2 && !error[0]; i++) {
        stn_launch_options options = {.size = sizeof options, .ranks = runs[i].data * runs[i].tensor,
                                      .context = {.seed = 1, .error_text = error, .error_text_size = sizeof error}};
        stn_launch(&options, rank_main, &runs[i]);
        printf("%d x %d ranks: loss %.4f in the end %s\n", runs[i].data, runs[i].tensor, runs[i].loss[0], error);
    }
    remove(path);
    return !error[0] && runs[0].loss[0] < 1.5 && fabs(runs[0].loss[0] - runs[1].loss[0]) < 0.05 ? 0 : 1;
}
