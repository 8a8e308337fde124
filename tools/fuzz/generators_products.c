/* Products, distances, transforms. */
#include "generators.h"

int draw_linear(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 5);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int64_t weight[] = {draw_between(d, 1, 5), term->shape[term->ndim - 1]};
    return put_input(d, draw_leaf(d, FILL_REAL, 2, weight, -1, 1)) &&
           (draw_chance(d, 2) || put_input(d, draw_leaf(d, FILL_REAL, 1, weight, -1, 1)));
}

int draw_matmul(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 4);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    int64_t shape[STN_MAX_NDIM];
    const int n = draw_between(d, 1, term->ndim > 2 ? term->ndim : 2);
    for (int i = 0; i + 2 < n; i++) /* dims of the batch, counted from the last */
        shape[n - 3 - i] = draw_chance(d, 3) ? 1 : term->shape[term->ndim - 3 - i];
    shape[n > 1 ? n - 2 : 0] = term->shape[term->ndim - 1];
    if (n > 1)
        shape[n - 1] = draw_between(d, 1, 5);
    return put_input(d, draw_leaf(d, FILL_REAL, n, shape, -1, 1));
}

/* A matrix or vectors, and what fits them. */
int draw_matrices(struct draft *d, const struct generator *g)
{
    const int n = is(g, "bmm") ? 3 : is(g, "mm") || is(g, "mv") ? 2 : 1, t = draw_first(d, g, n, n);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int64_t last = term->shape[n - 1], columns = draw_between(d, 1, 5);
    const int64_t batch[] = {term->shape[0], last, columns}, matrix[] = {last, columns}, vector[] = {last};
    if (n == 3)
        return put_input(d, draw_leaf(d, FILL_REAL, 3, batch, -1, 1));
    if (is(g, "mm"))
        return put_input(d, draw_leaf(d, FILL_REAL, 2, matrix, -1, 1));
    return put_input(d, draw_leaf(d, FILL_REAL, 1, is(g, "outer") ? &columns : vector, -1, 1));
}

int draw_sum_of_products(struct draft *d, const struct generator *g)
{
    const int batched = is(g, "baddbmm"), n = batched ? 3 : 2, t = draw_first(d, g, n, n);
    if (t < 0)
        return 0;
    const struct term *term = term_of(d, t);
    const int64_t columns = draw_between(d, 1, 5);
    const int64_t other[] = {term->shape[0], term->shape[n - 1], columns},
                  sum[] = {term->shape[0], term->shape[n - 2], columns};
    if (draw_chance(d, 2))
        put_float(d, "beta", 0.5);
    if (draw_chance(d, 2))
        put_float(d, "alpha", -1.5);
    return put_input(d, draw_leaf(d, FILL_REAL, n, sum + !batched, -1, 1)) && put_input(d, t) &&
           put_input(d, draw_leaf(d, FILL_REAL, n, other + !batched, -1, 1));
}

/* Along one dim, of the length that is there or another. */
int draw_transform(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 4);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    const int64_t dim = draw_dim(d, t), size = size_at(d, t, dim);
    put_int(d, "dim", dim);
    if (draw_chance(d, 3))
        put_int(d, "n", draw_between(d, 2, 9));
    else if (is(g, "irfft") || is(g, "hfft"))
        return size > 1;
    return 1;
}

int draw_similarity(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 4);
    if (!put_input(d, t) || !put_input(d, draw_partner(d, t, 0.4, 50)))
        return 0;
    put_int(d, "dim", draw_dim(d, t));
    return 1;
}

int draw_distances(struct draft *d, const struct generator *g)
{
    const struct want want = {2, 3, g->lo, g->hi, 0, 0, 1, 1, 0, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    int64_t shape[3] = {term->shape[0]};
    shape[term->ndim - 2] = draw_between(d, 1, 5);
    shape[term->ndim - 1] = term->shape[term->ndim - 1];
    return put_input(d, draw_leaf(d, FILL_REAL, term->ndim, shape, -2, 2));
}

/* Points and queries are given: of what is computed the last places would decide which points are near. */
int draw_near(struct draft *d, const struct generator *g)
{
    const int64_t columns = draw_between(d, 1, 3), points[] = {draw_between(d, 1, 9), columns};
    const int64_t queries[] = {draw_between(d, 1, 6), columns};
    if (!put_input(d, draw_leaf(d, FILL_REAL, 2, points, -2, 2)) ||
        !put_input(d, draw_leaf(d, FILL_REAL, 2, queries, -2, 2)))
        return 0;
    if (is(g, "radius_search"))
        put_float(d, "radius", 1.5);
    put_int(d, is(g, "knn") ? "k" : "max_points", draw_between(d, 1, (int)points[0]));
    return 1;
}

int draw_surface(struct draft *d, const struct generator *g)
{
    const int64_t vertices[] = {draw_between(d, 4, 8), 3}, triangles[] = {draw_between(d, 1, 9), 3};
    const int64_t points[] = {draw_between(d, 1, 6), 3};
    (void)g;
    return put_input(d, draw_leaf(d, FILL_REAL, 2, vertices, -2, 2)) &&
           put_input(d, draw_leaf(d, FILL_INDEX, 2, triangles, 0, (double)vertices[0])) &&
           put_input(d, draw_leaf(d, FILL_REAL, 2, points, -2, 2));
}

int draw_attention(struct draft *d, const struct generator *g)
{
    const struct want want = {3, 4, g->lo, g->hi, 0, 0, 0, 1, 0, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const struct term *term = term_of(d, t);
    const int n = term->ndim;
    int64_t key[4] = {term->shape[0], term->shape[1]}, value[4] = {term->shape[0], term->shape[1]};
    key[n - 2] = value[n - 2] = draw_between(d, 1, 6);
    key[n - 1] = term->shape[n - 1];
    value[n - 1] = draw_between(d, 1, 4);
    if (draw_chance(d, 2))
        put_bool(d, "is_causal", 1);
    return put_input(d, draw_leaf(d, FILL_REAL, n, key, -1, 1)) &&
           put_input(d, draw_leaf(d, FILL_REAL, n, value, -1, 1));
}

/* A window that fits into the one dim of space. Heads share one head of keys now and then. */
int draw_neighborhood(struct draft *d, const struct generator *g)
{
    const struct want want = {4, 4, g->lo, g->hi, 0, 0, 0, 1, 0, 0};
    const int t = draw_term(d, &want);
    if (!put_input(d, t))
        return 0;
    const int64_t *shape = term_of(d, t)->shape, heads = draw_chance(d, 3) ? 1 : shape[2];
    const int64_t key[] = {shape[0], shape[1], heads, shape[3]};
    const int64_t value[] = {shape[0], shape[1], heads, draw_between(d, 1, 4)};
    const int kernel = draw_between(d, 1, shape[1] < 4 ? (int)shape[1] : 4);
    put_int(d, "kernel_size", kernel);
    put_int(d, "dilation", draw_between(d, 1, (int)shape[1] / kernel));
    put_int(d, "is_causal", draw_chance(d, 2));
    return put_input(d, draw_leaf(d, FILL_REAL, 4, key, -1, 1)) &&
           put_input(d, draw_leaf(d, FILL_REAL, 4, value, -1, 1));
}

/* Along several dims, the last two where none are named, of the lengths that are there or others. */
int draw_transforms(struct draft *d, const struct generator *g)
{
    const int half = strncmp(g->op, "irfft", 5) == 0, t = draw_first(d, g, 2, 4);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    const int ndim = term_of(d, t)->ndim, first = draw_below(d, ndim);
    const int second = (first + draw_between(d, 1, ndim - 1)) % ndim;
    const int64_t dims[] = {first, second - ndim}, sizes[] = {draw_between(d, 1, 6), draw_between(d, 2, 6)};
    static const char *const norms[] = {"backward", "ortho", "forward"};
    const int named = draw_chance(d, 2);
    if (named)
        put_ints(d, "dim", 2, dims);
    put_text(d, "norm", norms[draw_below(d, 3)]);
    if (draw_chance(d, 3))
        put_ints(d, "s", 2, sizes);
    else
        return !half || size_at(d, t, named ? dims[1] : -1) > 1;
    return 1;
}

int draw_spectrum(struct draft *d, const struct generator *g)
{
    const int t = draw_first(d, g, 1, 4);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0)
        return 0;
    put_int(d, "dim", draw_dim(d, t));
    return 1;
}

/* Fields or coefficients, of scalars or, behind a dim of two components, of vectors. */
int draw_harmonics(struct draft *d, const struct generator *g)
{
    static const char *const bases[] = {"equiangular", "legendre-gauss", "lobatto"};
    const int is_vector = is(g, "vsht") || is(g, "ivsht"), is_inverse = g->is_complex;
    const int64_t shape[] = {2, draw_between(d, 2, 5), draw_between(d, 1, 6)};
    const int t =
        is_vector && !is_inverse ? draw_leaf(d, FILL_REAL, 3, shape, -2, 2) : draw_first(d, g, 2 + is_vector, 4);
    if (!put_input(d, t) || term_numel(term_of(d, t)) == 0 || size_at(d, t, -2) < 2)
        return 0;
    if (is_vector && size_at(d, t, -3) != 2)
        return 0;
    put_text(d, "grid", bases[draw_below(d, 3)]);
    if (is_inverse) {
        put_int(d, "nlat", draw_between(d, 2, 5));
        put_int(d, "nlon", 2 * size_at(d, t, -1) - 2 + draw_between(d, size_at(d, t, -1) == 1, 2));
    } else if (draw_chance(d, 2)) {
        put_int(d, "lmax", draw_between(d, 1, 5));
    }
    return 1;
}

int draw_degrees(struct draft *d, const struct generator *g)
{
    return put_input(d, draw_first(d, g, 2, 4));
}

static int dim_of_three(const struct term *term)
{
    int dim = 0;
    while (dim < term->ndim && term->shape[dim] != 3)
        dim++;
    return dim;
}

/* A tensor that has a dim of size 3, the first of which is taken where none is named. */
int draw_cross(struct draft *d, const struct generator *g)
{
    int t = draw_first(d, g, 1, 4);
    int64_t shape[STN_MAX_NDIM];
    if (t < 0)
        return 0;
    int dim = dim_of_three(term_of(d, t));
    if (dim == term_of(d, t)->ndim) {
        memcpy(shape, term_of(d, t)->shape, sizeof shape);
        shape[dim = draw_below(d, term_of(d, t)->ndim)] = 3;
        t = draw_leaf(d, FILL_REAL, term_of(d, t)->ndim, shape, -2, 2);
    }
    if (!put_input(d, t))
        return 0;
    for (int i = 0; i < term_of(d, t)->ndim; i++)
        shape[i] = i != dim && draw_chance(d, 4) ? 1 : term_of(d, t)->shape[i];
    if (dim_of_three(term_of(d, t)) != dim || draw_chance(d, 2))
        put_int(d, "dim", draw_chance(d, 2) ? dim : dim - term_of(d, t)->ndim);
    return put_input(d, draw_leaf(d, FILL_REAL, term_of(d, t)->ndim, shape, -2, 2));
}

/* The sizes of an equation's letters, as far as they are chosen. */
struct letters {
    int64_t size[26];
};

/* The dims of an operand, whose letters begin at `text`, those new to the equation with sizes of their own. */
static int shape_of_operand(struct draft *d, struct letters *letters, const char *text, int64_t *shape)
{
    int ndim = 0;
    for (; *text >= 'a' && *text <= 'z'; text++) {
        int64_t *size = &letters->size[*text - 'a'];
        if (*size == 0)
            *size = draw_between(d, 1, 4);
        shape[ndim++] = *size;
    }
    return ndim;
}

/* Whether a term serves as the first operand: a letter that stands twice has one size. */
static int choose_letters(const struct term *term, struct letters *letters, const char *text)
{
    for (int i = 0; i < term->ndim; i++) {
        int64_t *size = &letters->size[text[i] - 'a'];
        if (*size != 0 && *size != term->shape[i])
            return 0;
        *size = term->shape[i];
    }
    return 1;
}

int draw_einsum(struct draft *d, const struct generator *g)
{
    static const char *const equations[] = {"ij,jk->ik",  "bij,bjk->bik",    "bij,jk->bki", "bi,bj->bij",
                                            "bij,bij->b", "bhqd,bhkd->bhqk", "i,j->ij",     "i,i->",
                                            "ij,ij->ij",  "ij,jk,kl->il",    "ab,b,a->ab",  "abc,cd,de->eab",
                                            "ii->i",      "ij->ji",          "aba->b",      "abc->",
                                            "iij,j"};
    const char *equation = equations[draw_below(d, sizeof equations / sizeof *equations)], *text = equation;
    const int n = (int)strspn(equation, "abcdefghijklmnopqrstuvwxyz");
    const struct want want = {.min_ndim = n, .max_ndim = n, .lo = g->lo, .hi = g->hi, .min_size = 1};
    struct letters letters = {{0}};
    int64_t shape[STN_MAX_NDIM];
    int t = draw_term(d, &want);
    if (t < 0 || !choose_letters(term_of(d, t), &letters, equation)) {
        letters = (struct letters){{0}};
        const int ndim = shape_of_operand(d, &letters, equation, shape);
        t = draw_leaf(d, FILL_REAL, ndim, shape, -2, 2);
    }
    put_text(d, "equation", equation);
    int good = put_input(d, t);
    while (good && *(text += strspn(text, "abcdefghijklmnopqrstuvwxyz")) == ',') {
        const int ndim = shape_of_operand(d, &letters, ++text, shape);
        good = put_input(d, draw_leaf(d, FILL_REAL, ndim, shape, -1, 1));
    }
    return good;
}
