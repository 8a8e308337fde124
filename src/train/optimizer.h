/* An optimizer: what it does to a parameter, and the parameters with their state. */
#ifndef STNI_TRAIN_OPTIMIZER_H
#define STNI_TRAIN_OPTIMIZER_H

#include <shardtensor/train.h>

#include "train/keys.h"
#include "train/update.h"

enum { STNI_OPTIMIZER_MAX_STATE = 2 };

struct stni_parameter {
    char *name;
    stn_tensor *tensor;
    stn_tensor *state[STNI_OPTIMIZER_MAX_STATE];
    int64_t steps; /* with a gradient */
    double rate, decay;
};

/* A kind of optimizer. */
struct stni_optimizer_rule {
    const char *name;
    enum stni_update_kind update;
    int n_state;
    const char *state[STNI_OPTIMIZER_MAX_STATE]; /* in files, after the parameter's name */
};

struct stni_optimizer_link;

struct stn_optimizer {
    stn_context *context;
    struct stni_optimizer_link *link; /* from captured steps; NULL until there is one */
    const struct stni_optimizer_rule *rule;
    struct stni_update_numbers numbers; /* those that all parameters share */
    double factor;
    int64_t steps;
    struct stni_parameter *parameters;
    int n, cap;
    struct stni_keys names, tensors; /* of the parameters */
};

struct stni_contents;

/* The numbers of a parameter's step, the `steps`th. */
struct stni_update_numbers stni_optimizer_numbers(const stn_optimizer *optimizer, const struct stni_parameter *p);

/* A part of the step that is being captured: counts the steps of the optimizer and of parameters that are told by
 * stni_optimizer_count (optimizer_steps.c). */
struct stni_optimizer_counts;
stn_status stni_optimizer_record(stn_optimizer *optimizer, struct stni_update_renewal *renewal,
                                 struct stni_optimizer_counts **out);
void stni_optimizer_count(struct stni_optimizer_counts *counts, int index);

/* The optimizer is destroyed: steps that it was captured in cannot be repeated. */
void stni_optimizer_unlink(stn_optimizer *optimizer);

/* Adds the number of steps, then of each parameter: itself, its state, its number of steps. */
stn_status stni_optimizer_list(const stn_optimizer *optimizer, struct stni_contents *contents);

/* Sets the numbers of steps, which stand in the order of that list. */
void stni_optimizer_take_numbers(stn_optimizer *optimizer, const uint64_t *numbers);

#endif
