/* What the sanitizers are told of fibers: nothing in an ordinary build. */
#ifndef STANDIN_SANITIZER_H
#define STANDIN_SANITIZER_H

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STANDIN_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define STANDIN_TSAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define STANDIN_ASAN
#endif
#if defined(__SANITIZE_THREAD__)
#define STANDIN_TSAN
#endif

namespace standin {

#ifdef STANDIN_ASAN
extern "C" void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, std::size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, std::size_t *size);
enum { ADDRESS_SANITIZER = 1 };
inline void asan_switch_begins(void **fake_stack, const void *bottom, std::size_t size)
{
    __sanitizer_start_switch_fiber(fake_stack, bottom, size);
}
inline void asan_switch_ended(void *fake_stack, const void **bottom, std::size_t *size)
{
    __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
}
/* What functions that never returned have left of their frames. */
extern "C" void __asan_unpoison_memory_region(const volatile void *memory, std::size_t bytes);
inline void asan_forget(const void *memory, std::size_t bytes) { __asan_unpoison_memory_region(memory, bytes); }
#else
enum { ADDRESS_SANITIZER = 0 };
inline void asan_switch_begins(void **, const void *, std::size_t) {}
inline void asan_switch_ended(void *, const void **, std::size_t *) {}
inline void asan_forget(const void *, std::size_t) {}
#endif

#ifdef STANDIN_TSAN
extern "C" void *__tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void *fiber);
extern "C" void *__tsan_get_current_fiber(void);
extern "C" void __tsan_switch_to_fiber(void *fiber, unsigned flags);
enum { THREAD_SANITIZER = 1 };
inline void *tsan_fiber_create() { return __tsan_create_fiber(0); }
inline void tsan_fiber_destroy(void *fiber) { __tsan_destroy_fiber(fiber); }
inline void *tsan_fiber_current() { return __tsan_get_current_fiber(); }
inline void tsan_switch_to(void *fiber) { __tsan_switch_to_fiber(fiber, 0); }
#else
enum { THREAD_SANITIZER = 0 };
inline void *tsan_fiber_create() { return nullptr; }
inline void tsan_fiber_destroy(void *) {}
inline void *tsan_fiber_current() { return nullptr; }
inline void tsan_switch_to(void *) {}
#endif

}

#endif
