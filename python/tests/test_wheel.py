"""A wheel of this build runs the first example of docs/python.md in a fresh environment, with nothing but itself. With
the CUDA module inside it opens a GPU, or says what is missing of one."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT, BUILD = (pathlib.Path(os.environ[name]) for name in ("STN_TEST_ROOT", "STN_TEST_BUILD"))
TORCH = os.environ["STN_TEST_TORCH_PYTHON"]  # a Python that may have torch

# What of the process's memory is neither the machine's C and C++ libraries, Python's own, nor the environment's.
STRANGERS = """
import re, sys, sysconfig
paths = set(re.findall(r"(/\\S+\\.so\\S*)", open("/proc/self/maps").read()))
known = (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
bare = re.compile(r"(ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\\+\\+|python\\d|z|expat|ffi))[-.\\d]")
print(sorted(p for p in paths if not p.startswith(known) and not bare.match(p.rsplit("/", 1)[1])))
print(sorted(p.rsplit("/", 1)[1] for p in paths if "shardtensor" in p))
"""


# What comes of a GPU, and the files of CUDA's runtime in the process. {} is what is imported before.
ON_A_GPU = """
{}
import re
import shardtensor as st
try:
    st.launch(1, lambda context: print("opened"), device="cuda")
except st.Error as error:
    print(error)
print(*sorted(set(re.findall(r"(/\\S*libcudart\\S*)", open("/proc/self/maps").read()))))
"""


def first_example():
    """The first block of docs/python.md."""
    block = re.search(r"\n\n((?:    .*\n|\n)+)", (ROOT / "docs/python.md").read_text()).group(1)
    return "\n".join(line[4:] for line in block.splitlines())


def run(*command, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LD_", "PIP_"))}
    done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True, timeout=200, **options)
    if done.returncode:
        raise AssertionError("%s\n%s%s" % (" ".join(map(str, command)), done.stdout, done.stderr))
    return done.stdout


class WithWheel(unittest.TestCase):
    options = []

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        options = [*cls.options, "--build", BUILD, "--out", folder.name]
        cls.wheel = pathlib.Path(run(ROOT / "scripts/wheel", *options).strip())


class Wheel(WithWheel):
    def test_it_runs_the_first_example_in_a_fresh_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertRegex(self.wheel.name, r"^shardtensor-[\d.]+-cp311-abi3-manylinux_\d+_\d+_\w+\.whl$")
            python = pathlib.Path(folder, "env/bin/python")
            run(sys.executable, "-m", "venv", python.parent.parent)
            run(python, "-m", "pip", "install", "--no-index", "--no-cache-dir", self.wheel)
            example = first_example()
            self.assertIn("st.launch(4, step)", example)
            told = run(python, "-c", example + "\nprint(st.__file__)" + STRANGERS, cwd=folder).splitlines()
            self.assertTrue(told[0].startswith(str(python.parent.parent)), told[0])
            self.assertEqual(told[1], "[]")
            for name in "'_c.abi3.so'", "'libshardtensor.so.":
                self.assertIn(name, told[2])

    def test_its_record_holds_all_files(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            record = archive.read(next(n for n in names if n.endswith("/RECORD"))).decode()
            notices = [n.rsplit("/", 1)[1] for n in names if "/licenses/" in n]
        self.assertEqual(sorted(line.split(",")[0] for line in record.splitlines()), sorted(names))
        sources = {f.name for f in (ROOT / "python/shardtensor").rglob("*.py")}
        self.assertEqual({n.rsplit("/", 1)[1] for n in names if n.endswith(".py")}, sources)
        self.assertIn("LICENSE", notices)


@unittest.skipUnless((BUILD / "src/libshardtensor-cuda.so").exists(), "this build has no CUDA module")
class WheelForGpus(WithWheel):
    options = ["--cuda"]

    def of(self, python, folder, before="", expected="opened|no CUDA driver was found"):
        """What a Python with the wheel in a folder of its path says of a GPU; the files of CUDA's runtime."""
        install = ["-m", "pip", "install", "--no-index", "--no-cache-dir", "--no-deps", "--target"]
        run(sys.executable, *install, folder, self.wheel)
        program = "import sys; sys.path.insert(0, %r)" % folder + ON_A_GPU.format(before)
        *told, runtimes = run(python, "-c", program, cwd=folder).splitlines()
        self.assertRegex("\n".join(told), expected)
        return runtimes.split()

    def test_the_module_is_beside_the_library(self):
        self.assertRegex(self.wheel.name, r"^shardtensor-[\d.]+\+cu\d+-cp311-abi3-")
        with zipfile.ZipFile(self.wheel) as archive:
            self.assertEqual([n for n in archive.namelist() if re.search(r"lib(cu|nccl|nv)[^/]*\.so", n)], [])
        with tempfile.TemporaryDirectory() as folder:
            self.of(sys.executable, folder, expected=r"opened|no CUDA driver was found|libcudart\.so\.\d+: cannot open")

    def test_with_torch_its_runtime_of_cuda_serves(self):
        version = "import torch; print(torch.version.cuda)"
        told = subprocess.run([TORCH, "-c", version], capture_output=True, text=True).stdout
        if "+cu%s-" % told.partition(".")[0] not in self.wheel.name:
            self.skipTest("torch here is for CUDA %s" % (told.strip() or "of no version"))
        with tempfile.TemporaryDirectory() as folder:
            runtimes = self.of(TORCH, folder, "import torch")
        self.assertEqual(len(runtimes), 1, runtimes)


if __name__ == "__main__":
    try:
        import ensurepip  # noqa: F401: environments are made with it
    except ImportError as error:
        print("skipped: no environment can be made here (%s)" % error)
        sys.exit(77)
    unittest.main()
