/* Running calls. What is wrong whatever was given is noted here; what depends on other ranks is for call_judge. */
#include "call_run.h"

#include "conform/number.h"
#include "conform/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    stn_context *context;
    const struct call *call;
    const stn_mesh *const *meshes;
    struct call_outcome *outcome;
    stn_tensor *inputs[CALL_INPUTS], *outputs[CALL_OUTPUTS];
    stn_tensor *leaves[CALL_INPUTS]; /* what gradients are asked of; NULL: of this input none */
};

STN_PRINTF(2, 3)
static void fault(struct run *run, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (run->outcome->fault[0] == '\0')
        vsnprintf(run->outcome->fault, sizeof run->outcome->fault, format, args);
    va_end(args);
}

static stn_status take(struct run *run, char text[CALL_TEXT])
{
    const stn_status status = stn_context_take_error(run->context, text, CALL_TEXT);
    if (status != STN_OK && text[0] == '\0')
        fault(run, "status %s came without a text", stn_status_text(status));
    return status;
}

/* Inputs */

/* What the parts of a pending reduction are: the number on the first rank of each axis; elsewhere what changes
 * nothing. */
static double part_of(const stn_spec *spec, double x)
{
    const stn_mesh *mesh = stn_spec_mesh(spec);
    for (int a = 0; mesh && a < stn_mesh_ndim(mesh); a++) {
        const stn_placement p = stn_spec_placement(spec, a);
        if (p.kind == STN_PLACE_PARTIAL && stn_mesh_coordinate(mesh, a) > 0 && (p.op == STN_SUM || p.op == STN_PROD))
            return p.op == STN_PROD;
    }
    return x;
}

/* By how much of itself a number is changed: up to a few units in its last place. */
static double perturbation(int draw, const struct call_input *input, int64_t i)
{
    static const double most[] = {
        [STN_DTYPE_F64] = 0x1p-50, [STN_DTYPE_F32] = 0x1p-21,  [STN_DTYPE_F16] = 0x1p-9,
        [STN_DTYPE_BF16] = 0x1p-6, [STN_DTYPE_C128] = 0x1p-50, [STN_DTYPE_C64] = 0x1p-21};
    if (draw == 0 || number_parts(input->dtype) == 0)
        return 0;
    const uint64_t bits = rng_mix(rng_mix(input->seed, (uint64_t)draw), (uint64_t)i);
    return most[input->dtype] * ((double)(bits >> 11) * 0x1p-52 - 1);
}

/* The imaginary part of a factor 1 is 0. */
static double number_of(const struct run *run, const struct call_input *input, const stn_spec *spec, int64_t at,
                        int parts, int part)
{
    const int64_t last = input->ndim > 0 ? input->shape[input->ndim - 1] : 1, i = at * parts + part;
    const double drawn = call_number(input->numbers, input->dtype, input->seed, i, last * parts);
    const double x = drawn * (1 + perturbation(run->call->perturbed, input, i)), y = part_of(spec, x);
    return part > 0 && y == 1 && part_of(spec, 0) == 1 ? 0 : y;
}

static void fill_chunk(const struct run *run, const struct call_input *input, const stn_spec *spec, void *data)
{
    const int64_t *shape = stn_spec_local_shape(spec), *offset = stn_spec_local_offset(spec),
                  n = stn_spec_local_numel(spec);
    const int parts = number_parts(input->dtype) == 2 ? 2 : 1;
    int64_t index[STN_MAX_NDIM] = {0};
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (int d = 0; d < input->ndim; d++)
            at = at * input->shape[d] + offset[d] + index[d];
        for (int part = 0; part < parts; part++)
            call_number_put(input->dtype, data, i * parts + part, number_of(run, input, spec, at, parts, part));
        for (int d = input->ndim - 1; d >= 0 && ++index[d] == shape[d]; d--)
            index[d] = 0;
    }
}

static stn_tensor *make(struct run *run, const struct call_input *input, const stn_mesh *mesh)
{
    const stn_spec *spec;
    const stn_status status =
        mesh ? parts_spec(run->context, mesh, &input->layout, input->dtype, input->ndim, input->shape, &spec)
             : stn_spec_create(run->context, NULL, NULL, input->dtype, input->ndim, input->shape, NULL, &spec);
    if (status != STN_OK)
        return NULL;
    void *data = calloc((size_t)stn_spec_local_numel(spec) + 1, 16);
    stn_tensor *tensor = NULL;
    if (data != NULL) {
        fill_chunk(run, input, spec, data);
        tensor = stn_from_host(run->context, spec, data);
    }
    free(data);
    stn_spec_release(&spec);
    return stn_tensor_is_error(tensor) ? NULL : tensor;
}

/* What a refused op gave, its error taken. */
static stn_tensor *error_tensor(stn_context *context)
{
    stn_tensor *tensor = NULL;
    stn_call(context, "no_such_op", 0, NULL, 0, NULL, 1, &tensor);
    stn_context_take_error(context, NULL, 0);
    return tensor;
}

static int make_inputs(struct run *run)
{
    const struct call *c = run->call;
    for (int i = 0; i < c->n_inputs; i++) {
        const struct call_input *input = &c->inputs[i];
        if (input->given == GIVEN_ERROR)
            run->inputs[i] = error_tensor(run->context);
        else if (input->given == GIVEN_PREVIOUS && i > 0)
            run->inputs[i] = run->inputs[i - 1];
        else if (input->given != GIVEN_NULL &&
                 !(run->inputs[i] = make(run, input, run->meshes ? run->meshes[input->mesh] : NULL)))
            return 0;
    }
    for (int i = 0; c->differentiated && i < c->n_inputs; i++)
        if (c->inputs[i].given == GIVEN_TENSOR && c->inputs[i].requires_grad &&
            stn_dtype_is_differentiable(c->inputs[i].dtype)) {
            run->leaves[i] = run->inputs[i];
            stn_set_requires_grad(run->inputs[i], 1);
        }
    if (run->leaves[0] && (c->op->flags & STN_OP_IN_PLACE) != 0 && (c->inputs[0].seed & 7) != 0) /* a leaf is not changed in place */
        run->inputs[0] = stn_mul_number(run->leaves[0], 1);
    return 1;
}

/* Calling */

static stn_status call_with_struct(struct run *run, const stn_op *op)
{
    const struct call *c = run->call;
    char *attrs = calloc(1, c->op->attrs_size + 1);
    if (attrs == NULL)
        return STN_ERR_MEMORY;
    call_fill_struct(c, attrs);
    const stn_status status = stn_op_apply(op, c->n_inputs, run->inputs, attrs, c->n_outputs, run->outputs);
    free(attrs);
    return status;
}

static stn_status call_op(struct run *run)
{
    const struct call *c = run->call;
    const stn_op *op = stn_op_find(run->context, c->op->name);
    stn_attr attrs[CALL_ATTRS];
    for (int i = 0; i < c->n_attrs; i++) {
        attrs[i] = c->attrs[i].attr;
        attrs[i].name = c->attrs[i].name;
        if (attrs[i].type == STN_ATTR_STRING)
            attrs[i].value.s = c->attrs[i].has_text ? c->attrs[i].text : NULL;
    }
    if (c->way == WAY_STRUCT)
        return call_with_struct(run, op);
    if (c->way == WAY_HANDLE)
        return stn_op_invoke(op, c->n_inputs, run->inputs, c->n_attrs, attrs, c->n_outputs, run->outputs);
    return stn_call(run->context, c->op->name, c->n_inputs, run->inputs, c->n_attrs, attrs, c->n_outputs, run->outputs);
}

/* Reading */

static int64_t numel_of(const stn_tensor *tensor)
{
    int64_t n = 1;
    for (int d = 0; d < stn_tensor_ndim(tensor); d++) {
        const int64_t size = stn_tensor_shape(tensor)[d];
        if (size == 0)
            return 0;
        n = n > CALL_MOST_READ / size ? CALL_MOST_READ + 1 : n * size;
    }
    return n;
}

static void read_result(stn_tensor *tensor, struct call_result *result)
{
    if (tensor == NULL)
        return;
    result->present = 1;
    result->dtype = stn_tensor_dtype(tensor);
    result->ndim = stn_tensor_ndim(tensor);
    memcpy(result->shape, stn_tensor_shape(tensor), sizeof(int64_t) * (size_t)result->ndim);
    result->numel = numel_of(tensor);
    const stn_mesh *mesh = stn_spec_mesh(stn_tensor_spec(tensor));
    result->outside = mesh && !stn_mesh_contains_me(mesh);
    if (result->numel > CALL_MOST_READ)
        return;
    const size_t bytes = (size_t)result->numel * stn_dtype_size(result->dtype);
    stn_tensor *whole = mesh ? stn_full_tensor(tensor) : tensor;
    if (stn_tensor_is_error(whole))
        return;
    if (result->outside)
        return;
    result->data = calloc(1, bytes + 16);
    if (result->data && stn_to_host(whole, result->data, bytes) != STN_OK) {
        free(result->data);
        result->data = NULL;
    }
}

static int is_small(const struct run *run)
{
    for (int k = 0; k < run->call->n_outputs; k++)
        if (run->outputs[k] && numel_of(run->outputs[k]) > CALL_MOST_READ)
            return 0;
    return 1;
}

static stn_tensor *cotangent(struct run *run, const stn_tensor *output, int k)
{
    int ranks[GRID_MAX_RANKS];
    struct call_input input = {.dtype = stn_tensor_dtype(output),
                               .ndim = stn_tensor_ndim(output),
                               .numbers = NUMBERS_REAL,
                               .seed = 99 + (uint64_t)k};
    const struct grid grid = call_grid(MESH_LINE, 1, ranks);
    const struct subject subject = {input.dtype, 0, NULL};
    memcpy(input.shape, stn_tensor_shape(output), sizeof(int64_t) * (size_t)input.ndim);
    layouts_nth(&grid, 1, &subject, 0, &input.layout);
    return make(run, &input, stn_spec_mesh(stn_tensor_spec(output)));
}

/* The gradients' gradients, behind those. */
static stn_status differentiate_again(struct run *run, int n_leaves, stn_tensor **leaves, stn_tensor **gradients)
{
    stn_tensor *outputs[CALL_INPUTS], *cotangents[CALL_INPUTS];
    int n = 0;
    for (int i = 0; i < n_leaves; i++)
        if (gradients[i] && stn_requires_grad(gradients[i])) {
            cotangents[n] = cotangent(run, gradients[i], CALL_OUTPUTS + i);
            outputs[n++] = gradients[i];
        }
    return n == 0 ? STN_OK
                  : stn_grad(run->context, n, outputs, cotangents, n_leaves, leaves, 0, 0, gradients + n_leaves);
}

static void differentiate(struct run *run)
{
    const struct call *c = run->call;
    struct call_outcome *o = run->outcome;
    stn_tensor *outputs[CALL_OUTPUTS], *cotangents[CALL_OUTPUTS], *leaves[CALL_INPUTS],
        *gradients[CALL_INPUTS] = {NULL};
    int n_outputs = 0, n_leaves = 0;
    for (int k = 0; k < c->n_outputs; k++)
        if (run->outputs[k] && stn_requires_grad(run->outputs[k])) {
            cotangents[n_outputs] = cotangent(run, run->outputs[k], k);
            outputs[n_outputs++] = run->outputs[k];
        }
    for (int i = 0; i < c->n_inputs; i++)
        if (run->leaves[i])
            leaves[n_leaves++] = run->leaves[i];
    if (n_outputs == 0 || n_leaves == 0)
        return;
    const int twice = call_goes_twice(c) && 2 * n_leaves <= CALL_INPUTS;
    o->gradient = stn_grad(run->context, n_outputs, outputs, cotangents, n_leaves, leaves, twice, twice, gradients);
    if (o->gradient == STN_OK && twice)
        o->gradient = differentiate_again(run, n_leaves, leaves, gradients);
    if (o->gradient != STN_OK) {
        if (take(run, o->gradient_text) != o->gradient)
            fault(run, "stn_grad returns another status than it keeps");
        return;
    }
    o->n_gradients = twice ? 2 * n_leaves : n_leaves;
    for (int i = 0; i < o->n_gradients; i++)
        read_result(gradients[i], &o->gradients[i]);
}

static void after_failure(struct run *run)
{
    const stn_status status = run->outcome->status;
    for (int k = 0; k < run->call->n_outputs; k++)
        if (!run->outputs[k] || !stn_tensor_is_error(run->outputs[k]))
            fault(run, "failed, and output %d is no error tensor", k);
    if (take(run, run->outcome->text) != status)
        fault(run, "returns another status than it keeps");
    if (!(run->call->op->flags & STN_OP_PER_RANK) && !call_hangs_on_elements(run->call->op))
        return;
    /* Ranks outside of its mesh know nothing of its failure. */
    if ((run->outcome->later = stn_agree(run->context, status, run->outcome->text)) != STN_OK)
        take(run, run->outcome->later_text);
}

static void after_success(struct run *run)
{
    struct call_outcome *o = run->outcome;
    for (int k = 0; k < run->call->n_outputs; k++)
        if (run->outputs[k] && stn_tensor_is_error(run->outputs[k])) {
            fault(run, "returned STN_OK, and output %d is an error tensor", k);
            return;
        }
    if ((o->later = stn_agree(run->context, STN_OK, NULL)) != STN_OK)
        take(run, o->later_text);
    o->n_outputs = run->call->n_outputs;
    for (int k = 0; k < o->n_outputs; k++)
        read_result(run->outputs[k], &o->outputs[k]);
    if (run->call->differentiated && o->later == STN_OK && is_small(run))
        differentiate(run);
}

static int64_t alive(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    return stats.live_tensors;
}

int call_goes_round(const struct call *call)
{
    const int is_attention = strcmp(call->op->name, "scaled_dot_product_attention") == 0;
    return is_attention && call->n_inputs > 0 && call->inputs[0].seed % 2 != 0;
}

int call_goes_twice(const struct call *call)
{
    return call->n_inputs > 0 && call->inputs[0].seed % 3 == 0;
}

void call_run(stn_context *context, const struct call *call, const stn_mesh *const *meshes,
              struct call_outcome *outcome)
{
    struct run run = {.context = context, .call = call, .meshes = meshes, .outcome = outcome};
    memset(outcome, 0, sizeof *outcome);
    const int64_t before = alive(context);
    stn_set_ring_attention(context,
                           call_goes_round(call) ? STN_RING_ATTENTION_ALWAYS : STN_RING_ATTENTION_WHERE_IT_PAYS);
    stn_scope_begin(context);
    if (!make_inputs(&run)) {
        outcome->refused = 1;
        outcome->status = stn_context_take_error(context, outcome->text, sizeof outcome->text);
    } else if ((outcome->status = call_op(&run)) != STN_OK) {
        after_failure(&run);
    } else {
        after_success(&run);
    }
    /* What backward found out of range, too, so that nothing is left for the next call. */
    if ((outcome->last = stn_agree(context, STN_OK, NULL)) != STN_OK)
        take(&run, outcome->last_text);
    const stn_status end = stn_scope_end(context);
    if (end != STN_OK)
        fault(&run, "the scope ends with %s: %s", stn_status_text(end), stn_context_error_text(context));
    if (alive(context) != before)
        fault(&run, "%lld tensors before, %lld after", (long long)before, (long long)alive(context));
}

void call_outcome_free(struct call_outcome *outcome)
{
    for (int k = 0; k < CALL_OUTPUTS; k++)
        free(outcome->outputs[k].data);
    for (int i = 0; i < CALL_INPUTS; i++)
        free(outcome->gradients[i].data);
    memset(outcome, 0, sizeof *outcome);
}
