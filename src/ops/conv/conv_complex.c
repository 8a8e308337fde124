/* Complex convolutions from real ones. Each kind is linear in both tensors that it reads, a and b, so that of its
 * result re = re a re b - im a im b and im = re a im b + im a re b. */
#include "ops/conv/conv_cpu.h"

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "ops/conv/conv_planes.h"
#include "ops/conv/reference.h"

#define T float
#define NAME(f) f##_c64
#include "ops/conv/conv_complex_tmpl.h"

#define T double
#define NAME(f) f##_c128
#include "ops/conv/conv_complex_tmpl.h"

static size_t plane_bytes(const struct stni_conv_problem *real, enum stni_conv_role role)
{
    return ((size_t)stni_conv_elements(real, role) * stn_dtype_size((stn_dtype)real->dtype) + 63) / 64 * 64;
}

static struct planes carve(char **workspace, const struct stni_conv_problem *real, enum stni_conv_role role)
{
    struct planes taken = {stni_conv_elements(real, role), {NULL}};
    for (int i = 0; i < 2; i++, *workspace += plane_bytes(real, role))
        taken.part[i] = *workspace;
    return taken;
}

static struct stni_conv_problem real_problem(const struct stni_conv_problem *p)
{
    struct stni_conv_problem real = *p;
    real.dtype = real.weight_dtype = p->dtype == STN_DTYPE_C64 ? STN_DTYPE_F32 : STN_DTYPE_F64;
    real.has_bias = 0;
    return real;
}

/* Planes of all three, and of the products that are taken from or added to the result. */
size_t stni_conv_complex_workspace(struct stni_onednn *library, const struct stni_conv_args *args)
{
    const struct stni_conv_problem real = real_problem(&args->problem);
    size_t bytes = library != NULL ? 0 : stni_conv_reference_workspace(&real);
    for (int role = 0; role < STNI_CONV_ROLES; role++)
        bytes += 2 * plane_bytes(&real, (enum stni_conv_role)role);
    return bytes + 2 * plane_bytes(&real, (enum stni_conv_role)real.kind);
}

/* out = part i of a with part j of b; which of the three `out` is, the kind says. */
static stn_status multiply(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_problem *real,
                           const struct planes *planes, int i, int j, void *out, void *workspace)
{
    int a = (real->kind + 1) % STNI_CONV_ROLES, b = (real->kind + 2) % STNI_CONV_ROLES;
    void *data[STNI_CONV_ROLES];
    data[a] = planes[a].part[i], data[b] = planes[b].part[j], data[real->kind] = out;
    const struct stni_conv_data d = {
        .x = data[STNI_CONV_X], .y = data[STNI_CONV_Y], .weight = data[STNI_CONV_WEIGHT], .images = 1};
    return stni_conv_real(queue, library, real, &d, workspace);
}

stn_status stni_conv_complex(stn_queue *queue, struct stni_onednn *library, const struct stni_conv_args *args)
{
    const struct stni_conv_problem real = real_problem(&args->problem);
    const struct stni_conv_data *data = &args->data;
    const int narrow = real.dtype == STN_DTYPE_F32;
    const int64_t element = 2 * (int64_t)stn_dtype_size((stn_dtype)real.dtype);
    const int64_t steps[] = {[STNI_CONV_Y] = data->y_step, [STNI_CONV_X] = data->x_step, [STNI_CONV_WEIGHT] = 0};
    char *const first[] = {[STNI_CONV_Y] = data->y, [STNI_CONV_X] = data->x, [STNI_CONV_WEIGHT] = data->weight};
    char *workspace = args->workspace;
    struct planes planes[STNI_CONV_ROLES];
    for (int role = 0; role < STNI_CONV_ROLES; role++)
        planes[role] = carve(&workspace, &real, (enum stni_conv_role)role);
    const struct planes others = carve(&workspace, &real, (enum stni_conv_role)real.kind), *out = &planes[real.kind];
    for (int64_t image = 0; image < data->images; image++) {
        for (int role = 0; role < STNI_CONV_ROLES; role++)
            if (role != real.kind)
                (narrow ? part_c64 : part_c128)(first[role] + image * steps[role] * element, &planes[role]);
        STNI_TRY(multiply(queue, library, &real, planes, 0, 0, out->part[0], workspace));
        STNI_TRY(multiply(queue, library, &real, planes, 1, 1, others.part[0], workspace));
        STNI_TRY(multiply(queue, library, &real, planes, 0, 1, out->part[1], workspace));
        STNI_TRY(multiply(queue, library, &real, planes, 1, 0, others.part[1], workspace));
        int add = real.kind == STNI_CONV_GRAD_WEIGHT && (image > 0 || data->accumulate);
        (narrow ? join_c64 : join_c128)(first[real.kind] + image * steps[real.kind] * element, out, &others, add);
    }
    return STN_OK;
}
