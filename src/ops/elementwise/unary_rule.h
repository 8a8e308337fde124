/* Attributes of those unary functions that have numbers. */
#ifndef STNI_OPS_ELEMENTWISE_UNARY_RULE_H
#define STNI_OPS_ELEMENTWISE_UNARY_RULE_H

struct stni_unary_attrs {
    double a, b; /* of the arithmetic */
};

#endif
