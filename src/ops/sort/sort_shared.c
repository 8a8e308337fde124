/* One line sorted by the ranks that share it.
 *
 *     sort     each rank its own elements
 *     choose   the elements with which each rank's part of the result begins, by counting: their places are known
 *     deal     how many of its elements each rank has for each other
 *     send     values and indices, an exchange each
 *     merge    what came, a run from each rank, in the order of their pieces: so the sort is stable
 *
 * The parts are exact, so nothing has to be moved after it. */
#include "core/base/host_alloc.h"
#include "dispatch/services.h"
#include "ops/sort/sort_family.h"
#include "ops/sort/line_exchange.h"
#include "ops/exchange/row_router.h"

struct shared {
    const stn_op_call *call;
    struct stni_order order;
    struct stni_sort_swap swap;
    struct stni_sort_target *places; /* on the host: with what pieces 1, 2, … begin */
    int64_t n, n_all;                 /* elements of this rank; of all */
    /* This rank's elements in order, where the result will be: one line is dense in the outputs. */
    void *values;
    int64_t *indices;
};

static struct stni_sort_lines dense_line(int64_t n, int64_t first)
{
    return (struct stni_sort_lines){
        .step = {1, 1, 1}, .n_along = 1, .along = {n}, .along_in = {1}, .along_index = {1}, .first = first, .n = n};
}

/* The memory for it is given back. */
static stn_status sort_own(const struct shared *s)
{
    const stn_tensor *in = s->call->in[0];
    const int mark = stni_scratch_mark(s->call->context), dim = s->swap.dim;
    struct stni_sort_sort_args args = {.order = s->order, .in = in->data, .values = s->values, .indices = s->indices,
                                        .lines = dense_line(s->n, in->spec->local_offset[dim])};
    args.lines.along_in[0] = in->strides[dim];
    if (s->n == 0)
        return STN_OK;
    STNI_TRY(stn_op_scratch(s->call, stn_op_workspace(s->call, STNI_SORT_SORT, s->order.dtype, &args), &args.work));
    stn_status status = stn_op_launch(s->call, STNI_SORT_SORT, s->order.dtype, &args, sizeof args);
    stni_scratch_release(s->call->context, mark);
    return status;
}

static stn_status choose(struct shared *s, struct stni_sort_target **targets)
{
    const int p = s->swap.p;
    struct stni_sort_choice choice = {.call = s->call, .comm = s->swap.comm, .count_slot = STNI_SORT_COUNT,
                                       .narrow_slot = STNI_SORT_NARROW, .n = s->n_all,
                                       .count = {.order = s->order, .lines = dense_line(s->n, 0), .in = s->values,
                                                 .sorted_indices = s->indices, .n_targets = p - 1}};
    const size_t bytes = (size_t)p * sizeof *s->places;
    s->places = stni_malloc(bytes);
    if (!s->places)
        return stni_fail_memory(s->call->context, "places of parts", bytes);
    for (int i = 1; i < p; i++) {
        int64_t begin = s->swap.host_begins[i];
        s->places[i - 1] = (struct stni_sort_target){0, 0, begin < s->n_all ? begin : s->n_all - 1};
    }
    s->places[p - 1] = s->places[0];
    STNI_TRY(stni_sort_copy_in(s->call, s->places, bytes, targets));
    return stni_sort_choose(&choice, *targets);
}

static stn_status deal(struct shared *s)
{
    struct stni_sort_deal_args args = {.order = s->order,
                                       .n = s->n,
                                       .values = s->values,
                                       .indices = s->indices,
                                       .n_pieces = s->swap.p,
                                       .n_all = s->n_all,
                                       .begins = s->swap.begins,
                                       .pieces = s->swap.pieces};
    struct stni_sort_target *targets;
    STNI_TRY(choose(s, &targets));
    args.targets = targets;
    STNI_TRY(stni_rows_memory(s->call, s->swap.p, sizeof(int64_t), &args.counts));
    STNI_TRY(stn_op_launch(s->call, STNI_SORT_DEAL, s->order.dtype, &args, sizeof args));
    return stni_sort_swap_counts(&s->swap, args.counts);
}

static stn_status merge(const struct shared *s, const void *values, const int64_t *indices)
{
    struct stni_sort_runs_args args = {.order = s->order,
                                       .n_pieces = s->swap.p,
                                       .counts = s->swap.theirs,
                                       .pieces = s->swap.pieces,
                                       .in = values,
                                       .in_indices = indices,
                                       .values = s->values,
                                       .indices = s->indices,
                                       .n = s->n};
    STNI_TRY(stni_rows_memory(s->call, s->swap.p, sizeof *args.runs, &args.runs));
    return stn_op_launch(s->call, STNI_SORT_RUNS, s->order.dtype, &args, sizeof args);
}

static stn_status sort_shared(struct shared *s, int dim, uint32_t axes)
{
    const stn_op_call *call = s->call;
    void *values;
    int64_t *indices;
    STNI_TRY(stni_sort_swap_begin(&s->swap, call, call->in[0]->spec, dim, axes));
    STNI_TRY(sort_own(s));
    STNI_TRY(deal(s));
    STNI_TRY(stni_rows_memory(call, s->n, stn_dtype_size(s->order.dtype), &values));
    STNI_TRY(stni_rows_memory(call, s->n, sizeof *indices, &indices));
    STNI_TRY(stni_sort_swap_send(&s->swap, s->order.dtype, s->values, values));
    STNI_TRY(stni_sort_swap_send(&s->swap, STN_DTYPE_I64, s->indices, indices));
    return merge(s, values, indices);
}

stn_status stni_sort_sort_shared(const stn_op_call *call, int dim, uint32_t axes, struct stni_order order)
{
    const stn_spec *spec = call->in[0]->spec;
    struct shared s = {.call = call, .order = order, .n = spec->local_shape[dim], .n_all = spec->layout.shape[dim],
                       .values = call->out[0]->data, .indices = call->out[1]->data};
    s.swap.call = call;
    stn_status status = stni_sort_swap_end(&s.swap, sort_shared(&s, dim, axes));
    stni_free(s.places);
    return status;
}
