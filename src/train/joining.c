#include "train/joining.h"

#include "autograd/tape.h"
#include "core/base/host_alloc.h"
#include "core/shard/tables.h"

#include <assert.h>

static const char collective[] = "grad_all_reduce";

/* What this rank can tell alone */

/* The first other rank of this one's line along the axis that `mesh` has too; -1 if there is none. */
static int shared_rank(const struct stni_joining *j, const stn_mesh *mesh)
{
    int at[STN_MAX_MESH_NDIM];
    for (int a = 0; a < j->mesh->ndim; a++)
        at[a] = j->mesh->coordinate[a];
    for (int i = 0; i < j->mesh->sizes[j->axis]; i++) {
        at[j->axis] = i;
        const int rank = stn_mesh_rank_at(j->mesh, at);
        if (rank != j->context->rank && stni_mesh_position(mesh, rank) >= 0)
            return rank;
    }
    return -1;
}

static stn_status check_parameter(const struct stni_joining *j, int i, uint64_t mark)
{
    const stn_tensor *t = j->parameters[i];
    if (!t || stni_is_error(t) || t->context != j->context || !t->leaf)
        return stni_fail(j->context, STN_ERR_STATE, "%s: parameters[%d] is no leaf of this context that requires grad",
                         collective, i);
    if (t->leaf->named == mark)
        return stni_fail(j->context, STN_ERR_ARGUMENT, "%s: parameters[%d] stands in the list before", collective, i);
    t->leaf->named = mark;
    const stn_mesh *mesh = t->spec->layout.mesh;
    if (mesh && !mesh->member)
        return stni_fail(j->context, STN_ERR_LAYOUT, "%s: parameters[%d] is on a mesh that rank %d is outside of",
                         collective, i, j->context->rank);
    const int rank = mesh ? shared_rank(j, mesh) : -1;
    if (rank >= 0)
        return stni_fail(
            j->context, STN_ERR_LAYOUT,
            "%s: parameters[%d] is on one mesh with rank %d, whose gradients a backward has joined already", collective,
            i, rank);
    return STN_OK;
}

stn_status stni_joining_check(const struct stni_joining *j)
{
    STNI_TRY(j->context->error.status);
    if (j->axis < 0 || j->axis >= j->mesh->ndim)
        return stni_fail(j->context, STN_ERR_ARGUMENT, "%s: axis got %d, wanted 0 to %d", collective, j->axis,
                         j->mesh->ndim - 1);
    if (j->op != STN_SUM && j->op != STN_AVG)
        return stni_fail(j->context, STN_ERR_ARGUMENT, "%s: op got %d, wanted STN_SUM or STN_AVG", collective,
                         (int)j->op);
    if (j->n < 0 || (j->n > 0 && !j->parameters))
        return stni_fail(j->context, STN_ERR_ARGUMENT, "%s: parameters got %d at %p, wanted a list", collective, j->n,
                         (const void *)j->parameters);
    const uint64_t mark = j->context->tape->mark += 2;
    for (int i = 0; i < j->n; i++)
        STNI_TRY(check_parameter(j, i, mark));
    return STN_OK;
}

/* What all ranks have to have alike */

struct stni_facts stni_joining_facts(const struct stni_joining *j)
{
    struct stni_facts facts = {.collective = collective};
    stni_fact_add(&facts, "parameters", NULL, j->n);
    stni_fact_add(&facts, "axis", NULL, j->axis);
    stni_fact_add(&facts, "op", j->op == STN_AVG ? "avg" : "sum", j->op);
    return facts;
}

static uint64_t hash_whole(const struct stni_joining *j, int i)
{
    const struct stni_layout *l = &j->parameters[i]->spec->layout;
    uint64_t hash = stni_hash_step(l->dtype, (uint64_t)l->ndim);
    for (int d = 0; d < l->ndim; d++)
        hash = stni_hash_step(hash, (uint64_t)l->shape[d]);
    return hash;
}

/* Which elements this rank has, in which order. */
static uint64_t hash_part(const struct stni_joining *j, int i)
{
    const stn_spec *spec = j->parameters[i]->spec;
    uint64_t hash = 0;
    for (int d = 0; d < spec->layout.ndim; d++) {
        hash = stni_hash_step(hash, (uint64_t)spec->local_offset[d]);
        hash = stni_hash_step(hash, (uint64_t)spec->local_shape[d]);
        hash = stni_hash_step(hash, spec->layout.memory_order[d]);
    }
    return hash;
}

static uint64_t hash_gradient(const struct stni_joining *j, int i)
{
    return (uint64_t)stni_joining_has_gradient(j, i) << 2;
}

/* 62 bits, so that there is a negative, and -1 is none. */
static int64_t as_word(uint64_t hash)
{
    return (int64_t)(hash >> 2);
}

/* Of all parameters. */
static int64_t hash_of(const struct stni_joining *j, uint64_t (*hash_one)(const struct stni_joining *, int))
{
    uint64_t hash = 0;
    for (int i = 0; i < j->n; i++)
        hash = stni_hash_step(hash, (uint64_t)as_word(hash_one(j, i)));
    return as_word(hash);
}

stn_status stni_joining_agree(const struct stni_joining *j, int64_t n)
{
    stn_comm *comm;
    STNI_TRY(stni_mesh_comm(j->mesh, (1u << j->mesh->ndim) - 1, &comm));
    return stni_fail_queue(j->context,
                           stni_comm_agree_first(comm, j->context->queue, STNI_AGREE_GRADIENTS, j->words, n, STN_MAX));
}

/* All ranks know that some parameter differs; names the first, with two ranks that have it otherwise. */
static stn_status name_difference(const struct stni_joining *j)
{
    struct stni_facts facts = stni_joining_facts(j);
    int first = 0;
    for (int i = 0; i < j->n; i++) {
        j->words[2 * i] = as_word(hash_whole(j, i));
        j->words[2 * i + 1] = -j->words[2 * i];
    }
    STNI_TRY(stni_joining_agree(j, 2 * (int64_t)j->n));
    while (first + 1 < j->n && j->words[2 * first] == -j->words[2 * first + 1])
        first++;
    const struct stni_layout *l = &j->parameters[first]->spec->layout;
    stni_fact_add(&facts, "number", NULL, first);
    stni_fact_add(&facts, "dtype", stn_dtype_name(l->dtype), l->dtype);
    stni_fact_add(&facts, "ndim", NULL, l->ndim);
    for (int d = 0; d < l->ndim; d++)
        stni_fact_add(&facts, stni_size_labels[d], NULL, l->shape[d]);
    return stni_dist_agree(j->mesh, STN_OK, &facts);
}

/* Position in the mesh of the rank at the beginning of the line along the axis that position i is on. */
static int line_of(const struct stni_joining *j, int i)
{
    int step = 1;
    for (int a = j->mesh->ndim - 1; a > j->axis; a--)
        step *= j->mesh->sizes[a];
    return i - i / step % j->mesh->sizes[j->axis] * step;
}

/* parts[i]: what the rank at position i holds. All ranks find the same. */
static stn_status compare_parts(const struct stni_joining *j, const int64_t *parts)
{
    for (int i = 0; i < j->mesh->size; i++) {
        const int first = line_of(j, i);
        if (parts[i] == parts[first])
            continue;
        stni_fail(
            j->context, STN_ERR_MISMATCH,
            "%s: rank %d holds other parts of the parameters than rank %d, which is in line with it along axis %d; "
            "nothing was moved",
            collective, stni_mesh_rank(j->mesh, i), stni_mesh_rank(j->mesh, first), j->axis);
        j->context->error_agreed = 1;
        return STN_ERR_MISMATCH;
    }
    return STN_OK;
}

enum { WHOLE, MINUS_WHOLE, GRADIENTS, MINUS_GRADIENTS, HOOKS, PARTS };
static_assert((int)PARTS == (int)STNI_JOINING_WORDS, "room for them");

static int has_hooks(const struct stni_joining *j)
{
    int found = 0;
    for (int i = 0; i < j->n && !found; i++)
        found = j->parameters[i]->leaf->hooks != NULL;
    return found;
}

stn_status stni_joining_compare(struct stni_joining *j)
{
    const int p = j->mesh->size, me = stni_mesh_position(j->mesh, j->context->rank);
    int64_t *w = j->words;
    w[WHOLE] = hash_of(j, hash_whole);
    w[MINUS_WHOLE] = -w[WHOLE];
    w[GRADIENTS] = hash_of(j, hash_gradient);
    w[MINUS_GRADIENTS] = -w[GRADIENTS];
    w[HOOKS] = has_hooks(j);
    for (int i = 0; i < p; i++)
        w[PARTS + i] = i == me ? hash_of(j, hash_part) : -1;
    STNI_TRY(stni_joining_agree(j, PARTS + p));
    j->same_gradients = w[GRADIENTS] == -w[MINUS_GRADIENTS];
    j->has_hooks = (int)w[HOOKS];
    if (w[WHOLE] != -w[MINUS_WHOLE])
        return name_difference(j);
    return compare_parts(j, w + PARTS);
}
