#include "core/base/text.h"

#include <stdarg.h>
#include <stdio.h>

void stni_text_put(struct stni_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t space = text->to && text->length < text->size ? text->size - text->length : 0;
    const int n = vsnprintf(space > 0 ? text->to + text->length : NULL, space, format, args);
    va_end(args);
    text->length += n > 0 ? (size_t)n : 0;
}
