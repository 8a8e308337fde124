/* Names in a trace, which is JSON: those of ops and ranges are what their authors make them. */
#ifndef STNI_CORE_DEVICE_TRACE_TEXT_H
#define STNI_CORE_DEVICE_TRACE_TEXT_H

#include <stddef.h>

enum { STNI_TRACE_CHARACTER = 7 /* bytes of the longest, with the zero */ };

/* One character of a text that has not ended, as a JSON string has it: quotes and control characters escaped, a byte
 * that is not UTF-8 as the character that stands for none (U+FFFD). `left`: bytes of the text. @return how many of
 * these it took. */
size_t stni_trace_character(const char *text, size_t left, char to[STNI_TRACE_CHARACTER]);

#endif
