/* Splits: the one rule of cuts, interning, and derived cuts. */
#include "harness.h"

#include "core/shard/split.h"
#include "core/shard/world.h"

#include <stdlib.h>

static void balanced_cut_gives_the_first_pieces_one_more(void)
{
    stn_context *context = world_rank(0, 1);
    static const int parts[] = {3};
    const struct stni_split *split;
    CHECK_STATUS(stni_split_balanced(context, 73, 1, parts, &split), STN_OK);
    static const int64_t wanted[] = {0, 25, 49, 73};
    for (int i = 0; i <= 3; i++)
        CHECK_I64(stni_split_offset(split, i), wanted[i]);
    CHECK(split->offsets == NULL);
    world_end(context);
}

static void fewer_elements_than_pieces_leave_the_last_ones_empty(void)
{
    stn_context *context = world_rank(0, 1);
    static const int parts[] = {5};
    const struct stni_split *split;
    CHECK_STATUS(stni_split_balanced(context, 2, 1, parts, &split), STN_OK);
    static const int64_t wanted[] = {0, 1, 2, 2, 2, 2};
    for (int i = 0; i <= 5; i++)
        CHECK_I64(stni_split_offset(split, i), wanted[i]);
    CHECK_STATUS(stni_split_balanced(context, 0, 1, parts, &split), STN_OK);
    CHECK_I64(stni_split_offset(split, 5), 0);
    world_end(context);
}

static void two_levels_cut_each_piece_of_the_major_axis(void)
{
    stn_context *context = world_rank(0, 1);
    static const int parts[] = {2, 2};
    const struct stni_split *split;
    CHECK_STATUS(stni_split_balanced(context, 6, 2, parts, &split), STN_OK);
    static const int64_t wanted[] = {0, 2, 3, 5, 6}; /* 6 = 3 + 3 = (2 + 1) + (2 + 1), not 2 + 2 + 1 + 1 */
    for (int i = 0; i <= 4; i++)
        CHECK_I64(stni_split_offset(split, i), wanted[i]);
    CHECK_I64(stni_split_part(split, 0, 2), 1);
    CHECK_I64(stni_split_part(split, 1, 2), 0);
    CHECK_I64(stni_split_part(split, 1, 3), 1);
    world_end(context);
}

/* Every element is found in the piece whose range holds it. */
static void check_find(const struct stni_split *split)
{
    for (int i = 0; i < split->n_parts; i++)
        for (int64_t x = stni_split_offset(split, i); x < stni_split_offset(split, i + 1); x++)
            CHECK_I64(stni_split_find(split, x), i);
}

static void find_agrees_with_offsets_for_all_small_cuts(void)
{
    stn_context *context = world_rank(0, 1);
    const struct stni_split *split;
    for (int p = 1; p <= 7; p++)
        for (int q = 1; q <= 4; q++)
            for (int64_t n = 0; n <= 40; n++) {
                int parts[] = {p, q};
                CHECK_STATUS(stni_split_balanced(context, n, 1, parts, &split), STN_OK);
                check_find(split);
                CHECK_STATUS(stni_split_balanced(context, n, 2, parts, &split), STN_OK);
                check_find(split);
            }
    static const int five[] = {5};
    static const int64_t offsets[] = {0, 0, 3, 3, 3, 9};
    CHECK_STATUS(stni_split_explicit(context, 9, 1, five, offsets, &split), STN_OK);
    check_find(split);
    world_end(context);
}

static void find_has_no_limit_at_large_sizes(void)
{
    stn_context *context = world_rank(0, 1);
    static const int parts[] = {99991};
    const struct stni_split *split;
    int64_t n = INT64_MAX / 3;
    CHECK_STATUS(stni_split_balanced(context, n, 1, parts, &split), STN_OK);
    for (int i = 0; i < 99991; i += 977) {
        int64_t begin = stni_split_offset(split, i), end = stni_split_offset(split, i + 1);
        CHECK(end - begin == n / 99991 || end - begin == n / 99991 + 1);
        CHECK_I64(stni_split_find(split, begin), i);
        CHECK_I64(stni_split_find(split, end - 1), i);
    }
    CHECK_I64(stni_split_offset(split, 99991), n);
    world_end(context);
}

static void equal_splits_are_the_same_pointer(void)
{
    stn_context *context = world_rank(0, 1);
    static const int three[] = {3}, one_three[] = {1, 3};
    static const int64_t uneven[] = {0, 20, 49, 73}, balanced[] = {0, 25, 49, 73};
    const struct stni_split *a, *b, *c, *d, *e;
    CHECK_STATUS(stni_split_explicit(context, 73, 1, three, uneven, &a), STN_OK);
    CHECK_STATUS(stni_split_explicit(context, 73, 1, three, uneven, &b), STN_OK);
    CHECK(a == b);
    CHECK_STATUS(stni_split_balanced(context, 73, 1, three, &c), STN_OK);
    CHECK(a != c);
    CHECK_STATUS(stni_split_explicit(context, 73, 1, three, balanced, &d), STN_OK);
    CHECK(c == d);
    CHECK_STATUS(stni_split_balanced(context, 73, 2, one_three, &e), STN_OK);
    CHECK(c != e);
    CHECK_I64(context->shard.n_splits, 3);
    world_end(context);
}

static void scaled_cut_is_the_ceiling_of_the_scaled_offsets(void)
{
    stn_context *context = world_rank(0, 1);
    static const int three[] = {3};
    static const int64_t uneven[] = {0, 20, 20, 73}, empty[] = {0, 0, 0, 0};
    const struct stni_split *in, *out, *wanted;
    CHECK_STATUS(stni_split_explicit(context, 73, 1, three, uneven, &in), STN_OK);
    CHECK_STATUS(stni_split_scaled(context, in, 37, &out), STN_OK);
    static const int64_t scaled[] = {0, 11, 11, 37}; /* 20 * 37 / 73 = 10.1 */
    for (int i = 0; i <= 3; i++)
        CHECK_I64(stni_split_offset(out, i), scaled[i]);

    CHECK_STATUS(stni_split_balanced(context, 74, 1, three, &in), STN_OK);
    CHECK_STATUS(stni_split_scaled(context, in, 37, &out), STN_OK);
    CHECK_STATUS(stni_split_balanced(context, 37, 1, three, &wanted), STN_OK);
    CHECK(out == wanted);
    CHECK_STATUS(stni_split_explicit(context, 0, 1, three, empty, &in), STN_OK);
    CHECK_STATUS(stni_split_scaled(context, in, 37, &out), STN_OK);
    CHECK(out == wanted);
    world_end(context);
}

static void scaled_cut_does_not_overflow(void)
{
    stn_context *context = world_rank(0, 1);
    static const int two[] = {2};
    int64_t n = INT64_MAX - 1, offsets[] = {0, 3, n};
    const struct stni_split *in, *out;
    CHECK_STATUS(stni_split_explicit(context, n, 1, two, offsets, &in), STN_OK);
    CHECK_STATUS(stni_split_scaled(context, in, n / 2, &out), STN_OK);
    CHECK_I64(stni_split_offset(out, 1), 2);
    CHECK_I64(stni_split_offset(out, 2), n / 2);
    world_end(context);
}

static void divided_cut_is_the_ceiling_of_every_offset(void)
{
    stn_context *context = world_rank(0, 1);
    int balanced = 0, explicit = 0;
    for (int p = 1; p <= 12; p++)
        for (int64_t k = 1; k <= 9; k++)
            for (int64_t n = 0; n <= 30; n++) {
                const struct stni_split *in, *out;
                CHECK_STATUS(stni_split_balanced(context, n * k, 1, &p, &in), STN_OK);
                CHECK_STATUS(stni_split_divided(context, in, k, &out), STN_OK);
                for (int i = 0; i <= p; i++)
                    CHECK_I64(stni_split_offset(out, i), (stni_balanced_offset(n * k, p, i) + k - 1) / k);
                balanced += out->offsets == NULL;
                explicit += out->offsets != NULL;
            }
    CHECK(balanced > 1000 && explicit > 100);
    world_end(context);
}

static void multiplied_cut_multiplies_every_offset(void)
{
    stn_context *context = world_rank(0, 1);
    for (int p = 1; p <= 5; p++)
        for (int64_t k = 1; k <= 4; k++)
            for (int64_t n = 0; n <= 12; n++) {
                const struct stni_split *in, *out;
                CHECK_STATUS(stni_split_balanced(context, n, 1, &p, &in), STN_OK);
                CHECK_STATUS(stni_split_multiplied(context, in, k, &out), STN_OK);
                for (int i = 0; i <= p; i++)
                    CHECK_I64(stni_split_offset(out, i), k * stni_balanced_offset(n, p, i));
            }
    world_end(context);
}

static void refined_cut_cuts_each_piece_in_balance(void)
{
    stn_context *context = world_rank(0, 1);
    static const int three[] = {3}, three_two[] = {3, 2};
    static const int64_t uneven[] = {0, 5, 5, 12}, wanted[] = {0, 3, 5, 5, 5, 9, 12};
    const struct stni_split *in, *out, *balanced;
    CHECK_STATUS(stni_split_explicit(context, 12, 1, three, uneven, &in), STN_OK);
    CHECK_STATUS(stni_split_refined(context, in, 12, 2, &out), STN_OK);
    CHECK_I64(out->n_levels, 2);
    for (int i = 0; i <= 6; i++)
        CHECK_I64(stni_split_offset(out, i), wanted[i]);
    CHECK_STATUS(stni_split_balanced(context, 12, 1, three, &in), STN_OK);
    CHECK_STATUS(stni_split_refined(context, in, 12, 2, &out), STN_OK);
    CHECK_STATUS(stni_split_balanced(context, 12, 2, three_two, &balanced), STN_OK);
    CHECK(out == balanced);
    CHECK_STATUS(stni_split_refined(context, NULL, 12, 3, &out), STN_OK);
    CHECK(out == in);
    world_end(context);
}

static void unused_splits_are_collected(void)
{
    stn_context *context = world_rank(0, 1);
    const struct stni_split *split;
    for (int n = 0; n < 100; n++) {
        static const int parts[] = {3};
        CHECK_STATUS(stni_split_balanced(context, n, 1, parts, &split), STN_OK);
    }
    CHECK_I64(context->shard.n_splits, 100);
    stni_shard_collect(context, 0);
    CHECK_I64(context->shard.n_splits, 100);
    stni_shard_collect(context, 1);
    CHECK_I64(context->shard.n_splits, 0);
    world_end(context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"balanced_cut_gives_the_first_pieces_one_more", balanced_cut_gives_the_first_pieces_one_more},
        {"fewer_elements_than_pieces_leave_the_last_ones_empty", fewer_elements_than_pieces_leave_the_last_ones_empty},
        {"two_levels_cut_each_piece_of_the_major_axis", two_levels_cut_each_piece_of_the_major_axis},
        {"find_agrees_with_offsets_for_all_small_cuts", find_agrees_with_offsets_for_all_small_cuts},
        {"find_has_no_limit_at_large_sizes", find_has_no_limit_at_large_sizes},
        {"equal_splits_are_the_same_pointer", equal_splits_are_the_same_pointer},
        {"scaled_cut_is_the_ceiling_of_the_scaled_offsets", scaled_cut_is_the_ceiling_of_the_scaled_offsets},
        {"scaled_cut_does_not_overflow", scaled_cut_does_not_overflow},
        {"divided_cut_is_the_ceiling_of_every_offset", divided_cut_is_the_ceiling_of_every_offset},
        {"multiplied_cut_multiplies_every_offset", multiplied_cut_multiplies_every_offset},
        {"refined_cut_cuts_each_piece_in_balance", refined_cut_cuts_each_piece_in_balance},
        {"unused_splits_are_collected", unused_splits_are_collected},
    };
    return TEST_MAIN(argc, argv, cases);
}
