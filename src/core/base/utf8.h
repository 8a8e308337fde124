/* Texts that come from outside. */
#ifndef STNI_CORE_BASE_UTF8_H
#define STNI_CORE_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character at the begin of `left` bytes; 0 where it is not UTF-8: too long for its value, a surrogate,
 * beyond U+10FFFF. (RFC 3629.) */
size_t stni_utf8_character(const char *text, size_t left);

#endif
