/* What a span says of itself beside its name and times: keys and values, as JSON has them. */
#include "core/device/trace.h"
#include "core/device/trace_text.h"

#include <shardtensor/tensor.h>

#include <stdio.h>
#include <string.h>

/* As JSON has it, or nothing where it does not fit. */
static int put_string(struct stni_trace_args *args, const char *text)
{
    size_t at = args->size, left = strlen(text);
    char *to = args->text;
    to[at++] = '"';
    for (size_t n; left > 0 && at < STNI_TRACE_ARGS_BYTES - 8; text += n, left -= n) {
        n = stni_trace_character(text, left, to + at);
        at += strlen(to + at);
    }
    if (left > 0)
        return 0;
    to[at++] = '"';
    to[at] = '\0';
    args->size = at;
    return 1;
}

static int put_key(struct stni_trace_args *args, const char *key)
{
    if (args->size + 16 > STNI_TRACE_ARGS_BYTES)
        return 0;
    if (args->size > 0)
        args->text[args->size++] = ',';
    if (!put_string(args, key) || args->size + 16 > STNI_TRACE_ARGS_BYTES)
        return 0;
    args->text[args->size++] = ':';
    return 1;
}

static void restore(struct stni_trace_args *args, size_t size)
{
    args->size = size;
    args->text[size] = '\0';
}

void stni_trace_arg(struct stni_trace_args *args, const char *key, const char *value)
{
    const size_t before = args->size;
    if (!put_key(args, key) || !put_string(args, value))
        restore(args, before);
}

void stni_trace_arg_number(struct stni_trace_args *args, const char *key, int64_t value)
{
    const size_t before = args->size;
    char text[24];
    const size_t n = (size_t)snprintf(text, sizeof text, "%lld", (long long)value);
    if (!put_key(args, key) || args->size + n >= STNI_TRACE_ARGS_BYTES) {
        restore(args, before);
        return;
    }
    memcpy(args->text + args->size, text, n + 1);
    args->size += n;
}

void stni_trace_arg_spec(struct stni_trace_args *args, const char *key, const stn_spec *spec)
{
    char text[256];
    if (!spec)
        return;
    stn_spec_describe(spec, text, sizeof text);
    stni_trace_arg(args, key, text);
}

void stni_trace_arg_tensors(struct stni_trace_args *args, const char *key, int n, stn_tensor *const *tensors)
{
    char name[16];
    for (int i = 0; tensors && i < n && i < 8; i++) {
        snprintf(name, sizeof name, "%s%d", key, i);
        stni_trace_arg_spec(args, name, stn_tensor_spec(tensors[i]));
    }
}
