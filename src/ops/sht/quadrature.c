/* The latitudes of a grid and their weights, for callers. */
#include "ops/sht/quadrature.h"

static double angle_of(const struct stni_quadrature_nodes *nodes, int i)
{
    const double x = nodes->cosine[i], rest = nodes->rest[i];
    return atan2(sqrt((1 - x - rest) * (1 + x + rest)), x);
}

stn_status stn_sht_latitudes(stn_sht_grid grid, int64_t nlat, double *colatitudes, double *weights)
{
    struct stni_quadrature_nodes nodes;
    if ((unsigned)grid > STN_SHT_LOBATTO || nlat < (grid == STN_SHT_LEGENDRE_GAUSS ? 1 : 2) || nlat > 32768)
        return STN_ERR_ARGUMENT;
    for (int64_t k = 0; k < (nlat + 1) / 2; k++) {
        const int64_t i = k % STNI_QUADRATURE_LANES, mirror = nlat - 1 - k;
        if (i == 0)
            stni_quadrature_nodes_of(grid, nlat, k, &nodes, STNI_QUADRATURE_LANES);
        const double theta =
            grid == STN_SHT_EQUIANGULAR ? STNI_PI * (double)k / (double)(nlat - 1) : angle_of(&nodes, (int)i);
        if (colatitudes) {
            colatitudes[mirror] = STNI_PI - theta;
            colatitudes[k] = theta;
        }
        if (weights)
            weights[mirror] = weights[k] = nodes.weight[i];
    }
    return STN_OK;
}
