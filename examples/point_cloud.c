/* A point transformer (Zhao et al., "Point transformer", 2021) that tells spheres from cubes and tori, on clouds whose
 * points ranks share unevenly, one of them with none, by cuts that go through clouds. Each point attends to those near
 * it, by how they lie to it; what it needs of them comes from the ranks that have them. Then the network is left as it
 * is and points move, so that their clouds look like others. Losses, weights, gradients of positions and the places
 * where points come to are those of one rank. */
#include "common/same_results.h"
#include "common/uneven_cut.h"

#include <math.h>
#include <stdio.h>

enum { CLOUDS = 9, SHAPES = 3, EACH = 27, POINTS = CLOUDS * EACH, K = 6, WIDTH = 8, LAYERS = 2, STEPS = 60, MOVES = 6 };
static const double PI = 3.14159265358979, APART = 100; /* of clouds, so that neighbours are of one cloud */

struct clouds {
    stn_tensor *positions; /* (points, 3), around the cloud's middle */
    stn_tensor *cloud;     /* (points), which one a point is of */
    stn_tensor *shape;     /* (clouds), on every rank */
};

struct network {
    stn_context *ctx;
    const stn_mesh *mesh;
    stn_params *params; /* made where they are first asked for */
};

static stn_tensor *by_inputs(stn_context *ctx, const stn_spec *spec)
{
    return stn_kaiming_normal(ctx, spec, 1, STN_FAN_IN);
}

/* Every rank has the whole of a matrix. */
static stn_tensor *linear(const struct network *net, int layer, const char *what, stn_tensor *x, int64_t in,
                          int64_t out)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", layer, what);
    const stn_spec *spec = stn_spec_of(net->mesh, STN_DTYPE_F64, "R", 2, (int64_t[]){out, in});
    return stn_linear(x, stn_params_get(net->params, name, spec, by_inputs), NULL);
}

/* Rows (points, columns) of each point's neighbours: (points, K, columns). */
static stn_tensor *of_neighbours(stn_tensor *rows, stn_tensor *neighbours, int64_t columns)
{
    return stn_view(stn_index_select(rows, 0, neighbours), 3, (int64_t[]){POINTS, K, columns});
}

/* Weights of neighbours, one for each of the features, follow from what both are and from where one lies to the other,
 * and so does what is taken from them. */
static stn_tensor *attend(const struct network *net, int l, stn_tensor *x, stn_tensor *offsets, stn_tensor *neighbours)
{
    const int among_neighbours = 1;
    stn_tensor *place = stn_silu(linear(net, l, "offset", offsets, 3, WIDTH)), *part[2] = {NULL};
    place = linear(net, l, "place", place, WIDTH, WIDTH);
    stn_tensor *keys_values = linear(net, l, "key and value", x, WIDTH, 2 * WIDTH), *score;
    stn_chunk(of_neighbours(keys_values, neighbours, 2 * WIDTH), 2, 2, 2, part);
    score = stn_sub(stn_unsqueeze(linear(net, l, "query", x, WIDTH, WIDTH), 1), part[0]);
    score = stn_silu(linear(net, l, "both", stn_add(score, place), WIDTH, WIDTH));
    score = stn_softmax(linear(net, l, "score", score, WIDTH, WIDTH), 1);
    stn_tensor *taken = stn_sum(stn_mul(score, stn_add(part[1], place)), 1, &among_neighbours, 0);
    return stn_add(x, linear(net, l, "merge", stn_silu(taken), WIDTH, WIDTH));
}

/* Scores of shapes: for each cloud their probabilities' logarithms, but for a constant. */
static stn_tensor *predict(const struct network *net, const struct clouds *c)
{
    const int64_t edges = POINTS * K;
    stn_tensor *aside = stn_mul_number(stn_cast(stn_unsqueeze(c->cloud, 1), STN_DTYPE_F64), APART);
    stn_tensor *apart = stn_add(stn_detach(c->positions), aside);
    stn_tensor *neighbours = stn_view(stn_knn(apart, apart, K, NULL), 1, &edges);
    stn_tensor_keep_routes(neighbours, 1); /* by which all layers and their gradients go */
    stn_tensor *offsets = stn_sub(of_neighbours(c->positions, neighbours, 3), stn_unsqueeze(c->positions, 1));
    stn_tensor *x = stn_silu(linear(net, LAYERS, "in", c->positions, 3, WIDTH));
    for (int l = 0; l < LAYERS; l++)
        x = attend(net, l, x, offsets, neighbours);
    const stn_spec *spec = stn_spec_of(net->mesh, STN_DTYPE_F64, "R", 2, (int64_t[]){CLOUDS, WIDTH});
    stn_tensor *mean = stn_index_add(stn_zeros(net->ctx, spec), 0, c->cloud, x, 1.0 / EACH);
    return linear(net, LAYERS, "out", mean, WIDTH, SHAPES); /* sums over ranks are still to be completed */
}

static stn_tensor *loss_of(const struct network *net, const struct clouds *c)
{
    return stn_cross_entropy(predict(net, c), c->shape, NULL, -100, STN_REDUCE_MEAN, 0);
}

/* Random clouds */

static stn_tensor *draw_torus(const struct network *net)
{
    const stn_spec *spec = uneven_spec(net->mesh, "S0", 2, (int64_t[]){POINTS, 1});
    stn_tensor *around = stn_uniform(net->ctx, spec, 0, 2 * PI), *through = stn_uniform(net->ctx, spec, 0, 2 * PI);
    stn_tensor *radius = stn_add_number(stn_mul_number(stn_cos(through), 0.3), 0.8);
    stn_tensor *xyz[] = {stn_mul(radius, stn_cos(around)), stn_mul(radius, stn_sin(around)),
                         stn_mul_number(stn_sin(through), 0.3)};
    return stn_cat(3, xyz, 1);
}

/* In turn a sphere, a cube and a torus. */
static struct clouds draw(const struct network *net)
{
    const int64_t points = POINTS, clouds = CLOUDS;
    const int along_columns = 1;
    const stn_spec *spec = uneven_spec(net->mesh, "S0", 2, (int64_t[]){POINTS, 3});
    stn_tensor *number = stn_arange(net->ctx, uneven_spec(net->mesh, "S0", 1, &points), 0, 1);
    stn_tensor *cloud = stn_floor(stn_div_number(number, EACH));
    stn_tensor *shape = stn_unsqueeze(stn_remainder_number(cloud, SHAPES), 1);
    stn_tensor *sphere = stn_normalize(stn_randn(net->ctx, spec), 2, 1, &along_columns, 1e-12);
    stn_tensor *cube = stn_uniform(net->ctx, spec, -0.7, 0.7), *torus = draw_torus(net);
    cube = stn_mul_number(stn_normalize(cube, INFINITY, 1, &along_columns, 1e-12), 0.7);
    stn_tensor *positions = stn_where(stn_eq_number(shape, 0), sphere, stn_where(stn_eq_number(shape, 1), cube, torus));
    stn_tensor *turn = stn_arange(net->ctx, stn_spec_of(net->mesh, STN_DTYPE_I64, "R", 1, &clouds), 0, 1);
    return (struct clouds){positions, stn_cast(cloud, STN_DTYPE_I64), stn_remainder_number(turn, SHAPES)};
}

/* On the way to a loss points go round when neighbours are looked for, and rows of neighbours come when they are asked
 * for. Two tensors go to another layout: the zeros that clouds are added to, for which nothing is sent, and the scores
 * of clouds, a few numbers, when these sums are completed. */
static stn_status check_moved(const struct network *net)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(net->ctx, &stats);
    return stats.redistributions <= 2 && stats.fallbacks == 0 ? STN_OK : STN_ERR_STATE;
}

static double train_step(const struct network *net, stn_optimizer *optimizer, int64_t number)
{
    double loss = NAN;
    stn_scope_begin(net->ctx);
    stn_context_stats_reset(net->ctx);
    const struct clouds clouds = draw(net);
    stn_tensor *mean = loss_of(net, &clouds);
    stn_agree(net->ctx, check_moved(net), "more than sums over clouds went to another layout");
    stn_backward(mean);
    stn_item(mean, &loss);
    stn_optimizer_set_rate_factor(optimizer, stn_schedule_cosine(number, 3, STEPS, 0.1));
    stn_optimizer_step(optimizer);
    stn_params_zero_grad(net->params);
    stn_scope_end(net->ctx);
    return loss;
}

static void train(const struct network *net, struct results *results)
{
    stn_optimizer *optimizer = NULL;
    double end = 0; /* mean of ten steps */
    const struct clouds clouds = draw(net);
    loss_of(net, &clouds); /* asks for every weight, which makes it */
    stn_adamw_create(net->ctx, NULL, &optimizer);
    stn_optimizer_add_params(optimizer, net->params, 0.03);
    for (int i = 0; i < STEPS && stn_context_status(net->ctx) == STN_OK; i++) {
        results->value[i] = train_step(net, optimizer, i);
        end += i >= STEPS - 10 ? results->value[i] / 10 : 0;
    }
    results->n = STEPS;
    for (int i = 0; i < stn_params_count(net->params); i++)
        results_add(results, stn_params_tensors(net->params)[i]);
    stn_optimizer_destroy(&optimizer);
    if (stn_context_rank(net->ctx) == 0)
        printf("cross entropy %.3f in the last ten steps, %.3f by chance\n", end, log(SHAPES));
    stn_agree(net->ctx, end < 0.5 * log(SHAPES) ? STN_OK : STN_ERR_VALUE, "the network does not learn");
}

/* Every cloud is to become of the next shape: points go down the slope of the loss, and neighbours are found anew. */
static void move(const struct network *net, struct results *results)
{
    struct clouds clouds = draw(net);
    double begin = NAN, end = NAN;
    clouds.shape = stn_remainder_number(stn_add_number(clouds.shape, 1), SHAPES);
    for (int i = 0; i < MOVES; i++) {
        stn_tensor *slope = NULL;
        clouds.positions = stn_detach(clouds.positions);
        stn_set_requires_grad(clouds.positions, 1);
        stn_tensor *loss = loss_of(net, &clouds);
        stn_item(loss, i == 0 ? &begin : &end);
        if (stn_grad(net->ctx, 1, &loss, NULL, 1, &clouds.positions, 0, 0, &slope) == STN_OK)
            results_add(results, slope);
        clouds.positions = stn_sub_scaled(clouds.positions, slope, 1);
    }
    results_add(results, clouds.positions);
    if (stn_context_rank(net->ctx) == 0)
        printf("cross entropy with the next shape %.3f, %.3f when points have moved\n", begin, end);
    stn_agree(net->ctx, end < 0.5 * begin ? STN_OK : STN_ERR_VALUE, "points do not move to where they should");
}

static stn_status program(stn_context *ctx, void *results)
{
    const int ranks = stn_context_size(ctx);
    struct network net = {.ctx = ctx};
    stn_mesh_create(ctx, 1, &ranks, NULL, NULL, &net.mesh);
    stn_params_create(ctx, &net.params);
    stn_scope_begin(ctx);
    train(&net, results);
    move(&net, results);
    stn_params_destroy(&net.params);
    return stn_scope_end(ctx);
}

int main(void)
{
    return same_results("point_cloud", 1, program);
}
