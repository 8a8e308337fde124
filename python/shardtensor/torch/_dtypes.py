"""Names of element types, there and here."""
import torch

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
    "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool, "c64": torch.complex64, "c128": torch.complex128,
    "i8": torch.int8, "i16": torch.int16
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def name_of(dtype):
    """The library's name of a dtype."""
    if dtype not in NAMES:
        raise TypeError("%s is no dtype of shardtensor, which has %s" % (dtype, ", ".join(NAMES.values())))
    return NAMES[dtype]
