/* Drawing calls: how many inputs, their shapes, dtypes and layouts. Half the calls are tame, so that ops run; the
 * rest are wild. */
#include "call_draw.h"

#include "conform/number.h"

#include <string.h>

enum { TAME = 4, WILD = 35, BASE_DIMS = 26 /* one size a letter */ };

int call_chance(struct call_draft *d, int percent)
{
    return call_below(d, 100) < percent;
}

int call_below(struct call_draft *d, int n)
{
    return n > 0 ? (int)rng_below(&d->rng, n) : 0;
}

/* Shapes */

/* An ellipsis stands for no dim. */
static void add_letter(const struct call_draft *d, char letter, struct call_input *input)
{
    if (input->ndim == STN_MAX_NDIM || letter == '.')
        return;
    input->shape[input->ndim++] = letter >= '0' && letter <= '9' ? letter - '0' : d->base[(letter | 0x20) - 'a'];
}

/* Part `i` of a pattern such as "nc,ockk,o". @return 0 where it has none. */
static int shape_by_pattern(const struct call_draft *d, const char *pattern, int i, struct call_input *input)
{
    for (; i > 0 && pattern != NULL; i--)
        if ((pattern = strchr(pattern, ',')) != NULL)
            pattern++;
    if (pattern == NULL)
        return 0;
    for (input->ndim = 0; *pattern != '\0' && *pattern != ',' && *pattern != '-'; pattern++)
        add_letter(d, *pattern, input);
    return 1;
}

static void shape_at_random(struct call_draft *d, int i, struct call_input *input)
{
    const int same = call_chance(d, 55);
    input->ndim = same ? d->ndim : call_below(d, 5);
    if (call_chance(d, d->wild / 10))
        input->ndim = call_below(d, STN_MAX_NDIM + 1);
    for (int k = 0; k < input->ndim; k++)
        input->shape[k] = same || call_chance(d, 60) ? d->base[(k + (same ? 0 : call_below(d, 2))) % STN_MAX_NDIM]
                                                     : 1 + call_below(d, 5);
    if (same && i > 0 && input->ndim > 0 && call_chance(d, 15))
        input->shape[call_below(d, input->ndim)] = 1;
}

static void draw_shape(struct call_draft *d, int i, struct call_input *input)
{
    if (!d->pattern || !shape_by_pattern(d, d->pattern, i, input))
        shape_at_random(d, i, input);
    if (input->ndim > 0 && call_chance(d, d->wild / 8))
        input->shape[call_below(d, input->ndim)] = call_below(d, 2);
}

/* Layouts */

/* Which reductions a dtype may leave pending; of several axes all the same one. */
static stn_reduce_op draw_reduction(struct call_draft *d, stn_dtype dtype)
{
    const stn_reduce_op op = call_chance(d, 70) ? STN_SUM : (stn_reduce_op)call_below(d, STN_REDUCE_OP_COUNT);
    if ((op == STN_AVG && !stn_dtype_is_differentiable(dtype)) || (op >= STN_MIN && number_parts(dtype) == 2))
        return STN_SUM;
    return op;
}

static void draw_layout(struct call_draft *d, struct call_input *input)
{
    int ranks[GRID_MAX_RANKS];
    const struct grid grid = call_grid(input->mesh, d->call->world.ranks, ranks);
    const struct subject subject = {input->dtype, input->ndim, input->shape};
    const stn_reduce_op op = draw_reduction(d, input->dtype);
    layouts_nth(&grid, 1, &subject, 0, &input->layout);
    for (int a = 0; a < grid.ndim; a++) {
        const int kind = call_below(d, 10);
        if (kind >= 4 && kind < 9 && input->ndim > 0)
            input->layout.placement[a] = stn_shard(call_below(d, input->ndim));
        else if (kind == 9 && grid.sizes[a] > 1)
            input->layout.placement[a] = stn_partial(op);
        d->call->pending |= input->layout.placement[a].kind == STN_PLACE_PARTIAL;
    }
    if (call_chance(d, 30))
        layouts_cut(&grid, 1, &subject, rng_mix(d->rng.seed, d->rng.next++), &input->layout);
}

/* Whatever is pending has to be exact when it is reduced. */
static void draw_numbers(const struct call_draft *d, struct call_input *input, enum call_numbers numbers)
{
    stn_reduce_op op = STN_SUM;
    int pending = 0;
    for (int a = 0; input->mesh != MESH_LOCAL && a < STN_MAX_MESH_NDIM; a++)
        if (input->layout.placement[a].kind == STN_PLACE_PARTIAL) {
            pending = 1;
            op = (stn_reduce_op)input->layout.placement[a].op;
        }
    input->numbers = numbers;
    if (pending && numbers == NUMBERS_SPECIAL)
        input->numbers = NUMBERS_REAL;
    if (pending && op == STN_AVG && numbers != NUMBERS_RISING)
        input->numbers = NUMBERS_WHOLE;
    if (input->numbers == NUMBERS_SPECIAL)
        d->call->special = 1;
}

/* Inputs */

static void draw_dtype(struct call_draft *d, const struct call_hint *hint, struct call_input *input)
{
    input->dtype = d->dtype;
    if (call_chance(d, d->wild > 10 ? 25 : 4))
        input->dtype = (stn_dtype)call_below(d, STN_DTYPE_COUNT);
    if (hint && call_chance(d, hint->percent))
        input->dtype = hint->dtype;
    if (hint && hint->dtype == STN_DTYPE_I64 && call_chance(d, 15))
        input->dtype = STN_DTYPE_I32;
}

static enum call_given draw_given(struct call_draft *d, int i)
{
    const stn_input_schema *schema = i < d->call->op->n_inputs ? &d->call->op->inputs[i] : NULL;
    if ((schema && schema->optional && call_chance(d, 40)) || call_chance(d, d->wild / 12))
        return GIVEN_NULL;
    if (d->wild > TAME && call_chance(d, 1))
        return GIVEN_ERROR;
    return i > 0 && call_chance(d, 3) ? GIVEN_PREVIOUS : GIVEN_TENSOR;
}

static void draw_input(struct call_draft *d, int i)
{
    struct call *c = d->call;
    struct call_input *input = &c->inputs[i];
    const char *name = i < c->op->n_inputs ? c->op->inputs[i].name : "";
    const struct call_hint *hint = call_hint_of(c->op->name, name);
    input->given = draw_given(d, i);
    draw_shape(d, i, input);
    draw_dtype(d, hint, input);
    input->mesh = d->mesh;
    if (d->wild > TAME && call_chance(d, 6))
        input->mesh = (enum call_mesh)call_below(d, MESHES);
    c->mixed |= i > 0 && input->mesh != c->inputs[0].mesh;
    draw_layout(d, input);
    draw_numbers(d, input, hint && hint->has_numbers ? hint->numbers : d->numbers);
    input->seed = rng_mix(d->rng.seed, d->rng.next++);
    input->requires_grad = call_chance(d, 60);
}

static int n_commas(const char *text)
{
    int n = 0;
    for (; *text != '\0'; text++)
        n += *text == ',';
    return n;
}

static int draw_n_inputs(struct call_draft *d)
{
    const stn_op_desc *op = d->call->op;
    int n = op->n_inputs;
    if (n > 0 && op->inputs[n - 1].variadic)
        n += d->equation ? n_commas(d->equation) : call_below(d, 3);
    if (d->wild > TAME && call_chance(d, 3))
        n = call_chance(d, 50) ? call_below(d, n + 2) : call_below(d, CALL_INPUTS);
    return n < CALL_INPUTS ? n : CALL_INPUTS;
}

static int draw_n_outputs(struct call_draft *d)
{
    const int n = d->call->op->n_outputs - d->call->op->n_private;
    return call_chance(d, d->wild / 10) ? call_below(d, CALL_OUTPUTS) : n;
}

/* What a call's inputs have in common. */
static void draw_base(struct call_draft *d)
{
    d->wild = call_chance(d, 50) ? TAME : WILD;
    d->ndim = call_chance(d, 6) ? call_below(d, STN_MAX_NDIM + 1) : call_below(d, 5);
    for (int k = 0; k < BASE_DIMS; k++)
        d->base[k] = 1 + call_below(d, 5);
    if (call_chance(d, 10))
        d->base[call_below(d, BASE_DIMS)] = 0;
    d->dtype = call_chance(d, 60) ? STN_DTYPE_F32 : (stn_dtype)call_below(d, STN_DTYPE_COUNT);
    d->numbers = call_chance(d, 60) ? NUMBERS_REAL : call_chance(d, 60) ? NUMBERS_WHOLE : NUMBERS_SPECIAL;
    d->mesh = call_chance(d, 65) ? MESH_LINE : (enum call_mesh)call_below(d, MESHES);
    if ((d->call->op->flags & STN_OP_PER_RANK) != 0 && call_chance(d, 90))
        d->mesh = MESH_LOCAL;
    d->equation = strcmp(d->call->op->name, "einsum") == 0 ? call_draw_equation(d) : NULL;
    d->pattern = call_chance(d, 80) ? d->equation ? d->equation : call_pattern_of(d->call->op->name) : NULL;
}

struct call_world call_world_of(uint64_t seed, uint64_t number, int ranks)
{
    struct rng rng = {rng_mix(rng_mix(seed, number / CALL_BATCH), 1), 0};
    struct call_world world = {.ranks = 2 + (int)rng_below(&rng, 3)};
    world.queue = rng_below(&rng, 4) == 0 ? STN_QUEUE_WORKER : STN_QUEUE_IMMEDIATE;
    world.checks = rng_below(&rng, 4) == 0;
    if (ranks > 0)
        world.ranks = ranks;
    return world;
}

void call_draw(struct call *call, const struct call_ops *ops, uint64_t seed, uint64_t number, int ranks)
{
    struct call_draft d = {.call = call, .rng = {rng_mix(rng_mix(seed, number), 2), 0}};
    memset(call, 0, sizeof *call);
    call->world = call_world_of(seed, number, ranks);
    call->op = ops->op[call_below(&d, ops->n)];
    draw_base(&d);
    call->n_inputs = draw_n_inputs(&d);
    for (int i = 0; i < call->n_inputs; i++)
        draw_input(&d, i);
    call_draw_attrs(&d);
    call->n_outputs = draw_n_outputs(&d);
    call->differentiated = call_chance(&d, 50);
    call->way = call_chance(&d, 50) ? WAY_NAME : call_chance(&d, 50) ? WAY_HANDLE : WAY_STRUCT;
}
