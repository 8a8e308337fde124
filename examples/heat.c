/* A solver's time loop: heat on a periodic plane, rows spread unevenly over thread ranks, by cuts of its own. The
 * five-point stencil is a convolution whose halos come from the neighbours' chunks; after 200 steps the heat in all is
 * what it was. */
#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 37, COLUMNS = 24, STEPS = 200, MOST_RANKS = 256 };

static stn_tensor *stencil(stn_context *ctx, const stn_mesh *mesh, double k)
{
    const float weights[9] = {0, (float)k, 0, (float)k, (float)(1 - 4 * k), (float)k, 0, (float)k, 0};
    const stn_placement replicate = stn_replicate();
    const stn_spec *spec;
    if (stn_spec_create(ctx, mesh, &replicate, STN_DTYPE_F32, 4, (int64_t[]){1, 1, 3, 3}, NULL, &spec) != STN_OK)
        return NULL;
    stn_tensor *t = stn_from_host(ctx, spec, weights);
    stn_spec_release(&spec);
    return t;
}

/* Rank 0 takes as many rows as two others, as if its processor were twice as fast. More ranks than rows: some get
 * none. */
static void cut_rows(int ranks, int64_t *rows)
{
    int64_t first = 0;
    for (int r = 0; r < ranks; r++) {
        const int64_t end = (int64_t)ROWS * (r + 2) / (ranks + 1);
        rows[r] = end - first;
        first = end;
    }
}

/* One degree everywhere, a hundred in one cell. Each rank fills its own rows. */
static stn_tensor *start(stn_context *ctx, const stn_mesh *mesh)
{
    const int ranks = stn_context_size(ctx);
    int64_t sizes[MOST_RANKS];
    cut_rows(ranks, sizes);
    const stn_spec *balanced = stn_spec_of(mesh, STN_DTYPE_F32, "S2", 4, (int64_t[]){1, 1, ROWS, COLUMNS});
    const stn_spec *spec = stn_spec_with_sizes(balanced, 2, ranks, sizes);
    stn_spec_release(&balanced);
    if (!spec)
        return NULL;
    int64_t rows = stn_spec_local_shape(spec)[2], first = stn_spec_local_offset(spec)[2];
    float *u = malloc((size_t)(rows * COLUMNS + 1) * sizeof *u);
    for (int64_t i = 0; u && i < rows * COLUMNS; i++)
        u[i] = first + i / COLUMNS == ROWS / 2 && i % COLUMNS == COLUMNS / 2 ? 100 : 1;
    stn_tensor *t = u ? stn_from_host(ctx, spec, u) : NULL;
    free(u);
    stn_spec_release(&spec);
    return t;
}

static double total(stn_context *ctx, stn_tensor *u)
{
    double sum = NAN;
    stn_scope_begin(ctx);
    stn_item(stn_sum(u, 0, NULL, 0), &sum);
    stn_scope_end(ctx);
    return sum;
}

/* Replaces *u by what one step makes of it. Outside scopes the caller owns its handles, so the old field is released
 * here. */
static stn_status advance(stn_context *ctx, stn_tensor **u, stn_tensor *weights)
{
    const stn_conv_attrs periodic = {
        .size = sizeof periodic, .padding = {1, 1}, .mode = {STN_PADDING_CIRCULAR, STN_PADDING_CIRCULAR}};
    stn_tensor *next;
    stn_scope_begin(ctx);
    stn_status status = stn_scope_end_keep(ctx, stn_conv2d(*u, weights, NULL, &periodic), &next);
    if (status != STN_OK)
        return status;
    stn_tensor_release(u);
    *u = next;
    return STN_OK;
}

static stn_status rank_main(stn_context *ctx, void *arg)
{
    int ranks = stn_context_size(ctx);
    const stn_mesh *mesh;
    (void)arg;
    if (ranks > MOST_RANKS)
        return STN_ERR_ARGUMENT;
    if (stn_mesh_create(ctx, 1, &ranks, NULL, NULL, &mesh) != STN_OK)
        return stn_context_status(ctx);
    stn_tensor *weights = stencil(ctx, mesh, 0.2), *u = start(ctx, mesh);
    double before = total(ctx, u);
    stn_status status = STN_OK;
    for (int step = 0; step < STEPS && status == STN_OK; step++)
        status = advance(ctx, &u, weights);
    double after = total(ctx, u);
    if (stn_context_rank(ctx) == 0)
        printf("heat before %.3f, after %.3f\n", before, after);
    stn_tensor_release(&weights);
    stn_tensor_release(&u);
    if (status != STN_OK)
        return status;
    return stn_agree(ctx, fabs(after - before) < 1e-4 * before ? STN_OK : STN_ERR_VALUE, "heat was lost or made");
}

int main(void)
{
    char why[256] = "";
    stn_launch_options options = {
        .size = sizeof options, .ranks = 3, .context = {.error_text = why, .error_text_size = sizeof why}};
    const stn_status status = stn_launch(&options, rank_main, NULL);
    if (status == STN_OK)
        return 0;
    fprintf(stderr, "heat: %s: %s\n", stn_status_text(status), why);
    return 1;
}
