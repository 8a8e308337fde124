"""10,000 steps of training, pullbacks, refusals and exchanges leave nothing behind: neither handles nor memory."""
import gc
import resource
import threading
import unittest

import shardtensor as st
from ranks import TestCase, make

STEPS = 10000


def step(context, x, w, mul):
    w.zero_grad()
    product = x * w
    hooks = [product.add_tensor_hook(lambda g: g * 1), w.add_tensor_hook(lambda g: None), w.add_grad_hook(id)]
    product.retain_grad()
    loss = ((product + 1).softmax(1) @ w).mean()
    loss.backward()
    for hook in hooks:
        hook.remove()
    context.local_map(lambda x, w: x * w, [x, w], x.spec, backward=lambda i, o, g, n: (g[0], i[1] * 1)).sum().backward()
    x[1:, 0] = x[0, 1]
    x[:, w > 1.5] = 1
    with st.no_grad(context):
        w.add_(w.grad, alpha=-0.1)
    outputs, pullback = mul.pullback([x, w], {}, 3)
    grads, again = pullback.apply((outputs[0],), 3, again=True)
    again.apply(grads, 1)
    try:
        x @ x
    except st.ShapeError:
        pass
    try:
        st.ops.add(x, 1, nonsense=2)
    except TypeError:
        pass
    context.from_dlpack(x.detach())
    x.spec.like(shape=(5,))
    st.ops.cat([x, x], dim=0)[1:, None].split(2)
    try:
        context.local_map(lambda x: 1 / 0, [x], "S0")
    except ZeroDivisionError:
        pass
    repeated, _ = st.capture(context, lambda: (x * w).sum())
    repeated.run()


class Waiting:
    """Collectives of a rank whose peer never comes."""
    def __init__(self):
        self.called, self.go = threading.Event(), threading.Event()

    def all_reduce(self, address, count, dtype, op):
        self.called.set()
        self.go.wait(30)
        raise OSError("nobody came")


class Leaks(TestCase):
    def test_steps_leave_nothing(self):
        with st.Context() as context:
            x = make(context, context.mesh(1), "S0", (4, 3), range(12))
            w = make(context, context.mesh(1), "R", (3,), [1, 2, 3])
            w.requires_grad = True
            mul, seen = context.op("mul"), []
            for at in range(STEPS):
                step(context, x, w, mul)
                if at in (STEPS // 4, STEPS - 1):
                    gc.collect()
                    stats = context.stats()
                    seen.append([stats[k] for k in ("live_tensors", "live_storages", "live_bytes", "specs")] +
                                [len(gc.get_objects())])
                    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                    seen[-1].append(peak)
            first, last = seen
            self.assertEqual(last[:4], first[:4])
            self.assertLessEqual(last[4] - first[4], 10)
            self.assertLessEqual(last[5] - first[5], 1024, "KiB of resident memory after three quarters of the steps")

    def test_pullbacks_given_up_during_a_call_go_with_their_context(self):
        for _ in range(40):
            self.give_up(200)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(100):
            self.give_up(200)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertLessEqual(grown, 8192, "KiB; all that were given up have 24,000")

    def give_up(self, n):
        """A context that is not closed, and whose last call runs while its pullbacks are given up."""
        comm = Waiting()
        context = st.Context(comm=comm, rank=0, size=2)
        x = make(context, context.mesh(2), "S0", (4,), range(4))
        pullbacks = [context.op("mul").pullback([x, x], {}, 3)[1] for _ in range(n)]
        thread = threading.Thread(target=lambda: self.assertRaises(st.CommunicationError, x.sum().item))
        thread.start()
        comm.called.wait(30)
        pullbacks.clear()
        comm.go.set()
        thread.join()

    def test_launches_leave_nothing(self):
        def main(context):
            return make(context, context.mesh(context.size), "S0", (4,), range(4)).sum().item()

        for _ in range(20):
            st.launch(2, main)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(gc.get_objects())
        for _ in range(100):
            self.assertEqual(st.launch(2, main), [6.0, 6.0])
        gc.collect()
        self.assertLessEqual(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before[0], 1024)
        self.assertLessEqual(len(gc.get_objects()) - before[1], 10)


if __name__ == "__main__":
    unittest.main()
