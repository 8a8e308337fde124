/* Attention whose keys go round: what is sent, beside the caller too, what is held, and when it is done. */
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, ROWS = 12, WIDTH = 4 };

static stn_tensor *rows(stn_context *context, const stn_mesh *mesh, const int64_t *sizes, int64_t n, int64_t width)
{
    const int64_t shape[] = {HEADS, n, width}, *const of_dim[] = {NULL, sizes, NULL};
    const stn_placement cut = stn_shard(1);
    return test_tensor(context, mesh, &cut, STN_DTYPE_F64, 3, shape, of_dim, test_value);
}

static int64_t sent(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    stn_context_stats_reset(context);
    return stats.bytes_sent;
}

/* Chunks of 3, 0, 5 and 4 rows. Keys and values go to the ranks whose rows attend to them and are not lent, and these
 * return their gradients; what no row attends to stays where it is. By causal attention the ranks see 6, 0, 30 and 42
 * pairs: the last one lends the first all its rows and the third one of them, and that two to the first. By another
 * they see 36, 0, 60 and 48: the third lends two rows to the last, and that all to the first. */
static const int64_t chunk[] = {3, 0, 5, 4};
static const int64_t lent_rows[2][4][4] = {{[2] = {0, 0, 0, 2}, [3] = {4, 0, 0, 0}},
                                           {[2] = {2, 0, 0, 0}, [3] = {4, 0, 1, 0}}};

/* Rows: of own keys that others get, of own queries that are lent, of others' queries, and of their keys. */
struct traffic {
    int64_t keys, lent, borrowed, read;
};

static struct traffic traffic_of(int rank, int causal)
{
    struct traffic t = {0};
    for (int r = 0; r < 4; r++) {
        const int64_t lent = lent_rows[causal][rank][r], borrowed = lent_rows[causal][r][rank];
        t.lent += lent;
        t.borrowed += borrowed;
        t.keys += r != rank && chunk[r] > borrowed && (!causal || r > rank) ? chunk[rank] : 0;
        t.read += r != rank && chunk[rank] > lent && (!causal || r < rank) ? chunk[r] : 0;
    }
    return t;
}

static stn_status sent_body(stn_context *context, void *arg)
{
    const int causal = *(const int *)arg;
    const stn_mesh *mesh = test_mesh(context, 4, 0);
    const stn_attention_attrs attrs = {.size = sizeof attrs, .is_causal = causal};
    const int64_t row = HEADS * WIDTH * 8, number = HEADS * 8; /* bytes */
    const struct traffic t = traffic_of(stn_context_rank(context), causal);
    CHECK_STATUS(stn_set_ring_attention(context, STN_RING_ATTENTION_ALWAYS), STN_OK);
    stn_scope_begin(context);
    stn_tensor *in[3], *grad[3], *cotangent = rows(context, mesh, chunk, ROWS, WIDTH);
    for (int k = 0; k < 3; k++) {
        in[k] = rows(context, mesh, chunk, ROWS, WIDTH);
        CHECK_STATUS(stn_set_requires_grad(in[k], 1), STN_OK);
    }
    stn_context_stats_reset(context);
    stn_tensor *out = stn_scaled_dot_product_attention(in[0], in[1], in[2], NULL, &attrs);
    CHECK_I64(sent(context), t.keys * 2 * row + t.lent * row + t.borrowed * (row + number));
    CHECK_STATUS(stn_grad(context, 1, &out, &cotangent, 3, in, 0, 0, grad), STN_OK);
    const int64_t fetched = t.keys * 2 * row + t.lent * (3 * row + number);
    const int64_t returned = t.read * 2 * row + t.borrowed * row;
    const int64_t compared = sent(context) - fetched - returned; /* what ranks compare before a backward */
    CHECK(compared >= 0 && compared < 200);
    return stn_scope_end(context);
}

static void chunks_go_to_the_ranks_that_attend_to_them(void)
{
    for (int causal = 0; causal < 2; causal++)
        test_ranks(4, sent_body, &causal);
}

/* Output and gradients, whole. */
struct outcome {
    double v[4][HEADS * ROWS * WIDTH];
};

static void attend(stn_context *context, const stn_mesh *mesh, stn_halo_overlap when, int causal,
                   struct outcome *outcome)
{
    /* Causal, the last rank lends rows in the last step; else in the one before it, too. */
    static const int64_t cuts[2][3] = {{6, 1, 5}, {5, 4, 3}};
    const int64_t *sizes = cuts[causal];
    const stn_attention_attrs attrs = {.size = sizeof attrs, .is_causal = causal, .dropout_p = 0.2};
    stn_tensor *in[3], *grad[4];
    CHECK_STATUS(stn_set_halo_overlap(context, when), STN_OK);
    stn_scope_begin(context);
    stn_context_set_random_state(context, 17, 5);
    for (int k = 0; k < 3; k++) {
        in[k] = rows(context, mesh, sizes, ROWS, WIDTH);
        CHECK_STATUS(stn_set_requires_grad(in[k], 1), STN_OK);
    }
    stn_tensor *cotangent = rows(context, mesh, sizes, ROWS, WIDTH);
    grad[3] = stn_scaled_dot_product_attention(in[0], in[1], in[2], NULL, &attrs);
    CHECK_STATUS(stn_grad(context, 1, &grad[3], &cotangent, 3, in, 0, 0, grad), STN_OK);
    for (int k = 0; k < 4; k++)
        test_read(grad[k], outcome->v[k], HEADS * ROWS * WIDTH);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status beside_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    struct outcome before, beside;
    (void)arg;
    CHECK_STATUS(stn_set_ring_attention(context, STN_RING_ATTENTION_ALWAYS), STN_OK);
    for (int causal = 0; causal < 2; causal++) {
        attend(context, mesh, STN_HALO_OVERLAP_NEVER, causal, &before);
        /* Ranks may differ. */
        attend(context, mesh, stn_context_rank(context) == 1 ? STN_HALO_OVERLAP_NEVER : STN_HALO_OVERLAP_ALWAYS, causal,
               &beside);
        CHECK(memcmp(&before, &beside, sizeof before) == 0);
        attend(context, mesh, STN_HALO_OVERLAP_ALWAYS, causal, &beside);
        CHECK(memcmp(&before, &beside, sizeof before) == 0);
    }
    return STN_OK;
}

static void what_goes_beside_the_caller_gives_the_same_bits(void)
{
    test_ranks(3, beside_body, NULL);
}

/* Gradient of queries, keys and values that are one tensor; the outer scope's. */
static stn_tensor *gradient(stn_context *context, stn_tensor *x, stn_tensor *cotangent)
{
    const stn_attention_attrs attrs = {.size = sizeof attrs, .is_causal = 1};
    stn_tensor *grad = NULL;
    stn_scope_begin(context);
    stn_tensor *out = stn_scaled_dot_product_attention(x, x, x, NULL, &attrs);
    CHECK_STATUS(stn_grad(context, 1, &out, &cotangent, 1, &x, 0, 0, &grad), STN_OK);
    CHECK_STATUS(stn_scope_end_keep(context, grad, &grad), STN_OK);
    return grad;
}

/* A repetition sends what lies in the tensors by then. */
static stn_status step_body(stn_context *context, void *arg)
{
    static const int64_t sizes[] = {5, 4, 3};
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    stn_step *step = NULL;
    double want[HEADS * ROWS * WIDTH], got[HEADS * ROWS * WIDTH];
    (void)arg;
    CHECK_STATUS(stn_set_ring_attention(context, STN_RING_ATTENTION_ALWAYS), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = rows(context, mesh, sizes, ROWS, WIDTH), *cotangent = rows(context, mesh, sizes, ROWS, WIDTH);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *grad = gradient(context, x, cotangent);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    for (int round = 0; round < 3; round++) {
        stn_no_grad_begin(context);
        stn_mul_number_(x, 0.5);
        stn_no_grad_end(context);
        CHECK_STATUS(stn_step_run(step), STN_OK);
        stn_tensor *now = gradient(context, x, cotangent);
        test_read(now, want, HEADS * ROWS * WIDTH);
        test_read(grad, got, HEADS * ROWS * WIDTH);
        CHECK(memcmp(want, got, sizeof want) == 0);
    }
    stn_step_destroy(&step);
    return stn_scope_end(context);
}

static void captured_steps_are_repeated(void)
{
    test_ranks(3, step_body, NULL);
}

/* Held at once beside what there was: chunks, where keys that are gathered are 2 wholes of 8 chunks and their gradients
 * two more. */
static stn_status memory_body(stn_context *context, void *arg)
{
    enum {
        N = 1024,
        E = 512,
        RANKS = 8,
        CHUNK = HEADS * N / RANKS * E * 8,
        BLOCKS = 4 << 20,
        FORWARD = 6,
        BACKWARD = 10
    };
    const stn_mesh *mesh = test_mesh(context, RANKS, 0);
    const stn_attention_attrs attrs = {.size = sizeof attrs, .is_causal = 1};
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    CHECK_STATUS(stn_set_ring_attention(context, STN_RING_ATTENTION_ALWAYS), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = rows(context, mesh, NULL, N, E), *cotangent = rows(context, mesh, NULL, N, E), *in[3], *grad[3];
    for (int k = 0; k < 3; k++) {
        in[k] = stn_detach(x);
        CHECK_STATUS(stn_set_requires_grad(in[k], 1), STN_OK);
    }
    stn_context_stats_reset(context);
    stn_context_stats(context, &stats);
    int64_t before = stats.live_bytes;
    stn_tensor *out = stn_scaled_dot_product_attention(in[0], in[1], in[2], NULL, &attrs);
    stn_context_stats(context, &stats);
    CHECK(stats.peak_bytes - before < FORWARD * CHUNK + BLOCKS);
    stn_context_stats_reset(context);
    stn_context_stats(context, &stats);
    before = stats.live_bytes;
    CHECK_STATUS(stn_grad(context, 1, &out, &cotangent, 3, in, 0, 0, grad), STN_OK);
    stn_context_stats(context, &stats);
    CHECK(stats.peak_bytes - before < BACKWARD * CHUNK + BLOCKS);
    return stn_scope_end(context);
}

static void memory_is_some_chunks_whatever_the_length(void)
{
    test_ranks(8, memory_body, NULL);
}

/* Redistributions of a call with keys of n bytes, which are its values, too. */
static int64_t gathered(stn_context *context, const stn_mesh *mesh, stn_placement keys, int64_t n, int causal)
{
    const stn_attention_attrs attrs = {.size = sizeof attrs, .is_causal = causal};
    const int64_t query[] = {2, WIDTH}, key[] = {n / WIDTH / 8, WIDTH};
    const stn_placement cut = stn_shard(0);
    stn_stats stats = {.size = sizeof stats};
    stn_scope_begin(context);
    stn_tensor *q = test_tensor(context, mesh, &cut, STN_DTYPE_F64, 2, query, NULL, test_value),
               *k = test_tensor(context, mesh, &keys, STN_DTYPE_F64, 2, key, NULL, test_value);
    stn_context_stats_reset(context);
    CHECK(!stn_tensor_is_error(stn_scaled_dot_product_attention(q, k, k, NULL, &attrs)));
    stn_context_stats(context, &stats);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return stats.redistributions;
}

static stn_status rule_body(stn_context *context, void *arg)
{
    enum { MIB = 1 << 20 };
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement cut = stn_shard(0);
    (void)arg;
    CHECK_I64(gathered(context, mesh, cut, MIB, 0), 1);
    CHECK_I64(gathered(context, mesh, cut, 8 * MIB, 0), 0);
    CHECK_I64(gathered(context, mesh, cut, MIB, 1), 0);
    CHECK_I64(gathered(context, mesh, cut, MIB / 2, 1), 1);
    CHECK_STATUS(stn_set_ring_attention(context, STN_RING_ATTENTION_NEVER), STN_OK);
    CHECK_I64(gathered(context, mesh, cut, 8 * MIB, 0), 1);
    CHECK_STATUS(stn_set_ring_attention(context, STN_RING_ATTENTION_ALWAYS), STN_OK);
    CHECK_I64(gathered(context, mesh, cut, MIB, 0), 0);
    CHECK_I64(gathered(context, mesh, stn_shard(1), MIB, 0), 1);
    CHECK_STATUS(stn_set_ring_attention(NULL, STN_RING_ATTENTION_NEVER), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_set_ring_attention(context, (stn_ring_attention)3), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "set_ring_attention: when got 3, wanted 0 to 2");
    return STN_OK;
}

static void long_keys_go_round_and_short_ones_are_gathered(void)
{
    test_ranks(2, rule_body, NULL);
}

/* What a rank sends of causal attention over n rows, in so many heads. */
static int64_t sent_of(stn_context *context, const stn_mesh *mesh, int64_t heads, int64_t n)
{
    const int64_t shape[] = {heads, n, WIDTH};
    const stn_placement cut = stn_shard(1);
    const stn_attention_attrs attrs = {.size = sizeof attrs, .is_causal = 1};
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &cut, STN_DTYPE_F64, 3, shape, NULL, test_value);
    stn_context_stats_reset(context);
    CHECK(!stn_tensor_is_error(stn_scaled_dot_product_attention(x, x, x, NULL, &attrs)));
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return sent(context);
}

/* The last of two ranks has keys that nobody else attends to: what it sends is rows that it lends. */
static stn_status lends_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const int is_last = stn_context_rank(context) == 1;
    const int64_t of_few = sent_of(context, mesh, 300, 250), of_many = sent_of(context, mesh, 290, 256);
    (void)arg;
    CHECK_I64(of_few, is_last ? 0 : INT64_C(300) * 125 * 2 * WIDTH * 8);
    CHECK_I64(of_many,
              is_last ? INT64_C(290) * 64 * WIDTH * 8 : INT64_C(290) * (128 * 2 * WIDTH + 64 * (WIDTH + 1)) * 8);
    return STN_OK;
}

static void rows_are_lent_where_there_are_many_keys(void)
{
    test_ranks(2, lends_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"chunks_go_to_the_ranks_that_attend_to_them", chunks_go_to_the_ranks_that_attend_to_them},
        {"what_goes_beside_the_caller_gives_the_same_bits", what_goes_beside_the_caller_gives_the_same_bits},
        {"captured_steps_are_repeated", captured_steps_are_repeated},
        {"memory_is_some_chunks_whatever_the_length", memory_is_some_chunks_whatever_the_length},
        {"long_keys_go_round_and_short_ones_are_gathered", long_keys_go_round_and_short_ones_are_gathered},
        {"rows_are_lent_where_there_are_many_keys", rows_are_lent_where_there_are_many_keys},
    };
    return TEST_MAIN(argc, argv, cases);
}
