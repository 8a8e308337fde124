"""What the CUDA module serves, against the CPU: each slot and dtype that the CPU has a kernel for has one there too, or stands in the list of those that
are not written yet, which can only get shorter.

usage: tables.py served LIST_KERNELS NOT_YET FOLDER [--update]   FOLDER: where the module lies. --update takes lines out of the list that are served
       tables.py equal LIST_KERNELS FOLDER FOLDER                two builds of the module have the same kernels

A line of the list: SLOT, then `all` or the dtypes that are missing with commas between them, then the reason."""
import pathlib
import subprocess
import sys


def kernels_of(program, folder):
    """{slot: (args_size, dtypes)} of the CPU and of the module, and the module's slots that no op has."""
    text = subprocess.run([program, folder], check=True, stdout=subprocess.PIPE, text=True).stdout
    of, orphans = {"cpu": {}, "module": {}}, []
    for words in map(str.split, text.splitlines()):
        if words[0] == "module-lacks-op":
            orphans.append(words[1])
            continue
        size, dtypes = of[words[0]].get(words[1], (words[2], set()))
        if size != words[2]:
            sys.exit(f"{words[1]}: rows of {size} and of {words[2]} bytes")
        of[words[0]][words[1]] = (size, dtypes | set(words[3:]))
    return of["cpu"], of["module"], orphans


def read_list(path):
    """{slot: (dtypes or None for all, line)}."""
    listed = {}
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        slot, dtypes, reason = line.split(maxsplit=2)
        if not reason:
            sys.exit(f"{slot}: a reason is missing")
        listed[slot] = (None if dtypes == "all" else set(dtypes.split(",")), line)
    return listed


def missing_of(cpu, module):
    missing = {slot: dtypes - module.get(slot, ("", set()))[1] for slot, (_, dtypes) in cpu.items()}
    return {slot: dtypes for slot, dtypes in missing.items() if dtypes}


def problems_of(cpu, module, orphans, listed):
    missing = missing_of(cpu, module)
    problems = [f"{slot}: a kernel of the module, and no op has the slot" for slot in orphans]
    for slot, (size, _) in module.items():
        if slot in cpu and cpu[slot][0] != size:
            problems.append(f"{slot}: {size} bytes of arguments in the module, {cpu[slot][0]} on the CPU")
    for slot, dtypes in missing.items():
        allowed = listed.get(slot, (set(), ""))[0]
        unlisted = set() if allowed is None else dtypes - allowed
        if unlisted:
            problems.append(f"{slot}: no kernel for {', '.join(sorted(unlisted))}, and the list does not say why")
    for slot, (dtypes, _) in listed.items():
        wanted = cpu.get(slot, ("", set()))[1] if dtypes is None else dtypes
        if not wanted or missing.get(slot, set()) != wanted:
            problems.append(f"{slot}: the list names more than is missing: take it out (--update)")
    return problems


def update(path, cpu, module):
    missing, kept = missing_of(cpu, module), []
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            kept.append(line)
            continue
        slot, dtypes, reason = line.split(maxsplit=2)
        left = missing.get(slot, set())
        if dtypes != "all":
            left &= set(dtypes.split(","))
        if left:
            whole = left == cpu[slot][1]
            kept.append(f"{slot} {'all' if whole else ','.join(sorted(left))} {reason}")
    path.write_text("\n".join(kept) + "\n")


def served(program, list_path, folder, *options):
    path = pathlib.Path(list_path)
    cpu, module, orphans = kernels_of(program, folder)
    if options == ("--update",):
        update(path, cpu, module)
    listed = read_list(path)
    problems = problems_of(cpu, module, orphans, listed)
    for problem in problems:
        print(problem)
    pairs = sum(len(dtypes) for _, dtypes in cpu.values())
    lacking = sum(map(len, missing_of(cpu, module).values()))
    print(f"{len(cpu)} slots, {len(cpu) - len(listed)} of them whole; {pairs - lacking} of {pairs} pairs of slot and dtype; {len(problems)} problems")
    return 1 if problems or not cpu or not module else 0


def equal(program, one, other):
    tables = [kernels_of(program, folder)[1] for folder in (one, other)]
    differing = {slot for slot in tables[0].keys() | tables[1].keys() if tables[0].get(slot) != tables[1].get(slot)}
    for slot in sorted(differing):
        print(f"{slot}: {tables[0].get(slot)} in {one}, {tables[1].get(slot)} in {other}")
    print(f"{len(tables[0])} kernels, {len(differing)} differ")
    return 1 if differing or not tables[0] else 0


sys.exit({"served": served, "equal": equal}[sys.argv[1]](*sys.argv[2:]))
