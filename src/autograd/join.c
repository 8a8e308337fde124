/* Which ranks a backward concerns (contract 29): those that its meshes join with this rank.
 *
 * Two meshes are joined where they share a rank, or where a node is on both; what is joined with a joined one is joined. All ranks that are
 * joined find the same set, whatever else each of them may hold, so that one agreement over exactly them is enough, and no order of
 * several agreements can lead to a deadlock.
 *
 * A rank knows its own slices of a grid alone. Where it has some along several axes, the ranks of these have others along the same axes, and
 * those further ones: what they join is the grid along all of these axes. */
#include "autograd/pass.h"
#include "core/base/host_alloc.h"
#include "core/shard/group.h"

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
    for (int i = 0; i < n_specs(node); i++)
        STNI_TRY(stni_pass_touch(pass, mesh_at(node, i)));
    return STN_OK;
}

static stn_status touch_all(struct stni_pass *pass)
{
    for (int n = 0; n < pass->n_nodes; n++)
        STNI_TRY(touch_node(pass, pass->nodes[n]));
    return STN_OK;
}

int stni_pass_has_joined(const struct stni_pass *pass, const stn_mesh *mesh)
{
    for (int m = 0; m < pass->n_joined; m++)
        if (pass->meshes[m] == mesh)
            return 1;
    return 0;
}

int stni_pass_concerns(const struct stni_pass *pass, const struct stni_node *node)
{
    for (int i = 0; i < n_specs(node); i++)
        if (mesh_at(node, i) && stni_pass_has_joined(pass, mesh_at(node, i)))
            return 1;
    return 0;
}

static int shares_rank(const stn_mesh *mesh, const uint8_t *joined)
{
    for (int i = 0; i < mesh->size; i++)
        if (joined[stni_mesh_rank(mesh, i)])
            return 1;
    return 0;
}

/* Moves mesh number m to the joined ones. */
static void join(struct stni_pass *pass, int m, uint8_t *joined)
{
    const stn_mesh *mesh = pass->meshes[m];
    for (int i = 0; i < mesh->size; i++)
        joined[stni_mesh_rank(mesh, i)] = 1;
    pass->meshes[m] = pass->meshes[pass->n_joined];
    pass->meshes[pass->n_joined++] = mesh;
}

/* Returns how many meshes it joined. */
static int join_by_rank(struct stni_pass *pass, uint8_t *joined)
{
    int before = pass->n_joined;
    for (int m = before; m < pass->n_meshes; m++)
        if (shares_rank(pass->meshes[m], joined))
            join(pass, m, joined);
    return pass->n_joined - before;
}

static int join_meshes_of(struct stni_pass *pass, const struct stni_node *node, uint8_t *joined)
{
    int before = pass->n_joined;
    for (int i = 0; i < n_specs(node); i++)
        for (int m = pass->n_joined; m < pass->n_meshes; m++)
            if (pass->meshes[m] == mesh_at(node, i))
                join(pass, m, joined);
    return pass->n_joined - before;
}

static int join_by_node(struct stni_pass *pass, uint8_t *joined)
{
    int found = 0;
    for (int n = 0; n < pass->n_nodes && pass->n_joined < pass->n_meshes; n++)
        if (stni_pass_concerns(pass, pass->nodes[n]))
            found += join_meshes_of(pass, pass->nodes[n], joined);
    return found;
}

static uint32_t sliced_axes(const struct stni_pass *pass, const stn_mesh *grid)
{
    uint32_t all = 0, axes;
    for (int m = 0; m < pass->n_meshes; m++)
        if (pass->meshes[m]->member && stni_mesh_grid(pass->meshes[m], &axes) == grid)
            all |= axes;
    return all;
}

static int has_other_slices(const struct stni_pass *pass)
{
    uint32_t axes;
    for (int m = 0; m < pass->n_meshes; m++)
        if (pass->meshes[m]->member && sliced_axes(pass, stni_mesh_grid(pass->meshes[m], &axes)) != axes)
            return 1;
    return 0;
}

/* The ranks that differ from this one along these axes only. */
static int join_plane(const stn_mesh *grid, uint32_t axes, uint8_t *joined)
{
    int found = 0, at[STN_MAX_MESH_NDIM];
    for (int i = 0; i < grid->size; i++) {
        const int rank = stni_mesh_rank(grid, i);
        uint32_t differs = 0;
        stni_mesh_find(grid, rank, at);
        for (int a = 0; a < grid->ndim; a++)
            differs |= (uint32_t)(at[a] != grid->coordinate[a]) << a;
        if (joined[rank] || (differs & ~axes) != 0)
            continue;
        joined[rank] = 1;
        found++;
    }
    return found;
}

static int join_by_grid(const struct stni_pass *pass, uint8_t *joined)
{
    int found = 0;
    uint32_t axes;
    for (int m = 0; m < pass->n_meshes && pass->by_grid; m++)
        if (pass->meshes[m]->member) {
            const stn_mesh *grid = stni_mesh_grid(pass->meshes[m], &axes);
            found += join_plane(grid, sliced_axes(pass, grid), joined);
        }
    return found;
}

static int is_alone(const stn_context *context, const uint8_t *joined)
{
    int n = 0;
    for (int r = 0; r < context->size; r++)
        n += joined[r];
    return n == 1;
}

static stn_status join_all(struct stni_pass *pass, uint8_t *joined)
{
    const struct stni_group_comm *group;
    joined[pass->context->rank] = 1;
    while (join_by_rank(pass, joined) + join_by_node(pass, joined) + join_by_grid(pass, joined) > 0) {
    }
    if (is_alone(pass->context, joined))
        return STN_OK;
    STNI_TRY(stni_mesh_group_marked(pass->context, joined, &group));
    pass->comm = group->comm;
    return STN_OK;
}

static int has_whole_world(const struct stni_pass *pass)
{
    for (int m = 0; m < pass->n_meshes; m++)
        if (pass->meshes[m]->size == pass->context->size)
            return 1;
    return 0;
}

/* What leads to the crossings of the tape, by a look of its own before anything is marked. */
stn_status stni_pass_touch_crossings(struct stni_pass *pass)
{
    const struct stni_tape *tape = pass->context->tape;
    struct stni_pass look = {.context = pass->context, .mark = pass->mark, .looking = 1};
    stn_status status = STN_OK;
    for (int v = 0; v < tape->n_collectives && status == STN_OK; v++)
        status = stni_pass_reach(&look, (struct stni_edge){tape->collectives[v], NULL, 0});
    for (int n = 0; n < look.n_nodes && status == STN_OK; n++)
        status = touch_node(pass, look.nodes[n]);
    stni_pass_fini(&look);
    return status;
}

static stn_status find_ranks(struct stni_pass *pass)
{
    stn_context *context = pass->context;
    if (stni_tape_has_collectives(context->tape) || has_whole_world(pass)) { /* collectives of dist.h concern the world */
        pass->n_joined = pass->n_meshes;
        pass->comm = context->comm;
        return STN_OK;
    }
    uint8_t *joined = stni_calloc((size_t)context->size, 1);
    if (!joined)
        return stni_fail_memory(context, "list of ranks", (size_t)context->size);
    stn_status status = join_all(pass, joined);
    stni_free(joined);
    return status;
}

stn_status stni_pass_join(struct stni_pass *pass)
{
    pass->comm = NULL;
    if (pass->context->size == 1)
        return STN_OK;
    STNI_TRY(touch_all(pass));
    pass->by_grid = has_other_slices(pass);
    return find_ranks(pass);
}
