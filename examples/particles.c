/* Particles that live on the rank whose cell they are in: each step moves them by a velocity that they read from the
 * cells, and sends those that have left a rank's cells to the next owner. So a rank has another number of them after
 * every step, which may be none. After 40 steps the particles, and the density that they add up to in the cells, are
 * the same on any number of ranks. */
#include "common/same_results.h"

#include <stdlib.h>

enum { CELLS = 23, PARTICLES = 97, STEPS = 40, MOST_RANKS = 64 };

struct particles {
    stn_tensor *x, *weight; /* x: 0 <= x < CELLS */
};

static stn_tensor *cell_of(stn_tensor *x)
{
    return stn_cast(stn_floor(x), STN_DTYPE_I64);
}

/* From where the first cell of each rank begins among the ascending positions follows how many are whose. */
static stn_status count(stn_context *ctx, const stn_spec *cells, stn_tensor *sorted, int64_t *sizes)
{
    const int ranks = stn_context_size(ctx);
    const int64_t shape[] = {ranks};
    double first[MOST_RANKS];
    int64_t begin[MOST_RANKS + 1];
    for (int r = 0; r < ranks; r++) {
        int64_t offset;
        stn_spec_chunk(cells, r, NULL, &offset);
        first[r] = (double)offset;
    }
    const stn_spec *each = stn_spec_of(stn_spec_mesh(cells), STN_DTYPE_F64, "R", 1, shape);
    stn_tensor *found = stn_searchsorted(sorted, stn_from_host(ctx, each, first), 0, NULL);
    const stn_status status = stn_to_host(stn_full_tensor(found), begin, (size_t)ranks * sizeof *begin);
    begin[ranks] = PARTICLES;
    for (int r = 0; r < ranks && status == STN_OK; r++)
        sizes[r] = begin[r + 1] - begin[r];
    return status;
}

/* All particles in the order of their positions, cut where the cells are cut. */
static stn_status migrate(stn_context *ctx, const stn_spec *cells, struct particles *p)
{
    const int64_t shape[] = {PARTICLES};
    const stn_placement shard = stn_shard(0);
    int64_t sizes[MOST_RANKS];
    const int64_t *const cuts[] = {sizes};
    const stn_spec_options uneven = {.size = sizeof uneven, .sizes = cuts};
    const stn_spec *spec;
    stn_tensor *order, *sorted = stn_sort(p->x, 0, 0, &order);
    stn_status status = count(ctx, cells, sorted, sizes);
    if (status == STN_OK)
        status = stn_spec_create(ctx, stn_spec_mesh(cells), &shard, STN_DTYPE_F64, 1, shape, &uneven, &spec);
    if (status != STN_OK)
        return status;
    p->weight = stn_redistribute(stn_index_select(p->weight, 0, order), spec);
    p->x = stn_redistribute(sorted, spec);
    stn_spec_release(&spec);
    return STN_OK;
}

/* Whether each of this rank's particles is in one of its cells. */
static stn_status check_owners(const stn_spec *cells, stn_tensor *x)
{
    const int64_t n = stn_spec_local_numel(stn_tensor_spec(x));
    const int64_t begin = stn_spec_local_offset(cells)[0], end = begin + stn_spec_local_shape(cells)[0];
    double *own = malloc((size_t)(n + 1) * sizeof *own);
    stn_status status = own ? stn_to_host(x, own, (size_t)n * sizeof *own) : STN_ERR_MEMORY;
    for (int64_t i = 0; i < n && status == STN_OK; i++)
        if (own[i] < (double)begin || own[i] >= (double)end)
            status = STN_ERR_VALUE;
    free(own);
    return status;
}

/* The scope's end frees all that a step makes but the particles that it leaves. */
static stn_status advance(stn_context *ctx, stn_tensor *velocity, struct particles *p)
{
    struct particles next = *p;
    const stn_spec *cells = stn_tensor_spec(velocity);
    stn_scope_begin(ctx);
    stn_tensor *speed = stn_index_select(velocity, 0, cell_of(p->x));
    next.x = stn_remainder_number(stn_add(p->x, speed), CELLS);
    stn_status status = migrate(ctx, cells, &next);
    if (status == STN_OK)
        status = stn_agree(ctx, check_owners(cells, next.x), "a particle is not where its cell is");
    next.x = stn_tensor_retain(next.x), next.weight = stn_tensor_retain(next.weight);
    const stn_status ended = stn_scope_end(ctx);
    stn_tensor_release(&p->x);
    stn_tensor_release(&p->weight);
    *p = next;
    return status != STN_OK ? status : ended;
}

/* 0.1 to 0.9 cells a step. */
static stn_tensor *make_velocity(stn_context *ctx, const stn_spec *cells)
{
    stn_tensor *cell = stn_arange(ctx, cells, 0, 1);
    return stn_add_number(stn_mul_number(stn_sin(stn_mul_number(cell, 2 * 3.14159265358979 / CELLS)), 0.4), 0.5);
}

static stn_status program(stn_context *ctx, void *results)
{
    const int ranks = stn_context_size(ctx);
    const int64_t n_cells[] = {CELLS}, n_particles[] = {PARTICLES};
    const stn_mesh *mesh;
    if (ranks > MOST_RANKS)
        return STN_ERR_ARGUMENT;
    stn_mesh_create(ctx, 1, &ranks, NULL, NULL, &mesh);
    stn_scope_begin(ctx);
    const stn_spec *cells = stn_spec_of(mesh, STN_DTYPE_F64, "S0", 1, n_cells);
    const stn_spec *spec = stn_spec_of(mesh, STN_DTYPE_F64, "S0", 1, n_particles);
    stn_tensor *velocity = make_velocity(ctx, cells);
    /* The same random numbers on any number of ranks. */
    struct particles p = {stn_tensor_retain(stn_uniform(ctx, spec, 0, CELLS)), stn_tensor_retain(stn_rand(ctx, spec))};
    stn_status status = STN_OK;
    for (int step = 0; step < STEPS && status == STN_OK; step++)
        status = advance(ctx, velocity, &p);
    results_add(results, stn_index_add(stn_zeros(ctx, cells), 0, cell_of(p.x), p.weight, 1));
    results_add(results, p.x);
    results_add(results, p.weight);
    stn_tensor_release(&p.x);
    stn_tensor_release(&p.weight);
    const stn_status ended = stn_scope_end(ctx);
    return status != STN_OK ? status : ended;
}

int main(void)
{
    return same_results("particles", 1, program);
}
