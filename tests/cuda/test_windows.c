/* Resampling, pools and their gradients on a CUDA device are the CPU's: of few and many images, of dense ones, with
 * channels last and views, of windows that overlap, of many elements, and of none. */
#include "both.h"

#include "harness.h"

/* Images, channels, rows and columns: one image, as many as a thread has, one more, and enough for it to go round
 * twice. */
static const int64_t shapes[][4] = {{1, 1, 5, 7}, {2, 2, 9, 4}, {1, 5, 6, 70}, {3, 7, 8, 6}, {40, 130, 8, 8}};
enum { SHAPES = sizeof shapes / sizeof *shapes, MANY = SHAPES - 1 };

/* How the images of `shape` lie. */
enum lie { DENSE, CHANNELS_LAST, ROWS_CUT, COLUMNS_AS_ROWS, LIES };

static enum lie lies;

static stn_tensor *images(stn_context *context, stn_dtype dtype, const int64_t *shape)
{
    static const int last[] = {0, 3, 1, 2};
    const int64_t n = shape[0], c = shape[1], h = shape[2], w = shape[3];
    switch (lies) {
    case CHANNELS_LAST: return stn_permute(both_input(context, dtype, 4, (const int64_t[]){n, h, w, c}, 1), 4, last);
    case ROWS_CUT: return stn_narrow(both_input(context, dtype, 4, (const int64_t[]){n, c, h, w + 3}, 1), 3, 1, w);
    case COLUMNS_AS_ROWS: return stn_transpose(both_input(context, dtype, 4, (const int64_t[]){n, c, w, h}, 1), 2, 3);
    case DENSE:
    case LIES: break;
    }
    return both_input(context, dtype, 4, shape, 1);
}

/* Adds y and the gradient of its elements' squares to the results. */
static void put(stn_context *context, stn_tensor *x, stn_tensor *y, stn_tensor **out, int *n)
{
    stn_tensor *loss = stn_mul_number(stn_sum(stn_square(y), 0, NULL, 0), 0.5), *gradient = NULL;
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 0, 0, &gradient), STN_OK);
    out[(*n)++] = y;
    out[(*n)++] = gradient;
}

static stn_tensor *leaf(stn_context *context, stn_dtype dtype, const int64_t *shape)
{
    stn_tensor *x = images(context, dtype, shape);
    stn_set_requires_grad(x, 1);
    return x;
}

static stn_tensor *resized(stn_tensor *x, stn_interpolate_mode mode, int align_corners, int64_t rows, int64_t columns)
{
    const stn_interpolate_attrs attrs = {
        .size = sizeof attrs, .mode = mode, .align_corners = align_corners, .output_size = {rows, columns}};
    return stn_interpolate(x, &attrs);
}

static int enlarged(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, shape);
    const int64_t h = shape[2], w = shape[3];
    int n = 0;
    put(context, x, resized(x, STN_INTERPOLATE_NEAREST, 0, 2 * h, 2 * w), out, &n);
    put(context, x, resized(x, STN_INTERPOLATE_LINEAR, 0, 2 * h, 2 * w), out, &n);
    put(context, x, resized(x, STN_INTERPOLATE_LINEAR, 1, 3 * h + 1, w), out, &n);
    put(context, x, resized(x, STN_INTERPOLATE_CUBIC, 0, h + 1, 2 * w), out, &n);
    return n;
}

/* Each element is read by as many as a factor says; by one more of some, where a size is no multiple. */
static int repeated(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const stn_interpolate_attrs factors[] = {
        {.size = sizeof *factors, .mode = STN_INTERPOLATE_NEAREST, .scale_factor = {2, 3}},
        {.size = sizeof *factors, .mode = STN_INTERPOLATE_NEAREST_EXACT, .scale_factor = {3, 1}}};
    stn_tensor *x = leaf(context, dtype, shape);
    const int64_t h = shape[2], w = shape[3];
    int n = 0;
    put(context, x, stn_interpolate(x, &factors[0]), out, &n);
    put(context, x, stn_interpolate(x, &factors[1]), out, &n);
    put(context, x, resized(x, STN_INTERPOLATE_NEAREST, 0, h + 1, 2 * w - 1), out, &n);
    put(context, x, resized(x, STN_INTERPOLATE_NEAREST_EXACT, 0, 2 * h + 1, w + 2), out, &n);
    return n;
}

static int reduced(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_interpolate_attrs by_factors = {
        .size = sizeof by_factors, .mode = STN_INTERPOLATE_LINEAR, .scale_factor = {0.7, 1.3}};
    stn_tensor *x = leaf(context, dtype, shape);
    int n = 0;
    put(context, x, resized(x, STN_INTERPOLATE_NEAREST_EXACT, 0, 3, 2), out, &n);
    put(context, x, resized(x, STN_INTERPOLATE_LINEAR, 0, 3, 2), out, &n);
    put(context, x, resized(x, STN_INTERPOLATE_AREA, 0, 4, 3), out, &n);
    put(context, x, stn_interpolate(x, &by_factors), out, &n);
    return n;
}

static stn_tensor *antialiased(stn_tensor *x, stn_interpolate_mode mode, int64_t rows, int64_t columns)
{
    const stn_interpolate_attrs attrs = {
        .size = sizeof attrs, .mode = mode, .antialias = 1, .output_size = {rows, columns}};
    return stn_interpolate(x, &attrs);
}

static int filtered(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, shape);
    const int64_t h = shape[2], w = shape[3];
    int n = 0;
    put(context, x, antialiased(x, STN_INTERPOLATE_LINEAR, 3, 2), out, &n);
    put(context, x, antialiased(x, STN_INTERPOLATE_LINEAR, h, 2 * w), out, &n);
    put(context, x, antialiased(x, STN_INTERPOLATE_CUBIC, 2, w), out, &n);
    put(context, x, antialiased(x, STN_INTERPOLATE_LANCZOS, h / 2 + 1, 4), out, &n);
    return n;
}

static int averages(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_pool_attrs pairs = {.size = sizeof pairs, .kernel_size = {2, 2}},
                         overlap = {.size = sizeof pairs, .kernel_size = {3, 3}, .stride = {1, 2}, .padding = {1, 1}},
                         apart = {.size = sizeof pairs, .kernel_size = {1, 2}, .stride = {2, 3}, .ceil_mode = 1,
                                  .exclude_pads = 1};
    stn_tensor *x = leaf(context, dtype, shape);
    int n = 0;
    put(context, x, stn_avg_pool2d(x, &pairs), out, &n);
    put(context, x, stn_avg_pool2d(x, &overlap), out, &n);
    put(context, x, stn_avg_pool2d(x, &apart), out, &n);
    put(context, x, stn_adaptive_avg_pool2d(x, (const int64_t[]){1, 1}), out, &n);
    return n;
}

static int maxima(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_pool_attrs pairs = {.size = sizeof pairs, .kernel_size = {2, 2}},
                         overlap = {.size = sizeof pairs, .kernel_size = {3, 2}, .stride = {2, 1}, .padding = {1, 1},
                                    .dilation = {1, 2}},
                         crowded = {.size = sizeof pairs, .kernel_size = {5, 4}, .stride = {1, 1}, .padding = {2, 2}};
    stn_tensor *x = leaf(context, dtype, shape);
    int n = 0;
    put(context, x, stn_max_pool2d(x, &pairs, &out[2]), out, &n);
    n++;
    put(context, x, stn_max_pool2d(x, &overlap, &out[5]), out, &n);
    n++;
    put(context, x, stn_max_pool2d(x, &crowded, NULL), out, &n);
    return n;
}

/* Of equal elements and NaN, without places; of integers too. */
static int plain_maxima(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_pool_attrs pairs = {.size = sizeof pairs, .kernel_size = {2, 2}},
                         overlap = {.size = sizeof pairs, .kernel_size = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
    stn_tensor *x = stn_cast(stn_floor(images(context, STN_DTYPE_F32, shape)), dtype);
    if (dtype == STN_DTYPE_F32)
        x = stn_sqrt(x);
    out[0] = stn_max_pool2d(x, &pairs, NULL);
    out[1] = stn_max_pool2d(x, &overlap, &out[2]);
    out[3] = stn_adaptive_max_pool2d(x, (const int64_t[]){2, 3}, NULL);
    if (dtype == STN_DTYPE_F32)
        out[0] = stn_isnan(out[0]), out[1] = stn_isnan(out[1]), out[3] = stn_isnan(out[3]);
    return 4;
}

/* Planes are averaged too. */
static int volumes(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const stn_pool_attrs window = {.size = sizeof window, .kernel_size = {2, 3, 2}, .stride = {2, 1, 1}};
    const stn_interpolate_attrs attrs = {
        .size = sizeof attrs, .mode = STN_INTERPOLATE_LINEAR, .output_size = {3, 5, 9}};
    stn_tensor *x = both_input(context, dtype, 5, (const int64_t[]){2, shape[0], 5, shape[2], shape[3]}, 2);
    int n = 0;
    stn_set_requires_grad(x, 1);
    put(context, x, stn_avg_pool3d(x, &window), out, &n);
    put(context, x, stn_interpolate(x, &attrs), out, &n);
    put(context, x, stn_max_pool3d(x, &window, NULL), out, &n);
    return n;
}

/* Rows and columns of more elements than are added in one run. */
static int long_windows(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = leaf(context, dtype, (const int64_t[]){shape[0], shape[1], 3, 150});
    int n = 0;
    put(context, x, stn_adaptive_avg_pool2d(x, (const int64_t[]){1, 2}), out, &n);
    put(context, x, resized(x, STN_INTERPOLATE_LINEAR, 0, 150, 7), out, &n);
    return n;
}

/* Points that lie everywhere, many of them outside, and points that all lie close together. */
static int sampled(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const stn_sample_mode modes[] = {STN_SAMPLE_BILINEAR, STN_SAMPLE_NEAREST, STN_SAMPLE_BICUBIC};
    stn_tensor *x = leaf(context, dtype, shape), *y[2], *gradient = NULL, *loss;
    stn_tensor *wide = both_input(context, dtype, 4, (const int64_t[]){shape[0], 17, 19, 2}, 3);
    int n = 0;
    wide = stn_detach(stn_mul_number(wide, 0.3));
    stn_set_requires_grad(wide, 1);
    for (int m = 0; m < 3; m++) {
        y[0] = stn_grid_sample(x, wide, modes[m], STN_SAMPLE_ZEROS, 0);
        y[1] = stn_grid_sample(x, stn_mul_number(wide, 0.05), modes[m], STN_SAMPLE_BORDER, 1);
        loss = stn_sum(stn_square(stn_add(y[0], y[1])), 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 1, 0, &gradient), STN_OK);
        out[n++] = gradient;
        CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &wide, 0, 0, &gradient), STN_OK);
        out[n++] = gradient;
    }
    return n;
}

/* The same between planes, of few channels and of more than a thread reads at once. */
static int sampled_volumes(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const stn_sample_padding paddings[] = {STN_SAMPLE_ZEROS, STN_SAMPLE_BORDER, STN_SAMPLE_REFLECTION};
    const int64_t n = shape[0], c = shape[1], of_grid[] = {n, 3, 9, 8, 3};
    stn_tensor *x = both_input(context, dtype, 5, (const int64_t[]){n, c, 4, shape[2], shape[3]}, 4), *y, *loss, *in[2];
    int k = 0;
    stn_set_requires_grad(x, 1);
    for (int m = 0; m < 4; m++) {
        stn_tensor *grid = both_input(context, dtype, 5, of_grid, 5 + m);
        grid = stn_detach(stn_mul_number(grid, m < 2 ? 0.4 : 0.01));
        stn_set_requires_grad(grid, 1);
        y = stn_grid_sample(x, grid, m == 2 ? STN_SAMPLE_NEAREST : STN_SAMPLE_BILINEAR, paddings[m % 3], m % 2);
        loss = stn_sum(stn_square(y), 0, NULL, 0);
        in[0] = x, in[1] = grid;
        CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 2, in, 0, 0, out + k), STN_OK);
        k += 2;
    }
    return k;
}

/* Samples themselves: of neighbours that read far from each other, and of those that read along a row. */
static int samples(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int64_t far[] = {shape[0], 9, 13, 2}, along[] = {shape[0], 2, 64, 2};
    stn_tensor *x = images(context, dtype, shape), *grid[2];
    grid[0] = stn_mul_number(both_input(context, dtype, 4, far, 6), 0.3);
    grid[1] = stn_mul_number(both_input(context, dtype, 4, along, 7), 0.01);
    for (int i = 0; i < 2; i++) {
        out[2 * i] = stn_grid_sample(x, grid[i], STN_SAMPLE_BILINEAR, STN_SAMPLE_BORDER, 0);
        out[2 * i + 1] = stn_grid_sample(x, grid[i], STN_SAMPLE_BICUBIC, STN_SAMPLE_ZEROS, 1);
    }
    return 4;
}

static double tolerance_of(stn_dtype dtype)
{
    return dtype == STN_DTYPE_F64 ? 1e-12 : dtype == STN_DTYPE_F32 ? 3e-6 : dtype == STN_DTYPE_F16 ? 4e-3 : 3e-2;
}

static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* Every dtype of dense images, one of others; the large shape once. */
static void compare(const both_work *work)
{
    for (int l = 0; l < LIES; l++) {
        lies = (enum lie)l;
        for (int s = 0; s < SHAPES - (l != DENSE); s++)
            for (int d = 0; d < (l == DENSE && s < MANY ? DTYPES : 1); d++)
                if (both_takes(l + s + d))
                    both_compare(work, dtypes[d], shapes[s], tolerance_of(dtypes[d]));
    }
    lies = DENSE;
}

static void enlarged_images_are_the_cpus(void)
{
    compare(&(const both_work){"enlarged", enlarged});
}

static void repeated_images_are_the_cpus(void)
{
    compare(&(const both_work){"repeated", repeated});
}

static void reduced_images_are_the_cpus(void)
{
    compare(&(const both_work){"reduced", reduced});
}

static void antialiased_images_are_the_cpus(void)
{
    compare(&(const both_work){"filtered", filtered});
}

static void averages_are_the_cpus(void)
{
    compare(&(const both_work){"averages", averages});
}

static void maxima_are_the_cpus(void)
{
    compare(&(const both_work){"maxima", maxima});
}

static void maxima_among_equals_and_nan_are_the_cpus(void)
{
    static const stn_dtype all[] = {STN_DTYPE_F32, STN_DTYPE_I64, STN_DTYPE_I32};
    for (int s = 0; s < MANY; s++)
        for (int d = 0; d < 3; d++)
            both_compare(&(const both_work){"maxima among equals", plain_maxima}, all[d], shapes[s], 0);
}

static void volumes_and_long_windows_are_the_cpus(void)
{
    for (int s = 0; s < MANY; s++)
        for (int d = 0; d < 2; d++) {
            const double tolerance = tolerance_of(dtypes[d]);
            if (!both_takes(s + d))
                continue;
            both_compare(&(const both_work){"volumes", volumes}, dtypes[d], shapes[s], tolerance);
            both_compare(&(const both_work){"long windows", long_windows}, dtypes[d], shapes[s], tolerance);
        }
}

static void sampled_images_are_the_cpus(void)
{
    const int64_t many[] = {both_on_standin() ? 6 : 32, 11, 4, 5};
    for (int s = 0; s < MANY; s++) {
        if (both_takes(s + 1))
            both_compare(&(const both_work){"sampled", sampled}, STN_DTYPE_F64, shapes[s], 1e-9);
        if (s % 2 == 0 && both_takes(s))
            both_compare(&(const both_work){"sampled", sampled}, STN_DTYPE_F32, shapes[s], 1e-4);
    }
    both_compare(&(const both_work){"sampled", sampled}, STN_DTYPE_F32, many, 1e-4);
}

static void samples_of_every_dtype_and_layout_are_the_cpus(void)
{
    static const int64_t wide[] = {3, 35, 6, 5};
    compare(&(const both_work){"samples", samples});
    for (int d = 0; d < DTYPES; d++)
        both_compare(&(const both_work){"samples", samples}, dtypes[d], wide, tolerance_of(dtypes[d]));
}

static void sampled_volumes_are_the_cpus(void)
{
    for (int s = 0; s < MANY; s++) {
        if (both_takes(s))
            both_compare(&(const both_work){"sampled volumes", sampled_volumes}, STN_DTYPE_F64, shapes[s], 1e-9);
        if (both_takes(s + 1))
            both_compare(&(const both_work){"sampled volumes", sampled_volumes}, STN_DTYPE_F32, shapes[s], 1e-4);
    }
}

static void no_images_have_no_windows(void)
{
    static const int64_t none[][4] = {{0, 3, 4, 6}, {2, 0, 4, 6}};
    for (int s = 0; s < 2; s++) {
        both_compare(&(const both_work){"enlarged", enlarged}, STN_DTYPE_F32, none[s], 1e-6);
        both_compare(&(const both_work){"averages", averages}, STN_DTYPE_F32, none[s], 1e-6);
        both_compare(&(const both_work){"maxima", maxima}, STN_DTYPE_F32, none[s], 1e-6);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"enlarged_images_are_the_cpus", enlarged_images_are_the_cpus},
        {"repeated_images_are_the_cpus", repeated_images_are_the_cpus},
        {"reduced_images_are_the_cpus", reduced_images_are_the_cpus},
        {"antialiased_images_are_the_cpus", antialiased_images_are_the_cpus},
        {"averages_are_the_cpus", averages_are_the_cpus},
        {"maxima_are_the_cpus", maxima_are_the_cpus},
        {"maxima_among_equals_and_nan_are_the_cpus", maxima_among_equals_and_nan_are_the_cpus},
        {"volumes_and_long_windows_are_the_cpus", volumes_and_long_windows_are_the_cpus},
        {"sampled_images_are_the_cpus", sampled_images_are_the_cpus},
        {"samples_of_every_dtype_and_layout_are_the_cpus", samples_of_every_dtype_and_layout_are_the_cpus},
        {"sampled_volumes_are_the_cpus", sampled_volumes_are_the_cpus},
        {"no_images_have_no_windows", no_images_have_no_windows},
    };
    return TEST_MAIN(argc, argv, cases);
}
