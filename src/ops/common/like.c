#include "ops/common/like.h"

stn_status stni_like(stn_context *context, const stn_spec *spec, stn_tensor **out)
{
    struct stni_storage *nothing = NULL;
    STNI_TRY(stni_storage_create(context, 0, &nothing));
    stn_status status = stni_tensor_on(context, spec, nothing, NULL, NULL, 0, out);
    stni_storage_release(nothing);
    return status;
}
