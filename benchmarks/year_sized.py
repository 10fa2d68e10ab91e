"""One epoch on a table as large as YearPredictionMSD, with peak memory, printed as JSON. Run it in its own process."""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path

import torch

from benchmarks import our_fleet, synthetic
from benchmarks.timing import seconds
from tabgnm.nn import GNMShape

N_ROWS, N_INPUTS = 515_345, 90


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=["cpu", "cuda"])
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    n_rows = 5000 if arguments.quick else N_ROWS
    data = synthetic.regression(n_rows - n_rows // 10, n_rows // 10, N_INPUTS)
    shape = GNMShape(N_INPUTS, 1, n_nodes=100, n_layers=2)
    train = our_fleet.trainer(shape, data, 1, arguments.device, batch_size=256)
    # Without warm-up, because users wait for the first epoch too.
    taken = seconds(lambda: train(1), arguments.device)
    peak = _peak_host_bytes(), torch.cuda.max_memory_allocated() if arguments.device == "cuda" else None
    # On a GPU, the graphs are captured in the second epoch; from the third epoch on, all take the same time.
    few, many = (3, 33) if arguments.device == "cuda" else (1, 4)
    times = [seconds(lambda n=n: train(n), arguments.device) for n in (few, many)]
    result = {
        "rows": n_rows,
        "inputs": N_INPUTS,
        "table_bytes": data.x.nbytes + data.y.nbytes,
        "seconds": taken,
        "seconds_of_a_later_epoch": (times[1] - times[0]) / (many - few),
        "peak_host_bytes": peak[0],
        "peak_gpu_bytes": peak[1],
    }
    print(json.dumps(result))


def _peak_host_bytes() -> int:
    """Return the peak memory of this process.

    VmHWM of Linux is preferred, because ru_maxrss of a process includes the peak of the process that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
