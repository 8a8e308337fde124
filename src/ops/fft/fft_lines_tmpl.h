/* Packs and stores lines of one precision: included once with R, the real type, C, the complex one, and NAME(f).
 *
 * Which way it goes is a constant to the loops. */

static double NAME(factor)(const struct stni_fft_args *a, int64_t k)
{
    return k == 0 || 2 * k == a->transform->n ? 1 : a->interior;
}

static inline __attribute__((always_inline)) void NAME(pack_as)(const struct stni_fft_args *a, int64_t at, int64_t lane, int64_t width,
                                                                enum way way)
{
    for (int64_t k = 0; k < a->n_in; k++) {
        const int64_t from = at + k * a->step_in;
        const R factor = way == HALF ? (R)NAME(factor)(a, k) : 1;
        for (int64_t l = 0; l < width; l++) {
            void *line = a->from + (size_t)l * a->pitch;
            if (way == REAL)
                ((R *)line)[k] = ((const R *)a->in)[from + l * lane];
            else if (way == PAIRED)
                ((C *)line)[k] = ((const R *)a->in)[from + l * lane];
            else
                ((C *)line)[k] = way == HALF ? ((const C *)a->in)[from + l * lane] * factor : ((const C *)a->in)[from + l * lane];
        }
    }
}

static void NAME(pack)(const struct stni_fft_args *a, int64_t at, int64_t lane, int64_t width)
{
    const int half = a->transform->kind == STNI_TRANSFORM_RESTORE;
    if (a->transform->kind == STNI_TRANSFORM_HALVE)
        NAME(pack_as)(a, at, lane, width, REAL);
    else if (a->real_in)
        NAME(pack_as)(a, at, lane, width, PAIRED);
    else if (half)
        NAME(pack_as)(a, at, lane, width, HALF);
    else if (width == 1 && a->step_in == 1)
        memcpy(a->from, (const C *)a->in + at, (size_t)a->n_in * sizeof(C));
    else
        NAME(pack_as)(a, at, lane, width, PLAIN);
}

static inline __attribute__((always_inline)) void NAME(store_as)(const struct stni_fft_args *a, int64_t at, int64_t lane, int64_t width,
                                                                 enum way way)
{
    const R scale = (R)a->scale;
    for (int64_t k = 0; k < a->n_out; k++) {
        const int64_t to = at + k * a->step_out;
        const R factor = way == HALF ? (R)(a->scale * NAME(factor)(a, k)) : scale;
        for (int64_t l = 0; l < width; l++) {
            const void *line = a->to + (size_t)l * a->pitch;
            if (way == REAL)
                ((R *)a->out)[to + l * lane] = ((const R *)line)[k] * factor;
            else
                ((C *)a->out)[to + l * lane] = ((const C *)line)[k] * factor;
        }
    }
}

static void NAME(store)(const struct stni_fft_args *a, int64_t at, int64_t lane, int64_t width)
{
    if (a->transform->kind == STNI_TRANSFORM_RESTORE)
        NAME(store_as)(a, at, lane, width, REAL);
    else if (a->transform->kind == STNI_TRANSFORM_HALVE)
        NAME(store_as)(a, at, lane, width, HALF);
    else
        NAME(store_as)(a, at, lane, width, PLAIN);
}

#undef R
#undef C
#undef NAME
