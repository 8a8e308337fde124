/* Pointwise ops on dense runs of one compute type. Included once per type with
 *   T, R         the type, and that of the op's numbers
 *   BLOCK        the function's name
 *   ROWS(X)      the list of rows (arithmetic.h)
 *   COLUMN(...)  picks the class's expression from a row
 *   NUMBER(n)    reads a number as R */
#define CASE(op, floating, integer, boolean, complex_)            \
    case STNI_POINTWISE_##op:                                     \
        EACH_PIECE(z, in2, (T)(COLUMN(floating, integer, boolean, complex_))) \
        break;

static void BLOCK(const struct stni_pointwise_block *block)
{
    const int64_t n = block->n;
    const R a = NUMBER(block->a), b = NUMBER(block->b), c = NUMBER(block->c);
    const T *in0 = block->in[0], *in1 = block->in[1], *in2 = block->in[2];
    T *out = block->out;
    (void)a, (void)b, (void)c;
    switch ((int)block->op) { /* the rows of other lists are not here */
        ROWS(CASE)
    }
}

#undef CASE
#undef T
#undef R
#undef BLOCK
