/* Opening foreign libraries; the tests' stand-in has another file for this. */
#include "core/device/cuda/library.h"

#include <dlfcn.h>
#include <string.h>

int stni_cuda_load(const char *const *files, const struct stni_cuda_symbol *symbols, int n)
{
    void *object = NULL;
    for (; *files && !object; files++)
        object = dlopen(*files, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!object)
        return 0;
    int found = 0;
    for (; found < n; found++) {
        void *function = dlsym(object, symbols[found].name);
        if (!function)
            break;
        memcpy(symbols[found].function, &function, sizeof function);
    }
    dlclose(object);
    return found == n;
}
