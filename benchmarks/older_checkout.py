"""An older checkout of this package, measured alternately with this one by a subprocess that times epochs on request.

The subprocess runs these benchmarks, but imports `tabgnm` from the other checkout. Requests and replies are lines of
JSON in pipes; it ends when its standard input is closed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.timing import ROOT, EpochTime, Options, commit_of, epoch_sampler

# `benchmarks` is imported from here and `tabgnm` from the other checkout, although both folders have both.
PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import benchmarks
sys.path.remove({str(ROOT)!r})
from benchmarks.older_checkout import serve
serve()
"""


@dataclass(frozen=True)
class FleetTask:
    """The fleet of default networks to train, and the minimum time."""

    table: str
    n_models: int
    device: str
    precision: str
    dropout: float
    quick: bool
    seconds_per_sample: float


class OlderCheckout:
    """A context that runs the subprocess for the other checkout at `path`."""

    def __init__(self, path: Path) -> None:
        if not (path / "tabgnm" / "__init__.py").exists():
            raise ValueError(f"--before {path} has no tabgnm/__init__.py; expected a checkout of this repository")
        self.path = path.resolve()
        self.commit = commit_of(self.path)

    def __enter__(self) -> OlderCheckout:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=self.path,
            env=os.environ | {"PYTHONPATH": str(self.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            imported = Path(self._read()["tabgnm"])
            if not imported.is_relative_to(self.path):
                raise RuntimeError(f"the subprocess for {self.path} imported {imported}; expected its own tabgnm")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):  # the subprocess has already ended
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:  # it is still training, for example after an error in this process
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def sampler(self, task: FleetTask) -> Callable[[], EpochTime]:
        """Prepare timing epochs in the subprocess, as `epoch_sampler` does here."""
        number = self._ask(asdict(task))["sampler"]
        return lambda: EpochTime(**self._ask({"sample": number}))

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with suppress(BrokenPipeError):  # the subprocess has ended; reading raises an error
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the subprocess that measures {self.path} has ended; see its error above")
        return json.loads(line)


def serve() -> None:
    """Answer requests until there are no more; called in the subprocess."""
    import tabgnm
    from benchmarks import default_networks, our_fleet

    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of libraries must not mix with replies
    samplers: list[Callable[[], EpochTime]] = []

    def reply(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=replies, flush=True)

    reply({"tabgnm": str(Path(tabgnm.__file__).resolve())})
    for line in sys.stdin:
        request = json.loads(line)
        if "sample" in request:
            reply(samplers[request["sample"]]()._asdict())
            continue
        task = FleetTask(**request)
        train = our_fleet.trainer(
            default_networks.network(task.table),
            default_networks.rows(task.table, quick=task.quick),
            task.n_models,
            task.device,
            task.precision,
            default_networks.BATCH_SIZE,
            task.dropout,
        )
        options = Options(task.device, task.quick, Path(), seconds_per_sample=task.seconds_per_sample)
        samplers.append(epoch_sampler(train, options))
        reply({"sampler": len(samplers) - 1})
