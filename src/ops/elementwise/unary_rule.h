/* Attributes of those unary functions that have numbers. */
#ifndef STNI_OPS_ELEMENTWISE_UNARY_RULE_H
#define STNI_OPS_ELEMENTWISE_UNARY_RULE_H

#include <shardtensor/op.h>

struct stni_eps_attrs {
    stn_number eps; /* kind NONE: none */
};

struct stni_unary_attrs {
    double a, b; /* of the arithmetic */
};

#endif
