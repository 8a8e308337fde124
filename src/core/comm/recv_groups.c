/* Which received messages go to one box. */
#include "core/comm/recv_groups.h"

#include "core/box/box.h"

#include <stdlib.h>

static int by_box(const void *a, const void *b)
{
    const struct stni_recv_group *x = a, *y = b;
    if (x->data != y->data)
        return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    return x->index - y->index;
}

void stni_recv_groups_fill(const stn_exchange *messages, struct stni_recv_group *recv_groups)
{
    for (int i = 0; i < messages->n_recv; i++) {
        const stn_box *box = &messages->recv[i].box;
        recv_groups[i] = (struct stni_recv_group){stni_box_numel(box) > 0 ? box->data : NULL, i};
    }
    if (messages->n_recv > 1)
        qsort(recv_groups, (size_t)messages->n_recv, sizeof *recv_groups, by_box);
}

int stni_recv_groups_run(const struct stni_recv_group *recv_groups, int first, int n)
{
    int end = first + 1;
    while (end < n && recv_groups[end].data == recv_groups[first].data)
        end++;
    return end - first;
}
