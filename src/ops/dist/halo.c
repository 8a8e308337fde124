/* dist_halo: local tensors with margins that the neighbours along a mesh fill. Its adjoint sends margins back and
 * adds them. */
#include "ops/dist/verb.h"
#include "ops/exchange/window.h"

#include <stddef.h>

stn_tensor *stn_dist_halo(stn_tensor *input, const stn_mesh *mesh, int dim, const int64_t *sizes,
                          const stn_dist_margin *margin, stn_grad_convention convention)
{
    const int is_good = margin && margin->size == sizeof *margin;
    struct stni_dist_attrs attrs = {
        .dim = dim, .convention = convention, .below = -1}; /* of a bad margin: refused by the plan */
    if (is_good) {
        attrs.below = margin->below;
        attrs.above = margin->above;
        attrs.mode = margin->mode;
    }
    const struct stni_dist_list list = {sizes, mesh ? mesh->size : 0};
    return stni_dist_call(STNI_OP_dist_halo, input, mesh, &attrs, 1, &list);
}

/* Rank r holds the elements offsets[r] … offsets[r + 1] - 1 of the line that all chunks make up. */
static int owner_of(const int64_t *offsets, int p, int64_t element)
{
    int low = 0, high = p;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (offsets[middle] <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* One piece of what `reader` sees: elements first … of one owner, which stand at `at` of the reader's result. */
static stn_status add_piece(struct stni_dist *d, const int64_t *offsets, int reader, int owner, int64_t first,
                            int64_t at, int64_t length)
{
    if (owner == d->me)
        STNI_TRY(stni_dist_send(d, reader, first - offsets[owner], length));
    return reader == d->me ? stni_dist_receive(d, owner, at, length) : STN_OK;
}

/* Cuts a run at the ends of chunks. Runs that go backwards or stand still go element by element. */
static stn_status add_run(struct stni_dist *d, const int64_t *offsets, int reader, struct stni_run run, int64_t at)
{
    for (int64_t done = 0, n; done < run.length; done += n) {
        const int64_t first = run.first + run.step * done;
        const int owner = owner_of(offsets, d->p, first);
        n = run.step == 1 ? offsets[owner + 1] - first : 1;
        n = n < run.length - done ? n : run.length - done;
        STNI_TRY(add_piece(d, offsets, reader, owner, first, at + done, n));
    }
    return STN_OK;
}

/* All that a rank sees: its chunk and the margins, of which those beyond the ends of the line follow from the mode.
 * An empty chunk has none. */
static stn_status add_reader(struct stni_dist *d, const int64_t *offsets, int reader)
{
    const int64_t begin = offsets[reader] - d->attrs->below, end = offsets[reader + 1] + d->attrs->above;
    struct stni_run run;
    if (offsets[reader] == offsets[reader + 1])
        return STN_OK;
    for (int64_t at = begin; at < end; at += run.length) {
        run = stni_boundary_run((enum stni_boundary)d->attrs->mode, offsets[d->p], at, end);
        if (run.first >= 0)
            STNI_TRY(add_run(d, offsets, reader, run, at - begin));
    }
    return STN_OK;
}

/* Margins that repeat the line's elements are made of as many pieces as they go round it, or have elements: the plan would have no end. */
enum { MOST_REPEATED = 1 << 24 };

static int is_repeated(int64_t mode)
{
    return mode == STN_PADDING_REPLICATE || mode == STN_PADDING_CIRCULAR;
}

static stn_status check_margin(struct stni_dist *d, int64_t line)
{
    const int64_t below = d->attrs->below, above = d->attrs->above, most = line > MOST_REPEATED ? line : MOST_REPEATED;
    if (below < 0 || above < 0 || below > INT64_MAX / 4 || above > INT64_MAX / 4)
        return stn_op_fail(d->call, STN_ERR_ARGUMENT,
                           "margin got widths %lld and %lld, or another size of the struct, wanted 0 or more",
                           (long long)below, (long long)above);
    if (is_repeated(d->attrs->mode) && (below > most || above > most))
        return stn_op_fail(d->call, STN_ERR_ARGUMENT, "margin got widths %lld and %lld, wanted at most %lld where elements are repeated",
                           (long long)below, (long long)above, (long long)most);
    if (d->attrs->mode == STN_PADDING_REFLECT && (below >= line || above >= line))
        return stn_op_fail(d->call, STN_ERR_SHAPE,
                           "margin got widths %lld and %lld, wanted less than the %lld elements in all to reflect",
                           (long long)below, (long long)above, (long long)line);
    return STN_OK;
}

static stn_status plan(struct stni_dist *d)
{
    const int64_t *offsets;
    stni_fact_add(&d->facts, "below", NULL, d->attrs->below);
    stni_fact_add(&d->facts, "above", NULL, d->attrs->above);
    stni_fact_add(&d->facts, "mode", NULL, d->attrs->mode);
    STNI_TRY(stni_dist_same_sizes(d, 0, 0, &offsets));
    if (d->n != offsets[d->me + 1] - offsets[d->me])
        return stn_op_fail(d->call, STN_ERR_SHAPE,
                           "input has %lld elements along dim %d, wanted sizes[%d], which is %lld", (long long)d->n,
                           d->dim, d->me, (long long)(offsets[d->me + 1] - offsets[d->me]));
    STNI_TRY(check_margin(d, offsets[d->p]));
    d->length = d->n > 0 ? d->attrs->below + d->n + d->attrs->above : 0;
    for (int r = 0; r < d->p; r++)
        STNI_TRY(add_reader(d, offsets, r));
    return STN_OK;
}

static const char *const modes[] = {"zeros", "reflect", "replicate", "circular", NULL};
static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "sizes", .optional = 1}};
static const stn_attr_schema attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_dist_attrs, mesh), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct stni_dist_attrs, dim), NULL},
    {"below", STN_ATTR_INT, offsetof(struct stni_dist_attrs, below), NULL},
    {"above", STN_ATTR_INT, offsetof(struct stni_dist_attrs, above), NULL},
    {"mode", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, mode), modes},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_dist_attrs, convention), stni_dist_convention_names},
};

static const struct stni_dist_page page = {
    .plan = plan, .along_dim = 1, .meets = STNI_ROUTE_MEETS_BACK, .lists = {"sizes"}};

static const stn_op_impl impl = {.compose = stni_dist_compose};

const stn_op_desc stni_op_dist_halo = {
    .size = sizeof(stn_op_desc),
    .name = "dist_halo",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_dist_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
    .arg = (void *)&page,
};
