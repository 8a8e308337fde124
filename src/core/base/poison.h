/* Marks memory that our own free lists hold, so that the address sanitizer reports a use after release, which it
 * cannot see otherwise. Nothing in ordinary builds. */
#ifndef STNI_CORE_BASE_POISON_H
#define STNI_CORE_BASE_POISON_H

#include <stddef.h>

#ifdef __has_feature
#define STNI_HAS_FEATURE(x) __has_feature(x)
#else
#define STNI_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || STNI_HAS_FEATURE(address_sanitizer)

#include <sanitizer/asan_interface.h>

static inline void stni_poison(const void *pointer, size_t bytes) { __asan_poison_memory_region(pointer, bytes); }
static inline void stni_unpoison(const void *pointer, size_t bytes) { __asan_unpoison_memory_region(pointer, bytes); }
static inline int stni_is_poisoned(const void *pointer) { return __asan_address_is_poisoned(pointer); }

#else

static inline void stni_poison(const void *pointer, size_t bytes) { (void)pointer; (void)bytes; }
static inline void stni_unpoison(const void *pointer, size_t bytes) { (void)pointer; (void)bytes; }
static inline int stni_is_poisoned(const void *pointer) { (void)pointer; return 0; }

#endif

#endif
