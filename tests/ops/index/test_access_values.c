/* Ops that write by index against plain loops in every dtype and drawn layouts; what they exchange; what they
 * refuse. */
#include "ops/layouts.h"
#include "ranks.h"
#include "stats.h"

#include <stdio.h>
#include <string.h>

enum mode { SET, SUM, PROD, MEAN, AMAX, AMIN, MODES };

static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64,  STN_DTYPE_BF16, STN_DTYPE_F16,
                                   STN_DTYPE_I64, STN_DTYPE_I32,  STN_DTYPE_U8,   STN_DTYPE_BOOL,
                                   STN_DTYPE_C64, STN_DTYPE_C128, STN_DTYPE_I8,   STN_DTYPE_I16};

static int is_whole(stn_dtype dtype)
{
    return stni_dtype_is_integer(dtype);
}

/* Means that are not whole are rounded; complex numbers have no order. */
static int has(enum mode mode, stn_dtype dtype)
{
    return mode == MEAN ? is_whole(dtype) : mode < AMAX || !stni_dtype_is_complex(dtype);
}

static double _Complex join(enum mode mode, stn_dtype dtype, double _Complex a, double _Complex b)
{
    double x = creal(a), y = creal(b);
    if (dtype == STN_DTYPE_BOOL && mode != SET)
        return mode == PROD || mode == AMIN ? x != 0 && y != 0 : x != 0 || y != 0;
    switch (mode) {
    case SET: return b;
    case SUM:
    case MEAN: return a + b;
    case PROD: return a * b;
    case AMAX: return x > y ? x : y;
    case AMIN: return x < y ? x : y;
    case MODES: break;
    }
    return 0;
}

static double _Complex wrapped(stn_dtype dtype, double _Complex value)
{
    const int64_t whole = stni_dtype_is_integer(dtype) ? (int64_t)creal(value) : 0;
    if (dtype == STN_DTYPE_U8)
        return (double)(uint8_t)whole;
    return dtype == STN_DTYPE_I8 ? (double)(int8_t)whole : dtype == STN_DTYPE_I16 ? (double)(int16_t)whole : value;
}

/* Where position `i` of the index goes in the table. */
static int64_t target(const struct elements *table, const struct elements *index, int dim, int64_t i)
{
    int64_t at = 0, stride = 1, rest = i;
    for (int d = table->ndim - 1; d >= 0; d--) {
        at += (d == dim ? (int64_t)creal(index->v[i]) : rest % index->shape[d]) * stride;
        rest /= index->shape[d];
        stride *= table->shape[d];
    }
    return at;
}

static int64_t floor_of(int64_t sum, int64_t n)
{
    return sum / n - (sum % n < 0);
}

static void write_plainly(struct elements *table, const struct elements *index, const struct elements *src, int dim,
                          enum mode mode, int self)
{
    int64_t count[256];
    for (int64_t i = 0; i < table->n; i++)
        count[i] = self;
    for (int64_t i = 0; i < index->n; i++) {
        int64_t at = target(table, index, dim, i);
        table->v[at] = count[at] ? wrapped(src->dtype, join(mode, src->dtype, table->v[at], src->v[i])) : src->v[i];
        count[at]++;
    }
    for (int64_t i = 0; i < table->n && mode == MEAN; i++)
        table->v[i] = (double)floor_of((int64_t)creal(table->v[i]), count[i] ? count[i] : 1);
}

/* One draw: a table, indices with repetitions, values; all small, so that products are exact in 16 bits. */
static void check_one(stn_context *context, const stn_mesh *mesh, stn_dtype dtype, enum mode mode, uint64_t *seed)
{
    int64_t shape[] = {1 + draw_below(seed, 4), 1 + draw_below(seed, 5), 1 + draw_below(seed, 3)}, part[3];
    struct elements table, index, src, wanted;
    int ndim = 1 + (int)draw_below(seed, 3), dim = (int)draw_below(seed, ndim),
        self = mode == SET || (int)draw_below(seed, 2);
    for (int d = 0; d < ndim; d++)
        part[d] = d == dim ? draw_below(seed, mode == PROD ? 4 : 8) : 1 + draw_below(seed, shape[d]);
    elements_draw(&table, dtype, ndim, shape, seed);
    elements_draw(&index, draw_below(seed, 2) ? STN_DTYPE_I64 : STN_DTYPE_I32, ndim, part, seed);
    elements_draw(&src, dtype, ndim, part, seed);
    for (int64_t i = 0; i < index.n; i++)
        index.v[i] = (double)draw_below(seed, shape[dim]);
    wanted = table;
    write_plainly(&wanted, &index, &src, dim, mode, self);
    stn_scope_begin(context);
    stn_tensor *t = layout_tensor_drawn(context, mesh, &table, seed),
               *i = layout_tensor_drawn(context, mesh, &index, seed);
    stn_tensor *s = layout_tensor_drawn(context, mesh, &src, seed), *y;
    if (mode == SET)
        y = stn_scatter_from(t, dim, i, s);
    else
        y = stn_scatter_reduce(t, dim, i, s, (stn_scatter_reduction)(mode - SUM), self);
    layout_check(y, &wanted, stn_dtype_name(dtype));
    if (mode == SET) { /* what was written is read back: the last of several */
        for (int64_t k = 0; k < src.n; k++)
            src.v[k] = wanted.v[target(&wanted, &index, dim, k)];
        layout_check(stn_gather(y, dim, i), &src, "gather");
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status loops_body(stn_context *context, void *arg)
{
    const int *mesh_shape = arg;
    const stn_mesh *mesh = test_mesh(context, mesh_shape[0], mesh_shape[1]);
    uint64_t seed = 77;
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
        for (int mode = SET; mode < MODES; mode++)
            for (int i = 0; i < 10 && has((enum mode)mode, dtypes[k]); i++)
                check_one(context, mesh, dtypes[k], (enum mode)mode, &seed);
    return STN_OK;
}

static void values_are_those_of_plain_loops(void)
{
    static int meshes[][2] = {{1, 0}, {2, 0}, {3, 0}, {2, 3}};
    for (int i = 0; i < 4; i++)
        test_ranks(meshes[i][0] * (meshes[i][1] ? meshes[i][1] : 1), loops_body, meshes[i]);
}

/* Many values go to two elements, from ranks whose pieces are not in the order of the ranks. */
static stn_status last_body(stn_context *context, void *arg)
{
    static const int axis_order[] = {1, 0};
    static const int64_t many[] = {12};
    const stn_mesh *mesh = test_mesh(context, 2, 3);
    const stn_placement cut[] = {stn_shard(0), stn_shard(0)};
    const stn_spec_options options = {.size = sizeof options, .axis_order = axis_order};
    struct elements table = {.dtype = STN_DTYPE_F32, .ndim = 1, .shape = {7}, .n = 7},
                    values = {.dtype = STN_DTYPE_F32, .ndim = 1, .shape = {12}, .n = 12};
    const stn_spec *index_spec, *value_spec;
    (void)arg;
    struct elements index = {.dtype = STN_DTYPE_I64, .ndim = 1, .shape = {12}, .n = 12}, wanted = table;
    for (int i = 0; i < 12; i++) {
        values.v[i] = i + 1;
        index.v[i] = i / 6;
    }
    wanted.v[0] = 6; /* rank 1 has it, rank 3 the one before */
    wanted.v[1] = 12;
    stn_scope_begin(context);
    stn_spec_create(context, mesh, cut, STN_DTYPE_I64, 1, many, &options, &index_spec);
    stn_spec_create(context, mesh, cut, STN_DTYPE_F32, 1, many, &options, &value_spec);
    stn_tensor *i = layout_tensor(context, index_spec, &index), *v = layout_tensor(context, value_spec, &values);
    layout_check(stn_scatter_from(layout_tensor_placed(context, mesh, &table, cut), 0, i, v), &wanted, "cut");
    layout_check(stn_index_copy(layout_tensor_placed(context, mesh, &table, (stn_placement[2]){{0}}), 0, i, v), &wanted,
                 "whole");
    stn_spec_release(&index_spec);
    stn_spec_release(&value_spec);
    return stn_scope_end(context);
}

static void the_last_of_several_values_wins_whoever_has_it(void)
{
    test_ranks(6, last_body, NULL);
}

static int64_t collectives(stn_context *context)
{
    return test_stats(context).collectives;
}

static stn_tensor *placed(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, int64_t below,
                          stn_placement placement)
{
    struct elements e = elements_drawn(dtype, ndim, shape, below);
    return layout_tensor_placed(context, test_mesh(context, stn_context_size(context), 0), &e, &placement);
}

static stn_placement placement_of(const stn_tensor *tensor)
{
    return stn_spec_placement(stn_tensor_spec(tensor), 0);
}

/* On one axis: how the table (6, 4) and the index (8) lie, what is exchanged, how the result lies. */
static stn_status exchanges_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {6, 4}, rows[] = {8}, values[] = {8, 4};
    const stn_placement whole = stn_replicate(), cut = stn_shard(0), columns = stn_shard(1), sum = stn_partial(STN_SUM);
    const struct {
        stn_placement table, index, source, read, added;
        int64_t for_read, for_add;
    } c[] = {
        {whole, whole, whole, whole, whole, 0, 0},
        {whole, cut, cut, cut, sum, 0, 0},
        {cut, whole, whole, sum, cut, 0, 0},
        {cut, cut, cut, cut, cut, 3, 3},
        {columns, whole, columns, columns, columns, 0, 0},
        {sum, whole, sum, sum, sum, 0, 0},
        {sum, cut, cut, cut, sum, 4, 0},
        {whole, whole, columns, whole, columns, 0, 0},
    };
    (void)arg;
    for (int round = 0; round < 2; round++) /* communicators are made on first use */
        for (size_t k = 0; k < sizeof c / sizeof *c; k++) {
            stn_scope_begin(context);
            stn_tensor *t = placed(context, STN_DTYPE_F32, 2, shape, 0, c[k].table),
                       *i = placed(context, STN_DTYPE_I64, 1, rows, 6, c[k].index);
            stn_tensor *s = placed(context, STN_DTYPE_F32, 2, values, 0, c[k].source);
            int64_t before = collectives(context);
            stn_tensor *read = stn_index_select(t, 0, i);
            int64_t after = collectives(context);
            stn_tensor *added = stn_index_add(t, 0, i, s, 1);
            if (round == 1) {
                CHECK_I64(after - before, c[k].for_read);
                CHECK_I64(collectives(context) - after, c[k].for_add);
            }
            CHECK_BYTES(&(stn_placement[]){placement_of(read)}, &c[k].read, sizeof(stn_placement));
            CHECK_BYTES(&(stn_placement[]){placement_of(added)}, &c[k].added, sizeof(stn_placement));
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void only_cut_indices_of_cut_dims_are_exchanged(void)
{
    test_ranks(2, exchanges_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {6, 4}, rows[] = {3}, wide[] = {2, 5};
    const int64_t most = INT64_MAX;
    const stn_spec *one;
    const stn_placement whole = stn_replicate();
    stn_tensor *t = placed(context, STN_DTYPE_F32, 2, shape, 0, whole),
               *i = placed(context, STN_DTYPE_I64, 1, rows, 6, whole);
    stn_tensor *w = placed(context, STN_DTYPE_I64, 2, wide, 4, whole);
    int64_t before = collectives(context);
    (void)arg;
    stn_gather(t, 0, w);
    CHECK_ERROR(context, STN_ERR_SHAPE,
                "gather: 'index' got shape (2, 5), wanted the dims of 'input', (6, 4), none of them longer but 'dim'");
    stn_index_select(t, 2, i);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "index_select: 'dim' got 2, wanted -2 <= dim < 2");
    stn_index_select(t, 0, t);
    CHECK_ERROR(context, STN_ERR_DTYPE, "index_select: 'index' got f32, wanted i64 or i32");
    stn_index_copy(t, 0, i, t);
    CHECK_ERROR(context, STN_ERR_SHAPE, "index_copy: 'source' got shape (6, 4), wanted (3, 4)");
    stn_scatter_add(t, 1, w, w);
    CHECK_ERROR(context, STN_ERR_DTYPE, "scatter_add: 'src' got i64, wanted the dtype of 'input', f32");
    stn_one_hot(i, -2);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "one_hot: 'num_classes' got -2, wanted at least 1, or -1");
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, (int64_t[]){1}, NULL, &one), STN_OK);
    stn_one_hot(stn_from_host(context, one, &most), -1);
    stn_spec_release(&one);
    CHECK_ERROR(context, STN_ERR_SHAPE,
                "one_hot: spec: shape[0] to shape[1] give more than 2^63 - 1 bytes of i64, wanted fewer");
    stn_index_put(t, 2, (stn_tensor *[]){i, stn_slice(i, 0, 0, 2, 1)},
                  stn_slice(stn_view(t, 1, (int64_t[]){24}), 0, 0, 3, 1), 0);
    CHECK_ERROR(context, STN_ERR_SHAPE, "index_put: 'indices1' got shape (2), wanted one that broadcasts with (3)");
    stn_diagonal(t, 0, 1, -1);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "diagonal: 'dim2' got -1, the same as 'dim1', wanted another");
    CHECK_I64(collectives(context), before);
    return STN_OK;
}

static stn_status scoped_refusals_body(stn_context *context, void *arg)
{
    stn_scope_begin(context);
    refusals_body(context, arg);
    return stn_scope_end(context);
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, scoped_refusals_body, NULL);
}

/* Index 7 of 6 rows stands at (4) on rank 2, -1 at (1) on rank 0. */
static stn_status range_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {6}, rows[] = {6};
    const stn_placement *table_placement = arg;
    struct elements t = elements_drawn(STN_DTYPE_F32, 1, shape, 0), i = elements_drawn(STN_DTYPE_I64, 1, rows, 6);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement cut = stn_shard(0);
    char text[200];
    stn_scope_begin(context);
    i.v[4] = 7;
    i.v[1] = -1;
    stn_tensor *in = layout_tensor_placed(context, mesh, &t, table_placement),
               *index = layout_tensor_placed(context, mesh, &i, &cut);
    stn_tensor *read = stn_gather(in, 0, index), *filled = stn_scatter_number(in, 0, index, 9);
    struct elements values = i, after = t;
    values.dtype = STN_DTYPE_F32;
    for (int k = 0; k < 6; k++) {
        int bad = k == 4 || k == 1;
        values.v[k] = bad ? 0 : t.v[(int64_t)creal(i.v[k])];
        if (!bad)
            after.v[(int64_t)creal(i.v[k])] = 9;
    }
    layout_check(read, &values, "read");
    layout_check(filled, &after, "filled");
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_VALUE);
    CHECK_STR(text, stn_context_size(context) == 3 ? "rank 0: gather: index -1 at (1) is outside 0 … 5"
                                                   : "gather: index -1 at (1) is outside 0 … 5");
    i.v[4] = 0;
    stn_index_fill(in, 0, layout_tensor_placed(context, mesh, &i, &cut), 2);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK); /* counts from the end */
    return stn_scope_end(context);
}

static void indices_out_of_range_read_zeros_and_write_nothing(void)
{
    stn_placement whole = stn_replicate(), cut = stn_shard(0);
    test_ranks(1, range_body, &whole);
    test_ranks(3, range_body, &whole);
    test_ranks(3, range_body, &cut);
}

/* What each op makes of a bad index, 9 of 5 rows, where rows have no elements. */
static stn_tensor *name_row(int op, stn_tensor *table, stn_tensor *index, stn_tensor *source)
{
    switch (op) {
    case 0: return stn_embedding(index, table, NULL);
    case 1: return stn_index_select(table, 0, index);
    case 2: return stn_index_add(table, 0, index, source, 1);
    case 3: return stn_index_copy(table, 0, index, source);
    case 4: return stn_index_fill(table, 0, index, 2);
    default: return stn_index_put(table, 1, &index, source, 0);
    }
}

static stn_status empty_rows_body(stn_context *context, void *arg)
{
    static const char *const wanted[] = {
        "embedding: index 9 at (4) is outside 0",   "index_select: index 9 at (4) is outside 0",
        "index_add: index 9 at (4) is outside 0",   "index_copy: index 9 at (4) is outside 0",
        "index_fill: index 9 at (4) is outside -5", "index_put: index 9 at (4) is outside -5",
    };
    static const int64_t rows[] = {7}, shape[] = {5, 0}, values[] = {7, 0};
    const int *mesh_shape = arg;
    const stn_mesh *mesh = test_mesh(context, mesh_shape[0], mesh_shape[1]);
    struct elements index = elements_drawn(STN_DTYPE_I64, 1, rows, 5),
                    table = elements_drawn(STN_DTYPE_F32, 2, shape, 0);
    struct elements source = elements_drawn(STN_DTYPE_F32, 2, values, 0);
    uint64_t seed = 9;
    index.v[4] = 9;
    for (int k = 0; k < 6 * 8; k++) { /* eight draws of layouts for each */
        char text[200] = "";
        stn_scope_begin(context);
        stn_tensor *t = layout_tensor_drawn(context, mesh, &table, &seed),
                   *i = layout_tensor_drawn(context, mesh, &index, &seed);
        stn_tensor *out = name_row(k % 6, t, i, layout_tensor_drawn(context, mesh, &source, &seed));
        CHECK(!stn_tensor_is_error(out));
        CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
        stn_context_take_error(context, text, sizeof text);
        if (!CHECK(strstr(text, wanted[k % 6]) != NULL))
            fprintf(stderr, "  '%s'\n", text);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void bad_indices_of_rows_without_elements_are_found(void)
{
    static int meshes[][2] = {{1, 0}, {2, 0}, {3, 0}, {2, 3}};
    for (int i = 0; i < 4; i++)
        test_ranks(meshes[i][0] * (meshes[i][1] ? meshes[i][1] : 1), empty_rows_body, meshes[i]);
}

/* Lines longer than a block and no multiple of a vector; the index of both dtypes, dense and strided; one index of
 * each line is bad where `bad`. */
static void check_long_lines(stn_context *context, stn_dtype dtype, stn_dtype index_dtype, int strided, int bad)
{
    static const int64_t shape[] = {3, 37}, many[] = {3, 1201}, other[] = {1201, 3};
    const stn_mesh *mesh = test_mesh(context, 1, 0);
    const stn_placement whole = stn_replicate();
    static struct elements table, index, stored, src, read, written;
    uint64_t seed = 3;
    elements_draw(&table, dtype, 2, shape, &seed);
    elements_draw(&src, dtype, 2, many, &seed);
    elements_draw(&index, index_dtype, 2, many, &seed);
    for (int64_t i = 0; i < index.n; i++)
        index.v[i] = (double)draw_below(&seed, 37);
    read = src;
    written = table;
    for (int64_t i = 0; i < index.n; i++) {
        const int64_t at = target(&table, &index, 1, i);
        const int is_bad = bad && i % 1201 == 700;
        read.v[i] = is_bad ? 0 : table.v[at];
        written.v[at] = is_bad ? written.v[at] : src.v[i];
        index.v[i] = is_bad ? (i == 700 ? 37 : -1) : index.v[i];
    }
    stored = index;
    for (int64_t i = 0; i < index.n && strided; i++)
        stored.v[i % 1201 * 3 + i / 1201] = index.v[i];
    memcpy(stored.shape, strided ? other : many, sizeof other);
    stn_tensor *t = layout_tensor_placed(context, mesh, &table, &whole),
               *i = layout_tensor_placed(context, mesh, &stored, &whole);
    stn_tensor *s = layout_tensor_placed(context, mesh, &src, &whole);
    i = strided ? stn_transpose(i, 0, 1) : i;
    for (int writes = 0; writes < 2; writes++) {
        layout_check(writes ? stn_scatter_from(t, 1, i, s) : stn_gather(t, 1, i), writes ? &written : &read,
                     writes ? "written" : "read");
        CHECK_STATUS(stn_agree(context, STN_OK, NULL), bad ? STN_ERR_VALUE : STN_OK);
        stn_context_take_error(context, NULL, 0);
    }
}

static stn_status long_lines_body(stn_context *context, void *arg)
{
    (void)arg;
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
        for (int way = 0; way < 8; way++) {
            stn_scope_begin(context);
            check_long_lines(context, dtypes[k], way & 1 ? STN_DTYPE_I32 : STN_DTYPE_I64, way >> 1 & 1, way >> 2);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void long_lines_are_read_and_written_in_every_dtype(void)
{
    test_ranks(1, long_lines_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case tests[] = {
        {"values_are_those_of_plain_loops", values_are_those_of_plain_loops},
        {"the_last_of_several_values_wins_whoever_has_it", the_last_of_several_values_wins_whoever_has_it},
        {"only_cut_indices_of_cut_dims_are_exchanged", only_cut_indices_of_cut_dims_are_exchanged},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
        {"long_lines_are_read_and_written_in_every_dtype", long_lines_are_read_and_written_in_every_dtype},
        {"bad_indices_of_rows_without_elements_are_found", bad_indices_of_rows_without_elements_are_found},
        {"indices_out_of_range_read_zeros_and_write_nothing", indices_out_of_range_read_zeros_and_write_nothing},
    };
    return TEST_MAIN(argc, argv, tests);
}
