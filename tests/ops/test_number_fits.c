/* Numbers that are to become elements: those that the dtype has not are refused by name, on all ranks alike and before
 * anything is sent; those at its ends are taken. */
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdio.h>

struct operands {
    stn_context *context;
    stn_tensor *x, *mask, *index;
};

static stn_tensor *full(const struct operands *in, double value)
{
    return stn_full(in->context, stn_tensor_spec(in->x), value);
}
static stn_tensor *fill_(const struct operands *in, double value)
{
    return stn_fill_(stn_clone(in->x), value);
}
static stn_tensor *masked_fill(const struct operands *in, double value)
{
    return stn_masked_fill(in->x, in->mask, value);
}
static stn_tensor *masked_fill_(const struct operands *in, double value)
{
    return stn_masked_fill_(stn_clone(in->x), in->mask, value);
}
static stn_tensor *index_fill(const struct operands *in, double value)
{
    return stn_index_fill(in->x, 0, in->index, value);
}
static stn_tensor *scatter(const struct operands *in, double value)
{
    return stn_scatter_number(in->x, 0, in->index, value);
}
static stn_tensor *pad(const struct operands *in, double value)
{
    return stn_pad(in->x, 2, (const int64_t[]){1, 1}, STN_PAD_CONSTANT, value);
}
static stn_tensor *linspace(const struct operands *in, double value)
{
    return stn_linspace(in->context, stn_tensor_spec(in->x), 0, value);
}

static const struct {
    const char *op, *argument;
    stn_tensor *(*call)(const struct operands *in, double value);
} calls[] = {{"full", "value", full},
             {"fill_", "value", fill_},
             {"masked_fill", "value", masked_fill},
             {"masked_fill_", "value", masked_fill_},
             {"index_fill", "value", index_fill},
             {"scatter", "value", scatter},
             {"pad", "value", pad},
             {"linspace", "end", linspace}};

static const struct {
    stn_dtype dtype;
    double least, most;
} ends[] = {{STN_DTYPE_U8, -255, 255},
            {STN_DTYPE_I8, -128, 127},
            {STN_DTYPE_I16, -32768, 32767},
            {STN_DTYPE_I32, -2147483648.0, 2147483647},
            {STN_DTYPE_I64, -0x1p63, 0x1.fffffffffffffp62}};

static void check_refused(const struct operands *in, int call, stn_dtype dtype, double value)
{
    char text[200], got[300];
    const int64_t sent = test_stats(in->context).bytes_sent;
    CHECK(stn_tensor_is_error(calls[call].call(in, value)));
    CHECK_STATUS(stn_context_take_error(in->context, got, sizeof got), STN_ERR_DTYPE);
    snprintf(text, sizeof text, "%s: '%s' got %g, wanted a number that %s has", calls[call].op, calls[call].argument,
             value, stn_dtype_name(dtype));
    CHECK_STR(got, text);
    CHECK_I64(test_stats(in->context).bytes_sent, sent);
}

static stn_tensor *line(stn_context *context, const stn_mesh *mesh, stn_dtype dtype, int64_t n)
{
    const stn_placement cut = stn_shard(0);
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, mesh, &cut, dtype, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *made = stn_zeros(context, spec);
    stn_spec_release(&spec);
    return made;
}

static stn_status numbers_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (size_t d = 0; d < sizeof ends / sizeof *ends; d++)
        for (int c = 0; c < (int)(sizeof calls / sizeof *calls); c++) {
            stn_scope_begin(context);
            const struct operands in = {context, line(context, mesh, ends[d].dtype, 5),
                                        line(context, mesh, STN_DTYPE_BOOL, 5), line(context, mesh, STN_DTYPE_I64, 2)};
            const double beyond[] = {ends[d].dtype == STN_DTYPE_I64 ? 0x1p63 : ends[d].most + 1,
                                     ends[d].dtype == STN_DTYPE_I64 ? -0x1.8p63 : ends[d].least - 1, 1e30, -INFINITY};
            for (size_t v = 0; v < sizeof beyond / sizeof *beyond; v++)
                check_refused(&in, c, ends[d].dtype, beyond[v]);
            CHECK(!stn_tensor_is_error(calls[c].call(&in, ends[d].most)));
            CHECK(!stn_tensor_is_error(calls[c].call(&in, ends[d].least)));
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void numbers_that_elements_have_not_are_refused(void)
{
    test_ranks(1, numbers_body, NULL);
    test_ranks(3, numbers_body, NULL);
}

static stn_status drawn_body(stn_context *context, void *arg)
{
    const struct {
        stn_dtype dtype;
        int64_t low, high;
        int fits;
    } draws[] = {
        {STN_DTYPE_U8, 0, 256, 1},    {STN_DTYPE_U8, 0, 257, 0},    {STN_DTYPE_U8, -1, 5, 0},
        {STN_DTYPE_I8, -128, 128, 1}, {STN_DTYPE_I8, -129, 0, 0},   {STN_DTYPE_I32, 0, INT64_C(1) << 31, 1},
        {STN_DTYPE_BOOL, 0, 2, 1},    {STN_DTYPE_BOOL, 0, 3, 0},    {STN_DTYPE_I32, 0, (INT64_C(1) << 31) + 1, 0},
        {STN_DTYPE_F16, 0, 70000, 0}, {STN_DTYPE_F16, 0, 65505, 1}, {STN_DTYPE_F32, 0, INT64_C(1) << 40, 1}};
    char text[200];
    (void)arg;
    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++) {
        stn_scope_begin(context);
        const stn_tensor *x = line(context, test_mesh(context, 2, 0), draws[i].dtype, 5);
        stn_tensor *made = stn_randint(context, stn_tensor_spec(x), draws[i].low, draws[i].high);
        CHECK_I64(!stn_tensor_is_error(made), draws[i].fits);
        snprintf(text, sizeof text, "randint: got %lld to %lld, wanted numbers that %s has", (long long)draws[i].low,
                 (long long)draws[i].high, stn_dtype_name(draws[i].dtype));
        if (!draws[i].fits)
            CHECK_ERROR(context, STN_ERR_DTYPE, text);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void random_numbers_that_elements_have_not_are_refused(void)
{
    test_ranks(2, drawn_body, NULL);
}

static stn_status steps_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    char text[200];
    (void)arg;
    for (size_t d = 0; d < sizeof ends / sizeof *ends; d++) {
        const double least = ends[d].least, most = ends[d].most;
        const struct {
            double start, step;
            int fits;
        } steps[] = {{least, 0, 1},        {most, 0, 1},       {most, (least - most) / 4, 1}, {most * 2 + 2, -1, 0},
                     {0, most / 2 + 1, 0}, {least * 2, -1, 0}, {0, least, 0},                 {0, NAN, 0}};
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            stn_scope_begin(context);
            const stn_spec *spec = stn_tensor_spec(line(context, mesh, ends[d].dtype, 5));
            const stn_spec *none = stn_tensor_spec(line(context, mesh, ends[d].dtype, 0));
            stn_tensor *made = stn_arange(context, spec, steps[i].start, steps[i].step);
            CHECK_I64(!stn_tensor_is_error(made), steps[i].fits);
            snprintf(text, sizeof text, "arange: got %g to %g, wanted numbers that %s has", steps[i].start,
                     steps[i].start + 4 * steps[i].step, stn_dtype_name(ends[d].dtype));
            if (!steps[i].fits)
                CHECK_ERROR(context, STN_ERR_DTYPE, text);
            CHECK(!stn_tensor_is_error(stn_arange(context, none, steps[i].start, steps[i].step)));
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    }
    return STN_OK;
}

static void steps_that_leave_the_dtype_are_refused(void)
{
    test_ranks(3, steps_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"numbers_that_elements_have_not_are_refused", numbers_that_elements_have_not_are_refused},
        {"random_numbers_that_elements_have_not_are_refused", random_numbers_that_elements_have_not_are_refused},
        {"steps_that_leave_the_dtype_are_refused", steps_that_leave_the_dtype_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
