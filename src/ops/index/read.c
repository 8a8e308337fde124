/* index_read: elements, or slices, of a table by index along one dim. Linear in the table, so that a pending sum of
 * it is kept. */
#include "ops/index/access_route.h"

#include "ops/common/call.h"

#include <stddef.h>
#include <string.h>

stn_tensor *stni_index_read(stn_tensor *table, stn_tensor *index, const struct stni_access_attrs *attrs)
{
    return stni_call(STNI_OP_index_read, 2, (stn_tensor *[]){table, index}, attrs);
}

/* Arguments were checked by the ops that users call. */
static stn_status check(stn_op_call *call)
{
    const struct stni_access_attrs *attrs = call->attrs;
    const struct stni_layout *table = &call->in_spec[STNI_ACCESS_TABLE]->layout,
                             *index = &call->in_spec[STNI_ACCESS_INDEX]->layout;
    stn_meta *meta = &call->out_meta[0];
    struct stni_access_dims dims = stni_access_dims(attrs, index);
    if (attrs->dim < 0 || attrs->dim >= table->ndim || (attrs->slices ? index->ndim < 1 : index->ndim != table->ndim) ||
        table->ndim + dims.rows - 1 > STN_MAX_NDIM || !(STNI_INDEX_DTYPES >> index->dtype & 1))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'index' got %d dims and %s, wanted those of gather or index_select",
                           index->ndim, stn_dtype_name(index->dtype));
    call->reports = !attrs->quiet;
    meta->dtype = table->dtype;
    meta->ndim = stni_access_shape(&dims, table->ndim, table->shape, index->shape, meta->shape);
    return STN_OK;
}

static stn_status move(const stn_op_call *call, const struct stni_access *at, int keeps)
{
    stn_dtype dtype = call->out[0]->spec->layout.dtype;
    struct stni_access_read_args args = {*at, stn_dtype_size(dtype), keeps};
    return stn_op_launch(call, STNI_ACCESS_MOVE, dtype, &args, sizeof args);
}

/* The owners read the rows and send them; the requesting ranks copy them to the results' positions, of which the others
 * have what is here, or 0. */
static stn_status answer(const struct stni_access_here *here, struct stni_rows_route *route)
{
    const stn_op_call *call = here->call;
    stn_dtype dtype = call->out[0]->spec->layout.dtype;
    int64_t width = stni_access_width(here);
    void *rows, *answers;
    STNI_TRY(stni_rows_memory(call, route->n_received * width, stn_dtype_size(dtype), &rows));
    STNI_TRY(stni_rows_memory(call, route->n_asked * width, stn_dtype_size(dtype), &answers));
    struct stni_access home = stni_access_at_home(here, route), owner = stni_access_at_owner(here, route, rows);
    struct stni_access asker = stni_access_at_asker(here, route, answers);
    STNI_TRY(move(call, &owner, 0));
    if (here->apart)
        STNI_TRY(move(call, &home, 0));
    STNI_TRY(stni_rows_reply(route, rows, answers, width, dtype));
    return move(call, &asker, here->apart);
}

static stn_status run(stn_op_call *call)
{
    const stn_tensor *table = call->in[STNI_ACCESS_TABLE];
    struct stni_access_here here;
    struct stni_rows_route route;
    if (table->spec->layout.mesh && !table->spec->layout.mesh->member)
        return STN_OK;
    stni_access_make(call, table, call->in[STNI_ACCESS_INDEX], call->out[0], &here);
    if (((const struct stni_access_attrs *)call->attrs)->reads_all)
        here.all.skip = 0;
    if (!here.axes) {
        STNI_TRY(stni_access_check_unmoved(&here));
        return move(call, &here.all, 0);
    }
    STNI_TRY(stni_access_open(&here, &route));
    stn_status status = answer(&here, &route);
    stni_rows_close(&route);
    return status;
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs >> STNI_ACCESS_TABLE & 1 ? 1u << STNI_ACCESS_INDEX : 0;
}

static const stn_input_schema inputs[] = {
    [STNI_ACCESS_TABLE] = {.name = "input"}, [STNI_ACCESS_INDEX] = {.name = "index"}};
static const stn_attr_schema attrs[] = {
    {"dim", STN_ATTR_INT, offsetof(struct stni_access_attrs, dim), NULL},
    {"slices", STN_ATTR_BOOL, offsetof(struct stni_access_attrs, slices), NULL},
};

static const stn_kernel_slot slots[] = {
    [STNI_ACCESS_KEYS] = {"keys", sizeof(struct stni_access_keys_args)},
    [STNI_ACCESS_PLAN] = {"plan", sizeof(struct stni_rows_plan_args)},
    [STNI_ACCESS_MOVE] = {"read", sizeof(struct stni_access_read_args)},
};

static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("keys", STNI_INDEX_DTYPES, struct stni_access_keys_args, stni_access_keys, NULL),
    STNI_ISA_ROWS("plan", 1u << STN_DTYPE_I64, struct stni_rows_plan_args, stni_rows_plan, NULL),
    STNI_ISA_ROWS("read", STNI_ALL_DTYPES, struct stni_access_read_args, stni_access_read, NULL),
};

static const stn_op_impl impl = {
    .check = check,
    .place = stni_index_read_place,
    .run = run,
    .saves = saves,
    .backward = stni_index_read_backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_index_read = {
    .size = sizeof(stn_op_desc),
    .name = "index_read",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_access_attrs),
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
