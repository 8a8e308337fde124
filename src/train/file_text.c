/* Characters, depth and the number of values are bounded before anything is made of them, so that what a file costs
 * is in proportion to it. */
#include "train/file_text.h"

#include "core/base/utf8.h"

#include <stdint.h>
#include <string.h>

/* The shortest entry that the format allows has a value, a comma or a bracket in every third byte; a list of digits
 * in every other. */
enum { BYTES_PER_MARK = 3, MARKS_AT_LEAST = 16 };

static const char *character_fault(const char *text, size_t size)
{
    for (size_t i = 0, n; i < size; i += n) {
        n = stni_utf8_character(text + i, size - i);
        if (n == 0)
            return "is not UTF-8";
        if ((unsigned char)text[i] < 0x20 && !strchr("\t\n\r", text[i] ? text[i] : 'x'))
            return "has control characters";
    }
    return NULL;
}

const char *stni_file_text_fault(const char *text, size_t size)
{
    const char *fault = character_fault(text, size);
    size_t marks = 0;
    int depth = 0, quoted = 0;
    for (size_t i = 0; !fault && i < size; i++) {
        const char c = text[i];
        if (quoted && c == '\\') {
            if (size - i > 5 && memcmp(text + i, "\\u0000", 6) == 0)
                fault = "has a zero in a text";
            i++;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && (c == ']' || c == '}')) {
            depth--;
        } else if (!quoted && (c == '[' || c == '{' || c == ',' || c == ':')) {
            marks++;
            depth += c == '[' || c == '{';
            if (depth > STNI_FILE_MAX_DEPTH)
                fault = "is nested without end";
        }
    }
    if (!fault && marks > size / BYTES_PER_MARK + MARKS_AT_LEAST)
        fault = "has more values than tensors need";
    return fault;
}
