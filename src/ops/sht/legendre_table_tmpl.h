/* The table: functions of consecutive degrees, made by their recurrence in f64, a block of latitudes after the other. A
 * part of legendre_tmpl.h. */
#ifndef NAME /* read alone */
#include "ops/sht/legendre_work_tmpl.h"
#endif

/* What values are made of: `here` as it is, times a number of its degree, times the sine too, or `here` times the
 * cosine and `below`. */
enum NAME(values) { NAME(bare), NAME(plain), NAME(with_sine), NAME(of_two) };

/* A block's state, in registers. */
struct NAME(block) {
    doubles cosine[BLOCK_VECTORS], sine[BLOCK_VECTORS];
    doubles here[BLOCK_VECTORS], below[BLOCK_VECTORS], scale[BLOCK_VECTORS];
};

/* Values below this are 0: next to the largest of a function they are nothing, and products of f32 with numbers below
 * its normal ones take a hundred times as long. */
static const double NAME(least) = sizeof(ACC) == sizeof(float) ? 0x1p-80 : 0x1p-256;

static ACC *NAME(row)(const struct NAME(work) *w, int64_t row, int odd)
{
    return w->table + (odd * w->degrees / 2 + row) *w->pitch;
}

STNI_KERNEL_INLINE void NAME(load_block)(struct NAME(block) *b, const struct functions *f, int64_t k)
{
    for (int v = 0; v < BLOCK_VECTORS; v++, k += DOUBLES) {
        b->cosine[v] = *(const doubles *)(const void *)(f->cosine + k);
        b->sine[v] = *(const doubles *)(const void *)(f->sine + k);
        b->here[v] = *(const doubles *)(const void *)(f->here + k);
        b->below[v] = *(const doubles *)(const void *)(f->below + k);
        b->scale[v] = *(const doubles *)(const void *)(f->scale + k);
    }
}

STNI_KERNEL_INLINE void NAME(keep_block)(const struct NAME(block) *b, const struct functions *f, int64_t k)
{
    for (int v = 0; v < BLOCK_VECTORS; v++, k += DOUBLES) {
        *(doubles *)(void *)(f->here + k) = b->here[v];
        *(doubles *)(void *)(f->below + k) = b->below[v];
        *(doubles *)(void *)(f->scale + k) = b->scale[v];
    }
}

/* x where the mask is set, else y. */
STNI_KERNEL_INLINE doubles NAME(select)(masks mask, doubles x, doubles y)
{
    return (doubles)(((masks)x & mask) | ((masks)y & ~mask));
}

STNI_KERNEL_INLINE doubles NAME(size)(doubles x)
{
    return NAME(select)((masks)(x < (doubles){0}), -x, x);
}

/* To the next degree. */
STNI_KERNEL_INLINE void NAME(step)(struct NAME(block) *x, double a, double b)
{
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        const doubles next = a * x->cosine[v] * x->here[v] - b * x->below[v];
        x->below[v] = x->here[v];
        x->here[v] = next;
    }
}

/* Values that have grown out of their scale go to the next one, with what is below them. Between one look and the next
 * there may be LEAST degrees, in which values grow by less than 2^(8 LEAST). */
STNI_KERNEL_INLINE void NAME(rescale)(struct NAME(block) *x)
{
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        const masks grown =
            (masks)(x->scale[v] < (doubles){0}) & (masks)(NAME(size)(x->here[v]) >= STNI_LEGENDRE_LARGE);
        x->here[v] = NAME(select)(grown, x->here[v] / STNI_LEGENDRE_STEP, x->here[v]);
        x->below[v] = NAME(select)(grown, x->below[v] / STNI_LEGENDRE_STEP, x->below[v]);
        x->scale[v] = NAME(select)(grown, x->scale[v] + 1, x->scale[v]);
    }
}

STNI_KERNEL_INLINE void NAME(store)(const struct NAME(block) *x, double of_here, double of_below, ACC *to,
                                    int is_small, enum NAME(values) values)
{
    const doubles zero = {0};
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        doubles value = x->here[v];
        if (values != NAME(bare))
            value *= of_here;
        if (values == NAME(with_sine))
            value *= x->sine[v];
        if (values == NAME(of_two))
            value = value * x->cosine[v] + of_below * x->below[v];
        if (is_small)
            value = NAME(select)((masks)(x->scale[v] < zero) | (masks)(NAME(size)(value) < NAME(least)), zero, value);
        *(NAME(narrow) *)(void *)(to + v * DOUBLES) = __builtin_convertvector(value, NAME(narrow));
    }
}

/* The block from latitude k on at degrees m + i to m + i + n - 1. Before the first function there is 0. */
STNI_KERNEL_INLINE void NAME(run_block)(const struct NAME(work) *w, int64_t k, int64_t i, int64_t n, int is_small,
                                        enum NAME(values) values)
{
    const struct functions *f = &w->functions;
    const double *a = f->a + i, *b = f->b + i, *of_here = f->row_here + i, *of_below = f->row_below + i;
    ACC *to[2] = {NAME(row)(w, 0, w->first_odd) + k, NAME(row)(w, 0, !w->first_odd) + k}; /* of every second degree */
    const int64_t pitch = w->pitch;
    struct NAME(block) x;
    int64_t r = 0;
    NAME(load_block)(&x, f, k);
    for (; r < n && i + r <= f->start; r++)
        if (i + r < f->start)
            memset(to[r & 1] + r / 2 * pitch, 0, BLOCK * sizeof(ACC));
        else
            NAME(store)(&x, of_here[r], of_below[r], to[r & 1] + r / 2 * pitch, is_small, values);
    for (; r < n; r++) {
        NAME(step)(&x, a[r], b[r]);
        if (is_small)
            NAME(rescale)(&x);
        NAME(store)(&x, of_here[r], of_below[r], to[r & 1] + r / 2 * pitch, is_small, values);
    }
    NAME(keep_block)(&x, f, k);
}

STNI_KERNEL_INLINE void NAME(run_small_or_not)(const struct NAME(work) *w, int64_t k, int64_t i, int64_t n,
                                               int is_small, enum NAME(values) values)
{
    if (is_small)
        NAME(run_block)(w, k, i, n, 1, values);
    else
        NAME(run_block)(w, k, i, n, 0, values);
}

/* How many of the block's latitudes have values that are 0 for being small. Those whose functions are 0 have none. */
static int NAME(count_small)(const struct functions *f, int64_t k)
{
    const doubles zero = {0};
    masks small = {0};
    int n = 0;
    if (f->settled[k])
        return 0;
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        const doubles here = NAME(size)(*(const doubles *)(const void *)(f->here + k + v * DOUBLES));
        const doubles below = NAME(size)(*(const doubles *)(const void *)(f->below + k + v * DOUBLES));
        const doubles scale = *(const doubles *)(const void *)(f->scale + k + v * DOUBLES);
        small -=
            (masks)(scale < zero) | ((masks)(here > zero) & (masks)(here < NAME(least)) & (masks)(below < NAME(least)));
    }
    for (int i = 0; i < DOUBLES; i++)
        n += (int)small[i];
    f->settled[k] = n == 0;
    return n;
}

/* The same degrees of a block all of whose values are small, as long as they stay so: 1; else the block is as it was.
 * Small values grow, so that those between are no larger than the last. */
static int NAME(skip_block)(const struct NAME(work) *w, int64_t k, int64_t i, int64_t n)
{
    const struct functions *f = &w->functions;
    struct NAME(block) before, x;
    NAME(load_block)(&before, f, k);
    x = before;
    for (int64_t r = i > f->start ? i : f->start + 1; r < i + n;) {
        const int64_t end = r + STNI_LEGENDRE_LEAST < i + n ? r + STNI_LEGENDRE_LEAST : i + n;
        for (; r < end; r++)
            NAME(step)(&x, f->a[r], f->b[r]);
        NAME(rescale)(&x);
    }
    NAME(keep_block)(&x, f, k);
    if (NAME(count_small)(f, k) == BLOCK)
        return 1;
    NAME(keep_block)(&before, f, k);
    return 0;
}

static void NAME(clear_block)(const struct NAME(work) *w, int64_t k)
{
    for (int64_t r = 0; r < w->degrees; r++)
        memset(NAME(row)(w, r, 0) + k, 0, BLOCK * sizeof(ACC)); /* odd rows follow even ones */
}

/* The functions of degrees m + i to m + i + n - 1, i even. Returns the latitude from which on there are others than 0,
 * and the table is filled: those nearer to the equator are reached first. */
static __attribute__((noinline)) int64_t NAME(make_table)(const struct NAME(work) *w, int64_t i, int64_t n)
{
    const struct functions *f = &w->functions;
    const int is_derivative = w->args->of.part == STNI_LEGENDRE_MERIDIONAL,
              is_bare = stni_legendre_is_bare(&w->args->of);
    int64_t from = 0;
    for (int64_t k = 0; k < w->pitch; k += BLOCK) {
        const int n_small = NAME(count_small)(f, k);
        if (n_small == BLOCK && NAME(skip_block)(w, k, i, n)) {
            if (from == k)
                from = k + BLOCK;
            else
                NAME(clear_block)(w, k);
        } else if (is_bare) {
            NAME(run_small_or_not)(w, k, i, n, n_small > 0, NAME(bare));
        } else if (!is_derivative) {
            NAME(run_small_or_not)(w, k, i, n, n_small > 0, NAME(plain));
        } else if (w->m == 0) {
            NAME(run_small_or_not)(w, k, i, n, n_small > 0, NAME(with_sine));
        } else {
            NAME(run_small_or_not)(w, k, i, n, n_small > 0, NAME(of_two));
        }
    }
    return from;
}
