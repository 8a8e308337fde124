"""Every template (src/**/*_tmpl.h) can be read alone: without the parameters that a source defines before it includes it, it is an instance
of itself, so that editors and indexers know its types and functions.

usage: templates.py ROOT BUILD

Each is parsed by the command that compiles a source which includes it or stands beside it, with all its warnings but those of what is
not used."""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

WITH_VALUE = {"-o", "-MF", "-MQ", "-MT"}
LEFT_OUT = {"-c", "-MD", "-MMD"}
ADDED = ["-fsyntax-only", "-fdiagnostics-color=never", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-unused-const-variable",
         "-Wno-unused-macros", "-x", "c"]


def parsing(command, source):
    """The words of a compiler's call that parses and makes nothing, up to the name of the source."""
    words, kept = iter(command), []
    for word in words:
        if word in WITH_VALUE:
            next(words)
        elif word not in LEFT_OUT and word != source:
            kept.append(word)
    if pathlib.Path(kept[0]).name == "ccache":
        del kept[0]
    return kept + ADDED


def commands(build):
    """By source: the folder in which the compiler is called, and its words."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if file.suffix == ".c":
            found.setdefault(file, (entry["directory"], parsing(shlex.split(entry["command"]), entry["file"])))
    return found


def readers(template, texts):
    """Sources that include a file of their folder, or a file which includes it, and so on; nearest first."""
    found, seen, near = [], {template}, [template]
    while near and not found:
        named = [file for file in sorted(texts) if file not in seen and any(f"/{name.name}\"" in texts[file] for name in near)]
        found = [file for file in named if file.suffix == ".c"]
        seen.update(named)
        near = named
    return found


def best_command(template, by_source):
    """That of a source which includes it, else of one in its folder."""
    folder = sorted(template.parent.iterdir())
    texts = {file: file.read_text() for file in folder if file in by_source or file.suffix == ".h"}
    sources = readers(template, texts) or [file for file in folder if file in by_source]
    return by_source[sources[0]] if sources else None


def problem(template, command):
    if command is None:
        return f"{template}: no source beside it is compiled"
    folder, words = command
    result = subprocess.run(words + [str(template)], cwd=folder, text=True, capture_output=True)
    return f"{template} cannot be read alone:\n{result.stderr}" if result.returncode else None


def main():
    root, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    templates = sorted((root / "src").rglob("*_tmpl.h"))
    by_source = commands(build)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda t: problem(t, best_command(t, by_source)), templates))
    problems = [text for text in found if text]
    print("\n".join(problems + [f"{len(templates)} templates, {len(problems)} that cannot be read alone"]))
    return 1 if problems or not templates else 0


sys.exit(main())
