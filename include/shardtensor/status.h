/* Statuses: what every call reports, and nothing else does. */
#ifndef SHARDTENSOR_STATUS_H
#define SHARDTENSOR_STATUS_H

#include <shardtensor/export.h>

STN_BEGIN_DECLS

/* One list gives the enum and the texts. */
#define STN_STATUS_LIST(X)                                                       \
    X(STN_OK, "ok")                                                              \
    X(STN_ERR_ARGUMENT, "bad argument")                                          \
    X(STN_ERR_SHAPE, "shapes do not fit")                                        \
    X(STN_ERR_DTYPE, "dtype does not fit")                                       \
    X(STN_ERR_DEVICE, "device error")                                            \
    X(STN_ERR_LAYOUT, "layout does not fit")                                     \
    X(STN_ERR_PARTIAL, "a reduction is pending")                                 \
    X(STN_ERR_STATE, "not possible in this state")                               \
    X(STN_ERR_NOT_FOUND, "not found")                                            \
    X(STN_ERR_UNSUPPORTED, "not supported")                                      \
    X(STN_ERR_VALUE, "a value is out of range")                                  \
    X(STN_ERR_MISMATCH, "ranks disagree")                                        \
    X(STN_ERR_MEMORY, "out of memory")                                           \
    X(STN_ERR_COMM, "communication failed")                                      \
    X(STN_ERR_PEER, "another rank failed")                                       \
    X(STN_ERR_TIMEOUT, "deadline passed")                                        \
    X(STN_ERR_IO, "input or output failed")                                      \
    X(STN_ERR_VERSION, "versions do not fit")                                    \
    X(STN_ERR_CALLBACK, "a callback failed")                                     \
    X(STN_ERR_INTERNAL, "a fault inside shardtensor")

#define STN_STATUS_ENUM(name, text) name,
typedef enum stn_status { STN_STATUS_LIST(STN_STATUS_ENUM) STN_STATUS_COUNT } stn_status;
#undef STN_STATUS_ENUM

/** The fixed text of a status, such as "shapes do not fit". Never NULL; local; no errors. */
STN_API const char *stn_status_text(stn_status status);

STN_END_DECLS
#endif
