#include "maps.h"

#include "scores.h"

#include "common/picture.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 6, MARGIN = 16, PANELS = 3, LEGEND_HEIGHT = 40, LEGEND_STEPS = 9, MOST_GROUPS = 4 };

static const struct colour black = {0, 0, 0};

/* Where things of the globe lie in a picture: north is up, whichever way the file goes. */
struct frame {
    struct picture *picture;
    const struct data *data;
    const float *relief; /* whole */
    int x, y;
};

static int frame_row(const struct frame *f, int row)
{
    const struct grid *grid = &f->data->grid;
    int last = (int)grid->rows - 1;
    return f->y + CELL * (grid->latitude[last] > grid->latitude[0] ? last - row : row);
}

static int is_land(const struct frame *f, int row, int column)
{
    return f->relief[row * (int)f->data->grid.columns + column] > 0;
}

/* A line between cells where land begins. */
static void draw_coasts(const struct frame *f)
{
    int rows = (int)f->data->grid.rows, columns = (int)f->data->grid.columns;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            if (c + 1 < columns && is_land(f, r, c) != is_land(f, r, c + 1))
                picture_fill(f->picture, f->x + CELL * (c + 1), frame_row(f, r), 1, CELL + 1, black);
            if (r + 1 < rows && is_land(f, r, c) != is_land(f, r + 1, c)) {
                int above = frame_row(f, r) > frame_row(f, r + 1) ? frame_row(f, r) : frame_row(f, r + 1);
                picture_fill(f->picture, f->x + CELL * c, above, CELL + 1, 1, black);
            }
        }
}

static void draw_field(const struct frame *f, const char *title, const float *field, double most)
{
    int rows = (int)f->data->grid.rows, columns = (int)f->data->grid.columns;
    picture_text(f->picture, f->x, f->y - PICTURE_TEXT_HEIGHT - 2, title);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            picture_fill(f->picture, f->x + CELL * c, frame_row(f, r), CELL, CELL,
                         picture_diverging((double)field[r * columns + c] / most));
    draw_coasts(f);
}

static void draw_legend(const struct frame *f, double most)
{
    int width = CELL * (int)f->data->grid.columns;
    for (int x = 0; x < width; x++)
        picture_fill(f->picture, f->x + x, f->y, 1, LEGEND_HEIGHT / 3, picture_diverging(2.0 * x / width - 1));
    for (int i = 0; i < LEGEND_STEPS; i++) {
        char text[16];
        snprintf(text, sizeof text, "%.1f", most * (2.0 * i / (LEGEND_STEPS - 1) - 1));
        int x = f->x + i * (width - 40) / (LEGEND_STEPS - 1);
        picture_text(f->picture, x, f->y + LEGEND_HEIGHT / 3 + 4, text);
    }
}

/* The largest value, rounded up to a number that reads well. */
static double scale_of(int n, const float *field)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs((double)field[i]));
    return most > 0 ? ceil(2 * most) / 2 : 1;
}

static int panel_height(const struct data *d)
{
    return CELL * (int)d->grid.rows + 2 * MARGIN;
}

static int draw_month(const struct data *d, const char *path, const float *relief, const float *truth,
                      const float *forecast)
{
    static const char *const titles[PANELS] = {"truth: anomaly of the first test month", "forecast",
                                               "error: forecast less truth"};
    int n = (int)(d->grid.rows * d->grid.columns), ok;
    double most = scale_of(n, truth);
    struct picture picture;
    float *error = malloc((size_t)n * sizeof *error);
    ok = picture_make(CELL * (int)d->grid.columns + 2 * MARGIN, PANELS * panel_height(d) + LEGEND_HEIGHT, &picture) &&
         error;
    for (int i = 0; ok && i < n; i++)
        error[i] = forecast[i] - truth[i];
    const float *const fields[PANELS] = {truth, forecast, error};
    for (int p = 0; ok && p < PANELS; p++) {
        const struct frame frame = {&picture, d, relief, MARGIN, p * panel_height(d) + MARGIN};
        draw_field(&frame, titles[p], fields[p], most);
    }
    const struct frame legend = {&picture, d, relief, MARGIN, PANELS * panel_height(d)};
    if (ok)
        draw_legend(&legend, most);
    ok = ok && picture_write(&picture, path);
    picture_fini(&picture);
    free(error);
    return ok;
}

/* One panel for each part of a batch: what of the globe a rank holds of its samples. */
static void draw_rank(const struct frame *first, const stn_spec *spec, int rank)
{
    int64_t shape[4], offset[4];
    char text[16];
    stn_spec_chunk(spec, rank, shape, offset);
    struct frame f = *first;
    f.y += (int)offset[0] * panel_height(f.data);
    if (shape[0] * shape[2] * shape[3] == 0)
        return;
    for (int64_t r = offset[2]; r < offset[2] + shape[2]; r++)
        picture_fill(f.picture, f.x + CELL * (int)offset[3], frame_row(&f, (int)r), CELL * (int)shape[3], CELL,
                     picture_distinct(rank));
    snprintf(text, sizeof text, "%d", rank);
    picture_text(f.picture, f.x + CELL * (int)(offset[3] + shape[3] / 2),
                 frame_row(&f, (int)(offset[2] + shape[2] / 2)), text);
}

static int draw_ranks(const struct data *d, const char *path, const float *relief, const stn_spec *spec, int groups)
{
    struct picture picture;
    int ok = picture_make(CELL * (int)d->grid.columns + 2 * MARGIN, groups * panel_height(d), &picture);
    for (int g = 0; ok && g < groups; g++) {
        struct frame frame = {&picture, d, relief, MARGIN, MARGIN};
        if (g == 0)
            for (int rank = 0; rank < stn_mesh_size(d->mesh); rank++)
                draw_rank(&frame, spec, rank);
        frame.y += g * panel_height(d);
        char title[48];
        snprintf(title, sizeof title, "ranks of part %d of %d of a batch", g + 1,
                 stn_mesh_axis_size(d->mesh, AXIS_DATA));
        picture_text(&picture, MARGIN, frame.y - PICTURE_TEXT_HEIGHT - 2, title);
        draw_coasts(&frame);
    }
    ok = ok && picture_write(&picture, path);
    picture_fini(&picture);
    return ok;
}

static stn_status gather_relief(const struct data *d, float *relief)
{
    const stn_placement cut[AXES] = {stn_replicate(), stn_shard(0), stn_shard(1)};
    const int64_t shape[] = {(int64_t)d->grid.rows, (int64_t)d->grid.columns};
    const stn_spec *spec;
    stn_status status = stn_spec_create(d->context, d->mesh, cut, STN_DTYPE_F32, 2, shape, NULL, &spec);
    if (status != STN_OK)
        return status;
    stn_scope_begin(d->context);
    stn_tensor *whole = stn_full_tensor(stn_from_host(d->context, spec, d->geography + 2 * data_cells(d)));
    stn_to_host(whole, relief, d->grid.rows * d->grid.columns * sizeof *relief);
    stn_spec_release(&spec);
    return stn_scope_end(d->context);
}

/* Rank 0's part. 0: the picture at `path` cannot be written. */
static int draw(const struct data *d, const char *folder, char *path, size_t size, const float *relief,
                const float *truth, const float *forecast, const stn_spec *spec)
{
    size_t n = d->grid.rows * d->grid.columns;
    for (int c = 0; c < d->components; c++) {
        snprintf(path, size, "%s/forecast-%d.png", folder, c);
        if (!draw_month(d, path, relief, truth + (size_t)c * n, forecast + (size_t)c * n))
            return 0;
    }
    int groups = stn_mesh_axis_size(d->mesh, AXIS_DATA);
    snprintf(path, size, "%s/ranks.png", folder);
    return draw_ranks(d, path, relief, spec, groups < MOST_GROUPS ? groups : MOST_GROUPS);
}

stn_status maps_write(const struct data *d, const struct model *model, const char *folder)
{
    size_t n = d->grid.rows * d->grid.columns, all = n * (size_t)d->components;
    float *relief = malloc(n * sizeof *relief), *truth = malloc(all * sizeof *truth),
          *forecast = malloc(all * sizeof *forecast);
    char path[1100] = "", text[1300];
    const stn_spec *spec = NULL;
    int ok = relief && truth && forecast;
    stn_status status = stn_agree(d->context, ok ? STN_OK : STN_ERR_MEMORY, "no memory for maps");
    if (status == STN_OK)
        status = gather_relief(d, relief);
    if (status == STN_OK)
        status = scores_fields(d, model, d->first_test, forecast, truth);
    if (status == STN_OK)
        status = data_spec(d, stn_mesh_axis_size(d->mesh, AXIS_DATA), 1, &spec);
    errno = 0;
    if (status == STN_OK) {
        ok = stn_context_rank(d->context) != 0 || draw(d, folder, path, sizeof path, relief, truth, forecast, spec);
        snprintf(text, sizeof text, "%s: cannot be written: %s", path, ok ? "" : strerror(errno));
        status = stn_agree(d->context, ok ? STN_OK : STN_ERR_IO, text);
    }
    stn_spec_release(&spec);
    free(relief);
    free(truth);
    free(forecast);
    return status;
}

const char *maps_names(void)
{
    return ", forecast-*.png, ranks.png";
}
