"""What a process needs to import the package, and how it ends, whatever is still alive."""
import subprocess
import sys
import unittest

# What a program leaves behind when it ends, after `import shardtensor as st`.
PROGRAMS = {
    "an open context and its tensors": """
context = st.Context()
x = context.factory("randn", context.spec(context.mesh(1), "S0", (4, 3)))
x.requires_grad = True
loss = (x * x).sum()
""",
    "tensors of closed contexts": """
context = st.Context()
x = context.factory("ones", context.spec(None, None, (3,)))
context.close()
""",
    "cycles through everything": """
class Cycle: pass
cycle = Cycle()
cycle.context = st.Context()
cycle.mesh = cycle.context.mesh(1)
cycle.x = cycle.context.factory("ones", cycle.context.spec(cycle.mesh, "R", (3,)))
cycle.op = cycle.context.op("mul")
cycle.outputs, cycle.pullback = cycle.op.pullback([cycle.x, cycle.x], {}, 3)
cycle.self = cycle
""",
    "exports and lent memory": """
import ctypes
context, other = st.Context(), st.Context()
memory = (ctypes.c_double * 4)()
x = context.wrap(ctypes.addressof(memory), "f64", (4,), (1,), memory)
y = other.from_dlpack(x)
capsule = x.__dlpack__(max_version=(1, 0))
""",
    "contexts and tensors of a launch": """
kept = st.launch(3, lambda context: (context, context.factory("ones", context.spec(context.mesh(3), "S0", (7,)))))
""",
    "a context that a thread is still using": """
import threading, time
context = st.Context()
x = context.factory("ones", context.spec(None, None, (1000,)))
def work():
    while True:
        (x + 1).sum().item()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
""",
    "a communicator that is Python's": """
class Collectives:
    def all_reduce(self, address, count, dtype, op): pass
    def group(self, dtype, sends, receives): pass
    def subset(self, ranks): return self
context = st.Context(comm=Collectives(), rank=0, size=1)
x = context.factory("ones", context.spec(context.mesh(1), "P", (3,)))
""",
    "hooks, functions on chunks and a log that know everything": """
lines = []
context = st.Context(log=lambda *line: lines.append((line, context)), log_level="debug")
x = context.factory("ones", context.spec(context.mesh(1), "S0", (3,)))
x.requires_grad = True
hook = x.add_grad_hook(lambda leaf: (x, context, hook))
y = x * x
y.add_tensor_hook(lambda gradient: (y, hook))
z = context.local_map(lambda x: x * 1, [y], x.spec, backward=lambda *all: (z, all))
file = st.File
""",
    "hooks and graphs of a launch": """
def main(context):
    x = context.factory("ones", context.spec(context.mesh(context.size), "S0", (7,)))
    x.requires_grad = True
    y = context.local_map(lambda x: x * 1, [x], x.spec, backward=lambda *all: (y, all))
    x.add_tensor_hook(lambda gradient: (x, y, context))
    return context, y, y.add_tensor_hook(lambda gradient: y)
kept = st.launch(3, main, log=lambda *line: None)
kept[0][2].remove()
""",
    "a call at the very end": """
import atexit
context = st.Context()
x = context.factory("ones", context.spec(None, None, (3,)))
class Last:
    def __del__(self):
        try:
            x.sum().item()
        except Exception:
            pass
last = Last()
atexit.register(lambda: x.sum().item())
""",
    "an exception that nobody catches": """
import sys
sys.excepthook = lambda *what: print("caught")
context = st.Context()
x = context.factory("ones", context.spec(None, None, (3, 2)))
x @ x
""",
}


def run(program, *options):
    return subprocess.run([sys.executable, *options, "-c", program],
                          capture_output=True,
                          text=True,
                          timeout=60)


class Process(unittest.TestCase):
    def test_import_needs_neither_torch_nor_numpy(self):
        done = run("""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy"):
            raise ImportError("not here: " + name)
sys.meta_path.insert(0, Refuse())
import shardtensor as st
with st.Context() as context:
    print((context.factory("ones", context.spec(None, None, (3,))) * 2).sum().item())
assert not {"torch", "numpy"} & set(sys.modules)
""")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "6.0\n", ""))

    def test_it_ends_without_a_crash_whatever_is_alive(self):
        for name, program in PROGRAMS.items():
            with self.subTest(name):
                done = run("import shardtensor as st\n" + program + "print('end')")
                uncaught = name == "an exception that nobody catches"
                self.assertEqual((done.returncode, done.stdout, done.stderr),
                                 (int(uncaught), "caught\n" if uncaught else "end\n", ""))


if __name__ == "__main__":
    unittest.main()
