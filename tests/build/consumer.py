"""A program outside the tree is built against the installed library and run.

usage: consumer.py (pkg-config|cmake) BUILD_DIR ROOT VERSION PREFIX LIBDIR COMPILER...

`meson install` writes into a temporary folder, so that nothing is read from the source tree."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run(command, check=True, **options)


def pkg_config(destdir, libdir, *wanted):
    environment = {**os.environ, "PKG_CONFIG_PATH": str(libdir / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(destdir)}
    return run("pkg-config", *wanted, "shardtensor", env=environment, text=True, stdout=subprocess.PIPE).stdout.split()


def build_with_pkg_config(work, destdir, libdir, version, compiler):
    if pkg_config(destdir, libdir, "--modversion") != [version]:
        sys.exit(f"pkg-config does not report version {version}")
    flags = pkg_config(destdir, libdir, "--cflags", "--libs")
    program = work / "consumer"
    run(*compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", str(work / "consumer.c"), "-o", str(program), *flags)
    return program


def build_with_cmake(work, destdir, libdir, version, compiler):
    lists = work / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("@VERSION@", version))
    run("cmake", "-S", str(work), "-B", str(work / "build"), f"-Dshardtensor_DIR={libdir / 'cmake/shardtensor'}",
        f"-DCMAKE_C_COMPILER={compiler[-1]}")
    run("cmake", "--build", str(work / "build"))
    return work / "build/consumer"


def main():
    how, build_dir, root, version, prefix, libdir_name, *compiler = sys.argv[1:]
    tool, build = {"pkg-config": ("pkg-config", build_with_pkg_config), "cmake": ("cmake", build_with_cmake)}[how]
    if shutil.which(tool) is None:
        print(f"{tool} is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory() as temporary:
        work, destdir = pathlib.Path(temporary, "consumer"), pathlib.Path(temporary, "installed")
        shutil.copytree(pathlib.Path(root, "tests/build/consumer"), work)
        run("meson", "install", "--no-rebuild", "--quiet", "-C", build_dir, "--destdir", str(destdir))
        libdir = destdir / prefix.lstrip("/") / libdir_name
        program = build(work, destdir, libdir, version, compiler)
        run(str(program), env={**os.environ, "LD_LIBRARY_PATH": str(libdir)})
    return 0


try:
    sys.exit(main())
except subprocess.CalledProcessError as error:
    sys.exit(f"status {error.returncode}: {' '.join(error.cmd)}")
