/* What a report on a GPU says first: versions of the driver, the runtime and the libraries that the loader finds, and
 * the devices. Libraries are asked by their own functions, found by name, so that this builds without CUDA; the
 * stand-in has none of them. */
#include "programs.h"

#include "core/context/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MULTIPROCESSORS = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 /* of enum cudaDeviceAttr */ };

/* Versions are written to an int, or returned. */
static const struct library {
    const char *name, *files[3], *writes, *returns;
} libraries[] = {
    {"cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}, NULL, "cublasLtGetVersion"},
    {"cuDNN", {"libcudnn.so.9", "libcudnn.so"}, NULL, "cudnnGetVersion"},
    {"cuFFT", {"libcufft.so.12", "libcufft.so.11", "libcufft.so"}, "cufftGetVersion", NULL},
    {"NCCL", {"libnccl.so.2", "libnccl.so"}, "ncclGetVersion", NULL},
};

static void *find(void *object, const char *name, void *function)
{
    void *symbol = object && name ? dlsym(object, name) : NULL;
    memcpy(function, &symbol, sizeof symbol);
    return symbol;
}

/* What follows the name: the number and the file that it is from. */
static void print_version(void *object, const char *writes, const char *returns)
{
    int (*write)(int *version);
    size_t (*get)(void);
    Dl_info info = {0};
    int version = 0;
    void *symbol = writes ? find(object, writes, &write) : find(object, returns, &get);
    if (!symbol) {
        puts("not found by the loader");
        return;
    }
    if (writes)
        write(&version);
    else
        version = (int)get();
    dladdr(symbol, &info);
    printf("%d, %s\n", version, info.dli_fname ? info.dli_fname : "?");
}

static void print_library(const struct library *library)
{
    void *object = NULL;
    for (int i = 0; i < 3 && library->files[i] && !object; i++)
        object = dlopen(library->files[i], RTLD_LAZY | RTLD_LOCAL);
    printf("%s: ", library->name);
    print_version(object, library->writes, library->returns);
}

static int print_device(int index, void *module, const char *folder)
{
    struct stni_error error = {.status = STN_OK};
    stn_device *device = NULL;
    char name[24];
    int (*get)(int *value, int attribute, int device);
    int major = 0, minor = 0, processors = 0;
    snprintf(name, sizeof name, "cuda:%d", index);
    if (stni_module_open_device(name, 0, folder, &device, &error) != STN_OK) {
        printf("%s\n", error.text);
        return 0;
    }
    if (find(module, "cudaDeviceGetAttribute", &get)) {
        get(&major, CAPABILITY_MAJOR, index);
        get(&minor, CAPABILITY_MINOR, index);
        get(&processors, MULTIPROCESSORS, index);
    }
    printf("%s: opens, compute capability %d.%d, %d multiprocessors\n", name, major, minor, processors);
    stni_device_destroy(&device);
    return 1;
}

int about(const char *folder)
{
    struct stni_error error = {.status = STN_OK};
    stn_module loaded;
    char path[4096];
    int opened = 0;
    snprintf(path, sizeof path, "%s/libshardtensor-cuda.so", folder);
    if (stni_module_load("cuda", folder, &loaded, &error) != STN_OK) {
        printf("%s\n", error.text);
        return 1;
    }
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    printf("module: %s, %d kernels\ndriver: ", path, loaded.n_kernels);
    print_version(module, "cudaDriverGetVersion", NULL);
    printf("runtime: ");
    print_version(module, "cudaRuntimeGetVersion", NULL);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        print_library(&libraries[i]);
    const int n = loaded.device_count();
    for (int i = 0; i < (n > 0 ? n : 1); i++)
        opened += print_device(i, module, folder);
    return opened == 0;
}
