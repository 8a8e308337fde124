/* Halos: boxes drawn at random, of every rank, over random layouts and boundaries, against the tensor's values. */
#include "core/shard/world.h"
#include "dispatch/services.h"
#include "ops/against_one.h"
#include "ops/exchange/beyond.h"
#include "ops/exchange/halo.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

enum { BOXES = 3 };

/* Every rank's boxes follow from a seed and its coordinates. */
struct wish {
    const stn_spec *spec;
    int n_dims, dim[STNI_HALO_MAX_DIMS];
    uint64_t seed;
    int far; /* boxes may lie this far outside the tensor */
};

static int boxes_of(const void *arg, const int *coordinate, struct stni_halo_box *boxes)
{
    const struct wish *wish = arg;
    const stn_mesh *mesh = wish->spec->layout.mesh;
    uint64_t state = wish->seed;
    for (int a = 0; mesh != NULL && a < mesh->ndim; a++) {
        state += (uint64_t)coordinate[a] * 77 + 5;
        world_random(&state, 2);
    }
    int n = (int)world_random(&state, BOXES + 1);
    for (int b = 0; b < n; b++)
        for (int d = 0; d < wish->n_dims; d++) {
            int64_t size = wish->spec->layout.shape[wish->dim[d]] + 2 * wish->far;
            int64_t begin = (int64_t)world_random(&state, (uint64_t)size + 1);
            int64_t end = begin + (int64_t)world_random(&state, (uint64_t)(size - begin) + 1);
            boxes[b].range[d] = (struct stni_range){begin - wish->far, end - wish->far};
        }
    return n;
}

/* Anybody may read anything. */
static int all_readers(const void *arg, int d, struct stni_range elements, struct stni_range *pieces)
{
    const struct wish *wish = arg;
    const struct stni_split *split = wish->spec->layout.split[wish->dim[d]];
    (void)elements;
    pieces[0] = (struct stni_range){0, split->n_parts / 2};
    pieces[1] = (struct stni_range){split->n_parts / 3, split->n_parts};
    return 2;
}

/* The value that element `at` (row-major) of a box's buffer should have. */
static double wanted(const struct wish *wish, const struct stni_halo *halo, const stn_box *buffer,
                     const struct stni_halo_box *box, int own_too, const double *values, int64_t at)
{
    const stn_spec *spec = wish->spec;
    int64_t index[STN_MAX_NDIM], whole = 0, own = 1, plain = 1;
    for (int d = buffer->ndim; d-- > 0; at /= buffer->shape[d])
        index[d] = at % buffer->shape[d] + spec->local_offset[d];
    for (int i = 0; i < wish->n_dims; i++) {
        int d = wish->dim[i];
        int64_t position = index[d] - spec->local_offset[d] + box->range[i].begin;
        index[d] = element_at(halo->dims[i].boundary, spec->layout.shape[d], position);
        if (index[d] < 0)
            return 0;
        plain &= index[d] == position;
    }
    for (int d = 0; d < buffer->ndim; d++) {
        own &= index[d] >= spec->local_offset[d] && index[d] < spec->local_offset[d] + spec->local_shape[d];
        whole = whole * spec->layout.shape[d] + index[d];
    }
    return own && plain && !own_too ? 0 : values[whole];
}

/* Row-major buffers for this rank's boxes. */
static stn_box buffer_for(const struct wish *wish, const struct stni_halo_box *box, double **data)
{
    stn_box buffer = {.ndim = wish->spec->layout.ndim};
    int64_t n = 1;
    memcpy(buffer.shape, wish->spec->local_shape, sizeof wish->spec->local_shape);
    for (int i = 0; i < wish->n_dims; i++)
        buffer.shape[wish->dim[i]] = stni_range_length(box->range[i]);
    for (int d = buffer.ndim; d-- > 0; n *= buffer.shape[d])
        buffer.strides[d] = n;
    *data = malloc(((size_t)n + 1) * sizeof **data);
    for (int64_t i = 0; i < n; i++)
        (*data)[i] = -77;
    buffer.data = *data;
    return buffer;
}

static void check_fetch(stn_context *context, uint64_t *state)
{
    struct random_shape shape = {.ndim = 1 + (int)world_random(state, 4)};
    for (int d = 0; d < shape.ndim; d++)
        shape.shape[d] = 1 + (int64_t)world_random(state, 9);
    const stn_mesh *mesh = random_mesh(state, context);
    const stn_spec *spec = random_spec(state, context, mesh, &shape, STN_DTYPE_F64, 0);
    struct wish wish = {.spec = spec, .seed = *state, .far = (int)world_random(state, 12)};
    struct stni_halo halo = {.arg = &wish, .boxes = boxes_of, .readers = all_readers};
    uint64_t own = world_random(state, 1 << BOXES);
    for (int d = 0; d < shape.ndim && wish.n_dims < STNI_HALO_MAX_DIMS; d++)
        if (world_random(state, 3) > 0) {
            halo.dims[wish.n_dims].dim = wish.dim[wish.n_dims] = d;
            halo.dims[wish.n_dims++].boundary = (enum stni_boundary)world_random(state, 4);
        }
    halo.n_dims = wish.n_dims;
    double *values = against_one_draw(state, against_one_numel(&shape)), *data[BOXES];
    stn_tensor *source = against_one_tensor(context, spec, values);
    stn_op_call call = {.size = sizeof call, .context = context};
    struct stni_halo_box boxes[STNI_HALO_MAX_BOXES];
    stn_box buffers[BOXES];
    halo.source = source;
    int n = spec->layout.mesh->member ? boxes_of(&wish, spec->layout.mesh->coordinate, boxes) : 0,
        mark = stni_scratch_mark(context);
    for (int b = 0; b < n; b++)
        buffers[b] = buffer_for(&wish, &boxes[b], &data[b]);
    if (spec->layout.mesh->member)
        CHECK_STATUS(stni_halo_fetch(&call, &halo, buffers, own), STN_OK);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    stni_scratch_release(context, mark);
    for (int b = 0; b < n; b++) {
        int64_t count = 1;
        for (int d = 0; d < buffers[b].ndim; d++)
            count *= buffers[b].shape[d];
        for (int64_t i = 0; i < count; i++)
            CHECK_NEAR(data[b][i], wanted(&wish, &halo, &buffers[b], &boxes[b], (int)(own >> b & 1), values, i), 0);
        free(data[b]);
    }
    stn_tensor_release(&source);
    stn_spec_release(&spec);
    free(values);
}

static stn_status random_body(stn_context *context, void *arg)
{
    uint64_t state = 5;
    (void)arg;
    for (int i = 0; i < 150; i++)
        check_fetch(context, &state);
    CHECK(1);
    return STN_OK;
}

static void any_box_of_any_rank_holds_the_values_that_stand_there(void)
{
    static const int worlds[] = {1, 2, 3, 5, 6};
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], random_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"any_box_of_any_rank_holds_the_values_that_stand_there",
         any_box_of_any_rank_holds_the_values_that_stand_there},
    };
    return TEST_MAIN(argc, argv, cases);
}
