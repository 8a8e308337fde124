/* Graphs of cuDNN's operations other than convolutions: one operation, or many of which one reads what others wrote. */
#ifndef STANDIN_CUDNN_STEPS_H
#define STANDIN_CUDNN_STEPS_H

#include "cuda/standin/cudnn_parts.h"

#include <functional>

namespace standin::cudnn {

enum { DIMS = 4, NONE = -1 };

/* What a tensor is to an operation; a product of matrices has its A, B and C at X, B and Y. Y, which is written, is
 * last: an operation reads before it writes. */
enum { X, B, T, Y, ROLES };

/* An operation. The mode is that of a pointwise operation or a reduction, the precision what it computes in; NONE: not
 * given. */
struct step {
    int operation, mode, precision;
    int64_t axis;
    bool has[ROLES];
    tensor tensors[ROLES];
};

/* A graph's, in their order. */
std::vector<step> steps_of(const descriptor &graph);

/* Calls visit(tensor, role) for each that the operations name. */
template <class F> void visit_tensors(std::vector<step> &steps, F visit)
{
    for (step &s : steps)
        for (int r = 0; r < ROLES; r++)
            if (s.has[r])
                visit(s.tensors[r], r);
}

/* How many elements of memory it spans. */
inline int64_t extent(const tensor &t)
{
    int64_t last = 0;
    for (int d = 0; d < DIMS; d++)
        last += (t.shape[d] - 1) * t.stride[d];
    return last + 1;
}

/* Whether the operations are known ones, their shapes fit, and each reads what is given or was written before it. */
bool steps_agree(const descriptor &graph);

/* Whether there is an engine for a graph that agrees. The real ones of attention are narrower than what can be run. */
bool steps_are_served(const descriptor &graph);

/* What runs the graph on a pack's memory, as often as it is called. Elements given by value are read here and now. */
std::function<void()> work_of_steps(const descriptor &graph, const descriptor &pack);

}

#endif
