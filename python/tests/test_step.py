"""Captured steps: what was called once and is repeated gives what calling it again gives."""
import gc
import threading
import time
import unittest

import shardtensor as st
from ranks import TestCase, make, on_ranks, values, whole


class Steps(TestCase):
    def training(self, context, mesh):
        """A step of gradient descent, and the tensors that it is given and changes."""
        x = make(context, mesh, "S0", (7, 2), range(14))
        y = make(context, mesh, "S0", (7, 1), range(7))
        w = make(context, mesh, "R", (2, 1), [0.25, -0.5])
        w.requires_grad = True

        def step():
            loss = st.ops.mse_loss(x @ w, y)
            loss.backward()
            with st.no_grad(context):
                w.sub_(w.grad.mul(0.01))
            w.zero_grad()
            return loss

        return step, x, w

    @on_ranks(1, 2, 3)
    def test_repeated_steps_are_steps(self, context, mesh):
        called, of_called, wanted = self.training(context, mesh)
        captured, of_captured, got = self.training(context, mesh)
        losses = [called().item()]
        step, loss = st.capture(context, captured)
        self.assertEqual(loss.item(), losses[0])
        for more in range(1, 5):
            for inputs in of_called, of_captured:
                inputs.copy_(make(context, mesh, "S0", (7, 2), range(more, 14 + more)))
            losses.append(called().item())
            before = context.stats()
            step.run()
            self.assertEqual(context.stats()["dispatches"], before["dispatches"])
            self.assertEqual(loss.item(), losses[-1])
            self.assertEqual(values(got), values(wanted))
        self.assertNotEqual(losses[0], losses[1])
        self.assertIsNone(got.grad)
        self.assertGreater(step.graphs, 0)
        self.assertEqual("all_reduce" in step.calls, context.size > 1)

    @on_ranks(1, 2)
    def test_arguments_go_to_the_function(self, context, mesh):
        x = make(context, mesh, "S0", (5,), range(5))
        step, results = st.capture(context, lambda a, b: (a.mul(b), a.add(b)), x, b=2)
        x.copy_(make(context, mesh, "S0", (5,), [3, 1, 4, 1, 5]))
        step.run()
        self.assertEqual([whole(r) for r in results], [[6, 2, 8, 2, 10], [5, 3, 6, 3, 7]])

    @on_ranks(1, 2)
    def test_what_reads_values_is_refused_and_ends_the_capture(self, context, mesh):
        x = make(context, mesh, "S0", (5,), range(5))
        with self.assertRaisesRegex(st.StateError, "not in a captured step"):
            st.capture(context, lambda: x.sum().item())
        self.assertEqual(x.sum().item(), 10)
        step, total = st.capture(context, x.sum)
        self.assertEqual(total.item(), 10)

    @on_ranks(1, 2)
    def test_an_exception_of_the_function_is_raised(self, context, mesh):
        x = make(context, mesh, "S0", (5,), range(5))

        def fails():
            x.mul(2)
            raise KeyError("of the caller")

        with self.assertRaisesRegex(KeyError, "of the caller"):
            st.capture(context, fails)
        st.capture(context, x.sum)[0].run()

    @on_ranks(1)
    def test_where_no_step_can_be(self, context, mesh):
        x = make(context, mesh, "S0", (5,), range(5))
        with self.assertRaisesRegex(st.StateError, "captured already"):
            st.capture(context, lambda: st.capture(context, x.sum))
        with self.assertRaisesRegex(st.StateError, "no step"):
            context.capture_end()
        step, total = st.capture(context, x.sum)
        with self.assertRaises(st.StateError):
            st.capture(context, step.run)
        step.run()
        step.release()
        step.release()
        self.assertEqual((step.graphs, step.calls, total.item()), (0, (), 10))
        with self.assertRaisesRegex(st.StateError, "released"):
            step.run()
        with self.assertRaises(TypeError):
            type(step)()

    def test_a_step_may_outlive_its_context(self):
        context = st.Context()
        x = make(context, None, None, (2,), [1, 2])
        step, total = st.capture(context, x.sum)
        context.close()
        with self.assertRaisesRegex(st.StateError, "closed"):
            step.run()

    @on_ranks(2)
    def test_a_step_that_is_gone_gives_back_its_memory(self, context, mesh):
        x = make(context, mesh, "S0", (64,), range(64))
        gc.collect()
        before = context.stats()["live_bytes"]
        for _ in range(3):
            step, total = st.capture(context, lambda: x.mul(2).exp().mul(0).sum())
            step.run()
            self.assertGreater(context.stats()["live_bytes"], before)
            self.assertEqual(total.item(), 0)
            del step, total
        self.assertEqual(context.stats()["live_bytes"], before)

    @on_ranks(2)
    def test_a_step_that_goes_during_a_call_of_another_thread_goes_later(self, context, mesh):
        gone = self.__dict__.setdefault("gone", threading.Event())  # of both ranks
        x = make(context, mesh, "S0", (64,), range(64))
        total = x.sum()
        before = context.stats()["live_bytes"]
        step, _ = st.capture(context, lambda: x.exp().mul(0).sum())
        if context.rank == 0:
            waiting = threading.Thread(target=total.item)
            waiting.start()
            time.sleep(0.1)
            del step, _
            gone.set()
            waiting.join()
        else:
            self.assertTrue(gone.wait(30))
            total.item()
            del step, _
        context.grad_enabled()  # the next way in
        self.assertLessEqual(context.stats()["live_bytes"], before)


if __name__ == "__main__":
    unittest.main()
