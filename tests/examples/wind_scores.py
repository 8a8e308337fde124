#!/usr/bin/env python3
"""The wind emulator's whole job: it beats what it has to beat, and leaves metrics, maps, parameters and a trace.

usage: wind_scores.py PROGRAM"""
import json
import operator
import pathlib
import struct
import subprocess
import sys
import tempfile

BOUND = 1.672  # m/s, of the emulator

with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    done = subprocess.run([sys.argv[1], "--out", folder / "out", "--trace", folder / "trace.json"], text=True, capture_output=True, timeout=500)
    if done.returncode != 0:
        sys.exit(f"exit {done.returncode}: {done.stderr}")
    metrics = json.loads((folder / "out/metrics.json").read_text())
    rmse = metrics["test_rmse"]
    beaten = ["damped_persistence_per_cell", "damped_persistence", "anomaly_persistence", "persistence", "climatology"]
    failures = [name for name in beaten if not rmse["emulator"] < rmse[name]]
    if not rmse["emulator"] <= BOUND or failures:
        sys.exit(f"emulator {rmse['emulator']}, at most {BOUND}; does not beat {failures}")
    if not 0.43 < metrics["test_acc"]["emulator"] < 0.5:
        sys.exit(f"correlation {metrics['test_acc']['emulator']}")
    # Forecasts of forecasts: what they beat so many months ahead by more than seeds differ, and that they come to rest.
    leads = metrics["rollout_rmse"]
    for name, months in {"climatology": 6, "persistence": 6, "anomaly_persistence": 6, "damped_persistence": 4}.items():
        if len(leads[name]) != 6 or not all(map(operator.lt, leads["emulator"][:months], leads[name])):
            sys.exit(f"months ahead: emulator {leads['emulator']}, {name} {leads[name]}")
    if not all(0.05 < found < 0.5 for found in metrics["rollout_acc"]["emulator"]):
        sys.exit(f"months ahead: correlations {metrics['rollout_acc']['emulator']}")
    for name, (came, *forecast) in metrics["free_run"].items():
        if len(forecast) != 60 or not max(forecast) < came or not abs(forecast[59] - forecast[47]) < 0.02 * came:
            sys.exit(f"free run: {name} {forecast}; of the months that came {came}")
    for name in ("forecast-0.png", "forecast-1.png", "ranks.png"):
        head = (folder / "out" / name).read_bytes()[:24]
        if head[:8] != b"\x89PNG\r\n\x1a\n" or min(struct.unpack(">II", head[16:24])) < 100:
            sys.exit(f"{name} is no picture")
    bytes_ = (folder / "out/parameters.safetensors").read_bytes()
    header = json.loads(bytes_[8:8 + struct.unpack("<Q", bytes_[:8])[0]])
    count = sum((t["data_offsets"][1] - t["data_offsets"][0]) // 4 for t in header.values())
    if count != 41958:
        sys.exit(f"{count} parameters, wanted 41958")
    for name in ("trace.json", "trace.json.1"):
        if not any(event.get("cat") for event in json.loads((folder / name).read_text())["traceEvents"]):
            sys.exit(f"{name} has no events")
    print(f"emulator {rmse['emulator']:.4f}, correlation {metrics['test_acc']['emulator']:.3f}")
