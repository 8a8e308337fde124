#include "train/json.h"

#include <stddef.h>
#include <string.h>

#define MAX_WHOLE (INT64_C(1) << 53)

static void skip_blanks(struct stni_json *json)
{
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\n' || *json->at == '\r' || *json->at == '\t'))
        json->at++;
}

int stni_json_take(struct stni_json *json, char c)
{
    skip_blanks(json);
    if (json->at == json->end || *json->at != c)
        return 0;
    json->at++;
    return 1;
}

int stni_json_next(struct stni_json *json, int n, char close)
{
    if (stni_json_take(json, close))
        return 0;
    return n == 0 || stni_json_take(json, ',') ? 1 : -1;
}

/* Four hexadecimal digits; -1 where they are not. */
static long parse_unit(struct stni_json *json)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    long unit = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        const char *digit = json->at < json->end && *json->at ? strchr(digits, *json->at) : NULL;
        if (!digit)
            return -1;
        unit = unit << 4 | (long)((digit - digits) & 15);
    }
    return unit;
}

static void put_utf8(struct stni_json *json, long c)
{
    char *to = json->texts;
    if (c < 0x80) {
        *to++ = (char)c;
    } else {
        const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3; /* bytes after the first */
        *to++ = (char)((0xff00 >> (more + 1) & 0xff) | (c >> 6 * more));
        for (int i = more - 1; i >= 0; i--)
            *to++ = (char)(0x80 | (c >> 6 * i & 0x3f));
    }
    json->texts = to;
}

/* What stands behind \u. Characters beyond U+FFFF are two units, one of each kind. */
static int parse_unicode(struct stni_json *json)
{
    long c = parse_unit(json);
    if (c <= 0 || (c >= 0xdc00 && c < 0xe000))
        return 0;
    if (c >= 0xd800 && c < 0xdc00) {
        if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
            return 0;
        json->at += 2;
        const long low = parse_unit(json);
        if (low < 0xdc00 || low >= 0xe000)
            return 0;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    put_utf8(json, c);
    return 1;
}

static int parse_escape(struct stni_json *json)
{
    static const char escapes[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end || !*json->at)
        return 0;
    const char c = *json->at++, *found = strchr(escapes, c);
    if (c == 'u')
        return parse_unicode(json);
    if (found)
        *json->texts++ = meaning[found - escapes];
    return found != NULL;
}

/* A decoded string is never longer than its text, so that the texts of all fit where the file's would. */
const char *stni_json_string(struct stni_json *json)
{
    const char *text = json->texts;
    if (!stni_json_take(json, '"'))
        return NULL;
    while (json->at < json->end && *json->at != '"') {
        const char c = *json->at++;
        if ((unsigned char)c < 0x20)
            return NULL;
        if (c != '\\')
            *json->texts++ = c;
        else if (!parse_escape(json))
            return NULL;
    }
    if (json->at == json->end)
        return NULL;
    json->at++;
    *json->texts++ = '\0';
    return text;
}

const char *stni_json_key(struct stni_json *json)
{
    const char *key = stni_json_string(json);
    return key && stni_json_take(json, ':') ? key : NULL;
}

static int is_digit(const struct stni_json *json)
{
    return json->at < json->end && *json->at >= '0' && *json->at <= '9';
}

static int skip_digits(struct stni_json *json)
{
    const char *from = json->at;
    while (is_digit(json))
        json->at++;
    return json->at > from;
}

int stni_json_whole(struct stni_json *json, int64_t *out)
{
    int64_t value = 0;
    skip_blanks(json);
    const char *from = json->at;
    for (; is_digit(json); json->at++) {
        value = 10 * value + (*json->at - '0');
        if (value > MAX_WHOLE)
            return 0;
    }
    const int more = json->at < json->end && *json->at && strchr(".eE", *json->at);
    if (json->at == from || (*from == '0' && json->at > from + 1) || more)
        return 0;
    *out = value;
    return 1;
}

static int skip_number(struct stni_json *json)
{
    if (*json->at == '-')
        json->at++;
    const char *from = json->at;
    if (!skip_digits(json) || (*from == '0' && json->at > from + 1))
        return 0;
    if (json->at < json->end && *json->at == '.') {
        json->at++;
        if (!skip_digits(json))
            return 0;
    }
    if (json->at < json->end && (*json->at == 'e' || *json->at == 'E')) {
        json->at++;
        if (json->at < json->end && (*json->at == '+' || *json->at == '-'))
            json->at++;
        return skip_digits(json);
    }
    return 1;
}

static int skip_word(struct stni_json *json)
{
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(json->end - json->at) >= n && memcmp(json->at, words[i], n) == 0) {
            json->at += n;
            return 1;
        }
    }
    return 0;
}

static int skip(struct stni_json *json, int depth);

static int skip_elements(struct stni_json *json, int depth, char close)
{
    if (depth == STNI_JSON_MAX_DEPTH)
        return 0;
    for (int n = 0, more; (more = stni_json_next(json, n, close)) != 0; n = 1)
        if (more < 0 || (close == '}' && !stni_json_key(json)) || !skip(json, depth + 1))
            return 0;
    return 1;
}

static int skip(struct stni_json *json, int depth)
{
    skip_blanks(json);
    if (json->at == json->end)
        return 0;
    if (*json->at == '"')
        return stni_json_string(json) != NULL;
    if (*json->at == '-' || is_digit(json))
        return skip_number(json);
    if (*json->at != '{' && *json->at != '[')
        return skip_word(json);
    return skip_elements(json, depth, *json->at++ == '{' ? '}' : ']');
}

int stni_json_skip(struct stni_json *json)
{
    return skip(json, 0);
}

int stni_json_ends(struct stni_json *json)
{
    skip_blanks(json);
    return json->at == json->end;
}
