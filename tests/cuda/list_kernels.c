/* The kernels of the CPU and of a module, a line for each slot: for tables.py.
 *
 * usage: list_kernels FOLDER
 *
 *     cpu SLOT ARGS_SIZE DTYPE…
 *     module SLOT ARGS_SIZE DTYPE…
 *     module-lacks-op SLOT             its slot is none of the context's */
#include "core/context/context.h"
#include "core/context/module.h"
#include "dispatch/registry.h"

#include <stdio.h>
#include <string.h>

static void print_row(const char *of, const char *slot, size_t args_size, uint32_t dtypes)
{
    printf("%s %s %zu", of, slot, args_size);
    for (int d = 0; d < STN_DTYPE_COUNT; d++)
        if (dtypes >> d & 1)
            printf(" %s", stn_dtype_name((stn_dtype)d));
    printf("\n");
}

static void print_slots(const stn_op *op)
{
    for (int i = 0; i < op->impl.n_slots; i++) {
        uint32_t dtypes = 0;
        for (int d = 0; d < STN_DTYPE_COUNT; d++)
            dtypes |= (uint32_t)(op->slots[i].builtin[d].function != NULL) << d;
        print_row("cpu", op->slots[i].name, op->impl.slots[i].args_size, dtypes);
    }
}

static int print_module(stn_context *context, const char *folder)
{
    stn_module module;
    struct stni_error error = {0};
    if (stni_module_load("cuda", folder, &module, &error) != STN_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    for (int i = 0; i < module.n_kernels; i++) {
        const stn_kernel *kernel = &module.kernels[i];
        print_row("module", kernel->name, kernel->args_size, kernel->dtypes);
        if (strncmp(kernel->name, "core.", 5) != 0 && !stni_context_has_slot(context, kernel->name))
            printf("module-lacks-op %s\n", kernel->name);
    }
    return 0;
}

int main(int argc, char **argv)
{
    stn_context *context;
    if (argc != 2 || stn_context_create(NULL, &context) != STN_OK)
        return 1;
    for (int i = 0; i < context->registry->n_ops; i++)
        print_slots(context->registry->ops[i]);
    const int failed = print_module(context, argv[1]);
    stn_context_destroy(&context);
    return failed;
}
