/* The four ways of combining for one dtype. Included with T (in memory), ACC (accumulator), NAME(x), LOAD, STORE, QUOTIENT, and the macros
 * SUM_OF, PROD_OF, MIN_OF and MAX_OF on accumulators. */

static void NAME(sum2)(void *restrict acc, const void *a, const void *b, int64_t n)
{
    ACC *restrict to = acc;
    const T *x = a, *y = b;
    for (int64_t i = 0; i < n; i++)
        to[i] = SUM_OF(LOAD(x[i]), LOAD(y[i]));
}

static void NAME(sum)(void *restrict acc, const void *b, int64_t n)
{
    ACC *restrict to = acc;
    const T *y = b;
    for (int64_t i = 0; i < n; i++)
        to[i] = SUM_OF(to[i], LOAD(y[i]));
}

static void NAME(prod2)(void *restrict acc, const void *a, const void *b, int64_t n)
{
    ACC *restrict to = acc;
    const T *x = a, *y = b;
    for (int64_t i = 0; i < n; i++)
        to[i] = PROD_OF(LOAD(x[i]), LOAD(y[i]));
}

static void NAME(prod)(void *restrict acc, const void *b, int64_t n)
{
    ACC *restrict to = acc;
    const T *y = b;
    for (int64_t i = 0; i < n; i++)
        to[i] = PROD_OF(to[i], LOAD(y[i]));
}

static void NAME(min2)(void *restrict acc, const void *a, const void *b, int64_t n)
{
    ACC *restrict to = acc;
    const T *x = a, *y = b;
    for (int64_t i = 0; i < n; i++) {
        ACC u = LOAD(x[i]), v = LOAD(y[i]);
        to[i] = MIN_OF(u, v);
    }
}

static void NAME(min)(void *restrict acc, const void *b, int64_t n)
{
    ACC *restrict to = acc;
    const T *y = b;
    for (int64_t i = 0; i < n; i++) {
        ACC u = to[i], v = LOAD(y[i]);
        to[i] = MIN_OF(u, v);
    }
}

static void NAME(max2)(void *restrict acc, const void *a, const void *b, int64_t n)
{
    ACC *restrict to = acc;
    const T *x = a, *y = b;
    for (int64_t i = 0; i < n; i++) {
        ACC u = LOAD(x[i]), v = LOAD(y[i]);
        to[i] = MAX_OF(u, v);
    }
}

static void NAME(max)(void *restrict acc, const void *b, int64_t n)
{
    ACC *restrict to = acc;
    const T *y = b;
    for (int64_t i = 0; i < n; i++) {
        ACC u = to[i], v = LOAD(y[i]);
        to[i] = MAX_OF(u, v);
    }
}

static void NAME(finish)(void *out, const void *acc, int64_t n, int64_t divisor)
{
    T *to = out;
    const ACC *from = acc;
    if (divisor == 1)
        for (int64_t i = 0; i < n; i++)
            to[i] = STORE(from[i]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = STORE(QUOTIENT(from[i], divisor));
}

#undef T
#undef ACC
#undef NAME
#undef LOAD
#undef STORE
#undef QUOTIENT
