/* Calls of convolutions: by name, and those that are refused. */
#include "ops/conv/cases.h"
#include "ranks.h"

#include "dispatch/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By name, as frameworks call it */

static stn_status names_body(stn_context *context, void *arg)
{
    const int64_t x[] = {2, 4, 9, 8}, w[] = {6, 2, 3, 3};
    struct {
        stn_attr attrs[4];
        int n;
        stn_conv_attrs want;
    } cases[] = {
        {{{"padding", STN_ATTR_STRING, {.s = "same"}}, {"groups", STN_ATTR_INT, {.i = 2}}}, 2, {.same = 1}},
        {{{"padding", STN_ATTR_STRING, {.s = "valid"}},
          {"groups", STN_ATTR_INT, {.i = 2}},
          {"stride", STN_ATTR_INT, {.i = 2}}},
         3,
         {.stride = {2, 2}}},
        {{{"padding", STN_ATTR_INTS, {.ints = {2, {2, 1}}}},
          {"groups", STN_ATTR_INT, {.i = 2}},
          {"padding_mode", STN_ATTR_STRING, {.s = "replicate"}},
          {"last_padding_mode", STN_ATTR_STRING, {.s = "circular"}}},
         4,
         {.padding = {2, 1}, .mode = {STN_PADDING_REPLICATE, STN_PADDING_CIRCULAR}}},
        {{{"padding", STN_ATTR_INTS, {.ints = {1, {1}}}},
          {"groups", STN_ATTR_INT, {.i = 2}},
          {"padding_mode", STN_ATTR_STRING, {.s = "reflect"}},
          {"dilation", STN_ATTR_INTS, {.ints = {2, {1, 2}}}}},
         4,
         {.padding = {1, 1}, .dilation = {1, 2}, .mode = {STN_PADDING_REFLECT, STN_PADDING_REFLECT}}},
    };
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_scope_begin(context);
        stn_tensor *in[] = {conv_filled(context, mesh, stn_shard(2), 4, x, NULL),
                            conv_filled(context, mesh, stn_replicate(), 4, w, NULL)},
                   *by_name;
        cases[i].want.size = sizeof cases[i].want;
        cases[i].want.groups = 2;
        CHECK_STATUS(stn_call(context, "conv2d", 2, in, cases[i].n, cases[i].attrs, 1, &by_name), STN_OK);
        stn_tensor *typed = stn_conv2d(in[0], in[1], NULL, &cases[i].want);
        if (CHECK_STATUS(stn_context_status(context), STN_OK)) {
            int64_t n = stn_spec_numel(stn_tensor_spec(typed));
            double *want = conv_zeros(n);
            test_read(typed, want, n);
            against_one_compare(by_name, want, 0);
            free(want);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void attributes_by_name_mean_what_the_struct_means(void)
{
    test_ranks(2, names_body, NULL);
}

static stn_status transposed_names_body(stn_context *context, void *arg)
{
    const int64_t x[] = {4, 9, 8}, w[] = {4, 3, 3, 2};
    const stn_attr attrs[] = {{"padding", STN_ATTR_INT, {.i = 1}},
                              {"groups", STN_ATTR_INT, {.i = 2}},
                              {"stride", STN_ATTR_INTS, {.ints = {2, {2, 3}}}},
                              {"output_padding", STN_ATTR_INTS, {.ints = {2, {1, 0}}}},
                              {"dilation", STN_ATTR_INTS, {.ints = {1, {2}}}}};
    const stn_conv_transpose_attrs same = {.size = sizeof same,
                                           .stride = {2, 3},
                                           .padding = {1, 1},
                                           .output_padding = {1, 0},
                                           .dilation = {2, 2},
                                           .groups = 2};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *in[] = {conv_filled(context, mesh, stn_shard(2), 3, x, NULL),
                        conv_filled(context, mesh, stn_replicate(), 4, w, NULL)},
               *by_name;
    CHECK_STATUS(stn_call(context, "conv_transpose2d", 2, in, 5, attrs, 1, &by_name), STN_OK);
    stn_tensor *typed = stn_conv_transpose2d(in[0], in[1], NULL, &same);
    if (CHECK_STATUS(stn_context_status(context), STN_OK)) {
        int64_t n = stn_spec_numel(stn_tensor_spec(typed));
        double *want = conv_zeros(n);
        CHECK_I64(n, 6 * 20 * 22);
        test_read(typed, want, n);
        against_one_compare(by_name, want, 0);
        free(want);
    }
    return stn_scope_end(context);
}

static void transposed_attributes_by_name_mean_what_the_struct_means(void)
{
    test_ranks(2, transposed_names_body, NULL);
}

/* Refusals */

struct refusal {
    struct conv_case s;
    stn_status want;
    const char *text;
};

static const struct refusal refusals[] = {
    {{2, 0, 1, 3, 3, 2, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, {0}, 0}, STN_ERR_SHAPE, "channels"},
    {{2, 0, 1, 2, 3, 1, {2, 6}, {3, 3}, {1, 1}, {0, 0}, {1, 1}, {0}, {0}, 0}, STN_ERR_SHAPE, "kernel's 3"},
    {{2, 0, 1, 2, 3, 1, {5, 6}, {3, 3}, {2, 1}, {-1, -1}, {1, 1}, {0}, {0}, 0}, STN_ERR_ARGUMENT, "'same'"},
    {{2, 0, 1, 2, 3, 1, {5, 6}, {3, 3}, {-1, 1}, {0, 0}, {1, 1}, {0}, {0}, 0}, STN_ERR_ARGUMENT, "'stride' got -1"},
    {{2, 0, 1, 2, 3, 1, {5, 6}, {3, 3}, {1, 1}, {5, 1}, {1, 1}, {0}, {STN_PADDING_REFLECT, 0}, 0},
     STN_ERR_SHAPE,
     "'reflect' got padding 5"},
    {{2, 0, 1, 2, 3, 1, {5, 6}, {3, 3}, {1, 1}, {1, 7}, {1, 1}, {0}, {0, STN_PADDING_CIRCULAR}, 0},
     STN_ERR_SHAPE,
     "'circular' got padding 7"},
    {{2, 0, 1, 2, 3, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, {0, 9}, 0}, STN_ERR_ARGUMENT, "attrs.mode got 9"},
    {{1, 0, 1, 2, 3, 1, {5}, {7}, {1}, {0}, {1}, {0}, {0}, 0},
     STN_ERR_SHAPE,
     "windowed dim 0, wanted at least the kernel's 7"},
    {{3, 0, 1, 2, 3, 1, {5, 6, 4}, {3, 3, 3}, {1, 1, 1}, {1, 1, 5}, {1, 1, 1}, {0}, {0, 0, STN_PADDING_REFLECT}, 0},
     STN_ERR_SHAPE,
     "'reflect' got padding 5"},
    {{1, 1, 1, 2, 3, 1, {5}, {3}, {2}, {0}, {1}, {2}, {0}, 0},
     STN_ERR_ARGUMENT,
     "'output_padding' got 2, wanted less than the stride or the dilation, 2"},
    {{1, 1, 1, 2, 3, 1, {5}, {3}, {2}, {0}, {1}, {-1}, {0}, 0}, STN_ERR_ARGUMENT, "'output_padding' got -1"},
    {{2, 1, 1, 2, 3, 1, {2, 6}, {2, 3}, {1, 1}, {2, 0}, {1, 1}, {0}, {0}, 0},
     STN_ERR_SHAPE,
     "leaves -1 elements along windowed dim 0"},
    {{1, 1, 1, 2, 3, 1, {0}, {3}, {2}, {0}, {1}, {0}, {0}, 0},
     STN_ERR_SHAPE,
     "'input' got no elements along windowed dim 0"},
    {{3, 1, 1, 3, 4, 2, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {0}, {1, 1, 1}, {0}, {0}, 0},
     STN_ERR_SHAPE,
     "got 3 channels in and 4 out"},
};

/* Whether what was called failed with the status and the text, and nothing was communicated. */
static void check_refused(stn_context *context, stn_tensor *got, stn_status want, const char *part)
{
    stn_stats stats = {.size = sizeof stats};
    char text[512] = "";
    CHECK(stn_tensor_is_error(got));
    stn_context_stats(context, &stats);
    CHECK_I64(stats.collectives, 0);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), want);
    if (!CHECK(strstr(text, part) != NULL))
        fprintf(stderr, "  got \"%s\", wanted \"%s\" in it\n", text, part);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct random_shape xs = conv_input_shape(&refusals[i].s), ws = conv_weight_shape(&refusals[i].s);
        ws.shape[1] = ws.shape[1] == 0 ? 1 : ws.shape[1];
        stn_scope_begin(context);
        stn_tensor *in[] = {conv_filled(context, mesh, stn_shard(2), xs.ndim, xs.shape, NULL),
                            conv_filled(context, mesh, stn_replicate(), ws.ndim, ws.shape, NULL)};
        stn_context_stats_reset(context);
        check_refused(context, conv_call(in, &refusals[i].s), refusals[i].want, refusals[i].text);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void what_does_not_fit_is_refused_before_any_communication(void)
{
    test_ranks(2, refusals_body, NULL);
}

static stn_status tensors_body(stn_context *context, void *arg)
{
    const int64_t x[] = {1, 1, 4, 4}, w[] = {1, 1, 3, 3}, b[] = {2};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_attr same = {"padding", STN_ATTR_STRING, {.s = "same"}},
                   lists = {"stride", STN_ATTR_INTS, {.ints = {3, {1, 1, 1}}}};
    stn_placement everywhere = stn_replicate();
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *wide = test_tensor(context, mesh, &everywhere, STN_DTYPE_F64, 4, x, NULL, test_value);
    stn_tensor *in[] = {conv_filled(context, mesh, everywhere, 4, x, NULL),
                        conv_filled(context, mesh, everywhere, 4, w, NULL)},
               *out;
    stn_tensor *bias = conv_filled(context, mesh, everywhere, 1, b, NULL), *numbers = stn_cast(wide, STN_DTYPE_BOOL);
    stn_context_stats_reset(context);
    check_refused(context, stn_conv2d(wide, in[1], NULL, NULL), STN_ERR_DTYPE, "'weight' got dtype f32, wanted f64");
    check_refused(context, stn_conv2d(numbers, numbers, NULL, NULL), STN_ERR_DTYPE, "'input' got dtype bool");
    check_refused(context, stn_conv2d(in[0], in[1], bias, NULL), STN_ERR_SHAPE, "'bias' got shape (2), wanted (1)");
    check_refused(context, stn_conv_transpose2d(in[0], in[1], bias, NULL), STN_ERR_SHAPE,
                  "'bias' got shape (2), wanted (1)");
    check_refused(context, stn_conv1d(in[0], in[1], NULL, NULL), STN_ERR_SHAPE,
                  "'input' got 4 dims, wanted 3 or, without a batch, 2");
    check_refused(context, stn_conv_transpose3d(in[0], in[1], NULL, NULL), STN_ERR_SHAPE,
                  "'weight' got 4 dims, wanted 5");
    stn_call(context, "conv_transpose2d", 2, in, 1, &same, 1, &out);
    check_refused(context, out, STN_ERR_ARGUMENT, "padding");
    stn_op_invoke(stni_registry_find(context, "conv2d_grad_input"), 2, in, 0, NULL, 1, &out);
    check_refused(context, out, STN_ERR_ARGUMENT, "'input_size' got -1 numbers, wanted 2");
    stn_call(context, "conv2d", 2, in, 1, &lists, 1, &out);
    check_refused(context, out, STN_ERR_ARGUMENT, "'stride' got 3 numbers, wanted 1 or 2");
    return stn_scope_end(context);
}

static void tensors_that_do_not_fit_are_named(void)
{
    test_ranks(2, tensors_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"attributes_by_name_mean_what_the_struct_means", attributes_by_name_mean_what_the_struct_means},
        {"transposed_attributes_by_name_mean_what_the_struct_means",
         transposed_attributes_by_name_mean_what_the_struct_means},
        {"what_does_not_fit_is_refused_before_any_communication",
         what_does_not_fit_is_refused_before_any_communication},
        {"tensors_that_do_not_fit_are_named", tensors_that_do_not_fit_are_named},
    };
    return TEST_MAIN(argc, argv, cases);
}
