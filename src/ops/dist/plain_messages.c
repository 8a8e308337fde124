/* Forms without gradients that are messages between pairs of ranks: the exchange of any rows, and margins. */
#include "ops/dist/plain.h"

#include "core/base/host_alloc.h"
#include "core/box/box_range.h"
#include "core/redistribute/identity.h"
#include "ops/dist/combine.h"
#include "ops/dist/halo_line.h"

#include <stddef.h>

/* What one call moves. */
struct moves {
    struct stni_plain *p;
    struct stni_ranges send, receive;
    int adds; /* several messages may come to one place, on some rank */
};

/* Rows of a tensor, which is row-major, as a line of elements. */
static stn_box line_of(const stn_tensor *t, int64_t begin, int64_t length)
{
    const int64_t row = stni_plain_row(t);
    const size_t size = stn_dtype_size(t->spec->layout.dtype);
    char *data = t->data;
    return (stn_box){data != NULL ? data + (size_t)(begin * row) * size : NULL, 1, {length * row}, {1}};
}

/* A tensor of all rows that are received, beside the result. */
static stn_status make_memory(const struct moves *m, stn_tensor **out)
{
    const struct stni_layout *l = &m->p->out->spec->layout;
    const stn_spec *spec;
    int64_t shape[STN_MAX_NDIM] = {0};
    for (int d = 1; d < l->ndim; d++)
        shape[d] = l->shape[d];
    for (int64_t i = 0; i < m->receive.n; i++)
        shape[0] += m->receive.list[i].length;
    STNI_TRY(stni_spec_local(m->p->context, l->dtype, l->ndim, shape, &spec));
    return stni_tensor_create(m->p->context, spec, out);
}

/* A place of its own for each part that is received. */
static stn_status make_overlap(struct moves *m)
{
    struct stni_plain_overlap *o = &m->p->overlap;
    const size_t size = stn_dtype_size(stni_plain_dtype(m->p));
    stn_box all;
    int64_t at = 0;
    STNI_TRY(make_memory(m, &o->memory));
    stni_tensor_box(o->memory, &all);
    o->boxes = stni_malloc((size_t)m->receive.n * sizeof *o->boxes);
    if (o->boxes == NULL)
        return stni_fail_memory(m->p->context, "a list of messages", (size_t)m->receive.n * sizeof *o->boxes);
    for (int64_t i = 0; i < m->receive.n; i++) {
        const struct stni_message_range *part = &m->receive.list[i];
        o->boxes[i] = stni_box_along(&all, 0, at, part->length, size);
        at += part->length;
        STNI_TRY(stni_ranges_add(m->p->context, &o->parts, part->peer, part->begin, part->length));
    }
    return STN_OK;
}

/* Where nothing comes there are zeros; where parts overlap but are not the same, they come beside the result. */
static stn_status prepare(struct moves *m)
{
    struct stni_plain *p = m->p;
    struct stni_cover cover;
    STNI_TRY(stni_ranges_cover(p->context, m->receive.list, m->receive.n, stni_plain_rows(p->out), &cover));
    if (cover.has_overlap)
        return make_overlap(m);
    if (cover.has_gaps && p->out->spec->numel > 0)
        return stni_fail_queue(p->context, stni_fill_zeros(p->context->queue, p->out->data, p->out->spec->numel,
                                                           stni_plain_dtype(p)));
    return STN_OK;
}

static stn_box place_of(const struct moves *m, int64_t i)
{
    const struct stni_message_range *part = &m->receive.list[i];
    if (m->p->overlap.memory == NULL)
        return line_of(m->p->out, part->begin, part->length);
    return (stn_box){m->p->overlap.boxes[i].data, 1, {part->length * stni_plain_row(m->p->out)}, {1}};
}

static stn_status move(struct moves *m)
{
    struct stni_plain *p = m->p;
    const int64_t n = m->send.n + m->receive.n;
    stn_message *list = stni_malloc((size_t)(n + 1) * sizeof *list);
    if (list == NULL)
        return stni_fail_memory(p->context, "a list of messages", (size_t)n * sizeof *list);
    for (int64_t i = 0; i < m->send.n; i++)
        list[i] = (stn_message){(int)m->send.list[i].peer,
                                line_of(p->in, m->send.list[i].begin, m->send.list[i].length)};
    for (int64_t i = 0; i < m->receive.n; i++)
        list[m->send.n + i] = (stn_message){(int)m->receive.list[i].peer, place_of(m, i)};
    const stn_exchange all = {.dtype = stni_plain_dtype(p),
                              .reduce = m->adds,
                              .op = STN_SUM,
                              .n_send = (int)m->send.n,
                              .n_recv = (int)m->receive.n,
                              .send = list,
                              .recv = list + m->send.n};
    const stn_status status = stni_plain_end(p, stn_comm_exchange(p->comm, &all, stni_plain_inner(p)));
    stni_free(list);
    return status;
}

/* Of what is planned, or of what was wrong with it. */
static stn_status run(struct moves *m, stn_status status)
{
    struct stni_plain *p = m->p;
    status = stni_plain_ready(p, status);
    if (status == STN_OK && p->comm != NULL)
        status = prepare(m);
    status = status != STN_OK || p->comm == NULL ? stni_plain_leave(p, status) : move(m);
    stni_ranges_fini(&m->send);
    stni_ranges_fini(&m->receive);
    return status;
}

/* Adds the parts of one list, which lie within `rows`. */
static stn_status take_parts(const struct moves *m, const char *what, int n, const stn_dist_part *parts, int64_t rows,
                             struct stni_ranges *to)
{
    const struct stni_plain *p = m->p;
    for (int i = 0; i < n; i++) {
        const stn_dist_part *part = &parts[i];
        if (part->peer < 0 || part->peer >= p->mesh->size)
            return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: %s[%d].peer got %d, wanted a rank of the mesh, 0 to %d",
                             p->name, what, i, part->peer, p->mesh->size - 1);
        if (part->begin < 0 || part->length < 0 || part->begin > rows || part->length > rows - part->begin)
            return stni_fail(p->context, STN_ERR_ARGUMENT,
                             "%s: %s[%d] got begin %lld and length %lld, wanted a range within %lld rows", p->name,
                             what, i, (long long)part->begin, (long long)part->length, (long long)rows);
        STNI_TRY(stni_ranges_add(p->context, to, part->peer, part->begin, part->length));
    }
    stni_ranges_sort(to);
    return STN_OK;
}

static stn_status check_messages(const struct stni_plain *p, const stn_dist_messages *messages)
{
    if (messages == NULL || messages->size != sizeof *messages)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: messages got %s of %zu bytes, wanted %zu", p->name,
                         messages ? "a size" : "NULL,", messages ? messages->size : 0, sizeof *messages);
    if (messages->n_send < 0 || messages->n_receive < 0 || (messages->n_send > 0 && messages->send == NULL) ||
        (messages->n_receive > 0 && messages->receive == NULL))
        return stni_fail(p->context, STN_ERR_ARGUMENT,
                         "%s: messages got n_send %lld (send %s) and n_receive %lld (receive %s), wanted 0 or more of "
                         "lists that are given",
                         p->name, (long long)messages->n_send, messages->send ? "given" : "NULL",
                         (long long)messages->n_receive, messages->receive ? "given" : "NULL");
    if (messages->length != stni_plain_rows(p->out))
        return stni_fail(p->context, STN_ERR_SHAPE,
                         "%s: the result has %lld rows, wanted messages->length, which is %lld", p->name,
                         (long long)stni_plain_rows(p->out), (long long)messages->length);
    return STN_OK;
}

static stn_status plan_exchange(struct moves *m, const stn_dist_messages *messages)
{
    struct stni_plain *p = m->p;
    STNI_TRY(stni_plain_begin(p, 1, 1, 1));
    if (p->me < 0)
        return STN_OK;
    STNI_TRY(stni_plain_check_rows(p));
    STNI_TRY(check_messages(p, messages));
    STNI_TRY(take_parts(m, "send", messages->n_send, messages->send, stni_plain_rows(p->in), &m->send));
    STNI_TRY(take_parts(m, "receive", messages->n_receive, messages->receive, messages->length, &m->receive));
    p->facts.send = &m->send;
    p->facts.receive = &m->receive;
    return STN_OK;
}

stn_status stn_dist_exchange_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                  const stn_dist_messages *messages, stn_dist_request **request)
{
    struct stni_plain p = {.name = "dist_exchange_into", .mesh = mesh, .in = input, .out = result, .request = request};
    STNI_TRY(stni_plain_enter(&p));
    struct moves m = {.p = &p, .adds = 1};
    return run(&m, plan_exchange(&m, messages));
}

/* Offsets of the ranks' chunks, which are the call's list of numbers. */
static stn_status add_up_sizes(struct stni_plain *p, const int64_t *sizes)
{
    const size_t n = (size_t)p->mesh->size + 1;
    const int64_t rows = stni_plain_rows(p->in);
    p->facts.sizes = sizes;
    p->facts.n_sizes = sizes != NULL ? p->mesh->size : 0;
    if (sizes == NULL)
        stni_fact_add(&p->facts, "rows", NULL, rows);
    p->counts = stni_calloc(n, sizeof *p->counts);
    if (p->counts == NULL)
        return stni_fail_memory(p->context, "a list of sizes", n * sizeof *p->counts);
    for (int r = 0; r < p->mesh->size; r++) {
        const int64_t size = sizes != NULL ? sizes[r] : rows;
        if (size < 0 || __builtin_add_overflow(p->counts[r], size, &p->counts[r + 1]))
            return stni_fail(p->context, STN_ERR_ARGUMENT,
                             "%s: sizes[%d] got %lld, wanted 0 or more, and a sum below 2^63", p->name, r,
                             (long long)size);
    }
    if (p->counts[p->me + 1] - p->counts[p->me] == rows)
        return STN_OK;
    return stni_fail(p->context, STN_ERR_SHAPE, "%s: input has %lld rows, wanted sizes[%d], which is %lld", p->name,
                     (long long)rows, p->me, (long long)(p->counts[p->me + 1] - p->counts[p->me]));
}

static stn_status check_margin(struct stni_plain *p, const stn_dist_margin *margin)
{
    if (margin == NULL || margin->size != sizeof *margin)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: margin got %s of %zu bytes, wanted %zu", p->name,
                         margin ? "a size" : "NULL,", margin ? margin->size : 0, sizeof *margin);
    stni_fact_add(&p->facts, "below", NULL, margin->below);
    stni_fact_add(&p->facts, "above", NULL, margin->above);
    stni_fact_add(&p->facts, "mode", NULL, margin->mode);
    if ((unsigned)margin->mode > STN_PADDING_CIRCULAR)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: mode got %d, wanted an stn_padding_mode", p->name,
                         (int)margin->mode);
    return STN_OK;
}

static stn_status plan_halo(struct moves *m, const int64_t *sizes, const stn_dist_margin *margin)
{
    struct stni_plain *p = m->p;
    STNI_TRY(stni_plain_begin(p, 1, 1, 1));
    if (p->me < 0)
        return STN_OK;
    STNI_TRY(stni_plain_check_rows(p));
    STNI_TRY(check_margin(p, margin));
    STNI_TRY(add_up_sizes(p, sizes));
    const struct stni_halo_line line = {p->context,    p->counts,     p->mesh->size, p->me,
                                        margin->below, margin->above, (enum stni_boundary)margin->mode};
    STNI_TRY(stni_halo_line_check(&line, p->name));
    if (stni_plain_rows(p->out) != stni_halo_line_length(&line))
        return stni_fail(p->context, STN_ERR_SHAPE,
                         "%s: the result has %lld rows, wanted %lld, the chunk with its margins", p->name,
                         (long long)stni_plain_rows(p->out), (long long)stni_halo_line_length(&line));
    STNI_TRY(stni_halo_line_route(&line, &m->send, &m->receive));
    stni_ranges_sort(&m->send);
    stni_ranges_sort(&m->receive);
    return STN_OK;
}

stn_status stn_dist_halo_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh, const int64_t *sizes,
                              const stn_dist_margin *margin, stn_dist_request **request)
{
    struct stni_plain p = {.name = "dist_halo_into", .mesh = mesh, .in = input, .out = result, .request = request};
    STNI_TRY(stni_plain_enter(&p));
    struct moves m = {.p = &p};
    return run(&m, plan_halo(&m, sizes, margin));
}
