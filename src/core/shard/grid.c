/* The grid of a mesh: the way between coordinates, linear positions and world ranks. */
#include "core/shard/mesh.h"

#include <string.h>

static int affine_rank(const stn_mesh *mesh, int i)
{
    int rank = mesh->start;
    for (int a = mesh->ndim - 1; a >= 0; a--) {
        rank += i % mesh->sizes[a] * mesh->step[a];
        i /= mesh->sizes[a];
    }
    return rank;
}

/* Sorts the axes by step. Returns 1 where each step is larger than what all smaller ones reach together: then the
 * largest step that fits into what is left of a rank tells a coordinate. */
static int order_steps(stn_mesh *mesh)
{
    for (int a = 0; a < mesh->ndim; a++) {
        int at = a;
        for (; at > 0 && mesh->step[mesh->by_step[at - 1]] < mesh->step[a]; at--)
            mesh->by_step[at] = mesh->by_step[at - 1];
        mesh->by_step[at] = (uint8_t)a;
    }
    int64_t reach = 0;
    for (int k = mesh->ndim - 1; k >= 0; k--) {
        int a = mesh->by_step[k];
        if (mesh->sizes[a] == 1)
            continue;
        if (mesh->step[a] <= reach)
            return 0;
        reach += (int64_t)(mesh->sizes[a] - 1) * mesh->step[a];
    }
    return 1;
}

void stni_mesh_number(stn_mesh *mesh)
{
    int step = 1;
    for (int a = mesh->ndim - 1; a >= 0; a--) {
        mesh->step[a] = mesh->sizes[a] > 1 ? step : 0;
        step *= mesh->sizes[a];
    }
    order_steps(mesh);
}

void stni_mesh_describe(stn_mesh *mesh, int *ranks)
{
    mesh->start = ranks[0];
    int below = 1;
    for (int a = mesh->ndim - 1; a >= 0; a--) {
        mesh->step[a] = mesh->sizes[a] > 1 ? ranks[below] - ranks[0] : 0;
        below *= mesh->sizes[a];
    }
    int affine = order_steps(mesh);
    for (int i = 0; i < mesh->size && affine; i++)
        affine = affine_rank(mesh, i) == ranks[i];
    if (affine)
        return;
    mesh->ranks = ranks;
    mesh->start = 0;
    memset(mesh->step, 0, sizeof mesh->step);
    memset(mesh->by_step, 0, sizeof mesh->by_step);
}

int stni_mesh_rank(const stn_mesh *mesh, int i)
{
    return mesh->ranks != NULL ? mesh->ranks[i] : affine_rank(mesh, i);
}

/* Position of a rank in a list of ranks, by bisection of their order; -1 if it is not there. */
static int listed_position(const stn_mesh *mesh, int rank)
{
    int low = 0, high = mesh->size;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (mesh->ranks[mesh->sorted[middle]] <= rank)
            low = middle;
        else
            high = middle;
    }
    return mesh->ranks[mesh->sorted[low]] == rank ? mesh->sorted[low] : -1;
}

/* The same from steps: each coordinate is the largest that fits into what the larger steps left. */
static int affine_position(const stn_mesh *mesh, int rank)
{
    int coordinate[STN_MAX_MESH_NDIM] = {0};
    int left = rank - mesh->start;
    for (int k = 0; k < mesh->ndim && left > 0; k++) {
        int a = mesh->by_step[k];
        if (mesh->sizes[a] == 1)
            continue;
        coordinate[a] = left / mesh->step[a];
        if (coordinate[a] >= mesh->sizes[a])
            return -1;
        left -= coordinate[a] * mesh->step[a];
    }
    if (left != 0)
        return -1;
    int position = 0;
    for (int a = 0; a < mesh->ndim; a++)
        position = position * mesh->sizes[a] + coordinate[a];
    return position;
}

int stni_mesh_position(const stn_mesh *mesh, int rank)
{
    return mesh->ranks != NULL ? listed_position(mesh, rank) : affine_position(mesh, rank);
}

int stni_mesh_find(const stn_mesh *mesh, int rank, int coordinate[STN_MAX_MESH_NDIM])
{
    int position = stni_mesh_position(mesh, rank);
    for (int a = STN_MAX_MESH_NDIM - 1; a >= 0; a--) {
        if (position < 0 || a >= mesh->ndim) {
            coordinate[a] = position < 0 ? -1 : 0;
            continue;
        }
        coordinate[a] = position % mesh->sizes[a];
        position /= mesh->sizes[a];
    }
    return coordinate[0] >= 0;
}

int stni_mesh_is_self(const stn_mesh *mesh, const int *coordinate)
{
    return mesh == NULL || memcmp(coordinate, mesh->coordinate, (size_t)mesh->ndim * sizeof *coordinate) == 0;
}

/* The next axis at or after `a` that has more than one rank. */
static int next_axis(const stn_mesh *mesh, int a)
{
    while (a < mesh->ndim && mesh->sizes[a] == 1)
        a++;
    return a;
}

int stni_mesh_same_grid(const stn_mesh *a, const stn_mesh *b)
{
    if (a == b)
        return 1;
    if (a->size != b->size || (a->ranks == NULL) != (b->ranks == NULL) || a->start != b->start)
        return 0;
    int i = next_axis(a, 0), j = next_axis(b, 0);
    for (; i < a->ndim && j < b->ndim; i = next_axis(a, i + 1), j = next_axis(b, j + 1))
        if (a->sizes[i] != b->sizes[j] || a->step[i] != b->step[j])
            return 0;
    if (i < a->ndim || j < b->ndim)
        return 0;
    return a->ranks == NULL || memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof *a->ranks) == 0;
}

int stn_mesh_ndim(const stn_mesh *mesh)
{
    return mesh == NULL ? 0 : mesh->ndim;
}

int64_t stn_mesh_number(const stn_mesh *mesh)
{
    return mesh == NULL ? -1 : (int64_t)mesh->id;
}

int stn_mesh_size(const stn_mesh *mesh)
{
    return mesh == NULL ? 0 : mesh->size;
}

static int is_axis(const stn_mesh *mesh, int axis)
{
    return mesh != NULL && axis >= 0 && axis < mesh->ndim;
}

int stn_mesh_axis_size(const stn_mesh *mesh, int axis)
{
    return is_axis(mesh, axis) ? mesh->sizes[axis] : 0;
}

const char *stn_mesh_axis_name(const stn_mesh *mesh, int axis)
{
    return is_axis(mesh, axis) ? mesh->names[axis] : NULL;
}

int stn_mesh_axis(const stn_mesh *mesh, const char *name)
{
    for (int a = 0; mesh != NULL && a < mesh->ndim; a++)
        if (name != NULL && strcmp(mesh->names[a], name) == 0)
            return a;
    return -1;
}

int stn_mesh_contains_me(const stn_mesh *mesh)
{
    return mesh != NULL && mesh->member;
}

int stn_mesh_coordinate(const stn_mesh *mesh, int axis)
{
    return is_axis(mesh, axis) && mesh->member ? mesh->coordinate[axis] : -1;
}

int stn_mesh_rank_at(const stn_mesh *mesh, const int *coordinates)
{
    int position = 0;
    if (mesh == NULL || coordinates == NULL)
        return -1;
    for (int a = 0; a < mesh->ndim; a++) {
        if (coordinates[a] < 0 || coordinates[a] >= mesh->sizes[a])
            return -1;
        position = position * mesh->sizes[a] + coordinates[a];
    }
    return stni_mesh_rank(mesh, position);
}
