#include "ops/exchange/widths.h"

#include <stddef.h>
#include <string.h>

/* Reading */

static stn_status check_dim(const stn_halo *halo, int d, int64_t n, struct stni_error *error)
{
    const int64_t below = halo->below[d], above = halo->above[d];
    if (below < 0 || above < 0 || below > INT64_MAX / 4 || above > INT64_MAX / 4)
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "halo: below[%d] and above[%d] got %lld and %lld, wanted widths of 0 or more", d, d,
                              (long long)below, (long long)above);
    if ((unsigned)halo->mode[d] > STN_PADDING_CIRCULAR)
        return stni_error_set(error, STN_ERR_ARGUMENT, "halo: mode[%d] got %d, wanted an stn_padding_mode", d,
                              (int)halo->mode[d]);
    if (below == 0 && above == 0)
        return STN_OK;
    if (halo->mode[d] == STN_PADDING_REFLECT && (below >= n || above >= n))
        return stni_error_set(
            error, STN_ERR_SHAPE,
            "halo: below[%d] and above[%d] got %lld and %lld, wanted less than the dim's %lld elements to reflect", d,
            d, (long long)below, (long long)above, (long long)n);
    if (halo->mode[d] != STN_PADDING_ZEROS && n == 0)
        return stni_error_set(error, STN_ERR_SHAPE,
                              "halo: dim %d got 0 elements, wanted some to go on with beyond its ends", d);
    return STN_OK;
}

static stn_status check_poles(const stn_halo *halo, const struct stni_layout *layout, struct stni_error *error)
{
    const int lat = halo->latitude, lon = halo->longitude;
    if (lat < 0 || lat >= layout->ndim || lon < 0 || lon >= layout->ndim || lat == lon)
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "halo: latitude and longitude got %d and %d, wanted two of the tensor's %d dims", lat,
                              lon, layout->ndim);
    if (halo->mode[lon] != STN_PADDING_CIRCULAR || layout->shape[lon] % 2 != 0)
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "halo: longitude got %lld elements and mode %d, wanted an even number of "
                              "them and STN_PADDING_CIRCULAR to turn them over the poles",
                              (long long)layout->shape[lon], (int)halo->mode[lon]);
    const int64_t rows = layout->shape[lat], most = rows - (rows > 0 && halo->poles == STN_POLES_ON_ROWS);
    if (halo->below[lat] > most || halo->above[lat] > most)
        return stni_error_set(error, STN_ERR_SHAPE,
                              "halo: below[%d] and above[%d] got %lld and %lld, wanted at most %lld: the rows "
                              "beyond a pole are the grid's own",
                              lat, lat, (long long)halo->below[lat], (long long)halo->above[lat], (long long)most);
    return STN_OK;
}

/* One of an older header ends before the poles, of which there are none then. */
static stn_status take(const stn_halo *given, stn_halo *out, struct stni_error *error)
{
    if (given == NULL || (given->size != sizeof *out && given->size != offsetof(stn_halo, poles)))
        return stni_error_set(error, STN_ERR_ARGUMENT, "halo: got %s, wanted one whose size is sizeof(stn_halo)",
                              given ? "another size" : "NULL");
    memcpy(out, given, given->size);
    if ((unsigned)out->poles > STN_POLES_ON_ROWS)
        return stni_error_set(error, STN_ERR_ARGUMENT, "halo: poles got %d, wanted an stn_poles", (int)out->poles);
    return STN_OK;
}

/* What lies beyond a pole is mirrored whatever the dim's mode, which is not asked for. */
static stn_status take_poles(stn_halo *halo, const struct stni_layout *layout, struct stni_widths *w,
                             struct stni_error *error)
{
    if (halo->poles == STN_POLES_NONE)
        return STN_OK;
    STNI_TRY(check_poles(halo, layout, error));
    halo->mode[halo->latitude] = STN_PADDING_ZEROS;
    w->has_poles = halo->below[halo->latitude] > 0 || halo->above[halo->latitude] > 0;
    w->between = halo->poles == STN_POLES_BETWEEN_ROWS;
    return STN_OK;
}

/* Longitudes are windowed without a width too: those beyond a pole are read elsewhere. */
static int is_windowed(const stn_halo *halo, const struct stni_widths *w, int d)
{
    return halo->below[d] > 0 || halo->above[d] > 0 || (w->has_poles && d == halo->longitude);
}

stn_status stni_widths_read(const stn_halo *given, const stn_spec *spec, struct stni_widths *w,
                            struct stni_error *error)
{
    const struct stni_layout *layout = &spec->layout;
    stn_halo halo = {0};
    *w = (struct stni_widths){.spec = spec};
    STNI_TRY(take(given, &halo, error));
    STNI_TRY(take_poles(&halo, layout, w, error));
    for (int d = 0; d < layout->ndim; d++) {
        STNI_TRY(check_dim(&halo, d, layout->shape[d], error));
        if (!is_windowed(&halo, w, d))
            continue;
        if (w->n_dims == STNI_HALO_MAX_DIMS)
            return stni_error_set(error, STN_ERR_ARGUMENT, "halo: got widths in more than %d dims", STNI_HALO_MAX_DIMS);
        if (w->has_poles && d == halo.latitude)
            w->latitude = w->n_dims;
        if (w->has_poles && d == halo.longitude)
            w->longitude = w->n_dims;
        w->dim[w->n_dims] = d, w->below[w->n_dims] = halo.below[d], w->above[w->n_dims] = halo.above[d];
        w->boundary[w->n_dims++] = (enum stni_boundary)halo.mode[d];
    }
    if (w->has_poles)
        w->boundary[w->latitude] = STNI_BOUNDARY_REFLECT;
    return STN_OK;
}

/* Boxes */

/* A part of a chunk with its margins: where it lies in that, and which positions it reads. */
struct part {
    struct stni_range within[STNI_HALO_MAX_DIMS];
    struct stni_halo_box box;
};

static int64_t size_of(const struct stni_widths *w, int d)
{
    return w->spec->layout.shape[w->dim[d]];
}

/* The part of `whole` whose latitudes lie in `rows`; beyond a pole (side -1 or 1) they are mirrored, and the longitudes
 * turned. */
static int cut_at_poles(const struct stni_widths *w, const struct stni_range *whole, struct stni_range rows, int side,
                        struct part *part)
{
    const int lat = w->latitude, lon = w->longitude;
    const int64_t begin = whole[lat].begin, mirror = -side * w->between, turn = side ? size_of(w, lon) / 2 : 0;
    rows = stni_range_intersect(rows, whole[lat]);
    if (stni_range_length(rows) == 0)
        return 0;
    for (int d = 0; d < w->n_dims; d++) {
        part->within[d] = stni_range_of(0, stni_range_length(whole[d]));
        part->box.range[d] = whole[d];
    }
    part->within[lat] = stni_range_of(rows.begin - begin, rows.end - begin);
    part->box.range[lat] = stni_range_of(rows.begin + mirror, rows.end + mirror);
    part->box.range[lon] = stni_range_of(whole[lon].begin + turn, whole[lon].end + turn);
    return 1;
}

/* All parts of the chunk at mesh coordinates; none of an empty one. */
static int parts_at(const struct stni_widths *w, const int *coordinate, struct part *parts)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    struct stni_range whole[STNI_HALO_MAX_DIMS];
    stni_spec_chunk_at(w->spec, coordinate, shape, offset);
    for (int d = 0; d < w->n_dims; d++) {
        const int64_t begin = offset[w->dim[d]], n = shape[w->dim[d]];
        if (n == 0)
            return 0;
        whole[d] = stni_range_of(begin - w->below[d], begin + n + w->above[d]);
    }
    if (w->has_poles) {
        const int64_t n = size_of(w, w->latitude);
        int k = cut_at_poles(w, whole, stni_range_of(INT64_MIN / 2, 0), -1, &parts[0]);
        k += cut_at_poles(w, whole, stni_range_of(0, n), 0, &parts[k]);
        return k + cut_at_poles(w, whole, stni_range_of(n, INT64_MAX / 2), 1, &parts[k]);
    }
    for (int d = 0; d < w->n_dims; d++) {
        parts[0].within[d] = stni_range_of(0, stni_range_length(whole[d]));
        parts[0].box.range[d] = whole[d];
    }
    return 1;
}

static int boxes_at(const void *arg, const int *coordinate, struct stni_halo_box *boxes)
{
    struct part parts[STNI_WIDTHS_MAX_BOXES];
    const int n = parts_at(arg, coordinate, parts);
    for (int b = 0; b < n; b++)
        boxes[b] = parts[b].box;
    return n;
}

/* Readers */

/* Pieces with one of the positions, of which those outside of the dim belong to no piece. */
static int add_pieces(const struct stni_split *split, int64_t n_elements, struct stni_range positions,
                      struct stni_range *pieces, int n)
{
    positions = stni_range_intersect(positions, (struct stni_range){0, n_elements});
    if (stni_range_length(positions) == 0)
        return n;
    pieces[n] =
        (struct stni_range){stni_split_find(split, positions.begin), stni_split_find(split, positions.end - 1) + 1};
    return n + 1;
}

/* Which ranks' boxes contain the elements: pieces nearby; where the boundary continues the dim beyond its ends, the
 * pieces whose margins reach there; and of longitudes those on the other side of a pole. */
static int readers_of(const void *arg, int d, struct stni_range elements, struct stni_range *pieces)
{
    const struct stni_widths *w = arg;
    const struct stni_split *split = w->spec->layout.split[w->dim[d]];
    const int64_t n_elements = size_of(w, d);
    const struct stni_range near = {elements.begin - w->above[d], elements.end + w->below[d]};
    int n = 0;
    if (stni_range_length(elements) == 0)
        return 0;
    n = add_pieces(split, n_elements, near, pieces, n);
    if (w->boundary[d] != STNI_BOUNDARY_ZERO) {
        n = add_pieces(split, n_elements, (struct stni_range){0, w->below[d]}, pieces, n);
        n = add_pieces(split, n_elements, (struct stni_range){n_elements - w->above[d], n_elements}, pieces, n);
    }
    if (w->has_poles && d == w->longitude) {
        const int64_t turn = n_elements / 2;
        n = add_pieces(split, n_elements, (struct stni_range){near.begin - turn, near.end - turn}, pieces, n);
        n = add_pieces(split, n_elements, (struct stni_range){near.begin + turn, near.end + turn}, pieces, n);
    }
    return n;
}

/* Moving */

void stni_widths_shape(const struct stni_widths *w, int64_t *shape)
{
    memcpy(shape, w->spec->local_shape, (size_t)w->spec->layout.ndim * sizeof *shape);
    for (int d = 0; d < w->n_dims; d++)
        if (shape[w->dim[d]] > 0)
            shape[w->dim[d]] += w->below[d] + w->above[d];
}

static struct stni_halo describe(const struct stni_widths *w, const stn_tensor *source)
{
    struct stni_halo halo = {.source = source, .n_dims = w->n_dims, .arg = w, .boxes = boxes_at, .readers = readers_of};
    for (int d = 0; d < w->n_dims; d++) {
        halo.dims[d].dim = w->dim[d];
        halo.dims[d].boundary = w->boundary[d];
    }
    return halo;
}

/* The places of this rank's parts in the extended box. */
static void find_buffers(const struct stni_widths *w, const stn_box *extended, stn_box *buffers)
{
    struct part parts[STNI_WIDTHS_MAX_BOXES];
    static const int origin[STN_MAX_MESH_NDIM];
    const stn_mesh *mesh = w->spec->layout.mesh;
    const int n = parts_at(w, mesh ? mesh->coordinate : origin, parts);
    for (int b = 0; b < n; b++) {
        int64_t first = 0;
        buffers[b] = *extended;
        for (int d = 0; d < w->n_dims; d++) {
            buffers[b].shape[w->dim[d]] = stni_range_length(parts[b].within[d]);
            first += parts[b].within[d].begin * extended->strides[w->dim[d]];
        }
        buffers[b].data =
            extended->data ? (char *)extended->data + first * (int64_t)stn_dtype_size(w->spec->layout.dtype) : NULL;
    }
}

static int is_outside(const struct stni_widths *w)
{
    return w->spec->layout.mesh != NULL && !w->spec->layout.mesh->member;
}

static stn_status move(const stn_op_call *call, const struct stni_widths *w, const stn_tensor *chunk,
                       const stn_box *extended, int adjoint)
{
    const struct stni_halo halo = describe(w, chunk);
    stn_box buffers[STNI_WIDTHS_MAX_BOXES];
    if (is_outside(w))
        return STN_OK;
    find_buffers(w, extended, buffers);
    return adjoint ? stni_halo_add(call, &halo, buffers) : stni_halo_fetch(call, &halo, buffers, ~UINT64_C(0));
}

stn_status stni_widths_fetch(const stn_op_call *call, const struct stni_widths *w, const stn_tensor *source,
                             const stn_box *extended)
{
    return move(call, w, source, extended, 0);
}

stn_status stni_widths_add(const stn_op_call *call, const struct stni_widths *w, const stn_box *extended,
                           const stn_tensor *sum)
{
    return move(call, w, sum, extended, 1);
}
