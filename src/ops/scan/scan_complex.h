/* The arithmetic of complex scans: scan_state_tmpl.h in the type ACC that the includer defines with
 *   RE(x), IM(x)   the parts of a number           IMAGINARY(x)   the number of ACC whose parts are 0 and x
 * since a C compiler has a type of its own. scan_end.h ends it. */
#define STATE(f) f##_complex
#define ISNAN(x) (RE(x) != RE(x))
#define EXP cexp
#define LOG clog
#define LOWEST (-INFINITY)
#define PHASE(x) cexp(IMAGINARY(IM(x)))
#include "ops/scan/scan_state_tmpl.h"
