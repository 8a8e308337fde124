/* pad_sphere: margins of a grid of latitudes and longitudes, around the globe and over its poles. And its adjoint.
 *
 * Two remaps of one tensor (ops/exchange/remap.h) that share their exchange: the grid's own rows with margins around
 * the globe, and the rows beyond both poles, in reverse order along the latitudes and turned along the longitudes. */
#include "ops/pad/pad.h"

#include "core/shard/spec.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

/* Choices in the order of stn_poles, without STN_POLES_NONE. */
static const char *const poles_names[] = {"between_rows", "on_rows", NULL};
enum { BETWEEN_ROWS, ON_ROWS };

struct sphere_attrs {
    int64_t lat, lon, lat_dim, lon_dim, poles;
};

stn_tensor *stn_pad_sphere(stn_tensor *input, int64_t lat, int64_t lon, int lat_dim, int lon_dim, stn_poles poles)
{
    const struct sphere_attrs attrs = {lat, lon, lat_dim, lon_dim, (int64_t)poles - STN_POLES_BETWEEN_ROWS};
    if (poles != STN_POLES_BETWEEN_ROWS && poles != STN_POLES_ON_ROWS)
        return stni_call_fail(input, STN_ERR_ARGUMENT,
                              "pad_sphere: 'poles' got %d, wanted STN_POLES_BETWEEN_ROWS or STN_POLES_ON_ROWS",
                              (int)poles);
    return stni_call(STNI_OP_pad_sphere, 1, &input, &attrs);
}

static int is_adjoint(const stn_op_call *call)
{
    return call->arg != NULL;
}

/* A call: dims, counted from the front, and sizes without and with margins. */
struct grid {
    int lat, lon;
    int64_t whole[STN_MAX_NDIM], padded[STN_MAX_NDIM];
};

static stn_status check_width(const stn_op_call *call, const char *name, int64_t width, int64_t most, const char *what)
{
    if (width >= 0 && width <= most)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got %" PRId64 ", wanted 0 to %" PRId64 ": %s", name, width,
                       most > 0 ? most : 0, what);
}

static stn_status read_dims(const stn_op_call *call, int ndim, struct grid *g)
{
    const struct sphere_attrs *attrs = call->attrs;
    if (ndim < 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted latitudes and longitudes", ndim);
    STNI_TRY(stni_dim_wrap(call, "lat_dim", attrs->lat_dim, ndim, &g->lat));
    STNI_TRY(stni_dim_wrap(call, "lon_dim", attrs->lon_dim, ndim, &g->lon));
    if (g->lat == g->lon)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'lat_dim' and 'lon_dim' got %" PRId64 " and %" PRId64 ", wanted two dims", attrs->lat_dim,
                           attrs->lon_dim);
    return STN_OK;
}

static int with_margins(int64_t n, int64_t width, int64_t *out)
{
    return !__builtin_add_overflow(n, width, out) && !__builtin_add_overflow(*out, width, out);
}

static stn_status read_sizes(const stn_op_call *call, const struct stni_layout *in, struct grid *g)
{
    const struct sphere_attrs *attrs = call->attrs;
    memcpy(g->whole, in->shape, sizeof g->whole);
    if (is_adjoint(call)) {
        g->whole[g->lat] -= 2 * attrs->lat;
        g->whole[g->lon] -= 2 * attrs->lon;
    }
    const int64_t rows = g->whole[g->lat], columns = g->whole[g->lon];
    if (columns % 2 != 0)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'lon_dim' has %" PRId64 " elements, wanted an even number of them to turn over the poles",
                           columns);
    STNI_TRY(check_width(call, "lat", attrs->lat, rows - (attrs->poles == ON_ROWS && rows > 0),
                         "the rows beyond a pole are the grid's own"));
    STNI_TRY(check_width(call, "lon", attrs->lon, columns, "margins go around once"));
    memcpy(g->padded, g->whole, sizeof g->padded);
    if (!with_margins(rows, attrs->lat, &g->padded[g->lat]) || !with_margins(columns, attrs->lon, &g->padded[g->lon]))
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'lat' and 'lon' got %" PRId64 " and %" PRId64 ", wanted sizes in int64", attrs->lat,
                           attrs->lon);
    return STN_OK;
}

static stn_status read_grid(const stn_op_call *call, struct grid *g)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    STNI_TRY(read_dims(call, in->ndim, g));
    return read_sizes(call, in, g);
}

/* Position p of the padded dim shows element (p - width + turn) modulo n. Returns the segment that begins the core. */
static int go_around(struct stni_remap *map, int d, int64_t width, int64_t turn)
{
    const int64_t n = map->segment[d][0].length, padded = n + 2 * width;
    int64_t src = turn >= width ? turn - width : n - width + turn, dst = 0;
    map->n[d] = 0;
    do {
        const int64_t length = n - src < padded - dst ? n - src : padded - dst;
        map->segment[d][map->n[d]++] =
            (struct stni_segment){.dst = dst, .src = src, .length = length, .dst_step = 1, .src_step = 1};
        dst += length;
        src = 0;
    } while (dst < padded);
    return width > 0;
}

/* Rows beyond the poles: from the pole outwards they are the first ones, and the last. */
static void go_over(struct stni_remap *map, int d, int64_t width, int64_t skipped)
{
    const int64_t n = map->segment[d][0].length;
    map->n[d] = 2;
    map->segment[d][0] =
        (struct stni_segment){.dst = 0, .src = skipped + width - 1, .length = width, .dst_step = 1, .src_step = -1};
    map->segment[d][1] =
        (struct stni_segment){.dst = width + n, .src = n - 1 - skipped, .length = width, .dst_step = 1, .src_step = -1};
}

/* The call's maps, from its input to its output; their number. */
static int make_maps(const stn_op_call *call, const struct grid *g, struct stni_remap *maps)
{
    const struct sphere_attrs *attrs = call->attrs;
    const int ndim = call->in_spec[0]->layout.ndim, n = attrs->lat > 0 ? 2 : 1;
    stni_remap_init(&maps[0], ndim, g->whole);
    maps[0].segment[g->lat][0].dst = attrs->lat;
    const int core = go_around(&maps[0], g->lon, attrs->lon, 0);
    if (n == 2) {
        stni_remap_init(&maps[1], ndim, g->whole);
        go_over(&maps[1], g->lat, attrs->lat, attrs->poles == ON_ROWS);
        go_around(&maps[1], g->lon, attrs->lon, g->whole[g->lon] / 2);
    }
    if (is_adjoint(call)) {
        stni_remap_transpose(&maps[0], core);
        if (n == 2)
            stni_remap_transpose(&maps[1], -1); /* two segments of latitudes: all of it is added */
    }
    return n;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct grid g;
    STNI_TRY(read_grid(call, &g));
    call->out_meta[0] = (stn_meta){.dtype = in->dtype, .ndim = in->ndim};
    memcpy(call->out_meta[0].shape, is_adjoint(call) ? g.whole : g.padded, sizeof g.whole);
    return STN_OK;
}

/* An element is moved as it is, so that whatever is pending stays; sums of elements are of pending sums alone. The
 * note: mesh axes along which elements move. */
static stn_status place(stn_op_call *call)
{
    struct stni_remap maps[2];
    struct grid g;
    STNI_TRY(read_grid(call, &g));
    STNI_TRY(is_adjoint(call) ? stni_pad_specs(call, g.whole, 1u << STN_SUM)
                              : stni_pad_specs(call, g.padded, UINT32_MAX));
    const int n = make_maps(call, &g, maps);
    call->note = 0;
    for (int i = 0; i < n; i++)
        call->note |= stni_remap_moves(&maps[i], call->want[0], call->out_spec[0]);
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    stn_tensor *const sources[] = {call->in[0], call->in[0]};
    struct stni_remap maps[2];
    struct grid g;
    STNI_TRY(read_grid(call, &g));
    return stni_remap_run(call, make_maps(call, &g, maps), maps, sources, call->out[0], (uint32_t)call->note, NULL);
}

static stn_status backward(stn_backward_call *call)
{
    call->grad_in[0] = call->arg ? stni_call(STNI_OP_pad_sphere, 1, &call->grad_out[0], call->attrs)
                                 : stni_pad_sums(STNI_OP_pad_sphere_backward, call->grad_out[0], call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_input_schema adjoint_inputs[] = {{.name = "grad"}};
static const stn_attr_schema attrs_schema[] = {
    {"lat", STN_ATTR_INT, offsetof(struct sphere_attrs, lat), NULL},
    {"lon", STN_ATTR_INT, offsetof(struct sphere_attrs, lon), NULL},
    {"lat_dim", STN_ATTR_INT, offsetof(struct sphere_attrs, lat_dim), NULL},
    {"lon_dim", STN_ATTR_INT, offsetof(struct sphere_attrs, lon_dim), NULL},
    {"poles", STN_ATTR_CHOICE, offsetof(struct sphere_attrs, poles), poles_names},
};
static const struct sphere_attrs attrs_init = {.lat_dim = -2, .lon_dim = -1};

static const stn_op_impl impl = {
    .check = check,
    .place = place,
    .run = run,
    .backward = backward,
    STN_SLOTS(stni_remap_slots),
    STN_KERNELS(stni_remap_kernels),
};

const stn_op_desc stni_op_pad_sphere = {
    .size = sizeof(stn_op_desc),
    .name = "pad_sphere",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct sphere_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .impl = &impl,
    .signature = "input, lat, lon, lat_dim=, lon_dim=, poles=",
};

const stn_op_desc stni_op_pad_sphere_backward = {
    .size = sizeof(stn_op_desc),
    .name = "pad_sphere_backward",
    STN_INPUTS(adjoint_inputs),
    STN_ATTRS(attrs_schema, struct sphere_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .impl = &impl,
    .arg = (void *)&attrs_init,
    .flags = STN_OP_INTERNAL,
};
