"""A study of small runs, and its results in a form that can be compared."""

import os
import pathlib
import signal
import subprocess

import ceasefire

# Ctrl-C interrupts tests, and what they start, wherever they were started: a script's background job ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)

COMMAND = os.environ["CEASEFIRE_COMMAND"]
# The host's own times.
TIMES = {"wall_s", "cpu_s"}

# 24 points.
STUDY = {
    "experiments": ["migrate"],
    "machines": ["2-socket-intel"],
    "mechanisms": ["per-page", "batched"],
    "seeds": 3,
    "draws": 4,
    "parameters": {
        "scale": 0.0001,
        "cpus": 2,
        "costs.interrupt_deliver": {"from": "300 ns", "to": "3000 ns", "spacing": "log"},
    },
}
# Some of its draws are refused: their sets are no power of two.
FAILING = {**STUDY, "draws": 8, "parameters": {**STUDY["parameters"], "tlb.l1.ways": {"from": 1, "to": 8}}}


def command(*arguments, **environment):
    environment = {**os.environ, **environment}
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=600, env=environment)


def written(study, folder):
    """The path of a file of the study."""
    path = pathlib.Path(folder, "study.toml")
    path.write_text(ceasefire.Study(study).text)
    return str(path)


def rows(table):
    """Each point's cells, the numbers to the bit."""

    def exact(cell):
        return cell.hex() if isinstance(cell, float) else cell

    found = {}
    for row in table.to_pylist():
        cells = {name: exact(cell) for name, cell in row.items() if cell is not None and name not in TIMES}
        assert row["point"] not in found, "a point is there twice"
        found[row["point"]] = cells
    return found


def stored(folder):
    """The names of points as the files have them, each time that they have it."""
    import pyarrow.parquet

    parts = sorted(pathlib.Path(folder).rglob("part-*.parquet"))
    return [point for part in parts for point in pyarrow.parquet.ParquetFile(part).read(["point"])["point"].to_pylist()]
