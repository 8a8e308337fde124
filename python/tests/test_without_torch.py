"""Where there is no torch, the programs that need it say so and are skipped, and the package says which is missing."""
import glob
import os
import subprocess
import sys
import unittest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch")
# A module that is None in sys.modules cannot be imported.
RUN = "import runpy, sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; sys.path.insert(0, %r); " \
      "runpy.run_path(sys.argv[0], run_name='__main__')" % FOLDER


class WithoutTorch(unittest.TestCase):
    def test_programs_are_skipped(self):
        programs = glob.glob(os.path.join(FOLDER, "test_*.py"))
        programs += [os.path.join(FOLDER, name) for name in ("fuzz.py", "opinfo.py", "one_after_another.py")]
        self.assertGreater(len(programs), 9)
        for program in programs:
            with self.subTest(os.path.basename(program)):
                ended = subprocess.run([sys.executable, "-c", RUN, program], capture_output=True, text=True)
                self.assertEqual(ended.returncode, 77, ended.stderr)
                self.assertIn("no torch here", ended.stdout)

    def test_the_package_names_what_is_missing(self):
        load = "import sys; sys.modules['torch'] = None; import shardtensor.torch"
        ended = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True)
        self.assertRegex(ended.stderr.splitlines()[-1], "^(ModuleNotFound|Import)Error: .*torch")


if __name__ == "__main__":
    unittest.main()
