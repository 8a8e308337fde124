/* Visibility and C++ linkage of everything that the public headers declare. */
#ifndef SHARDTENSOR_EXPORT_H
#define SHARDTENSOR_EXPORT_H

/** Marks a function that the shared library exports; all others are hidden. */
#if defined(__GNUC__)
#define STN_API __attribute__((visibility("default")))
#else
#define STN_API
#endif

/** Lets the compiler check a printf format: argument numbers of the format and of its first value. */
#if defined(__GNUC__)
#define STN_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define STN_PRINTF(text, first)
#endif

/** Enclose the declarations of a header, so that C++ sees them with C linkage. */
#ifdef __cplusplus
#define STN_BEGIN_DECLS extern "C" {
#define STN_END_DECLS }
#else
#define STN_BEGIN_DECLS
#define STN_END_DECLS
#endif

#endif
