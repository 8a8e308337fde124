/* Models in training: the same program on a mesh of any sizes, one rank's too. */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include <shardtensor/shardtensor.h>

enum { MODEL_PARTS = 2, MODEL_MOST_SHARES = 8 };

struct model;

/** A program. Placements are texts for stn_spec_of, for each axis of the mesh. */
struct model_kind {
    const char *name;
    const char *samples; /* how input and target lie */
    const char *weights; /* how weights do */
    int gathers;         /* 1: weights are whole for their layer alone (fully sharded training) */
    int n_axes;
    /** Draws input and target of one part. */
    void (*draw)(const struct model *model, stn_tensor **input, stn_tensor **target);
    stn_tensor *(*loss)(const struct model *model, stn_tensor *input, stn_tensor *target);
};

extern const struct model_kind model_unet, model_transformer, model_sfno; /**< Space, or tokens, cut over one axis. */
extern const struct model_kind model_fsdp, model_hsdp; /**< The transformer, samples cut and weights in chunks. */

struct model {
    stn_context *context;
    const struct model_kind *kind;
    const int *sizes;     /* of the mesh's axes */
    int64_t samples;      /* of a part */
    int n_parts;          /* whose gradients a step adds up */
    int is_small;         /* to see whether it runs */
    int share, n_shares;  /* the step updates one of so many shares of the parameters; n_shares 0: all */
    const stn_mesh *mesh; /* from here on made by model_make */
    stn_params *params;
    stn_optimizer *optimizer;
    stn_tensor *input[MODEL_PARTS], *target[MODEL_PARTS];
};

/** Makes what is left of a model. Every rank of the context's world calls it. The same context options give the same
 * values on any mesh. */
stn_status model_make(struct model *model);

/** Gives up what model_make made, all or part of it. */
void model_drop(struct model *model);

/** A training step: gradients of all parts, and an update. `loss` gets the mean over parts, before; NULL: not wanted,
 * and the host does not wait. */
stn_status model_step(struct model *model, double *loss);

/** Bytes of parameters of all ranks together. */
int64_t model_bytes(const struct model *model);

/** The same of its largest layer: of all parameters whose names begin alike, up to the dot. */
int64_t model_layer_bytes(const struct model *model);

/* For programs */

/** The weight of a name, made where it is asked for first; whole where the kind gathers. `init` NULL: by inputs. */
stn_tensor *model_weight(const struct model *model, const char *name, int ndim, const int64_t *shape,
                         stn_initialiser init);

/** The same, of a layout of its own. */
stn_tensor *model_weight_of(const struct model *model, const char *name, const char *layout, int ndim,
                            const int64_t *shape, stn_initialiser init);

#endif
