/* Collectives between pairs of ranks: all_to_all, and the exchange of any ranges between any pairs. Neither takes more
 * than B's adjoint. */
#include "core/base/host_alloc.h"
#include "ops/dist/collective.h"

#include <stddef.h>

enum { WORDS = 3 }; /* of a part: peer, begin, length */

stn_tensor *stn_dist_all_to_all(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *send_sizes,
                                const int64_t *receive_sizes, stn_grad_convention convention)
{
    const struct stni_dist_attrs attrs = {.dim = dim, .convention = convention};
    const int64_t p = mesh ? mesh->size : 0;
    const struct stni_dist_list lists[] = {{send_sizes, p}, {receive_sizes, p}};
    return stni_dist_call(STNI_OP_dist_all_to_all, input, mesh, &attrs, 2, lists);
}

/* As words; n is -1 where the list is bad. */
static struct stni_dist_list words_of(int n, const stn_dist_part *parts, int64_t *words)
{
    for (int i = 0; i < n; i++) {
        words[WORDS * i] = parts[i].peer;
        words[WORDS * i + 1] = parts[i].begin;
        words[WORDS * i + 2] = parts[i].length;
    }
    return (struct stni_dist_list){words, WORDS * (int64_t)n};
}

static int are_good(const stn_dist_messages *m)
{
    return m && m->size == sizeof *m && m->n_send >= 0 && m->n_receive >= 0 && (m->n_send == 0 || m->send) &&
           (m->n_receive == 0 || m->receive);
}

stn_tensor *stn_dist_exchange(stn_tensor *input, const stn_mesh *mesh, int dim, const stn_dist_messages *messages,
                              stn_grad_convention convention)
{
    struct stni_dist_attrs attrs = {.dim = dim, .convention = convention};
    struct stni_dist_list lists[] = {{NULL, -1}, {NULL, -1}};
    int64_t *words = NULL;
    if (are_good(messages)) {
        size_t bytes = WORDS * ((size_t)messages->n_send + (size_t)messages->n_receive) * sizeof *words;
        words = stni_malloc(bytes + 1);
        if (words == NULL)
            return stni_call_fail(input, STN_ERR_MEMORY, "dist_exchange: out of memory: a list of messages (%zu bytes)",
                                  bytes);
        lists[0] = words_of(messages->n_send, messages->send, words);
        lists[1] = words_of(messages->n_receive, messages->receive, words + WORDS * messages->n_send);
        attrs.length = messages->length;
    }
    stn_tensor *out = stni_dist_call(STNI_OP_dist_exchange, input, mesh, &attrs, 2, lists);
    stni_free(words);
    return out;
}

static stn_status plan_all_to_all(struct stni_dist *d)
{
    const int64_t *sent, *received, *given[2];
    int64_t n[2];
    for (int i = 0; i < 2; i++)
        STNI_TRY(stni_dist_list(d, i, &given[i], &n[i]));
    stni_fact_add(&d->facts, "sizes", given[0] ? "given" : "absent", given[0] != NULL);
    if (!given[0])
        stni_fact_add(&d->facts, "elements", NULL, d->n);
    if (!given[0] != !given[1])
        return stn_op_fail(d->call, STN_ERR_ARGUMENT, "%s got a list of %lld sizes and %s none, wanted both or none",
                           given[0] ? "send_sizes" : "receive_sizes", (long long)n[given[0] ? 0 : 1],
                           given[0] ? "receive_sizes" : "send_sizes");
    STNI_TRY(stni_dist_sizes(d, 0, 1, &sent));
    STNI_TRY(stni_dist_sizes(d, 1, 1, &received));
    if (sent[d->p] != d->n)
        return stn_op_fail(d->call, STN_ERR_SHAPE,
                           "input has %lld elements along dim %d, wanted the sum of send_sizes, which is %lld",
                           (long long)d->n, d->dim, (long long)sent[d->p]);
    /* Without lists the ranks' inputs are alike: this rank gets the same piece of each. */
    const int64_t mine = received[d->me + 1] - received[d->me];
    for (int r = 0; r < d->p; r++) {
        STNI_TRY(stni_dist_send(d, r, sent[r], sent[r + 1] - sent[r]));
        STNI_TRY(given[1] ? stni_dist_receive(d, r, received[r], received[r + 1] - received[r])
                          : stni_dist_receive(d, r, r * mine, mine));
    }
    d->length = given[1] ? received[d->p] : d->p * mine;
    return STN_OK;
}

/* The parts of one list lie within n elements, and their peers in the mesh. */
static stn_status take_parts(struct stni_dist *d, int i, int64_t n,
                             stn_status (*add)(struct stni_dist *, int, int64_t, int64_t))
{
    const char *name = ((const struct stni_dist_page *)d->call->arg)->lists[i];
    const int64_t *words;
    int64_t n_words;
    STNI_TRY(stni_dist_list(d, i, &words, &n_words));
    if (n_words % WORDS != 0)
        return stn_op_fail(d->call, STN_ERR_ARGUMENT,
                           "%s got %lld numbers, wanted peer, begin and length of each message", name,
                           (long long)n_words);
    for (const int64_t *w = words; w < words + n_words; w += WORDS) {
        const long long at = (w - words) / WORDS;
        if (w[0] < 0 || w[0] >= d->p)
            return stn_op_fail(d->call, STN_ERR_ARGUMENT, "%s[%lld].peer got %lld, wanted a rank of the mesh, 0 to %d",
                               name, at, (long long)w[0], d->p - 1);
        if (w[1] < 0 || w[2] < 0 || w[1] > n || w[2] > n - w[1])
            return stn_op_fail(d->call, STN_ERR_ARGUMENT,
                               "%s[%lld] got begin %lld and length %lld, wanted a range within %lld elements", name, at,
                               (long long)w[1], (long long)w[2], (long long)n);
        STNI_TRY(add(d, (int)w[0], w[1], w[2]));
    }
    return STN_OK;
}

static stn_status plan_exchange(struct stni_dist *d)
{
    d->length = d->attrs->length;
    if (d->length < 0)
        return stn_op_fail(d->call, STN_ERR_ARGUMENT, "length got %lld, wanted 0 or more", (long long)d->length);
    STNI_TRY(take_parts(d, 0, d->n, stni_dist_send));
    return take_parts(d, 1, d->length, stni_dist_receive);
}

static const stn_input_schema all_to_all_inputs[] = {
    {.name = "input"}, {.name = "send_sizes", .optional = 1}, {.name = "receive_sizes", .optional = 1}};
static const stn_input_schema exchange_inputs[] = {
    {.name = "input"}, {.name = "send", .optional = 1}, {.name = "receive", .optional = 1}};
static const stn_attr_schema all_to_all_attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_dist_attrs, mesh), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct stni_dist_attrs, dim), NULL},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, convention), stni_dist_convention_names},
};
static const stn_attr_schema exchange_attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_dist_attrs, mesh), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct stni_dist_attrs, dim), NULL},
    {"length", STN_ATTR_INT, offsetof(struct stni_dist_attrs, length), NULL},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, convention), stni_dist_convention_names},
};

static const struct stni_dist_page all_to_all_page = {.plan = plan_all_to_all,
                                                      .native = STNI_NATIVE_ALL_TO_ALL,
                                                      .along_dim = 1,
                                                      .pairs = 1,
                                                      .lists = {"send_sizes", "receive_sizes"}},
                                   exchange_page = {.plan = plan_exchange,
                                                    .along_dim = 1,
                                                    .pairs = 1,
                                                    .meets = STNI_ROUTE_MEETS | STNI_ROUTE_MEETS_BACK,
                                                    .lists = {"send", "receive"}};

static const stn_op_impl impl = {.compose = stni_dist_compose};

const stn_op_desc stni_op_dist_all_to_all = {
    .size = sizeof(stn_op_desc),
    .name = "dist_all_to_all",
    STN_INPUTS(all_to_all_inputs),
    STN_ATTRS(all_to_all_attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&all_to_all_page,
};

const stn_op_desc stni_op_dist_exchange = {
    .size = sizeof(stn_op_desc),
    .name = "dist_exchange",
    STN_INPUTS(exchange_inputs),
    STN_ATTRS(exchange_attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&exchange_page,
};
