/* Specs from text: placements as people write them ("S0,R") and as stn_spec_describe prints them
 * ("Shard(0) sizes 25 24 24, Replicate, memory order 1 0"). */
#include "core/context/context.h"
#include "core/base/host_alloc.h"
#include "core/tensor/scope.h"
#include "core/shard/spec.h"

#include <stdio.h>
#include <string.h>

/* What is read, and what has been found so far. */
struct reader {
    const stn_mesh *mesh;
    const char *text, *at;
    int ndim;
    stn_placement placements[STN_MAX_MESH_NDIM];
    int within[STN_MAX_MESH_NDIM]; /* the axis that shards the same dim just before this one; -1: not told */
    int64_t *sizes[STN_MAX_NDIM];  /* NULL: balanced */
    int memory_order[STN_MAX_NDIM], has_memory_order;
};

static stn_status fail(const struct reader *r, const char *wanted)
{
    const int place = (int)(r->at - r->text) + 1;
    if (*r->at)
        return stni_fail(r->mesh->context, STN_ERR_ARGUMENT,
                         "stn_spec_of: placements got \"%s\": character %d is '%c', wanted %s", r->text, place, *r->at,
                         wanted);
    return stni_fail(r->mesh->context, STN_ERR_ARGUMENT,
                     "stn_spec_of: placements got \"%s\": it ends before character %d, wanted %s", r->text, place,
                     wanted);
}

static void skip_blanks(struct reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

/* 1 if this word comes next, which is then behind us. */
static int accept_word(struct reader *r, const char *word)
{
    const size_t n = strlen(word);
    skip_blanks(r);
    if (strncmp(r->at, word, n) != 0)
        return 0;
    r->at += n;
    return 1;
}

static int is_digit(const struct reader *r)
{
    return *r->at >= '0' && *r->at <= '9';
}

/* A number of at most 18 digits, so that nothing overflows; -1 where there is none, and nothing is taken. */
static int64_t parse_number(struct reader *r)
{
    int64_t value = 0;
    skip_blanks(r);
    const char *from = r->at;
    for (int n = 0; is_digit(r) && n < 18; n++)
        value = 10 * value + (*r->at++ - '0');
    if (r->at == from || is_digit(r)) {
        r->at = from;
        return -1;
    }
    return value;
}

static stn_status parse_dim(struct reader *r, int *dim)
{
    char wanted[64];
    const char *from = r->at;
    const int64_t n = parse_number(r);
    if (n >= 0 && n < r->ndim) {
        *dim = (int)n;
        return STN_OK;
    }
    r->at = from;
    if (r->ndim > 0)
        snprintf(wanted, sizeof wanted, "a dim, 0 to %d", r->ndim - 1);
    else
        snprintf(wanted, sizeof wanted, "R or P: a tensor of 0 dims has none to cut");
    return fail(r, wanted);
}

/* Into how many pieces the axes divide a dim. */
static int parts_of(const struct reader *r, int dim)
{
    int n = 1;
    for (int a = 0; a < r->mesh->ndim; a++)
        if (r->placements[a].kind == STN_PLACE_SHARD && r->placements[a].dim == dim)
            n *= r->mesh->sizes[a];
    return n;
}

/* "... (12 pieces, balanced)" is what a long balanced list is printed as. */
static stn_status skip_elided(struct reader *r, int dim)
{
    if (!accept_word(r, "(") || parse_number(r) < 0 || !accept_word(r, "pieces") || !accept_word(r, ", balanced") ||
        !accept_word(r, ")"))
        return fail(r, "all sizes, or a balanced cut");
    stni_free(r->sizes[dim]);
    r->sizes[dim] = NULL;
    return STN_OK;
}

/* As many sizes as the mesh has ranks are the most that any list has. */
static stn_status parse_sizes(struct reader *r, int dim)
{
    const size_t bytes = (size_t)(r->mesh->size + 1) * sizeof *r->sizes[dim];
    char wanted[64];
    int64_t n = 0, size;
    stni_free(r->sizes[dim]);
    r->sizes[dim] = stni_malloc(bytes);
    if (!r->sizes[dim])
        return stni_fail_memory(r->mesh->context, "sizes of a cut", bytes);
    while (n < r->mesh->size && (size = parse_number(r)) >= 0)
        r->sizes[dim][n++] = size;
    r->sizes[dim][n] = -1; /* where the list ends */
    if (accept_word(r, "..."))
        return skip_elided(r, dim);
    snprintf(wanted, sizeof wanted, "at most %d sizes, as the mesh has so many ranks", r->mesh->size);
    if (is_digit(r))
        return fail(r, wanted);
    return n > 0 ? STN_OK : fail(r, "a size");
}

static int parse_axis(struct reader *r)
{
    int found = -1;
    size_t longest = 0;
    skip_blanks(r);
    for (int a = 0; a < r->mesh->ndim; a++) {
        const char *name = r->mesh->names[a];
        const size_t n = strlen(name);
        if (n >= longest && strncmp(r->at, name, n) == 0 && (r->at[n] == ' ' || r->at[n] == ',' || !r->at[n]))
            found = a, longest = n;
    }
    r->at += found < 0 ? 0 : longest;
    return found;
}

static stn_status parse_shard(struct reader *r, int axis, int in_brackets)
{
    int dim = 0;
    STNI_TRY(parse_dim(r, &dim));
    if (in_brackets && !accept_word(r, ")"))
        return fail(r, "')'");
    r->placements[axis] = stn_shard(dim);
    if (accept_word(r, "within") && (r->within[axis] = parse_axis(r)) < 0)
        return fail(r, "an axis of the mesh");
    return accept_word(r, "sizes") ? parse_sizes(r, dim) : STN_OK;
}

static stn_status parse_partial(struct reader *r, int axis)
{
    static const char *const ops[STN_REDUCE_OP_COUNT] = {
        [STN_SUM] = "sum", [STN_AVG] = "avg", [STN_PROD] = "prod", [STN_MIN] = "min", [STN_MAX] = "max"};
    r->placements[axis] = stn_partial(STN_SUM);
    if (!accept_word(r, "("))
        return STN_OK;
    for (int op = 0; op < STN_REDUCE_OP_COUNT; op++)
        if (accept_word(r, ops[op])) {
            r->placements[axis] = stn_partial((stn_reduce_op)op);
            return accept_word(r, ")") ? STN_OK : fail(r, "')'");
        }
    return fail(r, "sum, avg, prod, min or max");
}

static stn_status parse_placement(struct reader *r, int axis)
{
    r->within[axis] = -1;
    r->placements[axis] = stn_replicate();
    if (accept_word(r, "Replicate") || accept_word(r, "R"))
        return STN_OK;
    if (accept_word(r, "Partial") || accept_word(r, "P"))
        return parse_partial(r, axis);
    if (accept_word(r, "Shard(") || accept_word(r, "S("))
        return parse_shard(r, axis, 1);
    return accept_word(r, "S") ? parse_shard(r, axis, 0) : fail(r, "R, S and a dim, or P");
}

static stn_status parse_memory_order(struct reader *r)
{
    r->has_memory_order = 1;
    for (int d = 0; d < r->ndim; d++)
        STNI_TRY(parse_dim(r, &r->memory_order[d]));
    return STN_OK;
}

static stn_status read_all(struct reader *r)
{
    char wanted[64];
    for (int a = 0; a < r->mesh->ndim; a++) {
        snprintf(wanted, sizeof wanted, "',' and the placement of axis %s", r->mesh->names[a]);
        if (a > 0 && !accept_word(r, ","))
            return fail(r, wanted);
        STNI_TRY(parse_placement(r, a));
    }
    if (accept_word(r, ", memory order"))
        STNI_TRY(parse_memory_order(r));
    skip_blanks(r);
    return *r->at ? fail(r, "its end: every axis of the mesh has a placement") : STN_OK;
}

/* An axis comes after the one within whose pieces it shards; else mesh order holds. */
static stn_status order_axes(const struct reader *r, int order[STN_MAX_MESH_NDIM])
{
    uint32_t placed = 0;
    for (int n = 0; n < r->mesh->ndim; n++) {
        int axis = 0;
        while (axis < r->mesh->ndim &&
               (placed >> axis & 1 || (r->within[axis] >= 0 && !(placed >> r->within[axis] & 1))))
            axis++;
        if (axis == r->mesh->ndim)
            return stni_fail(r->mesh->context, STN_ERR_ARGUMENT,
                             "stn_spec_of: placements got \"%s\": axes are within each other", r->text);
        placed |= UINT32_C(1) << axis;
        order[n] = axis;
    }
    return STN_OK;
}

static stn_status check_sizes(const struct reader *r)
{
    for (int d = 0; d < r->ndim; d++) {
        int n = 0;
        while (r->sizes[d] && r->sizes[d][n] >= 0)
            n++;
        if (r->sizes[d] && n != parts_of(r, d))
            return stni_fail(r->mesh->context, STN_ERR_ARGUMENT,
                             "stn_spec_of: placements got \"%s\": %d sizes of dim %d, wanted %d", r->text, n, d,
                             parts_of(r, d));
    }
    return STN_OK;
}

static stn_status create(struct reader *r, stn_dtype dtype, const int64_t *shape, const stn_spec **out)
{
    int order[STN_MAX_MESH_NDIM];
    STNI_TRY(read_all(r));
    STNI_TRY(order_axes(r, order));
    STNI_TRY(check_sizes(r));
    const stn_spec_options options = {.size = sizeof options,
                                      .axis_order = order,
                                      .memory_order = r->has_memory_order ? r->memory_order : NULL,
                                      .sizes = (const int64_t *const *)r->sizes};
    return stn_spec_create(r->mesh->context, r->mesh, r->placements, dtype, r->ndim, shape, &options, out);
}

const stn_spec *stn_spec_of(const stn_mesh *mesh, stn_dtype dtype, const char *placements, int ndim,
                            const int64_t *shape)
{
    const stn_spec *spec = NULL;
    if (!mesh || mesh->context->error.status != STN_OK)
        return NULL;
    stn_context *context = mesh->context;
    struct reader r = {.mesh = mesh, .text = placements, .at = placements, .ndim = ndim};
    if (!placements)
        stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_of: placements got NULL, wanted a text such as \"S0,R\"");
    else if (ndim < 0 || ndim > STN_MAX_NDIM)
        stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_of: ndim got %d, wanted 0 to %d", ndim, STN_MAX_NDIM);
    else
        create(&r, dtype, shape, &spec);
    for (int d = 0; d < STN_MAX_NDIM; d++)
        stni_free(r.sizes[d]);
    return spec ? stni_scope_own_spec(context, spec) : NULL;
}

stn_placement stn_placement_replicate(void)
{
    return stn_replicate();
}

stn_placement stn_placement_shard(int dim)
{
    return stn_shard(dim);
}

stn_placement stn_placement_partial(stn_reduce_op op)
{
    return stn_partial(op);
}
