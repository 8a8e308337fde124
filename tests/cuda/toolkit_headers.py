"""Compiles sources of the stand-in, each by itself, with the toolkit's headers in place of its own: no error and no
warning.

usage: toolkit_headers.py SOURCES… -- COMPILER…

The objects are thrown away. They are compiled, and not only parsed, for a compiler cache to know them again; and it
reads from the list of a source's headers (-MD) what it would ask the preprocessor."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile


def compile_one(source, compiler, folder):
    """(source, whether it compiles, what was printed)"""
    command = [*compiler, "-MD", "-c", pathlib.Path(source).resolve(), "-o", pathlib.Path(source).stem + ".o"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return source, done.returncode == 0, done.stdout


def main():
    end = sys.argv.index("--")
    sources, compiler = sys.argv[1:end], sys.argv[end + 1:]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        results = list(workers.map(lambda source: compile_one(source, compiler, folder), sources))
    for source, compiles, text in results:
        print(f"{source}: {'compiles' if compiles else 'DOES NOT COMPILE'}\n{text}", end="")
    return 0 if results and all(compiles for _, compiles, _ in results) else 1


sys.exit(main())
