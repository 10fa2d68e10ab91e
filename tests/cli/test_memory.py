"""Tables larger than memory are read and written frame by frame."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Writes a table of the size asked for, reads it again and copies it; prints by how much the memory of the process grew
# over what it had after the first megabytes.
PROGRAM = """
import resource, sys
import numpy as np, pandas as pd
from tabgnm.cli.tablefiles import open_table, open_writer

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def write(path, n_parts):
    generator = np.random.default_rng(0)
    columns = [f"x{place}" for place in range(10)] + ["town"]
    with open_writer(path, columns) as writer:
        for _ in range(n_parts):
            frame = pd.DataFrame(generator.normal(size=(10_000, 10)), columns=columns[:-1])
            frame["town"] = generator.choice(["Bern", "Chur", "La Chaux-de-Fonds"], 10_000)
            writer.write(frame)

def copy(path, target):
    with open_table(path) as reader, open_writer(target, reader.columns) as writer:
        for frame in reader:
            writer.write(frame)
    return writer.n_rows

ending, n_parts = sys.argv[1], int(sys.argv[2])
write(f"small{ending}", 6)
copy(f"small{ending}", f"small-copy{ending}")
before = peak()
write(f"large{ending}", n_parts)
assert copy(f"large{ending}", f"large-copy{ending}") == 10_000 * n_parts
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "n_parts"),
    [(".csv", 150), (".csv.gz", 30), (".jsonl", 30), (".parquet", 200), (".feather", 200), (".sqlite", 60)],
)
def test_memory_does_not_grow_with_the_rows(ending: str, n_parts: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ending, str(n_parts)], cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 100, f"{done.stdout} MB"
    if ending == ".csv":
        assert (tmp_path / "large.csv").stat().st_size > 300e6
