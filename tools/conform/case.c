/* From a file of tensors to a case: names to tensors, bytes to memory, and shapes that fit each other. */
#include "case.h"

#include <cjson/cJSON.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t value_bytes(const struct value *value)
{
    return (size_t)value->numel * stn_dtype_size(value->dtype);
}

/* The tensor PREFIX.NAME, NULL where all is well; absent is well too. */
static const char *read_value(const stn_file *file, const char *prefix, const char *name, struct value *value)
{
    char full[2 * CASE_MAX_TEXT];
    snprintf(full, sizeof full, "%s.%s", prefix, name);
    const stn_file_tensor *t = stn_file_find(file, full);
    if (t == NULL)
        return NULL;
    if (t->dtype == STN_DTYPE_COUNT)
        return "a tensor has a dtype that the library has not";
    if (t->bytes > CASE_MAX_BYTES)
        return "a tensor is larger than a case's";
    value->data = malloc((size_t)t->bytes + 1);
    if (value->data == NULL)
        return "out of memory";
    value->dtype = t->dtype;
    value->ndim = t->ndim;
    value->numel = t->numel;
    memcpy(value->shape, t->shape, sizeof value->shape);
    return stn_file_read(file, t, 0, t->bytes, value->data) == STN_OK ? NULL : "a tensor cannot be read";
}

static int same_shape(const struct value *a, const struct value *b)
{
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, sizeof a->shape[0] * (size_t)a->ndim) == 0;
}

/* The array of names in a metadata entry; NULL unless it is one, of at most `most` names that fit. */
static cJSON *parse_names(const stn_file *file, const char *key, int most)
{
    const char *text = stn_file_metadata(file, key);
    if (text == NULL || strlen(text) > ATTRS_MAX_TEXT || strpbrk(text, "{") != NULL || strrchr(text, '[') != text)
        return NULL;
    cJSON *names = cJSON_ParseWithOpts(text, NULL, 1);
    int good = cJSON_IsArray(names) && cJSON_GetArraySize(names) <= most;
    for (const cJSON *name = good ? names->child : NULL; name != NULL; name = name->next)
        good = good && cJSON_IsString(name) && strlen(name->valuestring) < CASE_MAX_TEXT;
    if (good)
        return names;
    cJSON_Delete(names);
    return NULL;
}

static const char *read_inputs(const stn_file *file, const cJSON *names, struct conform_case *c)
{
    for (const cJSON *name = names->child; name != NULL; name = name->next, c->n_inputs++) {
        strcpy(c->input_name[c->n_inputs], name->valuestring);
        const char *problem = read_value(file, "in", name->valuestring, &c->input[c->n_inputs]);
        if (problem != NULL)
            return problem;
        if (c->input[c->n_inputs].data == NULL)
            return "an input has no tensor";
    }
    return NULL;
}

static const char *read_grads(const stn_file *file, const cJSON *names, struct conform_case *c)
{
    for (const cJSON *name = names->child; name != NULL; name = name->next) {
        int i = 0;
        while (i < c->n_inputs && strcmp(c->input_name[i], name->valuestring) != 0)
            i++;
        if (i == c->n_inputs)
            return "a gradient is of no input";
        if (c->grad[i].data != NULL)
            return "a gradient stands twice";
        const char *problem = read_value(file, "grad", name->valuestring, &c->grad[i]);
        if (problem != NULL)
            return problem;
        if (c->grad[i].data == NULL || !same_shape(&c->grad[i], &c->input[i]) || c->grad[i].dtype != c->input[i].dtype)
            return "a gradient does not have its input's shape and dtype";
    }
    return NULL;
}

static const char *read_outputs(const stn_file *file, struct conform_case *c)
{
    for (int k = 0; k < STN_MAX_OUTPUTS; k++) {
        char number[16];
        snprintf(number, sizeof number, "%d", k);
        const char *problem = read_value(file, "out", number, &c->output[k]);
        if (problem != NULL)
            return problem;
        if (c->output[k].data == NULL)
            break;
        c->n_outputs = k + 1;
        problem = read_value(file, "grad_out", number, &c->cotangent[k]);
        if (problem != NULL)
            return problem;
        if (c->cotangent[k].data != NULL && (!same_shape(&c->cotangent[k], &c->output[k]) ||
                                             c->cotangent[k].dtype != c->output[k].dtype))
            return "a cotangent does not have its output's shape and dtype";
    }
    return c->n_outputs > 0 ? NULL : "no outputs";
}

static void set_name(struct conform_case *c, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    size_t length = strcspn(base, ".");
    if (length >= sizeof c->name)
        length = sizeof c->name - 1;
    memcpy(c->name, base, length);
    c->name[length] = '\0';
    snprintf(c->path, sizeof c->path, "%s", path);
}

static int from_file(const char *path, const stn_file *file, struct conform_case *c, char *error, size_t error_size)
{
    memset(c, 0, sizeof *c);
    set_name(c, path);
    const char *op = stn_file_metadata(file, "op"), *attrs = stn_file_metadata(file, "attrs");
    cJSON *inputs = parse_names(file, "inputs", STN_MAX_INPUTS), *grads = parse_names(file, "grads", STN_MAX_INPUTS);
    const char *problem = NULL;
    int attrs_bad = 0;
    if (op == NULL || strlen(op) >= sizeof c->op || attrs == NULL || inputs == NULL || grads == NULL)
        problem = "the metadata has no op, attrs, and JSON lists of inputs and grads";
    else
        snprintf(c->op, sizeof c->op, "%s", op);
    if (problem == NULL)
        attrs_bad = !attrs_parse(attrs, &c->attrs, error, error_size);
    if (problem == NULL)
        problem = read_inputs(file, inputs, c);
    if (problem == NULL)
        problem = read_grads(file, grads, c);
    if (problem == NULL)
        problem = read_outputs(file, c);
    cJSON_Delete(inputs);
    cJSON_Delete(grads);
    if (problem == NULL && !attrs_bad)
        return 1;
    if (!attrs_bad)
        snprintf(error, error_size, "%s", problem);
    case_free(c);
    return 0;
}

int case_read(const char *path, struct conform_case *c, char *error, size_t error_size)
{
    stn_file *file;
    if (stn_file_open(path, &file, error, error_size) != STN_OK)
        return 0;
    int good = from_file(path, file, c, error, error_size);
    stn_file_close(&file);
    return good;
}

void case_free(struct conform_case *c)
{
    for (int i = 0; i < STN_MAX_INPUTS; i++) {
        free(c->input[i].data);
        free(c->grad[i].data);
    }
    for (int k = 0; k < STN_MAX_OUTPUTS; k++) {
        free(c->output[k].data);
        free(c->cotangent[k].data);
    }
    attrs_free(&c->attrs);
    memset(c, 0, sizeof *c);
}

int case_input_place(const struct conform_case *c, int i, const stn_op_desc *desc)
{
    const char *name = c->input_name[i];
    for (int place = 0; place < desc->n_inputs; place++) {
        const stn_input_schema *input = &desc->inputs[place];
        size_t length = strlen(input->name);
        if (!input->variadic) {
            if (strcmp(name, input->name) == 0)
                return place;
            continue;
        }
        const char *digits = name + length;
        if (strncmp(name, input->name, length) == 0 && isdigit((unsigned char)*digits) && strlen(digits) <= 2 &&
            strspn(digits, "0123456789") == strlen(digits) && place + atoi(digits) < STN_MAX_INPUTS)
            return place + atoi(digits);
    }
    return -1;
}
