/* What has to hold between ranks, and between one rank and many. */
#include "call_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct judge {
    const struct call *call;
    const struct call_outcome *alone, *perturbed, *ranks;
    int n;
    char *text;
    size_t size;
};

STN_PRINTF(2, 3)
static int wrong(const struct judge *j, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(j->text, j->size, format, args);
    va_end(args);
    return 1;
}

/* Failures of a rank, after which its family is aborted; the others have a text of their own. */
static int is_rank_error(stn_status status)
{
    return status == STN_ERR_MEMORY || status == STN_ERR_COMM || status == STN_ERR_PEER || status == STN_ERR_TIMEOUT ||
           status == STN_ERR_DEVICE || status == STN_ERR_INTERNAL;
}

static stn_status rank_error(const struct call_outcome *o)
{
    const stn_status all[] = {o->status, o->later, o->gradient, o->last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (is_rank_error(all[i]))
            return all[i];
    return STN_OK;
}

int call_hangs_on_elements(const stn_op_desc *op)
{
    static const char *const ops[] = {"index",   "index_put", "masked_scatter",    "masked_select", "nonzero",
                                      "one_hot", "unique",    "repeat_interleave", "unique_consecutive"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(op->name, ops[i]) == 0)
            return 1;
    return 0;
}

int call_aborted(int n, const struct call_outcome *ranks)
{
    for (int r = 0; r < n; r++)
        if (rank_error(&ranks[r]) != STN_OK)
            return 1;
    return 0;
}

static int statuses_differ(const struct judge *j, const char *what, int rank, stn_status a, const char *a_text,
                           stn_status b, const char *b_text)
{
    if (a == b && strcmp(a_text, b_text) == 0)
        return 0;
    return wrong(j, "%s: rank 0 %s '%s', rank %d %s '%s'", what, stn_status_text(a), a_text, rank, stn_status_text(b),
                 b_text);
}

static int differ_between_ranks(const struct judge *j)
{
    const struct call_outcome *a = &j->ranks[0];
    for (int r = 1; r < j->n; r++) {
        const struct call_outcome *b = &j->ranks[r];
        if (statuses_differ(j, "call", r, a->status, a->text, b->status, b->text) ||
            statuses_differ(j, "agreement", r, a->later, a->later_text, b->later, b->later_text) ||
            statuses_differ(j, "gradient", r, a->gradient, a->gradient_text, b->gradient, b->gradient_text) ||
            statuses_differ(j, "agreement at the end", r, a->last, a->last_text, b->last, b->last_text))
            return 1;
    }
    return 0;
}

/* One rank repeats an element without storing it again, and so gives what no memory holds. */
static int gives_huge(const struct call_outcome *alone)
{
    for (int k = 0; k < alone->n_outputs; k++)
        if (alone->outputs[k].numel > CALL_MOST_READ)
            return 1;
    return 0;
}

/* A collective of per-rank tensors is refused on one rank alone, which so has not found out before what is too
 * large. */
static int may_lack_memory(const struct judge *j, stn_status status)
{
    return status == STN_ERR_MEMORY && ((j->call->op->flags & STN_OP_PER_RANK) != 0 || gives_huge(j->alone));
}

static int fails_by_itself(const struct judge *j)
{
    if (j->alone->fault[0] != '\0')
        return wrong(j, "on one rank: %s", j->alone->fault);
    if (rank_error(j->alone) == STN_ERR_INTERNAL)
        return wrong(j, "on one rank: %s %s", j->alone->text, j->alone->gradient_text);
    for (int r = 0; r < j->n; r++) {
        const struct call_outcome *o = &j->ranks[r];
        if (rank_error(o) != STN_OK && rank_error(o) != STN_ERR_PEER && !may_lack_memory(j, rank_error(o)))
            return wrong(j, "rank %d was aborted: %s %s%s%s%s", r, stn_status_text(rank_error(o)), o->text,
                         o->later_text, o->gradient_text, o->last_text);
    }
    for (int r = 0; r < j->n; r++)
        if (j->ranks[r].fault[0] != '\0')
            return wrong(j, "rank %d: %s", r, j->ranks[r].fault);
    return 0;
}

/* An op that changes its input in place, as embedding does a table with max_norm, has to keep its spec, and is
 * refused where it cannot. */
static int may_be_refused(const struct judge *j, stn_status status)
{
    const int in_place = (j->call->op->flags & STN_OP_IN_PLACE) != 0 || strcmp(j->call->op->name, "embedding") == 0;
    return in_place && (status == STN_ERR_LAYOUT || status == STN_ERR_PARTIAL);
}

static int status_differs(const struct judge *j, const char *what, stn_status alone, const char *alone_text,
                          stn_status many, const char *many_text)
{
    if (alone == many || may_be_refused(j, many))
        return 0;
    return wrong(j, "%s: one rank %s '%s', %d ranks %s '%s'", what, stn_status_text(alone), alone_text, j->n,
                 stn_status_text(many), many_text);
}

static int values_differ(const struct judge *j, int is_gradient, int at, const struct call_result *one,
                         const struct call_result *many)
{
    const struct call_pair pair = {j->call, j->alone, j->perturbed, is_gradient, at, one, many};
    const int64_t i = call_pair_differs(&pair);
    if (i < 0)
        return 0;
    const double x = call_number_at(one->dtype, one->data, i), y = call_number_at(many->dtype, many->data, i);
    return wrong(j, "%s %d, number %lld: one rank %.9g, %d ranks %.9g", is_gradient ? "gradient" : "output", at,
                 (long long)i, x, j->n, y);
}

static int results_differ(const struct judge *j, int is_gradient, int n, const struct call_result *alone, int rank,
                          const struct call_result *many, int64_t *compared)
{
    const char *what = is_gradient ? "gradient" : "output";
    for (int k = 0; k < n; k++) {
        const struct call_result *a = &alone[k], *b = &many[k];
        if (a->present != b->present)
            return wrong(j, "%s %d: %s on one rank, %s on %d", what, k, a->present ? "there" : "none",
                         b->present ? "there" : "none", j->n);
        if (a->present && (a->dtype != b->dtype || a->ndim != b->ndim ||
                           memcmp(a->shape, b->shape, sizeof(int64_t) * (size_t)a->ndim) != 0))
            return wrong(j, "%s %d has another dtype or shape on rank %d", what, k, rank);
        if (a->data && b->data && values_differ(j, is_gradient, k, a, b))
            return 1;
        *compared += a->data && b->data;
    }
    return 0;
}

/* What every rank of a mesh gets alike, to the bit, of a collective of per-rank tensors. */
static int gives_replicas(const char *op)
{
    return strcmp(op, "dist_all_reduce") == 0 || strcmp(op, "dist_all_gather") == 0 ||
           strcmp(op, "dist_broadcast") == 0;
}

/* Meshes are numbered as they are made; the first one has all ranks. */
static int is_over_all_ranks(const struct call *call)
{
    for (int i = 0; i < call->n_attrs; i++)
        if (strcmp(call->attrs[i].name, "mesh") == 0)
            return call->attrs[i].attr.type == STN_ATTR_INT && call->attrs[i].attr.value.i == 0;
    return 0;
}

static int replicas_differ(const struct judge *j, int64_t *compared)
{
    const struct call_outcome *a = &j->ranks[0];
    for (int r = 1; r < j->n; r++)
        for (int k = 0; k < a->n_outputs; k++) {
            const struct call_result *x = &a->outputs[k], *y = &j->ranks[r].outputs[k];
            if (j->ranks[r].status != STN_OK || !x->data || !y->data)
                continue;
            const size_t bytes = (size_t)x->numel * stn_dtype_size(x->dtype);
            if (x->dtype != y->dtype || x->numel != y->numel || memcmp(x->data, y->data, bytes) != 0)
                return wrong(j, "output %d: ranks 0 and %d have other bits", k, r);
            ++*compared;
        }
    return 0;
}

/* Whether a rank does not know how the call ended, nor what it gave. */
static int knows_nothing(const struct judge *j, int rank)
{
    const struct call_outcome *o = &j->ranks[rank];
    return call_hangs_on_elements(j->call->op) && o->n_outputs > 0 && o->outputs[0].outside;
}

/* The first rank that does. */
static int first_inside(const struct judge *j)
{
    int r = 0;
    while (r + 1 < j->n && knows_nothing(j, r))
        r++;
    return r;
}

static int differ_from_one(const struct judge *j, int64_t *compared)
{
    const struct call_outcome *a = j->alone, *b = &j->ranks[first_inside(j)];
    if (status_differs(j, "call", a->status, a->text, b->status, b->text))
        return 1;
    if (a->status != STN_OK || b->status != STN_OK)
        return 0;
    if (status_differs(j, "agreement", a->later, a->later_text, b->later, b->later_text))
        return 1;
    if (a->later != b->later)
        return 0;
    if (status_differs(j, "gradient", a->gradient, a->gradient_text, b->gradient, b->gradient_text))
        return 1;
    for (int r = 0; r < j->n; r++) {
        const struct call_outcome *many = &j->ranks[r];
        if (knows_nothing(j, r))
            continue;
        if (results_differ(j, 0, a->n_outputs, a->outputs, r, many->outputs, compared))
            return 1;
        if (a->gradient == STN_OK && many->gradient == STN_OK &&
            results_differ(j, 1, a->n_gradients, a->gradients, r, many->gradients, compared))
            return 1;
    }
    return 0;
}

int call_judge(const struct call *call, const struct call_outcome *alone, const struct call_outcome *perturbed, int n,
               const struct call_outcome *ranks, char *text, size_t size, int64_t *compared)
{
    const struct judge judge = {call, alone, perturbed, ranks, n, text, size};
    const int per_rank = (call->op->flags & STN_OP_PER_RANK) != 0,
              alike = !per_rank && (n == 0 || first_inside(&judge) == 0);
    if (fails_by_itself(&judge) || (alike && !call_aborted(n, ranks) && differ_between_ranks(&judge)))
        return 1;
    if (n > 0 && !call_aborted(n, ranks) && gives_replicas(call->op->name) && is_over_all_ranks(call))
        return replicas_differ(&judge, compared);
    if (n == 0 || alone->refused || call->mixed || per_rank || call_aborted(n, ranks))
        return 0;
    return differ_from_one(&judge, compared);
}
