/* Forms without gradients whose parts stand one behind the other along the first dim. */
#include "ops/dist/plain.h"

#include "core/base/host_alloc.h"
#include "ops/common/dims.h"

#include <string.h>

int64_t stni_plain_row(const stn_tensor *t)
{
    int64_t n = 1;
    for (int d = 1; d < t->spec->layout.ndim; d++)
        n *= t->spec->layout.shape[d];
    return n;
}

int64_t stni_plain_rows(const stn_tensor *t)
{
    return t->spec->layout.shape[0];
}

/* Without elements anything is. */
static int is_row_major(const stn_tensor *t)
{
    int64_t n = 1;
    for (int d = t->spec->layout.ndim - 1; d >= 0 && t->spec->numel > 0; d--) {
        if (t->spec->layout.shape[d] > 1 && t->strides[d] != n)
            return 0;
        n *= t->spec->layout.shape[d];
    }
    return 1;
}

static stn_status check_one(const struct stni_plain *p, const char *what, const stn_tensor *t)
{
    if (t == NULL)
        return STN_OK;
    if (t->spec->layout.ndim < 1)
        return stni_fail(p->context, STN_ERR_SHAPE, "%s: %s has no dims, wanted rows", p->name, what);
    if (!is_row_major(t))
        return stni_fail(p->context, STN_ERR_LAYOUT, "%s: the memory of %s is not row-major", p->name, what);
    return STN_OK;
}

static stn_status check_alike(const struct stni_plain *p)
{
    const struct stni_layout *a = &p->in->spec->layout, *b = &p->out->spec->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (a->ndim < 1 || a->ndim != b->ndim || a->dtype != b->dtype ||
        memcmp(a->shape + 1, b->shape + 1, sizeof a->shape - sizeof a->shape[0]) != 0)
        return stni_fail(p->context, STN_ERR_SHAPE,
                         "%s: the result got %s %s, wanted the dtype and all but the first dim of the input's %s %s",
                         p->name, stn_dtype_name(b->dtype), stni_shape_text(b->ndim, b->shape, got),
                         stn_dtype_name(a->dtype), stni_shape_text(a->ndim, a->shape, wanted));
    if (p->in->storage == p->out->storage)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: input and result share memory", p->name);
    return STN_OK;
}

stn_status stni_plain_check_rows(const struct stni_plain *p)
{
    if (p->in != NULL && p->out != NULL)
        STNI_TRY(check_alike(p));
    STNI_TRY(check_one(p, "the result", p->out));
    return check_one(p, "input", p->in);
}

enum { ANY = -1 }; /* a total that this rank does not know */

/* One list of numbers per rank: its name, the numbers, and, where they are absent, what is cut evenly or is each
 * rank's. */
struct size_list {
    const char *name;
    const int64_t *sizes;
    int64_t rows;
    int each;
};

static int64_t size_of(const struct stni_plain *p, const struct size_list *l, int r)
{
    const int n = p->mesh->size;
    if (l->sizes != NULL)
        return l->sizes[r];
    return l->each ? l->rows : stni_balanced_offset(l->rows, n, r + 1) - stni_balanced_offset(l->rows, n, r);
}

/* Counts of elements, as the k-th list of the call. What they make up has `total` rows. */
static stn_status take_sizes(struct stni_plain *p, int k, const struct size_list *l, int64_t total)
{
    const int n = p->mesh->size;
    const int64_t row = stni_plain_row(p->in != NULL ? p->in : p->out);
    int64_t sum = 0;
    if (p->counts == NULL)
        p->counts = stni_calloc(2 * (size_t)n, sizeof *p->counts);
    if (p->counts == NULL)
        return stni_fail_memory(p->context, "a list of sizes", 2 * (size_t)n * sizeof *p->counts);
    for (int r = 0; r < n; r++) {
        const int64_t size = size_of(p, l, r);
        if (size < 0 || __builtin_add_overflow(sum, size, &sum) ||
            __builtin_mul_overflow(size, row, &p->counts[k * n + r]))
            return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: %s[%d] got %lld, wanted 0 or more, and sums below 2^63",
                             p->name, l->name, r, (long long)size);
    }
    if (total == ANY || sum == total)
        return STN_OK;
    return stni_fail(p->context, STN_ERR_SHAPE,
                     "%s: the sum of %s is %lld, wanted %lld, the rows of the tensor that they make up", p->name,
                     l->name, (long long)sum, (long long)total);
}

/* The same of a list that all ranks pass alike. */
static stn_status take_same_sizes(struct stni_plain *p, const int64_t *sizes, int64_t rows, int each, int64_t total)
{
    p->facts.sizes = sizes;
    p->facts.n_sizes = sizes ? p->mesh->size : 0;
    if (sizes == NULL)
        stni_fact_add(&p->facts, "rows", NULL, rows);
    return take_sizes(p, 0, &(struct size_list){"sizes", sizes, rows, each}, total);
}

/* This rank's own part has as many rows as its size says. */
static stn_status check_own(const struct stni_plain *p, const char *what, const stn_tensor *t)
{
    if (p->counts[p->me] == t->spec->numel)
        return STN_OK;
    return stni_fail(p->context, STN_ERR_SHAPE, "%s: %s has %lld elements, wanted %lld, as sizes[%d] says", p->name,
                     what, (long long)t->spec->numel, (long long)p->counts[p->me], p->me);
}

static stn_status plan_all_gather(struct stni_plain *p, const int64_t *sizes)
{
    STNI_TRY(stni_plain_begin(p, 1, 1, 1));
    if (p->me < 0)
        return STN_OK;
    STNI_TRY(stni_plain_check_rows(p));
    STNI_TRY(take_same_sizes(p, sizes, stni_plain_rows(p->in), 1, stni_plain_rows(p->out)));
    return check_own(p, "input", p->in);
}

stn_status stn_dist_all_gather_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh, const int64_t *sizes,
                                    stn_dist_request **request)
{
    struct stni_plain p = {
        .name = "dist_all_gather_into", .mesh = mesh, .in = input, .out = result, .request = request};
    STNI_TRY(stni_plain_enter(&p));
    const stn_status status = stni_plain_ready(&p, plan_all_gather(&p, sizes));
    if (status != STN_OK || p.comm == NULL)
        return stni_plain_leave(&p, status);
    return stni_plain_end(&p, stn_comm_all_gather(p.comm, input->data, result->data, p.counts, stni_plain_dtype(&p),
                                                  stni_plain_inner(&p)));
}

static int is_root(const struct stni_plain *p, int root)
{
    return p->me >= 0 && p->me == root;
}

static stn_status plan_gather(struct stni_plain *p, const int64_t *sizes, int root)
{
    STNI_TRY(stni_plain_begin(p, 1, is_root(p, root), 1));
    STNI_TRY(stni_plain_check_root(p, root));
    if (p->me < 0)
        return STN_OK;
    STNI_TRY(stni_plain_check_rows(p));
    STNI_TRY(take_same_sizes(p, sizes, stni_plain_rows(p->in), 1, p->out != NULL ? stni_plain_rows(p->out) : ANY));
    return check_own(p, "input", p->in);
}

stn_status stn_dist_gather_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh, const int64_t *sizes,
                                int root, stn_dist_request **request)
{
    struct stni_plain p = {.name = "dist_gather_into", .mesh = mesh, .in = input, .out = result, .request = request};
    STNI_TRY(stni_plain_enter(&p));
    const stn_status status = stni_plain_ready(&p, plan_gather(&p, sizes, root));
    if (status != STN_OK || p.comm == NULL)
        return stni_plain_leave(&p, status);
    return stni_plain_end(&p, stn_comm_gather(p.comm, input->data, p.out != NULL ? p.out->data : NULL, p.counts,
                                              stni_plain_dtype(&p), root, stni_plain_inner(&p)));
}

/* Both are the same but for the rows that are cut. */
static stn_status check_same_rows(const struct stni_plain *p)
{
    STNI_TRY(stni_plain_check_rows(p));
    if (p->out == NULL || stni_plain_rows(p->in) == stni_plain_rows(p->out))
        return STN_OK;
    return stni_fail(p->context, STN_ERR_SHAPE, "%s: the result has %lld rows, wanted the input's %lld", p->name,
                     (long long)stni_plain_rows(p->out), (long long)stni_plain_rows(p->in));
}

static stn_status plan_reduce(struct stni_plain *p, stn_reduce_op op, int root)
{
    STNI_TRY(stni_plain_begin(p, 1, is_root(p, root), 0));
    STNI_TRY(stni_plain_check_op(p, op));
    STNI_TRY(stni_plain_check_root(p, root));
    return p->me < 0 ? STN_OK : check_same_rows(p);
}

stn_status stn_dist_reduce_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh, stn_reduce_op op, int root,
                                stn_dist_request **request)
{
    struct stni_plain p = {.name = "dist_reduce_into", .mesh = mesh, .in = input, .out = result, .request = request};
    STNI_TRY(stni_plain_enter(&p));
    const stn_status status = stni_plain_ready(&p, plan_reduce(&p, op, root));
    if (status != STN_OK || p.comm == NULL)
        return stni_plain_leave(&p, status);
    return stni_plain_end(&p, stn_comm_reduce(p.comm, input->data, p.out != NULL ? p.out->data : NULL,
                                              input->spec->numel, stni_plain_dtype(&p), op, root,
                                              stni_plain_inner(&p)));
}

static stn_status plan_reduce_scatter(struct stni_plain *p, const int64_t *sizes, stn_reduce_op op)
{
    STNI_TRY(stni_plain_begin(p, 1, 1, 1));
    STNI_TRY(stni_plain_check_op(p, op));
    if (p->me < 0)
        return STN_OK;
    STNI_TRY(stni_plain_check_rows(p));
    STNI_TRY(take_same_sizes(p, sizes, stni_plain_rows(p->in), 0, stni_plain_rows(p->in)));
    return check_own(p, "the result", p->out);
}

stn_status stn_dist_reduce_scatter_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                        const int64_t *sizes, stn_reduce_op op, stn_dist_request **request)
{
    struct stni_plain p = {
        .name = "dist_reduce_scatter_into", .mesh = mesh, .in = input, .out = result, .request = request};
    STNI_TRY(stni_plain_enter(&p));
    const stn_status status = stni_plain_ready(&p, plan_reduce_scatter(&p, sizes, op));
    if (status != STN_OK || p.comm == NULL)
        return stni_plain_leave(&p, status);
    return stni_plain_end(&p, stn_comm_reduce_scatter(p.comm, input->data, result->data, p.counts,
                                                      stni_plain_dtype(&p), op, stni_plain_inner(&p)));
}

static stn_status plan_scatter(struct stni_plain *p, const int64_t *sizes, int root)
{
    STNI_TRY(stni_plain_begin(p, is_root(p, root), 1, 1));
    STNI_TRY(stni_plain_check_root(p, root));
    if (p->me < 0)
        return STN_OK;
    if (sizes == NULL)
        return stni_fail(p->context, STN_ERR_ARGUMENT, "%s: sizes is NULL, wanted one number for each rank", p->name);
    STNI_TRY(stni_plain_check_rows(p));
    STNI_TRY(take_same_sizes(p, sizes, 0, 0, p->in != NULL ? stni_plain_rows(p->in) : ANY));
    return check_own(p, "the result", p->out);
}

stn_status stn_dist_scatter_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh, const int64_t *sizes,
                                 int root, stn_dist_request **request)
{
    struct stni_plain p = {.name = "dist_scatter_into", .mesh = mesh, .in = input, .out = result, .request = request};
    STNI_TRY(stni_plain_enter(&p));
    const stn_status status = stni_plain_ready(&p, plan_scatter(&p, sizes, root));
    if (status != STN_OK || p.comm == NULL)
        return stni_plain_leave(&p, status);
    return stni_plain_end(&p, stn_comm_scatter(p.comm, p.in != NULL ? p.in->data : NULL, result->data, p.counts,
                                               stni_plain_dtype(&p), root, stni_plain_inner(&p)));
}

static stn_status plan_all_to_all(struct stni_plain *p, const int64_t *sent, const int64_t *received)
{
    STNI_TRY(stni_plain_begin(p, 1, 1, 1));
    if (p->me < 0)
        return STN_OK;
    if (sent == NULL || received == NULL)
        return stni_fail(p->context, STN_ERR_ARGUMENT,
                         "%s: send_sizes or receive_sizes is NULL, wanted one number for each rank", p->name);
    STNI_TRY(stni_plain_check_rows(p));
    STNI_TRY(take_sizes(p, 0, &(struct size_list){"send_sizes", sent, 0, 0}, stni_plain_rows(p->in)));
    return take_sizes(p, 1, &(struct size_list){"receive_sizes", received, 0, 0}, stni_plain_rows(p->out));
}

stn_status stn_dist_all_to_all_into(stn_tensor *result, stn_tensor *input, const stn_mesh *mesh,
                                    const int64_t *send_sizes, const int64_t *receive_sizes, stn_dist_request **request)
{
    struct stni_plain p = {
        .name = "dist_all_to_all_into", .mesh = mesh, .in = input, .out = result, .request = request};
    STNI_TRY(stni_plain_enter(&p));
    const stn_status status = stni_plain_ready(&p, plan_all_to_all(&p, send_sizes, receive_sizes));
    if (status != STN_OK || p.comm == NULL)
        return stni_plain_leave(&p, status);
    return stni_plain_end(&p, stn_comm_all_to_all(p.comm, input->data, p.counts, result->data, p.counts + mesh->size,
                                                  stni_plain_dtype(&p), stni_plain_inner(&p)));
}
