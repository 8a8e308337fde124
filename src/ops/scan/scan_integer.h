/* The arithmetic of integer scans: scan_state_tmpl.h in i64. Integers have no logarithms: those rows are never used.
 * scan_end.h ends it. */
#define ACC int64_t
#define STATE(f) f##_integer
#define RE(x) (x)
#define ISNAN(x) ((void)(x), 0)
#define EXP(x) (x)
#define LOG(x) (x)
#define LOWEST 0
#define PHASE(x) (x)
#include "ops/scan/scan_state_tmpl.h"
