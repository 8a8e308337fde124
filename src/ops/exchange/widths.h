/* Margins around chunks, in the words of op.h (stn_halo), as boxes of positions for halo.h.
 *
 * A chunk with its margins is one box, but for a grid whose rows end in poles: what lies beyond a pole is a box of its
 * own, whose positions are turned by half of the longitudes and mirrored along the latitudes by the ordinary boundaries
 * of both dims. */
#ifndef STNI_OPS_EXCHANGE_WIDTHS_H
#define STNI_OPS_EXCHANGE_WIDTHS_H

#include "core/base/status.h"
#include "ops/exchange/halo.h"

enum { STNI_WIDTHS_MAX_BOXES = 3 }; /* beyond one pole, between the poles, beyond the other one */

/* Who reads what: the spec of the chunks, and the widths of the dims that have one. */
struct stni_widths {
    const stn_spec *spec;
    int n_dims, dim[STNI_HALO_MAX_DIMS];
    int64_t below[STNI_HALO_MAX_DIMS], above[STNI_HALO_MAX_DIMS];
    enum stni_boundary boundary[STNI_HALO_MAX_DIMS];
    int has_poles, latitude, longitude; /* the latter two of `dim` */
    int64_t between;                    /* 1: the poles lie between rows, 0: on the first and the last one */
};

/* Reads the widths of chunks of `spec`. A failure is written to `error`: pure, and the same on every rank. */
stn_status stni_widths_read(const stn_halo *halo, const stn_spec *spec, struct stni_widths *out,
                            struct stni_error *error);

/* This rank's chunk with its margins, of size 0 along dims where the chunk is. */
void stni_widths_shape(const struct stni_widths *w, int64_t *shape);

/* Brings this rank's chunk of `source` with its margins to `extended`, a dense box of that shape; and the adjoint,
 * which writes `sum`. Nothing happens outside of the mesh. Collective as stni_halo_fetch. `call` lends the context and
 * holds the scratch memory. */
stn_status stni_widths_fetch(const stn_op_call *call, const struct stni_widths *w, const stn_tensor *source,
                             const stn_box *extended);
stn_status stni_widths_add(const stn_op_call *call, const struct stni_widths *w, const stn_box *extended,
                           const stn_tensor *sum);

#endif
