"""What the shared library exports, imports and needs.

usage: symbols.py [--update] LIBRARY ROOT SONAME

Exports are those of tests/build/symbols.txt (--update rewrites it: read the difference before committing it) and every function
that a public header declares is among them. Imports hold nothing that would end the process, touch its signals or environment, or
print. The library needs no MPI, CUDA or NetCDF: modules, tools and examples bring those."""
import pathlib
import re
import subprocess
import sys

# Headers whose functions live in modules or in the caller's program.
MODULE_HEADERS = {"mpi.h", "nccl.h", "cuda.h"}

FORBIDDEN_IMPORTS = {
    "abort", "exit", "_exit", "_Exit", "quick_exit", "atexit", "raise", "kill", "signal", "sigaction", "setenv", "unsetenv",
    "putenv", "clearenv", "setlocale", "srand", "rand", "chdir", "umask", "system", "fork", "stdout", "stderr", "printf", "vprintf",
    "puts", "putchar", "perror",
    "__printf_chk", "__vprintf_chk",
}
FORBIDDEN_NEEDED = re.compile(r"lib(mpi|cuda|cudart|nccl|netcdf|hdf5|png)", re.IGNORECASE)

DECLARATION = re.compile(r"\bSTN_API\b[^;{}()]*?\b(stn_\w+)\s*\(")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def output(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def names(library, which):
    lines = output("nm", "-D", which, "--format=posix", library).splitlines()
    return {line.split()[0].split("@")[0] for line in lines}


def declared(root):
    found = {}
    for header in sorted((root / "include/shardtensor").glob("*.h")):
        if header.name not in MODULE_HEADERS:
            for name in DECLARATION.findall(COMMENT.sub("", header.read_text())):
                found[name] = header.name
    return found


def main():
    arguments = [a for a in sys.argv[1:] if a != "--update"]
    library, root, soname = arguments[0], pathlib.Path(arguments[1]), arguments[2]
    listed_file = root / "tests/build/symbols.txt"
    exported = names(library, "--defined-only")
    if "--update" in sys.argv:
        listed_file.write_text("".join(f"{name}\n" for name in sorted(exported)))

    problems = []
    listed = set(listed_file.read_text().split())
    promised = declared(root)
    problems += [f"{n}: exported, but not in symbols.txt" for n in sorted(exported - listed)]
    problems += [f"{n}: in symbols.txt, but not exported" for n in sorted(listed - exported)]
    problems += [f"{n}: declared in <shardtensor/{promised[n]}>, but not exported" for n in sorted(promised.keys() - exported)]
    problems += [f"{n}: exported, but declared in no public header" for n in sorted(exported - promised.keys())]
    problems += [f"{n}: the library must not call or use it" for n in sorted(names(library, "--undefined-only") & FORBIDDEN_IMPORTS)]

    dynamic = output("readelf", "-d", "-W", library)
    problems += [f"SONAME is not {soname}"] * (f"Library soname: [{soname}]" not in dynamic)
    needed = re.findall(r"Shared library: \[([^\]]+)\]", dynamic)
    problems += [f"needs {n}" for n in needed if FORBIDDEN_NEEDED.match(n)]

    for problem in problems:
        print(problem)
    print(f"{len(exported)} exported, {len(promised)} declared, needs {' '.join(needed)}: {len(problems)} problems")
    return 1 if problems or not exported else 0


sys.exit(main())
