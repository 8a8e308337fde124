"""Optimizers, schedules and averages: what the library's own training has, from Python."""
import math
import unittest

import shardtensor as st
from ranks import GRADIENT, START, TestCase, give_gradient, leaf, make, on_ranks, values, whole


def sgd(steps, rate, momentum, decay):
    w, b = list(START), None
    for _ in range(steps):
        g = [g + decay * v for g, v in zip(GRADIENT, w)]
        b = g if b is None else [momentum * m + d for m, d in zip(b, g)]
        w = [v - rate * d for v, d in zip(w, b)]
    return w


def adamw(steps, rate, beta1, beta2, epsilon, decay, coupled=0):
    w, m, s = list(START), [0] * 5, [0] * 5
    for t in range(1, steps + 1):
        gradient = [g + coupled * v for g, v in zip(GRADIENT, w)]
        m = [beta1 * a + (1 - beta1) * g for a, g in zip(m, gradient)]
        s = [beta2 * a + (1 - beta2) * g * g for a, g in zip(s, gradient)]
        w = [v - rate * (decay * v + a / (1 - beta1**t) / (math.sqrt(b / (1 - beta2**t)) + epsilon))
             for v, a, b in zip(w, m, s)]
    return w


class Optimizers(TestCase):
    def steps(self, context, mesh, optimizer, w, n=3):
        for _ in range(n):
            give_gradient(context, mesh, w)
            optimizer.step()
            optimizer.zero_grad()
            self.assertIsNone(w.grad)

    @on_ranks(1, 2, 3)
    def test_steps_are_those_of_the_formulas(self, context, mesh):
        for placements in "S0", "R":
            w = leaf(context, mesh, placements)
            optimizer = context.sgd({"w": w}, 0.1, momentum=0.9, weight_decay=0.01)
            self.steps(context, mesh, optimizer, w)
            self.close(whole(w.detach()), sgd(3, 0.1, 0.9, 0.01))
            self.assertEqual(optimizer.steps, 3)
            w = leaf(context, mesh, placements)
            self.steps(context, mesh, context.adamw({"w": w}, 0.1, 0.8, 0.9, 1e-6, 0.02), w)
            self.close(whole(w.detach()), adamw(3, 0.1, 0.8, 0.9, 1e-6, 0.02))
            w = leaf(context, mesh, placements)
            self.steps(context, mesh, context.adam({"w": w}, 0.1, 0.8, 0.9, 1e-6, 0.5), w)
            self.close(whole(w.detach()), adamw(3, 0.1, 0.8, 0.9, 1e-6, 0, 0.5))

    @on_ranks(2)
    def test_numbers_have_the_defaults_that_are_told(self, context, mesh):
        w = leaf(context, mesh)
        self.steps(context, mesh, context.sgd({"w": w}), w)
        self.close(whole(w.detach()), sgd(3, 1e-3, 0, 0))
        w = leaf(context, mesh)
        self.steps(context, mesh, context.adamw({"w": w}), w)
        self.close(whole(w.detach()), adamw(3, 1e-3, 0.9, 0.999, 1e-8, 0))

    @on_ranks(1, 2)
    def test_groups_have_numbers_of_their_own_and_a_factor_is_of_all(self, context, mesh):
        w, v, u = (leaf(context, mesh) for _ in range(3))
        optimizer = context.sgd({"w": w}, 0.1, weight_decay=0.5)
        optimizer.add_group({"v": v}, rate=0.2, weight_decay=0)
        optimizer.add_group({"u": u})
        optimizer.set_rate_factor(0.5)
        for t in w, v, u:
            give_gradient(context, mesh, t)
        optimizer.step()
        self.close(whole(w.detach()), sgd(1, 0.05, 0, 0.5))
        self.close(whole(v.detach()), sgd(1, 0.1, 0, 0))
        self.close(whole(u.detach()), whole(w.detach()))

    @on_ranks(2)
    def test_a_captured_step_has_the_factor_of_now(self, context, mesh):
        w, wanted = leaf(context, mesh), leaf(context, mesh)
        captured, called = context.adamw({"w": w}, 0.1), context.adamw({"w": wanted}, 0.1)

        def train(optimizer, parameter):
            give_gradient(context, mesh, parameter)
            optimizer.step()
            optimizer.zero_grad()

        train(called, wanted)
        cotangent = make(context, mesh, "S0", (5,), GRADIENT)

        def step():
            (w * cotangent).sum().backward()
            captured.step()
            captured.zero_grad()

        again, _ = st.capture(context, step)
        for factor in 0.5, 2:
            for optimizer in captured, called:
                optimizer.set_rate_factor(factor)
            train(called, wanted)
            again.run()
            self.assertEqual(values(w.detach()), values(wanted.detach()))
        self.assertEqual(captured.steps, 3)

    def test_what_is_wrong_is_said(self):
        with st.Context() as context:
            mesh = context.mesh(1)
            w = leaf(context, mesh)
            for name, call in [("sgd: rate got 0", lambda: context.sgd({"w": w}, rate=0)),
                               ("adamw: rate got 0", lambda: context.adamw({"w": w}, rate=0)),
                               ("adam: beta2 got 0", lambda: context.adam({"w": w}, beta2=0)),
                               ("beta1 got 0", lambda: context.adamw({"w": w}, beta1=0)),
                               ("beta2 got 0", lambda: context.adamw({"w": w}, beta2=0)),
                               ("epsilon got 0", lambda: context.adamw({"w": w}, epsilon=0)),
                               ("beta1", lambda: context.adamw({"w": w}, beta1=1.5)),
                               ("nesterov", lambda: context.sgd({"w": w}, nesterov=True)),
                               ("''", lambda: context.sgd({"": w})),
                               ("'v' is the tensor that 'w' is", lambda: context.sgd({"w": w, "v": w}))]:
                with self.assertRaisesRegex(st.ArgumentError, name):
                    call()
            with self.assertRaisesRegex(st.StateError, "'w' does not require grad"):
                context.sgd({"w": w.detach()})
            for parameters in [w], {"w": 1}, {1: w}:
                with self.assertRaisesRegex(TypeError, "parameters"):
                    context.sgd(parameters)
            optimizer = context.sgd({})
            optimizer.step()
            with self.assertRaisesRegex(st.ArgumentError, "add_group: rate got 0"):
                optimizer.add_group({"w": w}, rate=0)
            with self.assertRaises(TypeError):
                optimizer.add_group({"w": w}, rate="fast")
            with self.assertRaises(TypeError):
                type(optimizer)()
            optimizer.add_group({"w": w})
        with self.assertRaisesRegex(st.StateError, "closed"):
            optimizer.step()
        self.assertEqual(optimizer.steps, 1)
        del optimizer

    @on_ranks(2)
    def test_what_is_gone_gives_back_its_memory(self, context, mesh):
        w = leaf(context, mesh, "S0", [1.0] * 64)
        before = context.stats()["live_bytes"]
        optimizer = context.adamw({"w": w})
        self.assertGreater(context.stats()["live_bytes"], before)
        del optimizer
        self.assertEqual(context.stats()["live_bytes"], before)


class Schedules(TestCase):
    def test_factors_are_those_of_the_formulas(self):
        self.close([st.schedule_constant(step, 3) for step in range(5)], [0.25, 0.5, 0.75, 1, 1])
        self.close([st.schedule_cosine(step, warm_up=1, total=5, least=0.2) for step in range(6)],
                   [0.5] + [0.2 + 0.4 * (1 + math.cos(math.pi * t / 4)) for t in range(4)] + [0.2])
        self.assertEqual(st.schedule_cosine(9, 0, 5), 0)
        with self.assertRaises(TypeError):
            st.schedule_constant(1.5, 3)


class Averages(TestCase):
    @on_ranks(1, 2, 3)
    def test_means_follow_parameters_and_change_places_with_them(self, context, mesh):
        w = leaf(context, mesh)
        average = context.average({"w": w})
        self.close(whole(average.means["w"]), START)
        give_gradient(context, mesh, w)
        context.sgd({"w": w}, rate=1).step()
        average.update(0.75)
        now = [a - g for a, g in zip(START, GRADIENT)]
        mean = [0.75 * a + 0.25 * b for a, b in zip(START, now)]
        self.close(whole(average.means["w"]), mean)
        self.close(whole(w.detach()), now)
        average.swap()
        self.close(whole(w.detach()), mean)
        self.close(whole(average.means["w"]), now)
        average.swap()
        self.close(whole(w.detach()), now)

    def test_what_is_wrong_is_said(self):
        with st.Context() as context:
            w = leaf(context, context.mesh(1))
            average = context.average({"w": w})
            with self.assertRaisesRegex(st.ArgumentError, "decay got 2"):
                average.update(2)
            with self.assertRaises(TypeError):
                average.update("much")
            with self.assertRaisesRegex(st.ArgumentError, "'v' is the tensor that 'w' is"):
                context.average({"w": w, "v": w})
            with self.assertRaisesRegex(TypeError, "parameters"):
                context.average([w])
            with self.assertRaises(TypeError):
                type(average)()
        with self.assertRaisesRegex(st.StateError, "closed"):
            average.update(0.5)
        with self.assertRaisesRegex(st.StateError, "closed"):
            average.swap()

    @on_ranks(2)
    def test_what_is_gone_gives_back_its_memory(self, context, mesh):
        w = leaf(context, mesh, "S0", [1.0] * 64)
        before = context.stats()["live_bytes"]
        average = context.average({"w": w})
        mean = average.means["w"]
        del average
        self.assertGreater(context.stats()["live_bytes"], before)
        self.assertEqual(whole(mean), [1.0] * 64)
        del mean
        self.assertEqual(context.stats()["live_bytes"], before)


if __name__ == "__main__":
    unittest.main()
