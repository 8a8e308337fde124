/* A small causal transformer on characters: data parallel x tensor parallel, tokens sharded between the blocks, bf16
 * with f32 parameters, accumulation over micro-batches, and a run that is saved on 2 x 2 ranks and goes on on 1 x 3
 * ranks as if it had never stopped. */
#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 8, TIME = 24, WIDTH = 32, HEADS = 4, LAYERS = 2, LETTERS = 27, MICRO_BATCHES = 2, STEPS = 30 };

static const char text[] = "peter piper picked a peck of pickled peppers "
                           "a peck of pickled peppers peter piper picked "
                           "if peter piper picked a peck of pickled peppers "
                           "where is the peck of pickled peppers peter piper picked ";

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

static void make(struct model *m, int layer, const char *what, const char *layout, int ndim, int64_t rows, int64_t columns)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", layer, what);
    const stn_spec *spec = stn_spec_of(m->mesh, STN_DTYPE_F32, layout, ndim, (int64_t[]){rows, columns});
    stn_params_make(m->params, name, spec, ndim == 1 ? stn_ones : small_normal);
}

/* A pair of products as in Megatron-LM: the first weight is sharded by output features, the second by input features, so that what lies between
 * stays on its rank. Three weights rather than one fused one make heads lie together. */
static void make_all(struct model *m)
{
    for (int l = 0; l < LAYERS; l++) {
        make(m, l, "norm0", "R,R", 1, WIDTH, 0), make(m, l, "norm1", "R,R", 1, WIDTH, 0);
        make(m, l, "query", "R,S0", 2, WIDTH, WIDTH), make(m, l, "key", "R,S0", 2, WIDTH, WIDTH), make(m, l, "value", "R,S0", 2, WIDTH, WIDTH);
        make(m, l, "merge", "R,S1", 2, WIDTH, WIDTH);
        make(m, l, "up", "R,S0", 2, 4 * WIDTH, WIDTH), make(m, l, "down", "R,S1", 2, WIDTH, 4 * WIDTH);
    }
    make(m, LAYERS, "letters", "R,R", 2, LETTERS, WIDTH), make(m, LAYERS, "places", "R,R", 2, TIME, WIDTH);
    make(m, LAYERS, "norm", "R,R", 1, WIDTH, 0), make(m, LAYERS, "head", "R,S0", 2, LETTERS, WIDTH);
}

/* A parameter in the dtype of computing; its gradient comes back through the cast, in f32. */
static stn_tensor *get(const struct model *m, int layer, const char *what)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", layer, what);
    return stn_cast(stn_params_find(m->params, name), STN_DTYPE_BF16);
}

static stn_tensor *norm(const struct model *m, int layer, const char *what, stn_tensor *x)
{
    return stn_rms_norm(x, 1, (int64_t[]){WIDTH}, get(m, layer, what), 1e-5);
}

/* (batch, time, width) -> (batch, heads, time, width of a head): features are sharded, so heads are, unevenly where they do not divide. */
static stn_tensor *heads(stn_tensor *x)
{
    return stn_transpose(stn_view(x, 4, (int64_t[]){stn_tensor_shape(x)[0], TIME, HEADS, WIDTH / HEADS}), 1, 2);
}

static stn_tensor *block(const struct model *m, int l, stn_tensor *x)
{
    const stn_attention_attrs causal = {.size = sizeof causal, .is_causal = 1};
    const int64_t shape[] = {stn_tensor_is_error(x) ? 0 : stn_tensor_shape(x)[0], TIME, WIDTH};
    stn_tensor *h = stn_redistribute_to(norm(m, l, "norm0", x), tokens_whole);
    stn_tensor *q = stn_linear(h, get(m, l, "query"), NULL), *k = stn_linear(h, get(m, l, "key"), NULL), *v = stn_linear(h, get(m, l, "value"), NULL);
    stn_tensor *a = stn_scaled_dot_product_attention(heads(q), heads(k), heads(v), NULL, &causal);
    a = stn_linear(stn_reshape(stn_transpose(a, 1, 2), 3, shape), get(m, l, "merge"), NULL); /* Partial over the tensor axis */
    x = stn_add(x, stn_dropout(stn_redistribute_to(a, tokens_sharded), 0.05, 1));
    h = stn_redistribute_to(norm(m, l, "norm1", x), tokens_whole);
    h = stn_linear(stn_gelu(stn_linear(h, get(m, l, "up"), NULL), STN_GELU_TANH), get(m, l, "down"), NULL);
    return stn_add(x, stn_redistribute_to(h, tokens_sharded));
}

static stn_tensor *loss_of(const struct model *m, stn_tensor *input, stn_tensor *target)
{
    stn_tensor *x = stn_add(stn_embedding(input, get(m, LAYERS, "letters"), NULL), get(m, LAYERS, "places"));
    x = stn_redistribute_to(x, tokens_sharded);
    for (int l = 0; l < LAYERS; l++)
        x = block(m, l, x);
    x = stn_redistribute_to(norm(m, LAYERS, "norm", x), tokens_whole);
    stn_tensor *logits = stn_cast(stn_linear(x, get(m, LAYERS, "head"), NULL), STN_DTYPE_F32); /* letters are sharded */
    return stn_cross_entropy(stn_flatten(logits, 0, 1), stn_flatten(target, 0, 1), NULL, -100, STN_REDUCE_MEAN, 0);
}

/* Rows of the text from places that follow from the number of the batch: every rank fills in the whole and keeps its own rows. */
static void batch(const struct model *m, int number, stn_tensor **input, stn_tensor **target)
{
    int64_t in[BATCH][TIME], out[BATCH][TIME];
    const int last = (int)sizeof text - TIME - 2;
    for (int b = 0; b < BATCH; b++)
        for (int t = 0; t < TIME; t++) {
            const char *at = text + (number * 37 + b * 11) % last + t;
            in[b][t] = at[0] == ' ' ? 26 : at[0] - 'a';
            out[b][t] = at[1] == ' ' ? 26 : at[1] - 'a';
        }
    const stn_spec *spec = stn_spec_of(m->mesh, STN_DTYPE_I64, "S0,R", 2, (int64_t[]){BATCH, TIME});
    *input = stn_from_host_global(m->ctx, spec, in);
    *target = stn_from_host_global(m->ctx, spec, out);
}

/* One step: gradients of the micro-batches add up on each rank, and the last backward reduces them over the data axis once. */
static stn_status step(const struct model *m, stn_optimizer *optimizer, int64_t number, double *value)
{
    *value = 0;
    stn_scope_begin(m->ctx);
    for (int i = 0; i < MICRO_BATCHES; i++) {
        stn_tensor *input, *target;
        double loss = 0;
        batch(m, (int)number * MICRO_BATCHES + i, &input, &target);
        stn_tensor *l = stn_mul_number(loss_of(m, input, target), 1.0 / MICRO_BATCHES);
        if (i < MICRO_BATCHES - 1)
            stn_no_sync_begin(m->ctx);
        stn_backward(l);
        if (i < MICRO_BATCHES - 1)
            stn_no_sync_end(m->ctx);
        stn_item(l, &loss);
        *value += loss;
    }
    stn_clip_grad_norm(m->ctx, stn_params_count(m->params), stn_params_tensors(m->params), 1, NULL);
    stn_optimizer_set_rate_factor(optimizer, stn_schedule_cosine(number, 5, STEPS, 0.1));
    stn_optimizer_step(optimizer);
    stn_params_zero_grad(m->params);
    return stn_scope_end(m->ctx);
}

struct run {
    int data, tensor;
    const char *save, *load; /* after half of the steps; before the first */
    double loss;             /* of the last step */
};

static stn_status train(struct model *m, stn_optimizer *optimizer, struct run *run)
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
    make_all(&m);
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

static int launch(struct run *run)
{
    char error[512] = "";
    stn_launch_options options = {.size = sizeof options, .ranks = run->data * run->tensor,
                                  .context = {.size = sizeof options.context, .seed = 1, .error_text = error, .error_text_size = sizeof error}};
    stn_status status = stn_launch(&options, rank_main, run);
    if (status != STN_OK)
        fprintf(stderr, "transformer: %s: %s\n", stn_status_text(status), error);
    else
        printf("%d x %d ranks: loss %.4f after %d steps%s\n", run->data, run->tensor, run->loss, STEPS, run->load ? ", half of them resumed" : "");
    return status == STN_OK;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "transformer.safetensors";
    struct run whole = {.data = 2, .tensor = 2, .save = path}, resumed = {.data = 1, .tensor = 3, .load = path};
    int ran = launch(&whole) && launch(&resumed);
    remove(path);
    return ran && whole.loss < 1.5 && fabs(whole.loss - resumed.loss) < 0.05 ? 0 : 1;
}
