/* Runs graphs of cuDNN's operations one operation after the other: products of matrices, operations by element,
 * reductions, and memory that is read by other strides. Sums are of doubles. What is written is rounded to the tensor's
 * type, of virtual tensors, too: so rows of attention lose to 16 bits what they lose on a GPU. */
#include "cuda/standin/cudnn_steps.h"

#include <cmath>
#include <limits>

namespace standin::cudnn {

namespace {

/* Where an operation has its tensors, and the part that says what it does; where that has the rest. */
const struct words {
    int operation, tensors[ROLES], part, mode, precision;
} vocabulary[] = {
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_YDESC},
     CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_ATTR_POINTWISE_MODE,
     CUDNN_ATTR_POINTWISE_MATH_PREC},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC, NONE, CUDNN_ATTR_OPERATION_MATMUL_CDESC},
     CUDNN_ATTR_OPERATION_MATMUL_DESC,
     NONE,
     CUDNN_ATTR_MATMUL_COMP_TYPE},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, NONE, NONE, CUDNN_ATTR_OPERATION_REDUCTION_YDESC},
     CUDNN_ATTR_OPERATION_REDUCTION_DESC,
     CUDNN_ATTR_REDUCTION_OPERATOR,
     CUDNN_ATTR_REDUCTION_COMP_TYPE},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, NONE, NONE, CUDNN_ATTR_OPERATION_RESHAPE_YDESC},
     NONE,
     NONE,
     NONE},
};

int get_or_none(const descriptor &d, int name)
{
    return count(d, name) ? get<int>(d, name) : static_cast<int>(NONE);
}

step step_of(const descriptor &operation)
{
    step s = {};
    s.operation = s.mode = s.precision = NONE;
    for (const words &w : vocabulary) {
        if (w.operation != operation.type)
            continue;
        s.operation = w.operation;
        for (int r = 0; r < ROLES; r++) {
            s.has[r] = count(operation, w.tensors[r]);
            if (s.has[r])
                s.tensors[r] = tensor_of(part(operation, w.tensors[r]));
        }
        if (!count(operation, w.part))
            continue;
        const descriptor &how = part(operation, w.part);
        s.mode = get_or_none(how, w.mode);
        s.precision = get_or_none(how, w.precision);
        s.axis = get<int64_t>(how, CUDNN_ATTR_POINTWISE_AXIS);
    }
    return s;
}

}

std::vector<step> steps_of(const descriptor &graph)
{
    std::vector<step> steps;
    for (int64_t i = 0; i < count(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS); i++)
        steps.push_back(step_of(part(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)));
    return steps;
}

namespace {

/* Where the elements of virtual tensors are, and of those given by value: by the tensors' names. */
using memory = std::map<int64_t, std::vector<double>>;

bool is_own(const tensor &t)
{
    return t.is_virtual || t.is_by_value;
}

double rounded(int type, double x)
{
    switch (type) {
    case CUDNN_DATA_FLOAT: return static_cast<float>(x);
    case CUDNN_DATA_HALF: return stni_f16_to_f32(stni_f32_to_f16(static_cast<float>(x)));
    case CUDNN_DATA_BFLOAT16: return stni_bf16_to_f32(stni_f32_to_bf16(static_cast<float>(x)));
    default: return x;
    }
}

double read(const tensor &t, int64_t at)
{
    return is_own(t) ? static_cast<const double *>(t.data)[at] : load(t, at);
}

void write(const tensor &t, int64_t at, double x)
{
    if (is_own(t))
        static_cast<double *>(t.data)[at] = rounded(t.type, x);
    else
        store(t, at, x);
}

/* The offset in t of what meets the element `index` of a tensor of the shape `whole`, whose sizes t's divide. */
int64_t offset(const tensor &t, const int64_t *index, const int64_t *whole)
{
    int64_t at = 0;
    for (int d = 0; d < DIMS; d++)
        at += index[d] / (whole[d] / t.shape[d]) * t.stride[d];
    return at;
}

/* Calls visit(index, offset) for every element. */
template <class F> void visit_elements(const tensor &t, F visit)
{
    int64_t i[DIMS];
    for (i[0] = 0; i[0] < t.shape[0]; i[0]++)
        for (i[1] = 0; i[1] < t.shape[1]; i[1]++)
            for (i[2] = 0; i[2] < t.shape[2]; i[2]++)
                for (i[3] = 0; i[3] < t.shape[3]; i[3]++)
                    visit(i, offset(t, i, t.shape));
}

double result(int mode, double x, double b, double t)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_EXP: return std::exp(x);
    case CUDNN_POINTWISE_LOG: return std::log(x);
    case CUDNN_POINTWISE_CMP_GE: return x >= b;
    case CUDNN_POINTWISE_BINARY_SELECT: return t != 0 ? x : b;
    default: return x; /* the identity */
    }
}

void point(const step &s)
{
    const tensor &y = s.tensors[Y];
    visit_elements(y, [&](const int64_t *i, int64_t at) {
        double operand[ROLES] = {};
        for (int r = X; r < Y; r++)
            if (s.has[r])
                operand[r] = read(s.tensors[r], offset(s.tensors[r], i, y.shape));
        write(y, at, s.mode == CUDNN_POINTWISE_GEN_INDEX ? static_cast<double>(i[s.axis]) :
                                                           result(s.mode, operand[X], operand[B], operand[T]));
    });
}

/* Of a maximum, NaN stays. */
void reduce(const step &s)
{
    const tensor &x = s.tensors[X], &y = s.tensors[Y];
    const bool is_max = s.mode == CUDNN_REDUCE_TENSOR_MAX;
    std::vector<double> all(static_cast<std::size_t>(extent(y)), is_max ? -HUGE_VAL : 0);
    double *values = all.data();
    visit_elements(x, [&](const int64_t *i, int64_t at) {
        double &to = values[offset(y, i, x.shape)];
        const double from = read(x, at);
        to = !is_max ? to + from : from > to || std::isnan(from) ? from : to;
    });
    visit_elements(y, [&](const int64_t *, int64_t at) { write(y, at, values[at]); });
}

/* The matrix, row by row, that meets the one of `whole` of a batch and a head. */
std::vector<double> matrix(const tensor &t, int64_t batch, int64_t head, const tensor &whole)
{
    std::vector<double> elements;
    int64_t at = batch / (whole.shape[0] / t.shape[0]) * t.stride[0];
    at += head / (whole.shape[1] / t.shape[1]) * t.stride[1];
    for (int64_t i = 0; i < t.shape[2]; i++)
        for (int64_t j = 0; j < t.shape[3]; j++)
            elements.push_back(read(t, at + i * t.stride[2] + j * t.stride[3]));
    return elements;
}

void multiply(const step &s, int64_t batch, int64_t head)
{
    const tensor &a = s.tensors[X], &b = s.tensors[B], &c = s.tensors[Y];
    const int64_t inner = a.shape[3], columns = c.shape[3];
    const std::vector<double> left = matrix(a, batch, head, c), right = matrix(b, batch, head, c);
    std::vector<double> row(static_cast<std::size_t>(columns));
    for (int64_t i = 0; i < c.shape[2]; i++) {
        row.assign(row.size(), 0);
        for (int64_t k = 0; k < inner; k++)
            for (int64_t j = 0; j < columns; j++)
                row.data()[j] += left.data()[i * inner + k] * right.data()[k * columns + j];
        for (int64_t j = 0; j < columns; j++)
            write(c, batch * c.stride[0] + head * c.stride[1] + i * c.stride[2] + j * c.stride[3], row.data()[j]);
    }
}

void run(const step &s)
{
    const tensor &x = s.tensors[X], &y = s.tensors[Y];
    switch (s.operation) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: point(s); return;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: reduce(s); return;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        for (int64_t i = 0; i < y.shape[0] * y.shape[1]; i++)
            multiply(s, i / y.shape[1], i % y.shape[1]);
        return;
    default: /* the same memory, read by other strides */
        visit_elements(y, [&](const int64_t *, int64_t at) { write(y, at, read(x, at)); });
    }
}

/* Takes copies: a graph of the runtime's may run the same steps again, maybe at the same time. */
void run_all(std::vector<step> steps, memory own)
{
    visit_tensors(steps, [&](tensor &t, int) {
        if (!is_own(t))
            return;
        std::vector<double> &elements = own[t.name];
        if (elements.empty())
            elements.assign(static_cast<std::size_t>(extent(t)), std::numeric_limits<double>::quiet_NaN());
        t.data = elements.data();
    });
    for (const step &s : steps)
        run(s);
}

}

std::function<void()> work_of_steps(const descriptor &graph, const descriptor &pack)
{
    std::vector<step> steps = steps_of(graph);
    memory own;
    visit_tensors(steps, [&](tensor &t, int) {
        if (t.is_virtual)
            return;
        if (t.is_by_value)
            t.alignment = 1;
        place(pack, t);
        if (t.is_by_value)
            own[t.name] = {load(t, 0)};
    });
    return [steps, own] { run_all(steps, own); };
}

}
