/* Specs as drawings: which rank holds what, as SVG. Two dims are drawn, sharded ones before others; pieces of further
 * sharded dims are panels one below the other. */
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/shard/spec.h"

#include <string.h>

enum {
    SIDE = 480, /* of what is drawn, its units: pixels as it comes */
    LEAST = 60, /* of a side that is much shorter than the other */
    MARGIN = 10,
    HEADING = 3,  /* lines */
    FITTING = 75, /* characters in one */
    LINE = 18,    /* of text */
    NAMED = 8     /* ranks that are named together; the others are counted */
};

struct drawing {
    struct stni_text *out;
    const stn_spec *spec;
    int down, across;  /* dims; -1: none */
    int width, height; /* of a panel */
    int64_t panels;
};

/* Which dims */

static int is_cut(const struct stni_layout *layout, int dim)
{
    return layout->split[dim] != NULL;
}

/* The last dim that is cut, or not, and is not `but`; -1: there is none. */
static int last_dim(const struct stni_layout *layout, int cut, int but)
{
    int d = layout->ndim - 1;
    while (d >= 0 && (is_cut(layout, d) != cut || d == but))
        d--;
    return d;
}

static void choose_dims(struct drawing *d)
{
    const struct stni_layout *layout = &d->spec->layout;
    int first = last_dim(layout, 1, -1), second;
    if (first < 0)
        first = last_dim(layout, 0, -1);
    second = last_dim(layout, 1, first);
    if (second < 0)
        second = last_dim(layout, 0, first);
    d->across = first > second ? first : second;
    d->down = first > second ? second : first;
}

static int64_t size_of(const struct drawing *d, int dim)
{
    return dim < 0 ? 1 : d->spec->layout.shape[dim];
}

static int at_least(double length)
{
    return length < LEAST ? LEAST : (int)length;
}

/* In proportion, unless one side would be too short to read. */
static void choose_sides(struct drawing *d)
{
    const double rows = (double)size_of(d, d->down), columns = (double)size_of(d, d->across);
    d->width = rows > columns ? at_least(SIDE * columns / rows) : SIDE;
    d->height = d->down < 0 ? LEAST : rows > columns ? SIDE : at_least(columns > 0 ? SIDE * rows / columns : 0);
}

/* Whether its pieces are panels. */
static int is_apart(const struct drawing *d, int dim)
{
    return is_cut(&d->spec->layout, dim) && dim != d->down && dim != d->across;
}

static void count_panels(struct drawing *d)
{
    d->panels = 1;
    for (int dim = 0; dim < d->spec->layout.ndim; dim++)
        if (is_apart(d, dim))
            d->panels *= d->spec->layout.split[dim]->n_parts;
}

/* Where a panel begins, below a line that says which; panel d->panels: what stands below all of them. */
static long long top_of(const struct drawing *d, int64_t panel)
{
    return MARGIN + HEADING * LINE + panel * (d->height + LINE) + (d->panels > 1 && panel < d->panels ? LINE : 0);
}

/* Text */

/* Bytes of the character; 0: it is no UTF-8, or none that XML has a place for. Axes are named by callers. */
static size_t character(const char *text)
{
    const int is_control = (unsigned char)*text < 0x20;
    const int is_none = strncmp(text, "\xef\xbf\xbe", 3) == 0 || strncmp(text, "\xef\xbf\xbf", 3) == 0;
    return is_control || is_none ? 0 : stni_utf8_character(text, strlen(text));
}

static void put_escaped(struct stni_text *out, const char *text)
{
    for (const char *c = text; *c;) {
        const size_t n = character(c);
        const char *name = *c == '<' ? "&lt;" : *c == '>' ? "&gt;" : *c == '&' ? "&amp;" : n == 0 ? "?" : NULL;
        stni_text_put(out, "%.*s", name ? 5 : (int)n, name ? name : c);
        c += n > 0 ? n : 1;
    }
}

static int baseline(int line)
{
    return MARGIN + LINE / 2 + line * LINE;
}

/* Of the heading; a long one is condensed. */
static void put_line(struct stni_text *out, int line, const char *text)
{
    stni_text_put(out, "<text x=\"%d\" y=\"%d\"", MARGIN, baseline(line));
    if (strlen(text) > FITTING)
        stni_text_put(out, " textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\"", SIDE);
    stni_text_put(out, ">");
    put_escaped(out, text);
    stni_text_put(out, "</text>\n");
}

static void put_heading(const struct drawing *d)
{
    char text[1024];
    stn_spec_describe(d->spec, text, sizeof text);
    char *placements = strstr(text, ": ");
    if (placements) {
        *placements = '\0';
        put_line(d->out, 1, placements + 2);
    }
    put_line(d->out, 0, text);
    if (d->down >= 0)
        stni_text_put(d->out, "<text x=\"%d\" y=\"%d\">dim %d down, dim %d across</text>\n", MARGIN, baseline(2),
                      d->down, d->across);
}

/* Ranks */

/* The next of those that hold the same chunk: coordinates along axes that cut nothing go on. 0 behind the last. */
static int next_holder(const stn_mesh *mesh, uint32_t shard_axes, int *coordinate)
{
    for (int a = mesh ? mesh->ndim - 1 : -1; a >= 0; a--) {
        if (shard_axes >> a & 1)
            continue;
        if (++coordinate[a] < mesh->sizes[a])
            return 1;
        coordinate[a] = 0;
    }
    return 0;
}

/* The next chunk: as next_holder, along the axes that cut. */
static int next_chunk(const stn_mesh *mesh, uint32_t shard_axes, int *coordinate)
{
    return next_holder(mesh, ~shard_axes, coordinate);
}

/* "0, 4 and 6 more": those that hold the chunk at a coordinate, whose axes that cut nothing are at 0. */
static void put_holders(const struct drawing *d, int *coordinate)
{
    int n = 0;
    if (!d->spec->layout.mesh) {
        stni_text_put(d->out, "this rank");
        return;
    }
    do {
        if (n < NAMED)
            stni_text_put(d->out, "%s%d", n ? ", " : "", stn_mesh_rank_at(d->spec->layout.mesh, coordinate));
        n++;
    } while (next_holder(d->spec->layout.mesh, d->spec->shard_axes, coordinate));
    if (n > NAMED)
        stni_text_put(d->out, " and %d more", n - NAMED);
}

/* Chunks */

struct chunk {
    int coordinate[STN_MAX_MESH_NDIM];
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
};

static int is_empty(const struct drawing *d, const struct chunk *c)
{
    for (int dim = 0; dim < d->spec->layout.ndim; dim++)
        if (c->shape[dim] == 0)
            return 1;
    return 0;
}

static int64_t panel_of(const struct drawing *d, const struct chunk *c)
{
    int64_t panel = 0;
    for (int dim = 0; dim < d->spec->layout.ndim; dim++)
        if (is_apart(d, dim))
            panel = panel * d->spec->layout.split[dim]->n_parts + stni_spec_piece(d->spec, dim, c->coordinate);
    return panel;
}

/* Which pieces a panel is of, by the first of its chunks. */
static void put_panel(const struct drawing *d, const struct chunk *c)
{
    if (d->panels == 1 || stni_spec_piece(d->spec, d->down, c->coordinate) > 0 ||
        stni_spec_piece(d->spec, d->across, c->coordinate) > 0)
        return;
    stni_text_put(d->out, "<text x=\"%d\" y=\"%lld\">", MARGIN, top_of(d, panel_of(d, c)) - LINE / 3);
    for (int dim = 0, n = 0; dim < d->spec->layout.ndim; dim++)
        if (is_apart(d, dim))
            stni_text_put(d->out, "%sdim %d: %lld from %lld", n++ ? ", " : "", dim, (long long)c->shape[dim],
                          (long long)c->offset[dim]);
    stni_text_put(d->out, "</text>\n");
}

static double part(int64_t of, int64_t whole, int length)
{
    return (double)of * length / (double)whole;
}

static void put_size(const struct drawing *d, const int64_t *numbers)
{
    for (int dim = 0; dim < d->spec->layout.ndim; dim++)
        stni_text_put(d->out, dim ? ", %lld" : "(%lld", (long long)numbers[dim]);
    stni_text_put(d->out, d->spec->layout.ndim ? ")" : "()");
}

/* A rectangle, the ranks in it, and for the pointer all that there is to say. */
static void put_chunk(const struct drawing *d, struct chunk *c)
{
    static const char *const colors[] = {"#cfe2f3", "#fce5cd", "#d9ead3", "#f4cccc", "#d9d2e9",
                                         "#fff2cc", "#d0e0e3", "#ead1dc", "#e2e2c8"};
    const int first = d->spec->layout.mesh ? stn_mesh_rank_at(d->spec->layout.mesh, c->coordinate) : 0;
    const int a = d->across, b = d->down;
    const double x = MARGIN + (a < 0 ? 0 : part(c->offset[a], size_of(d, a), d->width)),
                 y = (double)top_of(d, panel_of(d, c)) + (b < 0 ? 0 : part(c->offset[b], size_of(d, b), d->height)),
                 width = a < 0 ? d->width : part(c->shape[a], size_of(d, a), d->width),
                 height = b < 0 ? d->height : part(c->shape[b], size_of(d, b), d->height);
    stni_text_put(d->out, "<g><title>");
    put_holders(d, c->coordinate);
    stni_text_put(d->out, ": ");
    put_size(d, c->shape);
    stni_text_put(d->out, " from ");
    put_size(d, c->offset);
    stni_text_put(d->out,
                  "</title><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"#444\"/>", x,
                  y, width, height, colors[(size_t)first % (sizeof colors / sizeof *colors)]);
    stni_text_put(d->out, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">", x + width / 2,
                  y + height / 2 + LINE / 4);
    put_holders(d, c->coordinate);
    stni_text_put(d->out, "</text></g>\n");
}

/* Those without elements, in a line below. */
static int put_empty(const struct drawing *d, struct chunk *c, int n)
{
    if (n == 0)
        stni_text_put(d->out, "<text x=\"%d\" y=\"%lld\">without elements: ", MARGIN, top_of(d, d->panels) + LINE / 2);
    if (n < NAMED) {
        stni_text_put(d->out, "%s", n ? ", " : "");
        put_holders(d, c->coordinate);
    }
    return n + 1;
}

static void put_chunks(const struct drawing *d, int empty)
{
    struct chunk c = {.coordinate = {0}};
    int n = 0;
    do {
        stni_spec_chunk_at(d->spec, c.coordinate, c.shape, c.offset);
        if (!empty)
            put_panel(d, &c);
        if (is_empty(d, &c) != empty)
            continue;
        if (empty)
            n = put_empty(d, &c, n);
        else
            put_chunk(d, &c);
    } while (next_chunk(d->spec->layout.mesh, d->spec->shard_axes, c.coordinate));
    if (n > 0)
        stni_text_put(d->out, n > NAMED ? ", ...</text>\n" : "</text>\n");
}

size_t stn_spec_draw(const stn_spec *spec, char *text, size_t size)
{
    struct stni_text out = {text, text == NULL ? 0 : size, 0};
    if (out.size > 0)
        text[0] = '\0';
    if (spec == NULL)
        return 0;
    struct drawing d = {.out = &out, .spec = spec};
    choose_dims(&d);
    choose_sides(&d);
    count_panels(&d);
    const int width = 2 * MARGIN + SIDE;
    const long long height = top_of(&d, d.panels) + LINE + MARGIN;
    stni_text_put(&out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%lld\" viewBox=\"0 0 %d %lld\" "
                  "font-family=\"sans-serif\" font-size=\"12\">\n",
                  width, height, width, height);
    put_heading(&d);
    put_chunks(&d, 0);
    put_chunks(&d, 1);
    stni_text_put(&out, "</svg>\n");
    return out.length;
}
