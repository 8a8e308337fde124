/* Pointwise ops on dense runs of one compute type. Included once per type with
 *   T, R         the type, and that of the op's numbers
 *   BLOCK        the function's name
 *   ROWS(X)      the list of rows (arithmetic.h)
 *   COLUMN(...)  picks the class's expression from a row
 *   NUMBER(n)    reads a number as R */
#define FUNCTION(op, floating, integer, boolean, complex_) \
    ROW_FUNCTION(op, z, in2, (RESULT)(COLUMN(floating, integer, boolean, complex_)))
#define CASE(op, ...) ROW_CASE(op)

ROWS(FUNCTION)

static void BLOCK(const struct stni_pointwise_block *block)
{
    switch ((int)block->op) { /* the rows of other lists are not here */
        ROWS(CASE)
    }
}

#undef FUNCTION
#undef CASE
#undef T
#undef R
#undef BLOCK
