#include "sample.h"

#include "core/gaps.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void sample_die(stn_context *context, const char *what, stn_status status)
{
    CHECK_STATUS(status, STN_OK);
    fprintf(stderr, "  %s: %s\n", what, stn_context_error_text(context));
    exit(EXIT_FAILURE);
}

int sample_next(int ndim, const int64_t *shape, int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d])
            return 1;
        index[d] = 0;
    }
    return 0;
}

int64_t sample_linear(int ndim, const int64_t *shape, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < ndim; d++)
        at = at * shape[d] + index[d];
    return at;
}

int sample_holds(const stn_spec *spec, int rank, const int64_t *index)
{
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    if (stni_mesh_position(spec->layout.mesh, rank) < 0)
        return 0;
    stn_spec_chunk(spec, rank, shape, offset);
    for (int d = 0; d < spec->layout.ndim; d++)
        if (index[d] < offset[d] || index[d] >= offset[d] + shape[d])
            return 0;
    return 1;
}

/* Scrambles: every bit of the result depends on every bit of the argument (SplitMix64's finaliser). */
static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t sample_bits(int64_t at)
{
    static const uint64_t special[] = {UINT64_C(0x8000000000000000), UINT64_C(0x7ff8000000000123),
                                       UINT64_C(0xfff0000000000000)};
    uint64_t bits = scramble((uint64_t)at + 1);
    return bits % 5 < 3 ? special[bits % 3] : bits;
}

double sample_addend(const stn_spec *spec, const int *at, int64_t element)
{
    uint64_t seed = (uint64_t)element + 1;
    for (int a = 0; a < spec->layout.mesh->ndim; a++)
        if (spec->layout.placement[a].kind == STN_PLACE_PARTIAL)
            seed = scramble(seed + (uint64_t)(at[a] + 1));
    return (double)(int64_t)(seed % 7) - 3;
}

void *sample_chunk(const stn_spec *spec, int bits)
{
    int ndim = spec->layout.ndim;
    double *chunk = malloc(((size_t)spec->local_numel + 1) * sizeof *chunk);
    int64_t index[STN_MAX_NDIM] = {0}, global[STN_MAX_NDIM];
    for (int64_t i = 0; i < spec->local_numel; i++) {
        for (int d = 0; d < ndim; d++)
            global[d] = spec->local_offset[d] + index[d];
        int64_t at = sample_linear(ndim, spec->layout.shape, global);
        uint64_t word = sample_bits(at);
        if (bits)
            memcpy(&chunk[i], &word, sizeof word);
        else
            chunk[i] = sample_addend(spec, spec->layout.mesh->coordinate, at);
        sample_next(ndim, spec->local_shape, index);
    }
    return chunk;
}

stn_tensor *sample_tensor(stn_context *context, const stn_spec *spec, const void *chunk, int gaps)
{
    static const int64_t before[STN_MAX_NDIM] = {1, 0, 2, 1}, after[STN_MAX_NDIM] = {0, 2, 1, 1};
    stn_tensor *dense = stn_from_host(context, spec, chunk), *wide;
    if (stn_tensor_is_error(dense))
        sample_die(context, "stn_from_host", stn_context_status(context));
    if (!gaps || spec->local_numel == 0)
        return dense;
    stn_box from, to;
    MUST(context, make_with_gaps(context, spec, before, after, &wide));
    stni_tensor_box(dense, &from);
    stni_tensor_box(wide, &to);
    MUST(context, stni_box_copy(context->queue, &to, &from, stn_dtype_size(spec->layout.dtype)));
    stn_tensor_release(&dense);
    return wide;
}

const stn_spec *sample_line_spec(stn_context *context, stn_placement p, const int64_t *shape)
{
    const stn_mesh *mesh;
    const stn_spec *spec;
    MUST(context, stn_mesh_create(context, 1, &context->size, NULL, NULL, &mesh));
    MUST(context, stn_spec_create(context, mesh, &p, STN_DTYPE_F64, 2, shape, NULL, &spec));
    return spec;
}
