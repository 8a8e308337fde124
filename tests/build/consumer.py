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


def run_with_mpi(work, destdir, libdir, compiler):
    """The same with the caller's MPI, on two ranks, where this build has the module."""
    if not (libdir / "shardtensor/libshardtensor-mpi.so").is_file() or shutil.which("mpirun") is None:
        print("no MPI module is installed, or there is no mpirun")
        return
    flags = pkg_config(destdir, libdir, "--cflags", "--libs")
    mpi = next((p for p in ("ompi-c", "mpich") if subprocess.run(["pkg-config", "--exists", p]).returncode == 0), "mpi")
    flags += subprocess.run(["pkg-config", "--cflags", "--libs", mpi], check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    program = work / "consumer_mpi"
    run(*compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", str(work / "consumer_mpi.c"), "-o", str(program), *flags)
    told = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    run("mpirun", "-n", "2", str(program), env={**os.environ, **told, "LD_LIBRARY_PATH": str(libdir)}, timeout=60)


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
        if how == "pkg-config":
            run_with_mpi(work, destdir, libdir, compiler)
    return 0


try:
    sys.exit(main())
except subprocess.CalledProcessError as error:
    sys.exit(f"status {error.returncode}: {' '.join(error.cmd)}")
