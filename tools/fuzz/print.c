/* Printed programs carry what makes numbers and chunks (as program_number and execute.c do), then the tensors and
 * calls one a line. */
#include "print.h"

#include "execute.h"

static const char preamble[] =
    "#include <shardtensor/shardtensor.h>\n"
    "#include <math.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "\n"
    "enum { REAL, INDEX, BOOLEAN, SIGN, RISING };\n"
    "struct given { stn_dtype dtype; int ndim; int64_t shape[8]; int fill; double lo, hi; uint64_t seed; int "
    "requires_grad; };\n"
    "\n"
    "static uint64_t mix(uint64_t seed, uint64_t x)\n"
    "{\n"
    "    uint64_t z = seed + UINT64_C(0x9e3779b97f4a7c15) * (x + 1);\n"
    "    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);\n"
    "    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);\n"
    "    return z ^ (z >> 31);\n"
    "}\n"
    "\n"
    "static double number(const struct given *g, int64_t i)\n"
    "{\n"
    "    uint64_t bits = mix(g->seed, (uint64_t)i);\n"
    "    return g->fill == BOOLEAN ? (double)(bits & 1) : g->fill == INDEX ? (double)(bits % (uint64_t)g->hi)\n"
    "                              : g->fill == SIGN ? (bits & 1 ? 1 : -1)\n"
    "                              : g->fill == RISING ? g->lo + 0.5 * (double)(i % g->shape[g->ndim - 1])\n"
    "                              : g->lo + (g->hi - g->lo) * (double)(bits >> 44) / 1048576;\n"
    "}\n"
    "\n"
    "static const stn_spec *spec_of(stn_context *c, const stn_mesh *mesh, const struct given *g, const stn_placement "
    "*places, const int *axes,\n"
    "                               const int *memory, const int64_t *const *sizes)\n"
    "{\n"
    "    const stn_spec_options options = {.size = sizeof options, .axis_order = axes, .memory_order = memory, .sizes "
    "= sizes};\n"
    "    const stn_spec *spec = NULL;\n"
    "    stn_spec_create(c, mesh, mesh ? places : NULL, g->dtype, g->ndim, g->shape, mesh ? &options : NULL, &spec);\n"
    "    return spec;\n"
    "}\n"
    "\n"
    "/* Of ranks that hold parts of a pending sum one has the number, the others 0. */\n"
    "static stn_tensor *tensor(stn_context *c, const stn_mesh *mesh, const struct given *g, const stn_placement "
    "*places, const int *axes,\n"
    "                          const int *memory, const int64_t *const *sizes)\n"
    "{\n"
    "    const stn_spec *spec = spec_of(c, mesh, g, places, axes, memory, sizes);\n"
    "    const int64_t *shape = stn_spec_local_shape(spec), *offset = stn_spec_local_offset(spec);\n"
    "    int64_t index[8] = {0}, n = stn_spec_local_numel(spec);\n"
    "    char *data = malloc((size_t)n * 16 + 1);\n"
    "    for (int64_t i = 0; i < n; i++) {\n"
    "        int64_t at = 0;\n"
    "        for (int d = 0; d < g->ndim; d++)\n"
    "            at = at * g->shape[d] + offset[d] + index[d];\n"
    "        double x = number(g, g->dtype == STN_DTYPE_C64 || g->dtype == STN_DTYPE_C128 ? 2 * at : at);\n"
    "        for (int a = 0; mesh && a < stn_mesh_ndim(mesh); a++)\n"
    "            if (places[a].kind == STN_PLACE_PARTIAL && stn_mesh_axis_size(mesh, a) > 1 &&\n"
    "                stn_mesh_coordinate(mesh, a) != (int)(mix(g->seed + (uint64_t)a + 1, (uint64_t)at) % "
    "(uint64_t)stn_mesh_axis_size(mesh, a)))\n"
    "                x = 0;\n"
    "        double y = x == 0 ? 0 : number(g, 2 * at + 1);\n"
    "        if (g->dtype == STN_DTYPE_C128) ((double *)(void *)data)[2 * i] = x, ((double *)(void *)data)[2 * i + 1] "
    "= y;\n"
    "        else if (g->dtype == STN_DTYPE_C64) ((float *)(void *)data)[2 * i] = (float)x, ((float *)(void *)data)[2 "
    "* i + 1] = (float)y;\n"
    "        else if (g->dtype == STN_DTYPE_F64) ((double *)(void *)data)[i] = x;\n"
    "        else if (g->dtype == STN_DTYPE_F32) ((float *)(void *)data)[i] = (float)x;\n"
    "        else if (g->dtype == STN_DTYPE_I64) ((int64_t *)(void *)data)[i] = (int64_t)x;\n"
    "        else data[i] = (char)x;\n"
    "        for (int d = g->ndim - 1; d >= 0 && ++index[d] == shape[d]; d--)\n"
    "            index[d] = 0;\n"
    "    }\n"
    "    stn_tensor *t = stn_from_host(c, spec, data);\n"
    "    if (g->requires_grad)\n"
    "        stn_set_requires_grad(t, 1);\n"
    "    free(data);\n"
    "    return t;\n"
    "}\n"
    "\n"
    "/* A pending reduction cannot stay one in place. */\n"
    "static int pending(stn_tensor *t)\n"
    "{\n"
    "    const stn_mesh *mesh = stn_spec_mesh(stn_tensor_spec(t));\n"
    "    for (int a = 0; mesh && a < stn_mesh_ndim(mesh); a++)\n"
    "        if (stn_spec_placement(stn_tensor_spec(t), a).kind == STN_PLACE_PARTIAL)\n"
    "            return 1;\n"
    "    return 0;\n"
    "}\n"
    "\n"
    "/* One rank's answers are kept, the others' compared with them. */\n"
    "static void compare(stn_context *c, const stn_mesh *mesh, const char *what, stn_tensor *t, double **kept)\n"
    "{\n"
    "    stn_no_grad_begin(c);\n"
    "    stn_tensor *whole = t ? stn_full_tensor(t) : NULL;\n"
    "    stn_dtype dtype = whole ? stn_tensor_dtype(whole) : STN_DTYPE_COUNT;\n"
    "    int complex = dtype == STN_DTYPE_C64 || dtype == STN_DTYPE_C128, single = dtype == STN_DTYPE_F32 || dtype == "
    "STN_DTYPE_C64;\n"
    "    if (!stn_dtype_is_differentiable(dtype)) {\n"
    "        stn_no_grad_end(c);\n"
    "        return;\n"
    "    }\n"
    "    int64_t n = stn_spec_numel(stn_tensor_spec(whole)) * (complex ? 2 : 1);\n"
    "    double *got = malloc((size_t)n * 8 + 8), most = 0;\n"
    "    stn_to_host(whole, got, (size_t)n * (single ? 4 : 8));\n"
    "    for (int64_t i = n - 1; single && i >= 0; i--)\n"
    "        got[i] = ((float *)(void *)got)[i];\n"
    "    if (!mesh)\n"
    "        *kept = got;\n"
    "    for (int64_t i = 0; mesh && i < n; i++)\n"
    "        most = fmax(most, fabs(got[i] - (*kept)[i]));\n"
    "    if (mesh && stn_context_rank(c) == 0)\n"
    "        printf(\"%s differs by %g\\n\", what, most);\n"
    "    stn_no_grad_end(c);\n"
    "}\n"
    "\n";

static void print_ints(FILE *out, int n, const int *values)
{
    fprintf(out, "(int[]){");
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%d", i ? ", " : "", values[i]);
    fprintf(out, "}");
}

static void print_layout(FILE *out, const struct program *p, const struct layout *layout, int ndim)
{
    static const char *const kinds[] = {
        [STN_PLACE_REPLICATE] = "stn_replicate()", [STN_PLACE_PARTIAL] = "stn_partial(STN_SUM)"};
    int cut = 0;
    fprintf(out, "(stn_placement[]){");
    for (int a = 0; a < p->grid.ndim; a++) {
        fprintf(out, "%s", a ? ", " : "");
        if (layout->placement[a].kind == STN_PLACE_SHARD)
            fprintf(out, "stn_shard(%d)", layout->placement[a].dim);
        else
            fprintf(out, "%s", kinds[layout->placement[a].kind]);
    }
    fprintf(out, "}, ");
    print_ints(out, p->grid.ndim, layout->axis_order);
    fprintf(out, ", ");
    if (ndim > 0)
        print_ints(out, ndim, layout->memory_order);
    else
        fprintf(out, "NULL");
    for (int d = 0; d < ndim; d++)
        cut += layout->n_pieces[d] > 0;
    if (cut == 0) {
        fprintf(out, ", NULL)");
        return;
    }
    fprintf(out, ", (const int64_t *[8]){");
    for (int d = 0; d < ndim; d++)
        if (layout->n_pieces[d] > 0) {
            fprintf(out, "[%d] = (int64_t[]){", d);
            for (int i = 0; i < layout->n_pieces[d]; i++)
                fprintf(out, "%s%lld", i ? ", " : "", (long long)layout->sizes[d][i]);
            fprintf(out, "}, ");
        }
    fprintf(out, "})");
}

static void print_given(FILE *out, const struct term *term, int requires_grad)
{
    static const char *const dtypes[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = "STN_DTYPE_F32",   [STN_DTYPE_F64] = "STN_DTYPE_F64", [STN_DTYPE_I64] = "STN_DTYPE_I64",
        [STN_DTYPE_BOOL] = "STN_DTYPE_BOOL", [STN_DTYPE_C64] = "STN_DTYPE_C64", [STN_DTYPE_C128] = "STN_DTYPE_C128"};
    static const char *const fills[] = {"REAL", "INDEX", "BOOLEAN", "SIGN", "RISING"};
    fprintf(out, "&(struct given){%s, %d, {", dtypes[term->dtype], term->ndim);
    for (int d = 0; d < (term->ndim ? term->ndim : 1); d++)
        fprintf(out, "%s%lld", d ? ", " : "", term->ndim ? (long long)term->shape[d] : 0LL);
    fprintf(out, "}, %s, %.17g, %.17g, UINT64_C(%llu), %d}", fills[term->fill], term->lo, term->hi,
            (unsigned long long)term->seed, requires_grad);
}

static void print_attr(FILE *out, const stn_attr *attr)
{
    static const char *const types[] = {[STN_ATTR_BOOL] = "STN_ATTR_BOOL",
                                        [STN_ATTR_INT] = "STN_ATTR_INT",
                                        [STN_ATTR_FLOAT] = "STN_ATTR_FLOAT",
                                        [STN_ATTR_INTS] = "STN_ATTR_INTS",
                                        [STN_ATTR_STRING] = "STN_ATTR_STRING"};
    fprintf(out, "{\"%s\", %s, {", attr->name, types[attr->type]);
    if (attr->type == STN_ATTR_INTS) {
        fprintf(out, ".ints = {%lld, {", (long long)attr->value.ints.n);
        for (int i = 0; i < attr->value.ints.n; i++)
            fprintf(out, "%s%lld", i ? ", " : "", (long long)attr->value.ints.v[i]);
        fprintf(out, "}}");
    } else if (attr->type == STN_ATTR_STRING) {
        fprintf(out, ".s = \"%s\"", attr->value.s);
    } else if (attr->type == STN_ATTR_FLOAT) {
        fprintf(out, ".f = %.17g", attr->value.f);
    } else {
        fprintf(out, ".i = %lld", (long long)attr->value.i);
    }
    fprintf(out, "}}");
}

static void print_step(FILE *out, const struct program *p, const struct step *step)
{
    if (step->op == NULL) {
        const struct term *term = &p->terms[step->inputs[0]];
        fprintf(out, "    t[%d] = !mesh ? t[%d] : stn_redistribute(t[%d], spec_of(c, mesh, ", step->outputs[0],
                step->inputs[0], step->inputs[0]);
        print_given(out, term, 0);
        fprintf(out, ", ");
        print_layout(out, p, &step->layout, term->ndim);
        fprintf(out, ");\n");
        return;
    }
    if (step->in_place)
        fprintf(out, "    stn_call(c, pending(t[%d]) ? \"%s\" : \"%s_\", %d, (stn_tensor *[]){", step->inputs[0],
                step->op, step->op, step->n_inputs);
    else
        fprintf(out, "    stn_call(c, \"%s\", %d, (stn_tensor *[]){", step->op, step->n_inputs);
    for (int i = 0; i < step->n_inputs; i++) {
        if (step->inputs[i] < 0)
            fprintf(out, "%sNULL", i ? ", " : "");
        else
            fprintf(out, "%st[%d]", i ? ", " : "", step->inputs[i]);
    }
    fprintf(out, "}, %d, ", step->n_attrs);
    for (int i = 0; i < step->n_attrs; i++) {
        fprintf(out, "%s", i ? ", " : "(stn_attr[]){");
        print_attr(out, &step->attrs[i]);
    }
    fprintf(out, "%s, 32, o);\n    ", step->n_attrs ? "}" : "NULL");
    for (int k = 0; k < step->n_outputs; k++)
        fprintf(out, "t[%d] = o[%d]%s", step->outputs[k], k, k + 1 < step->n_outputs ? ", " : ";\n");
}

static int differentiates(const struct program *p)
{
    int leaves = 0;
    for (int t = 0; t < p->n_terms; t++)
        leaves += p->terms[t].step == GIVEN && p->terms[t].requires_grad;
    return leaves > 0;
}

static void print_leaves(FILE *out, const struct program *p)
{
    for (int t = 0; t < p->n_terms; t++)
        if (p->terms[t].step == GIVEN) {
            fprintf(out, "    t[%d] = tensor(c, mesh, ", t);
            print_given(out, &p->terms[t], p->terms[t].requires_grad);
            fprintf(out, ",\n        ");
            print_layout(out, p, &p->terms[t].layout, p->terms[t].ndim);
            fprintf(out, ";\n");
        }
}

/* Gradients of the leaves' gradients, as execute.c makes them. */
static void print_twice(FILE *out, const struct program *p)
{
    fprintf(out,
            "    stn_tensor *leaves[%d], *firsts[%d], *seconds[%d], *theirs[%d];\n    int leaf = 0, m = 0;\n",
            p->n_terms, p->n_terms, p->n_terms, p->n_terms);
    for (int t = 0; t < p->n_terms; t++)
        if (p->terms[t].step == GIVEN && p->terms[t].requires_grad)
            fprintf(out, "    leaves[leaf++] = t[%d];\n", t);
    fprintf(out, "    stn_grad(c, n, losses, cotangents, leaf, leaves, 1, 1, firsts);\n    leaf = 0;\n");
    for (int t = 0; t < p->n_terms; t++)
        if (p->terms[t].step == GIVEN && p->terms[t].requires_grad) {
            const struct term term = program_second_cotangent(&p->terms[t]);
            fprintf(out, "    if (stn_requires_grad(firsts[leaf++])) {\n        seconds[m] = firsts[leaf - 1];\n"
                         "        theirs[m++] = tensor(c, mesh, ");
            print_given(out, &term, 0);
            fprintf(out, ",\n            ");
            print_layout(out, p, &term.layout, term.ndim);
            fprintf(out, ";\n    }\n");
        }
    fprintf(out, "    stn_backward_many(c, m, seconds, theirs, 1);\n");
}

static void print_backward(FILE *out, const struct program *p)
{
    fprintf(out, "    stn_tensor *losses[%d], *cotangents[%d], *g;\n    static double *grads[%d];\n    int n = 0;\n",
            p->n_terms, p->n_terms, p->n_terms);
    for (int t = 0; t < p->n_terms; t++)
        if (p->terms[t].step >= 0 && program_uses(p, t) == 0) {
            fprintf(out,
                    "    if (stn_requires_grad(t[%d])) {\n        losses[n] = t[%d];\n        cotangents[n++] = "
                    "tensor(c, mesh, ",
                    t, t);
            print_given(out, &p->terms[t], 0);
            fprintf(out, ",\n            ");
            print_layout(out, p, &p->terms[t].layout, p->terms[t].ndim);
            fprintf(out, ";\n    }\n");
        }
    if (program_goes_twice(p))
        print_twice(out, p);
    fprintf(out, "    stn_backward_many(c, n, losses, cotangents, 0);\n");
    for (int t = 0; t < p->n_terms; t++)
        if (p->terms[t].step == GIVEN && p->terms[t].requires_grad)
            fprintf(out,
                    "    if (stn_grad_of(t[%d], &g) == STN_OK)\n        compare(c, mesh, \"gradient of t[%d]\", g, "
                    "&grads[%d]);\n",
                    t, t, t);
}

static void print_body(FILE *out, const struct program *p)
{
    fprintf(out,
            "static stn_status body(stn_context *c, void *arg)\n{\n    static double *values[%d];\n    const stn_mesh "
            "*mesh = NULL;\n"
            "    stn_tensor *t[%d] = {NULL}, *o[32];\n    if (arg)\n        stn_mesh_create(c, %d, (int[]){",
            p->n_terms, p->n_terms, p->grid.ndim);
    for (int a = 0; a < p->grid.ndim; a++)
        fprintf(out, "%s%d", a ? ", " : "", p->grid.sizes[a]);
    fprintf(out, "}, NULL, NULL, &mesh);\n");
    if (program_goes_round(p))
        fprintf(out, "    stn_set_ring_attention(c, STN_RING_ATTENTION_ALWAYS);\n");
    fprintf(out, "    stn_scope_begin(c);\n");
    print_leaves(out, p);
    for (int s = 0; s < p->n_steps; s++)
        print_step(out, p, &p->steps[s]);
    for (int t = 0; t < p->n_terms; t++)
        if (p->terms[t].step >= 0 && !p->terms[t].is_changed)
            fprintf(out, "    compare(c, mesh, \"t[%d]\", t[%d], &values[%d]);\n", t, t, t);
    if (differentiates(p))
        print_backward(out, p);
    fprintf(out, "    if (stn_context_status(c) != STN_OK && stn_context_rank(c) == 0)\n        printf(\"%%s\\n\", "
                 "stn_context_error_text(c));\n"
                 "    return stn_scope_end(c);\n}\n\n");
}

void print_program(FILE *out, const struct program *p)
{
    fputs(preamble, out);
    print_body(out, p);
    fprintf(out, "int main(void)\n{\n    stn_launch_options options = {.size = sizeof options, .ranks = 1, .context = "
                 "{.size = sizeof options.context}};\n");
    fprintf(out, "    stn_launch(&options, body, NULL);\n    options.ranks = %d;\n", p->grid.ranks);
    if (p->queue == STN_QUEUE_WORKER)
        fprintf(out,
                "    options.context.queue = (stn_queue_options){.size = sizeof options.context.queue, .kind = "
                "STN_QUEUE_WORKER, .delay_seed = UINT64_C(%llu)};\n",
                (unsigned long long)(p->seed | 1));
    platform_print_c(out, &p->platform);
    fprintf(out, "    return stn_launch(&options, body, (void *)1) != STN_OK;\n}\n");
}
