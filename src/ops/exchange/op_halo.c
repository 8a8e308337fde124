/* Halos for ops of one's own: op.h's widths as boxes of positions for ops/exchange/halo.h. */
#include "ops/exchange/halo.h"

#include <string.h>

/* Who reads what: the spec of the chunks, and the widths of the dims that have one. */
struct widths {
    const stn_spec *spec;
    int n_dims, dim[STNI_HALO_MAX_DIMS];
    int64_t below[STNI_HALO_MAX_DIMS], above[STNI_HALO_MAX_DIMS];
    enum stni_boundary boundary[STNI_HALO_MAX_DIMS];
};

static struct stni_range chunk_of(const stn_spec *spec, int dim, const int *coordinate)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    stni_spec_chunk_at(spec, coordinate, shape, offset);
    return (struct stni_range){offset[dim], offset[dim] + shape[dim]};
}

/* One box: the chunk with its margins. An empty chunk has no box. */
static int boxes_at(const void *arg, const int *coordinate, struct stni_halo_box *boxes)
{
    const struct widths *w = arg;
    for (int d = 0; d < w->n_dims; d++) {
        struct stni_range chunk = chunk_of(w->spec, w->dim[d], coordinate);
        if (stni_range_length(chunk) == 0)
            return 0;
        boxes[0].range[d] = (struct stni_range){chunk.begin - w->below[d], chunk.end + w->above[d]};
    }
    return 1;
}

/* Pieces with one of the positions, of which those outside of the dim belong to no piece. */
static int add_pieces(const struct stni_split *split, int64_t n_elements, struct stni_range positions, struct stni_range *pieces, int n)
{
    positions = stni_range_intersect(positions, (struct stni_range){0, n_elements});
    if (stni_range_length(positions) == 0)
        return n;
    pieces[n] = (struct stni_range){stni_split_find(split, positions.begin), stni_split_find(split, positions.end - 1) + 1};
    return n + 1;
}

/* Which ranks' boxes contain the elements: pieces nearby and, where the boundary continues the dim beyond its ends, the pieces whose margins reach
 * there. */
static int readers_of(const void *arg, int d, struct stni_range elements, struct stni_range *pieces)
{
    const struct widths *w = arg;
    const struct stni_split *split = w->spec->layout.split[w->dim[d]];
    const int64_t n_elements = w->spec->layout.shape[w->dim[d]];
    int n = 0;
    if (stni_range_length(elements) == 0)
        return 0;
    n = add_pieces(split, n_elements, (struct stni_range){elements.begin - w->above[d], elements.end + w->below[d]}, pieces, n);
    if (w->boundary[d] == STNI_BOUNDARY_ZERO)
        return n;
    n = add_pieces(split, n_elements, (struct stni_range){0, w->below[d]}, pieces, n);
    return add_pieces(split, n_elements, (struct stni_range){n_elements - w->above[d], n_elements}, pieces, n);
}

static stn_status check_dim(const stn_op_call *call, const stn_halo *halo, int d, int64_t n)
{
    const int64_t below = halo->below[d], above = halo->above[d];
    if (below < 0 || above < 0 || below > INT64_MAX / 4 || above > INT64_MAX / 4)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "halo: below[%d] and above[%d] got %lld and %lld, wanted widths of 0 or more", d, d,
                           (long long)below, (long long)above);
    if ((unsigned)halo->mode[d] > STN_PADDING_CIRCULAR)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "halo: mode[%d] got %d, wanted an stn_padding_mode", d, (int)halo->mode[d]);
    if (below == 0 && above == 0)
        return STN_OK;
    if (halo->mode[d] == STN_PADDING_REFLECT && (below >= n || above >= n))
        return stn_op_fail(
            call, STN_ERR_SHAPE,
            "halo: below[%d] and above[%d] got %lld and %lld, wanted less than the dim's %lld elements to reflect", d,
            d, (long long)below, (long long)above, (long long)n);
    if (halo->mode[d] != STN_PADDING_ZEROS && n == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "halo: dim %d got 0 elements, wanted some to go on with beyond its ends", d);
    return STN_OK;
}

static stn_status read_widths(const stn_op_call *call, const stn_halo *halo, const stn_tensor *t, struct widths *w)
{
    if (halo == NULL || halo->size != sizeof *halo)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "halo: got %s, wanted one whose size is sizeof(stn_halo)", halo ? "another size" : "NULL");
    if (t == NULL || t->spec == NULL)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "halo: the tensor got %s, wanted an input or output of the op", t ? "an error tensor" : "NULL");
    *w = (struct widths){.spec = t->spec};
    const struct stni_layout *layout = &t->spec->layout;
    for (int a = 0; layout->mesh != NULL && a < layout->mesh->ndim; a++)
        if (stn_spec_placement(t->spec, a).kind == STN_PLACE_PARTIAL)
            return stn_op_fail(call, STN_ERR_PARTIAL, "halo: the tensor is Partial along axis %d, wanted Shard or Replicate", a);
    for (int d = 0; d < layout->ndim; d++) {
        STNI_TRY(check_dim(call, halo, d, layout->shape[d]));
        if (halo->below[d] == 0 && halo->above[d] == 0)
            continue;
        if (w->n_dims == STNI_HALO_MAX_DIMS)
            return stn_op_fail(call, STN_ERR_ARGUMENT, "halo: got widths in more than %d dims", STNI_HALO_MAX_DIMS);
        w->dim[w->n_dims] = d, w->below[w->n_dims] = halo->below[d], w->above[w->n_dims] = halo->above[d];
        w->boundary[w->n_dims++] = (enum stni_boundary)halo->mode[d];
    }
    return STN_OK;
}

static struct stni_halo describe(const struct widths *w, const stn_tensor *source)
{
    struct stni_halo halo = {.source = source, .n_dims = w->n_dims, .arg = w, .boxes = boxes_at, .readers = readers_of};
    for (int d = 0; d < w->n_dims; d++) {
        halo.dims[d].dim = w->dim[d];
        halo.dims[d].boundary = w->boundary[d];
    }
    return halo;
}

/* Of an empty chunk, and outside of the mesh, a box without elements. */
static stn_status make_box(const stn_op_call *call, const stn_tensor *t, const stn_halo *halo, stn_box *box)
{
    const stn_spec *spec = t->spec;
    int64_t n = 1;
    memset(box, 0, sizeof *box);
    box->ndim = spec->layout.ndim;
    for (int d = box->ndim - 1; d >= 0; d--) {
        box->shape[d] = spec->local_numel > 0 ? halo->below[d] + spec->local_shape[d] + halo->above[d] : 0;
        box->strides[d] = n;
        n *= box->shape[d];
    }
    return spec->local_numel > 0 ? stn_op_scratch(call, (size_t)n * stn_dtype_size(spec->layout.dtype), &box->data) : STN_OK;
}

static int is_outside(const stn_tensor *t)
{
    return t->spec->layout.mesh != NULL && !t->spec->layout.mesh->member;
}

stn_status stn_op_halo_box(const stn_op_call *call, stn_tensor *like, const stn_halo *halo, stn_box *extended)
{
    struct widths w;
    STNI_TRY(read_widths(call, halo, like, &w));
    return make_box(call, like, halo, extended);
}

stn_status stn_op_halo(const stn_op_call *call, stn_tensor *in, const stn_halo *halo, stn_box *extended)
{
    struct widths w;
    STNI_TRY(read_widths(call, halo, in, &w));
    STNI_TRY(make_box(call, in, halo, extended));
    struct stni_halo read = describe(&w, in);
    return is_outside(in) ? STN_OK : stni_halo_fetch(call, &read, extended, ~UINT64_C(0));
}

stn_status stn_op_halo_add(const stn_op_call *call, const stn_box *extended, const stn_halo *halo, stn_tensor *out)
{
    struct widths w;
    STNI_TRY(read_widths(call, halo, out, &w));
    struct stni_halo read = describe(&w, out);
    return is_outside(out) ? STN_OK : stni_halo_add(call, &read, extended);
}
