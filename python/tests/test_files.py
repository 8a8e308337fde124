"""Files of tensors and of optimizers: what one layout saves, another loads."""
import json
import os
import struct
import tempfile
import unittest

import shardtensor as st
from ranks import TestCase, make, on_ranks, whole
from test_optimizer import START, adamw, give_gradient, leaf


class Files(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a file.safetensors")

    def test_an_optimizer_goes_on_in_another_layout(self):
        def train(context, placements, before, after):
            mesh = context.mesh(context.size)
            w = leaf(context, mesh, placements)
            optimizer = context.adamw({"w": w}, 0.1)
            if before:
                optimizer.load(self.path)
            for _ in range(2):
                give_gradient(context, mesh, w)
                optimizer.step()
                optimizer.zero_grad()
            if after:
                optimizer.save(self.path)
            self.assertEqual(optimizer.steps, 4 if before else 2)
            return whole(w.detach())

        st.launch(2, lambda context: train(context, "S0", False, True), deadline_seconds=60)
        for got in st.launch(3, lambda context: train(context, "R", True, False), deadline_seconds=60):
            self.close(got, adamw(4, 0.1, 0.9, 0.999, 1e-8, 0))

    @on_ranks(1, 3)
    def test_tensors_come_back(self, context, mesh):
        path = self.path
        saved = {"a": make(context, mesh, "S0", (5,), START), "b": make(context, mesh, "R", (2,), [1, 2], "i64")}
        context.save(path.encode() if context.size == 1 else path, saved, {"made by": "a test"})
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        self.assertEqual(header["__metadata__"]["made by"], "a test")
        loaded = {"b": make(context, mesh, "S0", (2,), [0, 0], "i64"), "a": make(context, mesh, "R", (5,), [0.0] * 5)}
        context.load(path, loaded)
        self.assertEqual(whole(loaded["a"]), START)
        self.assertEqual(whole(loaded["b"]), [1, 2])
        context.save(path, {})
        with self.assertRaisesRegex(st.NotFoundError, "no tensor 'b'"):
            context.load(path, loaded)
        with self.assertRaises(st.FileError):
            context.load(path + ".is.not.there", loaded)

    def test_what_is_wrong_is_said(self):
        with st.Context() as context:
            x = make(context, None, None, (2,), [1, 2])
            for call in [lambda: context.save(self.path, [x]), lambda: context.save(self.path, {"x": 1}),
                         lambda: context.load(self.path, None), lambda: context.save(1, {"x": x})]:
                self.assertRaises(TypeError, call)
            for metadata in [], {"key": 1}, {1: "text"}:
                with self.assertRaisesRegex(TypeError, "metadata"):
                    context.save(self.path, {"x": x}, metadata)
            self.assertRaises(ValueError, context.save, self.path + "\0", {"x": x})
            self.assertFalse(os.path.exists(self.path))


if __name__ == "__main__":
    unittest.main()
