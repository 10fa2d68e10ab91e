"""`python -m benchmarks [NAMES] [OPTIONS]`; `--help` describes the options."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

import torch

from benchmarks.timing import Options, machine

# Imported only when requested: some need packages that others do not.
BENCHMARKS = {
    "forward": "benchmarks.forward_cost",
    "import": "benchmarks.import_time",
    "fleet-paper": "benchmarks.fleet_speed",
    "fleet-default": "benchmarks.default_fleet_speed",
    "gnm-vs-mlp": "benchmarks.gnm_vs_mlp",
    "growth": "benchmarks.growth",
    "precision": "benchmarks.precision",
    "estimators": "benchmarks.estimator_speed",
    "neighbour": "benchmarks.busy_neighbour",
    "search": "benchmarks.search_speed",
    "paper-grid": "benchmarks.paper_grid",
    "export-speed": "benchmarks.export_speed",
    "compiled": "benchmarks.compiled_machine",
}
# Commands with options of their own, which are not part of a run of all benchmarks.
COMMANDS = {
    "accuracy": "benchmarks.accuracy",
    "out-of-fold": "benchmarks.out_of_fold",
    "package-tables": "benchmarks.package_tables",
    "small": "benchmarks.small_machines",
    "small-picture": "benchmarks.small_picture",
    "standings": "benchmarks.standings",
}
GROUPS = {"fleet": ("fleet-paper", "fleet-default")}


def main() -> None:
    if sys.argv[1:] and sys.argv[1] in COMMANDS:
        importlib.import_module(COMMANDS[sys.argv[1]]).main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure speed against competitors in the same run.",
        epilog=f"{' and '.join(COMMANDS)} have options of their own: python -m benchmarks accuracy --help",
    )
    known = [*GROUPS, *BENCHMARKS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(known)} (default: all)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where to run (default: cpu)")
    parser.add_argument("--quick", action="store_true", help="only check that everything runs, in seconds")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="rounds of every measurement (default: 5)")
    parser.add_argument("--seconds", type=float, default=0.5, help="minimum time of a measurement (default: 0.5)")
    parser.add_argument(
        "--before", type=Path, metavar="PATH", help="older checkout that fleet-default measures as well"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build/benchmarks"), metavar="DIR", help="folder for JSON and PNG"
    )
    arguments = parser.parse_args()
    names = arguments.names or list(BENCHMARKS)
    for name in names:
        if name in COMMANDS:
            parser.error(f"{name} has options of its own and cannot be combined: python -m benchmarks {name} --help")
        if name not in known:
            parser.error(f"there is no benchmark {name!r}; use {', '.join(known)}")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda is not available, because torch finds no CUDA device; use --device cpu")

    effort = (1, 0.02) if arguments.quick else (arguments.repeats, arguments.seconds)
    options = Options(arguments.device, arguments.quick, arguments.output, *effort, arguments.before)
    options.output.mkdir(parents=True, exist_ok=True)
    description = machine(options.device)
    quick = " --quick" if options.quick else ""
    for name in ("repeats", "seconds", "before"):
        if getattr(arguments, name) != parser.get_default(name):
            quick += f" --{name} {getattr(arguments, name)}"
    description["command"] = f"python -m benchmarks {' '.join(names)} --device {options.device}{quick}"
    for key, value in description.items():
        if value is not None:
            print(f"{key}: {value}")
    for name in without_groups(names):
        results = importlib.import_module(BENCHMARKS[name]).run(options)
        path = options.output / f"{name}-{options.device}.json"
        path.write_text(json.dumps({"machine": description, "results": results}, indent=1) + "\n")
        print(f"\nWrote {path}")


def without_groups(names: list[str]) -> list[str]:
    """Replace groups with their members; each benchmark runs only once."""
    return list(dict.fromkeys(member for name in names for member in GROUPS.get(name, (name,))))


if __name__ == "__main__":
    main()
