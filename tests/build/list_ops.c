/* The names of all ops that callers may call, one a line: for ops.py. */
#include <shardtensor/shardtensor.h>

#include <stdio.h>

int main(void)
{
    stn_context *context;
    if (stn_context_create(NULL, &context) != STN_OK)
        return 1;
    for (int i = 0; stn_op_at(context, i); i++)
        puts(stn_op_descriptor(stn_op_at(context, i))->name);
    stn_context_destroy(&context);
    return 0;
}
