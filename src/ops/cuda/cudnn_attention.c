/* Attention and its gradients as graphs of operations, in the order in which cuDNN's engines for attention know them
 * again. Of each graph one kernel is made: what is virtual is in no memory, but for the products of the gradient of
 * scores, which lie in the workspace. (There is a second form, in which gradients of queries are added up by all
 * blocks: two runs of that differ.)
 * Source: Dao 2023, "FlashAttention-2"; cuDNN's documentation, "Fused flash attention fprop", "bprop". */
#include "ops/cuda/cudnn_graph.h"

typedef cudnnBackendDescriptor_t tensor;

struct description {
    struct stni_cudnn_graph *graph;
    const struct stni_cudnn_attention *p;
    tensor scale;
};

/* --- tensors of (batch, heads, m, n) */

static tensor make(struct description *d, const struct stni_cudnn_tensor *t)
{
    return stni_cudnn_make_tensor(d->graph, t);
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

static struct stni_cudnn_tensor operand_of(const struct description *d, int operand)
{
    const struct stni_cudnn_attention *p = d->p;
    const int64_t *stride = p->stride[operand];
    const int by_keys = stni_cudnn_is_by_keys(operand);
    return (struct stni_cudnn_tensor){
        .name = STNI_CUDNN_FIRST_OPERAND + operand,
        .type = operand == STNI_CUDNN_LSE ? CUDNN_DATA_FLOAT : stni_cudnn_type_of(p->dtype),
        .ndim = 4,
        .shape = {p->batch, by_keys ? p->key_heads : p->heads, by_keys ? p->keys : p->rows, width_of(p, operand)},
        .stride = {stride[0], stride[1], stride[2], 1},
    };
}

static tensor given(struct description *d, int operand)
{
    const struct stni_cudnn_tensor t = operand_of(d, operand);
    return make(d, &t);
}

static void turn(struct stni_cudnn_tensor *t)
{
    const int64_t rows = t->shape[2], stride = t->stride[2];
    t->shape[2] = t->shape[3], t->shape[3] = rows;
    t->stride[2] = t->stride[3], t->stride[3] = stride;
}

/* An operand's transpose, which is where the operand is. */
static tensor given_turned(struct description *d, int operand)
{
    struct stni_cudnn_tensor t = operand_of(d, operand);
    turn(&t);
    return make(d, &t);
}

/* A number of the host's. */
static tensor number(struct description *d, int64_t name, cudnnDataType_t type)
{
    const struct stni_cudnn_tensor t = {
        .name = name, .type = type, .ndim = 4, .shape = {1, 1, 1, 1}, .stride = {1, 1, 1, 1}, .is_by_value = 1};
    return make(d, &t);
}

/* Dense, of all heads of queries. */
static struct stni_cudnn_tensor dense(struct description *d, cudnnDataType_t type, int64_t rows, int64_t cols)
{
    const struct stni_cudnn_attention *p = d->p;
    return (struct stni_cudnn_tensor){
        .type = type,
        .ndim = 4,
        .shape = {p->batch, p->heads, rows, cols},
        .stride = {p->heads * rows * cols, rows * cols, cols, 1},
    };
}

static tensor between(struct description *d, struct stni_cudnn_tensor t)
{
    t.is_virtual = 1;
    t.name = STNI_CUDNN_FIRST_VIRTUAL + d->graph->n_virtual++;
    return make(d, &t);
}

/* A number for each row and key; for each row. */
static tensor scores(struct description *d, cudnnDataType_t type)
{
    return between(d, dense(d, type, d->p->rows, d->p->keys));
}

static tensor row_numbers(struct description *d)
{
    return between(d, dense(d, CUDNN_DATA_FLOAT, d->p->rows, 1));
}

/* --- operations; each returns its result */

/* A part of an operation, NULL where it has none. */
struct member {
    int name;
    tensor part;
};

enum { MOST_MEMBERS = 5 };

static tensor operate(struct description *d, cudnnBackendDescriptorType_t type,
                      const struct member members[MOST_MEMBERS], tensor to)
{
    const tensor operation = stni_cudnn_part(d->graph, type);
    for (int i = 0; i < MOST_MEMBERS; i++)
        if (members[i].part)
            stni_cudnn_set_part(d->graph, operation, members[i].name, members[i].part);
    stni_cudnn_add_operation(d->graph, operation);
    return to;
}

static tensor multiply(struct description *d, tensor a, tensor b, tensor to)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const tensor how = stni_cudnn_part(d->graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    stni_cudnn_set(d->graph, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    stni_cudnn_finish(d->graph, how);
    const struct member members[MOST_MEMBERS] = {
        {CUDNN_ATTR_OPERATION_MATMUL_DESC, how},
        {CUDNN_ATTR_OPERATION_MATMUL_ADESC, a},
        {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b},
        {CUDNN_ATTR_OPERATION_MATMUL_CDESC, to},
    };
    return operate(d, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, members, to);
}

static tensor reduce(struct description *d, cudnnReduceTensorOp_t by, tensor x, tensor to)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const tensor how = stni_cudnn_part(d->graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    stni_cudnn_set(d->graph, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by);
    stni_cudnn_set(d->graph, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    stni_cudnn_finish(d->graph, how);
    const struct member members[MOST_MEMBERS] = {
        {CUDNN_ATTR_OPERATION_REDUCTION_DESC, how},
        {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x},
        {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to},
    };
    return operate(d, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, members, to);
}

/* Other strides for what lies somewhere. */
static tensor view(struct description *d, tensor x, tensor to)
{
    const struct member members[MOST_MEMBERS] = {
        {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x},
        {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, to},
    };
    return operate(d, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, members, to);
}

/* A function of elements; `second` and `which` are NULL where it has fewer. */
struct function {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t type; /* that it is computed in */
    int64_t axis;         /* of GEN_INDEX, else -1 */
};

static tensor map(struct description *d, const struct function *f, tensor x, tensor second, tensor which, tensor to)
{
    const tensor how = stni_cudnn_part(d->graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    stni_cudnn_set(d->graph, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &f->mode);
    stni_cudnn_set(d->graph, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f->type);
    if (f->axis >= 0)
        stni_cudnn_set(d->graph, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &f->axis);
    stni_cudnn_finish(d->graph, how);
    const struct member members[MOST_MEMBERS] = {
        {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how},
        {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
        {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, second},
        {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, which},
        {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to},
    };
    return operate(d, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, members, to);
}

static tensor apply(struct description *d, cudnnPointwiseMode_t mode, tensor x, tensor second, tensor to)
{
    return map(d, &(struct function){mode, CUDNN_DATA_FLOAT, -1}, x, second, NULL, to);
}

/* Numbers of rows and keys, from ones and a second operand. */
static tensor score(struct description *d, cudnnPointwiseMode_t mode, tensor x, tensor second)
{
    return apply(d, mode, x, second, scores(d, CUDNN_DATA_FLOAT));
}

static tensor count(struct description *d, cudnnPointwiseMode_t mode, tensor x, tensor second)
{
    return map(d, &(struct function){mode, CUDNN_DATA_INT32, -1}, x, second, NULL, scores(d, CUDNN_DATA_INT32));
}

static tensor index_along(struct description *d, tensor x, int64_t axis)
{
    const struct function f = {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis};
    return map(d, &f, x, NULL, NULL, scores(d, CUDNN_DATA_INT32));
}

/* --- what attention is made of */

/* Scores become -infinity where a row may not attend to a key. */
static tensor limit(struct description *d, tensor score)
{
    const tensor nothing = number(d, STNI_CUDNN_NOTHING, CUDNN_DATA_FLOAT);
    tensor last = index_along(d, score, 2); /* the last key that a row attends to */
    if (d->p->is_last) {
        last = count(d, CUDNN_POINTWISE_ADD, last, number(d, STNI_CUDNN_KEYS, CUDNN_DATA_INT32));
        last = count(d, CUDNN_POINTWISE_SUB, last, number(d, STNI_CUDNN_ROWS, CUDNN_DATA_INT32));
    }
    const tensor key = index_along(d, score, 3), attends = scores(d, CUDNN_DATA_BOOLEAN);
    map(d, &(struct function){CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1}, last, key, NULL, attends);
    const struct function select = {CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1};
    return map(d, &select, score, nothing, attends, scores(d, CUDNN_DATA_FLOAT));
}

static tensor scaled_products(struct description *d, tensor query, tensor key_turned)
{
    d->scale = number(d, STNI_CUDNN_SCALE, CUDNN_DATA_FLOAT);
    const tensor products = multiply(d, query, key_turned, scores(d, CUDNN_DATA_FLOAT));
    return score(d, CUDNN_POINTWISE_MUL, products, d->scale);
}

/* Probabilities, of which the log-sum-exp of rows is kept. */
static tensor softmax(struct description *d, tensor x)
{
    const tensor largest = reduce(d, CUDNN_REDUCE_TENSOR_MAX, x, row_numbers(d));
    const tensor from_largest = score(d, CUDNN_POINTWISE_SUB, x, largest);
    const tensor power = score(d, CUDNN_POINTWISE_EXP, from_largest, NULL);
    const tensor sum = reduce(d, CUDNN_REDUCE_TENSOR_ADD, power, row_numbers(d));
    const tensor log_sum = apply(d, CUDNN_POINTWISE_LOG, sum, NULL, row_numbers(d));
    apply(d, CUDNN_POINTWISE_ADD, largest, log_sum, given(d, STNI_CUDNN_LSE));
    return apply(d, CUDNN_POINTWISE_DIV, power, sum, scores(d, stni_cudnn_type_of(d->p->dtype)));
}

static void describe_forward(struct description *d)
{
    tensor score = scaled_products(d, given(d, STNI_CUDNN_QUERY), given_turned(d, STNI_CUDNN_KEY));
    if (d->p->causal)
        score = limit(d, score);
    multiply(d, softmax(d, score), given(d, STNI_CUDNN_VALUE), given(d, STNI_CUDNN_OUT));
}

/* The product of each row of the cotangent with the result's. */
static tensor describe_means(struct description *d, tensor grad)
{
    const tensor products = between(d, dense(d, CUDNN_DATA_FLOAT, d->p->rows, d->p->value_width));
    apply(d, CUDNN_POINTWISE_MUL, grad, given(d, STNI_CUDNN_OUT), products);
    const tensor sums = reduce(d, CUDNN_REDUCE_TENSOR_ADD, products, row_numbers(d));
    struct stni_cudnn_tensor means = dense(d, CUDNN_DATA_FLOAT, d->p->rows, 1);
    means.name = STNI_CUDNN_FIRST_OPERAND + STNI_CUDNN_MEANS;
    return apply(d, CUDNN_POINTWISE_MUL, sums, number(d, STNI_CUDNN_ONE, CUDNN_DATA_FLOAT), make(d, &means));
}

/* Adds up numbers of rows and keys, times rows, for each key: a gradient of keys or values. */
static void gather(struct description *d, tensor weights, tensor rows, int operand)
{
    struct stni_cudnn_tensor turned = dense(d, stni_cudnn_type_of(d->p->dtype), d->p->rows, d->p->keys);
    turn(&turned);
    const tensor by_key = view(d, weights, between(d, turned));
    multiply(d, by_key, rows, given(d, operand));
}

static void describe_gradients(struct description *d)
{
    const tensor query = given(d, STNI_CUDNN_QUERY), key_turned = given_turned(d, STNI_CUDNN_KEY);
    const tensor grad = given(d, STNI_CUDNN_GRAD), means = describe_means(d, grad);
    tensor x = scaled_products(d, query, key_turned);
    x = score(d, CUDNN_POINTWISE_SUB, x, given(d, STNI_CUDNN_LSE));
    if (d->p->causal)
        x = limit(d, x);
    const tensor weights = score(d, CUDNN_POINTWISE_EXP, x, NULL);
    gather(d, weights, grad, STNI_CUDNN_GRAD_VALUE);
    x = multiply(d, grad, given_turned(d, STNI_CUDNN_VALUE), scores(d, CUDNN_DATA_FLOAT));
    x = score(d, CUDNN_POINTWISE_SUB, x, means);
    x = score(d, CUDNN_POINTWISE_MUL, x, weights);
    x = score(d, CUDNN_POINTWISE_MUL, x, d->scale);
    gather(d, x, query, STNI_CUDNN_GRAD_KEY);
    struct stni_cudnn_tensor key = operand_of(d, STNI_CUDNN_KEY);
    multiply(d, x, view(d, key_turned, between(d, key)), given(d, STNI_CUDNN_GRAD_QUERY));
}

void stni_cudnn_describe_attention(struct stni_cudnn_graph *graph, const struct stni_cudnn_attention *attention)
{
    struct description d = {.graph = graph, .p = attention};
    if (attention->is_gradient)
        describe_gradients(&d);
    else
        describe_forward(&d);
}
