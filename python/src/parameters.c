/* Reads an op's signature, as stn_op_signature writes it: names in positional order, what has a default, what is a
 * list. */
#include "binding.h"

#include <string.h>

/** The end of one parameter: the comma or bracket behind it that stands in no brackets and no quotes of its own. */
static const char *end_of(const char *text)
{
    int depth = 0, quoted = 0;
    for (; *text; text++) {
        if (*text == '\'')
            quoted = !quoted;
        else if (!quoted && *text == '(')
            depth++;
        else if (!quoted && *text == ')' && depth-- == 0)
            return text;
        else if (!quoted && *text == ',' && depth == 0)
            return text;
    }
    return text;
}

static int input_of(const stn_op_desc *desc, const char *name)
{
    for (int i = 0; i < desc->n_inputs; i++) {
        if (strcmp(desc->inputs[i].name, name) == 0)
            return i;
    }
    return -1;
}

static int is_attribute(const stn_op_desc *desc, const char *name)
{
    for (int i = 0; i < desc->n_attrs; i++) {
        if (strcmp(desc->attrs[i].name, name) == 0)
            return 1;
    }
    return 0;
}

/** "weight=None", "tensor[]", "*operand", "dim". */
static int read_one(const stn_op_desc *desc, const char *from, const char *to, stnp_parameter *p)
{
    char name[64];
    const char *is = memchr(from, '=', (size_t)(to - from)), *end = is ? is : to;
    *p = (stnp_parameter){.list = *from == '*' ? STNP_REST : STNP_ONE, .required = !is};
    from += *from == '*';
    if (end - from > 2 && end[-1] == ']') {
        p->list = STNP_LIST;
        end -= 2;
    }
    size_t n = (size_t)(end - from);
    if (n >= sizeof name) {
        PyErr_Format(PyExc_SystemError, "%s: a name in its signature is too long", desc->name);
        return -1;
    }
    memcpy(name, from, n);
    name[n] = 0;
    p->input = input_of(desc, name);
    p->attribute = is_attribute(desc, name);
    p->name = PyUnicode_InternFromString(name);
    return p->name ? 0 : -1;
}

int stnp_parameters_read(stnp_op *op)
{
    const stn_op_desc *desc = stn_op_descriptor(op->handle);
    const char *text = stn_op_signature(op->handle), *at = strchr(text, '(') + 1;
    int by_name = 0;
    op->parameters = PyMem_Calloc((size_t)(desc->n_inputs + desc->n_attrs), sizeof *op->parameters);
    if (!op->parameters && desc->n_inputs + desc->n_attrs > 0) {
        PyErr_NoMemory();
        return -1;
    }
    while (*at != ')') {
        const char *end = end_of(at);
        if (end - at == 1 && *at == '*') {
            by_name = 1;
        } else {
            stnp_parameter *p = &op->parameters[op->n_parameters];
            if (read_one(desc, at, end, p) < 0)
                return -1;
            p->keyword_only = by_name;
            op->n_parameters++;
            op->n_positional += !by_name && p->list != STNP_REST;
        }
        at = *end == ',' ? end + 1 + strspn(end + 1, " ") : end;
    }
    size_t n = strlen(text);
    op->returns_list = n > 2 && strcmp(text + n - 2, "[]") == 0;
    return 0;
}
