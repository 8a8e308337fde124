/* Chunks that stand along a line in the order of ranks, and what each rank sees of it with margins. */
#ifndef STNI_OPS_DIST_HALO_LINE_H
#define STNI_OPS_DIST_HALO_LINE_H

#include "ops/dist/route.h"
#include "ops/exchange/window.h"

struct stni_halo_line {
    stn_context *context;
    const int64_t *offsets; /* rank r holds the elements offsets[r] … offsets[r + 1] - 1 */
    int p, me;
    int64_t below, above; /* widths of the margins, in elements */
    enum stni_boundary boundary;
};

/* @return STN_ERR_ARGUMENT (widths), STN_ERR_SHAPE (too few elements to reflect), kept with `name`. */
stn_status stni_halo_line_check(const struct stni_halo_line *line, const char *name);

/* Elements of this rank's chunk with its margins; 0 where the chunk is empty. */
int64_t stni_halo_line_length(const struct stni_halo_line *line);

/* Adds what this rank sends of its chunk, and receives into its chunk with margins. */
stn_status stni_halo_line_route(const struct stni_halo_line *line, struct stni_ranges *send,
                                struct stni_ranges *receive);

#endif
