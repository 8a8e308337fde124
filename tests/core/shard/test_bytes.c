/* Specs as bytes: there and back on every layout, in this process and in another; what is no such form. Specs cut
 * like another; sizes of pieces. */
#include "harness.h"

#include "core/context/context.h"
#include "core/shard/random_spec.h"
#include "core/shard/world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORLD = 6, ROUNDS = 400, MOST = 4096 };

static const uint32_t all_ops = 1u << STN_SUM | 1u << STN_AVG | 1u << STN_PROD | 1u << STN_MIN | 1u << STN_MAX;

/* The next spec of a row that is the same in every process. */
static const stn_spec *draw(uint64_t *state, stn_context *context, const stn_mesh **mesh)
{
    struct random_shape shape;
    *mesh = random_mesh(state, context);
    random_shape(state, &shape);
    return random_spec(state, context, *mesh, &shape, (stn_dtype)world_random(state, STN_DTYPE_COUNT), all_ops);
}

static void every_layout_comes_back(void)
{
    stn_context *context = world_rank(0, WORLD);
    uint64_t state = 5;
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t bytes[MOST];
        const stn_mesh *mesh;
        const stn_spec *spec = draw(&state, context, &mesh), *back = NULL;
        const size_t size = stn_spec_write(spec, NULL, 0);
        memset(bytes, 0xee, sizeof bytes);
        CHECK(size > 0 && size < sizeof bytes);
        CHECK(stn_spec_write(spec, bytes, size - 1) == size && bytes[0] == 0xee);
        CHECK(stn_spec_write(spec, bytes, sizeof bytes) == size && bytes[size] == 0xee);
        CHECK_STATUS(stn_spec_read(mesh, bytes, size, &back), STN_OK);
        CHECK(back == spec);
        stn_spec_release(&back);
        stn_spec_release(&spec);
    }
    const stn_spec *local = NULL, *back = NULL;
    uint8_t bytes[MOST];
    const int two = 2;
    const stn_mesh *mesh;
    CHECK_STATUS(stn_mesh_create(context, 1, &two, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_U8, 2, (int64_t[]){3, 0}, NULL, &local), STN_OK);
    CHECK_STATUS(stn_spec_read(mesh, bytes, stn_spec_write(local, bytes, sizeof bytes), &back), STN_OK);
    CHECK(back == local);
    CHECK_I64((int64_t)stn_spec_write(NULL, bytes, sizeof bytes), 0);
    stn_spec_release(&local);
    stn_spec_release(&back);
    world_end(context);
}

/* Another rank of another process, which has made other meshes and specs before. @return how many specs came back as
 * others. */
static int read_all(int from)
{
    stn_context *context = world_rank(3, WORLD);
    uint64_t state = 5, other = 77;
    const stn_mesh *mesh;
    int wrong = 0;
    for (int i = 0; i < 5; i++) {
        const stn_spec *spec = draw(&other, context, &mesh);
        stn_spec_release(&spec);
    }
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t bytes[MOST];
        size_t size = 0;
        const stn_spec *spec = draw(&state, context, &mesh), *back = NULL;
        wrong += read(from, &size, sizeof size) != sizeof size || size > sizeof bytes ||
                 read(from, bytes, size) != (ssize_t)size;
        wrong += stn_spec_read(mesh, bytes, size, &back) != STN_OK || back != spec;
        stn_spec_release(&back);
        stn_spec_release(&spec);
    }
    world_end(context);
    return wrong;
}

static void every_layout_comes_back_in_another_process(void)
{
    int ends[2], status = -1;
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read_all(ends[0]) != 0);
    }
    CHECK(child > 0);
    close(ends[0]);
    stn_context *context = world_rank(0, WORLD);
    uint64_t state = 5;
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t bytes[sizeof(size_t) + MOST];
        const stn_mesh *mesh;
        const stn_spec *spec = draw(&state, context, &mesh);
        const size_t size = stn_spec_write(spec, bytes + sizeof size, MOST);
        memcpy(bytes, &size, sizeof size);
        CHECK(write(ends[1], bytes, sizeof size + size) == (ssize_t)(sizeof size + size));
        stn_spec_release(&spec);
    }
    close(ends[1]);
    world_end(context);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK_I64(WEXITSTATUS(status), 0);
}

/* A form with the check that its bytes should have. */
static void seal(uint8_t *bytes, size_t size)
{
    uint32_t check = 2166136261u;
    for (size_t i = 0; i < size - 4; i++)
        check = (check ^ bytes[i]) * 16777619u;
    for (int i = 0; i < 4; i++)
        bytes[size - 4 + (size_t)i] = (uint8_t)(check >> 8 * i);
}

static void expect(const stn_mesh *mesh, const uint8_t *bytes, size_t size, stn_status status, const char *text)
{
    const stn_spec *out = NULL;
    CHECK_STATUS(stn_spec_read(mesh, bytes, size, &out), status);
    CHECK(out == NULL);
    CHECK_STR(world_error(mesh->context), text);
}

static void bytes_of_no_spec_are_refused_with_the_reason(void)
{
    stn_context *context = world_rank(0, WORLD);
    const int sizes[] = {2, 3}, three[] = {3};
    const stn_placement placements[] = {STN_S(0), STN_R};
    const int64_t shape[] = {5, 7}, pieces[] = {4, 1}, *const cuts[] = {pieces, NULL};
    const stn_spec_options options = {.size = sizeof options, .sizes = cuts};
    const stn_mesh *mesh, *line;
    const stn_spec *spec = NULL, *out = NULL;
    uint8_t bytes[MOST], bad[MOST];
    CHECK_STATUS(stn_mesh_create(context, 2, sizes, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_mesh_create(context, 1, three, NULL, NULL, &line), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, placements, STN_DTYPE_F32, 2, shape, &options, &spec), STN_OK);
    const size_t size = stn_spec_write(spec, bytes, sizeof bytes);
    CHECK_I64((int64_t)size, 8 + 2 * 8 + 2 * 9 + (4 + 2 * 8) + 4 + 4);
    CHECK_STATUS(stn_spec_read(NULL, bytes, size, &out), STN_ERR_ARGUMENT);
    expect(mesh, NULL, 9, STN_ERR_ARGUMENT, "stn_spec_read: got 0 bytes, wanted at least 12");
    expect(mesh, bytes, 11, STN_ERR_ARGUMENT, "stn_spec_read: got 11 bytes, wanted at least 12");
    expect(mesh, (const uint8_t *)"STNQ\1...........", 16, STN_ERR_ARGUMENT,
           "stn_spec_read: the bytes begin with 0x53544e51, wanted \"STNS\"");
    expect(mesh, (const uint8_t *)"STNS\2...........", 16, STN_ERR_VERSION,
           "stn_spec_read: the form has version 2, wanted 1");
    expect(line, bytes, size, STN_ERR_ARGUMENT, "stn_spec_read: got 2 axes, wanted the mesh's 1, or 0");
    memcpy(bad, bytes, size);
    bad[8] = 5;
    seal(bad, size);
    expect(mesh, bad, size, STN_ERR_ARGUMENT, "stn_spec_read: axis 0 has 5 ranks, wanted the mesh's 2");
    memcpy(bad, bytes, size);
    bad[8 + 16 + 18] = 3;
    seal(bad, size);
    expect(mesh, bad, size, STN_ERR_ARGUMENT, "stn_spec_read: dim 0 has 3 pieces, wanted 2, or 0");
    memcpy(bad, bytes, size);
    bad[8 + 16 + 18 + 4] = 2;
    seal(bad, size);
    expect(mesh, bad, size, STN_ERR_SHAPE, "stn_spec_create: sizes[0] add up to 3, wanted shape[0] = 5");
    memcpy(bad, bytes, size - 8);
    seal(bad, size - 4);
    expect(mesh, bad, size - 4, STN_ERR_ARGUMENT, "stn_spec_read: got 66 bytes, wanted more for what they say");
    stn_spec_release(&spec);
    world_end(context);
}

static void other_bytes_are_refused_or_another_spec(void)
{
    stn_context *context = world_rank(0, WORLD);
    uint64_t state = 11;
    int refused = 0;
    for (int i = 0; i < 20 * ROUNDS; i++) {
        uint8_t bytes[MOST];
        const stn_mesh *mesh;
        const stn_spec *spec = draw(&state, context, &mesh), *out = NULL;
        size_t size = stn_spec_write(spec, bytes, sizeof bytes);
        const size_t at = (size_t)world_random(&state, size);
        const int sealed = i % 2, shorter = i % 3 == 0;
        bytes[at] ^= (uint8_t)(1 + world_random(&state, 255));
        size -= shorter ? (size_t)world_random(&state, size) : 0;
        if (sealed && size >= 12)
            seal(bytes, size);
        const stn_status status = stn_spec_read(mesh, bytes, size, &out);
        refused += status != STN_OK;
        CHECK((status == STN_OK) == (out != NULL));
        CHECK(sealed || status != STN_OK); /* the check alone finds one byte that differs */
        CHECK(status == STN_OK || world_error(context)[0] != '\0');
        stn_spec_release(&out);
        stn_spec_release(&spec);
    }
    CHECK(refused > 10 * ROUNDS);
    world_end(context);
}

/* Like another */

static const stn_spec *like(const stn_spec *of, const char *placements, int ndim, const int64_t *shape)
{
    const stn_spec *named = stn_spec_of(stn_spec_mesh(of), STN_DTYPE_F32, placements, ndim, shape), *out = NULL;
    stn_placement p[STN_MAX_MESH_NDIM];
    for (int a = 0; a < stn_mesh_ndim(stn_spec_mesh(of)); a++)
        p[a] = stn_spec_placement(named, a);
    CHECK_STATUS(stn_spec_like(of, p, STN_DTYPE_I64, ndim, shape, &out), STN_OK);
    CHECK(stn_spec_dtype(out) == STN_DTYPE_I64);
    stn_spec_release(&named);
    return out;
}

static void expect_sizes(const stn_spec *spec, int dim, int n, const int64_t *wanted)
{
    int64_t sizes[64];
    CHECK_I64(stn_spec_sizes(spec, dim, NULL), n);
    CHECK_I64(stn_spec_sizes(spec, dim, sizes), n);
    CHECK_BYTES(sizes, wanted, (size_t)n * sizeof *wanted);
}

static void cuts_are_kept_where_the_same_axes_shard_a_dim_of_the_same_size(void)
{
    stn_context *context = world_rank(0, WORLD);
    const int grid[] = {2, 3};
    const stn_placement both[] = {STN_S(0), STN_S(0)};
    const int64_t shape[] = {11, 7}, longer[] = {12, 7}, more[] = {11, 7, 5};
    const int64_t pieces[] = {0, 4, 1, 3, 2, 1}, *const cuts[] = {pieces, NULL};
    const stn_spec_options options = {.size = sizeof options, .sizes = cuts};
    const stn_mesh *mesh;
    const stn_spec *spec = NULL, *out;
    CHECK_STATUS(stn_mesh_create(context, 2, grid, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, both, STN_DTYPE_F32, 2, shape, &options, &spec), STN_OK);
    expect_sizes(spec, 0, 6, pieces);
    expect_sizes(spec, 1, 1, (int64_t[]){7});
    CHECK_I64(stn_spec_sizes(spec, 2, NULL), 0);
    CHECK_I64(stn_spec_sizes(NULL, 0, NULL), 0);
    expect_sizes(out = like(spec, "S0,S0", 2, shape), 0, 6, pieces);
    stn_spec_release(&out);
    expect_sizes(out = like(spec, "S0,S0", 3, more), 0, 6, pieces);
    stn_spec_release(&out);
    expect_sizes(out = like(spec, "S0,R", 2, shape), 0, 2, (int64_t[]){5, 6});
    const stn_spec *major = out;
    expect_sizes(out = like(major, "S0,S0", 2, shape), 0, 6, (int64_t[]){2, 2, 1, 2, 2, 2});
    stn_spec_release(&out);
    stn_spec_release(&major);
    expect_sizes(out = like(spec, "R,S0", 2, shape), 0, 3, (int64_t[]){4, 4, 3});
    stn_spec_release(&out);
    expect_sizes(out = like(spec, "S0,S0", 2, longer), 0, 6, (int64_t[]){2, 2, 2, 2, 2, 2});
    stn_spec_release(&out);
    expect_sizes(out = like(spec, "S1,S0", 2, shape), 1, 2, (int64_t[]){4, 3});
    stn_spec_release(&out);
    CHECK_STATUS(stn_spec_like(NULL, both, STN_DTYPE_F32, 2, shape, &out), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_spec_like(spec, NULL, STN_DTYPE_F32, 2, shape, &out), STN_ERR_ARGUMENT);
    CHECK(world_error(context)[0] != '\0');
    stn_spec_release(&spec);
    world_end(context);
}

static void a_spec_like_itself_is_itself(void)
{
    stn_context *context = world_rank(0, WORLD);
    uint64_t state = 19;
    for (int i = 0; i < ROUNDS; i++) {
        const stn_mesh *mesh;
        const stn_spec *spec = draw(&state, context, &mesh), *out = NULL;
        stn_placement placements[STN_MAX_MESH_NDIM];
        for (int a = 0; a < stn_mesh_ndim(mesh); a++)
            placements[a] = stn_spec_placement(spec, a);
        CHECK_STATUS(
            stn_spec_like(spec, placements, stn_spec_dtype(spec), stn_spec_ndim(spec), stn_spec_shape(spec), &out),
            STN_OK);
        CHECK(out == spec);
        stn_spec_release(&out);
        stn_spec_release(&spec);
    }
    world_end(context);
}

/* Other sizes along one dim */

static void given_sizes_are_those_of_one_dim_alone(void)
{
    stn_context *context = world_rank(4, WORLD);
    const int grid[] = {2, 3};
    const stn_placement both[] = {STN_S(1), STN_S(0)};
    const int64_t shape[] = {11, 7}, rows[] = {8, 0, 3}, columns[] = {0, 7};
    const int order[] = {1, 0};
    const int64_t *const cuts[] = {rows, columns};
    const stn_spec_options options = {
        .size = sizeof options, .axis_order = order, .memory_order = order, .sizes = cuts};
    stn_spec_options balanced = options;
    const stn_mesh *mesh;
    const stn_spec *wanted = NULL, *spec = NULL;
    balanced.sizes = NULL;
    CHECK_STATUS(stn_mesh_create(context, 2, grid, NULL, NULL, &mesh), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, both, STN_DTYPE_I64, 2, shape, &options, &wanted), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, both, STN_DTYPE_I64, 2, shape, &balanced, &spec), STN_OK);
    stn_scope_begin(context);
    const stn_spec *uneven = stn_spec_with_sizes(spec, 0, 3, rows);
    expect_sizes(uneven, 0, 3, rows);
    expect_sizes(uneven, 1, 2, (int64_t[]){4, 3});
    CHECK(stn_spec_with_sizes(uneven, 1, 2, columns) == wanted);
    CHECK(stn_spec_with_sizes(uneven, 0, 3, (int64_t[]){4, 4, 3}) == spec); /* the balanced ones again */
    CHECK_I64(stn_spec_local_offset(wanted)[0] * 100 + stn_spec_local_offset(wanted)[1], 800);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    expect_sizes(spec, 0, 3, (int64_t[]){4, 4, 3});
    stn_spec_release(&spec);
    stn_spec_release(&wanted);
    world_end(context);
}

/* As the text of stn_spec_of gives it, where two axes shard a dim; where none does there is one piece. */
static void sizes_are_given_for_all_axes_of_a_dim(void)
{
    stn_context *context = world_rank(0, WORLD);
    const int grid[] = {2, 3};
    const int64_t shape[] = {11, 7}, pieces[] = {0, 4, 1, 3, 2, 1};
    const stn_mesh *mesh;
    CHECK_STATUS(stn_mesh_create(context, 2, grid, NULL, NULL, &mesh), STN_OK);
    const stn_spec *balanced = stn_spec_of(mesh, STN_DTYPE_F32, "S0,S0", 2, shape);
    const stn_spec *uneven = stn_spec_with_sizes(balanced, 0, 6, pieces);
    const stn_spec *told = stn_spec_of(mesh, STN_DTYPE_F32, "S0 sizes 0 4 1 3 2 1,S0", 2, shape);
    const stn_spec *same = stn_spec_with_sizes(uneven, 1, 1, (int64_t[]){7});
    CHECK(uneven != NULL && uneven == told && same == uneven && uneven != balanced);
    for (const stn_spec **all[] = {&balanced, &uneven, &told, &same}, ***at = all; at < all + 4; at++)
        stn_spec_release(*at); /* outside scopes each is the caller's */
    world_end(context);
}

static void sizes_that_do_not_fit_are_refused(void)
{
    static const struct {
        int dim, n, no_sizes;
        int64_t sizes[3];
        stn_status status;
        const char *why;
    } rows[] = {
        {2, 3, 0, {4, 4, 3}, STN_ERR_ARGUMENT, "stn_spec_with_sizes: dim got 2, wanted 0 to 1"},
        {-1, 3, 0, {4, 4, 3}, STN_ERR_ARGUMENT, "stn_spec_with_sizes: dim got -1, wanted 0 to 1"},
        {0, 2, 0, {4, 7}, STN_ERR_ARGUMENT, "got 2 sizes, wanted one for each of 3 pieces of dim 0"},
        {1, 3, 0, {4, 4, 3}, STN_ERR_ARGUMENT, "got 3 sizes, wanted one for each of 1 pieces of dim 1"},
        {0, 3, 1, {0}, STN_ERR_ARGUMENT, "got 3 sizes at NULL"},
        {0, 3, 0, {4, -1, 8}, STN_ERR_ARGUMENT, "stn_spec_with_sizes: sizes[0][1] is -1, wanted at least 0"},
        {0, 3, 0, {4, 4, 4}, STN_ERR_SHAPE, "stn_spec_with_sizes: sizes[0] add up to 12, wanted shape[0] = 11"},
        {1, 1, 0, {8}, STN_ERR_SHAPE, "stn_spec_with_sizes: sizes[1] add up to 8, wanted shape[1] = 7"},
        {0, 3, 0, {INT64_MAX, 1, 0}, STN_ERR_SHAPE, "add up to more than 2^63 - 1"},
    };
    stn_context *context = world_rank(0, WORLD);
    const stn_mesh *mesh;
    CHECK_STATUS(stn_mesh_create(context, 1, (int[]){3}, NULL, NULL, &mesh), STN_OK);
    const stn_spec *spec = stn_spec_of(mesh, STN_DTYPE_F32, "S0", 2, (int64_t[]){11, 7});
    char text[STNI_ERROR_TEXT];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(stn_spec_with_sizes(spec, rows[i].dim, rows[i].n, rows[i].no_sizes ? NULL : rows[i].sizes) == NULL);
        CHECK(stn_spec_with_sizes(spec, 0, 3, (int64_t[]){11, 0, 0}) == NULL); /* an error is kept */
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), rows[i].status);
        if (!CHECK(strstr(text, rows[i].why) != NULL))
            CHECK_STR(text, rows[i].why);
    }
    stn_spec_release(&spec);
    world_end(context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_layout_comes_back", every_layout_comes_back},
        {"every_layout_comes_back_in_another_process", every_layout_comes_back_in_another_process},
        {"bytes_of_no_spec_are_refused_with_the_reason", bytes_of_no_spec_are_refused_with_the_reason},
        {"other_bytes_are_refused_or_another_spec", other_bytes_are_refused_or_another_spec},
        {"cuts_are_kept_where_the_same_axes_shard_a_dim_of_the_same_size",
         cuts_are_kept_where_the_same_axes_shard_a_dim_of_the_same_size},
        {"a_spec_like_itself_is_itself", a_spec_like_itself_is_itself},
        {"given_sizes_are_those_of_one_dim_alone", given_sizes_are_those_of_one_dim_alone},
        {"sizes_are_given_for_all_axes_of_a_dim", sizes_are_given_for_all_axes_of_a_dim},
        {"sizes_that_do_not_fit_are_refused", sizes_that_do_not_fit_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
