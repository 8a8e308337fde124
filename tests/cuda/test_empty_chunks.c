/* Ranks of a device that have nothing of a tensor: results and gradients are those of one process on the CPU. */
#include "harness.h"
#include "on_ranks.h"

enum { RANKS = 3, CHANNELS = 8, HEIGHT = 4, WIDTH = 5, POINTS = 2, PLACES = HEIGHT * WIDTH };

struct sampled {
    double result[CHANNELS * POINTS], image[CHANNELS * PLACES], grid[POINTS * 2];
};

/* Numbers from -1 to 1 that differ with `seed`, of f64; of the dim `cut` all is on the middle rank. */
static stn_tensor *input(stn_context *context, const stn_mesh *mesh, const int64_t *shape, int cut, unsigned seed)
{
    const int64_t middle[RANKS] = {0, shape[cut], 0}, *const sizes[4] = {[0] = NULL, [2] = middle};
    const stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_placement placement = cut ? stn_shard(cut) : stn_replicate();
    const stn_spec *spec = NULL;
    double data[CHANNELS * PLACES];
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2] * shape[3]; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (double)(seed >> 8) / (1 << 23) - 1;
    }
    stn_spec_create(context, mesh, &placement, STN_DTYPE_F64, 4, shape, cut ? &options : NULL, &spec);
    stn_tensor *const tensor = stn_from_host_global(context, spec, data);
    stn_spec_release(&spec);
    return tensor;
}

static stn_status sample(stn_context *context, void *arg)
{
    static const int64_t image[] = {1, CHANNELS, HEIGHT, WIDTH}, grid[] = {1, 1, POINTS, 2},
                         result[] = {1, CHANNELS, 1, POINTS};
    const stn_mesh *const mesh = on_ranks_line(context);
    struct sampled *const to = arg;
    stn_tensor *leaves[2], *grad = NULL;
    stn_scope_begin(context);
    leaves[0] = input(context, mesh, image, stn_context_size(context) > 1 ? 2 : 0, 1);
    leaves[1] = input(context, mesh, grid, 0, 2);
    for (int i = 0; i < 2; i++)
        stn_set_requires_grad(leaves[i], 1);
    stn_tensor *const out = stn_grid_sample(leaves[0], leaves[1], STN_SAMPLE_BILINEAR, STN_SAMPLE_ZEROS, 0);
    stn_backward(stn_sum(stn_mul(out, input(context, mesh, result, 0, 3)), 0, NULL, 0));
    on_ranks_keep(context, out, to->result);
    if (CHECK_STATUS(stn_grad_of(leaves[0], &grad), STN_OK))
        on_ranks_keep(context, grad, to->image);
    if (CHECK_STATUS(stn_grad_of(leaves[1], &grad), STN_OK))
        on_ranks_keep(context, grad, to->grid);
    return stn_scope_end(context);
}

static void check_same(const double *got, const double *want, int n)
{
    for (int i = 0; i < n; i++)
        CHECK_NEAR(got[i], want[i], 1e-12);
}

/* Few points, for which the image stays where it is. Eight channels of f64 are enough for a copy of it by rows, which
 * two ranks have nothing of. */
static void an_image_on_one_rank_is_sampled_on_all(void)
{
    static struct sampled want, got;
    on_ranks(RANKS, sample, &want, &got);
    check_same(got.result, want.result, CHANNELS * POINTS);
    check_same(got.image, want.image, CHANNELS * PLACES);
    check_same(got.grid, want.grid, POINTS * 2);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"an_image_on_one_rank_is_sampled_on_all", an_image_on_one_rank_is_sampled_on_all},
    };
    return TEST_MAIN(argc, argv, cases);
}
