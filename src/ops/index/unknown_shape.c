/* Ops that are not supported: the number of elements of their results depends on data, while every rank has to know
 * every shape without communication. They are in the table so that a call by name gets an error that says so. */
#include "ops/table.h"

static stn_status refuse(stn_op_call *call)
{
    return stn_op_fail(call, STN_ERR_UNSUPPORTED, "the shape of the result depends on data; %s",
                       (const char *)call->arg);
}

static const stn_input_schema unary[] = {{.name = "input"}};
static const stn_input_schema masked[] = {{.name = "input"}, {.name = "mask"}};

const stn_op_desc stni_op_masked_select = {
    .size = sizeof(stn_op_desc),
    .name = "masked_select",
    STN_INPUTS(masked),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = refuse},
    .arg = (void *)"where and masked_fill keep the input's",
};

const stn_op_desc stni_op_nonzero = {
    .size = sizeof(stn_op_desc),
    .name = "nonzero",
    STN_INPUTS(unary),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = refuse},
    .arg = (void *)"count_nonzero tells how many there are, ne with 0 where they are",
};

const stn_op_desc stni_op_unique = {
    .size = sizeof(stn_op_desc),
    .name = "unique",
    STN_INPUTS(unary),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = refuse},
    .arg = (void *)"sort puts equal elements side by side",
};
