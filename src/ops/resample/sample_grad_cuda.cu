/* The gradients of grid_sample on a CUDA device. The input's: points are put in order by the elements that they read,
 * and these gather (sample_gather.cuh). The grid's: a team of threads each point, which reads rows of channels
 * (sample_slopes.cuh), or a thread each point, where copying the input would take longer.
 *
 * Some batch entries are worked on at once, and of many points or elements some: so much memory as SPAN_BYTES says. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/resample/sample_gather.cuh"
#include "ops/resample/sample_rows.cuh"
#include "ops/resample/sample_slopes.cuh"

namespace {

enum { THREADS = 128 };

/* Over channels: the cotangent of a point times the element that it reads at each of READS offsets; -1: none. */
template <class S, int READS>
STNI_DEVICE void sum_reads(const stni_sample_args &a, int64_t batch, const int64_t (&at)[STNI_SAMPLE_DIMS],
                           const int64_t *offsets, double *sums)
{
    const S *grad = (const S *)a.output.data + batch * a.output.batch + stni_sample_offset(&a.output, at);
    const S *from = (const S *)a.input.data + batch * a.input.batch;
    int64_t offset[READS];
    double sum[READS] = {};
    STNI_UNROLL
    for (int k = 0; k < READS; k++)
        offset[k] = offsets[k];
    STNI_KEEP_LOOP
    for (int64_t c = 0; c < a.n_channels; c++) {
        const double g = (double)*grad;
        STNI_UNROLL
        for (int k = 0; k < READS; k++)
            sum[k] += offset[k] >= 0 ? g * (double)from[offset[k]] : 0;
        grad += a.output.channel;
        from += a.input.channel;
    }
    STNI_UNROLL
    for (int k = 0; k < READS; k++)
        sums[k] = sum[k];
}

template <class S> __global__ void __launch_bounds__(THREADS) put_gradients(const __grid_constant__ stni_sample_args a)
{
    enum { TOGETHER = 4 }; /* of bilinear sampling in two dims all, of bicubic and trilinear a row and a plane */
    const int64_t points = a.n_points[0] * a.n_points[1] * a.n_points[2];
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, batch = i / points;
    const int n_reads = stni_sample_n_reads(&a);
    int64_t offset[STNI_SAMPLE_READS];
    double sum[STNI_SAMPLE_READS], gradient[STNI_SAMPLE_DIMS] = {0};
    sampled_point p;
    if (batch >= a.n_batch)
        return;
    find_point<S>(a, batch, i % points, p);
    STNI_KEEP_LOOP
    for (int k = 0; k < n_reads; k++) {
        int tap[STNI_SAMPLE_DIMS];
        int64_t place[STNI_SAMPLE_DIMS];
        stni_sample_split(&a, k, p.n_taps, tap);
        offset[k] = stni_sample_locate(&a, p.taps, tap, place) ? stni_sample_offset(&a.input, place) : -1;
    }
    STNI_KEEP_LOOP
    for (int k = 0; k < n_reads; k += n_reads % TOGETHER == 0 ? TOGETHER : 1)
        if (n_reads % TOGETHER == 0)
            sum_reads<S, TOGETHER>(a, batch, p.at, offset + k, sum + k);
        else
            sum_reads<S, 1>(a, batch, p.at, offset + k, sum + k);
    STNI_KEEP_LOOP
    for (int k = 0; k < n_reads; k++) {
        int tap[STNI_SAMPLE_DIMS];
        if (offset[k] < 0)
            continue;
        stni_sample_split(&a, k, p.n_taps, tap);
        const double w[] = {p.taps[0].weight[tap[0]], p.taps[1].weight[tap[1]], p.taps[2].weight[tap[2]]};
        gradient[0] += sum[k] * p.taps[0].derivative[tap[0]] * w[1] * w[2];
        gradient[1] += sum[k] * w[0] * p.taps[1].derivative[tap[1]] * w[2];
        gradient[2] += sum[k] * w[0] * w[1] * p.taps[2].derivative[tap[2]];
    }
    S *to = (S *)a.grad_grid.data + batch * a.grad_grid.batch + stni_sample_offset(&a.grad_grid, p.at);
    for (int d = 0; d < a.dims; d++)
        to[d * a.grad_grid.channel] = (S)gradient[STNI_SAMPLE_DIMS - 1 - d];
}

/* How the work is divided, and how wide rows are. */
struct grad_plan {
    int64_t width, lines, points, elements;
    bool gathers, has_slopes; /* the input's gradient is wanted; the grid's, by rows */
};

/* The workspace of a span. Copies of the input come where the lists were. */
template <class S> struct grad_space {
    S *rows, *input_rows;
    lists<S> l;
    double *pieces;
    size_t bytes;
};

constexpr int64_t SPAN_ELEMENTS = 1 << 25;

template <class S> grad_space<S> place_span(const stni_sample_args &a, const grad_plan &p, const span &s, void *memory)
{
    grad_space<S> space = {};
    char *at = static_cast<char *>(memory);
    const size_t rows = round_to_256((size_t)(s.lines * s.points * p.width) * sizeof(S));
    const int64_t pieces = s.lines * ((s.points << shift_of(a)) / GATHER_PIECE) * p.width;
    size_t gathering = 0, slopes = 0;
    space.rows = reinterpret_cast<S *>(at);
    space.input_rows = reinterpret_cast<S *>(at + rows);
    if (p.gathers) {
        gathering = place_lists(a, s, at + rows, space.l);
        space.pieces = reinterpret_cast<double *>(at + rows + gathering);
        gathering += (size_t)pieces * sizeof(double);
    }
    if (p.has_slopes)
        slopes = (size_t)(s.lines * elements_of(a) * p.width) * sizeof(S);
    space.bytes = rows + (gathering > slopes ? gathering : slopes);
    return space;
}

template <class S> grad_plan plan_gradients(const stni_sample_args &a)
{
    const int64_t reads = stni_sample_n_reads(&a), vector = a.n_channels < gather_vector<S> ? 1 : gather_vector<S>;
    grad_plan p = {padded_channels(a, vector), 1, points_of(a), elements_of(a), false, false};
    p.gathers = a.grad_input.data != NULL;
    p.has_slopes = a.grad_grid.data && pays_by_rows(a, vector, sizeof(S));
    const int64_t of_read = (int64_t)(2 * sizeof(read_entry) + sizeof(S)),
                  of_point = p.width * (int64_t)sizeof(S) + reads * of_read + reads * p.width / 8 + 1;
    p.points = smaller(p.points, SPAN_BYTES / 2 / of_point + GATHER_PIECE);
    p.elements = smaller(p.elements, SPAN_ELEMENTS);
    const span one = {0, 1, 0, p.points, 0, p.elements};
    const int64_t fit = SPAN_BYTES / (int64_t)(place_span<S>(a, p, one, NULL).bytes + 1);
    const int64_t spans = stni_ceil_div(a.n_batch, fit > 0 ? fit : 1);
    p.lines = stni_ceil_div(a.n_batch, spans);
    return p;
}

/* Whether there is anything to add. */
inline bool has_terms(const stni_sample_args &a)
{
    return a.n_batch > 0 && a.n_channels > 0 && points_of(a) > 0;
}

template <class S> size_t workspace_of(const stni_sample_args &a)
{
    const grad_plan p = plan_gradients<S>(a);
    const span s = {0, p.lines, 0, p.points, 0, p.elements};
    return p.gathers || p.has_slopes ? place_span<S>(a, p, s, NULL).bytes : 0;
}

size_t sample_workspace(stn_queue *, const void *args)
{
    const stni_sample_args &a = *static_cast<const stni_sample_args *>(args);
    if (!has_terms(a))
        return 0;
    return a.dtype == STN_DTYPE_F64 ? workspace_of<double>(a) : workspace_of<float>(a);
}

template <class S>
void copy_cotangents(const stni_sample_args &a, const span &s, int64_t width, S *to, cudaStream_t stream)
{
    row_copy<S> r = {};
    r.from = (const S *)a.output.data + s.first_line * a.output.batch;
    r.batch = a.output.batch;
    r.channel = a.output.channel;
    r.n_channels = a.n_channels;
    r.places = places_of(a.output, a.n_points);
    r.first = s.first_point;
    r.n_places = s.points;
    r.lines = s.lines;
    r.width = width;
    r.to = to;
    launch_rows(r, stream);
}

/* What the span's points give to its elements. */
template <class S>
void gather_span(const stni_sample_args &a, const span &s, int64_t width, grad_space<S> &space, cudaStream_t stream)
{
    gathering<S> g = {};
    list_reads(a, s, space.l, stream);
    g.l = space.l;
    g.rows = space.rows;
    g.width = width;
    g.pieces = space.pieces;
    g.points = s.points;
    g.n_pieces = space.l.n_reads / GATHER_PIECE;
    g.elements = s.elements;
    g.lines = s.lines;
    g.to = (S *)a.grad_input.data + s.first_line * a.grad_input.batch;
    g.batch = a.grad_input.batch;
    g.channel = a.grad_input.channel;
    g.n_channels = a.n_channels;
    g.first_element = s.first_element;
    g.places = elements_in(a, a.grad_input);
    g.adds = s.first_point > 0;
    if (width < gather_vector<S>)
        launch_gathering<S, 1>(g, stream);
    else
        launch_gathering<S, gather_vector<S>>(g, stream);
}

template <class S>
void find_slopes(const stni_sample_args &a, const span &s, int64_t width, grad_space<S> &space, cudaStream_t stream)
{
    copy_input(a, s.first_line, s.lines, width, space.input_rows, NULL, stream);
    launch_slopes<S, gather_vector<S>>(a, {s.first_line, s.lines, s.first_point, s.points, width, elements_of(a), 0, 0,
                                           space.rows, space.input_rows}, stream);
}

template <class S> void launch_span(const stni_sample_args &a, const grad_plan &p, span s, cudaStream_t stream)
{
    grad_space<S> space = place_span<S>(a, p, s, a.work);
    copy_cotangents(a, s, p.width, space.rows, stream);
    for (s.first_element = 0; p.gathers && s.first_element < elements_of(a); s.first_element += p.elements) {
        s.elements = smaller(p.elements, elements_of(a) - s.first_element);
        space = place_span<S>(a, p, s, a.work);
        gather_span(a, s, p.width, space, stream);
    }
    if (p.has_slopes)
        find_slopes(a, s, p.width, space, stream);
}

/* The grid's gradient without copies. */
template <class S> void launch_points(const stni_sample_args &a, cudaStream_t stream)
{
    STNI_LAUNCH(put_gradients<S>, blocks_for(a.n_batch * points_of(a), THREADS), THREADS, stream, a);
}

template <class S> void launch_gradients_of(const stni_sample_args &a, cudaStream_t stream)
{
    const grad_plan p = plan_gradients<S>(a);
    for (int64_t line = 0; (p.gathers || p.has_slopes) && line < a.n_batch; line += p.lines)
        for (int64_t point = 0; point < points_of(a); point += p.points) {
            const span s = {line, smaller(p.lines, a.n_batch - line), point, smaller(p.points, points_of(a) - point), 0,
                            p.elements};
            launch_span<S>(a, p, s, stream);
        }
    if (a.grad_grid.data && !p.has_slopes)
        launch_points<S>(a, stream);
}

/* Without channels, or points, gradients are zero. */
void launch_zeros(const stni_sample_args &a, cudaStream_t stream)
{
    if (a.grad_input.data && a.grad_input_bytes > 0)
        cudaMemsetAsync(a.grad_input.data, 0, a.grad_input_bytes, stream);
    if (a.grad_grid.data && a.n_batch * points_of(a) > 0)
        dispatch<float, double>(a.dtype, [&](auto element) { launch_points<decltype(element)>(a, stream); });
}

void launch_gradients(const stni_sample_args &a, cudaStream_t stream)
{
    if (!has_terms(a))
        launch_zeros(a, stream);
    else
        dispatch<float, double>(a.dtype, [&](auto element) { launch_gradients_of<decltype(element)>(a, stream); });
}

}

STNI_CUDA_KERNELS(sample_grad) = {
    STNI_CUDA_KERNEL_WITH("grid_sample_backward.forward", STNI_SAMPLE_GRAD_DTYPES, stni_sample_args, launch_gradients,
                          sample_workspace),
    STNI_CUDA_KERNELS_END
};
