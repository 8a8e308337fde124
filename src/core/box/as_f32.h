/* What each_float.h defines for f32. Templates include it where NAME is not defined: read alone, by an editor or a
 * tool, they are their instances for f32 (tests/build/templates.py). */
#include "core/base/dtype.h"

#define T float
#define ACC float
#define LOAD(x) (x)
#define STORE(x) (x)
#define NAME(f) f##_f32
#define MATH(f) stni_##f##_f32
#define HALF 0
