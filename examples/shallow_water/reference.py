"""Rotating shallow water on the doubly periodic plane, in NumPy: the scheme and the steps of the example beside it, for
comparing results and times.

usage: reference.py ROWS STEPS [STATE.safetensors]

Prints the milliseconds of a step; with the state that `shallow_water --rows ROWS` has left after as many steps, also how
far the two are apart."""
import json
import sys
import time

import numpy as np

SIDE, DEPTH, GRAVITY, CORIOLIS = 6000e3, 1000.0, 9.80616, 1e-4


def west(a):
    return np.roll(a, 1, axis=1)


def east(a):
    return np.roll(a, -1, axis=1)


def south(a):
    return np.roll(a, 1, axis=0)


def north(a):
    return np.roll(a, -1, axis=0)


def tendency(state, d):
    """stencil.h with one width d of all cells: Sadourny (1975), the scheme that conserves energy."""
    h, u, v = state
    flux_x, flux_y = u * (west(h) + h) / 2, v * (south(h) + h) / 2
    corner = (h + west(h) + south(h) + west(south(h))) / 4
    q = (CORIOLIS + ((v - west(v)) * d - (u * d - south(u) * d)) / (d * d)) / corner
    bernoulli = GRAVITY * h + (u * u + east(u) ** 2 + v * v + north(v) ** 2) / 4
    turn_u, turn_v = q * (west(flux_y) + flux_y) / 2, q * (south(flux_x) + flux_x) / 2
    return np.stack([
        -((east(flux_x) - flux_x) * d + (north(flux_y) - flux_y) * d) / (d * d),
        (turn_u + north(turn_u)) / 2 - (bernoulli - west(bernoulli)) / d,
        -(turn_v + east(turn_v)) / 2 - (bernoulli - south(bernoulli)) / d,
    ])


def step(state, dt, d):
    """Shu and Osher (1988), third order."""
    first = state + dt * tendency(state, d)
    second = state + 0.25 * (first + dt * tendency(first, d) - state)
    return state + 2 / 3 * (second + dt * tendency(second, d) - state)


def start(n):
    places = (np.arange(n) + 0.5) / n
    y, x = places[:, None] - 0.4, places[None, :] - 0.45
    h = DEPTH + 50 * np.exp(-(x * x + y * y) / (2 * 0.07 * 0.07))
    return np.stack([h, np.zeros_like(h), np.zeros_like(h)])


def load(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    begin, end = header["state"]["data_offsets"]
    return np.frombuffer(data[begin:end], np.float64).reshape(header["state"]["shape"])


def main():
    n, steps = int(sys.argv[1]), int(sys.argv[2])
    d = SIDE / n
    dt = 0.5 * SIDE / n / np.sqrt(GRAVITY * DEPTH)
    state, begin, cpu = start(n), time.perf_counter(), time.process_time()
    for _ in range(steps):
        state = step(state, dt, d)
    took, used = time.perf_counter() - begin, time.process_time() - cpu
    print(f"{steps} steps of {dt:.0f} s, {1e3 * took / steps:.3f} ms each, {1e3 * used / steps:.3f} ms of a core")
    if len(sys.argv) > 3:
        other = load(sys.argv[3])
        apart = np.abs(state - other).max(axis=(1, 2)) / np.abs(other).max(axis=(1, 2))
        print("largest difference of h, u, v, relative: " + ", ".join(f"{x:.1e}" for x in apart))


if __name__ == "__main__":
    main()
