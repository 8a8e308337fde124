/* stn-ops: every op that can be called by name, one a line as its signature, or with --json all that a binding
 * generator wants: inputs, attributes with types and choices, outputs, flags. */
#include <shardtensor/shardtensor.h>

#include <stdio.h>
#include <string.h>

static const char usage[] = "usage: stn-ops [--json]\n"
                            "Lists the ops that stn_call knows: their signatures, or as a JSON array.\n";

static const char *const type_names[] = {
    [STN_ATTR_BOOL] = "bool",     [STN_ATTR_INT] = "int",   [STN_ATTR_FLOAT] = "float",   [STN_ATTR_NUMBER] = "number",
    [STN_ATTR_CHOICE] = "choice", [STN_ATTR_INTS] = "ints", [STN_ATTR_FLOATS] = "floats", [STN_ATTR_STRING] = "string",
};

static void put_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20)
            printf("\\u%04x", c);
        else
            printf("%s%c", c == '"' || c == '\\' ? "\\" : "", c);
    }
    putchar('"');
}

static void put_inputs(const stn_op_desc *desc)
{
    printf(",\n  \"inputs\": [");
    for (int i = 0; i < desc->n_inputs; i++) {
        printf("%s{\"name\": ", i ? ", " : "");
        put_string(desc->inputs[i].name);
        printf(", \"optional\": %s, \"variadic\": %s}", desc->inputs[i].optional ? "true" : "false",
               desc->inputs[i].variadic ? "true" : "false");
    }
    printf("]");
}

/* A name that stands in several rows takes any of their types. */
static void put_attributes(const stn_op_desc *desc)
{
    printf(",\n  \"attributes\": [");
    for (int i = 0; i < desc->n_attrs; i++) {
        const stn_attr_schema *attr = &desc->attrs[i];
        printf("%s{\"name\": ", i ? ", " : "");
        put_string(attr->name);
        printf(", \"type\": \"%s\"", type_names[attr->type]);
        for (int c = 0; attr->type == STN_ATTR_CHOICE && attr->choices[c]; c++) {
            printf("%s", c ? ", " : ", \"choices\": [");
            put_string(attr->choices[c]);
        }
        printf("%s}", attr->type == STN_ATTR_CHOICE ? "]" : "");
    }
    printf("]");
}

static void put_op(const stn_op *op)
{
    const stn_op_desc *desc = stn_op_descriptor(op);
    printf(" {\"name\": ");
    put_string(desc->name);
    printf(",\n  \"signature\": ");
    put_string(stn_op_signature(op));
    put_inputs(desc);
    put_attributes(desc);
    printf(",\n  \"outputs\": %d, \"in_place\": %s, \"view\": %s, \"per_rank\": %s}", desc->n_outputs - desc->n_private,
           desc->flags & STN_OP_IN_PLACE ? "true" : "false", desc->flags & STN_OP_VIEW ? "true" : "false",
           desc->flags & STN_OP_PER_RANK ? "true" : "false");
}

static void list(stn_context *context, int as_json)
{
    const stn_op *op;
    printf("%s", as_json ? "[\n" : "");
    for (int i = 0; (op = stn_op_at(context, i)) != NULL; i++) {
        if (!as_json) {
            puts(stn_op_signature(op));
            continue;
        }
        printf("%s", i ? ",\n" : "");
        put_op(op);
    }
    printf("%s", as_json ? "\n]\n" : "");
}

int main(int argc, char **argv)
{
    char why[256] = "";
    const stn_context_options options = {.size = sizeof options, .error_text = why, .error_text_size = sizeof why};
    const int as_json = argc == 2 && strcmp(argv[1], "--json") == 0;
    stn_context *context;
    if (argc > 2 || (argc == 2 && !as_json)) {
        fputs(usage, stderr);
        return 2;
    }
    if (stn_context_create(&options, &context) != STN_OK) {
        fprintf(stderr, "stn-ops: %s\n", why);
        return 1;
    }
    list(context, as_json);
    stn_context_destroy(&context);
    return fflush(stdout) != 0 || ferror(stdout);
}
