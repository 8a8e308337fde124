"""Meshes, placements and specs of torch.distributed.tensor beside the library's, which alone say how a tensor lies."""
import itertools

import torch
from torch.distributed.tensor.placement_types import Partial, Replicate, Shard

from .. import Mesh
from ._dtypes import DTYPES, name_of
from ._collectives import know
from ._world import table, world

REDUCTIONS = {"sum": "sum", "avg": "avg", "product": "prod", "min": "min", "max": "max"}
REDUCTIONS_BACK = {ours: theirs for theirs, ours in REDUCTIONS.items()}


def mesh_of(device_mesh):
    """The library's mesh of a DeviceMesh; on ranks that are threads, which have no process groups, it is given
    itself."""
    if isinstance(device_mesh, Mesh):
        return noted(device_mesh)
    world(device=device_mesh.device_type)
    meshes = table("meshes")
    mesh = meshes.get(device_mesh)
    if mesh is None:
        ranks = device_mesh.mesh
        mesh = meshes[device_mesh] = world().mesh(tuple(ranks.shape), None, tuple(ranks.flatten().tolist()))
        table("device meshes").setdefault(noted(mesh), device_mesh)
        for axis in range(device_mesh.ndim if mesh.coordinate is not None else 0):
            know(device_mesh.get_group(axis))
    return mesh


def first_streams():
    """{mesh: the stream of random numbers that it began with} of all meshes that ShardTensors may be on."""
    return table("first streams")


def noted(mesh):
    known = first_streams()
    if mesh not in known:
        known[mesh] = mesh.random_stream
    return mesh


def device_mesh_of(mesh):
    return table("device meshes").get(mesh, mesh)


def ranks_of(mesh):
    return map(mesh.rank_at, itertools.product(*map(range, mesh.shape)))


def place_of(spec):
    """A spec in words that mean the same in any process of a world of as many ranks: its mesh, what it is on it, and
    what its placements are called on axes of one rank."""
    mesh = spec.mesh
    names = None if mesh.names is None else list(mesh.names)
    return [list(mesh.shape), names, list(ranks_of(mesh)), spec.to_bytes().hex(), list(spec.placements)]


def spec_at(context, place):
    """The spec of such words, in a context. Nothing is communicated."""
    *grid, layout, placements = place
    return context.mesh(*grid).spec_from_bytes(bytes.fromhex(layout)).like(placements)


def spec_of_place(place):
    return ShardTensorSpec(spec_at(world(), place))


def is_ours(placement):
    """Whether the library has it. DTensor has kinds of Partial that are no reduction of the numbers alone, as that of a
    norm, and shards in another order."""
    return type(placement) in (Replicate, Shard) or type(placement) is Partial and placement.reduce_op in REDUCTIONS


def text_of(placement, ndim):
    if not is_ours(placement):
        raise TypeError("placements: got %r, wanted Replicate(), Shard(dim) or Partial(one of %s)" %
                        (placement, ", ".join(REDUCTIONS)))
    if placement.is_replicate():
        return "R"
    if placement.is_partial():
        return "P(%s)" % REDUCTIONS[placement.reduce_op]
    return "S%d" % dim_of(placement, ndim)


def dim_of(shard, ndim):
    """The dim that it shards of a tensor of so many, counted from the front."""
    if not -ndim <= shard.dim < ndim:
        raise IndexError("placements: got %r, wanted one of a dim of a tensor with %d" % (shard, ndim))
    return shard.dim % ndim


def placement_of(text):
    if text == "R":
        return Replicate()
    return Shard(int(text[1:])) if text[0] == "S" else Partial(REDUCTIONS_BACK[text[2:-1]])


def make_spec(device_mesh, placements, dtype, shape, sizes=None):
    shape = tuple(shape)
    texts = [text_of(p, len(shape)) for p in placements]
    return world().spec(mesh_of(device_mesh), texts, shape, name_of(dtype), sizes)


def moved_spec(spec, device_mesh, placements):
    """The layout of these placements that keeps the cuts of `spec` where it can."""
    mesh = mesh_of(device_mesh)
    texts = [text_of(p, len(spec.shape)) for p in placements]
    return spec.like(texts) if spec.mesh == mesh else world().spec(mesh, texts, spec.shape, spec.dtype)


def replicated(mesh, dtype, shape):
    return world().spec(mesh, ["R"] * len(mesh.shape), tuple(shape), dtype)


def complete(spec):
    """The same layout without a pending reduction."""
    return spec.gradient()


def is_pending(spec):
    return spec != complete(spec)


def torch_cuts(shape, device_mesh, placements):
    """torch.chunk's cuts, by which DTensor lays its shards: {dim: sizes}. Local."""
    ranks, cuts = (device_mesh.shape if isinstance(device_mesh, Mesh) else tuple(device_mesh.mesh.shape)), {}
    for axis, placement in enumerate(placements):
        if not placement.is_shard():
            continue
        dim = dim_of(placement, len(shape))
        pieces = []
        for n in cuts.get(dim, [shape[dim]]):  # a dim that several axes shard is cut again, the first axis first
            most = -(-n // ranks[axis])
            pieces += [max(0, min(most, n - i * most)) for i in range(ranks[axis])]
        cuts[dim] = pieces
    return cuts or None


class ShardTensorSpec:
    """How a ShardTensor lies, as PhysicsNeMo's users ask it: every answer is the library's."""
    def __init__(self, spec):
        self.spec = spec
        self.mesh = device_mesh_of(spec.mesh)
        self.placements = tuple(placement_of(text) for text in spec.placements)
        self.shape = torch.Size(spec.shape)
        self.ndim = len(spec.shape)

    @property
    def dtype(self):
        return DTYPES[self.spec.dtype]

    @property
    def local_shape(self):
        return torch.Size(self.spec.local_shape)

    @property
    def tensor_meta(self):
        from torch.distributed.tensor._dtensor_spec import TensorMeta
        return TensorMeta(self.shape, torch.empty(self.shape, device="meta").stride(), self.dtype)

    def sharding_shapes(self, mesh_dim=None):
        """{mesh dim: the shapes of the chunks along it}, for this rank's line of the mesh."""
        me, found = self.spec.mesh.coordinate, {}
        for axis, placement in enumerate(self.placements):
            if placement.is_shard() and me is not None:
                line = [me[:axis] + (k,) + me[axis + 1:] for k in range(self.spec.mesh.shape[axis])]
                found[axis] = tuple(torch.Size(self.spec.chunk(self.spec.mesh.rank_at(at))[0]) for at in line)
        return found if mesh_dim is None else found[mesh_dim]

    def offsets(self, mesh_dim=None):
        """Where this rank's chunk begins, along the dim that each mesh dim shards."""
        starts = [self.spec.local_offset[p.dim] if p.is_shard() else 0 for p in self.placements]
        return tuple(starts) if mesh_dim is None else starts[mesh_dim]

    def is_replicated(self):
        return all(p.is_replicate() for p in self.placements)

    def __eq__(self, other):
        return isinstance(other, ShardTensorSpec) and self.spec == other.spec

    def __hash__(self):
        return hash(self.spec)

    def __deepcopy__(self, memo):
        return self  # nobody changes it

    def __reduce__(self):
        return spec_of_place, (place_of(self.spec), )

    def __repr__(self):
        return "ShardTensor%r" % self.spec
