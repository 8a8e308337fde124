/* Ranks of one slice of a grid whose tensors lie on slices along different axes of it: one has a tensor along an
 * axis along which its peers have none, and would wait for ranks that do not come. What the ranks of one slice find
 * they tell all who may wait. */
#include "autograd/pass.h"
#include "core/base/host_alloc.h"
#include "core/shard/tables.h"

#include <stdio.h>
#include <string.h>

static int is_slice(const struct stni_pass_mesh *touched)
{
    return touched->has_tensors && touched->line != STNI_NO_LINE && touched->mesh && touched->mesh->sliced;
}

/* The same of all slices of a grid along the same axes. */
static uint64_t hash_axes(const stn_mesh *mesh)
{
    uint32_t axes;
    const stn_mesh *grid = stni_mesh_grid(mesh, &axes);
    return stni_hash_step(stni_hash_step(0, grid->identity), axes);
}

int64_t stni_pass_slices(const struct stni_pass *pass)
{
    uint64_t sum = 0;
    for (int m = 0; m < pass->n_meshes; m++)
        if (is_slice(&pass->meshes[m]))
            sum += hash_axes(pass->meshes[m].mesh);
    return (int64_t)(sum >> 1);
}

enum { AXES_TEXT = 120 };

struct described {
    int64_t hash;
    int64_t rank;
    char text[AXES_TEXT];
};

static void describe_mesh(struct described *out, const stn_mesh *mesh)
{
    for (int a = 0; a < mesh->ndim; a++) {
        const size_t n = strlen(out->text);
        snprintf(out->text + n, sizeof out->text - n, "%s%s", a > 0 ? " x " : n > 0 ? " and " : "", mesh->names[a]);
    }
}

static void describe(const struct stni_pass *pass, struct described *out)
{
    memset(out, 0, sizeof *out);
    out->hash = stni_pass_slices(pass);
    out->rank = pass->context->rank;
    for (int m = 0; m < pass->n_meshes; m++)
        if (is_slice(&pass->meshes[m]))
            describe_mesh(out, pass->meshes[m].mesh);
    if (!out->text[0])
        snprintf(out->text, sizeof out->text, "none");
}

/* A rank outside of the line may wait for this one. */
static stn_status reaches_beyond(const struct stni_pass *pass, int line, int64_t *out)
{
    const size_t size = (size_t)pass->context->size;
    uint8_t *marks = stni_malloc(2 * size), *others = marks + size;
    if (!marks)
        return stni_fail_rank(pass->context, STN_ERR_MEMORY, "stn_backward: no memory to compare the ranks of slices");
    stni_line_mark(pass, line, marks);
    *out = 0;
    for (int l = 0; l < pass->n_lines; l++) {
        stni_line_mark(pass, l, others);
        for (size_t r = 0; r < size; r++)
            *out |= others[r] > marks[r];
    }
    stni_free(marks);
    return STN_OK;
}

/* Words: the lowest rank that differs from the first, negative; whether anybody outside may wait. */
enum { DIFFERS, BEYOND, WORDS };

static stn_status compare(const struct stni_pass *pass, int line, struct described *first, struct described *other,
                          int64_t *beyond)
{
    stn_comm *comm = pass->lines[line].comm;
    stn_queue *queue = pass->context->queue;
    int64_t words[WORDS];
    describe(pass, other);
    *first = *other;
    STNI_TRY(reaches_beyond(pass, line, &words[BEYOND]));
    STNI_TRY(stni_comm_agree_broadcast(comm, queue, first, sizeof *first, 0));
    words[DIFFERS] = first->hash != other->hash ? -(int64_t)stn_comm_rank(comm) : INT64_MIN;
    STNI_TRY(stni_comm_agree(comm, queue, words, WORDS, STN_MAX));
    *beyond = words[BEYOND];
    return stni_comm_agree_broadcast(comm, queue, other, sizeof *other, (int)-words[DIFFERS]);
}

/* Ranks beyond the line cannot be asked whether they wait: the family is aborted, as the deadline would do. */
stn_status stni_pass_refuse_slices(const struct stni_pass *pass, int line)
{
    static const char format[] =
        "stn_backward: rank %lld has tensors on slices along %s, rank %lld along %s, and both are of one slice; "
        "nothing was done";
    struct described first, other;
    int64_t beyond = 0;
    STNI_TRY(compare(pass, line, &first, &other, &beyond));
    const long long rank = (long long)other.rank, before = (long long)first.rank;
    return beyond ? stni_fail_rank(pass->context, STN_ERR_MISMATCH, format, rank, other.text, before, first.text)
                  : stni_fail(pass->context, STN_ERR_MISMATCH, format, rank, other.text, before, first.text);
}

stn_status stni_pass_tell_beyond(const struct stni_pass *pass, int l)
{
    const struct stni_line *line = &pass->lines[l];
    stn_context *context = pass->context;
    const int64_t word = line->words[STNI_LINE_FAILURE];
    const stn_status failure = (stn_status)(-word & 0xff);
    int64_t beyond = 0;
    STNI_TRY(reaches_beyond(pass, l, &beyond));
    STNI_TRY(stni_comm_agree(line->comm, context->queue, &beyond, 1, STN_MAX));
    STNI_TRY(stni_agree_on_failure(context, line->comm, (int)(-word >> 8), failure));
    if (beyond)
        stni_context_abort(context, failure, context->error.text);
    return failure;
}
