"""What ranks tell each other beside tensors: shapes, names, reasons."""
import json

import torch
from torch.distributed.tensor.placement_types import Shard

from ._layout import make_spec
from ._memory import laid, to_torch
from ._world import place, world

LENGTH = 2048  # bytes, in which the shape of a tensor of 64 dims finds room


def tell_all(note):
    """What each rank of the world says, by rank: anything that JSON has, of at most LENGTH bytes. Collective over the
    world."""
    context = world()
    text = json.dumps(note).ljust(LENGTH).encode()
    spec = make_spec(context.mesh(context.size), [Shard(0)], torch.uint8, (context.size, LENGTH))
    notes = laid(torch.tensor([list(text)], dtype=torch.uint8, device=place()), spec).full_tensor()
    return [json.loads(bytes(row)) for row in to_torch(notes).tolist()]
