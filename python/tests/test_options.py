"""What a context is made with, what it chooses later, its log and its traces."""
import gc
import json
import os
import random
import tempfile
import unittest
import weakref

import shardtensor as st
from ranks import START, TestCase, leaf, make, on_ranks, values, whole


def launch(ranks, function, **options):
    return st.launch(ranks, function, deadline_seconds=60, **options)


class Promotion(TestCase):
    def test_local_tensors_are_refused_or_stand_for_replicated_ones(self):
        def multiply(context):
            x, y = leaf(context, context.mesh(context.size)), make(context, None, None, (5,), range(5))
            return whole((x * y).detach())

        for ranks in 1, 2, 3:
            for options in {}, {"promotion": "refuse"}:
                with self.assertRaisesRegex(st.ArgumentError, "'other' is local"):
                    launch(ranks, multiply, **options)
            for promotion in "warn", "silent":
                lines = []
                found = launch(ranks, multiply, promotion=promotion, log=lambda *line: lines.append(line))
                self.assertEqual(found, [[v * i for i, v in enumerate(START)]] * ranks)
                self.assertEqual({line[:2] for line in lines if "mul" in line[2]},
                                 {("warning", r) for r in range(ranks)} if promotion == "warn" else set())
        with st.Context(promotion="silent") as context:
            self.assertEqual(multiply(context), [v * i for i, v in enumerate(START)])

    def test_other_words_are_refused(self):
        for make_one in st.Context, lambda **options: st.launch(2, print, **options):
            wanted = "promotion got 'all', wanted one of \\['refuse', 'warn', 'silent'\\]"
            for options, text in ({"promotion": "all"}, wanted), ({"log_level": "all"}, "log_level got 'all'"):
                with self.assertRaisesRegex(ValueError, text):
                    make_one(**options)
            with self.assertRaisesRegex(TypeError, "log: got 3, wanted a function"):
                make_one(log=3)
            with self.assertRaisesRegex(st.ArgumentError, "isa got"):
                make_one(isa="avx1024")


class Sums(TestCase):
    def test_reproducible_sums_have_the_same_bits_on_any_number_of_ranks(self):
        draw = random.Random(1)
        numbers = [draw.uniform(-1, 1) * 10.0**draw.randint(-8, 8) for _ in range(1000)]

        def total(context):
            return make(context, context.mesh(context.size), "S0", (1000,), numbers).sum().item()

        import math
        self.assertEqual({launch(n, total, reproducible_sums=True)[0] for n in (1, 2, 3, 5)}, {math.fsum(numbers)})
        self.assertGreater(len({launch(n, total)[0] for n in (1, 2, 3, 5)} | {math.fsum(numbers)}), 1)
        with st.Context(reproducible_sums=True) as context:
            self.assertEqual(total(context), math.fsum(numbers))


class Log(TestCase):
    def test_lines_come_at_the_level_asked_for(self):
        lines = []
        with st.Context(log=lambda *line: lines.append(line), log_level="debug") as context:
            x = make(context, None, None, (2,), [1, 2])
            self.assertEqual(lines, [])
            with self.assertRaises(st.ShapeError) as caught:
                x @ make(context, None, None, (3,), [1, 2, 3])
            context.dump_calls()
        self.assertEqual(lines[0], ("debug", 0, "shapes do not fit: " + str(caught.exception)))
        self.assertIn(("info", 0, "calls on the world, 1 ranks"), lines)
        del lines[:]
        with st.Context(log=lambda *line: lines.append(line)) as context:
            context.dump_calls()
            x = make(context, None, None, (2,), [1, 2])
        self.assertEqual([line[0] for line in lines], ["warning"])  # a tensor was left
        with st.Context() as context:
            context.dump_calls()

    def test_what_it_raises_fails_nothing_and_it_calls_nothing(self):
        import sys
        seen, hook = [], sys.unraisablehook
        sys.unraisablehook = lambda what: seen.append(str(what.exc_value))
        try:
            with st.Context(log=lambda level, rank, text: context.stats(), log_level="info") as context:
                context.dump_calls()
                self.assertEqual(context.stats()["collectives"], 0)
        finally:
            sys.unraisablehook = hook
        self.assertIn("a function that gets lines of the log calls the library", seen)

    def test_it_is_let_go(self):
        class Log:
            def __call__(self, *line):
                pass

        log = Log()
        log.context = st.Context(log=log)  # a cycle
        launch(2, lambda context: None, log=log)
        gone = weakref.ref(log)
        del log
        gc.collect()
        self.assertIsNone(gone())


class Switches(TestCase):
    @on_ranks(1, 2, 3)
    def test_gradients_do_not_depend_on_when_they_are_reduced_and_gathered(self, context, mesh):
        found = []
        for overlap, again in (False, False), (True, False), (False, True), (True, True):
            context.set_grad_overlap(overlap)
            context.set_gather_again(again)
            w, v = leaf(context, mesh, "S0"), leaf(context, mesh, "R")
            x = make(context, mesh, "S0", (7, 5), range(35))
            ((x * w).exp().log() * (w.redistribute("R") * v)).sum().backward()
            found.append([whole(w.grad), whole(v.grad)])
        self.assertEqual(found[1:], found[:1] * 3)

    @on_ranks(2)
    def test_gather_again_keeps_chunks(self, context, mesh):
        held = []
        for again in False, True:
            context.set_gather_again(again)
            w = leaf(context, mesh, "S0", range(4000))
            before = context.stats()["live_bytes"]
            y = w.redistribute("R").exp().sum() * 1
            whole_weight = w.redistribute("R")
            z = (whole_weight * whole_weight).sum()
            del whole_weight
            held.append(context.stats()["live_bytes"] - before)
            del y, z
        self.assertLess(held[1], held[0])

    @on_ranks(1, 3)
    def test_halos_and_rings(self, context, mesh):
        x = make(context, mesh, "S2", (1, 1, 9, 4), range(36))
        w = make(context, mesh, "R", (1, 1, 3, 3), range(9))
        q = make(context, mesh, "S2", (1, 2, 6, 4), [i % 7 / 7 for i in range(48)])
        found = []
        for when in "where_it_pays", "never", "always":
            context.set_halo_overlap(when)
            context.set_ring_attention(when)
            context.stats_reset()
            found.append((whole(st.ops.conv2d(x, w, padding=1)), whole(st.ops.scaled_dot_product_attention(q, q, q)),
                          context.stats()["messages"]))
        self.assertEqual([f[0] for f in found], [found[0][0]] * 3)
        for f in found:
            self.close(f[1], found[0][1])
        for switch in context.set_halo_overlap, context.set_ring_attention:
            with self.assertRaisesRegex(ValueError, "got 'often', wanted one of"):
                switch("often")
            with self.assertRaises(TypeError):
                switch(True)
        context.trim()


class Counters(TestCase):
    @on_ranks(1, 2)
    def test_they_tell_why_the_host_waited(self, context, mesh):
        x = make(context, mesh, "S0", (5,), START)
        context.stats_reset()
        context.from_local_gather_shapes(x.to_local(), mesh, "S0")
        with st.trace(context, os.devnull):
            context.trace_summary()
        stats = context.stats()
        self.assertEqual(sum(stats["host_syncs_by"].values()), stats["host_syncs"])
        self.assertGreater(stats["host_syncs_by"]["trace"], 0)
        self.assertEqual(stats["host_syncs_by"]["counts"], 1)
        self.assertEqual(sorted(stats["host_syncs_by"]), ["agreement", "caller", "counts", "export", "group", "memory",
                                                          "staging", "trace", "values"])
        self.assertGreaterEqual(stats["allocations"], stats["allocator_calls"])


class Agreement(TestCase):
    @on_ranks(1, 2, 3)
    def test_what_one_rank_finds_is_everybodys(self, context, mesh):
        context.agree()
        context.agree(None)
        last = context.size - 1
        alone = context.rank == last
        with self.assertRaisesRegex(st.CallbackError, "rank %d: no file" % last if last else "no file"):
            context.agree("no file" if alone else None)
        with self.assertRaises(OSError if alone else st.CallbackError) as caught:
            context.agree(finding=OSError("no file") if alone else None)
        self.assertEqual(str(caught.exception), "no file" if alone else "rank %d: OSError: no file" % last)
        with self.assertRaises(st.ShapeError):
            try:
                n = 1 + 2 * alone
                make(context, None, None, (2,), [1, 2]) @ make(context, None, None, (n,), [1] * n)
            except st.Error as error:
                context.agree(error)
        self.assertRaises(TypeError, context.agree, 3)
        context.agree()


class Traces(TestCase):
    @on_ranks(1, 2, 3)
    def test_a_trace_is_written_and_summed_up(self, context, mesh):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a trace.json")
            x = leaf(context, mesh)
            context.trace_align_clocks()
            with st.trace(context, path):
                with st.trace_range(context, "my \"épaisse\" band"):
                    (x * x).sum().backward()
                table = context.trace_summary()
            with open(path, encoding="utf-8") as file:
                names = [event.get("name") for event in json.load(file)["traceEvents"]]
            self.assertTrue({"mul", "sum", "backward", "my \"épaisse\" band"} <= set(names), names)
            self.assertIn("backward", table)
            self.assertIn("band", table)
            with self.assertRaises(st.StateError):
                context.trace_summary()
            with self.assertRaises(st.StateError):
                context.trace_end(path)
            with self.assertRaises(KeyError), st.trace(context, path):
                raise KeyError
            with self.assertRaises(st.FileError), st.trace(context, os.path.join(folder, "no", "such")):
                pass
            context.trace_begin()
            with self.assertRaises(st.StateError):
                context.trace_begin()
            context.trace_end(path)
            with st.trace_range(context, "without a trace"):
                pass
            with self.assertRaises(TypeError):
                context.trace_range_begin(3)


class Frozen(TestCase):
    @on_ranks(1, 2)
    def test_nothing_writes_to_what_is_frozen(self, context, mesh):
        x = make(context, mesh, "S0", (5,), START)
        y = x[1:]
        self.assertFalse(x.is_frozen)
        version = x.version
        x.mul_(1)
        self.assertGreater(x.version, version)
        x.freeze()
        x.freeze()
        self.assertTrue(x.is_frozen and y.is_frozen)
        for write in lambda: x.add_(1), lambda: y.fill_(1), lambda: x.copy_(x * 2):
            with self.assertRaises(st.StateError):
                write()
        self.assertEqual(whole(x + 0), START)
        w = leaf(context, mesh)
        with self.assertRaises(st.StateError):
            w.freeze()


if __name__ == "__main__":
    unittest.main()
