/* Attention and its gradients as graphs of operations, in the order in which cuDNN's engines for attention know them
 * again. Of each graph one kernel is made: what is virtual is in no memory, but for the products of the gradient of
 * scores, which lie in the workspace. (There is a second form, in which gradients of queries are added up by all
 * blocks: two runs of that differ.)
 * Source: Dao 2023, "FlashAttention-2"; cuDNN's documentation, "Fused flash attention fprop", "bprop". */
#include "ops/cuda/cudnn_graph.h"

typedef cudnnBackendDescriptor_t tensor;

struct maker {
    struct stni_cudnn_graph *graph;
    const struct stni_cudnn_attention *p;
    tensor scale;
};

/* --- tensors of (batch, heads, m, n) */

static tensor make(struct maker *m, const struct stni_cudnn_tensor *t)
{
    return stni_cudnn_make_tensor(m->graph, t);
}

static int64_t width_of(const struct stni_cudnn_attention *p, int operand)
{
    switch (operand) {
    case STNI_CUDNN_LSE: return 1;
    case STNI_CUDNN_VALUE:
    case STNI_CUDNN_OUT:
    case STNI_CUDNN_GRAD:
    case STNI_CUDNN_GRAD_VALUE: return p->value_width;
    default: return p->width;
    }
}

static int is_by_keys(int operand)
{
    return operand == STNI_CUDNN_KEY || operand == STNI_CUDNN_VALUE || operand == STNI_CUDNN_GRAD_KEY ||
           operand == STNI_CUDNN_GRAD_VALUE;
}

static struct stni_cudnn_tensor operand_of(const struct maker *m, int operand)
{
    const struct stni_cudnn_attention *p = m->p;
    const int64_t *stride = p->stride[operand];
    const int by_keys = is_by_keys(operand);
    return (struct stni_cudnn_tensor){
        .name = STNI_CUDNN_FIRST_OPERAND + operand,
        .type = operand == STNI_CUDNN_LSE ? CUDNN_DATA_FLOAT : stni_cudnn_type_of(p->dtype),
        .ndim = 4,
        .shape = {p->batch, by_keys ? p->key_heads : p->heads, by_keys ? p->keys : p->rows, width_of(p, operand)},
        .stride = {stride[0], stride[1], stride[2], 1},
    };
}

static tensor given(struct maker *m, int operand)
{
    const struct stni_cudnn_tensor t = operand_of(m, operand);
    return make(m, &t);
}

static void turn(struct stni_cudnn_tensor *t)
{
    const int64_t rows = t->shape[2], stride = t->stride[2];
    t->shape[2] = t->shape[3], t->shape[3] = rows;
    t->stride[2] = t->stride[3], t->stride[3] = stride;
}

/* An operand's transpose, which is where the operand is. */
static tensor given_turned(struct maker *m, int operand)
{
    struct stni_cudnn_tensor t = operand_of(m, operand);
    turn(&t);
    return make(m, &t);
}

/* A number of the host's. */
static tensor number(struct maker *m, int64_t name, cudnnDataType_t type)
{
    const struct stni_cudnn_tensor t = {
        .name = name, .type = type, .ndim = 4, .shape = {1, 1, 1, 1}, .stride = {1, 1, 1, 1}, .is_by_value = 1};
    return make(m, &t);
}

/* Dense, of all heads of queries. */
static struct stni_cudnn_tensor dense(struct maker *m, cudnnDataType_t type, int64_t rows, int64_t cols)
{
    const struct stni_cudnn_attention *p = m->p;
    return (struct stni_cudnn_tensor){
        .type = type,
        .ndim = 4,
        .shape = {p->batch, p->heads, rows, cols},
        .stride = {p->heads * rows * cols, rows * cols, cols, 1},
    };
}

static tensor between(struct maker *m, struct stni_cudnn_tensor t)
{
    t.is_virtual = 1;
    t.name = STNI_CUDNN_FIRST_VIRTUAL + m->graph->n_virtual++;
    return make(m, &t);
}

/* A number for each row and key; for each row. */
static tensor scores(struct maker *m, cudnnDataType_t type)
{
    return between(m, dense(m, type, m->p->rows, m->p->keys));
}

static tensor row_numbers(struct maker *m)
{
    return between(m, dense(m, CUDNN_DATA_FLOAT, m->p->rows, 1));
}

/* --- operations; each returns its result */

static tensor multiply(struct maker *m, tensor a, tensor b, tensor to)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const tensor how = stni_cudnn_part(m->graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    stni_cudnn_set(m->graph, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    stni_cudnn_finish(m->graph, how);
    const tensor operation = stni_cudnn_part(m->graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, to);
    stni_cudnn_add_operation(m->graph, operation);
    return to;
}

static tensor reduce(struct maker *m, cudnnReduceTensorOp_t by, tensor x, tensor to)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const tensor how = stni_cudnn_part(m->graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    stni_cudnn_set(m->graph, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by);
    stni_cudnn_set(m->graph, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    stni_cudnn_finish(m->graph, how);
    const tensor operation = stni_cudnn_part(m->graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to);
    stni_cudnn_add_operation(m->graph, operation);
    return to;
}

/* Other strides for what lies somewhere. */
static tensor view(struct maker *m, tensor x, tensor to)
{
    const tensor operation = stni_cudnn_part(m->graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, to);
    stni_cudnn_add_operation(m->graph, operation);
    return to;
}

/* A function of elements; `second` and `which` are NULL where it has fewer. */
struct function {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t type; /* that it is computed in */
    int64_t axis;         /* of GEN_INDEX, else -1 */
};

static tensor map(struct maker *m, const struct function *f, tensor x, tensor second, tensor which, tensor to)
{
    const tensor how = stni_cudnn_part(m->graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    stni_cudnn_set(m->graph, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &f->mode);
    stni_cudnn_set(m->graph, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f->type);
    if (f->axis >= 0)
        stni_cudnn_set(m->graph, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &f->axis);
    stni_cudnn_finish(m->graph, how);
    const tensor operation = stni_cudnn_part(m->graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (second)
        stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, second);
    if (which)
        stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, which);
    stni_cudnn_set_part(m->graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    stni_cudnn_add_operation(m->graph, operation);
    return to;
}

static tensor apply(struct maker *m, cudnnPointwiseMode_t mode, tensor x, tensor second, tensor to)
{
    return map(m, &(struct function){mode, CUDNN_DATA_FLOAT, -1}, x, second, NULL, to);
}

/* Numbers of rows and keys, from ones and a second operand. */
static tensor score(struct maker *m, cudnnPointwiseMode_t mode, tensor x, tensor second)
{
    return apply(m, mode, x, second, scores(m, CUDNN_DATA_FLOAT));
}

static tensor count(struct maker *m, cudnnPointwiseMode_t mode, tensor x, tensor second)
{
    return map(m, &(struct function){mode, CUDNN_DATA_INT32, -1}, x, second, NULL, scores(m, CUDNN_DATA_INT32));
}

static tensor index_along(struct maker *m, tensor x, int64_t axis)
{
    const struct function f = {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis};
    return map(m, &f, x, NULL, NULL, scores(m, CUDNN_DATA_INT32));
}

/* --- what attention is made of */

/* Scores become -infinity where a row may not attend to a key. */
static tensor limit(struct maker *m, tensor score)
{
    const tensor nothing = number(m, STNI_CUDNN_NOTHING, CUDNN_DATA_FLOAT);
    tensor last = index_along(m, score, 2); /* the last key that a row attends to */
    if (m->p->is_last) {
        last = count(m, CUDNN_POINTWISE_ADD, last, number(m, STNI_CUDNN_KEYS, CUDNN_DATA_INT32));
        last = count(m, CUDNN_POINTWISE_SUB, last, number(m, STNI_CUDNN_ROWS, CUDNN_DATA_INT32));
    }
    const tensor key = index_along(m, score, 3), attends = scores(m, CUDNN_DATA_BOOLEAN);
    map(m, &(struct function){CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1}, last, key, NULL, attends);
    const struct function select = {CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1};
    return map(m, &select, score, nothing, attends, scores(m, CUDNN_DATA_FLOAT));
}

static tensor scaled_products(struct maker *m, tensor query, tensor key_turned)
{
    m->scale = number(m, STNI_CUDNN_SCALE, CUDNN_DATA_FLOAT);
    const tensor products = multiply(m, query, key_turned, scores(m, CUDNN_DATA_FLOAT));
    return score(m, CUDNN_POINTWISE_MUL, products, m->scale);
}

/* Probabilities, of which the log-sum-exp of rows is kept. */
static tensor softmax(struct maker *m, tensor x)
{
    const tensor largest = reduce(m, CUDNN_REDUCE_TENSOR_MAX, x, row_numbers(m));
    const tensor from_largest = score(m, CUDNN_POINTWISE_SUB, x, largest);
    const tensor power = score(m, CUDNN_POINTWISE_EXP, from_largest, NULL);
    const tensor sum = reduce(m, CUDNN_REDUCE_TENSOR_ADD, power, row_numbers(m));
    const tensor log_sum = apply(m, CUDNN_POINTWISE_LOG, sum, NULL, row_numbers(m));
    apply(m, CUDNN_POINTWISE_ADD, largest, log_sum, given(m, STNI_CUDNN_LSE));
    return apply(m, CUDNN_POINTWISE_DIV, power, sum, scores(m, stni_cudnn_type_of(m->p->dtype)));
}

static void describe_forward(struct maker *m)
{
    tensor score = scaled_products(m, given(m, STNI_CUDNN_QUERY), given_turned(m, STNI_CUDNN_KEY));
    if (m->p->causal)
        score = limit(m, score);
    multiply(m, softmax(m, score), given(m, STNI_CUDNN_VALUE), given(m, STNI_CUDNN_OUT));
}

/* The product of each row of the cotangent with the result's. */
static tensor describe_means(struct maker *m, tensor grad)
{
    const tensor products = between(m, dense(m, CUDNN_DATA_FLOAT, m->p->rows, m->p->value_width));
    apply(m, CUDNN_POINTWISE_MUL, grad, given(m, STNI_CUDNN_OUT), products);
    const tensor sums = reduce(m, CUDNN_REDUCE_TENSOR_ADD, products, row_numbers(m));
    struct stni_cudnn_tensor means = dense(m, CUDNN_DATA_FLOAT, m->p->rows, 1);
    means.name = STNI_CUDNN_FIRST_OPERAND + STNI_CUDNN_MEANS;
    return apply(m, CUDNN_POINTWISE_MUL, sums, number(m, STNI_CUDNN_ONE, CUDNN_DATA_FLOAT), make(m, &means));
}

/* Adds up numbers of rows and keys, times rows, for each key: a gradient of keys or values. */
static void gather(struct maker *m, tensor weights, tensor rows, int operand)
{
    struct stni_cudnn_tensor turned = dense(m, stni_cudnn_type_of(m->p->dtype), m->p->rows, m->p->keys);
    turn(&turned);
    const tensor by_key = view(m, weights, between(m, turned));
    multiply(m, by_key, rows, given(m, operand));
}

static void describe_gradients(struct maker *m)
{
    const tensor query = given(m, STNI_CUDNN_QUERY), key_turned = given_turned(m, STNI_CUDNN_KEY);
    const tensor grad = given(m, STNI_CUDNN_GRAD), means = describe_means(m, grad);
    tensor x = scaled_products(m, query, key_turned);
    x = score(m, CUDNN_POINTWISE_SUB, x, given(m, STNI_CUDNN_LSE));
    if (m->p->causal)
        x = limit(m, x);
    const tensor weights = score(m, CUDNN_POINTWISE_EXP, x, NULL);
    gather(m, weights, grad, STNI_CUDNN_GRAD_VALUE);
    x = multiply(m, grad, given_turned(m, STNI_CUDNN_VALUE), scores(m, CUDNN_DATA_FLOAT));
    x = score(m, CUDNN_POINTWISE_SUB, x, means);
    x = score(m, CUDNN_POINTWISE_MUL, x, weights);
    x = score(m, CUDNN_POINTWISE_MUL, x, m->scale);
    gather(m, x, query, STNI_CUDNN_GRAD_KEY);
    struct stni_cudnn_tensor key = operand_of(m, STNI_CUDNN_KEY);
    multiply(m, x, view(m, key_turned, between(m, key)), given(m, STNI_CUDNN_GRAD_QUERY));
}

void stni_cudnn_describe_attention(struct stni_cudnn_graph *graph, const struct stni_cudnn_attention *attention)
{
    struct maker m = {.graph = graph, .p = attention};
    if (attention->is_gradient)
        describe_gradients(&m);
    else
        describe_forward(&m);
}
