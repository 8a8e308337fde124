#include "collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

const char *const collective_names[N_COLLECTIVES] = {"all_gather", "gather",     "reduce_scatter", "scatter", "broadcast",
                                                     "reduce",     "all_to_all", "exchange",       "halo",    "all_reduce"};

static int64_t size_of(const struct setup *s, int rank)
{
    static const int64_t uneven[] = {2, 0, 3, 1, 4, 0, 2, 5};
    return s->uneven ? uneven[rank % 8] : 2;
}

static int64_t offset_of(const struct setup *s, int rank)
{
    int64_t offset = 0;
    for (int r = 0; r < rank; r++)
        offset += size_of(s, r);
    return offset;
}

/* Elements from one rank to another in an all_to_all. */
static int64_t pair_size(const struct setup *s, int from, int to)
{
    return s->uneven ? (from + 2 * to) % 3 : 2;
}

static int64_t sum_of_pairs(const struct setup *s, int rank, int sent, int before)
{
    int64_t sum = 0;
    for (int r = 0; r < before; r++)
        sum += sent ? pair_size(s, rank, r) : pair_size(s, r, rank);
    return sum;
}

/* What 7 elements of the exchange do: ring shift of 3 of 5 elements to the next rank, 3 overlapping ones to the one
 * before. */
enum { EXCHANGED = 3, EXCHANGE_IN = 5, EXCHANGE_OUT = 7, TO_NEXT = 0, FROM_BEFORE = 1, TO_BEFORE = 2, FROM_NEXT = 3 };

int64_t in_length(const struct setup *s, int rank)
{
    switch (s->collective) {
    case ALL_GATHER:
    case GATHER:
    case HALO: return size_of(s, rank);
    case REDUCE_SCATTER: return offset_of(s, s->p);
    case SCATTER: return rank == s->root || !s->uneven ? offset_of(s, s->p) : rank;
    case ALL_TO_ALL: return sum_of_pairs(s, rank, 1, s->p);
    case EXCHANGE: return EXCHANGE_IN;
    case BROADCAST:
    case REDUCE:
    case ALL_REDUCE:
    case N_COLLECTIVES: break;
    }
    return 4;
}

int64_t out_length(const struct setup *s, int rank)
{
    switch (s->collective) {
    case ALL_GATHER: return offset_of(s, s->p);
    case GATHER: return rank == s->root ? offset_of(s, s->p) : 0;
    case REDUCE_SCATTER:
    case SCATTER: return size_of(s, rank);
    case ALL_TO_ALL: return sum_of_pairs(s, rank, 0, s->p);
    case EXCHANGE: return EXCHANGE_OUT;
    case HALO: return size_of(s, rank) ? s->below + size_of(s, rank) + s->above : 0;
    case BROADCAST:
    case REDUCE:
    case ALL_REDUCE:
    case N_COLLECTIVES: break;
    }
    return 4;
}

double in_value(const struct setup *s, int rank, int64_t i, int64_t j)
{
    if (s->probe_rank >= 0)
        return rank == s->probe_rank && i == s->probe_i && j == s->probe_j;
    return test_value(1000 * rank + 10 * i + j);
}

double cotangent_value(int rank, int64_t i, int64_t j)
{
    return test_value(7777 + 900 * rank + 11 * i + 5 * j);
}

static double sum_of_ranks(const struct setup *s, int64_t i, int64_t j)
{
    double sum = 0;
    for (int r = 0; r < s->p; r++)
        sum += in_value(s, r, i, j);
    return sum;
}

/* Element x of the line that the ranks' parts make up. */
static double line_value(const struct setup *s, int64_t x, int64_t j)
{
    int r = 0;
    while (x >= offset_of(s, r + 1))
        r++;
    return in_value(s, r, x - offset_of(s, r), j);
}

static double beyond(const struct setup *s, int64_t x, int64_t j)
{
    const int64_t n = offset_of(s, s->p);
    if (x >= 0 && x < n)
        return line_value(s, x, j);
    if (s->mode == STN_PADDING_ZEROS)
        return 0;
    if (s->mode == STN_PADDING_REPLICATE)
        return line_value(s, x < 0 ? 0 : n - 1, j);
    if (s->mode == STN_PADDING_CIRCULAR)
        return line_value(s, (x % n + n) % n, j);
    return line_value(s, x < 0 ? -x : 2 * (n - 1) - x, j);
}

static double paired_value(const struct setup *s, int rank, int64_t i, int64_t j)
{
    int from = 0;
    while (i >= sum_of_pairs(s, rank, 0, from + 1))
        from++;
    return in_value(s, from, sum_of_pairs(s, from, 1, rank) + i - sum_of_pairs(s, rank, 0, from), j);
}

static double exchanged_value(const struct setup *s, int rank, int64_t i, int64_t j)
{
    const int before = (rank + s->p - 1) % s->p, next = (rank + 1) % s->p;
    double sum = 0;
    if (i >= FROM_BEFORE && i < FROM_BEFORE + EXCHANGED)
        sum += in_value(s, before, TO_NEXT + i - FROM_BEFORE, j);
    if (i >= FROM_NEXT && i < FROM_NEXT + EXCHANGED)
        sum += in_value(s, next, TO_BEFORE + i - FROM_NEXT, j);
    return sum;
}

double out_value(const struct setup *s, int rank, int64_t i, int64_t j)
{
    switch (s->collective) {
    case ALL_GATHER:
    case GATHER: return line_value(s, i, j);
    case REDUCE_SCATTER: return sum_of_ranks(s, offset_of(s, rank) + i, j);
    case SCATTER: return in_value(s, s->root, offset_of(s, rank) + i, j);
    case BROADCAST: return in_value(s, s->root, i, j);
    case REDUCE: return rank == s->root ? sum_of_ranks(s, i, j) : 0;
    case ALL_TO_ALL: return paired_value(s, rank, i, j);
    case EXCHANGE: return exchanged_value(s, rank, i, j);
    case HALO: return beyond(s, offset_of(s, rank) - s->below + i, j);
    case ALL_REDUCE: return sum_of_ranks(s, i, j);
    case N_COLLECTIVES: break;
    }
    return 0;
}

/* The adjoint by definition: the cotangents times the results of an input that is 1 in one place. */
static double adjoint_value(const struct setup *s, int64_t i, int64_t j)
{
    struct setup probe = *s;
    double sum = 0;
    probe.probe_rank = s->rank;
    probe.probe_i = i;
    probe.probe_j = j;
    for (int r = 0; r < s->p; r++)
        for (int64_t k = 0; k < out_length(s, r); k++)
            sum += cotangent_value(r, k, j) * out_value(&probe, r, k, j);
    return sum;
}

double gradient_value(const struct setup *s, int64_t i, int64_t j)
{
    if (s->convention == STN_GRAD_REPLICATED && s->collective == ALL_GATHER)
        return cotangent_value(s->rank, offset_of(s, s->rank) + i, j);
    if (s->convention == STN_GRAD_REPLICATED && s->collective == BROADCAST)
        return s->rank == s->root ? cotangent_value(s->rank, i, j) : 0;
    if (s->convention == STN_GRAD_REPLICATED && s->collective == ALL_REDUCE)
        return cotangent_value(s->rank, i, j);
    return adjoint_value(s, i, j);
}

stn_tensor *local(stn_context *context, const struct setup *s, int rank, int64_t length,
                  double (*value)(const struct setup *s, int rank, int64_t i, int64_t j))
{
    const int64_t shape[] = {s->dim == 0 ? length : OTHER, s->dim == 0 ? OTHER : length};
    double *data = malloc((size_t)(length * OTHER + 1) * sizeof *data);
    const stn_spec *spec;
    for (int64_t i = 0; i < length; i++)
        for (int64_t j = 0; j < OTHER; j++)
            data[s->dim == 0 ? i * OTHER + j : j * length + i] = value(s, rank, i, j);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *t = stn_from_host(context, spec, data);
    stn_spec_release(&spec);
    free(data);
    return t;
}

static stn_tensor *call_exchange(const struct setup *s, stn_tensor *x, const stn_mesh *mesh)
{
    const int before = (s->rank + s->p - 1) % s->p, next = (s->rank + 1) % s->p;
    const stn_dist_part send[] = {{next, TO_NEXT, EXCHANGED}, {before, TO_BEFORE, EXCHANGED}};
    const stn_dist_part receive[] = {{before, FROM_BEFORE, EXCHANGED}, {next, FROM_NEXT, EXCHANGED}};
    const stn_dist_messages messages = {sizeof messages, 2, 2, send, receive, EXCHANGE_OUT};
    return stn_dist_exchange(x, mesh, s->dim, &messages, s->convention);
}

static stn_tensor *call_all_to_all(const struct setup *s, stn_tensor *x, const stn_mesh *mesh)
{
    int64_t sent[MOST], received[MOST];
    for (int r = 0; r < s->p; r++) {
        sent[r] = pair_size(s, s->rank, r);
        received[r] = pair_size(s, r, s->rank);
    }
    return stn_dist_all_to_all(x, mesh, s->dim, s->uneven ? sent : NULL, s->uneven ? received : NULL, s->convention);
}

stn_tensor *call_collective(const struct setup *s, stn_tensor *x, const stn_mesh *mesh)
{
    const stn_dist_margin margin = {sizeof margin, s->below, s->above, s->mode};
    int64_t list[MOST];
    for (int r = 0; r < s->p; r++)
        list[r] = size_of(s, r);
    const int64_t *sizes = s->uneven ? list : NULL;
    switch (s->collective) {
    case ALL_GATHER: return stn_dist_all_gather(x, mesh, s->dim - 2, sizes, s->convention);
    case GATHER: return stn_dist_gather(x, mesh, s->dim, sizes, s->root, s->convention);
    case REDUCE_SCATTER: return stn_dist_reduce_scatter(x, mesh, s->dim, sizes, STN_SUM, s->convention);
    case SCATTER: return stn_dist_scatter(x, mesh, s->dim, sizes, s->root, s->convention);
    case BROADCAST: return stn_dist_broadcast(x, mesh, s->root, s->convention);
    case REDUCE: return stn_dist_reduce(x, mesh, STN_SUM, s->root, s->convention);
    case ALL_TO_ALL: return call_all_to_all(s, x, mesh);
    case EXCHANGE: return call_exchange(s, x, mesh);
    case HALO: return stn_dist_halo(x, mesh, s->dim, sizes, &margin, s->convention);
    case ALL_REDUCE: return stn_dist_all_reduce(x, mesh, STN_SUM, s->convention);
    case N_COLLECTIVES: break;
    }
    return NULL;
}

void expect(const char *what, const struct setup *s, stn_tensor *got, int64_t length,
            double (*want)(const struct setup *s, int rank, int64_t i, int64_t j), double rel)
{
    int good = CHECK_PTR(got) && CHECK(!stn_tensor_is_error(got)) && CHECK_I64(stn_tensor_shape(got)[s->dim], length) &&
               CHECK_I64(stn_tensor_shape(got)[1 - s->dim], OTHER);
    double *values = calloc((size_t)(length * OTHER + 1), sizeof *values);
    good = good && CHECK_STATUS(stn_to_host(got, values, (size_t)(length * OTHER) * sizeof *values), STN_OK);
    for (int64_t i = 0; i < length && good; i++)
        for (int64_t j = 0; j < OTHER && good; j++)
            good = CHECK_NEAR(values[s->dim == 0 ? i * OTHER + j : j * length + i], want(s, s->rank, i, j), rel);
    if (!good)
        fprintf(stderr, "  %s of %s, %d ranks, dim %d, %s, root %d, mode %d, convention %d\n", what,
                collective_names[s->collective], s->p, s->dim, s->uneven ? "uneven" : "even", s->root, (int)s->mode,
                (int)s->convention);
    free(values);
}

void on_each_size(stn_rank_main body, void *arg)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    if (getenv("STN_TEST_MODULES")) {
        test_ranks(0, body, arg);
        return;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        test_ranks(sizes[i], body, arg);
}

static void in_each_mode(stn_context *context, struct setup s, const stn_mesh *mesh,
                         void (*body)(stn_context *context, const struct setup *s, const stn_mesh *mesh))
{
    static const int64_t widths[][2] = {{1, 1}, {2, 3}, {0, 1}};
    for (s.mode = STN_PADDING_ZEROS; s.mode <= STN_PADDING_CIRCULAR; s.mode++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            s.below = widths[w][0];
            s.above = widths[w][1];
            if (s.mode != STN_PADDING_REFLECT || s.above < offset_of(&s, s.p))
                body(context, &s, mesh);
        }
}

void for_each_setup(stn_context *context,
                    void (*body)(stn_context *context, const struct setup *s, const stn_mesh *mesh))
{
    const int p = stn_context_size(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    for (int k = 0; k < N_COLLECTIVES * 8; k++) {
        struct setup s = {.collective = (enum collective)(k / 8),
                          .p = p,
                          .rank = stn_context_rank(context),
                          .root = (k + 1) % p,
                          .dim = k & 1,
                          .uneven = k >> 1 & 1,
                          .convention = k >> 2 & 1 ? STN_GRAD_REPLICATED : STN_GRAD_PER_RANK,
                          .probe_rank = -1};
        if (s.collective == HALO)
            in_each_mode(context, s, mesh, body);
        else
            body(context, &s, mesh);
    }
}
