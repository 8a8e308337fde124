/* Log lines: the caller's function is the only output of the library. */
#include "core/context/context.h"

#include <stdio.h>

enum { LINE = 2048 }; /* bytes; longer lines are truncated */

void stni_log(stn_context *context, stn_log_level level, const char *format, ...)
{
    if (context->log == NULL || level > context->log_level)
        return;
    char line[LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    context->log(context->log_arg, level, context->rank, line);
}
