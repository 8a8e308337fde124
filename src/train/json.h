/* Reading JSON from memory, value by value, for texts that are not trusted. Nothing is allocated; each function
 * skips blanks first, and one that finds something else than it expects returns that and leaves the position
 * undefined. (RFC 8259, strictly.) */
#ifndef STNI_TRAIN_JSON_H
#define STNI_TRAIN_JSON_H

#include <stdint.h>

struct stni_json {
    const char *at, *end; /* what is left; UTF-8 */
    char *texts;          /* where decoded strings go, one behind the other: at least one byte more than the text is long */
};

enum { STNI_JSON_MAX_DEPTH = 8 /* of what is skipped */ };

/* 1 if the next character is this one, which is then behind us. */
int stni_json_take(struct stni_json *json, char c);

/* 1 if an element follows in an object or array of which `n` have been read; 0 if it has been closed by `close`; -1
 * if neither. */
int stni_json_next(struct stni_json *json, int n, char close);

/* A string, decoded and with a zero at its end; NULL if there is none, or if it cannot be text in C: a zero, half a
 * surrogate pair. */
const char *stni_json_string(struct stni_json *json);

/* The key of a member and its colon. */
const char *stni_json_key(struct stni_json *json);

/* A whole number, 0 <= x <= 2^53, written in digits alone. 1 on success. */
int stni_json_whole(struct stni_json *json, int64_t *out);

/* Any value. 1 on success. */
int stni_json_skip(struct stni_json *json);

/* 1 if nothing but blanks is left. */
int stni_json_ends(struct stni_json *json);

#endif
