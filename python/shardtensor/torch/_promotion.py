"""What happens to plain tensors among ShardTensors: they are Replicate, silently, with a warning, or not at all."""
import enum
import warnings


class TensorPromotionMode(enum.Enum):
    SILENT = "silent"
    WARN = "warn"
    DISABLED = "disabled"


def check_promotion(mode, inputs, func):
    """Numbers in tensors of no dims are always taken."""
    if mode is TensorPromotionMode.SILENT:
        return
    plain = [t for t in inputs if t is not None and getattr(t, "_handle", None) is None and t.ndim > 0]
    if plain and mode is TensorPromotionMode.DISABLED:
        raise RuntimeError("%s: a plain tensor among ShardTensors, and promotion is disabled" %
                           getattr(func, "__name__", func))
    if plain:
        warnings.warn("%s: auto-promoting a plain tensor to Replicate" % getattr(func, "__name__", func), stacklevel=4)
