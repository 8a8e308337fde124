/* What two parts of the keys have of a row's sum of exponentials, on the CPU and on devices. A template of
 * core/box/each_compute.h. Infinity says that the row attends to no key of a part (attention_kernel.h). */
#ifndef NAME /* read alone */
#include "core/base/inline.h"
#include "core/box/as_f32.h"
#include <tgmath.h>
#endif

struct NAME(shares) {
    ACC own, more, lse; /* of both */
};

STNI_INLINE struct NAME(shares) NAME(shares_of)(ACC lse, ACC more)
{
    struct NAME(shares) s = {1, 0, lse};
    if (more == (ACC)INFINITY)
        return s;
    if (lse == (ACC)INFINITY) {
        s.own = 0;
        s.more = 1;
        s.lse = more;
        return s;
    }
    const ACC largest = lse > more ? lse : more, own = exp(lse - largest), other = exp(more - largest);
    s.own = own / (own + other);
    s.more = other / (own + other);
    s.lse = largest + log(own + other);
    return s;
}
