#!/usr/bin/env python3
"""Input of the wind emulator. Bad: one line that says what and where, exit status 2, no hang. Unusual: packed values, missing ones, latitudes from
north to south, more ranks than rows; the scores do not depend on how a field is stored or spread.

usage: wind_input.py PROGRAM DATA"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import netcdf3

program, data = sys.argv[1], pathlib.Path(sys.argv[2])
compared = 0
FILL = -32768


def run(*args):
    return subprocess.run([program, *map(str, args)], text=True, capture_output=True, timeout=100)


def refused(part, *args):
    global compared
    done = run(*args)
    lines = done.stderr.strip().splitlines()
    if done.returncode != 2 or len(lines) != 1 or part not in lines[0]:
        sys.exit(f"{args}: exit {done.returncode}, {done.stderr!r}; wanted 2 and one line with {part!r}")
    compared += 1


def scores(out, *args):
    done = run(*args, "--out", out)
    if done.returncode != 0:
        sys.exit(f"{args}: exit {done.returncode}, {done.stderr!r}")
    return json.loads((out / "metrics.json").read_text())


def near(what, got, want, bound):
    global compared
    if not abs(got - want) <= bound:
        sys.exit(f"{what}: {got}, wanted {want} within {bound}")
    compared += 1


def make(path, months=60, south_first=True, packed=False, missing=lambda t, i, j: False):
    """A wave that goes around, on 7 x 9 cells."""
    rows, columns = 7, 9
    latitude = [-90 + 30 * i for i in range(rows)]
    order = list(range(rows)) if south_first else list(range(rows))[::-1]
    values = []
    for t in range(months):
        for i in order:
            for j in range(columns):
                x = round(100 * math.sin(0.7 * t + 0.4 * i * i + 0.7 * j + math.sin(3.1 * t * t)))
                values.append(FILL if missing(t, i, j) else x)
    attributes = {"_FillValue": ("short" if packed else "float", FILL)}
    if packed:
        attributes |= {"scale_factor": ("double", 0.25), "add_offset": ("double", 10.0)}
    else:
        values = [v if v == FILL else 0.25 * v + 10 for v in values]
    netcdf3.write(path, {"t": months, "lat": rows, "lon": columns}, {
        "lat": (["lat"], "double", {}, [latitude[i] for i in order]),
        "lon": (["lon"], "double", {}, [40.0 * j for j in range(columns)]),
        "A": (["t", "lat", "lon"], "short" if packed else "float", attributes, values),
        "flat": (["lat", "lon"], "float", {}, [0.0] * (rows * columns))})
    return path


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    out = folder / "a/b/c"
    refused("no option '--rank'", "--rank", "2")
    refused("--ranks got '0'", "--ranks", "0")
    refused("--epochs got 'many'", "--epochs", "many")
    refused("--lead got '11', wanted a number from 1 to 10", "--lead", "11")
    refused("--mesh got '2x2'", "--mesh", "2x2")
    refused("--mesh got '1x0x2'", "--mesh", "1x0x2")
    refused("--mesh 1x2x1 has 2 ranks, --ranks got 3", "--mesh", "1x2x1", "--ranks", "3")
    refused("--vars got 'nothing'", "--file", "x.nc")
    refused("monthly_navy_winds.cdf: cannot be opened", "--data", folder / "nowhere", "--out", out)
    refused("cannot be written", "--out", "/proc/no/such")
    whole = (data / "monthly_navy_winds.cdf").read_bytes()
    relief = (data / "etopo120.cdf").read_bytes()
    file = folder / "monthly_navy_winds.cdf"
    file.write_bytes(whole)
    refused("etopo120.cdf: cannot be opened", "--data", folder, "--out", out)
    (folder / "etopo120.cdf").write_bytes(relief)
    file.write_bytes(whole[:100000])
    refused("monthly_navy_winds.cdf: truncated", "--data", folder, "--out", out, "--ranks", "3")
    file.write_bytes(whole.replace(b"UWND", b"XWND"))
    refused("UWND", "--data", folder, "--out", out)
    file.write_bytes(b"no such format")
    refused("monthly_navy_winds.cdf", "--data", folder, "--out", out)

    nc = folder / "x.nc"
    refused("flat has 2 dims", "--file", make(nc), "--vars", "flat", "--out", out)
    refused("x.nc: B:", "--file", nc, "--vars", "A,B", "--out", out)
    refused("35 months of 7 x 9 cells, wanted at least 36", "--file", make(nc, months=35), "--vars", "A", "--out", out)
    refused("all values are missing", "--file", make(nc, missing=lambda t, i, j: True), "--vars", "A", "--out", out)

    plain = scores(out, "--file", make(nc), "--vars", "A", "--epochs", "1", "--ranks", "1")
    packed = scores(out, "--file", make(nc, south_first=False, packed=True), "--vars", "A,A", "--epochs", "1", "--mesh", "2x3x2")
    for name in ("climatology", "persistence", "damped_persistence"):
        near(f"{name}, packed, north first", packed["test_rmse"][name], plain["test_rmse"][name], 1e-4)

    def some(t, i, j):
        return (i == 3 and j < 4) or (t * 7 + i * 5 + j) % 11 == 0
    one = scores(out, "--file", make(nc, missing=some), "--vars", "A", "--epochs", "2", "--ranks", "1")
    many = scores(out, "--file", nc, "--vars", "A", "--epochs", "2", "--mesh", "2x1x3")
    for name, value in one["test_rmse"].items():
        near(f"{name}, missing values", many["test_rmse"][name], value, 1e-4 * value)
    for name, values in one["rollout_rmse"].items():
        for lead, value in enumerate(values, 1):
            near(f"{name}, lead {lead}, missing values", many["rollout_rmse"][name][lead - 1], value, 1e-4 * value)
    for name, values in one["free_run"].items():
        for month, value in enumerate(values):
            near(f"{name} of month {month}, missing values", many["free_run"][name][month], value, 1e-3 * value + 1e-5)
    if one["test_acc"]["climatology"] is not None or many["mesh"] != "2x1x3" or many["ranks"] != 6:
        sys.exit(f"metrics: {many}")
    compared += 1

    # More ranks than latitudes; then the parameters of one run in another layout.
    want = {"climatology": 1.858, "persistence": 2.121, "anomaly_persistence": 2.110, "damped_persistence": 1.741,
            "damped_persistence_per_cell": 1.674, "two_lags_per_cell": 1.665}
    wide = scores(out, "--epochs", "0", "--ranks", "80")
    for name, value in want.items():
        near(name, wide["test_rmse"][name], value, 0.002)
    saved = out / "parameters.safetensors"
    again = scores(folder / "again", "--epochs", "0", "--mesh", "1x1x3", "--seed", "5", "--parameters", saved)
    near("loaded parameters", again["test_rmse"]["emulator"], wide["test_rmse"]["emulator"], 1e-5)
    damaged = folder / "damaged.safetensors"
    damaged.write_bytes(saved.read_bytes()[:1000])
    refused("damaged.safetensors: truncated", "--epochs", "0", "--parameters", damaged, "--out", out)
    damaged.write_bytes(saved.read_bytes().replace(b"encode1.weight", b"encode9.weight"))
    refused("no tensor 'encode1.weight'", "--epochs", "0", "--parameters", damaged, "--out", out)
print(f"{compared} compared")
