#include "common/isa_option.h"

#include <shardtensor/context.h>

#include <stdio.h>

enum { EXIT_USAGE = 2, EXIT_SKIPPED = 77 };

int isa_option_check(const char *isa)
{
    char text[512] = "";
    const stn_context_options options = {
        .size = sizeof options, .isa = isa, .error_text = text, .error_text_size = sizeof text};
    stn_context *context = NULL;
    const stn_status status = stn_context_create(&options, &context);
    stn_context_destroy(&context);
    if (status == STN_OK)
        return 0;
    fprintf(stderr, "--isa: %s\n", text);
    return status == STN_ERR_UNSUPPORTED ? EXIT_SKIPPED : EXIT_USAGE;
}
