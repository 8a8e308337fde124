"""stn-ops lists every op: as signatures, and as JSON that says the same.

usage: test_ops_list.py STN_OPS"""
import json
import os
import shlex
import subprocess
import sys

TYPES = {"bool", "int", "float", "number", "choice", "ints", "floats", "string"}
WRAPPER = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # Meson's, of programs of another machine


def output(*command):
    return subprocess.run([*WRAPPER, *command], check=True, text=True, stdout=subprocess.PIPE).stdout


def check(op):
    """The names of inputs and attributes are those of the signature, each once."""
    inside = op["signature"][op["signature"].index("(") + 1:op["signature"].rindex(") ->")]
    depth, words, word = 0, [], ""
    for c in inside:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            words, word = [*words, word], ""
        else:
            word += c
    told = [w.split("=")[0].strip().strip("*").removesuffix("[]") for w in [*words, word]]
    names = [i["name"] for i in op["inputs"]] + list(dict.fromkeys(a["name"] for a in op["attributes"]))
    assert sorted(n for n in told if n) == sorted(dict.fromkeys(names)), op
    assert all(a["type"] in TYPES and (a["type"] == "choice") == ("choices" in a) for a in op["attributes"]), op
    assert op["outputs"] >= 0 and isinstance(op["in_place"], bool) and isinstance(op["view"], bool), op


def main():
    tool = sys.argv[1]
    ops = json.loads(output(tool, "--json"))
    for op in ops:
        check(op)
    assert output(tool).splitlines() == [op["signature"] for op in ops]
    by_name = {op["name"]: op for op in ops}
    assert len(by_name) == len(ops) > 300
    conv = by_name["conv2d"]
    assert [i["name"] for i in conv["inputs"]] == ["input", "weight", "bias"] and conv["inputs"][2]["optional"]
    assert {"padding", "stride"} <= {a["name"] for a in conv["attributes"]}
    assert by_name["add_"]["in_place"] and by_name["transpose"]["view"] and not by_name["add"]["view"]
    assert subprocess.run([*WRAPPER, tool, "--xml"], capture_output=True).returncode == 2
    print(f"{len(ops)} ops")


main()
