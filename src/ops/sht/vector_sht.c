/* Spherical harmonic transforms of tangential vector fields: derivatives of harmonics along meridians and along circles
 * take the place of values. With M and Z, the sums of these two (the latter holds i, and its conjugate one way),
 *
 *     s = M v_theta + Z v_phi,  t = Z v_theta - M v_phi,  each divided by l (l + 1),  and
 *     v_theta = M s + Z t,      v_phi = Z s - M t. */
#include "core/tensor/tensor.h"
#include "ops/sht/sht.h"

#include <shardtensor/ops.h>

#include <stddef.h>

stn_tensor *stn_vsht(stn_tensor *input, int64_t lmax, int64_t mmax, const stn_sht_basis *basis)
{
    return stni_sht_call_forward(STNI_OP_vsht, "vsht", input, lmax, mmax, basis);
}

stn_tensor *stn_ivsht(stn_tensor *input, int64_t nlat, int64_t nlon, const stn_sht_basis *basis)
{
    return stni_sht_call(STNI_OP_ivsht, "ivsht", input, nlat, nlon, basis);
}

static struct stni_legendre_function part_of(const struct stni_sht *sht, int part)
{
    struct stni_legendre_function function = sht->function;
    function.part = part;
    return function;
}

/* The two components that the sums of both parts make. */
static stn_tensor *combine(stn_tensor *meridional, stn_tensor *zonal)
{
    stn_tensor *components[] = {stn_add(stn_select(meridional, -3, 0), stn_select(zonal, -3, 1)),
                                stn_sub(stn_select(zonal, -3, 0), stn_select(meridional, -3, 1))};
    return stn_stack(2, components, -3);
}

static stn_status forward(stn_op_call *call)
{
    struct stni_sht sht;
    stn_tensor *waves = NULL;
    STNI_TRY(stni_sht_read(call, &sht));
    STNI_TRY(stni_sht_waves(call, &sht, &waves));
    STNI_TRY(stni_sht_columns(call, &sht, waves, &waves));
    const struct stni_legendre_function meridional = part_of(&sht, STNI_LEGENDRE_MERIDIONAL),
                                        zonal = part_of(&sht, STNI_LEGENDRE_ZONAL);
    stn_tensor *sums =
        combine(stni_legendre_analysis(waves, &meridional, sht.lmax), stni_legendre_analysis(waves, &zonal, sht.lmax));
    return stni_sht_finish(call, sht.lmax, sht.mmax, sums, &call->out[0]);
}

static stn_status inverse(stn_op_call *call)
{
    struct stni_sht sht;
    stn_tensor *x = NULL;
    STNI_TRY(stni_sht_read(call, &sht));
    STNI_TRY(stni_sht_columns(call, &sht, call->in[0], &x));
    const struct stni_legendre_function meridional = part_of(&sht, STNI_LEGENDRE_MERIDIONAL),
                                        zonal = part_of(&sht, STNI_LEGENDRE_ZONAL);
    stn_tensor *waves =
        combine(stni_legendre_synthesis(x, &meridional, sht.nlat), stni_legendre_synthesis(x, &zonal, sht.nlat));
    return stni_sht_fields(call, &sht, waves, &call->out[0]);
}

static const stn_input_schema inputs[] = {{.name = "input"}};

const stn_op_desc stni_op_vsht = {.size = sizeof(stn_op_desc),
                                  .name = "vsht",
                                  STN_INPUTS(inputs),
                                  STN_ATTRS(stni_sht_schema, struct stni_sht_attrs),
                                  .attrs_init = &stni_sht_defaults,
                                  .n_outputs = 1,
                                  .impl = &(const stn_op_impl){.compose = forward},
                                  .arg = (void *)&(const struct stni_sht_rule){.vector = 1}};

const stn_op_desc stni_op_ivsht = {.size = sizeof(stn_op_desc),
                                   .name = "ivsht",
                                   STN_INPUTS(inputs),
                                   STN_ATTRS(stni_isht_schema, struct stni_sht_attrs),
                                   .attrs_init = &stni_isht_defaults,
                                   .n_outputs = 1,
                                   .impl = &(const stn_op_impl){.compose = inverse},
                                   .arg = (void *)&(const struct stni_sht_rule){.inverse = 1, .vector = 1},
                                   .signature = "input, nlat, nlon, grid=, norm=, csphase="};
