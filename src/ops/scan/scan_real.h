/* The arithmetic of floating scans: scan_state_tmpl.h in f64. scan_end.h ends it. */
#define ACC double
#define STATE(f) f##_real
#define RE(x) (x)
#define ISNAN(x) ((x) != (x))
#define EXP exp
#define LOG log
#define LOWEST (-INFINITY)
#define PHASE(x) ((void)(x), 1.0)
#include "ops/scan/scan_state_tmpl.h"
