/* What the benchmarks compute themselves: scores of pairs, and copies that the peers make. */
#include "bench/bench.h"
#include "bench/chunks.h"
#include "bench/copy.h"
#include "bench/peer_torch.h"
#include "harness.h"

#include <math.h>
#include <string.h>

static void rows_hold_medians_of_pairs(void)
{
    /* Pair by pair the peer takes 2, 4 and 3 times as long; the medians alone would say 4. */
    const struct samples samples = {.n = 3, .ours = {1e-6, 2e-6, 1e-6}, .peer = {2e-6, 8e-6, 3e-6}};
    struct row row = {0};
    row_measure(&row, &samples, bench_times, 0, 1e-6);
    CHECK_NEAR(row.ours, 1, 1e-12);
    CHECK_NEAR(row.peer, 3, 1e-12);
    CHECK_NEAR(row.ratio, 3, 1e-12);
    CHECK_NEAR(row.spread, 1.0 / 3, 1e-12); /* quartiles 2.5 and 3.5 */
}

static void an_even_number_of_pairs_is_halved(void)
{
    const struct samples samples = {.n = 2, .ours = {1, 1}, .peer = {1, 2}};
    struct row row = {0};
    row_measure(&row, &samples, bench_times, 0, 1);
    CHECK_NEAR(row.ratio, 1.5, 1e-12);
}

static void what_was_not_measured_holds_no_number(void)
{
    const struct samples samples = {.n = 0};
    struct row row = {0};
    row_measure(&row, &samples, bench_times, 0, 1);
    CHECK(isnan(row.ours) && isnan(row.ratio));
}

static void an_allowance_is_held_as_often_as_it_fits_the_difference(void)
{
    CHECK_NEAR(bench_allowance(1.5e-6, 0.5e-6, 1e-6), 1, 1e-9);
    CHECK_NEAR(bench_allowance(0.75e-6, 0.5e-6, 1e-6), 4, 1e-9);
    CHECK_NEAR(bench_allowance(0.5e-6, 0.6e-6, 1e-6), 1000, 1e-9); /* faster than the peer: less than the clock tells */
}

enum { ROWS = 5, LENGTH = 83, TO_STRIDE = 97, FROM_STRIDE = 90 };

/* Odd lengths and offsets, so that heads and tails of vectors are met. */
static void every_way_of_copying_gives_the_same(void)
{
    static float from[ROWS * FROM_STRIDE + 8], plus[ROWS * FROM_STRIDE + 8], to[ROWS * TO_STRIDE + 8];
    for (int i = 0; i < ROWS * FROM_STRIDE + 8; i++) {
        from[i] = (float)i;
        plus[i] = (float)(3 * i % 101);
    }
    const rows_fn *ways = rows_ways();
    for (int w = 0; ways[w] != NULL; w++)
        for (int adds = 0; adds < 2; adds++)
            for (int shift = 0; shift < 4; shift++) {
                memset(to, 0xff, sizeof to);
                const struct rows rows = {to + shift, from + 1,   adds ? plus + 1 : NULL, ROWS, LENGTH,
                                          TO_STRIDE,  FROM_STRIDE};
                ways[w](&rows);
                int wrong = 0;
                for (int r = 0; r < ROWS; r++)
                    for (int j = 0; j < LENGTH; j++) {
                        const int at = r * FROM_STRIDE + 1 + j;
                        wrong += to[shift + r * TO_STRIDE + j] != from[at] + (adds ? plus[at] : 0);
                    }
                CHECK_I64(wrong, 0);
                CHECK(isnan(to[shift + LENGTH])); /* nothing is written between the rows */
            }
}

/* What is no Python ends at once, and a Python without PyTorch says so. */
static void without_pytorch_there_is_no_peer(void)
{
    static const char *const none[] = {"/nonexistent/python", "true", "false", "cat"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char text[128] = "";
        struct peer_torch *peer = peer_torch_open(none[i], 2, text, sizeof text);
        CHECK(peer == NULL && text[0] != '\0');
        peer_torch_close(&peer);
    }
}

/* Where an op writes more than its first input is, the peer copied past the end of what it reads from. */
static void buffers_of_the_memory_peer_hold_what_it_moves(void)
{
    static const double parts[] = {0, 0.25, 1, 1.5, 2, 7};
    for (int64_t chunk = 0; chunk < 2000; chunk = 3 * chunk + 1)
        for (int r = 0; r < 6; r++)
            for (int w = 0; w < 6; w++) {
                const struct chunks_memory m = chunks_memory_of(chunk, chunk, parts[r], parts[w]);
                CHECK_I64(m.copied, (int64_t)((double)chunk * parts[w]));
                CHECK(m.copied <= m.from && m.copied <= m.to);
                CHECK(m.read <= 0 || (m.read < chunk ? m.read : chunk) <= m.from);
            }
}

/* Where a cast writes half of what it reads, the peer read again what it had just copied, from the caches. */
static void the_memory_peer_reads_behind_what_it_copied(void)
{
    enum { CHUNK = 1000 };
    static const double parts[] = {0, 0.25, 0.5, 1, 1.5, 2, 7};
    for (int r = 0; r < 7; r++)
        for (int w = 0; w < 7; w++) {
            const struct chunks_memory m = chunks_memory_of(CHUNK, CHUNK, parts[r], parts[w]);
            const int64_t size = m.from - 1;
            int64_t end = m.copied % size;
            for (int64_t done = 0, n, at; done < m.read; done += n) {
                n = chunks_next_read(&m, done, &at);
                if (!CHECK(n > 0 && n <= m.read - done && at == end && at + n <= size))
                    return;
                end = (at + n) % size;
            }
            if (m.read > 0)
                CHECK_I64(end, (m.copied + m.read) % size);
        }
}

/* Of two operands and more: it copied the first one and read the rest from there again, some of it from the caches. */
static void the_memory_peer_reads_as_much_as_the_op_is_given(void)
{
    enum { CHUNK = 1000 };
    for (int inputs = 1; inputs <= 3; inputs++) {
        const struct chunks_memory m = chunks_memory_of(CHUNK, inputs * CHUNK, inputs, 1);
        int64_t at = CHUNK, end = m.copied;
        for (int64_t done = 0, n; done < m.read; done += n, end = at + n) {
            n = chunks_next_read(&m, done, &at);
            if (!CHECK(n > 0 && at == end))
                return;
        }
        CHECK_I64(end, inputs * CHUNK);
        CHECK(end < m.from);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"the_memory_peer_reads_as_much_as_the_op_is_given", the_memory_peer_reads_as_much_as_the_op_is_given},
        {"the_memory_peer_reads_behind_what_it_copied", the_memory_peer_reads_behind_what_it_copied},
        {"rows_hold_medians_of_pairs", rows_hold_medians_of_pairs},
        {"an_even_number_of_pairs_is_halved", an_even_number_of_pairs_is_halved},
        {"what_was_not_measured_holds_no_number", what_was_not_measured_holds_no_number},
        {"an_allowance_is_held_as_often_as_it_fits_the_difference",
         an_allowance_is_held_as_often_as_it_fits_the_difference},
        {"every_way_of_copying_gives_the_same", every_way_of_copying_gives_the_same},
        {"buffers_of_the_memory_peer_hold_what_it_moves", buffers_of_the_memory_peer_hold_what_it_moves},
        {"without_pytorch_there_is_no_peer", without_pytorch_there_is_no_peer},
    };
    return TEST_MAIN(argc, argv, cases);
}
