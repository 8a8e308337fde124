/* Training: optimizers over a list of parameters, schedules of the rate, averages of parameters, clipping of gradients.
 *
 * Parameters are leaves. Their state has their layout: what one rank holds of a parameter it updates alone, so that a
 * step communicates nothing. All parameters of one step are updated by few kernels. A view apart of a parameter
 * (ops_in_place.h) that lives on shows what it was or what it has become, as layouts have it: make it anew. */
#ifndef SHARDTENSOR_TRAIN_H
#define SHARDTENSOR_TRAIN_H

#include <shardtensor/autograd.h>

STN_BEGIN_DECLS

/** A tensor and what it is called, in files for one. */
typedef struct stn_named_tensor {
    const char *name;
    stn_tensor *tensor;
} stn_named_tensor;

/* Lists of parameters: what a model is to optimizers, files, clipping and the reduction of gradients.
 *
 *     stn_tensor *w = stn_params_get(params, "w", spec, stn_randn); // makes it in the first step
 *     stn_optimizer_add_params(optimizer, params, 1e-3);            // once all are made
 *     stn_clip_grad_norm(context, stn_params_count(params), stn_params_tensors(params), 1, NULL); */

typedef struct stn_params stn_params;

/** Makes a tensor of a spec: stn_zeros, stn_ones, stn_rand, stn_randn, or a function of the caller's around another
 *  factory. */
typedef stn_tensor *(*stn_initialiser)(stn_context *context, const stn_spec *spec);

/** An empty list. Local. @return STN_ERR_MEMORY, or the kept error. */
STN_API stn_status stn_params_create(stn_context *context, stn_params **out);

/** Adds a leaf, which requires grad from now on; the name is copied, the tensor retained. Local; every rank adds the
 *  same.
 *  @return STN_ERR_ARGUMENT (a name that is empty or there already; NULL), STN_ERR_STATE (no leaf), STN_ERR_DTYPE (no
 *  gradients exist), STN_ERR_MEMORY. */
STN_API stn_status stn_params_add(stn_params *params, const char *name, stn_tensor *tensor);

/** Makes a parameter and adds it: `initialiser` runs without grad mode, in a scope of its own. Every rank of the world
 *  makes the same.
 *  @return the parameter, the list's; the error tensor with the statuses of stn_params_add, those of the initialiser,
 *  or STN_ERR_ARGUMENT (it gave a tensor of another spec). */
STN_API stn_tensor *stn_params_make(stn_params *params, const char *name, const stn_spec *spec,
                                    stn_initialiser initialiser);

/** The parameter of that name, made as by stn_params_make where there is none: a model asks for its weights where it
 *  uses them, and its first run makes them. Every rank of the world makes the same.
 *  @return the parameter, the list's; the error tensor with STN_ERR_ARGUMENT (there is one with another spec; no spec,
 *  no initialiser, also where there is one), or a status of stn_params_make. */
STN_API stn_tensor *stn_params_get(stn_params *params, const char *name, const stn_spec *spec,
                                   stn_initialiser initialiser);

STN_API int stn_params_count(const stn_params *params); /**< How many were added. */
STN_API const stn_named_tensor *stn_params_named(const stn_params *params); /**< All of them, in the order of adding; until the next is added. */
STN_API stn_tensor *const *stn_params_tensors(const stn_params *params);    /**< The same without names. */
STN_API stn_tensor *stn_params_find(const stn_params *params, const char *name); /**< Borrowed; NULL if there is none of that name. */
STN_API stn_status stn_params_zero_grad(stn_params *params); /**< Forgets the gradients of all. Local. @return as stn_zero_grad. */
STN_API void stn_params_destroy(stn_params **params); /**< Gives up its references. Local; accepts NULL and sets it to NULL. */

/* Optimizers */

typedef struct stn_optimizer stn_optimizer;

/** p -= rate * (g + weight_decay p), through the momentum b = momentum b + (1 - dampening) g where there is one (the
 *  first b is g). */
typedef struct stn_sgd_options {
    size_t size;         /* sizeof(stn_sgd_options) */
    double rate;         /* 0: 1e-3 */
    double momentum;     /* 0 <= momentum < 1 */
    double dampening;
    double weight_decay; /* added to the gradient */
    int nesterov;        /* 1: steps along g + momentum b; wants a momentum, and no dampening */
} stn_sgd_options;

/** Adam with decoupled weight decay: p -= rate * (weight_decay p + m' / (sqrt(v') + epsilon)), m' and v' the means of g
 *  and g^2 over steps, corrected for their start at zero. */
typedef struct stn_adamw_options {
    size_t size;         /* sizeof(stn_adamw_options) */
    double rate;         /* 0: 1e-3 */
    double beta1, beta2; /* 0: 0.9 and 0.999 */
    double epsilon;      /* 0: 1e-8 */
    double weight_decay;
} stn_adamw_options;

/** Some parameters that share options. */
typedef struct stn_parameter_group {
    size_t size;             /* sizeof(stn_parameter_group) */
    int n;
    const stn_named_tensor *parameters; /* names are copied, parameters retained */
    double rate;             /* 0: the optimizer's */
    int has_weight_decay;    /* 1: weight_decay is this group's, else the optimizer's holds */
    double weight_decay;
} stn_parameter_group;

/** Makes an optimizer by stochastic gradient descent, without parameters. `options` may be NULL. Local.
 *  @return STN_ERR_ARGUMENT (which option, what it got), STN_ERR_MEMORY.  Source: Sutskever et al. 2013 for
 *  momentum. */
STN_API stn_status stn_sgd_create(stn_context *context, const stn_sgd_options *options, stn_optimizer **out);

/** Makes an optimizer by AdamW. As stn_sgd_create.  Source: Kingma and Ba 2015, Loshchilov and Hutter 2019. */
STN_API stn_status stn_adamw_create(stn_context *context, const stn_adamw_options *options, stn_optimizer **out);

/** Makes an optimizer by Adam, which adds weight_decay p to the gradient, as stn_sgd_create does, in place of taking it
 *  from the parameter. As stn_adamw_create, whose options it has.  Source: Kingma and Ba 2015. */
STN_API stn_status stn_adam_create(stn_context *context, const stn_adamw_options *options, stn_optimizer **out);

/** Adds parameters, with state of zeros in their layouts. Local; every rank adds the same.
 *  @return STN_ERR_ARGUMENT (a name or a tensor twice), STN_ERR_DTYPE (not f32 or f64), STN_ERR_STATE (not a leaf that
 *  requires grad, a view), STN_ERR_PARTIAL, STN_ERR_MEMORY. */
STN_API stn_status stn_optimizer_add_group(stn_optimizer *optimizer, const stn_parameter_group *group);

/** Adds all parameters that a list has now as one group, with the optimizer's weight decay. Local; every rank adds the
 *  same.
 *  @param params  parameters that are added to it later are not the optimizer's.
 *  @param rate    of this group; 0: the optimizer's.
 *  @return STN_ERR_ARGUMENT (no list, or an empty one: a model that makes its weights where it asks for them has not
 *  run yet), or as stn_optimizer_add_group. */
STN_API stn_status stn_optimizer_add_params(stn_optimizer *optimizer, const stn_params *params, double rate);

/** One step from the parameters' complete gradients; one without a gradient stays as it is, its state too. Local:
 *  nothing is communicated. Does nothing and returns the kept error after a failure. @return STN_ERR_PARTIAL (a
 *  gradient is pending), STN_ERR_STATE (a parameter has become immutable). */
STN_API stn_status stn_optimizer_step(stn_optimizer *optimizer);

/** Forgets the gradients of all parameters. Local. @return as stn_zero_grad. */
STN_API stn_status stn_optimizer_zero_grad(stn_optimizer *optimizer);

/** What the rates of all groups are multiplied by from now on (a schedule's value); 1 at first. Local. */
STN_API void stn_optimizer_set_rate_factor(stn_optimizer *optimizer, double factor);

STN_API int64_t stn_optimizer_steps(const stn_optimizer *optimizer); /**< Steps done so far. */

/** Writes parameters, state and the number of steps to a safetensors file, each rank its own bytes. A parameter `w` is
 *  stored as "w", its state as "w.momentum", or "w.mean" and "w.square". Collective over the world. @return as
 *  stn_save. */
STN_API stn_status stn_optimizer_save(stn_optimizer *optimizer, const char *path);

/** Reads them back, in whatever layouts the parameters have now. Collective over the world. @return as stn_load;
 *  nothing is changed unless the file has everything. */
STN_API stn_status stn_optimizer_load(stn_optimizer *optimizer, const char *path);

/** Gives up its references. Local; accepts NULL and sets it to NULL. */
STN_API void stn_optimizer_destroy(stn_optimizer **optimizer);

/* Schedules: factors of the rate, pure functions of the step (from 0) */

/** Rises linearly from 1 / (warm_up + 1) to 1 over `warm_up` steps, then stays. */
STN_API double stn_schedule_constant(int64_t step, int64_t warm_up);

/** The same rise, then half a cosine from 1 at step `warm_up` to `least` at step `total` and after.
 *  Source: Loshchilov and Hutter 2017. */
STN_API double stn_schedule_cosine(int64_t step, int64_t warm_up, int64_t total, double least);

/* Averages of parameters */

typedef struct stn_average stn_average;

/** Begins an exponential mean of parameters at their present values, in their layouts. Local.
 *  @return STN_ERR_ARGUMENT (a list or `out` is NULL, a parameter is missing or twice), STN_ERR_DTYPE (not f32 or f64),
 *  STN_ERR_PARTIAL (a parameter is), STN_ERR_STATE (it is a view, or what an earlier failure returned),
 *  STN_ERR_MEMORY. */
STN_API stn_status stn_average_create(stn_context *context, int n, const stn_named_tensor *parameters,
                                      stn_average **out);

/** mean = decay * mean + (1 - decay) * parameter, in place; without a gradient. Local.
 *  @return STN_ERR_ARGUMENT (no average; decay: wanted 0 to 1), STN_ERR_STATE (a mean has become immutable),
 *  STN_ERR_MEMORY, or the kept error. */
STN_API stn_status stn_average_update(stn_average *average, double decay);

/** Parameters and means change places, for scoring with the means; a second call changes them back. Local.
 *  @return STN_ERR_ARGUMENT (no average), STN_ERR_STATE (in a captured step; one of them has become immutable),
 *  STN_ERR_MEMORY, or the kept error. */
STN_API stn_status stn_average_swap(stn_average *average);

/** The i-th mean, borrowed; named as its parameter; NULL for a bad i. Local. */
STN_API stn_named_tensor stn_average_at(const stn_average *average, int i);

STN_API void stn_average_destroy(stn_average **average); /**< Local; accepts NULL and sets it to NULL. */

/* Gradients */

/** Joins the gradients of groups of ranks that train apart: each gradient becomes the sum or the mean of those of the
 *  ranks in line along one axis of `mesh`. What data-parallel training calls between backward and the optimizer's step
 *  where each group has samples of its own size, cut or program, on its own slice of the mesh:
 *
 *      stn_mesh_slice(grid, 1, &domain, &own);             // grid: data x domain
 *      … parameters and samples on `own`; stn_backward(loss) …
 *      stn_grad_all_reduce(n, parameters, grid, data, STN_AVG);
 *
 *  What is pending of them is reduced within the group first, as by stn_grad_sync. A parameter that only some groups
 *  have a gradient of gets one in all, to which the others bring zeros; one that none has stays without. Gradients that
 *  stn_grad_of gave before are left as they were.
 *
 *  Hooks (stn_add_grad_hook) run behind it, once for each parameter that has a gradient then: they see what was joined,
 *  also along an axis of one rank. What was pending before is told of once; a backward outside no-sync has told of the
 *  group's own gradient. Where a hook fails on one rank all return its error, with the gradients joined.
 *
 *  Placement:  parameters lie on meshes of the group's own, in any layout, or are local; ranks in line hold the same
 *              part.
 *  Collective: over `mesh`, ranks outside do nothing. Two agreements of hosts over the mesh (a third behind hooks),
 *              then one all-reduce along the axis for every 4 MiB of neighbours in the list that have one dtype.
 *  @param parameters  n leaves that require grad, distinct, in the same order on all ranks.
 *  @param axis        of `mesh`, along which the groups stand.
 *  @param op          STN_SUM, or STN_AVG where each group's loss is the mean over its own samples; added in rank
 *                     order, in f32 for 16-bit dtypes, and rounded once.
 *  @return on all ranks the same, before anything is moved: STN_ERR_ARGUMENT (mesh, axis, op, a parameter twice),
 *          STN_ERR_STATE (no leaf that requires grad), STN_ERR_LAYOUT (on one mesh with a rank in line, so that
 *          backward has joined it, or on a mesh that this rank is outside of), STN_ERR_MISMATCH (lists, dtypes, shapes
 *          or parts differ). STN_ERR_MEMORY, STN_ERR_COMM. Afterwards: STN_ERR_CALLBACK, or what a hook's op returned.
 *  Source: Li et al., PyTorch Distributed: experiences on accelerating data parallel training, VLDB 2020, for
 *  buckets. */
STN_API stn_status stn_grad_all_reduce(int n, stn_tensor *const *parameters, const stn_mesh *mesh, int axis,
                                       stn_reduce_op op);

/** Scales the gradients of some parameters, which may lie on different meshes, so that the 2-norm of all of them
 * together is at most `most`.
 *
 * Each element counts once, however many ranks hold it: of a gradient that stn_grad_all_reduce has joined over groups,
 * one group's, so that the norm is that of one process; of one that it has not, as a stage's own, each group's.
 * Parameters without a gradient count for nothing.
 * Collective: over the world, one all-reduce of a number.
 * @param norm  gets the norm before; the host then waits. NULL: not told.
 * @return STN_ERR_ARGUMENT (most; a parameter twice), STN_ERR_DTYPE, STN_ERR_PARTIAL (a gradient is pending),
 *  STN_ERR_COMM.
 * Source: Pascanu, Mikolov and Bengio 2013. */
STN_API stn_status stn_clip_grad_norm(stn_context *context, int n, stn_tensor *const *parameters, double most,
                                      double *norm);

/** Divides the gradients of some parameters by the number that the loss was multiplied with, and tells whether all
 *  results are finite on all ranks: where one is not, the step is to be left out and the next scale smaller.
 *
 * Parameters without a gradient count for nothing. Gradients are divided also where some are not finite.
 * Collective: over the world, one all-reduce of a number.
 * @param scale   FLT_MIN to FLT_MAX: f32 has it to its full precision.
 * @param finite  gets 1 or 0, the same on every rank; the host then waits. NULL: not told. Written on success only.
 * @return as stn_clip_grad_norm.
 * Source: Micikevicius et al., Mixed Precision Training, ICLR 2018. */
STN_API stn_status stn_grad_unscale(stn_context *context, int n, stn_tensor *const *parameters, double scale,
                                    int *finite);

STN_END_DECLS
#endif
