#include "platform.h"

void platform_set(const struct platform *platform, stn_context_options *options)
{
    options->isa = platform->isa;
    options->without = platform->without;
    options->device = platform->device;
    options->module_path = platform->module_path;
}

static void print_option(FILE *out, const char *name, const char *value)
{
    if (value != NULL)
        fprintf(out, " --%s %s", name, value);
}

void platform_print(FILE *out, const struct platform *platform)
{
    print_option(out, "isa", platform->isa);
    print_option(out, "without", platform->without);
    print_option(out, "device", platform->device);
    print_option(out, "module-path", platform->module_path);
}

static void print_member(FILE *out, const char *name, const char *value)
{
    if (value != NULL)
        fprintf(out, "    options.context.%s = \"%s\";\n", name, value);
}

void platform_print_c(FILE *out, const struct platform *platform)
{
    print_member(out, "isa", platform->isa);
    print_member(out, "without", platform->without);
    print_member(out, "device", platform->device);
    print_member(out, "module_path", platform->module_path);
}
