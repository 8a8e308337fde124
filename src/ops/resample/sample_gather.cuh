/* Elements gather what the points of their lists (sample_lists.cuh) give to them. Neighbouring threads have
 * neighbouring channels, VECTOR each, which are read at once from rows (sample_rows.cuh).
 *
 * Lists are of any length. Of each GATHER_PIECE places in order that are of one list a kernel finds the sum before, and
 * elements take that: so no thread adds up more than a few hundred reads and the sums of pieces. Sums are f64's. */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_GATHER_CUH
#define STNI_OPS_RESAMPLE_SAMPLE_GATHER_CUH

#include "ops/resample/sample_lists.cuh"

namespace {

enum {
    GATHER_THREADS = 256,
    GATHER_ELEMENTS = WARP, /* of a block */
    GATHER_PIECE = 64,
    GATHER_AT_ONCE = 4,       /* reads whose rows a thread waits for at once */
    GATHER_PIECES_AT_ONCE = 2 /* the same of the sums of pieces */
};

template <class S> constexpr int gather_vector = 16 / (int)sizeof(S);

template <class S> struct gathering {
    lists<S> l;
    const S *rows;  /* [line][point][channel] */
    int64_t width;  /* of a row */
    double *pieces; /* [line][piece][channel] */
    int64_t points, n_pieces, elements, lines;
    unsigned team, teams;   /* threads of an element's row; elements of a block at a time */
    unsigned tiles, groups; /* blocks along elements and along channels */
    S *to;
    int64_t batch, channel, n_channels, first_element;
    operands<1> places;
    int adds; /* to what is there */
};

/* Adds what the reads `first` … `end` of a line give to VECTOR channels from `column` on. */
template <class S, int VECTOR>
STNI_DEVICE void add_reads(const gathering<S> &g, int64_t line, uint32_t first, uint32_t end, int64_t column,
                           double (&sum)[VECTOR])
{
    const read_entry *reads = g.l.reads + line * g.l.n_reads;
    const S *weights = g.l.weights + line * g.l.n_reads, *rows = g.rows + line * g.points * g.width + column;
    STNI_KEEP_LOOP
    for (uint32_t i = first; i < end; i += GATHER_AT_ONCE) {
        side_by_side<S, VECTOR> row[GATHER_AT_ONCE];
        S weight[GATHER_AT_ONCE];
        STNI_UNROLL
        for (uint32_t u = 0; u < GATHER_AT_ONCE; u++)
            if (i + u < end) {
                const uint32_t read = reads[i + u].place;
                weight[u] = weights[read];
                row[u] = *(const side_by_side<S, VECTOR> *)(rows + (int64_t)(read >> g.l.shift) * g.width);
            }
        STNI_UNROLL
        for (uint32_t u = 0; u < GATHER_AT_ONCE; u++)
            if (i + u < end)
                STNI_UNROLL
                for (int v = 0; v < VECTOR; v++)
                    sum[v] += (double)(weight[u] * row[u].v[v]);
    }
}

/* A team each piece; of those that are of more than one list, or of none, no sum is wanted. */
template <class S, int VECTOR>
__global__ void __launch_bounds__(GATHER_THREADS) sum_pieces(const __grid_constant__ gathering<S> g)
{
    const int64_t i = (int64_t)(blockIdx.x / g.groups) * g.teams + threadIdx.x / g.team, line = i / g.n_pieces,
                  piece = i % g.n_pieces;
    const int64_t column = ((int64_t)(blockIdx.x % g.groups) * g.team + threadIdx.x % g.team) * VECTOR;
    if (line >= g.lines || column >= g.width)
        return;
    const read_entry *reads = g.l.reads + line * g.l.n_reads + piece * GATHER_PIECE;
    if (reads[0].key != reads[GATHER_PIECE - 1].key || reads[0].key >= g.elements)
        return;
    double sum[VECTOR] = {};
    add_reads<S, VECTOR>(g, line, (uint32_t)piece * GATHER_PIECE, (uint32_t)(piece + 1) * GATHER_PIECE, column, sum);
    double *to = g.pieces + (line * g.n_pieces + piece) * g.width + column;
    STNI_UNROLL
    for (int v = 0; v < VECTOR; v++)
        to[v] = sum[v];
}

/* Adds the sums of the pieces `first` … `end` of a line. */
template <class S, int VECTOR>
STNI_DEVICE void add_pieces(const gathering<S> &g, int64_t line, uint32_t first, uint32_t end, int64_t column,
                            double (&sum)[VECTOR])
{
    const double *pieces = g.pieces + line * g.n_pieces * g.width + column;
    STNI_KEEP_LOOP
    for (uint32_t i = first; i < end; i += GATHER_PIECES_AT_ONCE) {
        double piece[GATHER_PIECES_AT_ONCE][VECTOR];
        STNI_UNROLL
        for (uint32_t u = 0; u < GATHER_PIECES_AT_ONCE; u++)
            STNI_UNROLL
            for (int v = 0; v < VECTOR; v++)
                piece[u][v] = i + u < end ? pieces[(i + u) * g.width + v] : 0;
        STNI_UNROLL
        for (uint32_t u = 0; u < GATHER_PIECES_AT_ONCE; u++)
            STNI_UNROLL
            for (int v = 0; v < VECTOR; v++)
                sum[v] += piece[u][v];
    }
}

/* Adds a list: what is before its first whole piece, these, and the rest. */
template <class S, int VECTOR>
STNI_DEVICE void add_list(const gathering<S> &g, int64_t line, uint32_t first, uint32_t end, int64_t column,
                          double (&sum)[VECTOR])
{
    const uint32_t piece = (first + GATHER_PIECE - 1) / GATHER_PIECE, end_piece = end / GATHER_PIECE;
    if (piece >= end_piece) {
        add_reads<S, VECTOR>(g, line, first, end, column, sum);
        return;
    }
    add_reads<S, VECTOR>(g, line, first, piece * GATHER_PIECE, column, sum);
    add_pieces<S, VECTOR>(g, line, piece, end_piece, column, sum);
    add_reads<S, VECTOR>(g, line, end_piece * GATHER_PIECE, end, column, sum);
}

template <class S> STNI_DEVICE void put_element(const gathering<S> &g, S &to, S value)
{
    to = g.adds ? to + value : value;
}

/* Writes a block's sums so that neighbouring threads write neighbouring elements of memory: those of one channel, or
 * the channels of one element. */
template <class S>
STNI_DEVICE void put_tile(const gathering<S> &g, const S *tile, int64_t line, int64_t first, int64_t column,
                          int columns)
{
    const bool is_last = g.channel == 1;
    const int n = GATHER_ELEMENTS * columns;
    STNI_KEEP_LOOP
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        const int element = is_last ? i / columns : i % GATHER_ELEMENTS;
        const int c = is_last ? i % columns : i / GATHER_ELEMENTS;
        int64_t at[1];
        if (first + element >= g.elements || column + c >= g.n_channels)
            continue;
        any_offsets_of(g.places, g.first_element + first + element, at);
        put_element(g, g.to[line * g.batch + (column + c) * g.channel + at[0]], tile[element * (columns + 1) + c]);
    }
}

template <class S, int VECTOR>
__global__ void __launch_bounds__(GATHER_THREADS) gather_reads(const __grid_constant__ gathering<S> g)
{
    STNI_SHARED(S, tile, GATHER_ELEMENTS * (WARP * VECTOR + 1));
    const int columns = (int)g.team * VECTOR, mine = (int)(threadIdx.x % g.team) * VECTOR;
    const unsigned group = blockIdx.x % g.groups, rest = blockIdx.x / g.groups;
    const int64_t line = rest / g.tiles, first = (int64_t)(rest % g.tiles) * GATHER_ELEMENTS,
                  column = (int64_t)group * columns;
    const uint32_t *begins = g.l.begins + line * (g.elements + 1) + first;
    STNI_KEEP_LOOP
    for (int e = (int)(threadIdx.x / g.team); e < GATHER_ELEMENTS; e += (int)g.teams) {
        double sum[VECTOR] = {};
        if (first + e < g.elements && column + mine < g.width)
            add_list<S, VECTOR>(g, line, begins[e], begins[e + 1], column + mine, sum);
        STNI_UNROLL
        for (int v = 0; v < VECTOR; v++)
            tile[e * (columns + 1) + mine + v] = (S)sum[v];
    }
    __syncthreads();
    put_tile(g, tile, line, first, column, columns);
}

template <class S, int VECTOR> void launch_gathering(gathering<S> g, cudaStream_t stream)
{
    g.team = 1;
    while (g.team < WARP && g.team * VECTOR < g.width)
        g.team *= 2;
    const unsigned most = GATHER_THREADS / g.team;
    g.teams = most < GATHER_ELEMENTS ? most : (unsigned)GATHER_ELEMENTS;
    g.tiles = (unsigned)stni_ceil_div(g.elements, GATHER_ELEMENTS);
    g.groups = (unsigned)stni_ceil_div(g.width, g.team * VECTOR);
    const int threads = (int)(g.team * g.teams);
    if (g.n_pieces > 0)
        STNI_LAUNCH((sum_pieces<S, VECTOR>), blocks_for(stni_ceil_div(g.lines * g.n_pieces, g.teams) * g.groups, 1),
                    threads, stream, g);
    STNI_LAUNCH((gather_reads<S, VECTOR>), blocks_for(g.lines * g.tiles * g.groups, 1), threads, stream, g);
}

}

#endif
