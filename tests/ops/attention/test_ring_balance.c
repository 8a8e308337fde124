/* Which rank of a ring works on which rows: every pair of a row and a key that it sees once, the work told right, and
 * as even as it can be. */
#include "harness.h"

#include "core/shard/world.h"
#include "ops/attention/attention_ring_balance.h"

#include <string.h>

enum { MOST = 70 };

struct scene {
    struct stni_ring_rows rows;
    struct stni_ring_piece piece[MOST];
    int64_t load[MOST]; /* of each rank, as the last one told it */
    struct stni_ring_step step[MOST][MOST];
};

/* Pieces of so many rows and keys; negative: drawn, some of them none. */
static void set_pieces(struct scene *scene, uint64_t *state, int size, int64_t n_rows, int64_t n_keys)
{
    int64_t row = 0, key = 0;
    for (int r = 0; r < size; r++) {
        const int64_t rows = n_rows >= 0 ? n_rows : (int64_t)(world_random(state, 3) * world_random(state, 7)),
                      keys = n_keys >= 0 ? n_keys : (int64_t)(world_random(state, 3) * world_random(state, 7));
        scene->piece[r] = (struct stni_ring_piece){row, rows, key, keys};
        row += rows;
        key += keys;
    }
    scene->rows = (struct stni_ring_rows){size, scene->piece, scene->rows.is_causal};
}

static void balance(struct scene *scene, int lends)
{
    for (int r = 0; r < scene->rows.size; r++)
        stni_ring_balance(&scene->rows, r, lends, scene->load, scene->step[r]);
}

static int64_t seen(const struct scene *scene, int reader, int owner, int64_t from, int64_t to)
{
    const struct stni_ring_piece *p = &scene->piece[reader], *q = &scene->piece[owner];
    int64_t n = 0;
    for (int64_t i = from; i < to; i++)
        for (int64_t k = 0; k < q->n_keys; k++)
            n += !scene->rows.is_causal || q->key + k <= p->row + i;
    return n;
}

/* What each rank works on, pair by pair, and what ranks say of one another. */
static void check_work(const struct scene *scene, int lends)
{
    int64_t work[MOST] = {0};
    const int size = scene->rows.size;
    for (int reader = 0; reader < size; reader++)
        for (int t = 0; t < size; t++) {
            const int owner = (reader + size - t) % size;
            const struct stni_ring_step *s = &scene->step[reader][t], *other = &scene->step[owner][t];
            const int64_t n = scene->piece[reader].n_rows, lent = seen(scene, reader, owner, 0, s->lent),
                          own = seen(scene, reader, owner, s->lent, n);
            CHECK(s->lent >= 0 && s->lent <= n);
            CHECK_I64(s->lent, other->borrowed);
            CHECK_I64(s->reads, own > 0);
            CHECK_I64(s->reads, other->is_read);
            CHECK_I64(s->moves, other->moves);
            CHECK(s->lent == 0 || (lends && t > 0 && s->moves && lent > 0));
            work[reader] += own;
            work[owner] += lent;
        }
    for (int r = 0; r < size && lends; r++)
        CHECK_I64(work[r], scene->load[r]);
}

static void every_row_meets_its_keys_once(void)
{
    uint64_t state = 5;
    static struct scene scene;
    for (int draw = 0; draw < test_draws(400); draw++) {
        const int lends = draw % 3 > 0;
        scene.rows.is_causal = draw % 2;
        set_pieces(&scene, &state, 1 + draw % 6, -1, draw % 5 == 0 ? 3 : -1);
        balance(&scene, lends);
        check_work(&scene, lends);
    }
}

static double largest_of_mean(const struct scene *scene)
{
    int64_t largest = 0, sum = 0;
    for (int r = 0; r < scene->rows.size; r++) {
        largest = scene->load[r] > largest ? scene->load[r] : largest;
        sum += scene->load[r];
    }
    return (double)largest * scene->rows.size / (double)sum;
}

/* The last of many ranks would work on twice the mean. */
static void equal_causal_chunks_are_equal_work(void)
{
    static struct scene scene;
    scene.rows.is_causal = 1;
    for (int size = 1; size < MOST; size++) {
        set_pieces(&scene, NULL, size, 512, 512);
        balance(&scene, 1);
        CHECK(largest_of_mean(&scene) < 1.07);
        CHECK(size > 8 || largest_of_mean(&scene) < 1.01);
        CHECK(size > 1 || scene.step[0][0].reads);
    }
}

/* Cuts at n sqrt(r / 4): no difference is worth moving rows for. */
static void work_that_is_even_stays(void)
{
    static const int64_t n[] = {80, 33, 26, 21};
    static struct scene scene;
    int64_t row = 0;
    for (int r = 0; r < 4; row += n[r++])
        scene.piece[r] = (struct stni_ring_piece){row, n[r], row, n[r]};
    scene.rows = (struct stni_ring_rows){4, scene.piece, 1};
    balance(&scene, 1);
    CHECK(largest_of_mean(&scene) < 1.1);
    for (int r = 0; r < 4; r++)
        for (int t = 0; t < 4; t++)
            CHECK(!scene.step[r][t].moves);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_row_meets_its_keys_once", every_row_meets_its_keys_once},
        {"equal_causal_chunks_are_equal_work", equal_causal_chunks_are_equal_work},
        {"work_that_is_even_stays", work_that_is_even_stays},
    };
    return TEST_MAIN(argc, argv, cases);
}
