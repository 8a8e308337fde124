/* Ops that change shapes. */
#include "generators.h"

#include <string.h>

static int any_term(struct draft *d, const struct generator *g, int min_ndim, int max_ndim)
{
    return draw_first(d, g, min_ndim, max_ndim);
}

/* The numel in factors: a random divisor of what is left, several times. */
int draw_reshape(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 0, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    int64_t left = term_numel(term_of(d, t)), shape[STN_MAX_NDIM];
    const int n = draw_between(d, 1, 4);
    for (int i = 0; i < n - 1; i++) {
        int64_t divisor = left > 0 ? 1 + rng_below(&d->rng, left) : draw_between(d, 1, 3);
        while (left > 0 && left % divisor != 0)
            divisor--;
        shape[i] = divisor;
        left /= divisor;
    }
    shape[n - 1] = left;
    /* One may be left to infer. */
    if (left > 0 && draw_chance(d, 3))
        shape[draw_below(d, n)] = -1;
    put_ints(d, "shape", n, shape);
    return 1;
}

int draw_permute(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    const int n = term_of(d, t)->ndim;
    int64_t dims[STN_MAX_NDIM];
    for (int i = 0; i < n; i++) {
        const int j = draw_below(d, i + 1);
        dims[i] = dims[j];
        dims[j] = i;
    }
    put_ints(d, "dims", n, dims);
    return 1;
}

int draw_transpose(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 2, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    const int n = term_of(d, t)->ndim;
    put_int(d, "dim0", draw_below(d, n));
    put_int(d, "dim1", -1 - draw_below(d, n));
    return 1;
}

int draw_unsqueeze(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 0, 5);
    if (!put_input(d, t))
        return 0;
    put_int(d, "dim", draw_below(d, term_of(d, t)->ndim + 1));
    return 1;
}

int draw_flatten(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    const int start = draw_below(d, term_of(d, t)->ndim);
    put_int(d, "start_dim", start);
    put_int(d, "end_dim", draw_between(d, start, term_of(d, t)->ndim - 1));
    return 1;
}

int draw_expand(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 0, 4);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int more = draw_below(d, 2);
    int64_t shape[STN_MAX_NDIM];
    for (int i = 0; i < more; i++)
        shape[i] = draw_between(d, 1, 3);
    for (int i = 0; i < term->ndim; i++)
        shape[more + i] = term->shape[i] == 1 ? draw_between(d, 1, 3) : draw_chance(d, 2) ? -1 : term->shape[i];
    if (term->ndim + more == 0)
        return 0;
    put_ints(d, "shape", term->ndim + more, shape);
    return 1;
}

int draw_slice(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int dim = draw_below(d, term->ndim), n = (int)term->shape[dim], start = draw_below(d, n + 1),
              end = draw_between(d, start, n);
    put_int(d, "dim", dim);
    put_int(d, "start", start);
    if (is(g, "narrow")) {
        put_int(d, "length", end - start);
    } else {
        put_int(d, "end", end == n && draw_chance(d, 2) ? 1000 : end);
        put_int(d, "step", draw_between(d, 1, 3));
    }
    return 1;
}

int draw_select(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    const int dim = draw_below(d, term_of(d, t)->ndim), n = (int)term_of(d, t)->shape[dim];
    if (n == 0)
        return 0;
    put_int(d, "dim", dim);
    put_int(d, "index", draw_below(d, 2 * n) - n);
    return 1;
}

int draw_roll(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    put_int(d, "shifts", draw_between(d, -7, 7));
    if (draw_below(d, 4) > 0)
        put_int(d, "dims", draw_below(d, term_of(d, t)->ndim));
    return 1;
}

int draw_repeat(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, 4);
    if (!put_input(d, t))
        return 0;
    const int n = term_of(d, t)->ndim + draw_below(d, 2);
    int64_t times[STN_MAX_NDIM];
    for (int i = 0; i < n; i++)
        times[i] = draw_chance(d, 2) ? 1 : draw_between(d, 1, 3);
    put_ints(d, "repeats", n, times);
    return 1;
}

int draw_triangle(struct draft *d, const struct generator *g)
{
    put_int(d, "diagonal", draw_between(d, -3, 3));
    return put_input(d, any_term(d, g, 2, STN_MAX_NDIM));
}

int draw_diff(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    put_int(d, "n", draw_between(d, 1, 2));
    put_int(d, "dim", draw_below(d, term_of(d, t)->ndim));
    return 1;
}

int draw_pieces(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int dim = draw_below(d, term->ndim), n = (int)term->shape[dim], pieces = draw_between(d, 1, 3);
    int64_t sizes[2];
    put_int(d, "dim", dim);
    if (is(g, "chunk")) {
        put_int(d, "chunks", pieces);
    } else if (draw_chance(d, 2)) {
        put_int(d, "split_size", n / pieces + 1);
    } else {
        sizes[0] = draw_below(d, n + 1);
        sizes[1] = n - sizes[0];
        put_ints(d, "split_sizes", 2, sizes);
    }
    return 1;
}

int draw_joined(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, 5), more = draw_between(d, 1, 2);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int dim = draw_below(d, term->ndim);
    int64_t shape[STN_MAX_NDIM];
    put_int(d, "dim", dim);
    for (int m = 0; m < more; m++) {
        for (int i = 0; i < term->ndim; i++)
            shape[i] = i == dim && is(g, "cat") ? draw_between(d, 0, 4) : term->shape[i];
        if (!put_input(d, draw_chance(d, 4) ? t : draw_leaf(d, FILL_REAL, term->ndim, shape, -2, 2)))
            return 0;
    }
    return 1;
}

int draw_pad(struct draft *d, const struct generator *g)
{
    static const char *const modes[] = {"constant", "constant", "circular", "reflect", "replicate"};
    const char *mode = modes[draw_below(d, 5)];
    const int constant = strcmp(mode, "constant") == 0, t = any_term(d, g, constant ? 1 : 3, 4);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    /* The other modes pad the last ndim - 2 dims, and no further than what is there. */
    const int n = constant ? draw_between(d, 1, term->ndim) : term->ndim - 2;
    int64_t pad[2 * STN_MAX_NDIM];
    for (int i = 0; i < 2 * n; i++) {
        const int size = (int)term->shape[term->ndim - 1 - i / 2];
        if (!constant && size < 2)
            return 0;
        pad[i] = constant ? draw_between(d, size > 1 ? -1 : 0, 3) : draw_between(d, 0, size - 1);
    }
    if (2 * n > STN_MAX_NDIM)
        return 0;
    put_ints(d, "pad", 2 * n, pad);
    put_text(d, "mode", mode);
    if (constant && draw_chance(d, 2))
        put_float(d, "value", 0.5);
    return 1;
}

/* Rows and columns are any two dims, of which the columns are even in number. */
int draw_sphere(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 2, 4);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int lon = draw_below(d, term->ndim), lat = (lon + 1 + draw_below(d, term->ndim - 1)) % term->ndim;
    const int rows = (int)term->shape[lat], columns = (int)term->shape[lon], on_rows = draw_below(d, 2);
    if (columns % 2 != 0 || rows == 0)
        return 0;
    put_int(d, "lat", draw_between(d, 0, rows - on_rows));
    put_int(d, "lon", draw_between(d, 0, columns));
    put_int(d, "lat_dim", lat);
    put_int(d, "lon_dim", lon - term->ndim);
    put_text(d, "poles", on_rows ? "on_rows" : "between_rows");
    return 1;
}

int draw_shuffle(struct draft *d, const struct generator *g)
{
    const int into = is(g, "pixel_shuffle") ? 1 : 2;
    const int64_t shape[] = {draw_between(d, 1, 2), (into == 1 ? 4 : 1) * draw_between(d, 1, 2),
                             into * draw_between(d, 1, 4), into * draw_between(d, 1, 4)};
    put_int(d, into == 1 ? "upscale_factor" : "downscale_factor", 2);
    return put_input(d, draw_leaf(d, FILL_REAL, 4, shape, -2, 2));
}

int draw_diagonal(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 2, 5);
    if (!put_input(d, t))
        return 0;
    put_int(d, "offset", draw_between(d, -2, 2));
    put_int(d, "dim1", 0);
    put_int(d, "dim2", draw_between(d, 1, term_of(d, t)->ndim - 1));
    return 1;
}

int draw_unfolded(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, 4);
    if (!put_input(d, t))
        return 0;
    const int64_t dim = draw_dim(d, t);
    put_int(d, "dimension", dim);
    put_int(d, "size", rng_below(&d->rng, size_at(d, t, dim) + 1));
    put_int(d, "step", draw_between(d, 1, 3));
    return 1;
}

int draw_movedim(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, 5);
    if (!put_input(d, t))
        return 0;
    put_int(d, "source", draw_dim(d, t));
    put_int(d, "destination", draw_dim(d, t));
    return 1;
}

/* A dim as two, of which one may be left to infer. */
int draw_unflatten(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, 5);
    if (!put_input(d, t))
        return 0;
    const int64_t dim = draw_dim(d, t), size = size_at(d, t, dim);
    int64_t first = size > 0 ? 1 + rng_below(&d->rng, size) : 1;
    while (size % first != 0)
        first--;
    const int64_t sizes[] = {first, size > 0 && draw_chance(d, 3) ? -1 : size / first};
    put_int(d, "dim", dim);
    put_ints(d, "sizes", 2, sizes);
    return 1;
}

int draw_unbound(struct draft *d, const struct generator *g)
{
    const int t = any_term(d, g, 1, STN_MAX_NDIM);
    if (!put_input(d, t))
        return 0;
    const int64_t dim = draw_dim(d, t), size = size_at(d, t, dim);
    put_int(d, "dim", dim);
    return size >= 1 && size <= MAX_STEP_OUTPUTS;
}
