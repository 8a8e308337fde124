/* Windows and boundaries by brute force: every small geometry. */
#include "harness.h"
#include "ops/exchange/beyond.h"

#include "ops/exchange/window.h"

static int reads(const struct stni_window *w, int64_t output, int64_t position)
{
    int64_t first = output * w->stride - w->pad;
    return position >= first && position < first + stni_window_extent(w);
}

static void for_each_window(void (*check)(const struct stni_window *w))
{
    for (int64_t kernel = 1; kernel <= 4; kernel++)
        for (int64_t stride = 1; stride <= 5; stride++)
            for (int64_t dilation = 1; dilation <= 3; dilation++)
                for (int64_t pad = 0; pad <= 5; pad++) {
                    struct stni_window w = {
                        .n_in = 12, .n_out = 9, .kernel = kernel, .stride = stride, .dilation = dilation, .pad = pad};
                    check(&w);
                }
}

static void check_reads(const struct stni_window *w)
{
    for (int64_t begin = 0; begin < 6; begin++)
        for (int64_t end = begin; end < 8; end++) {
            struct stni_range got = stni_window_reads(w, (struct stni_range){begin, end});
            int64_t lo = INT64_MAX, hi = INT64_MIN;
            for (int64_t o = begin; o < end; o++)
                for (int64_t t = 0; t < w->kernel; t++) {
                    int64_t at = o * w->stride - w->pad + t * w->dilation;
                    lo = at < lo ? at : lo;
                    hi = at > hi ? at : hi;
                }
            if (begin == end) {
                CHECK_I64(stni_range_length(got), 0);
            } else {
                CHECK_I64(got.begin, lo);
                CHECK_I64(got.end, hi + 1);
            }
        }
}

static void reads_run_from_the_first_tap_to_the_last(void)
{
    for_each_window(check_reads);
}

static void check_readers(const struct stni_window *w)
{
    for (int64_t begin = -3; begin < 6; begin++)
        for (int64_t end = begin; end < 8; end++) {
            struct stni_range got = stni_window_readers(w, (struct stni_range){begin, end});
            int64_t lo = INT64_MAX, hi = INT64_MIN;
            for (int64_t o = -40; o < 40; o++)
                for (int64_t x = begin; x < end; x++)
                    if (reads(w, o, x)) {
                        lo = o < lo ? o : lo;
                        hi = o > hi ? o : hi;
                    }
            if (lo > hi) {
                CHECK_I64(stni_range_length(got), 0);
            } else {
                CHECK_I64(got.begin, lo);
                CHECK_I64(got.end, hi + 1);
            }
        }
}

static void readers_are_all_outputs_that_span_a_position(void)
{
    for_each_window(check_readers);
}

static void runs_follow_the_boundary_position_by_position(void)
{
    for (int b = 0; b < 4; b++)
        for (int64_t n = 0; n < 7; n++)
            for (int64_t begin = -15; begin < 16; begin++) {
                struct stni_run run;
                for (int64_t at = begin; at < 17; at += run.length) {
                    run = stni_boundary_run((enum stni_boundary)b, n, at, 17);
                    CHECK_I64(run.at, at);
                    if (!CHECK(run.length > 0 && at + run.length <= 17))
                        return;
                    for (int64_t i = 0; i < run.length; i++)
                        CHECK_I64(run.first < 0 ? -1 : run.first + i * run.step,
                                  element_at((enum stni_boundary)b, n, at + i));
                }
            }
}

/* What a pad within the boundary's limit needs: so a gradient knows how many images a chunk may have. */
static void a_legal_pad_is_one_run_on_each_side(void)
{
    for (int b = 0; b < 4; b++)
        for (int64_t n = 2; n < 7; n++) {
            int64_t most = b == STNI_BOUNDARY_REFLECT ? n - 1 : n;
            for (int64_t pad = 1; pad <= most; pad++) {
                CHECK_I64(stni_boundary_run((enum stni_boundary)b, n, -pad, 0).length, pad);
                CHECK_I64(stni_boundary_run((enum stni_boundary)b, n, n, n + pad).length, pad);
            }
        }
}

static void clipped_runs_hold_exactly_the_elements_wanted(void)
{
    for (int b = 1; b < 4; b++)
        for (int64_t at = -6; at < 12; at++)
            for (int64_t lo = 0; lo < 6; lo++)
                for (int64_t hi = lo; hi <= 6; hi++) {
                    struct stni_run run = stni_boundary_run((enum stni_boundary)b, 6, at, 13),
                                    kept = stni_run_clip(run, (struct stni_range){lo, hi});
                    int64_t count = 0;
                    for (int64_t i = 0; i < run.length; i++) {
                        int64_t e = run.first + i * run.step, inside = e >= lo && e < hi;
                        int64_t offset = run.at + i - kept.at, listed = offset >= 0 && offset < kept.length;
                        CHECK_I64(listed, inside);
                        if (listed)
                            CHECK_I64(kept.first + offset * kept.step, e);
                        count += inside;
                    }
                    CHECK_I64(kept.length, count);
                }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"reads_run_from_the_first_tap_to_the_last", reads_run_from_the_first_tap_to_the_last},
        {"readers_are_all_outputs_that_span_a_position", readers_are_all_outputs_that_span_a_position},
        {"runs_follow_the_boundary_position_by_position", runs_follow_the_boundary_position_by_position},
        {"a_legal_pad_is_one_run_on_each_side", a_legal_pad_is_one_run_on_each_side},
        {"clipped_runs_hold_exactly_the_elements_wanted", clipped_runs_hold_exactly_the_elements_wanted},
    };
    return TEST_MAIN(argc, argv, cases);
}
