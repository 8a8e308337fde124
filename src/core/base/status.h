/* Failing inside the library: the function that detects an error writes its message, callers pass the status on. */
#ifndef STNI_CORE_BASE_STATUS_H
#define STNI_CORE_BASE_STATUS_H

#include <shardtensor/context.h>

#include "core/base/cold.h"

#include <stdarg.h>

/* The only two macros that hide a jump. */
#define STNI_TRY(call)                     \
    do {                                   \
        stn_status stni_try_ = (call);     \
        if (stni_try_ != STN_OK)           \
            return stni_try_;              \
    } while (0)

#define STNI_TRY_GOTO(call, label)         \
    do {                                   \
        status = (call);                   \
        if (status != STN_OK)              \
            goto label;                    \
    } while (0)

enum { STNI_ERROR_TEXT = 512 }; /* bytes of a message, its end included */

/* A failure with its message. */
struct stni_error {
    stn_status status;
    char text[STNI_ERROR_TEXT];
};

/* Keeps the first failure of `context` (later ones are dropped) and returns `status`. On the context's thread. */
STNI_COLD stn_status stni_fail(stn_context *context, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

/* As stni_fail, then aborts the family when the world has more than one rank: for failures that agreement cannot
 * reach. */
STNI_COLD stn_status stni_fail_rank(stn_context *context, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

/* stni_fail_rank for what launching on the context's queue returned, with the queue's text; STN_OK passes. */
STNI_COLD stn_status stni_fail_queue(stn_context *context, stn_status status);

/* stni_fail_rank for memory: "out of memory: WHAT (BYTES bytes)". Returns STN_ERR_MEMORY. */
STNI_COLD stn_status stni_fail_memory(stn_context *context, const char *what, size_t bytes);

/* Writes a message into an error, once: an error that holds one is left as it is. Returns `status`. */
STNI_COLD stn_status stni_error_set(struct stni_error *error, stn_status status, const char *format, ...)
    STN_PRINTF(3, 4);
STNI_COLD stn_status stni_error_set_v(struct stni_error *error, stn_status status, const char *format, va_list args);

#endif
