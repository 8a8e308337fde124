/* libsharp: the grid, the coefficients' order, and jobs on OpenMP's threads. */
#include "peer_sharp.h"

#include <libsharp/sharp.h>
#include <libsharp/sharp_almhelpers.h>
#include <libsharp/sharp_geomhelpers.h>

#include <stdlib.h>

void omp_set_num_threads(int n);

struct peer_sharp {
    int64_t fields, points, coefficients; /* of a field */
    sharp_geom_info *grid;
    sharp_alm_info *order;
    float *maps;
    float *alms; /* pairs */
};

struct peer_sharp *peer_sharp_create(int64_t degrees, int64_t fields)
{
    struct peer_sharp *peer = calloc(1, sizeof *peer);
    const int n = (int)degrees;
    if (peer == NULL)
        return NULL;
    peer->fields = fields;
    peer->points = 2 * degrees * degrees;
    peer->coefficients = degrees * (degrees + 1) / 2;
    peer->maps = malloc(sizeof *peer->maps * (size_t)(fields * peer->points));
    peer->alms = calloc(2 * (size_t)(fields * peer->coefficients), sizeof *peer->alms);
    if (peer->maps == NULL || peer->alms == NULL) {
        peer_sharp_destroy(&peer);
        return NULL;
    }
    sharp_make_gauss_geom_info(n, 2 * n, 0, 1, 2 * n, &peer->grid);
    sharp_make_triangular_alm_info(n - 1, n - 1, 1, &peer->order);
    for (int64_t i = 0; i < fields * peer->points; i++)
        peer->maps[i] = (float)(i % 127) / 64 - 1;
    return peer;
}

void peer_sharp_destroy(struct peer_sharp **peer)
{
    if (*peer == NULL)
        return;
    if ((*peer)->grid)
        sharp_destroy_geom_info((*peer)->grid);
    if ((*peer)->order)
        sharp_destroy_alm_info((*peer)->order);
    free((*peer)->maps);
    free((*peer)->alms);
    free(*peer);
    *peer = NULL;
}

void peer_sharp_run(struct peer_sharp *peer, int inverse, int threads, int64_t n)
{
    omp_set_num_threads(threads);
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < peer->fields; f++) {
            void *map = peer->maps + f * peer->points, *alm = peer->alms + 2 * f * peer->coefficients;
            sharp_execute(inverse ? SHARP_ALM2MAP : SHARP_MAP2ALM, 0, &alm, &map, peer->grid, peer->order, 0, NULL,
                          NULL);
        }
}
