#include "core/device/trace_text.h"

#include "core/base/utf8.h"

#include <stdio.h>

size_t stni_trace_character(const char *text, size_t left, char to[STNI_TRACE_CHARACTER])
{
    const unsigned char c = (unsigned char)*text;
    const size_t n = stni_utf8_character(text, left);
    if (n == 0)
        snprintf(to, STNI_TRACE_CHARACTER, "\\ufffd");
    else if (c < 0x20)
        snprintf(to, STNI_TRACE_CHARACTER, "\\u%04x", c);
    else
        snprintf(to, STNI_TRACE_CHARACTER, "%s%.*s", c == '"' || c == '\\' ? "\\" : "", (int)n, text);
    return n > 0 ? n : 1;
}
