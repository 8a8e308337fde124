/* What has to hold of a header's text before a parser sees it. */
#ifndef STNI_TRAIN_FILE_TEXT_H
#define STNI_TRAIN_FILE_TEXT_H

#include <stddef.h>

enum { STNI_FILE_MAX_DEPTH = 8 /* of nested objects and arrays */ };

/* NULL for a text that may be parsed, else what is wrong with it. */
const char *stni_file_text_fault(const char *text, size_t size);

#endif
