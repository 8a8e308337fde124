/* Writes of elements in rounds of ORDER_ENTRIES positions along lines (order.cuh), where they serve. */
#ifndef STNI_OPS_INDEX_WRITE_IN_ORDER_CUH
#define STNI_OPS_INDEX_WRITE_IN_ORDER_CUH

#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/index/order.cuh"
#include "ops/index/positions.cuh"

namespace {

struct ordering {
    stni_access keys; /* which finds an element's number, not its place */
    stn_value_record *record;
    operands<SIDES> lines, along; /* the positions of one line */
    divider by_elements, by_lines;
    int64_t elements, step; /* of a line of the table; from one to the next */
    int together, bits;     /* lines of a block; of a key */
    void *table;
    const void *values;
    stni_access_mode mode;
};

enum { ORDER_BLOCKS = 256 /* wanted before a block has several lines */, ORDER_ENOUGH = 64, ORDER_SHORT = 2048 };
enum { ORDER_BESIDE = 4 /* lines of a block: what a sector of 32 bytes has of indices, and half of one of values */ };

/* How many lines a block has at most: so many as one round takes. Of longer lines that lie beside each other a few
 * take rounds together, so that what they have in one sector is read by one block. */
int64_t most_together(const ordering &o)
{
    const int64_t n = o.along.count > 0 ? o.along.count : 1, whole = ORDER_ENTRIES / n;
    const int last = o.lines.ndim - 1;
    const bool beside = last >= 0 && (o.lines.stride[INDEX][last] == 1 || o.lines.stride[VALUE][last] == 1);
    return whole < ORDER_BESIDE && beside ? (int64_t)ORDER_BESIDE : whole;
}

/* Whether rounds serve: an index of one digit, which has all dims that the table has but one, and blocks enough. */
bool is_ordered(const stni_access_write_args &args, ordering &o)
{
    const stni_access &a = args.at;
    o.lines = o.along = no_dims<SIDES>();
    if (!a.values || a.n_keys != 1 || positions_of(a, SLICES).count != 1 || args.mode == STNI_ACCESS_RESET)
        return false;
    for (int d = 0; d < a.ndim; d++)
        add_dim(a.table_strides[d] != 0 ? o.lines : o.along, a.shape[d],
                {a.index_strides[d], a.value_strides[d], a.table_strides[d]});
    end_dims(o.lines);
    end_dims(o.along);
    const int64_t n = o.along.count, lines = o.lines.count, most = most_together(o);
    const int64_t wanted = lines / ORDER_BLOCKS, some = wanted < most ? wanted : most;
    o.elements = a.key_shape[0];
    o.together = some > 1 ? (int)some : 1;
    while (o.together > 1 && bits_of((uint64_t)(o.together * o.elements)) > ORDER_KEY_BITS)
        o.together /= 2;
    o.bits = bits_of((uint64_t)(o.together * o.elements));
    return n * o.together >= ORDER_SHORT && is_small_count(n) && lines / o.together >= ORDER_ENOUGH &&
           is_small_count(lines) && o.elements > 0 && o.elements < 1 << ORDER_KEY_BITS && o.bits <= ORDER_KEY_BITS;
}

STNI_DEVICE void report_ordered(const ordering &o, int64_t got, int64_t line, int64_t along)
{
    int64_t position = 0, step = 1, numbers[STNI_ACCESS_NUMBERS];
    for (int d = o.keys.ndim - 1; d >= 0; d--) {
        int64_t &rest = o.keys.table_strides[d] != 0 ? line : along;
        position += rest % o.keys.shape[d] * step;
        rest /= o.keys.shape[d];
        step *= o.keys.shape[d];
    }
    const int n = stni_access_bad_numbers(&o.keys, got, position, numbers);
    report_value(o.record, o.keys.report.op, STNI_BAD_INDEX, n, numbers);
}

/* Number `of` of a round, whose lines change first: which line of the block, and which position. */
STNI_DEVICE void find_entry(const ordering &o, uint32_t of, uint32_t &line, uint32_t &along)
{
    along = divide(of, o.by_lines);
    line = of - along * (uint32_t)o.together;
}

/* What position `of` of a round names, above all others where that is not here. */
STNI_DEVICE uint32_t key_of(const ordering &o, int64_t first_line, int64_t first, uint32_t of)
{
    uint32_t line, along;
    int64_t of_line[SIDES], of_along[SIDES];
    int is_bad = 0;
    find_entry(o, of, line, along);
    find(o.lines, first_line + line, of_line);
    find(o.along, first + along, of_along);
    const int64_t got = stni_access_index(o.keys.index, o.keys.index_dtype, of_line[INDEX] + of_along[INDEX]);
    const int64_t key = stni_access_locate(&o.keys, got, &is_bad);
    if (is_bad && o.record)
        report_ordered(o, got, first_line + line, first + along);
    return (uint32_t)(key < 0 ? o.together * o.elements : line * o.elements + key);
}

/* Joins the values of the element that entry k is the first of, or sets it to that of the last one. */
template <class S>
STNI_DEVICE void write_entry(const ordering &o, const uint32_t *entries, int n, int k, int64_t first_line,
                             int64_t first, typename computed<S>::type scale)
{
    typedef typename computed<S>::type A;
    const uint32_t key = entries[k] >> ORDER_PLACE_BITS;
    const int beside = o.mode == STNI_ACCESS_SET ? k + 1 : k - 1;
    if (key == (uint32_t)(o.together * o.elements) ||
        (beside >= 0 && beside < n && entries[beside] >> ORDER_PLACE_BITS == key))
        return;
    const uint32_t line = divide(key, o.by_elements);
    int64_t of_line[SIDES], of_along[SIDES];
    find(o.lines, first_line + line, of_line);
    const int64_t element = key - line * o.elements;
    A &to = static_cast<A *>(o.table)[of_line[TABLE] + element * o.step], sum = to;
    for (; k < n && entries[k] >> ORDER_PLACE_BITS == key; k++) {
        uint32_t same, along;
        find_entry(o, entries[k] & (ORDER_ENTRIES - 1), same, along);
        find(o.along, first + along, of_along);
        const S value = static_cast<const S *>(o.values)[of_line[VALUE] + of_along[VALUE]];
        sum = arithmetic<A>::join(o.mode, sum, load(value), scale);
    }
    to = sum;
}

template <class S> __global__ void __launch_bounds__(ORDER_THREADS, 2)
write_in_order(const __grid_constant__ ordering o, typename computed<S>::type scale)
{
    STNI_SHARED(uint32_t, entries, ORDER_ENTRIES);
    const int64_t first_line = (int64_t)blockIdx.x * o.together, left = o.lines.count - first_line;
    const int lines = left < o.together ? (int)left : o.together, round = ORDER_ENTRIES / o.together;
    for (int64_t first = 0; first < o.along.count; first += round) {
        const int64_t rest = o.along.count - first;
        const int n = (rest < round ? (int)rest : round) * o.together;
        STNI_KEEP_LOOP
        for (int i = (int)threadIdx.x; i < n; i += ORDER_THREADS) {
            const uint32_t key = i % o.together < lines ? key_of(o, first_line, first, (uint32_t)i)
                                                        : (uint32_t)(o.together * o.elements);
            entries[i] = key << ORDER_PLACE_BITS | (uint32_t)i;
        }
        order_entries(entries, n, o.bits);
        STNI_KEEP_LOOP
        for (int k = (int)threadIdx.x; k < n; k += ORDER_THREADS)
            write_entry<S>(o, entries, n, k, first_line, first, scale);
        __syncthreads();
    }
}

/* For the dtypes in which gradients are usually; the others take the general way, for a smaller module. */
constexpr uint32_t ORDERED_DTYPES = dtype_bit(STN_DTYPE_F32) | dtype_bit(STN_DTYPE_BF16) | dtype_bit(STN_DTYPE_F16);

template <class S>
void launch_in_order(const stni_access_write_args &args, ordering &o, stn_value_record *record, cudaStream_t stream)
{
    typedef typename computed<S>::type A;
    o.keys = args.at;
    o.step = args.at.key_strides[0];
    o.keys.key_strides[0] = 1;
    o.record = args.at.report.on ? record : nullptr;
    o.by_elements = divider_of(o.elements);
    o.by_lines = divider_of(o.together);
    o.table = static_cast<A *>(args.at.table) + args.at.base;
    o.values = args.at.values;
    o.mode = args.mode;
    const int64_t blocks = (o.lines.count + o.together - 1) / o.together;
    STNI_LAUNCH(write_in_order<S>, grid_of(blocks), ORDER_THREADS, stream, o, arithmetic<A>::scale(args.scale));
}

}

#endif
