#include "ops/common/list.h"

#include "ops/common/call.h"

static int is_there(stn_tensor *any, const struct stni_list *what, int n, const void *list)
{
    if (n < what->least || n > STN_MAX_NDIM)
        stni_call_fail(any, STN_ERR_ARGUMENT, "%s: '%s' got %d, wanted %d to %d", what->op, what->count, n, what->least,
                       STN_MAX_NDIM);
    else if (n > 0 && !list)
        stni_call_fail(any, STN_ERR_ARGUMENT, "%s: '%s' got NULL, wanted '%s' = %d entries", what->op, what->name,
                       what->count, n);
    else
        return 1;
    return 0;
}

int stni_list_read(stn_tensor *any, const struct stni_list *what, int n, const int64_t *list, stn_ints *out)
{
    if (!is_there(any, what, n, list))
        return 0;
    out->n = n;
    for (int i = 0; i < n; i++)
        out->v[i] = list[i];
    return 1;
}

int stni_list_read_dims(stn_tensor *any, const struct stni_list *what, int n, const int *list, stn_ints *out)
{
    if (!is_there(any, what, n, list))
        return 0;
    out->n = n;
    for (int i = 0; i < n; i++)
        out->v[i] = list[i];
    return 1;
}

int stni_list_read_dims_or_all(stn_tensor *any, const struct stni_list *what, int n, const int *list, stn_ints *out)
{
    if (!stni_list_read_dims(any, what, n, list, out))
        return 0;
    if (n == 0)
        out->n = -1;
    return 1;
}
