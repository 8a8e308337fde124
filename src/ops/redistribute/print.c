/* What a tensor holds, as text for people. Of a large one the first and last elements of each dim come together. */
#include "core/base/dtype.h"
#include "core/base/host_alloc.h"
#include "core/tensor/scope.h"
#include "ops/redistribute/action.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { WHOLE = 1000, EDGE = 3, DESCRIPTION = 1024, NUMBER = 24, ELEMENT = 64 };

/* Elements of the tensor that are printed, in a dtype that is wide enough, and where some were left out. */
struct shown {
    stn_tensor *tensor;
    stn_dtype of, wide;
    uint32_t cut; /* bit d: EDGE elements from either end of dim d */
    void *data;
    int width; /* of the longest element */
};

/* A text that grows; after a failure nothing more is put there. */
struct text {
    char *data;
    size_t length, room;
    int failed;
};

static void put(struct text *text, const char *format, ...) STN_PRINTF(2, 3);

static void put(struct text *text, const char *format, ...)
{
    enum { MOST = DESCRIPTION };
    va_list args;
    if (text->room - text->length < MOST && !text->failed) {
        const size_t room = 2 * text->room + MOST;
        char *data = stni_realloc(text->data, room);
        text->failed = data == NULL;
        text->data = data ? data : text->data;
        text->room = data ? room : text->room;
    }
    if (text->failed)
        return;
    va_start(args, format);
    const int n = vsnprintf(text->data + text->length, MOST, format, args);
    va_end(args);
    text->length += n < MOST ? (size_t)n : MOST - 1;
}

static stn_dtype widest_of(stn_dtype dtype)
{
    if (stni_dtype_is_complex(dtype))
        return STN_DTYPE_C128;
    return stni_dtype_is_floating(dtype) ? STN_DTYPE_F64 : STN_DTYPE_I64;
}

/* Of what is not a number the sign says nothing. */
static const char *number_text(double number, char text[NUMBER])
{
    snprintf(text, NUMBER, "%.6g", isnan(number) ? (double)NAN : number);
    return text;
}

static int write_element(const struct shown *s, int64_t i, char text[ELEMENT])
{
    const double *number = s->data;
    char real[NUMBER], imaginary[NUMBER];
    if (s->of == STN_DTYPE_BOOL)
        return snprintf(text, ELEMENT, "%s", ((const int64_t *)s->data)[i] ? "true" : "false");
    if (s->wide == STN_DTYPE_I64)
        return snprintf(text, ELEMENT, "%" PRId64, ((const int64_t *)s->data)[i]);
    if (s->wide == STN_DTYPE_F64)
        return snprintf(text, ELEMENT, "%s", number_text(number[i], real));
    number_text(number[2 * i], real);
    number_text(number[2 * i + 1], imaginary);
    return snprintf(text, ELEMENT, "%s%s%si", real, imaginary[0] == '-' ? "" : "+", imaginary);
}

static void put_element(const struct shown *s, struct text *text, int64_t i)
{
    char element[ELEMENT];
    write_element(s, i, element);
    put(text, "%*s", s->width, element);
}

/* What stands between two elements of dim d, before `what`: rows of the last dim are lines. */
static void put_break(struct text *text, int d, int ndim, const char *what)
{
    if (d == ndim - 1)
        put(text, ", %s", what);
    else
        put(text, ",\n%*s%s", d + 1, "", what);
}

/* A bracket around each dim. Element `first` is the first of what is put. */
static void put_dim(const struct shown *s, struct text *text, int d, int64_t first)
{
    const int ndim = stn_tensor_ndim(s->tensor);
    const int64_t *shape = stn_tensor_shape(s->tensor);
    int64_t stride = 1;
    for (int e = d + 1; e < ndim; e++)
        stride *= shape[e];
    if (d == ndim) {
        put_element(s, text, first);
        return;
    }
    put(text, "[");
    for (int64_t i = 0; i < shape[d]; i++) {
        if (i == EDGE && (s->cut >> d & 1))
            put_break(text, d, ndim, "...");
        if (i > 0)
            put_break(text, d, ndim, "");
        put_dim(s, text, d + 1, first + i * stride);
    }
    put(text, "]");
}

static void find_width(struct shown *s)
{
    char element[ELEMENT];
    const int64_t n = stn_spec_numel(stn_tensor_spec(s->tensor));
    for (int64_t i = 0; i < n; i++) {
        const int width = write_element(s, i, element);
        s->width = width > s->width ? width : s->width;
    }
}

/* The elements on every rank of the mesh; what is left out is not sent. */
static void collect(stn_tensor *tensor, struct shown *s)
{
    stn_tensor *x = tensor;
    const int is_large = stn_spec_numel(stn_tensor_spec(tensor)) > WHOLE;
    for (int d = 0; d < stn_tensor_ndim(tensor) && is_large; d++) {
        const int64_t n = stn_tensor_shape(tensor)[d];
        if (n <= 2 * EDGE)
            continue;
        stn_tensor *ends[] = {stn_narrow(x, d, 0, EDGE), stn_narrow(x, d, n - EDGE, EDGE)};
        x = stn_cat(2, ends, d);
        s->cut |= 1u << d;
    }
    s->of = stn_tensor_dtype(tensor);
    s->wide = widest_of(s->of);
    s->tensor = stn_full_tensor(stn_cast(x, s->wide));
}

static int prints(const stn_mesh *mesh)
{
    return !mesh || mesh->context->rank == stni_mesh_rank(mesh, 0);
}

/* One write, so that what other ranks print does not come between. */
static stn_status write_out(const stn_tensor *tensor, struct shown *s, FILE *stream)
{
    const size_t bytes = (size_t)stn_spec_numel(stn_tensor_spec(s->tensor)) * stn_dtype_size(s->wide);
    char description[DESCRIPTION];
    struct text text = {0};
    s->data = stni_malloc(bytes + 1);
    stn_status status = s->data ? stn_to_host(s->tensor, s->data, bytes) : STN_ERR_MEMORY;
    if (status == STN_OK) {
        stn_tensor_describe(tensor, description, sizeof description);
        find_width(s);
        put(&text, "%s\n", description);
        put_dim(s, &text, 0, 0);
        put(&text, "\n");
        if (!text.failed)
            fputs(text.data, stream);
    }
    stni_free(text.data);
    stni_free(s->data);
    if (text.failed || status == STN_ERR_MEMORY)
        return stni_fail_memory(tensor->context, "a tensor's text", bytes);
    return status;
}

static stn_status print(stn_tensor *tensor, FILE *stream)
{
    stn_context *context = tensor->context;
    struct shown s = {0};
    stni_scope_enter(context);
    context->no_grad++;
    collect(tensor, &s);
    stn_status status = context->error.status;
    if (status == STN_OK && stream && prints(stn_spec_mesh(tensor->spec)))
        status = write_out(tensor, &s, stream);
    context->no_grad--;
    stni_scope_leave(context);
    return status;
}

stn_status stn_tensor_print(stn_tensor *tensor, FILE *stream)
{
    STNI_TRY(stni_action_begin_on(tensor, "print: tensor"));
    return stni_action_end(tensor->context, print(tensor, stream));
}
