"""A program outside the tree is built against the installed library and run.

usage: consumer.py (pkg-config|cmake|pkg-config-static|cmake-static|subproject) BUILD_DIR ROOT VERSION PREFIX LIBDIR COMPILER...

`meson install` writes into a temporary folder, so that nothing is read from the source tree. For the archive a second build is configured as the README
says, for pkg-config without the shared library and for CMake with it, and given the objects of the first; so is a project that has this one as its subproject."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run(command, check=True, **options)


FEATURES = ("onednn", "fftw", "cjson", "netcdf", "png")


def options_of(build_dir):
    """What decides which objects the library consists of, as arguments of meson setup."""
    told = json.loads(pathlib.Path(build_dir, "meson-info/intro-buildoptions.json").read_text())
    values = {option["name"]: option["value"] for option in told}
    wanted = (*FEATURES, "auto_features", "prefix", "libdir", "buildtype", "b_ndebug")
    return [f"-D{name}={values[name]}" for name in wanted] + ["-Dmpi=disabled", "-Dcuda=disabled"]


def setup(source, build, *options):
    environment = {**os.environ, "CC": os.environ.get("CC", "cc")}
    return run("meson", "setup", str(build), str(source), *options, env=environment, text=True, stdout=subprocess.PIPE).stdout


def copy_archive(build_dir, to):
    """An archive that is not installed holds the paths of its objects alone."""
    folder = pathlib.Path(build_dir, "src")
    members = subprocess.run(["ar", "t", "libshardtensor.a"], cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    to.parent.mkdir(parents=True, exist_ok=True)
    print(f"+ ar crs {to}: {len(members)} objects", flush=True)
    subprocess.run(["ar", "crs", str(to), *members], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def copy_shared(build_dir, to):
    to.mkdir(parents=True, exist_ok=True)
    for library in pathlib.Path(build_dir, "src").glob("libshardtensor.so*"):
        if library.is_file() and not library.is_symlink():
            shutil.copy(library, to)


def install_static(build_dir, root, destdir, libraries):
    build = destdir.parent / "static"
    told = f"-Ddefault_library={libraries}"
    if told not in (pathlib.Path(root) / "README.md").read_text():
        sys.exit(f"the README does not say that the archive wants {told}")
    setup(root, build, told, "-Dtests=false", "-Dtools=false", "-Dexamples=false", *options_of(build_dir))
    copy_archive(build_dir, build / "src/libshardtensor.a")
    if libraries == "both":
        copy_shared(build_dir, build / "src")
    run("meson", "install", "--no-rebuild", "--quiet", "--tags", "devel,runtime", "-C", str(build), "--destdir", str(destdir))
    if bool(list(destdir.rglob("libshardtensor.so*"))) != (libraries == "both"):
        sys.exit(f"a build with {told} installs {'no' if libraries == 'both' else 'a'} shared library")


def without_library(program):
    """A program that has the library in it asks the loader for none."""
    if "libshardtensor" in run("ldd", str(program), text=True, stdout=subprocess.PIPE).stdout:
        sys.exit(f"{program} links the shared library")


PARENT = """project('parent', 'c')
executable('consumer', 'consumer.c', dependencies: dependency('shardtensor', version: '>= 0.1'%s))
"""
FALLBACK = ", fallback: ['shardtensor']"


def wrap_of_readme(root):
    """The wrap that the README shows."""
    wraps = re.findall(r"```ini\n(\[wrap-git\]\n.*?)```", (pathlib.Path(root) / "README.md").read_text(), re.DOTALL)
    if len(wraps) != 1:
        sys.exit(f"the README shows {len(wraps)} wraps, wanted 1")
    return wraps[0]


def configure_by_wrap(work, options):
    """With the README's wrap the dependency is found without a word of it in the project. The folder that it would be cloned to is there already."""
    (work / "meson.build").write_text(PARENT % "")
    (work / "subprojects/shardtensor.wrap").write_text(wrap_of_readme(work / "subprojects/shardtensor"))
    told = setup(work, work / "by_wrap", *options)
    if not re.search(r"Dependency shardtensor found: YES .*overridden", told):
        sys.exit("the wrap does not provide the dependency:\n" + told)


def build_as_subproject(work, build_dir, root):
    """Everything but the library, whose objects are those of the first build."""
    (work / "subprojects").mkdir()
    (work / "subprojects/shardtensor").symlink_to(root)
    options = [o for o in options_of(build_dir) if o.split("=")[0] in ("-Dprefix", "-Dlibdir")]
    configure_by_wrap(work, options)
    (work / "subprojects/shardtensor.wrap").unlink()
    (work / "meson.build").write_text(PARENT % FALLBACK)
    build = work / "parent"
    setup(work, build, *options)
    targets = json.loads(run("meson", "introspect", "--targets", str(build), text=True, stdout=subprocess.PIPE).stdout)
    foreign = [t["name"] for t in targets if t["type"] == "executable" and t["name"] != "consumer"]
    if foreign:
        sys.exit(f"a subproject builds {', '.join(foreign)}")
    run("ninja", "-C", str(build), "consumer.p/consumer.c.o", stdout=subprocess.DEVNULL)
    to = next(pathlib.Path(t["filename"][0]) for t in targets if t["name"] == "shardtensor" and t["type"] == "shared library")
    copy_shared(build_dir, to.parent)
    links = run("ninja", "-C", str(build), "-t", "commands", "-s", "consumer", text=True, stdout=subprocess.PIPE).stdout
    run("sh", "-c", links, cwd=build)
    run(str(build / "consumer"))


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
    target = "static" if (libdir / "libshardtensor.a").is_file() else "shardtensor"
    lists.write_text(lists.read_text().replace("@VERSION@", version).replace("@TARGET@", target))
    run("cmake", "-S", str(work), "-B", str(work / "build"), f"-Dshardtensor_DIR={libdir / 'cmake/shardtensor'}",
        f"-DCMAKE_C_COMPILER={compiler[-1]}")
    run("cmake", "--build", str(work / "build"))
    return work / "build/consumer"


def main():
    how, build_dir, root, version, prefix, libdir_name, *compiler = sys.argv[1:]
    tool, static = how.removesuffix("-static"), how.endswith("-static")
    if tool != "subproject" and shutil.which(tool) is None:
        print(f"{tool} is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory() as temporary:
        work, destdir = pathlib.Path(temporary, "consumer"), pathlib.Path(temporary, "installed")
        shutil.copytree(pathlib.Path(root, "tests/build/consumer"), work)
        if tool == "subproject":
            build_as_subproject(work, build_dir, root)
            return 0
        libdir = destdir / prefix.lstrip("/") / libdir_name
        if static:
            install_static(build_dir, root, destdir, "both" if tool == "cmake" else "static")
        else:
            run("meson", "install", "--no-rebuild", "--quiet", "-C", build_dir, "--destdir", str(destdir))
        build = {"pkg-config": build_with_pkg_config, "cmake": build_with_cmake}[tool]
        program = build(work, destdir, libdir, version, compiler)
        run(str(program), env={**os.environ, "LD_LIBRARY_PATH": str(libdir)})
        if static:
            without_library(program)
        elif tool == "pkg-config":
            run_with_mpi(work, destdir, libdir, compiler)
    return 0


try:
    sys.exit(main())
except subprocess.CalledProcessError as error:
    sys.exit(f"status {error.returncode}: {' '.join(error.cmd)}")
