/* The ranks of a side that meet a box are a product: per dim, the pieces that the box's range touches; per axis that
 * every coordinate takes part in, its coordinates. Each is listed once, and the lists are multiplied. */
#include "core/redistribute/overlap.h"

#include "core/base/host_alloc.h"

enum { MAX_LISTS = STN_MAX_NDIM + STN_MAX_MESH_NDIM, FIRST_CAP = 16 };

struct list {
    int dim; /* -1: no dim, an axis whose coordinates all take part */
    int64_t first, n;
    int step; /* the largest of its axes */
};

struct lists {
    const struct stni_overlap *walk;
    struct stni_plan *plan; /* whose entries hold those of all lists */
    int64_t n_entries;
    struct list list[MAX_LISTS];
    int n;
};

static stn_status grow(stn_context *context, struct stni_plan *plan)
{
    int64_t cap = plan->cap_entries == 0 ? FIRST_CAP : 2 * plan->cap_entries;
    struct stni_plan_entry *entries = stni_realloc(plan->entries, (size_t)cap * sizeof *entries);
    if (entries == NULL)
        return stni_fail_memory(context, "pieces of a plan", (size_t)cap * sizeof *entries);
    plan->entries = entries;
    plan->cap_entries = cap;
    return STN_OK;
}

static stn_status add_entry(stn_context *context, struct lists *lists, int64_t offset, int64_t length, int64_t peer)
{
    if (lists->n_entries == lists->plan->cap_entries)
        STNI_TRY(grow(context, lists->plan));
    lists->plan->entries[lists->n_entries++] = (struct stni_plan_entry){offset, length, peer};
    lists->list[lists->n - 1].n++;
    return STN_OK;
}

static void begin_list(struct lists *lists, int dim, int step)
{
    lists->list[lists->n++] = (struct list){dim, lists->n_entries, 0, step};
}

/* One piece of a split after another. In a balanced split the pieces of one parent (of the levels above) follow each
 * other without a division: the first r have q + 1 elements, the others q. */
struct cursor {
    const struct stni_split *split;
    int i;
    int64_t begin, end;
    int width; /* pieces of one parent; 0 where the split is explicit */
    int at;    /* among them */
    int64_t q, r;
};

static void cursor_seek(struct cursor *c, int64_t x)
{
    const struct stni_split *split = c->split;
    c->i = stni_split_find(split, x);
    c->begin = stni_split_offset(split, c->i);
    c->end = stni_split_offset(split, c->i + 1);
    if (c->width == 0)
        return;
    c->at = c->i % c->width;
    int64_t n = stni_split_offset(split, c->i - c->at + c->width) - stni_split_offset(split, c->i - c->at);
    c->q = n / c->width;
    c->r = n % c->width;
}

static void cursor_init(struct cursor *c, const struct stni_split *split, int64_t x)
{
    c->split = split;
    c->width = split->offsets == NULL ? split->parts[split->n_levels - 1] : 0;
    cursor_seek(c, x);
}

/* To the next piece that is not empty; there is one. */
static void cursor_next(struct cursor *c)
{
    c->begin = c->end;
    if (c->width == 0)
        c->end = stni_split_offset(c->split, ++c->i + 1);
    else if (++c->at < c->width) {
        c->i++;
        c->end += c->q + (c->at < c->r);
    }
    if (c->end == c->begin)
        cursor_seek(c, c->begin);
}

/* The first piece at or after i whose parts are as pinned; n_parts or more where there is none. */
static int next_pinned(const struct stni_overlap *walk, int dim, const struct stni_split *split, int i)
{
    int n_levels = walk->side->n_levels[dim];
    for (int below = split->n_parts, l = 0; l < n_levels && i < split->n_parts; l++) {
        int pin = walk->pin[walk->side->level[dim][l]], block = below;
        below /= split->parts[l];
        if (pin < 0)
            continue;
        int wanted = i / block * block + pin * below;
        if (i >= wanted + below)
            wanted += block;
        if (wanted > i) {
            /* the levels above may have changed: check them again */
            i = wanted;
            l = -1;
            below = split->n_parts;
        }
    }
    return i;
}

/* What piece i's coordinates add to the peer's number. */
static int64_t piece_peer(const struct stni_axis_roles_side *side, int dim, const struct stni_split *split, int i)
{
    int64_t peer = 0;
    for (int l = side->n_levels[dim] - 1; l >= 0; l--) {
        peer += (int64_t)(i % split->parts[l]) * side->step[side->level[dim][l]];
        i /= split->parts[l];
    }
    return peer;
}

static stn_status list_pieces(stn_context *context, struct lists *lists, int dim, int pinned)
{
    const struct stni_overlap *walk = lists->walk;
    const struct stni_split *split = walk->side->spec->layout.split[dim];
    int64_t x = walk->offset[dim], end = x + walk->shape[dim];
    int flat = split->n_levels == 1, step = walk->side->step[walk->side->level[dim][0]];
    struct cursor c;
    cursor_init(&c, split, x);
    for (;;) {
        int i = pinned ? next_pinned(walk, dim, split, c.i) : c.i;
        if (i != c.i) {
            if (i >= split->n_parts || stni_split_offset(split, i) >= end)
                return STN_OK;
            x = stni_split_offset(split, i);
            cursor_seek(&c, x);
            continue;
        }
        int64_t stop = c.end < end ? c.end : end;
        STNI_TRY(
            add_entry(context, lists, x, stop - x, flat ? (int64_t)i * step : piece_peer(walk->side, dim, split, i)));
        if (c.end >= end)
            return STN_OK;
        cursor_next(&c);
        x = c.begin;
    }
}

/* The list of a dim that axes of the side shard. */
static stn_status list_dim(stn_context *context, struct lists *lists, int dim)
{
    const struct stni_overlap *walk = lists->walk;
    int pinned = 0, step = 0;
    for (int l = 0; l < walk->side->n_levels[dim]; l++) {
        int k = walk->side->level[dim][l];
        pinned |= walk->pin[k] >= 0;
        step = walk->side->step[k] > step ? walk->side->step[k] : step;
    }
    begin_list(lists, dim, step);
    return list_pieces(context, lists, dim, pinned);
}

static stn_status list_axis(stn_context *context, struct lists *lists, int k)
{
    const struct stni_axis_roles_side *side = lists->walk->side;
    begin_list(lists, -1, side->step[k]);
    for (int c = 0; c < side->size[k]; c++)
        STNI_TRY(add_entry(context, lists, 0, 0, (int64_t)c * side->step[k]));
    return STN_OK;
}

/* Pinned coordinates of axes that shard no dim are the same for all peers. */
static int64_t common_peer(const struct stni_overlap *walk)
{
    int64_t peer = 0;
    const struct stni_axis_roles_side *side = walk->side;
    for (int k = 0; k < side->n; k++)
        if (side->spec->layout.placement[side->axis[k]].kind != STN_PLACE_SHARD && (walk->each >> k & 1) == 0)
            peer += (int64_t)walk->pin[k] * side->step[k];
    return peer;
}

/* Lists with large steps go outside: then peers mostly come in order. */
static void sort_lists(struct lists *lists)
{
    for (int i = 1; i < lists->n; i++)
        for (int j = i; j > 0 && lists->list[j - 1].step < lists->list[j].step; j--) {
            struct list moved = lists->list[j];
            lists->list[j] = lists->list[j - 1];
            lists->list[j - 1] = moved;
        }
}

static stn_status reserve(stn_context *context, const struct lists *lists, struct stni_plan_messages *out)
{
    int64_t n = 1;
    for (int f = 0; f < lists->n; f++)
        n *= lists->list[f].n;
    if (n > out->cap) {
        stn_message *items = stni_malloc((size_t)n * sizeof *items);
        if (items == NULL)
            return stni_fail_memory(context, "messages of a plan", (size_t)n * sizeof *items);
        stni_free(out->items);
        out->items = items;
        out->cap = (int)n;
    }
    out->n = (int)n;
    return STN_OK;
}

/* Puts an entry's range into a box; returns its share of the peer. */
static int64_t apply(const struct list *list, const struct stni_plan_entry *entry, const struct stni_frame *frame,
                     stn_box *box, int64_t *at)
{
    if (list->dim >= 0) {
        *at += (entry->offset - frame->origin[list->dim]) * frame->strides[list->dim];
        box->shape[list->dim] = entry->length;
    }
    return entry->peer;
}

static void put(stn_message *message, int64_t peer, char *data, const stn_box *box)
{
    message->peer = (int)peer;
    message->box.data = data;
    message->box.ndim = box->ndim;
    for (int d = 0; d < box->ndim; d++) {
        message->box.shape[d] = box->shape[d];
        message->box.strides[d] = box->strides[d];
    }
}

/* The walk's box, and where it begins in the frame but for the dims that have lists. */
static int64_t whole_box(const struct lists *lists, const struct stni_frame *frame, stn_box *box)
{
    const struct stni_overlap *walk = lists->walk;
    int64_t at = 0;
    box->ndim = walk->side->spec->layout.ndim;
    for (int d = 0; d < box->ndim; d++) {
        box->shape[d] = walk->shape[d];
        box->strides[d] = frame->strides[d];
        at += walk->side->n_levels[d] > 0 ? 0 : (walk->offset[d] - frame->origin[d]) * frame->strides[d];
    }
    return at;
}

/* The product of all lists but the last, each combination with every entry of the last. */
static void multiply(const struct lists *lists, const struct stni_frame *frame, struct stni_plan_messages *out,
                     int *ordered)
{
    static const struct list nothing = {-1, 0, 1, 0};
    static const struct stni_plan_entry zero = {0, 0, 0};
    int64_t at[MAX_LISTS] = {0}, common = common_peer(lists->walk), before = -1;
    int outer = lists->n > 0 ? lists->n - 1 : 0;
    const struct list *last = lists->n > 0 ? &lists->list[outer] : &nothing;
    const struct stni_plan_entry *entries = lists->plan->entries, *inner = lists->n > 0 ? entries + last->first : &zero;
    stn_box box;
    int64_t begin = whole_box(lists, frame, &box);
    *ordered = 1;
    for (int m = 0; m < out->n;) {
        int64_t peer = common, from = begin;
        for (int f = 0; f < outer; f++)
            peer += apply(&lists->list[f], &entries[lists->list[f].first + at[f]], frame, &box, &from);
        for (int64_t e = 0; e < last->n; e++) {
            int64_t start = from, number = peer + apply(last, &inner[e], frame, &box, &start);
            put(&out->items[m++], number, frame->data + start * frame->element, &box);
            *ordered &= number > before;
            before = number;
        }
        for (int f = outer - 1; f >= 0 && ++at[f] == lists->list[f].n; f--)
            at[f] = 0;
    }
}

stn_status stni_overlap_peers(stn_context *context, const struct stni_overlap *walk, const struct stni_frame *frame,
                              struct stni_plan *plan, struct stni_plan_messages *out, int *ordered)
{
    struct lists lists;
    lists.walk = walk;
    lists.plan = plan;
    lists.n_entries = lists.n = 0;
    for (int d = 0; d < walk->side->spec->layout.ndim; d++)
        if (walk->side->n_levels[d] > 0)
            STNI_TRY(list_dim(context, &lists, d));
    for (int k = 0; k < walk->side->n; k++)
        if ((walk->each >> k & 1) != 0)
            STNI_TRY(list_axis(context, &lists, k));
    sort_lists(&lists);
    STNI_TRY(reserve(context, &lists, out));
    multiply(&lists, frame, out, ordered);
    return STN_OK;
}
