/* What a call by name was refused for before its collective saw it: an attribute that the schema does not have, an
 * input that is missing, a failure of before. The other ranks wait in the agreement with which the collective
 * begins. */
#include "ops/dist/by_name.h"

#include "dispatch/registry.h"
#include "ops/dist/facts.h"
#include "ops/dist/collective.h"

#include <string.h>

/* The number of the mesh as the schema reads it, 0 where none is given; -1 where it is no number. */
static int64_t number_of(int n_attrs, const stn_attr *attrs)
{
    int64_t number = 0;
    for (int i = 0; i < n_attrs; i++) {
        if (attrs[i].name == NULL || strcmp(attrs[i].name, "mesh") != 0)
            continue;
        if (attrs[i].type == STN_ATTR_INT)
            number = attrs[i].value.i;
        else if (attrs[i].type == STN_ATTR_NUMBER && attrs[i].value.number.kind == STN_NUMBER_INT)
            number = attrs[i].value.number.i;
        else
            return -1;
    }
    return number;
}

void stni_dist_refused(const stn_op *op, int n_attrs, const stn_attr *attrs)
{
    const struct stni_shard_tables *tables = &op->context->shard;
    const int64_t number = number_of(n_attrs, attrs);
    if (op->impl.compose != stni_dist_compose)
        return;
    if (number >= 0 && number < tables->n_meshes)
        stni_dist_agree(tables->meshes[number], op->context->error.status, NULL);
    else
        stni_dist_no_mesh(op->context, stn_op_descriptor(op)->name, NULL);
}
