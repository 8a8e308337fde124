/* For each element of an image the list of reads that found it, in the order of points and of their reads: reads are
 * put in order by the element, so that elements gather what points give to them, in the same order in every run,
 * however many points lie at one place. All channels share the lists.
 *
 *     span s = …;                                   some batch entries, elements and points
 *     lists<S> l = lists_of<S>(a, s, memory);       memory has lists_bytes<S>(a, s) bytes
 *     list_reads(a, s, l, stream); */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_LISTS_CUH
#define STNI_OPS_RESAMPLE_SAMPLE_LISTS_CUH

#include "core/device/cuda/radix.cuh"
#include "ops/resample/sample_point.cuh"

namespace {

/* What is worked on at once: of these batch entries these points, and what they give to these elements. */
struct span {
    int64_t first_line, lines, first_point, points, first_element, elements;
};

typedef sort_entry<uint32_t, uint32_t> read_entry; /* key: the element, all of them where it is not in the span */

template <class S> struct lists {
    const read_entry *reads; /* [line][place in order] */
    const uint32_t *begins;  /* [line][element]: where its list begins; one more than there are elements */
    const S *weights;        /* [line][read] */
    int64_t n_reads;         /* of a line */
    int shift;               /* a point has 1 << shift */
    sort_space<uint32_t, uint32_t> space;
};

enum { LISTS_THREADS = 128 };

inline size_t round_to_256(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

inline int shift_of(const stni_sample_args &a)
{
    return bits_of((uint64_t)stni_sample_n_reads(&a)) - 1;
}

/* Parts of the memory one after the other; returns how many bytes they take. */
template <class S> size_t place_lists(const stni_sample_args &a, const span &s, char *memory, lists<S> &l)
{
    l.shift = shift_of(a);
    l.n_reads = s.points << l.shift;
    const size_t sorted = round_to_256(sort_bytes<uint32_t, uint32_t>(l.n_reads, s.lines));
    const size_t begins = round_to_256((size_t)(s.lines * (s.elements + 1)) * sizeof(uint32_t));
    l.space = sort_space_of<uint32_t, uint32_t>(memory, l.n_reads, s.lines);
    l.reads = l.space.entries;
    l.begins = reinterpret_cast<const uint32_t *>(memory + sorted);
    l.weights = reinterpret_cast<const S *>(memory + sorted + begins);
    return sorted + begins + round_to_256((size_t)(s.lines * l.n_reads) * sizeof(S));
}

template <class S>
__global__ void __launch_bounds__(LISTS_THREADS)
    enter_reads(const __grid_constant__ stni_sample_args a, const __grid_constant__ span s, read_entry *entries,
                S *weights)
{
    const int64_t i = (int64_t)blockIdx.x * LISTS_THREADS + threadIdx.x, line = i / s.points, point = i % s.points;
    const int n_reads = stni_sample_n_reads(&a);
    sampled_point p;
    if (line >= s.lines)
        return;
    find_point<S>(a, s.first_line + line, s.first_point + point, p);
    STNI_KEEP_LOOP
    for (int k = 0; k < n_reads; k++) {
        const int64_t element = element_of_read(a, p, k) - s.first_element;
        const bool is_here = element >= 0 && element < s.elements;
        entries[i * n_reads + k] = {(uint32_t)(is_here ? element : s.elements), (uint32_t)(point * n_reads + k)};
        weights[i * n_reads + k] = (S)weight_of_read(a, p, k);
    }
}

/* The first place in order whose element is this one or a later one. */
STNI_DEVICE uint32_t find_begin(const read_entry *reads, uint32_t n, uint32_t element)
{
    uint32_t first = 0, end = n;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (reads[middle].key < element)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* A thread each line and element, and one for the end of the last list. */
template <class S>
__global__ void __launch_bounds__(LISTS_THREADS)
    find_begins(const __grid_constant__ lists<S> l, const __grid_constant__ span s, uint32_t *begins)
{
    const int64_t i = (int64_t)blockIdx.x * LISTS_THREADS + threadIdx.x, line = i / (s.elements + 1);
    if (line < s.lines)
        begins[i] = find_begin(l.reads + line * l.n_reads, (uint32_t)l.n_reads, (uint32_t)(i % (s.elements + 1)));
}

template <class S> void list_reads(const stni_sample_args &a, const span &s, lists<S> &l, cudaStream_t stream)
{
    STNI_LAUNCH(enter_reads<S>, blocks_for(s.lines * s.points, LISTS_THREADS), LISTS_THREADS, stream, a, s,
                l.space.entries, const_cast<S *>(l.weights));
    l.reads = sort_entries(l.space, l.n_reads, s.lines, bits_of((uint64_t)s.elements), stream);
    STNI_LAUNCH(find_begins<S>, blocks_for(s.lines * (s.elements + 1), LISTS_THREADS), LISTS_THREADS, stream, l, s,
                const_cast<uint32_t *>(l.begins));
}

}

#endif
