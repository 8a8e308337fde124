/* What steps of all models are made of. */
#include "model.h"

#include <string.h>

static int64_t bytes_of(const stn_tensor *tensor)
{
    return stn_spec_numel(stn_tensor_spec(tensor)) * (int64_t)sizeof(float);
}

static stn_tensor *by_inputs(stn_context *context, const stn_spec *spec)
{
    return stn_kaiming_uniform(context, spec, 1, STN_FAN_IN);
}

stn_tensor *model_weight_of(const struct model *model, const char *name, const char *layout, int ndim,
                            const int64_t *shape, stn_initialiser init)
{
    stn_tensor *found = stn_params_find(model->params, name);
    if (found)
        return found;
    const stn_spec *spec = stn_spec_of(model->mesh, STN_DTYPE_F32, layout, ndim, shape);
    return stn_params_make(model->params, name, spec, init ? init : by_inputs);
}

stn_tensor *model_weight(const struct model *model, const char *name, int ndim, const int64_t *shape,
                         stn_initialiser init)
{
    static const stn_placement whole[] = {STN_R, STN_R};
    stn_tensor *weight = model_weight_of(model, name, model->kind->weights, ndim, shape, init);
    return model->kind->gathers ? stn_redistribute_to(weight, whole) : weight;
}

/* Parameters are dealt to the share that has least so far. */
static stn_status add_parameters(struct model *model)
{
    const stn_named_tensor *all = stn_params_named(model->params);
    const int n = stn_params_count(model->params), n_shares = model->n_shares ? model->n_shares : 1;
    int64_t taken[MODEL_MOST_SHARES] = {0};
    stn_status status = STN_OK;
    for (int i = 0; i < n && status == STN_OK; i++) {
        int least = 0;
        for (int s = 1; s < n_shares; s++)
            least = taken[s] < taken[least] ? s : least;
        taken[least] += bytes_of(all[i].tensor);
        const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &all[i]};
        if (least == model->share)
            status = stn_optimizer_add_group(model->optimizer, &group);
    }
    return status;
}

static stn_status make_in_scope(struct model *model)
{
    stn_mesh_create(model->context, model->kind->n_axes, model->sizes, NULL, NULL, &model->mesh);
    stn_params_create(model->context, &model->params);
    stn_adamw_create(model->context, NULL, &model->optimizer);
    for (int part = 0; part < model->n_parts; part++) {
        model->kind->draw(model, &model->input[part], &model->target[part]);
        stn_tensor_retain(model->input[part]);
        stn_tensor_retain(model->target[part]);
    }
    stn_no_grad_begin(model->context);
    model->kind->loss(model, model->input[0], model->target[0]); /* asks for every weight, which makes it */
    stn_no_grad_end(model->context);
    return stn_context_status(model->context) == STN_OK ? add_parameters(model) : STN_OK;
}

stn_status model_make(struct model *model)
{
    stn_scope_begin(model->context);
    stn_set_gather_again(model->context, model->kind->gathers);
    const stn_status status = make_in_scope(model), ended = stn_scope_end(model->context);
    return ended != STN_OK ? ended : status;
}

void model_drop(struct model *model)
{
    for (int part = 0; part < model->n_parts; part++) {
        stn_tensor_release(&model->input[part]);
        stn_tensor_release(&model->target[part]);
    }
    stn_optimizer_destroy(&model->optimizer);
    stn_params_destroy(&model->params);
}

static void add_gradients(struct model *model, double *loss)
{
    double value = 0;
    stn_no_sync_begin(model->context);
    for (int part = 0; part < model->n_parts; part++) {
        stn_scope_begin(model->context);
        stn_tensor *of_part = model->kind->loss(model, model->input[part], model->target[part]);
        stn_backward(model->n_parts > 1 ? stn_mul_number(of_part, 1.0 / model->n_parts) : of_part);
        if (loss && stn_item(of_part, &value) == STN_OK)
            *loss += value / model->n_parts;
        stn_scope_end(model->context);
    }
    stn_no_sync_end(model->context);
    stn_grad_sync(model->context, stn_params_count(model->params), stn_params_tensors(model->params));
}

stn_status model_step(struct model *model, double *loss)
{
    if (loss)
        *loss = 0;
    stn_scope_begin(model->context);
    add_gradients(model, loss);
    stn_optimizer_step(model->optimizer);
    stn_params_zero_grad(model->params);
    return stn_scope_end(model->context);
}

int64_t model_bytes(const struct model *model)
{
    int64_t bytes = 0;
    for (int i = 0; i < stn_params_count(model->params); i++)
        bytes += bytes_of(stn_params_tensors(model->params)[i]);
    return bytes;
}

int64_t model_layer_bytes(const struct model *model)
{
    const stn_named_tensor *all = stn_params_named(model->params);
    int64_t largest = 0;
    for (int i = 0; i < stn_params_count(model->params); i++) {
        int64_t bytes = 0;
        const size_t length = strcspn(all[i].name, ".") + 1;
        for (int k = 0; k < stn_params_count(model->params); k++)
            bytes += strncmp(all[i].name, all[k].name, length) == 0 ? bytes_of(all[k].tensor) : 0;
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}
