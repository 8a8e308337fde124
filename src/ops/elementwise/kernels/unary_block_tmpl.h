/* Unary functions on dense runs of one compute type. Included once per type with
 *   T, R           the type, and its real type
 *   BLOCK          the function's name
 *   ROWS(X)        the list of unary functions (exponential.h)
 *   PRODUCT(x, y)  x y
 *   DUAL(x)        the conjugate of a complex derivative; a real derivative as it is */
#define LOOP(name, last, result)                       \
    case STNI_POINTWISE_##name:                        \
        EACH_PIECE(v, last, result)                    \
        break;

/* The derivatives are functions of v, which is the last operand of backward and of double backward. */
#define CASES(op, value, derivative, second_derivative)             \
    LOOP(op, in0, (T)(value))                                       \
    LOOP(op##_backward, in1, PRODUCT(x, DUAL((T)(derivative))))     \
    LOOP(op##_double_backward, in2, PRODUCT(PRODUCT(x, y), DUAL((T)(second_derivative))))

static void BLOCK(const struct stni_pointwise_block *block)
{
    const int64_t n = block->n;
    const R a = (R)block->a.f, b = (R)block->b.f;
    const T *in0 = block->in[0], *in1 = block->in[1], *in2 = block->in[2];
    T *out = block->out;
    (void)a, (void)b;
    switch ((int)block->op) { /* the rows of other lists are not here */
        ROWS(CASES)
    }
}

#undef LOOP
#undef CASES
#undef T
#undef R
#undef BLOCK
