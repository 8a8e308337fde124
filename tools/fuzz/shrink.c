/* Each pass proposes changes one at a time and keeps what still fails: steps become leaves, layouts plain, meshes
 * and dims smaller. Any proposal may turn out to be no program: it is then not one that fails. */
#include "shrink.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 400 };

int check_program(struct program *p, struct finding *finding)
{
    struct answers answers;
    if (!execute_alone(p, &answers, finding)) {
        answers_free(&answers);
        return !finding->alone;
    }
    const int good = execute_compare(p, &answers, finding);
    answers_free(&answers);
    return good;
}

struct shrinking {
    struct program *p;
    struct finding *finding;
    int tries;
};

/* Takes the proposal where it still fails. */
static int propose(struct shrinking *s, struct program *proposal)
{
    struct finding finding;
    if (s->tries >= TRIES)
        return 0;
    s->tries++;
    if (check_program(proposal, &finding) || finding.alone != s->finding->alone)
        return 0;
    *s->p = *proposal;
    *s->finding = finding;
    return 1;
}

/* Steps */

/* Takes a step out; what it made and is still read becomes a leaf. */
static void remove_step(struct program *p, int number)
{
    const struct step removed = p->steps[number];
    if (removed.in_place)
        p->terms[removed.inputs[0]].is_changed = 0;
    memmove(&p->steps[number], &p->steps[number + 1], sizeof *p->steps * (size_t)(p->n_steps - number - 1));
    p->n_steps--;
    for (int t = 0; t < p->n_terms; t++)
        p->terms[t].step -= p->terms[t].step > number;
    for (int k = 0; k < removed.n_outputs; k++) {
        struct term *term = &p->terms[removed.outputs[k]];
        term->layout = term->came;
        const int is_real = stn_dtype_is_differentiable(term->dtype);
        term->step = program_uses(p, removed.outputs[k]) ? GIVEN : LOST;
        term->fill = is_real ? FILL_REAL : term->dtype == STN_DTYPE_BOOL ? FILL_BOOL : FILL_INDEX;
        term->requires_grad = is_real && !term->is_changed;
        term->lo = 0.5; /* no pole, no kink */
        term->hi = is_real ? 1.5 : 1;
    }
    for (int t = 0; t < p->n_terms; t++)
        if (p->terms[t].step == GIVEN && program_uses(p, t) == 0)
            p->terms[t].step = LOST;
}

static int drop_steps(struct shrinking *s, struct program *proposal)
{
    int dropped = 0;
    for (int i = s->p->n_steps - 1; i >= 0; i--) {
        *proposal = *s->p;
        remove_step(proposal, i);
        dropped += proposal->n_steps > 0 && propose(s, proposal);
    }
    return dropped;
}

/* Layouts */

static void plain(struct layout *layout)
{
    memset(layout->n_pieces, 0, sizeof layout->n_pieces);
    for (int a = 0; a < STN_MAX_MESH_NDIM; a++)
        layout->axis_order[a] = a;
    for (int d = 0; d < STN_MAX_NDIM; d++)
        layout->memory_order[d] = d;
}

static int is_plain(const struct layout *layout)
{
    struct layout other = *layout;
    plain(&other);
    return memcmp(other.n_pieces, layout->n_pieces, sizeof other.n_pieces) == 0 &&
           memcmp(other.axis_order, layout->axis_order, sizeof other.axis_order) == 0 &&
           memcmp(other.memory_order, layout->memory_order, sizeof other.memory_order) == 0;
}

static struct layout *layout_at(struct program *p, int i)
{
    return i < p->n_terms ? &p->terms[i].layout : &p->steps[i - p->n_terms].layout;
}

static int simplify_layouts(struct shrinking *s, struct program *proposal)
{
    int simpler = 0;
    for (int i = 0; i < s->p->n_terms + s->p->n_steps; i++) {
        if (i < s->p->n_terms ? s->p->terms[i].step == LOST : s->p->steps[i - s->p->n_terms].op != NULL)
            continue;
        for (int a = 0; a < s->p->grid.ndim; a++) {
            if (layout_at(s->p, i)->placement[a].kind == STN_PLACE_REPLICATE)
                continue;
            *proposal = *s->p;
            layout_at(proposal, i)->placement[a] = stn_replicate();
            plain(layout_at(proposal, i));
            simpler += propose(s, proposal);
        }
        if (is_plain(layout_at(s->p, i)))
            continue;
        *proposal = *s->p;
        plain(layout_at(proposal, i));
        simpler += propose(s, proposal);
    }
    return simpler;
}

/* Meshes: of two axes one, of many ranks two. */
static int shrink_mesh(struct shrinking *s, struct program *proposal)
{
    static const struct grid smaller[] = {{1, {2}, 2}, {1, {3}, 3}, {2, {2, 2}, 4}};
    for (size_t g = 0; g < sizeof smaller / sizeof *smaller && smaller[g].ranks < s->p->grid.ranks; g++)
        for (int axis = 0; axis < s->p->grid.ndim; axis++) {
            *proposal = *s->p;
            proposal->grid = smaller[g];
            for (int i = 0; i < proposal->n_terms + proposal->n_steps; i++) {
                struct layout *layout = layout_at(proposal, i);
                plain(layout);
                if (smaller[g].ndim == 1)
                    layout->placement[0] = layout->placement[axis];
            }
            if (propose(s, proposal))
                return 1;
        }
    return 0;
}

/* Every dim of a size in every leaf becomes smaller together, so that shapes still fit each other. */
static int shrink_dims(struct shrinking *s, struct program *proposal)
{
    int smaller = 0;
    for (int64_t size = 16; size > 1; size--)
        for (int64_t to = 1; to < size; to++) {
            int found = 0;
            *proposal = *s->p;
            for (int t = 0; t < proposal->n_terms; t++)
                for (int d = 0; d < proposal->terms[t].ndim; d++)
                    if (proposal->terms[t].step == GIVEN && proposal->terms[t].shape[d] == size) {
                        proposal->terms[t].shape[d] = to;
                        found = 1;
                    }
            for (int i = 0; i < proposal->n_terms + proposal->n_steps; i++)
                memset(layout_at(proposal, i)->n_pieces, 0, sizeof layout_at(proposal, i)->n_pieces);
            if (found && propose(s, proposal)) {
                smaller++;
                break;
            }
        }
    return smaller;
}

static int drop_changes(struct shrinking *s, struct program *proposal)
{
    int dropped = 0;
    for (int i = 0; i < s->p->n_steps; i++) {
        if (!s->p->steps[i].in_place)
            continue;
        *proposal = *s->p;
        proposal->steps[i].in_place = 0;
        proposal->terms[proposal->steps[i].inputs[0]].is_changed = 0;
        dropped += propose(s, proposal);
    }
    return dropped;
}

static int drop_gradients(struct shrinking *s, struct program *proposal)
{
    int dropped = 0;
    for (int t = 0; t < s->p->n_terms; t++) {
        if (s->p->terms[t].step != GIVEN || !s->p->terms[t].requires_grad)
            continue;
        *proposal = *s->p;
        proposal->terms[t].requires_grad = 0;
        dropped += propose(s, proposal);
    }
    if (s->p->queue == STN_QUEUE_WORKER) {
        *proposal = *s->p;
        proposal->queue = STN_QUEUE_IMMEDIATE;
        dropped += propose(s, proposal);
    }
    return dropped;
}

int shrink_program(struct program *p, struct finding *finding)
{
    static int (*const passes[])(struct shrinking *, struct program *) = {
        drop_steps, drop_changes, shrink_mesh, simplify_layouts, drop_gradients, shrink_dims};
    struct shrinking s = {p, finding, 0};
    struct program *proposal = malloc(sizeof *proposal);
    int changed = proposal != NULL;
    while (changed && s.tries < TRIES) {
        changed = 0;
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
            changed += passes[i](&s, proposal);
    }
    /* The numbers of tensors change with it, and the text names them, unless by chance nothing fails this time. */
    struct finding last;
    program_compact(p);
    if (!check_program(p, &last))
        *finding = last;
    free(proposal);
    return s.tries;
}
