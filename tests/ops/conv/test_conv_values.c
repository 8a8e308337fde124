/* Convolutions and their gradients: one process against plain loops, dtypes against each other. */
#include "core/shard/world.h"
#include "ops/conv/cases.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

/* With the cotangent r: out = F(a, w) + b and a' = A(w, r), w' = W(a, r) for the loss <r, out>; with directions u,
 * t, v of a', w', b': the derivatives of <u, a'> + <t, w'> + <v, b'> by a are A(t, r), by w W(u, r), by r F(u, w) +
 * F(a, t) + v. */
static void check_against_loops(stn_context *context, uint64_t *state, const struct conv_case *s, stn_dtype dtype,
                                double tolerance)
{
    struct random_shape as = conv_input_shape(s), ws = conv_weight_shape(s), bs = conv_bias_shape(s),
                        ys = conv_output_shape(s);
    int64_t na = against_one_numel(&as), nw = against_one_numel(&ws), ny = against_one_numel(&ys), plane = 1;
    for (int d = 0; d < s->dims; d++)
        plane *= ys.shape[ys.ndim - 1 - d];
    double *a = against_one_draw(state, na), *w = against_one_draw(state, nw), *b = against_one_draw(state, s->o);
    double *r = against_one_draw(state, ny), *u = against_one_draw(state, na), *t = against_one_draw(state, nw),
           *v = against_one_draw(state, s->o);
    double *y = conv_zeros(ny), *da = conv_zeros(na), *dw = conv_zeros(nw), *db = conv_zeros(s->o);
    double *dda = conv_zeros(na), *ddw = conv_zeros(nw), *dr = conv_zeros(ny);
    conv_plain(s, a, w, y, y);
    conv_plain(s, da, w, r, da);
    conv_plain(s, a, dw, r, dw);
    conv_plain(s, dda, t, r, dda);
    conv_plain(s, u, ddw, r, ddw);
    conv_plain(s, u, w, dr, dr);
    conv_plain(s, a, t, dr, dr);
    for (int64_t i = 0; i < ny && s->has_bias; i++) {
        y[i] += b[i / plane % s->o];
        db[i / plane % s->o] += r[i];
        dr[i] += v[i / plane % s->o];
    }
    stn_scope_begin(context);
    stn_tensor *in[] = {against_one_local(context, dtype, &as, a), against_one_local(context, dtype, &ws, w),
                        against_one_local(context, dtype, &bs, b)};
    stn_tensor *cotangent = against_one_local(context, dtype, &ys, r);
    stn_tensor *along[] = {against_one_local(context, dtype, &as, u), against_one_local(context, dtype, &ws, t),
                           against_one_local(context, dtype, &bs, v)};
    stn_tensor *grad[3] = {NULL}, *second[4] = {NULL}, *leaves[] = {in[0], in[1], in[2], cotangent};
    int n = s->has_bias ? 3 : 2;
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(stn_set_requires_grad(in[i], 1), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(cotangent, 1), STN_OK);
    leaves[n] = cotangent;
    stn_tensor *out = conv_call(in, s);
    CHECK_STATUS(stn_grad(context, 1, &out, &cotangent, n, leaves, 1, 1, grad), STN_OK);
    CHECK_STATUS(stn_grad(context, n, grad, along, n + 1, leaves, 0, 0, second), STN_OK);
    against_one_compare(out, y, tolerance);
    against_one_compare(grad[0], da, tolerance);
    against_one_compare(grad[1], dw, tolerance);
    against_one_compare(second[0], dda, tolerance);
    against_one_compare(second[1], ddw, tolerance);
    against_one_compare(second[n], dr, tolerance);
    if (s->has_bias) {
        against_one_compare(grad[2], db, tolerance);
        CHECK(second[2] == NULL);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    double *all[] = {a, w, b, r, u, t, v, y, da, dw, db, dda, ddw, dr};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static stn_status loops_body(stn_context *context, void *arg)
{
    uint64_t state = 3;
    (void)arg;
    for (int i = 0; i < conv_n_cases; i++) {
        check_against_loops(context, &state, &conv_cases[i], STN_DTYPE_F64, 1e-13);
        check_against_loops(context, &state, &conv_cases[i], STN_DTYPE_F32, 2e-6);
    }
    return STN_OK;
}

static void one_process_gives_what_plain_loops_give_to_the_second_derivative(void)
{
    test_ranks(1, loops_body, NULL);
}

/* The same values in a dtype and in f64, the first windowed dim cut. The loss is the sum of the outputs, or of their
 * squares. */
static void check_against_f64(stn_context *context, uint64_t *state, const struct conv_case *s, stn_dtype dtype,
                              int squares, double tolerance)
{
    struct random_shape of[] = {conv_input_shape(s), conv_weight_shape(s), conv_bias_shape(s)};
    stn_placement over[] = {stn_shard(of[0].ndim - s->dims)}, everywhere[] = {stn_replicate()};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *in[2][3], *out[2], *loss[2], *grad[2][3];
    int n = s->has_bias ? 3 : 2;
    stn_scope_begin(context);
    for (int k = 0; k < n; k++) {
        const stn_spec *spec = conv_spec(context, mesh, k == 0 ? over : everywhere, STN_DTYPE_F32, &of[k], NULL);
        double *values = against_one_draw(state, against_one_numel(&of[k]));
        in[0][k] = stn_detach(stn_cast(against_one_tensor(context, spec, values), dtype));
        in[1][k] = stn_detach(stn_cast(in[0][k], STN_DTYPE_F64));
        stn_spec_release(&spec);
        free(values);
    }
    for (int wide = 0; wide < 2; wide++) {
        for (int k = 0; k < n; k++)
            CHECK_STATUS(stn_set_requires_grad(in[wide][k], 1), STN_OK);
        out[wide] = conv_call(in[wide], s);
        loss[wide] = stn_sum(squares ? stn_mul(out[wide], out[wide]) : out[wide], 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &loss[wide], NULL, n, in[wide], 0, 0, grad[wide]), STN_OK);
    }
    for (int k = -1; k < n && CHECK_STATUS(stn_context_status(context), STN_OK); k++) {
        stn_tensor *full = k < 0 ? out[1] : grad[1][k], *narrow = k < 0 ? out[0] : grad[0][k];
        int64_t count = stn_spec_numel(stn_tensor_spec(full));
        double *want = conv_zeros(count);
        test_read(full, want, count);
        CHECK(stn_tensor_dtype(narrow) == dtype);
        against_one_compare(stn_cast(narrow, STN_DTYPE_F32), want, tolerance);
        free(want);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

/* 16-bit floats: computed in f32, rounded at the end */

static stn_status check_narrow(stn_context *context, uint64_t state, const struct conv_case *cases, int n)
{
    for (int i = 0; i < n; i++) {
        check_against_f64(context, &state, &cases[i], STN_DTYPE_F16, 0, 4 * 0x1p-11);
        check_against_f64(context, &state, &cases[i], STN_DTYPE_BF16, 0, 4 * 0x1p-8);
    }
    return STN_OK;
}

static stn_status narrow_body(stn_context *context, void *arg)
{
    (void)arg;
    return check_narrow(context, 31, conv_cases, conv_n_cases);
}

static void narrow_floats_are_those_of_f64_rounded(void)
{
    test_ranks(1, narrow_body, NULL);
    test_ranks(3, narrow_body, NULL);
}

/* Hundreds of pixels beyond the boundary stand for one at it, whose gradient is the sum of theirs. */

static stn_status wide_pads_body(stn_context *context, void *arg)
{
    enum { CIRCULAR = STN_PADDING_CIRCULAR, REFLECT = STN_PADDING_REFLECT, REPLICATE = STN_PADDING_REPLICATE };
    static const struct conv_case wide_pads[] = {
        {2, 0, 2, 3, 4, 1, {5, 2}, {4, 2}, {2, 2}, {2, 500}, {1, 1}, {0}, {REPLICATE, REPLICATE}, 0},
        {2, 0, 2, 3, 4, 1, {6, 7}, {3, 3}, {1, 1}, {300, 1}, {1, 1}, {0}, {REPLICATE, CIRCULAR}, 0},
        {1, 0, 3, 2, 2, 1, {300}, {3}, {1}, {700}, {1}, {0}, {REPLICATE}, 0},
        {2, 0, 1, 2, 2, 1, {3, 5}, {2, 2}, {1, 1}, {2, 40}, {1, 1}, {0}, {REFLECT, REPLICATE}, 0},
    };
    (void)arg;
    return check_narrow(context, 53, wide_pads, (int)(sizeof wide_pads / sizeof *wide_pads));
}

static void gradients_of_wide_pads_are_summed_in_f32(void)
{
    test_ranks(1, wide_pads_body, NULL);
    test_ranks(3, wide_pads_body, NULL);
}

/* Tall images, which f32 takes in blocks of rows and f64 at once */

static stn_status tall_body(stn_context *context, void *arg)
{
    static const struct conv_case tall[] = {
        {2, 0, 2, 16, 16, 1, {150, 96}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, {0}, 1},
        {2,
         0,
         1,
         16,
         24,
         1,
         {301, 96},
         {4, 3},
         {2, 1},
         {2, 1},
         {1, 1},
         {0},
         {STN_PADDING_REPLICATE, STN_PADDING_CIRCULAR},
         1},
        {2, 0, 2, 24, 16, 2, {181, 70}, {3, 5}, {1, 1}, {-1, -1}, {3, 1}, {0}, {STN_PADDING_REFLECT, 0}, 1},
        {2, 0, 1, 16, 16, 1, {400, 96}, {5, 3}, {3, 1}, {1, 0}, {1, 1}, {0}, {0}, 0},
        {2, 1, 2, 24, 16, 1, {95, 64}, {4, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 0}, {0}, 1},
        {3, 0, 1, 8, 16, 1, {30, 24, 20}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}, {0}, 1},
        {1, 1, 1, 16, 16, 1, {20000}, {5}, {2}, {2}, {1}, {1}, {0}, 1},
    };
    uint64_t state = 47;
    (void)arg;
    for (size_t i = 0; i < sizeof tall / sizeof *tall; i += (size_t)test_thread_step(3))
        check_against_f64(context, &state, &tall[i], STN_DTYPE_F32, 1, 2e-5);
    return STN_OK;
}

static void tall_images_in_blocks_of_rows_give_what_f64_gives(void)
{
    test_ranks(1, tall_body, NULL);
    test_ranks(2, tall_body, NULL);
}

/* Complex numbers */

/* Parts of the product of two of the three: sum[0] + i sum[1] is the third; the first factor is conjugated for a
 * gradient. */
static void plain_complex(const struct conv_case *s, double *const *a, double *const *w, double *const *out,
                          double *const *sum, int64_t n)
{
    int gradient = sum != out;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            double *part = conv_zeros(n), sign = i == 0 ? 1 : (j == 1) == gradient ? 1 : -1;
            if (sum == out)
                conv_plain(s, a[i], w[j], part, part);
            else if (sum == a)
                conv_plain(s, part, w[i], out[j], part);
            else
                conv_plain(s, a[i], part, out[j], part);
            for (int64_t k = 0; k < n; k++)
                sum[i != j][k] += sign * part[k];
            free(part);
        }
}

static void compare_complex(stn_tensor *got, double *const *want, double tolerance)
{
    against_one_compare(stn_real(got), want[0], tolerance);
    against_one_compare(stn_imag(got), want[1], tolerance);
}

/* The input's first windowed dim is sharded over all ranks. */
static void check_complex(stn_context *context, uint64_t *state, const struct conv_case *s, stn_dtype real,
                          double tolerance)
{
    struct random_shape of[] = {conv_input_shape(s), conv_weight_shape(s), conv_bias_shape(s), conv_output_shape(s)};
    stn_placement everywhere = stn_replicate(), over = stn_shard(of[0].ndim - s->dims);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    double *v[4][2], *want[3][2];
    int64_t numel[4], plane = 1;
    stn_tensor *in[4], *grad[3];
    for (int d = 0; d < s->dims; d++)
        plane *= of[3].shape[of[3].ndim - 1 - d];
    stn_scope_begin(context);
    for (int k = 0; k < 4; k++) {
        const stn_spec *spec = conv_spec(context, mesh, k == 0 ? &over : &everywhere, real, &of[k], NULL);
        stn_tensor *parts[2];
        numel[k] = against_one_numel(&of[k]);
        for (int i = 0; i < 2; i++) {
            v[k][i] = against_one_draw(state, numel[k]);
            parts[i] = against_one_tensor(context, spec, v[k][i]);
        }
        in[k] = stn_detach(stn_complex(parts[0], parts[1]));
        CHECK_STATUS(stn_set_requires_grad(in[k], k < 3), STN_OK);
        stn_spec_release(&spec);
    }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 2; i++)
            want[k][i] = conv_zeros(k < 2 ? numel[k] : numel[3]);
    plain_complex(s, v[0], v[1], want[2], want[2], numel[3]);
    plain_complex(s, want[0], v[1], v[3], want[0], numel[0]);
    plain_complex(s, v[0], want[1], v[3], want[1], numel[1]);
    for (int64_t i = 0; i < 2 * numel[3] && s->has_bias; i++)
        want[2][i % 2][i / 2] += v[2][i % 2][i / 2 / plane % s->o];
    stn_tensor *out = conv_call(in, s);
    CHECK_STATUS(stn_grad(context, 1, &out, &in[3], s->has_bias ? 3 : 2, in, 0, 0, grad), STN_OK);
    compare_complex(out, want[2], tolerance);
    compare_complex(grad[0], want[0], tolerance);
    compare_complex(grad[1], want[1], tolerance);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4; k++)
            free(v[k][i]);
        for (int k = 0; k < 3; k++)
            free(want[k][i]);
    }
}

static stn_status complex_body(stn_context *context, void *arg)
{
    uint64_t state = 59;
    (void)arg;
    for (int i = 0; i < conv_n_cases; i++) {
        check_complex(context, &state, &conv_cases[i], STN_DTYPE_F32, 4e-6);
        check_complex(context, &state, &conv_cases[i], STN_DTYPE_F64, 1e-13);
    }
    return STN_OK;
}

static void complex_numbers_multiply_as_their_parts_do(void)
{
    test_ranks(1, complex_body, NULL);
    test_ranks(3, complex_body, NULL);
}

/* Sums of many equal products: a chain of them in f32 would err by a thousandth. */
static stn_status many_positions_body(stn_context *context, void *arg)
{
    static const struct {
        int dims;
        int64_t x[4], w[4];
    } cases[] = {
        {1, {2, 3, 200000}, {5, 3, 3}}, {2, {64, 4, 32, 32}, {4, 4, 3, 3}}, {2, {2, 3, 400, 500}, {4, 3, 1, 1}}};
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stn_spec *x_spec, *w_spec;
        const int ndim = 2 + cases[i].dims;
        double positions = (double)cases[i].x[0], got[256], tenth = (double)0.1f;
        stn_tensor *gradient = NULL;
        for (int d = 2; d < ndim; d++)
            positions *= (double)(cases[i].x[d] - cases[i].w[d] + 1);
        CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, ndim, cases[i].x, NULL, &x_spec), STN_OK);
        CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, ndim, cases[i].w, NULL, &w_spec), STN_OK);
        stn_scope_begin(context);
        stn_tensor *x = stn_full(context, x_spec, tenth), *w = stn_full(context, w_spec, tenth);
        stn_set_requires_grad(w, 1);
        stn_tensor *y = cases[i].dims == 1 ? stn_conv1d(x, w, NULL, NULL) : stn_conv2d(x, w, NULL, NULL);
        stn_tensor *cotangent = stn_add_number(stn_mul_number(stn_detach(y), 0), tenth);
        CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
        CHECK_STATUS(stn_grad_of(w, &gradient), STN_OK);
        const int64_t n = stn_spec_numel(w_spec);
        test_read(gradient, got, n);
        for (int64_t k = 0; k < n; k++)
            CHECK_NEAR(got[k], positions * tenth * tenth, 5e-5);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        stn_spec_release(&x_spec);
        stn_spec_release(&w_spec);
    }
    return STN_OK;
}

static void weight_gradients_of_many_positions_err_little(void)
{
    static const char *const without[] = {NULL, "onednn"};
    for (int i = 0; i < 2; i++) {
        const stn_context_options options = {.size = sizeof options, .without = without[i]};
        CHECK_STATUS(test_launch(1, &options, many_positions_body, NULL), STN_OK);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"one_process_gives_what_plain_loops_give_to_the_second_derivative",
         one_process_gives_what_plain_loops_give_to_the_second_derivative},
        {"narrow_floats_are_those_of_f64_rounded", narrow_floats_are_those_of_f64_rounded},
        {"gradients_of_wide_pads_are_summed_in_f32", gradients_of_wide_pads_are_summed_in_f32},
        {"complex_numbers_multiply_as_their_parts_do", complex_numbers_multiply_as_their_parts_do},
        {"tall_images_in_blocks_of_rows_give_what_f64_gives", tall_images_in_blocks_of_rows_give_what_f64_gives},
        {"weight_gradients_of_many_positions_err_little", weight_gradients_of_many_positions_err_little},
    };
    return TEST_MAIN(argc, argv, cases);
}
