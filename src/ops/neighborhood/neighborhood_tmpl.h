/* One dtype's neighborhood attention (core/box/each_float.h), computed in ACC. neighborhood_space.h says what planes,
 * tiles, taps and scores are. Sums over elements and over taps go one after the other in each lane, so that a target
 * has the same bits whatever tile it is in. */
#ifndef NAME /* read alone */
#include "core/box/as_f32.h"
#include "ops/neighborhood/neighborhood_tile.h"
#endif

enum { NAME(LANES) = STNI_NEIGHBORHOOD_LANE_BYTES / sizeof(ACC) };

typedef ACC NAME(vector) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(ACC)), may_alias));
typedef __typeof__((NAME(vector)){0} == (NAME(vector)){0}) NAME(mask); /* all bits, or none */

struct NAME(plane) {
    ACC *data;
    int64_t cols, width;
};

struct NAME(space) {
    struct NAME(plane) of_e, of_v, lse, mean; /* of the first head; the others' lie behind */
    ACC *e, *v;                               /* tiles of the targets' elements */
    ACC *sum_e, *sum_v;                       /* and of what they gather */
    ACC *score, *grad_score;
    NAME(mask) *valid;
    struct stni_tile_kernels reads, writes;
    struct tile tile;
};

static struct NAME(plane) NAME(take_plane)(const struct stni_neighborhood_counts *c, int64_t cols, char **space)
{
    return (struct NAME(plane)){take(space, c->planes * c->rows * cols * c->width, sizeof(ACC)), cols, c->width};
}

static void NAME(open)(const struct stni_neighborhood_args *p, struct NAME(space) *s)
{
    const struct stni_neighborhood_counts c = stni_neighborhood_counts(p, sizeof(ACC));
    char *space = p->workspace;
    s->of_e = NAME(take_plane)(&c, p->e, &space);
    s->of_v = NAME(take_plane)(&c, p->v, &space);
    s->lse = NAME(take_plane)(&c, p->of_keys, &space);
    s->mean = NAME(take_plane)(&c, p->of_keys, &space);
    s->e = take(&space, c.lanes * p->e, sizeof(ACC));
    s->v = take(&space, c.lanes * p->v, sizeof(ACC));
    s->sum_e = take(&space, c.lanes * p->e, sizeof(ACC));
    s->sum_v = take(&space, c.lanes * p->v, sizeof(ACC));
    s->score = take(&space, stni_neighborhood_scores(&c), sizeof(ACC));
    s->grad_score = take(&space, stni_neighborhood_scores(&c), sizeof(ACC));
    s->valid = take(&space, c.along * c.lanes, sizeof(ACC));
    s->reads = stni_tile_kernels(stni_wide_dtype(p->dtype), p->dtype, STNI_ISA_THIS);
    s->writes = stni_tile_kernels(p->dtype, stni_wide_dtype(p->dtype), STNI_ISA_THIS);
    memset(&s->tile, 0, sizeof s->tile);
    s->tile.taps = take(&space, c.taps, sizeof *s->tile.taps);
}

/* The plane of the head that is held as number k. */
static struct NAME(plane) NAME(plane_of)(const struct stni_neighborhood_args *p, struct NAME(plane) plane, int64_t k)
{
    const int64_t rows = stni_range_length(p->source[0]) * stni_range_length(p->source[1]);
    plane.data += k * rows * plane.cols * plane.width;
    return plane;
}

/* How far ahead positions are prefetched, in bytes: a head's elements lie apart, where no processor looks for them. */
static int64_t NAME(ahead)(const struct stni_neighborhood_operand *o)
{
    return 4 * NAME(LANES) * o->space[2] * (int64_t)sizeof(T);
}

/* Copies one head's sources into a plane. */
static void NAME(pack)(const struct stni_neighborhood_args *p, const struct NAME(space) *s,
                       const struct stni_neighborhood_operand *o, int64_t at, const struct NAME(plane) *plane)
{
    enum { LANES = NAME(LANES) };
    const int64_t n = stni_range_length(p->source[2]), rows = stni_range_length(p->source[1]);
    const struct stni_tile turned = {.rows = plane->cols, .cols = n, .to_row = plane->width, .to_col = 1,
                                     .from_row = o->col, .from_col = o->space[2], .ahead = NAME(ahead)(o)};
    ACC *to = plane->data;
    for (int64_t r = 0; r < stni_range_length(p->source[0]) * rows; r++, to += plane->cols * plane->width) {
        const T *row = (const T *)o->data + at + r / rows * o->space[0] + r % rows * o->space[1];
        for (int64_t c = 0; c < plane->cols; c++) {
            memset(to + c * plane->width, 0, LANES * sizeof(ACC));
            memset(to + c * plane->width + LANES + n, 0, LANES * sizeof(ACC));
        }
        if (plane->cols > 0)
            stni_tile_read(&s->reads, to + LANES, row, &turned);
    }
}

/* The same of a number of each query, which is wide. */
static void NAME(pack_numbers)(const struct stni_neighborhood_args *p, const struct stni_neighborhood_operand *o,
                               int64_t at, const struct NAME(plane) *plane)
{
    const int64_t n = stni_range_length(p->source[2]), rows = stni_range_length(p->source[1]);
    ACC *to = plane->data;
    for (int64_t r = 0; r < stni_range_length(p->source[0]) * rows; r++, to += plane->width) {
        const ACC *row = (const ACC *)o->data + at + r / rows * o->space[0] + r % rows * o->space[1];
        for (int64_t x = -NAME(LANES); x < n + NAME(LANES); x++)
            to[NAME(LANES) + x] = x >= 0 && x < n ? row[x * o->space[2]] : 0;
    }
}

/* A tile of targets' elements, times a factor. */
static void NAME(load)(const struct NAME(space) *s, const struct stni_neighborhood_operand *o, int64_t at, int64_t n,
                       int64_t cols, ACC factor, ACC *tile)
{
    const struct stni_tile turned = {.rows = cols, .cols = n, .to_row = NAME(LANES), .to_col = 1, .from_row = o->col,
                                     .from_col = o->space[2], .ahead = NAME(ahead)(o)};
    if (n < NAME(LANES))
        memset(tile, 0, (size_t)(cols * NAME(LANES)) * sizeof *tile);
    if (cols > 0)
        stni_tile_read(&s->reads, tile, (const T *)o->data + at, &turned);
    for (int64_t i = 0; i < cols * NAME(LANES) && factor != 1; i++)
        tile[i] *= factor;
}

static void NAME(load_numbers)(const struct stni_neighborhood_operand *o, int64_t at, int64_t n, ACC *lane)
{
    for (int64_t l = 0; l < NAME(LANES); l++)
        lane[l] = ((const ACC *)o->data)[at + stni_neighborhood_least(l, n - 1) * o->space[2]];
}

/* Stores a tile, each lane of which is multiplied by a factor of its own first. */
static void NAME(store)(const struct NAME(space) *s, const struct stni_neighborhood_operand *o, int64_t at, int64_t n,
                        int64_t cols, const ACC *restrict factor, ACC *restrict tile)
{
    const struct stni_tile turned = {.rows = cols, .cols = n, .to_row = o->col, .to_col = o->space[2],
                                     .from_row = NAME(LANES), .from_col = 1};
    for (int64_t c = 0; c < cols; c++)
        for (int l = 0; l < NAME(LANES); l++)
            tile[c * NAME(LANES) + l] *= factor[l];
    if (cols > 0)
        stni_tile_write(&s->writes, (T *)o->data + at, tile, &turned);
}

static void NAME(store_numbers)(const struct stni_neighborhood_operand *o, int64_t at, int64_t n, const ACC *lane)
{
    for (int64_t l = 0; l < n; l++)
        ((ACC *)o->data)[at + l * o->space[2]] = lane[l];
}

/* Which lanes have the sources at each multiple along the last dim. */
static void NAME(find_valid)(const struct tile *t, NAME(mask) *valid)
{
    enum { WIDTH = VECTOR_BYTES / sizeof(ACC) };
    for (int64_t k = 0; k < t->along && !t->is_whole; k++)
        for (int l = 0; l < NAME(LANES); l++)
            valid[k * VECTORS + l / WIDTH][l % WIDTH] = t->first + k >= t->from[l] && t->first + k <= t->to[l] ? -1 : 0;
}

/* What the first lane reads of a tap. */
static const ACC *NAME(source)(const struct NAME(plane) *plane, const struct stni_neighborhood_tap *tap)
{
    return plane->data + tap->row * plane->cols * plane->width + NAME(LANES) + tap->along;
}

/* The product of each lane's elements with those of each tap. Sums stay in registers. */
static void NAME(multiply)(const struct tile *t, const struct NAME(plane) *plane, const ACC *tile, ACC *score)
{
    for (int64_t k = 0; k < t->n_taps; k += TOGETHER, score += TOGETHER * NAME(LANES)) {
        const ACC *from[TOGETHER];
        NAME(vector) sum[TOGETHER][VECTORS];
        for (int i = 0; i < TOGETHER; i++)
            from[i] = NAME(source)(plane, &t->taps[stni_neighborhood_least(k + i, t->n_taps - 1)]);
        for (int i = 0; i < TOGETHER; i++)
            for (int v = 0; v < (int)VECTORS; v++)
                sum[i][v] = (NAME(vector)){0};
        for (int64_t c = 0, at = 0; c < plane->cols; c++, at += plane->width)
            for (int i = 0; i < TOGETHER; i++)
                for (int v = 0; v < (int)VECTORS; v++)
                    sum[i][v] += ((const NAME(vector) *)(tile + c * NAME(LANES)))[v] *
                                 ((const NAME(vector) *)(from[i] + at))[v];
        for (int i = 0; i < TOGETHER; i++)
            for (int v = 0; v < (int)VECTORS; v++)
                ((NAME(vector) *)score)[i * VECTORS + v] = sum[i][v];
    }
}

/* sum += the taps' elements times their scores, TOGETHER elements from c on. What a lane does not have counts as 0,
 * even where it is no number. */
STNI_KERNEL_INLINE void NAME(gather_cols)(const struct tile *t, const struct NAME(plane) *plane, const ACC *score,
                                          const NAME(mask) *valid, int is_whole, int64_t c, ACC *to)
{
    NAME(vector) sum[TOGETHER][VECTORS];
    int64_t at[TOGETHER], col[TOGETHER];
    for (int i = 0; i < TOGETHER; i++) {
        col[i] = stni_neighborhood_least(c + i, plane->cols - 1);
        at[i] = col[i] * plane->width;
        for (int v = 0; v < (int)VECTORS; v++)
            sum[i][v] = ((const NAME(vector) *)(to + col[i] * NAME(LANES)))[v];
    }
    for (int64_t k = 0; k < t->n_taps; k++) {
        const struct stni_neighborhood_tap *tap = &t->taps[k];
        const ACC *from = NAME(source)(plane, tap);
        for (int v = 0; v < (int)VECTORS; v++) {
            const NAME(vector) weight = ((const NAME(vector) *)(score + k * NAME(LANES)))[v];
            for (int i = 0; i < TOGETHER; i++) {
                NAME(vector) element = ((const NAME(vector) *)(from + at[i]))[v];
                if (!is_whole)
                    element = (NAME(vector))((NAME(mask))element & valid[tap->valid * VECTORS + v]);
                sum[i][v] += weight * element;
            }
        }
    }
    for (int i = TOGETHER - 1; i >= 0; i--)
        for (int v = 0; v < (int)VECTORS; v++)
            ((NAME(vector) *)(to + col[i] * NAME(LANES)))[v] = sum[i][v];
}

static void NAME(gather)(const struct tile *t, const struct NAME(plane) *plane, const ACC *score,
                         const NAME(mask) *valid, ACC *to)
{
    for (int64_t c = 0; c < plane->cols && t->is_whole; c += TOGETHER)
        NAME(gather_cols)(t, plane, score, valid, 1, c, to);
    for (int64_t c = 0; c < plane->cols && !t->is_whole; c += TOGETHER)
        NAME(gather_cols)(t, plane, score, valid, 0, c, to);
}

/* `without` where a lane does not have a tap. */
static void NAME(select)(const struct tile *t, const NAME(mask) *valid, ACC without, ACC *score)
{
    const NAME(mask) other = (NAME(mask))((NAME(vector)){0} + without);
    for (int64_t k = 0; k < t->n_taps && !t->is_whole; k++)
        for (int v = 0; v < (int)VECTORS; v++) {
            NAME(vector) *at = (NAME(vector) *)(score + k * NAME(LANES)) + v;
            const NAME(mask) own = valid[t->taps[k].valid * VECTORS + v];
            *at = (NAME(vector))(((NAME(mask))*at & own) | (other & ~own));
        }
}

/* Forward */

/* Scores become exponentials relative to each lane's largest one; `over` gets one over their sum, `lse` the logarithm
 * of the sum. */
static void NAME(exponentials)(const struct tile *t, ACC *restrict score, ACC *restrict over, ACC *restrict lse)
{
    enum { LANES = NAME(LANES) };
    ACC largest[LANES], sum[LANES] = {0};
    for (int l = 0; l < LANES; l++)
        largest[l] = -(ACC)INFINITY;
    for (int64_t k = 0; k < t->n_taps; k++)
        for (int l = 0; l < LANES; l++)
            largest[l] = score[k * LANES + l] > largest[l] ? score[k * LANES + l] : largest[l];
    for (int64_t k = 0; k < t->n_taps; k++)
        for (int l = 0; l < LANES; l++) {
            const ACC power = MATH(exp_addend)(score[k * LANES + l] - largest[l]);
            score[k * LANES + l] = power;
            sum[l] += power;
        }
    for (int l = 0; l < LANES; l++) {
        over[l] = 1 / sum[l];
        lse[l] = largest[l] + log(sum[l]);
    }
}

static void NAME(forward_head)(const struct stni_neighborhood_args *p, int64_t b, int64_t h, struct NAME(space) *s)
{
    struct tile *t = &s->tile;
    ACC over[NAME(LANES)], lse[NAME(LANES)];
    for (t->n = 0; next_tile(p, NAME(LANES), t);) {
        NAME(find_valid)(t, s->valid);
        NAME(load)(s, &p->query, offset_of(p, &p->query, b, h, t), t->n, p->e, (ACC)p->scale, s->e);
        NAME(multiply)(t, &s->of_e, s->e, s->score);
        NAME(select)(t, s->valid, -(ACC)INFINITY, s->score);
        NAME(exponentials)(t, s->score, over, lse);
        memset(s->sum_v, 0, (size_t)(p->v * NAME(LANES)) * sizeof(ACC));
        NAME(gather)(t, &s->of_v, s->score, s->valid, s->sum_v);
        NAME(store)(s, &p->out, offset_of(p, &p->out, b, h, t), t->n, p->v, over, s->sum_v);
        NAME(store_numbers)(&p->lse, offset_of(p, &p->lse, b, h, t), t->n, lse);
    }
}

/* Backward */

/* Scores and their probabilities' gradients become probabilities and the scores' gradients. */
static void NAME(grad_scores)(const struct tile *t, const NAME(mask) *valid, const ACC *restrict lse,
                              const ACC *restrict mean, ACC *restrict score, ACC *restrict grad_score)
{
    enum { LANES = NAME(LANES) };
    for (int64_t k = 0; k < t->n_taps; k++)
        for (int l = 0; l < LANES; l++) {
            const ACC weight = MATH(exp_addend)(score[k * LANES + l] - lse[l]);
            score[k * LANES + l] = weight;
            grad_score[k * LANES + l] = weight * (grad_score[k * LANES + l] - mean[l]);
        }
    NAME(select)(t, valid, 0, score);
    NAME(select)(t, valid, 0, grad_score);
}

static void NAME(queries_head)(const struct stni_neighborhood_args *p, int64_t b, int64_t h, struct NAME(space) *s)
{
    enum { LANES = NAME(LANES) };
    struct tile *t = &s->tile;
    ACC lse[LANES], mean[LANES], scale[LANES];
    for (int l = 0; l < LANES; l++)
        scale[l] = (ACC)p->scale;
    for (t->n = 0; next_tile(p, LANES, t);) {
        NAME(find_valid)(t, s->valid);
        NAME(load)(s, &p->grad, offset_of(p, &p->grad, b, h, t), t->n, p->v, 1, s->v);
        NAME(load)(s, &p->out, offset_of(p, &p->out, b, h, t), t->n, p->v, 1, s->sum_v);
        memset(mean, 0, sizeof mean);
        for (int64_t c = 0; c < p->v; c++)
            for (int l = 0; l < LANES; l++)
                mean[l] += s->v[c * LANES + l] * s->sum_v[c * LANES + l];
        NAME(store_numbers)(&p->mean, offset_of(p, &p->mean, b, h, t), t->n, mean);
        NAME(load_numbers)(&p->lse, offset_of(p, &p->lse, b, h, t), t->n, lse);
        NAME(load)(s, &p->query, offset_of(p, &p->query, b, h, t), t->n, p->e, (ACC)p->scale, s->e);
        NAME(multiply)(t, &s->of_e, s->e, s->score);
        NAME(multiply)(t, &s->of_v, s->v, s->grad_score);
        NAME(grad_scores)(t, s->valid, lse, mean, s->score, s->grad_score);
        memset(s->sum_e, 0, (size_t)(p->e * LANES) * sizeof(ACC));
        NAME(gather)(t, &s->of_e, s->grad_score, s->valid, s->sum_e);
        NAME(store)(s, &p->grad_query, offset_of(p, &p->grad_query, b, h, t), t->n, p->e, scale, s->sum_e);
    }
}

/* As grad_scores, where the queries are the taps. */
static void NAME(grad_scores_of_taps)(const struct tile *t, const NAME(mask) *valid, const struct NAME(plane) *lse,
                                      const struct NAME(plane) *mean, ACC *restrict score,
                                      ACC *restrict grad_score)
{
    enum { LANES = NAME(LANES) };
    for (int64_t k = 0; k < t->n_taps; k++) {
        const ACC *of_lse = NAME(source)(lse, &t->taps[k]), *of_mean = NAME(source)(mean, &t->taps[k]);
        for (int l = 0; l < LANES; l++) {
            const ACC weight = MATH(exp_addend)(score[k * LANES + l] - of_lse[l]);
            score[k * LANES + l] = weight;
            grad_score[k * LANES + l] = weight * (grad_score[k * LANES + l] - of_mean[l]);
        }
    }
    NAME(select)(t, valid, 0, score);
    NAME(select)(t, valid, 0, grad_score);
}

static void NAME(keys_head)(const struct stni_neighborhood_args *p, int64_t b, int64_t h, struct NAME(space) *s)
{
    enum { LANES = NAME(LANES) };
    const int64_t heads = stni_range_length(stni_neighborhood_group(p, h));
    struct tile *t = &s->tile;
    ACC scale[LANES], one[LANES];
    for (int l = 0; l < LANES; l++)
        scale[l] = (ACC)p->scale, one[l] = 1;
    for (t->n = 0; next_tile(p, LANES, t);) {
        NAME(find_valid)(t, s->valid);
        NAME(load)(s, &p->key, offset_of(p, &p->key, b, h, t), t->n, p->e, (ACC)p->scale, s->e);
        NAME(load)(s, &p->value, offset_of(p, &p->value, b, h, t), t->n, p->v, 1, s->v);
        memset(s->sum_e, 0, (size_t)(p->e * LANES) * sizeof(ACC));
        memset(s->sum_v, 0, (size_t)(p->v * LANES) * sizeof(ACC));
        for (int64_t k = 0; k < heads; k++) {
            const struct NAME(plane) query = NAME(plane_of)(p, s->of_e, k), grad = NAME(plane_of)(p, s->of_v, k),
                                     lse = NAME(plane_of)(p, s->lse, k), mean = NAME(plane_of)(p, s->mean, k);
            NAME(multiply)(t, &query, s->e, s->score);
            NAME(multiply)(t, &grad, s->v, s->grad_score);
            NAME(grad_scores_of_taps)(t, s->valid, &lse, &mean, s->score, s->grad_score);
            NAME(gather)(t, &query, s->grad_score, s->valid, s->sum_e);
            NAME(gather)(t, &grad, s->score, s->valid, s->sum_v);
        }
        NAME(store)(s, &p->grad_key, offset_of(p, &p->grad_key, b, h, t), t->n, p->e, scale, s->sum_e);
        NAME(store)(s, &p->grad_value, offset_of(p, &p->grad_value, b, h, t), t->n, p->v, one, s->sum_v);
    }
}

/* Heads */

static void NAME(walk)(const struct stni_neighborhood_args *p, int is_forward)
{
    struct NAME(space) s;
    NAME(open)(p, &s);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->key_heads; h++) {
            const struct stni_range heads = stni_neighborhood_group(p, h);
            if (stni_range_length(heads) == 0)
                continue;
            NAME(pack)(p, &s, &p->key, b * p->key.batch + h * p->key.head, &s.of_e);
            NAME(pack)(p, &s, &p->value, b * p->value.batch + h * p->value.head, &s.of_v);
            for (int64_t k = heads.begin; k < heads.end; k++)
                is_forward ? NAME(forward_head)(p, b, k, &s) : NAME(queries_head)(p, b, k, &s);
        }
}

static void NAME(forward)(const struct stni_neighborhood_args *p)
{
    NAME(walk)(p, 1);
}

static void NAME(queries)(const struct stni_neighborhood_args *p)
{
    NAME(walk)(p, 0);
}

static void NAME(keys)(const struct stni_neighborhood_args *p)
{
    struct NAME(space) s;
    NAME(open)(p, &s);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->key_heads; h++) {
            const struct stni_range heads = stni_neighborhood_group(p, h);
            for (int64_t k = heads.begin; k < heads.end; k++) {
                const struct NAME(plane) query = NAME(plane_of)(p, s.of_e, k - heads.begin),
                                         grad = NAME(plane_of)(p, s.of_v, k - heads.begin),
                                         lse = NAME(plane_of)(p, s.lse, k - heads.begin),
                                         mean = NAME(plane_of)(p, s.mean, k - heads.begin);
                NAME(pack)(p, &s, &p->query, b * p->query.batch + k * p->query.head, &query);
                NAME(pack)(p, &s, &p->grad, b * p->grad.batch + k * p->grad.head, &grad);
                NAME(pack_numbers)(p, &p->lse, b * p->lse.batch + k * p->lse.head, &lse);
                NAME(pack_numbers)(p, &p->mean, b * p->mean.batch + k * p->mean.head, &mean);
            }
            NAME(keys_head)(p, b, h, &s);
        }
}
