/* Drawings of layouts: every element is drawn once, each rank is named once, and what cannot be drawn is said. */
#include "harness.h"

#include "core/shard/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 480, MOST = 6, NUMBERS = 64 };

static const stn_mesh *mesh_of(stn_context *context, int ndim, const int *sizes)
{
    static const char *const names[] = {"lat", "<&>", "time"};
    const stn_mesh *mesh = NULL;
    CHECK_STATUS(stn_mesh_create(context, ndim, sizes, names, NULL, &mesh), STN_OK);
    return mesh;
}

static char *drawn(const stn_spec *spec)
{
    const size_t n = stn_spec_draw(spec, NULL, 0);
    char *text = malloc(n + 1);
    CHECK_I64((int64_t)stn_spec_draw(spec, text, n + 1), (int64_t)n);
    CHECK_I64((int64_t)strlen(text), (int64_t)n);
    return text;
}

/* How often each rank is named in the titles and below; returns how many titles there are. */
static int count_names(const char *text, int *counts)
{
    int titles = 0;
    const char *below = strstr(text, "without elements: ");
    memset(counts, 0, NUMBERS * sizeof *counts);
    for (const char *at = text; (at = strstr(at, "<title>")) != NULL; titles++) {
        for (at += strlen("<title>"); *at != ':'; at += *at == ',' ? 2 : 0)
            counts[strtol(at, (char **)&at, 10)]++;
    }
    for (const char *at = below ? below + strlen("without elements: ") : "<"; *at != '<'; at += *at == ',' ? 2 : 0)
        counts[strtol(at, (char **)&at, 10)]++;
    return titles;
}

static double area_of(const char *text)
{
    double area = 0, width, height;
    for (const char *at = text; (at = strstr(at, "<rect")) != NULL; at++)
        if (CHECK_I64(sscanf(strstr(at, "width"), "width=\"%lf\" height=\"%lf\"", &width, &height), 2))
            area += width * height;
    return area;
}

static int occurrences(const char *text, const char *of)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, of)) != NULL; at += strlen(of))
        n++;
    return n;
}

/* A layout of (8, 37, 73) over ranks; sizes of dim 1, NULL: balanced. */
static void check_layout(int ndim, const int *sizes, const char *placements, const int64_t *of_dim, int chunks,
                         int panels)
{
    stn_context *context = world_rank(0, 12);
    int counts[NUMBERS], ranks = 1;
    stn_scope_begin(context);
    const stn_spec *spec =
        stn_spec_of(mesh_of(context, ndim, sizes), STN_DTYPE_F32, placements, 3, (const int64_t[]){8, 37, 73});
    if (of_dim)
        spec = stn_spec_with_sizes(spec, 1, sizes[0], of_dim);
    char *text = drawn(spec);
    CHECK_I64(count_names(text, counts), chunks);
    for (int a = 0; a < ndim; a++)
        ranks *= sizes[a];
    for (int r = 0; r < NUMBERS; r++)
        CHECK_I64(counts[r], r < ranks);
    CHECK_NEAR(area_of(text) / panels, SIDE * (double)(strstr(text, "dim 0 down, dim 1") ? 103 : 243), 10);
    CHECK_I64(occurrences(text, " from 0</text>") + occurrences(text, " from 4</text>"), panels > 1 ? panels : 0);
    CHECK_I64(occurrences(text, "<&>"), 0);
    free(text);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    world_end(context);
}

static void elements_are_drawn_once(void)
{
    static const int64_t uneven[] = {30, 0, 7};
    check_layout(1, (const int[]){3}, "S1", NULL, 3, 1);
    check_layout(1, (const int[]){3}, "S1", uneven, 2, 1);
    check_layout(2, (const int[]){3, 2}, "S1,R", uneven, 2, 1);
    check_layout(2, (const int[]){3, 2}, "S1,P", NULL, 3, 1);
    check_layout(2, (const int[]){3, 2}, "S1,S2", uneven, 4, 1);
    check_layout(2, (const int[]){2, 3}, "S1,S1", NULL, 6, 1);
    check_layout(2, (const int[]){2, 3}, "S0,S1", NULL, 6, 1);
    check_layout(2, (const int[]){2, 3}, "R,R", NULL, 1, 1);
    check_layout(3, (const int[]){2, 2, 3}, "S0,S1,S2", NULL, 12, 2);
}

static void odd_specs_are_drawn(void)
{
    stn_context *context = world_rank(0, 12);
    const int twelve = 12;
    const stn_spec *spec = NULL;
    char text[16] = "x";
    stn_scope_begin(context);
    const stn_mesh *mesh = mesh_of(context, 1, &twelve);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 0, NULL, NULL, &spec), STN_OK);
    char *number = drawn(spec), *nothing = drawn(stn_spec_of(mesh, STN_DTYPE_F32, "S0", 2, (const int64_t[]){0, 3})),
         *many = drawn(stn_spec_of(mesh, STN_DTYPE_F32, "R", 1, (const int64_t[]){5}));
    CHECK_I64(occurrences(number, ">this rank</text>"), 1);
    CHECK_I64(occurrences(nothing, "<rect"), 0);
    CHECK_I64(occurrences(nothing, "without elements: 0, 1, 2, 3, 4, 5, 6, 7, ...</text>"), 1);
    CHECK_I64(occurrences(many, ">0, 1, 2, 3, 4, 5, 6, 7 and 4 more</text>"), 1);
    CHECK_I64((int64_t)stn_spec_draw(spec, text, sizeof text), (int64_t)strlen(number));
    CHECK_STR(text, "<svg xmlns=\"htt");
    CHECK_I64((int64_t)stn_spec_draw(NULL, text, sizeof text), 0);
    CHECK_STR(text, "");
    free(number);
    free(nothing);
    free(many);
    stn_spec_release(&spec);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    world_end(context);
}

/* Axes have any name; a document of XML has not any character. */
static void odd_names_are_drawn(void)
{
    stn_context *context = world_rank(0, 12);
    static const char *const name = "\x01\xc3\xbc\xff\xc3 \xef\xbf\xbf\xed\xa0\x80>\t";
    const int twelve = 12;
    const stn_mesh *mesh = NULL;
    stn_scope_begin(context);
    CHECK_STATUS(stn_mesh_create(context, 1, &twelve, &name, NULL, &mesh), STN_OK);
    char *text = drawn(stn_spec_of(mesh, STN_DTYPE_F32, "R", 1, (const int64_t[]){5}));
    CHECK_I64(occurrences(text, " on ?\xc3\xbc?? ??????&gt;?=12</text>"), 1);
    free(text);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    world_end(context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"elements_are_drawn_once", elements_are_drawn_once},
        {"odd_specs_are_drawn", odd_specs_are_drawn},
        {"odd_names_are_drawn", odd_names_are_drawn},
    };
    return TEST_MAIN(argc, argv, cases);
}
