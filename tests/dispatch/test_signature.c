/* Signatures: of every op, each name once, defaults that are those of the call without them; and what a descriptor
 * may not say. */
#include "ranks.h"

#include "dispatch/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMETERS = 32 };

struct parameter {
    char name[64], value[64]; /* value "": required */
};

struct signature {
    int n;
    struct parameter parameter[MAX_PARAMETERS];
    char result[64];
};

static void take_parameter(const char *text, size_t n, struct signature *out)
{
    struct parameter *p = &out->parameter[out->n];
    const char *equals = memchr(text, '=', n), *name = text + (text[0] == '*');
    size_t name_length = equals ? (size_t)(equals - name) : (size_t)(text + n - name);
    if (n == 1 && text[0] == '*')
        return;
    if (name_length > 2 && strncmp(name + name_length - 2, "[]", 2) == 0)
        name_length -= 2;
    snprintf(p->name, sizeof p->name, "%.*s", (int)name_length, name);
    snprintf(p->value, sizeof p->value, "%.*s", equals ? (int)(text + n - equals - 1) : 0, equals ? equals + 1 : "");
    CHECK(++out->n < MAX_PARAMETERS);
}

/* "name(parameter, …) -> result"; commas in brackets belong to a value. */
static int parse(const char *text, const char *op, struct signature *out)
{
    const size_t length = strlen(op);
    out->n = 0;
    if (!CHECK(strncmp(text, op, length) == 0 && text[length] == '('))
        return 0;
    const char *at = text + length + 1;
    for (int done = *at == ')'; !done; at++) {
        const char *begin = at;
        for (int depth = 0; *at && (depth > 0 || (*at != ',' && *at != ')')); at++)
            depth += (*at == '(') - (*at == ')');
        take_parameter(begin, (size_t)(at - begin), out);
        done = *at != ',';
        at += *at == ','; /* and the blank behind it */
    }
    at -= at[-1] != ')';
    snprintf(out->result, sizeof out->result, "%s", at);
    return CHECK(strncmp(out->result, " -> ", 4) == 0);
}

static int count(const struct signature *s, const char *name)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += strcmp(s->parameter[i].name, name) == 0;
    return n;
}

static int is_known(const stn_op_desc *desc, const char *name)
{
    for (int i = 0; i < desc->n_inputs; i++)
        if (strcmp(desc->inputs[i].name, name) == 0)
            return 1;
    for (int i = 0; i < desc->n_attrs; i++)
        if (strcmp(desc->attrs[i].name, name) == 0)
            return 1;
    return 0;
}

static void check_names(const stn_op_desc *desc, const struct signature *s)
{
    for (int i = 0; i < s->n; i++)
        if (!is_known(desc, s->parameter[i].name))
            CHECK_STR(s->parameter[i].name, desc->name);
    for (int i = 0; i < desc->n_inputs; i++)
        if (count(s, desc->inputs[i].name) != 1)
            CHECK_STR(desc->inputs[i].name, desc->name);
    for (int i = 0; i < desc->n_attrs; i++)
        if (count(s, desc->attrs[i].name) != 1)
            CHECK_STR(desc->attrs[i].name, desc->name);
    CHECK_I64(s->n >= desc->n_inputs, 1);
}

/* A default as an attribute of a call by name; 0 for None, which is left out. */
static int read_value(const char *text, stn_attr *out, char *string)
{
    char *end;
    if (strcmp(text, "None") == 0)
        return 0;
    if (text[0] == '\'') {
        *out = (stn_attr){out->name, STN_ATTR_STRING, {.s = string}};
        snprintf(string, 64, "%.*s", (int)strlen(text) - 2, text + 1);
    } else if (text[0] == '(') {
        *out = (stn_attr){out->name, STN_ATTR_INTS, {.ints = {0}}};
        for (const char *at = text + 1; *at && *at != ')'; at = end + strspn(end, ", "))
            out->value.ints.v[out->value.ints.n++] = strtoll(at, &end, 10);
    } else if (text[0] == 'T' || text[0] == 'F') {
        *out = (stn_attr){out->name, STN_ATTR_BOOL, {.i = text[0] == 'T'}};
    } else if (strpbrk(text, ".e")) {
        *out = (stn_attr){out->name, STN_ATTR_FLOAT, {.f = strtod(text, NULL)}};
    } else {
        *out = (stn_attr){out->name, STN_ATTR_INT, {.i = strtoll(text, &end, 10)}};
        CHECK(*end == '\0');
    }
    return 1;
}

/* The defaults of a signature, as attributes: those that its descriptor writes itself too, or without them. */
static int spell_out(const stn_op_desc *desc, const struct signature *s, int own, stn_attr *attrs, char strings[][64])
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        char written[160];
        snprintf(written, sizeof written, "%s=%s", s->parameter[i].name, s->parameter[i].value);
        attrs[n].name = s->parameter[i].name;
        if (s->parameter[i].value[0] && (own || !desc->signature || !strstr(desc->signature, written)))
            n += read_value(s->parameter[i].value, &attrs[n], strings[n]);
    }
    return n;
}

static void check_defaults(const stn_op_desc *desc, const struct signature *s)
{
    char strings[MAX_PARAMETERS][64];
    stn_attr attrs[MAX_PARAMETERS];
    uint64_t without[STNI_MAX_ATTRS_SIZE / 8] = {0}, with[STNI_MAX_ATTRS_SIZE / 8] = {0};
    struct stni_error error = {0};
    const int n = spell_out(desc, s, 0, attrs, strings);
    CHECK_STATUS(stni_schema_fill(desc, 0, NULL, without, &error), STN_OK);
    if (!CHECK_STATUS(stni_schema_fill(desc, n, attrs, with, &error), STN_OK))
        CHECK_STR(error.text, "");
    if (desc->attrs_size > 0 && !CHECK_BYTES(with, without, desc->attrs_size))
        CHECK_STR(desc->name, "equal defaults");
}

static stn_status every_op(stn_context *context, void *arg)
{
    (void)arg;
    int i = 0;
    for (; stn_op_at(context, i); i++) {
        const stn_op *op = stn_op_at(context, i);
        struct signature s;
        if (!parse(stn_op_signature(op), stn_op_descriptor(op)->name, &s))
            continue;
        check_names(stn_op_descriptor(op), &s);
        check_defaults(stn_op_descriptor(op), &s);
        CHECK(stn_op_signature(op) == stn_op_signature(op));
    }
    CHECK(i > 250);
    return STN_OK;
}

static void every_name_stands_once_with_the_default_that_it_has(void)
{
    test_ranks(1, every_op, NULL);
}

static const struct {
    const char *op, *text;
} known[] = {
    {"group_norm", "group_norm(input, num_groups, weight=None, bias=None, eps=1e-05) -> Tensor"},
    {"add", "add(input, other, *, alpha=1) -> Tensor"},
    {"split", "split(input, split_size=None, dim=0, *, split_sizes=None) -> Tensor[]"},
    {"sort", "sort(input, dim=-1, descending=False, *, stable=False) -> (Tensor, Tensor)"},
    {"max", "max(input, dim=None, keepdim=False) -> Tensor | (Tensor, Tensor)"},
    {"cat", "cat(tensor[], dim=0) -> Tensor"},
    {"einsum", "einsum(equation, *operand) -> Tensor"},
    {"index_put", "index_put(input, indices[], values, accumulate=False) -> Tensor"},
    {"fft2", "fft2(input, s=None, dim=(-2, -1), norm='backward') -> Tensor"},
    {"softplus", "softplus(input, beta=1.0, threshold=20.0) -> Tensor"},
    {"gelu_", "gelu_(input, *, approximate='none') -> Tensor"},
    {"slice", "slice(input, dim=0, start=0, end=None, step=1) -> Tensor"},
    {"clamp", "clamp(input, min=None, max=None) -> Tensor"},
    {"repeat_interleave", "repeat_interleave(input, repeats, dim=None, *, output_size=None) -> Tensor"},
};

static stn_status known_body(stn_context *context, void *arg)
{
    (void)arg;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        CHECK_STR(stn_op_signature(stn_op_find(context, known[k].op)), known[k].text);
    CHECK(stn_op_signature(NULL) == NULL);
    return STN_OK;
}

static void signatures_are_those_that_pytorch_documents(void)
{
    test_ranks(1, known_body, NULL);
}

/* Ops with a default that stands for what attrs_init has. */
static const struct {
    const char *op;
    int n_in, dims; /* of the inputs: 2 channels, 6 along each dim; the second input is a window of 3 */
    stn_attr needed[2];
} calls[] = {
    {"conv1d", 2, 1, {{0}}},
    {"conv2d", 2, 2, {{0}}},
    {"conv3d", 2, 3, {{0}}},
    {"conv_transpose1d", 2, 1, {{0}}},
    {"conv_transpose2d", 2, 2, {{0}}},
    {"conv_transpose3d", 2, 3, {{0}}},
    {"avg_pool1d", 1, 1, {{"kernel_size", STN_ATTR_INT, {.i = 2}}}},
    {"avg_pool2d", 1, 2, {{"kernel_size", STN_ATTR_INT, {.i = 2}}}},
    {"avg_pool3d", 1, 3, {{"kernel_size", STN_ATTR_INT, {.i = 2}}}},
    {"max_pool1d", 1, 1, {{"kernel_size", STN_ATTR_INT, {.i = 2}}}},
    {"max_pool2d", 1, 2, {{"kernel_size", STN_ATTR_INT, {.i = 2}}}},
    {"max_pool3d", 1, 3, {{"kernel_size", STN_ATTR_INT, {.i = 2}}}},
    {"im2col", 1, 2, {{"kernel_size", STN_ATTR_INT, {.i = 2}}}},
    {"std", 1, 2, {{0}}},
    {"var", 1, 2, {{0}}},
    {"fold", 3, 2, {{"kernel_size", STN_ATTR_INT, {.i = 2}}, {"output_size", STN_ATTR_INTS, {.ints = {2, {3, 4}}}}}},
};

static stn_tensor *numbers(stn_context *context, int n_batch, int dims, int64_t size)
{
    int64_t shape[STN_MAX_NDIM] = {n_batch, 2};
    for (int d = 0; d < dims; d++)
        shape[2 + d] = size;
    return test_tensor(context, NULL, NULL, STN_DTYPE_F32, 2 + dims, shape, NULL, test_value);
}

/* (n, channels * window, places) for fold, else (n, channels, …). */
static int make_inputs(stn_context *context, size_t k, stn_tensor **in)
{
    const int64_t columns[] = {2, 8, 6};
    if (calls[k].n_in == 3) {
        in[0] = test_tensor(context, NULL, NULL, STN_DTYPE_F32, 3, columns, NULL, test_value);
        return 1;
    }
    in[0] = numbers(context, 3, calls[k].dims, 6);
    if (calls[k].n_in == 2)
        in[1] = numbers(context, 2, calls[k].dims, 3);
    return calls[k].n_in;
}

static stn_status calls_body(stn_context *context, void *arg)
{
    (void)arg;
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        const stn_op *op = stn_op_find(context, calls[k].op);
        char strings[MAX_PARAMETERS][64];
        static float without[4096], with[4096];
        stn_attr attrs[MAX_PARAMETERS];
        struct signature s;
        stn_tensor *in[2], *plain, *spelled;
        int n_needed = 0;
        stn_scope_begin(context);
        const int n_in = make_inputs(context, k, in);
        while (n_needed < 2 && calls[k].needed[n_needed].name)
            n_needed++;
        CHECK_STATUS(stn_op_invoke(op, n_in, in, n_needed, calls[k].needed, 1, &plain), STN_OK);
        if (!parse(stn_op_signature(op), calls[k].op, &s))
            return STN_ERR_INTERNAL;
        const int n = spell_out(stn_op_descriptor(op), &s, 1, attrs, strings);
        for (int i = 0; i < n_needed; i++)
            attrs[n + i] = calls[k].needed[i];
        CHECK_STATUS(stn_op_invoke(op, n_in, in, n + n_needed, attrs, 1, &spelled), STN_OK);
        CHECK(stn_tensor_spec(plain) == stn_tensor_spec(spelled));
        const size_t bytes = (size_t)stn_spec_numel(stn_tensor_spec(plain)) * sizeof(float);
        CHECK(bytes > 0 && bytes <= sizeof with);
        CHECK_STATUS(stn_to_host(plain, without, bytes), STN_OK);
        CHECK_STATUS(stn_to_host(spelled, with, bytes), STN_OK);
        CHECK_BYTES(with, without, bytes);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void a_call_with_the_defaults_written_out_gives_what_one_without_gives(void)
{
    test_ranks(1, calls_body, NULL);
}

static stn_status no_check(stn_op_call *call)
{
    (void)call;
    return STN_OK;
}

static const struct {
    const char *signature, *error;
} wrong[] = {
    {"x, y", "stn_op_register: probe: its signature names 'y', which is neither an input nor an attribute"},
    {"x, x, size=", "stn_op_register: probe: its signature names 'x' 2 times, wanted once"},
    {"x", "stn_op_register: probe: its signature names 'size' 0 times, wanted once"},
};

static stn_status wrong_body(stn_context *context, void *arg)
{
    static const stn_input_schema inputs[] = {{"x", 0, 0}};
    static const stn_attr_schema attrs[] = {{"size", STN_ATTR_INT, 0, NULL}};
    static const stn_op_impl impl = {.check = no_check, .run = no_check};
    static stn_op_desc desc[sizeof wrong / sizeof *wrong + 1];
    const stn_op *op;
    (void)arg;
    for (size_t k = 0; k <= sizeof wrong / sizeof *wrong; k++) {
        const int right = k == sizeof wrong / sizeof *wrong;
        char text[300] = "";
        desc[k] = (stn_op_desc){.size = sizeof(stn_op_desc),
                                .name = "probe",
                                STN_INPUTS(inputs),
                                STN_ATTRS(attrs, int64_t),
                                .n_outputs = 0,
                                .impl = &impl,
                                .signature = right ? "size=3, x" : wrong[k].signature};
        CHECK_STATUS(stn_op_register(context, &desc[k], &op), right ? STN_OK : STN_ERR_ARGUMENT);
        stn_context_take_error(context, text, sizeof text);
        CHECK_STR(text, right ? "" : wrong[k].error);
    }
    CHECK_STR(stn_op_signature(op), "probe(size=3, x) -> ()");
    return STN_OK;
}

static void a_descriptor_names_each_input_and_attribute_once(void)
{
    test_ranks(1, wrong_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_name_stands_once_with_the_default_that_it_has", every_name_stands_once_with_the_default_that_it_has},
        {"signatures_are_those_that_pytorch_documents", signatures_are_those_that_pytorch_documents},
        {"a_call_with_the_defaults_written_out_gives_what_one_without_gives",
         a_call_with_the_defaults_written_out_gives_what_one_without_gives},
        {"a_descriptor_names_each_input_and_attribute_once", a_descriptor_names_each_input_and_attribute_once},
    };
    return TEST_MAIN(argc, argv, cases);
}
