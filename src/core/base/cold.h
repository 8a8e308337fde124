/* Marks functions that are called where something failed or ran out, so that they are kept out of their callers'
 * way. */
#ifndef STNI_CORE_BASE_COLD_H
#define STNI_CORE_BASE_COLD_H

#if defined(__GNUC__)
#define STNI_COLD __attribute__((cold, noinline))
#else
#define STNI_COLD
#endif

#endif
