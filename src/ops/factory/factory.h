/* What factories share. */
#ifndef STNI_OPS_FACTORY_FACTORY_H
#define STNI_OPS_FACTORY_FACTORY_H

#include "core/tensor/tensor.h"
#include "ops/factory/factory_kernel.h"

/* A tensor of `spec` by the numbers in `args`, or the error tensor. Random values use the next stream of the mesh.
 * The caller has checked what `args` says (stni_factory_ready before). */
stn_tensor *stni_factory_make(stn_context *context, const stn_spec *spec, struct stni_factory_args *args);

/* 1 if the context has no error and the spec is one of its own; else the reason is kept. */
int stni_factory_ready(stn_context *context, const char *name, const stn_spec *spec);

/* The same, and of a floating dtype. */
int stni_factory_ready_floating(stn_context *context, const char *name, const stn_spec *spec);

/* 1 if the spec's elements have the number `argument`; else the reason is kept. */
int stni_factory_takes(const stn_spec *spec, const char *name, const char *argument, double value);

/* Keeps an error; returns the error tensor. */
stn_tensor *stni_factory_fail(stn_context *context, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

#endif
