"""Every public header compiles alone, and twice in a row, as strict C11 or as C++17.

usage: headers.py (c11|c++17) INCLUDE_DIR COMPILER... -- HEADER...

The list of headers comes from include/shardtensor/meson.build and must name every header of that folder."""
import pathlib
import shutil
import subprocess
import sys

FLAGS = {
    "c11": ["-x", "c", "-std=c11", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Wconversion"],
    "c++17": ["-x", "c++", "-std=c++17", "-Wconversion"],
}
COMMON = ["-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-pedantic-errors", "-Werror"]


# Headers over a library that the caller has: where its own header is not to be found they cannot be compiled.
FOREIGN = {"mpi.h": ("mpi.h", ("ompi-c", "mpich"))}


def foreign_flags(packages):
    """Include folders as pkg-config knows them, as the compiler's own: their warnings are not ours."""
    for package in packages:
        found = subprocess.run(["pkg-config", "--cflags-only-I", package], text=True, capture_output=True)
        if found.returncode == 0:
            return [flag.replace("-I", "-isystem", 1) for flag in found.stdout.split()]
    return []


def compile_alone(compiler, language, include_dir, includes, flags=()):
    # ISO C forbids a translation unit that declares nothing, which a header of macros alone would be.
    source = "".join(f"#include <{header}>\n" for header in includes) + "typedef int declaration;\n"
    command = [*compiler, *FLAGS[language], *COMMON, *flags, "-I", include_dir, "-"]
    return subprocess.run(command, input=source, text=True, capture_output=True)


def main():
    language, include_dir, *rest = sys.argv[1:]
    at = rest.index("--")
    compiler, listed = rest[:at], {pathlib.Path(h).name for h in rest[at + 1:]}
    present = {h.name for h in pathlib.Path(include_dir, "shardtensor").glob("*.h")}

    failed = 0
    for name in sorted(present ^ listed):
        where = "is not in include/shardtensor/meson.build" if name in present else "does not exist"
        print(f"{name}: {where}")
        failed += 1
    for name in sorted(present & listed):
        flags = []
        if name in FOREIGN and shutil.which("pkg-config"):
            flags = foreign_flags(FOREIGN[name][1])
        if name in FOREIGN and compile_alone(compiler, language, include_dir, [FOREIGN[name][0]], flags).returncode:
            print(f"none {name} as {language}: there is no <{FOREIGN[name][0]}>")
            continue
        result = compile_alone(compiler, language, include_dir, [f"shardtensor/{name}"] * 2, flags)
        print(f"{'FAIL' if result.returncode else 'ok  '} {name} as {language}")
        if result.returncode:
            print(result.stderr)
            failed += 1
    return 1 if failed or not present else 0


sys.exit(main())
