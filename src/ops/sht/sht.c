/* Spherical harmonic transforms of scalar fields: Fourier transforms along circles of latitude, and sums of Legendre
 * functions along meridians.
 *
 * At most three exchanges take place: one makes longitudes whole, one latitudes, one leads to the layout of the result.
 * Neither the Fourier transform nor the sums lead back to the layout that they came from. */
#include "ops/sht/sht.h"

#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/fft/stages.h"
#include "ops/placement/unshard.h"
#include "ops/sht/anchor.h"
#include "ops/sht/quadrature.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>

/* Of lmax and mmax by name, whose 0 is refused. */
#define ABSENT INT64_MIN

static const stn_ints last_dim = {.n = 1, .v = {-1}};

stn_tensor *stni_sht_call(enum stni_op_index op, const char *name, stn_tensor *input, int64_t first, int64_t second,
                          const stn_sht_basis *basis)
{
    struct stni_sht_attrs attrs = {first, second, STN_SHT_EQUIANGULAR, STN_SHT_ORTHO, 1};
    if (basis) {
        if (basis->size < sizeof(stn_sht_basis))
            return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: 'basis' got size %zu, wanted sizeof(stn_sht_basis)",
                                  name, basis->size);
        attrs.grid = basis->grid;
        attrs.norm = basis->norm;
        attrs.csphase = !basis->no_csphase;
    }
    return stni_call(op, 1, &input, &attrs);
}

stn_tensor *stni_sht_call_forward(enum stni_op_index op, const char *name, stn_tensor *input, int64_t lmax,
                                  int64_t mmax, const stn_sht_basis *basis)
{
    return stni_sht_call(op, name, input, lmax == 0 ? ABSENT : lmax, mmax == 0 ? ABSENT : mmax, basis);
}

stn_tensor *stn_sht(stn_tensor *input, int64_t lmax, int64_t mmax, const stn_sht_basis *basis)
{
    return stni_sht_call_forward(STNI_OP_sht, "sht", input, lmax, mmax, basis);
}

stn_tensor *stn_isht(stn_tensor *input, int64_t nlat, int64_t nlon, const stn_sht_basis *basis)
{
    return stni_sht_call(STNI_OP_isht, "isht", input, nlat, nlon, basis);
}

static stn_status check_input(const stn_op_call *call, const struct stni_sht_rule *rule)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int ndim = 2 + rule->vector;
    const int is_field = in->dtype == STN_DTYPE_F32 || in->dtype == STN_DTYPE_F64;
    const int is_coefficient = in->dtype == STN_DTYPE_C64 || in->dtype == STN_DTYPE_C128;
    if (rule->inverse ? !is_coefficient : !is_field)
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted %s", stn_dtype_name(in->dtype),
                           rule->inverse ? "c64 or c128" : "f32 or f64");
    if (in->ndim < ndim)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at least %d", in->ndim, ndim);
    if (rule->vector && in->shape[in->ndim - 3] != 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %" PRId64 " components along dim %d, wanted 2",
                           in->shape[in->ndim - 3], in->ndim - 3);
    return STN_OK;
}

/* Nodes are found in a time that grows with the square of their number; 32768 latitudes are 600 m apart. */
enum { MOST = 32768, MOST_LONGITUDES = 4 * MOST };

static stn_status check_size(const stn_op_call *call, const char *name, int64_t got, int64_t least, int64_t most)
{
    if (got >= least && got <= most)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_ARGUMENT, "%s got %" PRId64 ", wanted %" PRId64 " to %" PRId64, name, got, least,
                       most);
}

static stn_status check_orders(const stn_op_call *call, const char *name, const struct stni_sht *sht)
{
    const int64_t most = sht->nlon / 2 + 1;
    if (sht->mmax < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "%s got %" PRId64 ", wanted at least 1", name, sht->mmax);
    if (sht->mmax > most)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "%s got %" PRId64 ", wanted at most nlon / 2 + 1 = %" PRId64, name,
                           sht->mmax, most);
    return STN_OK;
}

static stn_status check_shape(const stn_op_call *call, int64_t least_rows)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int64_t rows = in->shape[in->ndim - 2], columns = in->shape[in->ndim - 1];
    if (rows >= least_rows && rows <= MOST && columns >= 1)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE,
                       "'input' got %" PRId64 " x %" PRId64 " elements along its last dims, wanted %" PRId64
                       " to %d x at least 1",
                       rows, columns, least_rows, MOST);
}

/* Degrees that the quadrature is exact for: products of two of them are polynomials of twice the last degree. */
static int64_t exact_degrees(int64_t grid, int64_t nlat)
{
    return grid == STN_SHT_LEGENDRE_GAUSS ? nlat : grid == STN_SHT_LOBATTO ? nlat - 1 : (nlat + 1) / 2;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static stn_status read_forward(const stn_op_call *call, const struct stni_sht_attrs *attrs, int64_t least_latitudes,
                               struct stni_sht *out)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    STNI_TRY(check_shape(call, least_latitudes));
    out->nlat = in->shape[in->ndim - 2];
    out->nlon = in->shape[in->ndim - 1];
    const int64_t waves = out->nlon / 2 + 1, exact = exact_degrees(attrs->grid, out->nlat);
    const int64_t lmax = attrs->first, mmax = attrs->second;
    out->lmax = lmax != ABSENT ? lmax : least_of(exact, mmax != ABSENT ? mmax : waves);
    out->mmax = mmax != ABSENT ? mmax : least_of(waves, out->lmax);
    STNI_TRY(check_size(call, "'lmax'", out->lmax, 1, MOST));
    return check_orders(call, "'mmax'", out);
}

static stn_status read_inverse(const stn_op_call *call, const struct stni_sht_attrs *attrs, int64_t least_latitudes,
                               struct stni_sht *out)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    STNI_TRY(check_shape(call, 1));
    out->lmax = in->shape[in->ndim - 2];
    out->mmax = in->shape[in->ndim - 1];
    out->nlat = attrs->first;
    out->nlon = attrs->second;
    STNI_TRY(check_size(call, "'nlat'", out->nlat, least_latitudes, MOST));
    STNI_TRY(check_size(call, "'nlon'", out->nlon, 1, MOST_LONGITUDES));
    return check_orders(call, "the input's mmax", out);
}

stn_status stni_sht_read(const stn_op_call *call, struct stni_sht *out)
{
    const struct stni_sht_attrs *attrs = call->attrs;
    const struct stni_sht_rule *rule = call->arg;
    const int64_t least_latitudes = attrs->grid == STN_SHT_LEGENDRE_GAUSS ? 1 : 2;
    STNI_TRY(check_input(call, rule));
    out->function = (struct stni_legendre_function){.part = STNI_LEGENDRE_VALUE,
                                                    .grid = attrs->grid,
                                                    .norm = attrs->norm,
                                                    .inverse = rule->inverse,
                                                    .csphase = attrs->csphase,
                                                    .weighted = !rule->inverse,
                                                    .potential = rule->vector && !rule->inverse};
    return rule->inverse ? read_inverse(call, attrs, least_latitudes, out)
                         : read_forward(call, attrs, least_latitudes, out);
}

static stn_status move_to(const stn_op_call *call, stn_tensor *x, const struct stni_layout *layout, stn_tensor **out)
{
    const stn_spec *spec;
    *out = x;
    if (stn_tensor_is_error(x) || !layout->mesh)
        return stn_context_status(call->context);
    STNI_TRY(stni_spec_intern(call->context, layout, &spec));
    if (spec != x->spec)
        *out = stn_redistribute(x == call->in[0] ? x : stni_anchor(x), spec);
    return stn_context_status(call->context);
}

/* The input's layout, but for its pending reductions other than sums, as that of a tensor of another dtype whose last
 * two dims have these lengths. */
static stn_status layout_like_input(const stn_op_call *call, stn_dtype dtype, int64_t rows, int64_t columns,
                                    struct stni_layout *out)
{
    const int64_t last[] = {rows, columns};
    *out = call->in_spec[0]->layout;
    stni_layout_reduce(out, 1u << STN_SUM);
    out->dtype = dtype;
    for (int i = 0; i < 2; i++) {
        const int d = out->ndim - 2 + i;
        if (out->split[d] && out->shape[d] != last[i])
            STNI_TRY(stni_split_scaled(call->context, out->split[d], last[i], &out->split[d]));
        out->shape[d] = last[i];
    }
    return STN_OK;
}

stn_status stni_sht_finish(const stn_op_call *call, int64_t rows, int64_t columns, stn_tensor *x, stn_tensor **out)
{
    struct stni_layout layout;
    if (stn_tensor_is_error(x))
        return stn_context_status(call->context);
    STNI_TRY(layout_like_input(call, stn_tensor_dtype(x), rows, columns, &layout));
    return move_to(call, x, &layout, out);
}

stn_status stni_sht_waves(const stn_op_call *call, const struct stni_sht *sht, stn_tensor **out)
{
    struct stni_layout layout = call->in_spec[0]->layout;
    stn_tensor *x = NULL;
    stni_layout_reduce(&layout, 1u << STN_SUM);
    STNI_TRY(stni_layout_unshard(call->context, &layout, 1u << (layout.ndim - 1)));
    STNI_TRY(move_to(call, call->in[0], &layout, &x));
    x = stni_fft_halve(x, &last_dim, 2 * STNI_PI / (double)sht->nlon, 1, &stni_fft_as_input);
    *out = sht->mmax < sht->nlon / 2 + 1 ? stn_narrow(x, -1, 0, sht->mmax) : x;
    return stn_context_status(call->context);
}

stn_status stni_sht_columns(const stn_op_call *call, const struct stni_sht *sht, stn_tensor *x, stn_tensor **out)
{
    if (stn_tensor_is_error(x))
        return stn_context_status(call->context);
    struct stni_layout layout = x->spec->layout;
    STNI_TRY(stni_legendre_want(call->context, &layout, sht->lmax));
    return move_to(call, x, &layout, out);
}

stn_status stni_sht_fields(const stn_op_call *call, const struct stni_sht *sht, stn_tensor *waves, stn_tensor **out)
{
    const int64_t padding[] = {0, sht->nlon / 2 + 1 - sht->mmax};
    struct stni_layout layout;
    stn_tensor *x = NULL;
    if (stn_tensor_is_error(waves))
        return stn_context_status(call->context);
    STNI_TRY(layout_like_input(call, stn_tensor_dtype(waves), sht->nlat, sht->mmax, &layout));
    STNI_TRY(stni_layout_unshard(call->context, &layout, 1u << (layout.ndim - 1)));
    STNI_TRY(move_to(call, waves, &layout, &x));
    if (padding[1] > 0)
        x = stn_pad(x, 2, padding, STN_PAD_CONSTANT, 0);
    x = stni_fft_restore(x, &last_dim, sht->nlon, 1, 1, &stni_fft_as_input);
    return stni_sht_finish(call, sht->nlat, sht->nlon, x, out);
}

static stn_status forward(stn_op_call *call)
{
    struct stni_sht sht;
    stn_tensor *waves = NULL;
    STNI_TRY(stni_sht_read(call, &sht));
    STNI_TRY(stni_sht_waves(call, &sht, &waves));
    STNI_TRY(stni_sht_columns(call, &sht, waves, &waves));
    return stni_sht_finish(call, sht.lmax, sht.mmax, stni_legendre_analysis(waves, &sht.function, sht.lmax),
                           &call->out[0]);
}

static stn_status inverse(stn_op_call *call)
{
    struct stni_sht sht;
    STNI_TRY(stni_sht_read(call, &sht));
    return stni_sht_fields(call, &sht, stni_legendre_synthesis(call->in[0], &sht.function, sht.nlat), &call->out[0]);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const char *const grids[] = {"equiangular", "legendre-gauss", "lobatto", NULL};
static const char *const norms[] = {"ortho", "four-pi", "schmidt", NULL};

#define ATTRS(first_name, second_name)                                              \
    {first_name, STN_ATTR_INT, offsetof(struct stni_sht_attrs, first), NULL},       \
    {second_name, STN_ATTR_INT, offsetof(struct stni_sht_attrs, second), NULL},     \
    {"grid", STN_ATTR_CHOICE, offsetof(struct stni_sht_attrs, grid), grids},        \
    {"norm", STN_ATTR_CHOICE, offsetof(struct stni_sht_attrs, norm), norms},        \
    {"csphase", STN_ATTR_BOOL, offsetof(struct stni_sht_attrs, csphase), NULL}

const stn_attr_schema stni_sht_schema[STNI_SHT_N_ATTRS] = {ATTRS("lmax", "mmax")};
const stn_attr_schema stni_isht_schema[STNI_SHT_N_ATTRS] = {ATTRS("nlat", "nlon")};
const struct stni_sht_attrs stni_sht_defaults = {ABSENT, ABSENT, STN_SHT_EQUIANGULAR, STN_SHT_ORTHO, 1};
const struct stni_sht_attrs stni_isht_defaults = {0, 0, STN_SHT_EQUIANGULAR, STN_SHT_ORTHO, 1};

const stn_op_desc stni_op_sht = {.size = sizeof(stn_op_desc),
                                 .name = "sht",
                                 STN_INPUTS(inputs),
                                 STN_ATTRS(stni_sht_schema, struct stni_sht_attrs),
                                 .attrs_init = &stni_sht_defaults,
                                 .n_outputs = 1,
                                 .impl = &(const stn_op_impl){.compose = forward},
                                 .arg = (void *)&(const struct stni_sht_rule){.inverse = 0}};

const stn_op_desc stni_op_isht = {.size = sizeof(stn_op_desc),
                                  .name = "isht",
                                  STN_INPUTS(inputs),
                                  STN_ATTRS(stni_isht_schema, struct stni_sht_attrs),
                                  .attrs_init = &stni_isht_defaults,
                                  .n_outputs = 1,
                                  .impl = &(const stn_op_impl){.compose = inverse},
                                  .arg = (void *)&(const struct stni_sht_rule){.inverse = 1},
                                  .signature = "input, nlat, nlon, grid=, norm=, csphase="};
