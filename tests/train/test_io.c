/* Files: what one layout saved, every other loads; an optimizer goes on where it was; what is damaged is refused on
 * all ranks. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 7, COLUMNS = 5, N = ROWS * COLUMNS };

static char folder[] = "/tmp/stn-io-XXXXXX";

static const char *file_at(const char *name, char text[128])
{
    snprintf(text, 128, "%s/%s", folder, name);
    return text;
}

static double other_value(int64_t i)
{
    return test_value(i + 1000);
}

static stn_tensor *field(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype,
                         double (*value)(int64_t))
{
    const int64_t shape[] = {ROWS, COLUMNS};
    return test_tensor(context, mesh, placements, dtype, 2, shape, NULL, value);
}

/* Placements of two mesh axes, one after the other. */
static const struct layout {
    int rows, columns;
    stn_placement place[2];
} layouts[] = {{1, 0, {{0, 0, 0, 0}}},
               {2, 0, {{STN_PLACE_SHARD, 0, 0, 0}}},
               {3, 0, {{STN_PLACE_SHARD, 1, 0, 0}}},
               {2, 0, {{STN_PLACE_REPLICATE, 0, 0, 0}}},
               {2, 0, {{STN_PLACE_PARTIAL, 0, STN_SUM, 0}}},
               {2, 3, {{STN_PLACE_SHARD, 1, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}}},
               {2, 3, {{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}}},
               {2, 3, {{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_SHARD, 1, 0, 0}}}};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static stn_status save_body(stn_context *context, void *arg)
{
    const struct layout *l = arg;
    char path[128];
    const stn_mesh *mesh = test_mesh(context, l->rows, l->columns);
    const stn_metadata metadata[] = {{"what", "a test"}};
    stn_scope_begin(context);
    const stn_named_tensor list[] = {{"a", field(context, mesh, l->place, STN_DTYPE_F32, test_value)},
                                     {"b", field(context, mesh, l->place, STN_DTYPE_F64, other_value)}};
    CHECK_STATUS(stn_save(context, file_at("x.safetensors", path), 2, list, 1, metadata), STN_OK);
    return stn_scope_end(context);
}

static stn_status load_body(stn_context *context, void *arg)
{
    const struct layout *l = arg;
    char path[128], what[16];
    double got[N];
    const stn_mesh *mesh = test_mesh(context, l->rows, l->columns);
    stn_scope_begin(context);
    stn_tensor *b = field(context, mesh, l->place, STN_DTYPE_F64, test_value);
    stn_tensor *turned =
        stn_cast(stn_mul_number(field(context, mesh, l->place, STN_DTYPE_F32, other_value), 2), STN_DTYPE_F32);
    const stn_named_tensor list[] = {{"b", b}, {"a", turned}};
    CHECK_STATUS(stn_load(context, file_at("x.safetensors", path), 2, list), STN_OK);
    test_read(b, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], other_value(i), 0);
    test_read(turned, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], (double)(float)test_value(i), 0);
    CHECK_STATUS(stn_load_metadata(path, "what", what, sizeof what), STN_OK);
    CHECK_STR(what, "a test");
    CHECK_STATUS(stn_load_metadata(path, "why", what, sizeof what), STN_ERR_NOT_FOUND);
    return stn_scope_end(context);
}

static int ranks_of(const struct layout *l)
{
    return l->rows * (l->columns ? l->columns : 1);
}

static void every_layout_loads_what_every_other_saved(void)
{
    for (int from = 0; from < LAYOUTS; from++) {
        test_ranks(ranks_of(&layouts[from]), save_body, (void *)&layouts[from]);
        for (int to = 0; to < LAYOUTS; to++)
            if (layouts[to].place[0].kind != STN_PLACE_PARTIAL)
                test_ranks(ranks_of(&layouts[to]), load_body, (void *)&layouts[to]);
    }
}

static void one_step(stn_optimizer *optimizer, stn_tensor *p)
{
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(stn_mul(p, p), p), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_zero_grad(optimizer), STN_OK);
}

/* Five steps: all at once on one rank, else two here, saved, loaded on three ranks, three more there. */
struct course {
    int first, last; /* steps done here */
    double end[N];
};

static stn_status course_body(stn_context *context, void *arg)
{
    struct course *course = arg;
    char path[128];
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_placement shard = stn_shard(stn_context_size(context) == 3);
    stn_optimizer *optimizer = NULL;
    double got[N];
    stn_scope_begin(context);
    stn_tensor *p = field(context, mesh, &shard, STN_DTYPE_F64, course->first ? other_value : test_value);
    stn_set_requires_grad(p, 1);
    const stn_named_tensor list[] = {{"p", p}};
    const stn_parameter_group group = {sizeof group, 1, list, 0.1, 0, 0};
    CHECK_STATUS(stn_adamw_create(context, NULL, &optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_OK);
    file_at("optimizer.safetensors", path);
    if (course->first)
        CHECK_STATUS(stn_optimizer_load(optimizer, path), STN_OK);
    CHECK_I64(stn_optimizer_steps(optimizer), course->first);
    for (int s = course->first; s < course->last; s++)
        one_step(optimizer, p);
    if (course->last == 2)
        CHECK_STATUS(stn_optimizer_save(optimizer, path), STN_OK);
    test_read(p, got, N);
    if (stn_context_rank(context) == 0)
        memcpy(course->end, got, sizeof got);
    stn_optimizer_destroy(&optimizer);
    return stn_scope_end(context);
}

static void an_optimizer_goes_on_after_loading(void)
{
    struct course whole = {0, 5, {0}}, begin = {0, 2, {0}}, rest = {2, 5, {0}};
    test_ranks(1, course_body, &whole);
    test_ranks(2, course_body, &begin);
    test_ranks(3, course_body, &rest);
    CHECK_BYTES(rest.end, whole.end, sizeof whole.end);
}

/* Names and metadata that JSON has to escape come back; those that no file can hold are refused before one is made. */
static stn_status names_body(stn_context *context, void *arg)
{
    static const char *const names[] = {"a\"b\\c/d", "tab\tline\nbell\a", "d\xc3\xa9j\xc3\xa0 \xf0\x9f\x98\x80", " "};
    static const stn_metadata good = {"key \"1\"", "line\nend\x7f"}, bad[] = {{"k", "1"}, {"k", "2"}};
    char path[128], text[64];
    double got[N];
    stn_placement shard = stn_shard(0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *from = field(context, test_mesh(context, 2, 0), &shard, STN_DTYPE_F64, test_value);
    file_at("names.safetensors", path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        stn_tensor *to = field(context, test_mesh(context, 2, 0), &shard, STN_DTYPE_F64, other_value);
        CHECK_STATUS(stn_save(context, path, 1, &(stn_named_tensor){names[i], from}, 1, &good), STN_OK);
        CHECK_STATUS(stn_load(context, path, 1, &(stn_named_tensor){names[i], to}), STN_OK);
        test_read(to, got, N);
        CHECK_NEAR(got[N - 1], test_value(N - 1), 0);
        CHECK_STATUS(stn_load_metadata(path, good.key, text, sizeof text), STN_OK);
        CHECK_STR(text, good.value);
    }
    CHECK_STATUS(stn_save(context, file_at("y", path), 1, &(stn_named_tensor){"\xff", from}, 0, NULL),
                 STN_ERR_ARGUMENT);
    CHECK(strstr(stn_context_error_text(context), "is not UTF-8") != NULL);
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_save(context, path, 0, NULL, 2, bad), STN_ERR_ARGUMENT);
    CHECK(strstr(stn_context_error_text(context), "has 'k' twice") != NULL);
    stn_context_take_error(context, NULL, 0);
    CHECK(access(path, F_OK) != 0);
    return stn_scope_end(context);
}

static void what_is_saved_can_be_loaded_whatever_it_is_called(void)
{
    test_ranks(2, names_body, NULL);
}

/* What ranks that are threads pass each other by mistake, through a global variable. */
static stn_status stranger_body(stn_context *context, void *arg)
{
    char path[128];
    stn_context *stranger;
    stn_placement shard = stn_shard(0);
    (void)arg;
    CHECK_STATUS(stn_context_create(NULL, &stranger), STN_OK);
    const stn_named_tensor list = {"x", field(stranger, test_mesh(stranger, 1, 0), &shard, STN_DTYPE_F64, test_value)};
    CHECK_STATUS(stn_save(context, file_at("strange.safetensors", path), 1, &list, 0, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "save: 'x' belongs to another context");
    CHECK(access(path, F_OK) != 0);
    CHECK_STATUS(stn_load(context, path, 1, &list), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "load: 'x' belongs to another context");
    stn_tensor_release(&(stn_tensor *){list.tensor});
    stn_context_destroy(&stranger);
    return stn_context_status(context);
}

static void tensors_of_other_contexts_are_refused(void)
{
    test_ranks(2, stranger_body, NULL);
}

/* The memory of each rank is its own affair: all of them refuse what one has repeated. */
static stn_status repeated_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {ROWS, COLUMNS}, repeated[] = {0, 1}, dense[] = {COLUMNS, 1};
    double memory[ROWS * COLUMNS] = {0};
    char path[128];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *t = stn_wrap(context, STN_DTYPE_F64, 2, shape, stn_context_rank(context) == 1 ? repeated : dense,
                             memory, NULL, NULL);
    const stn_named_tensor zeros = {"t", t};
    CHECK_STATUS(stn_save(context, file_at("repeated.safetensors", path), 1, &zeros, 0, NULL), STN_OK);
    CHECK_STATUS(stn_load(context, path, 1, &zeros), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE,
                     "load: 't' has elements that stand in several places, and cannot be changed in place");
    return stn_scope_end(context);
}

static void memory_that_repeats_elements_is_not_loaded_into(void)
{
    const stn_context_options host = {.size = sizeof host, .device = "cpu"}; /* whose memory it is */
    CHECK_STATUS(test_launch(2, &host, repeated_body, NULL), STN_OK);
}

/* What a view shows would be the old elements in one layout and the new ones in another. */
static stn_status viewed_body(stn_context *context, void *arg)
{
    static const char *const places[] = {"R", "S0", "S1"};
    const int64_t shape[] = {ROWS, COLUMNS}, turned[] = {COLUMNS, ROWS};
    double zeros[ROWS * COLUMNS] = {0}, threes[ROWS * COLUMNS];
    char path[128];
    (void)arg;
    for (int i = 0; i < 3; i++) {
        stn_scope_begin(context);
        const stn_spec *spec = stn_spec_of(test_mesh(context, 3, 0), STN_DTYPE_F64, places[i], 2, shape);
        stn_tensor *t = stn_zeros(context, spec), *view;
        const stn_named_tensor named = {"t", t};
        CHECK_STATUS(stn_save(context, file_at("viewed.safetensors", path), 1, &named, 0, NULL), STN_OK);
        stn_scope_begin(context);
        view = stn_view(t, 2, turned);
        CHECK_STATUS(stn_load(context, path, 1, &named), STN_ERR_STATE);
        CHECK_ERROR(context, STN_ERR_STATE,
                    "load: 't' has views that need not share its memory, and cannot be changed in place");
        CHECK(!stn_tensor_is_error(view));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        stn_transpose(t, 0, 1);
        stn_fill_(t, 3);
        stn_tensor *moved = stn_redistribute(t, spec); /* a value of its own */
        CHECK_STATUS(stn_load(context, path, 1, &named), STN_OK);
        for (int k = 0; k < ROWS * COLUMNS; k++)
            threes[k] = 3;
        test_compare(t, zeros, ROWS * COLUMNS, 0);
        test_compare(moved, threes, ROWS * COLUMNS, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void a_tensor_that_a_view_shows_apart_is_not_loaded_into(void)
{
    test_ranks(3, viewed_body, NULL);
}

static void write_file(const char *name, const char *bytes, size_t size)
{
    char path[128];
    FILE *file = fopen(file_at(name, path), "wb");
    if (!CHECK_PTR(file))
        return;
    CHECK_I64((int64_t)fwrite(bytes, 1, size, file), (int64_t)size);
    fclose(file);
}

static void refused(stn_context *context, const char *name, const char *tensor, stn_dtype dtype, stn_status want,
                    const char *why)
{
    char path[128];
    double got[N];
    stn_placement shard = stn_shard(0);
    stn_tensor *t = field(context, test_mesh(context, 2, 0), &shard, dtype, test_value);
    CHECK_STATUS(stn_load(context, file_at(name, path), 1, &(stn_named_tensor){tensor, t}), want);
    if (!CHECK(strstr(stn_context_error_text(context), why) != NULL))
        fprintf(stderr, "  %s\n", stn_context_error_text(context));
    stn_context_take_error(context, NULL, 0);
    test_read(t, got, N);
    CHECK_NEAR(got[N - 1], dtype == STN_DTYPE_F32 ? (double)(float)test_value(N - 1) : test_value(N - 1), 0);
}

static stn_status damaged_body(stn_context *context, void *arg)
{
    char path[128];
    (void)arg;
    stn_scope_begin(context);
    refused(context, "none.safetensors", "a", STN_DTYPE_F32, STN_ERR_IO, "none.safetensors: cannot be opened");
    refused(context, "x.safetensors", "c", STN_DTYPE_F32, STN_ERR_NOT_FOUND, "no tensor 'c'");
    refused(context, "x.safetensors", "a", STN_DTYPE_F64, STN_ERR_DTYPE, "'a' is F32, wanted F64");
    refused(context, "short.safetensors", "b", STN_DTYPE_F64, STN_ERR_IO, "truncated: 'b' ends");
    refused(context, "tiny.safetensors", "a", STN_DTYPE_F32, STN_ERR_IO, "truncated or no file");
    refused(context, "length.safetensors", "a", STN_DTYPE_F32, STN_ERR_IO, "truncated or damaged: a header of");
    refused(context, "json.safetensors", "a", STN_DTYPE_F32, STN_ERR_IO, "the header is damaged");
    refused(context, "deep.safetensors", "a", STN_DTYPE_F32, STN_ERR_IO, "the header is damaged");
    refused(context, "offsets.safetensors", "a", STN_DTYPE_F32, STN_ERR_IO, "the offsets of 'a' do not fit");
    refused(context, "shape.safetensors", "a", STN_DTYPE_F32, STN_ERR_SHAPE,
            "another shape: got (5, 7), wanted (7, 5)");
    stn_placement shard = stn_shard(0);
    stn_tensor *t = field(context, test_mesh(context, 2, 0), &shard, STN_DTYPE_F32, test_value);
    snprintf(path, sizeof path, "%s/no/such/folder.safetensors", folder);
    CHECK_STATUS(stn_save(context, path, 1, &(stn_named_tensor){"a", t}, 0, NULL), STN_ERR_IO);
    CHECK(strstr(stn_context_error_text(context), "cannot be made") != NULL);
    stn_context_take_error(context, NULL, 0);
    const stn_named_tensor twice[] = {{"a", t}, {"a", t}};
    CHECK_STATUS(stn_save(context, file_at("y", path), 2, twice, 0, NULL), STN_ERR_ARGUMENT);
    CHECK_STR(stn_context_error_text(context), "save: 'a' stands twice");
    stn_context_take_error(context, NULL, 0);
    CHECK(access(path, F_OK) != 0);
    return stn_scope_end(context);
}

static void damaged_files_are_refused_on_all_ranks(void)
{
    char path[128], bytes[4096], deep[108];
    test_ranks(1, save_body, (void *)&layouts[0]);
    FILE *file = fopen(file_at("x.safetensors", path), "rb");
    if (!CHECK_PTR(file))
        return;
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    write_file("short.safetensors", bytes, size - 1);
    write_file("tiny.safetensors", bytes, 5);
    write_file("length.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    write_file("json.safetensors", "\x04\0\0\0\0\0\0\0{\"a\"", 12);
    memset(deep, '[', sizeof deep);
    memcpy(deep, "\x64\0\0\0\0\0\0\0", 8);
    write_file("deep.safetensors", deep, sizeof deep);
    const char offsets[8 + 0x3a + 9] =
        "\x3a\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[7,5],\"data_offsets\":[9,8]}}     ";
    write_file("offsets.safetensors", offsets, sizeof offsets);
    const char shape[8 + 0x3a + 4 * N] =
        "\x3a\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[5,7],\"data_offsets\":[0,140]}}   ";
    write_file("shape.safetensors", shape, sizeof shape);
    test_ranks(2, damaged_body, NULL);
}

/* Chunks that are many pieces of the file: short ones, for which ranks exchange; long ones; ones that lie far apart.
 * Cut along each dim, on some ranks unevenly or not at all. */
static const struct {
    int ndim;
    int64_t shape[3];
} large[] = {{2, {70, 5000}}, {2, {5, 20000}}, {3, {40, 3, 3000}}, {3, {3, 400, 7}}, {3, {1, 3, 70001}}};

enum { LARGE = sizeof large / sizeof *large };

static stn_tensor *large_tensor(stn_context *context, const stn_mesh *mesh, int i, int dim, double (*value)(int64_t))
{
    const stn_placement shard = stn_shard(dim);
    return test_tensor(context, mesh, &shard, STN_DTYPE_F32, large[i].ndim, large[i].shape, NULL, value);
}

static void check_large(stn_tensor *got, stn_context *context, const stn_mesh *mesh, int i, int dim)
{
    double different = -1;
    stn_tensor *wrong = stn_ne(got, large_tensor(context, mesh, i, dim, test_value));
    CHECK_STATUS(stn_item(stn_sum(wrong, 0, NULL, 0), &different), STN_OK);
    if (!CHECK_NEAR(different, 0, 0))
        fprintf(stderr, "    tensor %d along dim %d\n", i, dim);
}

static stn_status large_body(stn_context *context, void *arg)
{
    static const char *const names[LARGE] = {"a", "b", "c", "d", "e"};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_named_tensor list[LARGE];
    char path[128];
    (void)arg;
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++) {
            stn_scope_begin(context);
            for (int i = 0; i < LARGE; i++)
                list[i] =
                    (stn_named_tensor){names[i], large_tensor(context, mesh, i, from % large[i].ndim, test_value)};
            CHECK_STATUS(stn_save(context, file_at("large.safetensors", path), LARGE, list, 0, NULL), STN_OK);
            for (int i = 0; i < LARGE; i++)
                list[i].tensor = large_tensor(context, mesh, i, to % large[i].ndim, other_value);
            CHECK_STATUS(stn_load(context, path, LARGE, list), STN_OK);
            for (int i = 0; i < LARGE; i++)
                check_large(list[i].tensor, context, mesh, i, to % large[i].ndim);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void pieces_of_any_length_are_written_and_read(void)
{
    for (int ranks = 2; ranks <= 3; ranks++)
        test_ranks(ranks, large_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_layout_loads_what_every_other_saved", every_layout_loads_what_every_other_saved},
        {"an_optimizer_goes_on_after_loading", an_optimizer_goes_on_after_loading},
        {"what_is_saved_can_be_loaded_whatever_it_is_called", what_is_saved_can_be_loaded_whatever_it_is_called},
        {"tensors_of_other_contexts_are_refused", tensors_of_other_contexts_are_refused},
        {"memory_that_repeats_elements_is_not_loaded_into", memory_that_repeats_elements_is_not_loaded_into},
        {"a_tensor_that_a_view_shows_apart_is_not_loaded_into", a_tensor_that_a_view_shows_apart_is_not_loaded_into},
        {"pieces_of_any_length_are_written_and_read", pieces_of_any_length_are_written_and_read},
        {"damaged_files_are_refused_on_all_ranks", damaged_files_are_refused_on_all_ranks},
    };
    if (!mkdtemp(folder))
        return 1;
    int code = TEST_MAIN(argc, argv, cases);
    static const char *const names[] = {"x",    "optimizer", "names",   "short", "tiny", "length",
                                        "json", "deep",      "offsets", "shape", "large"};
    char path[160];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s.safetensors", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    return code;
}
