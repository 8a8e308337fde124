/* Which ranks a backward concerns (contract 29): those that its meshes join with this rank.
 *
 * The ranks of a mesh that the graph touches compare what they are about to do on it. So do, together, the ranks of
 * meshes that a node is between. Each such set of ranks is a line. A rank knows its own lines alone, and goes
 * through them in an order that all ranks have, so that nobody waits in a circle: rows of a grid may have other
 * sizes and other programs, whatever joins them along its columns. */
#include "autograd/pass.h"
#include "core/base/host_alloc.h"
#include "core/shard/group.h"

#include <stdlib.h>
#include <string.h>

static int n_specs(const struct stni_node *node)
{
    return 2 * node->n_in + node->n_out; /* want and out_spec follow in_spec */
}

static const stn_mesh *mesh_at(const struct stni_node *node, int i)
{
    return node->in_spec[i] ? node->in_spec[i]->layout.mesh : NULL;
}

static stn_status touch_node(struct stni_pass *pass, const struct stni_node *node)
{
    const stn_mesh *last = NULL;
    for (int i = 0; i < n_specs(node); i++)
        if (mesh_at(node, i) && mesh_at(node, i) != last)
            STNI_TRY(stni_pass_touch(pass, last = mesh_at(node, i)));
    return STN_OK;
}

/* What leads to the crossings of the tape, by a look of its own before anything is marked. */
stn_status stni_pass_touch_crossings(struct stni_pass *pass)
{
    const struct stni_tape *tape = pass->context->tape;
    struct stni_pass look = {.context = pass->context, .mark = pass->mark, .looking = 1};
    stn_status status = STN_OK;
    for (int v = 0; v < tape->n_collectives && status == STN_OK; v++) {
        status = stni_pass_reach(&look, (struct stni_edge){tape->collectives[v], NULL, 0});
        if (status == STN_OK && !stni_crossing_mesh(tape->collectives[v]))
            status = stni_pass_touch_collective(pass, tape->collectives[v]->home);
    }
    for (int n = 0; n < look.n_nodes && status == STN_OK; n++)
        status = touch_node(pass, look.nodes[n]);
    stni_pass_fini(&look);
    return status;
}

/* Meshes of one label are of one line. */

static int index_of(const struct stni_pass *pass, const stn_mesh *mesh)
{
    int m = 0;
    while (pass->meshes[m].mesh != mesh)
        m++;
    return m;
}

static void relabel(struct stni_pass *pass, int from, int to)
{
    for (int m = 0; m < pass->n_meshes; m++)
        if (pass->meshes[m].line == from)
            pass->meshes[m].line = to;
}

static void label_node(struct stni_pass *pass, const struct stni_node *node)
{
    const stn_mesh *first = NULL;
    for (int i = 0; i < n_specs(node); i++) {
        const stn_mesh *mesh = mesh_at(node, i);
        first = first ? first : mesh;
        if (mesh && mesh != first)
            relabel(pass, pass->meshes[index_of(pass, mesh)].line, pass->meshes[index_of(pass, first)].line);
    }
}

static void label_meshes(struct stni_pass *pass)
{
    for (int m = 0; m < pass->n_meshes; m++)
        pass->meshes[m].line = m;
    for (int n = 0; n < pass->n_nodes && pass->n_meshes > 1; n++)
        label_node(pass, pass->nodes[n]);
}

/* Lines */

static void mark_mesh(const struct stni_pass *pass, const stn_mesh *mesh, uint8_t *marks)
{
    if (!mesh)
        memset(marks, 1, (size_t)pass->context->size);
    for (int i = 0; mesh && i < mesh->size; i++)
        marks[stni_mesh_rank(mesh, i)] = 1;
}

void stni_line_mark(const struct stni_pass *pass, int line, uint8_t *marks)
{
    memset(marks, 0, (size_t)pass->context->size);
    for (int m = 0; m < pass->n_meshes; m++)
        if (pass->meshes[m].line == line)
            mark_mesh(pass, pass->meshes[m].mesh, marks);
}

/* The first and the last of its ranks. */
static void find_extent(const struct stni_pass *pass, const stn_mesh *mesh, int *first, int *last)
{
    *first = 0;
    *last = pass->context->size - 1;
    if (!mesh)
        return;
    *first = *last = mesh->ranks ? mesh->ranks[mesh->sorted[0]] : mesh->start;
    for (int a = 0; !mesh->ranks && a < mesh->ndim; a++)
        *(mesh->step[a] > 0 ? last : first) += (mesh->sizes[a] - 1) * mesh->step[a];
    if (mesh->ranks)
        *last = mesh->ranks[mesh->sorted[mesh->size - 1]];
}

static void add_mesh(const struct stni_pass *pass, struct stni_line *line, const stn_mesh *mesh)
{
    int first, last;
    const int ndim = mesh ? mesh->ndim : STN_MAX_MESH_NDIM + 1, is_first = line->n_meshes++ == 0;
    find_extent(pass, mesh, &first, &last);
    line->ndim = ndim > line->ndim ? ndim : line->ndim;
    line->first = is_first || first < line->first ? first : line->first;
    line->last = last > line->last ? last : line->last;
    line->identity += mesh ? mesh->identity : 1; /* in whatever order */
    line->is_mine |= !mesh || mesh->member;
    line->mesh = is_first ? mesh : NULL;
    line->n_ranks = mesh ? mesh->size : pass->context->size;
}

/* Of a label: the line, if this rank and others are on it. */
static int describe(const struct stni_pass *pass, int label, uint8_t *marks, struct stni_line *line)
{
    *line = (struct stni_line){.label = label};
    for (int m = 0; m < pass->n_meshes; m++)
        if (pass->meshes[m].line == label)
            add_mesh(pass, line, pass->meshes[m].mesh);
    if (line->n_meshes > 1) {
        line->n_ranks = 0;
        stni_line_mark(pass, label, marks);
        for (int r = 0; r < pass->context->size; r++)
            line->n_ranks += marks[r];
    }
    return line->is_mine && line->n_ranks > 1;
}

/* Wide meshes come first: who lacks something that lies within is found before anybody waits there. Then lines of
 * neighbours. */
static int by_extent(const void *a, const void *b)
{
    const struct stni_line *x = a, *y = b;
    if (x->ndim != y->ndim)
        return y->ndim - x->ndim;
    if (x->last - x->first != y->last - y->first)
        return x->last - x->first - (y->last - y->first);
    return x->identity < y->identity ? -1 : x->identity > y->identity;
}

static void number_meshes(struct stni_pass *pass)
{
    for (int m = 0; m < pass->n_meshes; m++) {
        const int label = pass->meshes[m].line;
        pass->meshes[m].line = STNI_NO_LINE;
        for (int l = 0; l < pass->n_lines; l++)
            if (pass->lines[l].label == label)
                pass->meshes[m].line = l;
    }
}

static void draw(struct stni_pass *pass, uint8_t *marks)
{
    label_meshes(pass);
    for (int label = 0; label < pass->n_meshes; label++)
        pass->n_lines += describe(pass, label, marks, &pass->lines[pass->n_lines]);
    qsort(pass->lines, (size_t)pass->n_lines, sizeof *pass->lines, by_extent);
    number_meshes(pass);
}

stn_status stni_pass_draw_lines(struct stni_pass *pass)
{
    const size_t size = (size_t)pass->context->size;
    pass->comm = NULL;
    if (size == 1)
        return STN_OK;
    for (int n = 0; n < pass->n_nodes; n++)
        STNI_TRY(touch_node(pass, pass->nodes[n]));
    uint8_t *marks = pass->n_meshes > 1 ? stni_malloc(size) : NULL;
    pass->lines = stni_malloc(((size_t)pass->n_meshes + 1) * sizeof *pass->lines);
    stn_status status =
        (marks || pass->n_meshes < 2) && pass->lines ? STN_OK : stni_fail_memory(pass->context, "lists of ranks", size);
    if (status == STN_OK)
        draw(pass, marks);
    stni_free(marks);
    return status;
}

stn_status stni_line_open(const struct stni_pass *pass, int l)
{
    struct stni_line *line = &pass->lines[l];
    const struct stni_group_comm *group = NULL;
    if (line->comm)
        return STN_OK;
    if (line->mesh)
        return stni_mesh_comm(line->mesh, (1u << line->mesh->ndim) - 1, &line->comm);
    uint8_t *marks = stni_malloc((size_t)pass->context->size);
    if (!marks)
        return stni_fail_memory(pass->context, "list of ranks", (size_t)pass->context->size);
    stni_line_mark(pass, l, marks);
    stn_status status = stni_mesh_group_marked(pass->context, marks, &group);
    stni_free(marks);
    line->comm = status == STN_OK ? group->comm : NULL;
    return status;
}

int stni_pass_line_of(const struct stni_pass *pass, const struct stni_node *node)
{
    for (int i = 0; i < n_specs(node); i++)
        if (mesh_at(node, i))
            for (int m = 0; m < pass->n_meshes; m++)
                if (pass->meshes[m].mesh == mesh_at(node, i))
                    return pass->meshes[m].line;
    return STNI_NO_LINE;
}
