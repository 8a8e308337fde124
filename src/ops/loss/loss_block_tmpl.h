/* One compute type's loops. Included once per type with T, MAP and SUM, the functions' names, and the elementary functions of T. */

/* What rows are written in. */
#define ELEMENT(i)                                \
    const T x = b_x[i], y = b_y[i], z = b_z[i]; \
    STNI_LOSS_LOCALS

#define TERM(expression)                                        \
    _Pragma("omp simd")                                         \
    for (int64_t i = 0; i < b->n; i++) {                        \
        ELEMENT(i);                                             \
        out[i] = b_w[i] * b_g[i] * scale * (T)(expression);     \
    }                                                           \
    break;

#define CASE(name, value, by_x, by_y, by_z, by_xx, by_xy, by_yy, by_xz, by_yz, by_zz) \
    case STNI_LOSS_##name:                                                            \
        switch (b->term) {                                                            \
        case STNI_LOSS_VALUE: TERM(value)                                             \
        case STNI_LOSS_X: TERM(by_x)                                                  \
        case STNI_LOSS_Y: TERM(by_y)                                                  \
        case STNI_LOSS_Z: TERM(by_z)                                                  \
        case STNI_LOSS_XX: TERM(by_xx)                                                \
        case STNI_LOSS_XY: TERM(by_xy)                                                \
        case STNI_LOSS_YY: TERM(by_yy)                                                \
        case STNI_LOSS_XZ: TERM(by_xz)                                                \
        case STNI_LOSS_YZ: TERM(by_yz)                                                \
        case STNI_LOSS_ZZ: TERM(by_zz)                                                \
        case STNI_LOSS_TERMS: break;                                                  \
        }                                                                             \
        break;

static void MAP(const struct stni_loss_block *b)
{
    const T *b_x = b->x, *b_y = b->y, *b_w = b->w, *b_z = b->z, *b_g = b->g;
    const T p = (T)b->p, q = (T)b->q, scale = (T)b->scale;
    T *out = b->out;
    (void)p, (void)q;
    switch (b->loss) {
        STNI_LOSS_LIST(CASE)
    case STNI_LOSS_COUNT:
        break;
    }
}

#undef CASE
#define CASE(name, value, by_x, by_y, by_z, by_xx, by_xy, by_yy, by_xz, by_yz, by_zz) \
    case STNI_LOSS_##name:                                                            \
        for (; i + LANES <= b->n; i += LANES)                                         \
            for (int l = 0; l < LANES; l++) {                                         \
                ELEMENT(i + l);                                                       \
                sum[0][l] += (double)(b_w[i + l] * (T)(value));                       \
                sum[1][l] += (double)b_w[i + l];                                      \
            }                                                                         \
        for (int l = 0; i + l < b->n; l++) {                                          \
            ELEMENT(i + l);                                                           \
            sum[0][l] += (double)(b_w[i + l] * (T)(value));                           \
            sum[1][l] += (double)b_w[i + l];                                          \
        }                                                                             \
        break;

static void SUM(const struct stni_loss_block *b)
{
    const T *b_x = b->x, *b_y = b->y, *b_w = b->w, *b_z = b->z;
    const T p = (T)b->p, q = (T)b->q;
    double sum[2][LANES] = {{0}};
    int64_t i = 0;
    (void)p, (void)q;
    switch (b->loss) {
        STNI_LOSS_LIST(CASE)
    case STNI_LOSS_COUNT:
        break;
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) {
            sum[0][l] += sum[0][l + half];
            sum[1][l] += sum[1][l + half];
        }
    b->sum[0] += sum[0][0];
    b->sum[1] += sum[1][0];
}

#undef CASE
#undef TERM
#undef ELEMENT
#undef T
#undef MAP
#undef SUM
#undef LOG
#undef LOG1P
#undef LOG1P_UNIT
#undef EXP
#undef SIGMOID
