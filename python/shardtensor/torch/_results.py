"""Functions whose gradient reads their result alone, of which the pullback keeps the result: what else their nodes keep
for derivatives of that gradient. Not the input, which torch's own nodes do not keep either."""
import math

# A function of the result y, the cotangent g and the attributes: the gradient, whose derivatives are torch's. Below
# so many elements in all the input is saved: to save a result is a call of torch's, which takes longer than theirs.
FORMULAS = {
    "tanh": lambda y, g, attrs: g * (1 - y * y),
    "sigmoid": lambda y, g, attrs: g * (1 - y) * y,
    "exp": lambda y, g, attrs: g * y,
    "exp2": lambda y, g, attrs: g * y * math.log(2),
    "expm1": lambda y, g, attrs: g * (y + 1),
    "sqrt": lambda y, g, attrs: g / (2 * y),
    "rsqrt": lambda y, g, attrs: g * (y * y * y) * -0.5,
    "reciprocal": lambda y, g, attrs: -g * y * y,
    "tan": lambda y, g, attrs: g * (1 + y * y),
    "softmax": lambda y, g, attrs: y * (g - (y * g).sum(attrs["dim"], keepdim=True)),
    "log_softmax": lambda y, g, attrs: g - y.exp() * g.sum(attrs["dim"], keepdim=True),
}
LEAST = 1 << 18

# What a node saves of its tensors (shortcut.h): nothing, where the pullback keeps nothing; its inputs; nothing but what
# the pullback keeps, for which f(f(x)) is f(x), so that its result is as good as its input; its result; its inputs of
# integers and truths, where a gradient depends on these alone; of the factors of a product each whose other one has a
# gradient.
NOTHING, INPUTS, KEPT, RESULT, PLACES, FACTORS = range(6)
IDEMPOTENT = ("relu", )
PLACED = ("where", "masked_fill", "masked_select", "masked_scatter", "index", "index_select", "gather",
          "take_along_dim", "embedding", "scatter_add", "index_add", "index_put", "index_copy", "index_fill")
PRODUCTS = ("mul", "matmul", "mm", "bmm", "mv", "dot", "outer", "cross", "linear", "conv1d", "conv2d", "conv3d",
            "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
SAVES = {**dict.fromkeys(FORMULAS, RESULT), **dict.fromkeys(IDEMPOTENT, KEPT), **dict.fromkeys(PLACED, PLACES),
       **dict.fromkeys(PRODUCTS, FACTORS)}


def saves(op, pullback, n, given, result):
    """Told by metadata, so that ranks agree. `given`, `result`: the specs of the first input and of the result."""
    if not pullback.saved():
        return NOTHING
    how = SAVES.get(op.name, INPUTS)
    if how in (PLACES, FACTORS):
        return how
    is_real = result.dtype in ("f16", "bf16", "f32", "f64")
    if how == INPUTS or n != 1 or given != result or not is_real:
        return INPUTS
    return INPUTS if how == RESULT and math.prod(result.shape) < LEAST else how
