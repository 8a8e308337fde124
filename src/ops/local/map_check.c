/* What is wrong with the arguments of a local_map. */
#include "autograd/tape.h"
#include "ops/local/halo_pad.h"
#include "ops/local/map.h"

#include <stdio.h>
#include <string.h>

static const stn_mesh *mesh_of(const stn_tensor *t)
{
    return stni_is_error(t) ? stni_tape_failed_mesh(t->context) : t->spec->layout.mesh;
}

const stn_mesh *stni_map_mesh(const stn_local_map_options *options, int n_in, stn_tensor *const *in)
{
    const stn_mesh *mesh = options && options->size == sizeof *options ? options->mesh : NULL;
    for (int i = 0; in && !mesh && i < n_in; i++)
        if (in[i])
            mesh = mesh_of(in[i]);
    return mesh;
}

static int same_placements(const stn_spec *a, const stn_spec *b)
{
    return a->layout.mesh == b->layout.mesh &&
           memcmp(a->layout.placement, b->layout.placement, sizeof a->layout.placement) == 0;
}

/* A caller's own reference is given back at once: specs stay while the context is busy. */
static stn_status declared_spec(struct stni_map *m, int i)
{
    const stn_spec *from = m->in[i]->spec;
    const stn_placement *placements = stni_map_placements(m->options->in_placements, i);
    if (!placements && from->layout.mesh != m->mesh)
        return stni_fail(m->context, STN_ERR_ARGUMENT,
                         "local_map: in[%d] is on another mesh than the map's, wanted in_placements of it", i);
    if (!placements) {
        m->want[i] = from;
        return STN_OK;
    }
    if (from->layout.mesh == m->mesh)
        STNI_TRY(
            stn_spec_like(from, placements, from->layout.dtype, from->layout.ndim, from->layout.shape, &m->want[i]));
    else
        STNI_TRY(stn_spec_create(m->context, m->mesh, placements, from->layout.dtype, from->layout.ndim,
                                 from->layout.shape, NULL, &m->want[i]));
    const stn_spec *held = m->want[i];
    stn_spec_release(&held);
    if (m->options->no_redistribution && !same_placements(from, m->want[i]))
        return stni_fail(
            m->context, STN_ERR_LAYOUT,
            "local_map: in[%d] has other placements than declared, and no_redistribution forbids to bring it there",
            i);
    return STN_OK;
}

static stn_status read_take(struct stni_map *m, int i)
{
    const stn_placement *grads = stni_map_placements(m->options->in_grad_placements, i);
    const stn_spec *spec = m->want[i];
    if (grads)
        return stni_take_axes(spec, grads, "local_map: an input's", &m->take[i]);
    if (spec->partial_axes && (m->needs >> i & 1))
        return stni_fail(m->context, STN_ERR_PARTIAL,
                         "local_map: in[%d] requires grad and a reduction of it is pending, wanted other in_placements",
                         i);
    m->take[i] = (struct stni_local_axes){
        .sum_axes = m->options->convention == STN_GRAD_PER_RANK ? stni_axes_of_kind(spec, STN_PLACE_REPLICATE) : 0};
    return STN_OK;
}

static stn_status check_halo(const struct stni_map *m, int i)
{
    char what[32];
    snprintf(what, sizeof what, "local_map: in[%d]", i);
    if (stni_map_halo(m, i) && m->want[i]->partial_axes)
        return stni_fail(m->context, STN_ERR_PARTIAL,
                         "local_map: in[%d] has margins and a reduction of it is pending, wanted other in_placements",
                         i);
    return stni_map_halo(m, i) ? stni_halo_pad_check(stni_map_halo(m, i), m->want[i], what) : STN_OK;
}

static stn_status check_input(struct stni_map *m, int i)
{
    const stn_tensor *t = m->in[i];
    if (!t)
        return STN_OK;
    if (stni_is_error(t) || t->context != m->context)
        return stni_fail(m->context, STN_ERR_ARGUMENT, "local_map: in[%d] is %s", i,
                         stni_is_error(t) ? "what an earlier failure returned" : "another context's");
    if (t->spec->layout.mesh) {
        STNI_TRY(declared_spec(m, i));
        STNI_TRY(check_halo(m, i));
        return read_take(m, i);
    }
    if (stni_map_placements(m->options->in_placements, i) || stni_map_halo(m, i) || (m->needs >> i & 1))
        return stni_fail(m->context, STN_ERR_ARGUMENT,
                         "local_map: in[%d] is a local tensor that %s, wanted one on a mesh: stn_from_local makes it",
                         i, m->needs >> i & 1 ? "requires grad" : "has in_placements or in_halos");
    return STN_OK;
}

static stn_status check_output(struct stni_map *m, int k)
{
    const stn_spec *spec = m->options->out_specs ? m->options->out_specs[k] : NULL;
    if (!spec && !stni_map_placements(m->options->out_placements, k))
        return stni_fail(m->context, STN_ERR_ARGUMENT,
                         "local_map: out[%d] has neither out_specs nor out_placements, wanted one of them", k);
    if (spec && (spec->context != m->context || spec->layout.mesh != m->mesh))
        return stni_fail(m->context, STN_ERR_ARGUMENT, "local_map: out_specs[%d] is on another mesh than the map's", k);
    return STN_OK;
}

stn_status stni_map_check(struct stni_map *m)
{
    STNI_TRY(stni_check_convention(m->context, m->options->convention, "local_map"));
    if (!m->options->function)
        return stni_fail(m->context, STN_ERR_ARGUMENT, "local_map: function got NULL");
    for (int i = 0; i < m->n_in; i++)
        STNI_TRY(check_input(m, i));
    for (int k = 0; k < m->n_out; k++)
        STNI_TRY(check_output(m, k));
    return STN_OK;
}
