/* Which graphs of many operations cuDNN takes, and which of those its engines serve. */
#include "cuda/standin/cudnn_steps.h"

namespace standin::cudnn {

namespace {

/* Whether a graph may have it. Truth values are never given. */
bool is_tensor(const tensor &t)
{
    bool is = t.ndim == DIMS && (!t.is_by_value || (t.count == 1 && !t.is_virtual));
    for (int d = 0; d < DIMS; d++)
        is = is && t.shape[d] > 0 && t.stride[d] > 0;
    switch (t.type) {
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
    case CUDNN_DATA_INT32: return is && (t.is_virtual || t.alignment > 0);
    case CUDNN_DATA_BOOLEAN: return is && t.is_virtual;
    default: return false;
    }
}

/* How many tensors an operation by element reads, 0 where its mode is not known. */
int operands(int mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_GEN_INDEX: return 1;
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_CMP_GE: return 2;
    case CUDNN_POINTWISE_BINARY_SELECT: return 3;
    default: return 0;
    }
}

/* Every operand has y's size along a dim or 1 there, and one of them has y's. */
bool point_agrees(const step &s)
{
    const int n = operands(s.mode);
    if (!n || s.has[B] != (n > 1) || s.has[T] != (n > 2) || s.axis < 0 || s.axis >= DIMS)
        return false;
    for (int d = 0; d < DIMS; d++) {
        const int64_t size = s.tensors[Y].shape[d];
        bool is_reached = false;
        for (int r = X; r < Y; r++) {
            const int64_t own = s.tensors[r].shape[d];
            if (s.has[r] && own != 1 && own != size)
                return false;
            is_reached = is_reached || (s.has[r] && own == size);
        }
        if (!is_reached)
            return false;
    }
    return true;
}

/* Batches and heads of A and B are those of C or one; B may have a head for each group of C's. */
bool product_agrees(const step &s)
{
    const int64_t *a = s.tensors[X].shape, *b = s.tensors[B].shape, *c = s.tensors[Y].shape;
    bool is = s.has[B] && a[3] == b[2] && c[2] == a[2] && c[3] == b[3];
    for (int d = 0; d < 2; d++)
        is = is && (a[d] == c[d] || a[d] == 1) && (b[d] == c[d] || b[d] == 1 || (d == 1 && c[d] % b[d] == 0)) &&
             (a[d] == c[d] || b[d] == c[d]);
    return is;
}

bool reduction_agrees(const step &s)
{
    bool is = s.mode == CUDNN_REDUCE_TENSOR_ADD || s.mode == CUDNN_REDUCE_TENSOR_MAX;
    for (int d = 0; d < DIMS; d++)
        is = is && s.tensors[X].shape[d] % s.tensors[Y].shape[d] == 0;
    return is;
}

bool agrees(const step &s)
{
    if (!s.has[X] || !s.has[Y])
        return false;
    for (int r = 0; r < ROLES; r++)
        if (s.has[r] && !is_tensor(s.tensors[r]))
            return false;
    const tensor &x = s.tensors[X], &y = s.tensors[Y];
    switch (s.operation) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return s.precision != NONE && point_agrees(s);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return s.precision != NONE && product_agrees(s);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return s.precision != NONE && reduction_agrees(s);
    default: return x.count == y.count && extent(x) == extent(y);
    }
}

bool is_same(const tensor &a, const tensor &b)
{
    return a.type == b.type && a.is_virtual == b.is_virtual && a.is_by_value == b.is_by_value &&
           std::memcmp(a.shape, b.shape, sizeof a.shape) == 0 && std::memcmp(a.stride, b.stride, sizeof a.stride) == 0;
}

/* Whether a name always means the same tensor, what is virtual is read after it was written, and nothing is written
 * twice or after it was read. */
bool flow_agrees(std::vector<step> &steps)
{
    std::map<int64_t, tensor> seen;
    bool is = true;
    visit_tensors(steps, [&](const tensor &t, int role) {
        const auto [found, is_new] = seen.emplace(t.name, t);
        is = is && is_same(found->second, t);
        is = is && (role == Y ? is_new && !t.is_by_value : !is_new || !t.is_virtual);
    });
    return is;
}

bool is_narrow(const tensor &t)
{
    return t.type == CUDNN_DATA_HALF || t.type == CUDNN_DATA_BFLOAT16;
}

/* Engines load a given tensor's rows whole, 16 bytes at a time: along whichever of its last dims they lie. */
bool has_fit_rows(const tensor &t)
{
    enum { TOGETHER = 8, MOST = 256 };
    bool has = false, fit = true;
    for (int d = DIMS - 2; d < DIMS; d++) {
        has = has || t.stride[d] == 1;
        fit = fit && (t.stride[d] != 1 || (t.shape[d] % TOGETHER == 0 && t.shape[d] <= MOST));
    }
    return has && fit;
}

}

bool steps_agree(const descriptor &graph)
{
    std::vector<step> steps = steps_of(graph);
    for (const step &s : steps)
        if (!agrees(s))
            return false;
    return !steps.empty() && flow_agrees(steps);
}

bool steps_are_served(const descriptor &graph)
{
    std::vector<step> steps = steps_of(graph);
    int type = NONE;
    bool are = true;
    visit_tensors(steps, [&](const tensor &t, int) {
        if (t.is_virtual || !is_narrow(t))
            return;
        are = are && (type == NONE || t.type == type) && has_fit_rows(t);
        type = t.type;
    });
    for (const step &s : steps)
        if (s.operation == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
            s.operation == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
            are = are && s.precision == CUDNN_DATA_FLOAT;
    return are && type != NONE;
}

}
