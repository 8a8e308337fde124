/* Printed calls carry what makes numbers and chunks, as call_number and call_run do, then the inputs and the call. */
#include "call.h"

static const char preamble[] =
    "#include <shardtensor/shardtensor.h>\n"
    "#include <math.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "\n"
    "enum { REAL, WHOLE, INDEX, SPECIAL, RISING };\n"
    "struct given { stn_dtype dtype; int ndim; int64_t shape[8]; int numbers; uint64_t seed; int requires_grad; };\n"
    "\n"
    "static uint64_t mix(uint64_t seed, uint64_t x)\n"
    "{\n"
    "    uint64_t z = seed + UINT64_C(0x9e3779b97f4a7c15) * (x + 1);\n"
    "    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);\n"
    "    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);\n"
    "    return z ^ (z >> 31);\n"
    "}\n"
    "\n"
    "static int is_complex(stn_dtype dtype)\n"
    "{\n"
    "    return dtype == STN_DTYPE_C64 || dtype == STN_DTYPE_C128;\n"
    "}\n"
    "\n"
    "static double number(const struct given *g, int64_t i)\n"
    "{\n"
    "    static const double extreme[] = {NAN, INFINITY, -INFINITY, -0.0, 0, 1e-40, 1e18, 1, -1};\n"
    "    static const double large[] = {-2147483648.0, 2147483647, 100, -1, -9223372036854775808.0, "
    "4611686018427387904.0};\n"
    "    uint64_t bits = mix(g->seed, (uint64_t)i);\n"
    "    int64_t last = g->ndim ? g->shape[g->ndim - 1] * (is_complex(g->dtype) ? 2 : 1) : 1;\n"
    "    if (g->numbers == RISING) return (double)(i % (last > 0 ? last : 1));\n"
    "    if (g->dtype == STN_DTYPE_BOOL) return (double)(bits & 1);\n"
    "    if (g->dtype == STN_DTYPE_U8) return (double)(bits % 7);\n"
    "    if (!stn_dtype_is_differentiable(g->dtype))\n"
    "        return g->numbers == SPECIAL && bits % 5 == 0 ? large[(bits >> 20) % (g->dtype == STN_DTYPE_I64 ? 6 : "
    "4)]\n"
    "                                                      : (double)(int)(bits % 8) - (g->numbers == INDEX ? 0 : 2);\n"
    "    if (g->numbers == SPECIAL && bits % 12 < 9) return extreme[bits % 12];\n"
    "    if (g->numbers == WHOLE || g->numbers == INDEX) return (double)(int)(bits % 5) - 2;\n"
    "    return (double)(bits >> 11) / 9007199254740992.0 * 4 - 2;\n"
    "}\n"
    "\n"
    "/* Of a pending reduction's parts the first along an axis is the number, the others change nothing. Halves are "
    "made from f32 by a cast. */\n"
    "static stn_tensor *tensor(stn_context *c, const stn_mesh *mesh, const struct given *g, const stn_placement "
    "*places, const int *axes,\n"
    "                          const int *memory, const int64_t *const *sizes)\n"
    "{\n"
    "    const stn_spec_options options = {.size = sizeof options, .axis_order = axes, .memory_order = memory, .sizes "
    "= sizes};\n"
    "    const stn_spec *spec = NULL;\n"
    "    if (stn_spec_create(c, mesh, mesh ? places : NULL, g->dtype, g->ndim, g->shape, mesh ? &options : NULL, "
    "&spec) != STN_OK)\n"
    "        return NULL;\n"
    "    const int64_t *shape = stn_spec_local_shape(spec), *offset = stn_spec_local_offset(spec);\n"
    "    int64_t index[8] = {0}, n = stn_spec_local_numel(spec);\n"
    "    char *data = calloc((size_t)n + 1, 16);\n"
    "    for (int64_t i = 0; i < n; i++) {\n"
    "        int64_t at = 0, parts = is_complex(g->dtype) ? 2 : 1;\n"
    "        double v[2] = {0, 0};\n"
    "        for (int d = 0; d < g->ndim; d++)\n"
    "            at = at * g->shape[d] + offset[d] + index[d];\n"
    "        for (int64_t part = 0; part < parts; part++)\n"
    "            v[part] = number(g, at * parts + part);\n"
    "        for (int a = 0; mesh && a < stn_mesh_ndim(mesh); a++)\n"
    "            if (places[a].kind == STN_PLACE_PARTIAL && stn_mesh_coordinate(mesh, a) > 0 &&\n"
    "                (places[a].op == STN_SUM || places[a].op == STN_PROD))\n"
    "                v[0] = places[a].op == STN_PROD, v[1] = 0;\n"
    "        float f = (float)v[0];\n"
    "        _Float16 h = (_Float16)v[0];\n"
    "        uint32_t bits = ((union { float f; uint32_t u; }){f}).u;\n"
    "        switch (g->dtype) {\n"
    "        case STN_DTYPE_F32: ((float *)(void *)data)[i] = f; break;\n"
    "        case STN_DTYPE_F64: ((double *)(void *)data)[i] = v[0]; break;\n"
    "        case STN_DTYPE_BF16: ((uint16_t *)(void *)data)[i] = f != f ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits "
    ">> 16 & 1)) >> 16); break;\n"
    "        case STN_DTYPE_F16: ((_Float16 *)(void *)data)[i] = h; break;\n"
    "        case STN_DTYPE_I64: ((int64_t *)(void *)data)[i] = (int64_t)v[0]; break;\n"
    "        case STN_DTYPE_I32: ((int32_t *)(void *)data)[i] = (int32_t)v[0]; break;\n"
    "        case STN_DTYPE_I16: ((int16_t *)(void *)data)[i] = (int16_t)(int64_t)v[0]; break;\n"
    "        case STN_DTYPE_C64: ((float *)(void *)data)[2 * i] = f, ((float *)(void *)data)[2 * i + 1] = (float)v[1]; "
    "break;\n"
    "        case STN_DTYPE_C128: ((double *)(void *)data)[2 * i] = v[0], ((double *)(void *)data)[2 * i + 1] = v[1]; "
    "break;\n"
    "        default: ((uint8_t *)data)[i] = g->dtype == STN_DTYPE_BOOL ? v[0] != 0 : (uint8_t)(int64_t)v[0];\n"
    "        }\n"
    "        for (int d = g->ndim - 1; d >= 0 && ++index[d] == shape[d]; d--)\n"
    "            index[d] = 0;\n"
    "    }\n"
    "    stn_tensor *t = stn_from_host(c, spec, data);\n"
    "    if (g->requires_grad)\n"
    "        stn_set_requires_grad(t, 1);\n"
    "    free(data);\n"
    "    stn_spec_release(&spec);\n"
    "    return t;\n"
    "}\n"
    "\n"
    "static stn_tensor *refused(stn_context *c)\n"
    "{\n"
    "    stn_tensor *t = NULL;\n"
    "    stn_call(c, \"no_such_op\", 0, NULL, 0, NULL, 1, &t);\n"
    "    stn_context_take_error(c, NULL, 0);\n"
    "    return t;\n"
    "}\n"
    "\n"
    "/* The first 24 numbers of the whole tensor. */\n"
    "static void show(stn_context *c, const char *what, int k, stn_tensor *t)\n"
    "{\n"
    "    double v[24] = {0};\n"
    "    char text[256] = \"\";\n"
    "    if (!t || stn_tensor_is_error(t)) {\n"
    "        printf(\"rank %d of %d: %s %d: %s\\n\", stn_context_rank(c), stn_context_size(c), what, k, t ? \"an error "
    "tensor\" : \"none\");\n"
    "        return;\n"
    "    }\n"
    "    stn_tensor_describe(t, text, sizeof text);\n"
    "    stn_tensor *whole = stn_spec_mesh(stn_tensor_spec(t)) ? stn_full_tensor(t) : t;\n"
    "    int complex = is_complex(stn_tensor_dtype(whole));\n"
    "    whole = stn_cast(complex ? stn_view_as_real(whole) : whole, STN_DTYPE_F64);\n"
    "    int64_t n = stn_tensor_is_error(whole) ? 0 : stn_spec_local_numel(stn_tensor_spec(whole));\n"
    "    if (n > 0 && n <= 24)\n"
    "        stn_to_host(whole, v, (size_t)n * sizeof *v);\n"
    "    printf(\"rank %d of %d: %s %d: %s:\", stn_context_rank(c), stn_context_size(c), what, k, text);\n"
    "    for (int64_t i = 0; i < n && n <= 24; i++)\n"
    "        printf(\" %.9g\", v[i]);\n"
    "    printf(\"\\n\");\n"
    "}\n"
    "\n";

static void print_layout(FILE *out, const struct call_input *input, const struct grid *grid)
{
    int cut = 0;
    fprintf(out, "(stn_placement[]){");
    for (int a = 0; a < (grid->ndim > 0 ? grid->ndim : 1); a++) {
        const stn_placement p = input->layout.placement[a];
        fprintf(out, "%s{%d, %d, %d, 0}", a ? ", " : "", p.kind, p.dim, p.op);
    }
    fprintf(out, "}, (int[]){");
    for (int a = 0; a < (grid->ndim > 0 ? grid->ndim : 1); a++)
        fprintf(out, "%s%d", a ? ", " : "", input->layout.axis_order[a]);
    fprintf(out, "}, (int[]){");
    for (int d = 0; d < (input->ndim > 0 ? input->ndim : 1); d++)
        fprintf(out, "%s%d", d ? ", " : "", input->layout.memory_order[d]);
    for (int d = 0; d < input->ndim; d++)
        cut += input->layout.n_pieces[d] > 0;
    fprintf(out, cut ? "}, (const int64_t *[8]){" : "}, NULL");
    for (int d = 0; d < input->ndim; d++)
        if (input->layout.n_pieces[d] > 0) {
            fprintf(out, "[%d] = (int64_t[]){", d);
            for (int i = 0; i < input->layout.n_pieces[d]; i++)
                fprintf(out, "%s%lld", i ? ", " : "", (long long)input->layout.sizes[d][i]);
            fprintf(out, "}, ");
        }
    fprintf(out, cut ? "})" : ")");
}

static void print_input(FILE *out, const struct call *c, int i)
{
    static const char *const dtypes[] = {"F32", "F64",  "BF16", "F16",  "I64", "I32",
                                         "U8",  "BOOL", "C64",  "C128", "I8",  "I16"};
    static const char *const numbers[] = {"REAL", "WHOLE", "INDEX", "SPECIAL", "RISING"};
    const struct call_input *input = &c->inputs[i];
    int ranks[GRID_MAX_RANKS];
    const struct grid grid = call_grid(input->mesh, c->world.ranks, ranks);
    if (input->given == GIVEN_NULL || (input->given == GIVEN_PREVIOUS && i == 0)) {
        fprintf(out, "    t[%d] = NULL;\n", i);
        return;
    }
    if (input->given == GIVEN_PREVIOUS) {
        fprintf(out, "    t[%d] = t[%d];\n", i, i - 1);
        return;
    }
    if (input->given == GIVEN_ERROR) {
        fprintf(out, "    t[%d] = refused(c);\n", i);
        return;
    }
    fprintf(out, "    t[%d] = tensor(c, mesh[%d], &(struct given){STN_DTYPE_%s, %d, {", i, (int)input->mesh,
            dtypes[input->dtype], input->ndim);
    for (int d = 0; d < (input->ndim > 0 ? input->ndim : 1); d++)
        fprintf(out, "%s%lld", d ? ", " : "", input->ndim > 0 ? (long long)input->shape[d] : 0LL);
    fprintf(out, "}, %s, UINT64_C(%llu), %d},\n        ", numbers[input->numbers], (unsigned long long)input->seed,
            c->differentiated && input->requires_grad && stn_dtype_is_differentiable(input->dtype));
    print_layout(out, input, &grid);
    fprintf(out, ";\n");
}

/* A text as C, whatever bytes it has. */
static void print_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        if (*text >= ' ' && *text <= '~' && *text != '"' && *text != '\\')
            fputc(*text, out);
        else
            fprintf(out, "\\%03o", (unsigned)(unsigned char)*text);
    fputc('"', out);
}

static void print_int(FILE *out, int64_t x)
{
    if (x == INT64_MIN)
        fprintf(out, "INT64_MIN");
    else
        fprintf(out, "%lld", (long long)x);
}

static void print_float(FILE *out, double x)
{
    if (x != x)
        fprintf(out, "NAN");
    else if (x - x != 0)
        fprintf(out, x > 0 ? "INFINITY" : "-INFINITY");
    else
        fprintf(out, "%.17g", x);
}

static void print_list(FILE *out, const stn_attr *a)
{
    const int floats = a->type == STN_ATTR_FLOATS;
    fprintf(out, floats ? ".floats = {" : ".ints = {");
    print_int(out, floats ? a->value.floats.n : a->value.ints.n);
    fprintf(out, ", {");
    for (int i = 0; i < STN_MAX_NDIM; i++) {
        fprintf(out, "%s", i ? ", " : "");
        if (floats)
            print_float(out, a->value.floats.v[i]);
        else
            print_int(out, a->value.ints.v[i]);
    }
    fprintf(out, "}}");
}

static void print_attr(FILE *out, const struct call_attr *a)
{
    static const char *const types[] = {"BOOL", "INT", "FLOAT", "NUMBER", "CHOICE", "INTS", "FLOATS", "STRING"};
    fprintf(out, "\n        {\"%s\", ", a->name);
    if (a->attr.type <= STN_ATTR_STRING)
        fprintf(out, "STN_ATTR_%s, {", types[a->attr.type]);
    else
        fprintf(out, "(stn_attr_type)%d, {", (int)a->attr.type);
    if (a->attr.type == STN_ATTR_INTS || a->attr.type == STN_ATTR_FLOATS) {
        print_list(out, &a->attr);
    } else if (a->attr.type == STN_ATTR_STRING) {
        fprintf(out, ".s = ");
        if (a->has_text)
            print_text(out, a->text);
        else
            fprintf(out, "NULL");
    } else if (a->attr.type == STN_ATTR_FLOAT) {
        fprintf(out, ".f = ");
        print_float(out, a->attr.value.f);
    } else if (a->attr.type == STN_ATTR_NUMBER) {
        fprintf(out, ".number = {");
        print_int(out, a->attr.value.number.kind);
        fprintf(out, ", ");
        print_int(out, a->attr.value.number.i);
        fprintf(out, ", ");
        print_float(out, a->attr.value.number.f);
        fprintf(out, "}");
    } else {
        fprintf(out, ".i = ");
        print_int(out, a->attr.value.i);
    }
    fprintf(out, "}},");
}

static void print_meshes(FILE *out, const struct call *c)
{
    fprintf(out, "    const stn_mesh *mesh[%d] = {NULL};\n    if (arg) {\n", MESHES);
    for (int m = MESH_LINE; m < MESHES; m++) {
        int ranks[GRID_MAX_RANKS];
        const struct grid grid = call_grid((enum call_mesh)m, c->world.ranks, ranks);
        fprintf(out, "        stn_mesh_create(c, %d, (int[]){%d, %d}, NULL, (int[]){", grid.ndim, grid.sizes[0],
                grid.sizes[1]);
        for (int r = 0; r < grid.ranks; r++)
            fprintf(out, "%s%d", r ? ", " : "", ranks[r]);
        fprintf(out, "}, &mesh[%d]);\n", m);
    }
    fprintf(out, "    }\n");
}

static void print_struct(FILE *out, const struct call *c)
{
    unsigned char attrs[1024] = {0};
    fprintf(out, "    static _Alignas(16) const unsigned char attrs[] = {");
    if (c->op->attrs_size <= sizeof attrs)
        call_fill_struct(c, (char *)attrs);
    for (size_t i = 0; i < c->op->attrs_size && i < sizeof attrs; i++)
        fprintf(out, "%s%u,", i % 32 ? " " : "\n        ", (unsigned)attrs[i]);
    fprintf(out, "%s};\n    stn_status status = stn_op_apply(stn_op_find(c, \"%s\"), %d, t, attrs, %d, o);\n",
            c->op->attrs_size ? "\n    " : "0", c->op->name, c->n_inputs, c->n_outputs);
}

/* By handle differs from by name only in who looks the op up. */
static void print_call(FILE *out, const struct call *c)
{
    if (c->way == WAY_STRUCT) {
        print_struct(out, c);
    } else {
        fprintf(out, "    const stn_attr attrs[] = {");
        for (int i = 0; i < c->n_attrs; i++)
            print_attr(out, &c->attrs[i]);
        fprintf(out, "%s};\n", c->n_attrs ? "\n    " : "{NULL, STN_ATTR_INT, {0}}");
        fprintf(out, "    stn_status status = stn_call(c, \"%s\", %d, t, %d, attrs, %d, o);\n", c->op->name,
                c->n_inputs, c->n_attrs, c->n_outputs);
    }
    fprintf(out, "    printf(\"rank %%d of %%d: %%s: %%s\\n\", stn_context_rank(c), stn_context_size(c), "
                 "stn_status_text(status), "
                 "stn_context_error_text(c));\n");
}

/* A tensor becomes one more that is differentiated, with a cotangent of its own; `k` tells them apart. */
static void print_loss(FILE *out, const char *tensor, const char *k)
{
    fprintf(out,
            "            struct given like = {stn_tensor_dtype(%s), stn_tensor_ndim(%s), {0}, REAL, "
            "99 + (uint64_t)(%s), 0};\n            for (int d = 0; d < like.ndim; d++)\n"
            "                like.shape[d] = stn_tensor_shape(%s)[d];\n",
            tensor, tensor, k, tensor);
    fprintf(out,
            "            cotangents[n] = tensor(c, stn_spec_mesh(stn_tensor_spec(%s)), &like, (stn_placement[8]){{0}}, "
            "NULL, NULL, NULL);\n            losses[n++] = %s;\n        }\n",
            tensor, tensor);
}

static void print_again(FILE *out)
{
    fprintf(out, "        n = 0;\n        for (int i = 0; status == STN_OK && i < m; i++)\n"
                 "        if (g[i] && stn_requires_grad(g[i])) {\n");
    char k[16];
    snprintf(k, sizeof k, "%d + i", CALL_OUTPUTS);
    print_loss(out, "g[i]", k);
    fprintf(out, "        if (n > 0)\n"
                 "            status = stn_grad(c, n, losses, cotangents, m, leaves, 0, 0, g + m);\n");
}

static void print_backward(FILE *out, const struct call *c)
{
    const int twice = call_goes_twice(c);
    fprintf(out,
            "    stn_tensor *losses[%d], *cotangents[%d], *leaves[%d], *g[%d] = {NULL};\n    int n = 0, m = 0;\n",
            CALL_OUTPUTS, CALL_OUTPUTS, CALL_INPUTS, 2 * CALL_INPUTS);
    fprintf(out,
            "    for (int k = 0; status == STN_OK && k < %d; k++)\n        if (o[k] && stn_requires_grad(o[k])) {\n",
            c->n_outputs);
    print_loss(out, "o[k]", "k");
    fprintf(out,
            "    for (int i = 0; i < %d; i++)\n        if (leaf[i] && stn_requires_grad(leaf[i]) && (i == 0 || leaf[i] "
            "!= leaf[i - 1]))\n"
            "            leaves[m++] = leaf[i];\n",
            c->n_inputs);
    fprintf(out,
            "    if (n > 0 && m > 0) {\n        status = stn_grad(c, n, losses, cotangents, m, leaves, %d, %d, g);\n",
            twice, twice);
    if (twice)
        print_again(out);
    fprintf(out, "        printf(\"rank %%d of %%d: gradient: %%s: %%s\\n\", stn_context_rank(c), stn_context_size(c), "
                 "stn_status_text(status), "
                 "stn_context_error_text(c));\n"
                 "        for (int i = 0; i < %d * m; i++)\n            show(c, \"gradient\", i, g[i]);\n    }\n",
            twice ? 2 : 1);
}

void call_print(FILE *out, const struct call *c, const struct platform *platform)
{
    fputs(preamble, out);
    fprintf(out,
            "static stn_status body(stn_context *c, void *arg)\n{\n    stn_tensor *t[%d] = {NULL}, *leaf[%d], *o[%d] = "
            "{NULL};\n",
            CALL_INPUTS, CALL_INPUTS, CALL_OUTPUTS);
    print_meshes(out, c);
    if (call_goes_round(c))
        fprintf(out, "    stn_set_ring_attention(c, STN_RING_ATTENTION_ALWAYS);\n");
    fprintf(out, "    (void)refused;\n    stn_scope_begin(c);\n");
    for (int i = 0; i < c->n_inputs; i++)
        print_input(out, c, i);
    fprintf(out, "    memcpy(leaf, t, sizeof t);\n");
    if (c->n_inputs > 0 && (c->op->flags & STN_OP_IN_PLACE) != 0 && (c->inputs[0].seed & 7) != 0)
        fprintf(out, "    if (stn_requires_grad(t[0]))\n        t[0] = stn_mul_number(t[0], 1);\n");
    print_call(out, c);
    fprintf(out, "    for (int k = 0; k < %d && k < 4; k++)\n        show(c, \"output\", k, o[k]);\n", c->n_outputs);
    if (c->differentiated)
        print_backward(out, c);
    fprintf(out,
            "    return stn_scope_end(c);\n}\n\nint main(void)\n{\n"
            "    stn_launch_options options = {.size = sizeof options, .ranks = 1};\n"
            "    options.context = (stn_context_options){.size = sizeof options.context, .seed = 5, .checks = %d};\n"
            "    stn_launch(&options, body, NULL);\n    options.ranks = %d;\n",
            c->world.checks, c->world.ranks);
    if (c->world.queue == STN_QUEUE_WORKER)
        fprintf(out, "    options.context.queue = (stn_queue_options){.size = sizeof options.context.queue, .kind = "
                     "STN_QUEUE_WORKER};\n");
    platform_print_c(out, platform);
    fprintf(out, "    return stn_launch(&options, body, (void *)1) != STN_OK;\n}\n");
}
