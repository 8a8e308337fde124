"""Checkpoints of a run, and files as they lie there."""
import os
import struct
import tempfile
import unittest

import shardtensor as st
from ranks import START, TestCase, give_gradient, leaf, make, on_ranks, values, whole


class InFolder(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a run.safetensors")


class Checkpoints(InFolder):
    def run_on(self, ranks, placements, first, last, load, save, sizes=None):
        """Steps first to last, of which each draws random numbers; what the run is then."""
        def main(context):
            mesh = context.mesh(context.size)
            w = make(context, mesh, placements, (5,), START, sizes=sizes)
            w.requires_grad = True
            scale = make(context, mesh, "R", (2,), [1, 1])
            optimizer, average = context.adamw({"w": w}, 0.1), context.average({"w": w})
            run = dict(optimizer=optimizer, average=average, tensors={"scale": scale})
            at, file = context.checkpoint_load(load, **run) if load else (first, None)
            self.assertEqual(at, first)
            if file:
                self.assertEqual(file.metadata("data"), "all of it")
                self.assertEqual(file["w.average"], ("f64", (5,)))
            for step in range(first, last):
                give_gradient(context, mesh, w, values(context.factory("randn", context.spec(mesh, "R", (5,), "f64"))))
                optimizer.set_rate_factor(1 / (1 + step))
                optimizer.step()
                optimizer.zero_grad()
                average.update(0.5)
                scale.mul_(2)
            if save:
                context.checkpoint_save(save, step=last, texts={"data": "all of it"}, **run)
            return [whole(t.detach()) for t in (w, average.means["w"], scale)], optimizer.steps, context.random_state()

        found = st.launch(ranks, main, seed=7, deadline_seconds=60)
        for other in found[1:]:
            self.assertEqual(other, found[0])
        return found[0]

    def test_a_run_goes_on_in_another_layout_as_if_it_had_never_stopped(self):
        wanted = self.run_on(2, "S0", 0, 4, None, None)
        self.run_on(2, "S0", 0, 2, None, self.path)
        for ranks, placements, sizes in ((1, "R", None), (2, "S0", {0: [0, 5]}), (3, "S0", None),
                                         (3, "S0", {0: [4, 0, 1]})):
            got = self.run_on(ranks, placements, 2, 4, self.path, None, sizes)
            for a, b in zip(got[0], wanted[0]):
                self.close(a, b)
            self.assertEqual(got[1:], wanted[1:])

    @on_ranks(1, 2, 3)
    def test_what_is_wrong_is_said_on_all_ranks(self, context, mesh):
        w = leaf(context, mesh)
        path = self.path + str(context.size)
        context.checkpoint_save(path, context.sgd({"w": w}, momentum=0.5), step=1 << 40)
        self.assertEqual(context.checkpoint_load(path)[0], 1 << 40)
        with self.assertRaises(st.ArgumentError):
            context.checkpoint_load(path, context.adamw({"w": w}))
        with self.assertRaises(st.FileError):
            context.checkpoint_load(path + ".not", context.sgd({"w": w}))
        with self.assertRaises(st.NotFoundError):
            context.checkpoint_load(path, tensors={"v": w})
        with self.assertRaises(st.ArgumentError):
            context.checkpoint_save(path, texts={"stn.mine": "no"})
        average = context.average({"w": w})
        average.swap()
        with self.assertRaises(st.StateError):
            context.checkpoint_save(path, average=average)
        for call in (lambda: context.checkpoint_save(path, 3), lambda: context.checkpoint_save(path, average=3),
                     lambda: context.checkpoint_load(path, tensors=[w]), lambda: context.checkpoint_save(path, texts=3),
                     lambda: context.checkpoint_save(path, step="a"), lambda: context.checkpoint_save(3)):
            self.assertRaises(TypeError, call)
        self.assertEqual(whole(w.detach()), START)


class FileOnDisk(InFolder):
    def test_a_file_says_what_it_holds(self):
        with st.Context() as context:
            context.save(self.path, {"a": make(context, None, None, (2, 3), range(6), "i32"),
                                     "none": make(context, None, None, (0,), [])}, {"made by": "a test"})
        file = st.File(self.path)
        self.assertEqual(len(file), 2)
        self.assertEqual(sorted(file.names), ["a", "none"])
        self.assertEqual((file["a"], file["none"]), (("i32", (2, 3)), ("f64", (0,))))
        self.assertEqual(file.read("a"), struct.pack("<6i", *range(6)))
        self.assertEqual(file.read("none"), b"")
        self.assertEqual(file.metadata("made by"), "a test")
        for call in (lambda: file["b"], lambda: file.read("b"), lambda: file.metadata("b")):
            self.assertRaises(KeyError, call)
        for call in (lambda: file[0], lambda: file.read(0), lambda: file.metadata(0), lambda: st.File(3)):
            self.assertRaises(TypeError, call)
        with open(self.path, "r+b") as raw:
            raw.truncate(os.path.getsize(self.path) - 4)
        with self.assertRaisesRegex(st.FileError, "shorter"):
            file.read("a")
        with self.assertRaisesRegex(st.FileError, "a run.safetensors"):
            st.File(self.path)
        with self.assertRaisesRegex(st.FileError, "is not there"):
            st.File("is not there")


if __name__ == "__main__":
    unittest.main()
