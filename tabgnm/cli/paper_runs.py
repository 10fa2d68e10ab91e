"""What the commands of ``tabgnm paper`` do: run an experiment, show its tables, write its files."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tabgnm._printable import printable
from tabgnm.paper import pages, pictures
from tabgnm.paper.curves import curve_tasks, run_curves
from tabgnm.paper.engines import Engine
from tabgnm.paper.estimate import NO_WORK, in_words, measure_speed
from tabgnm.paper.output import Page, TextTable, provenance, write_page
from tabgnm.paper.protocol import MAX_EPOCHS, N_FOLDS, Setting, Unit
from tabgnm.paper.run import ExperimentPlan, Progress, data_sets, missing_units, plan, run
from tabgnm.paper.runtime import measure_runtimes, runtime_tasks
from tabgnm.paper.sparse import MAX_EPOCHS as SPARSE_EPOCHS
from tabgnm.paper.sparse import learn_sparse_machines
from tabgnm.paper.store import ResultStore

_WIDEST, _WIDEST_CELL = 400, 36


@dataclass(frozen=True)
class Options:
    """What the command line says; each command uses a part of it."""

    only: tuple[str, ...] = ()
    folds: str | None = None
    shard: str | None = None
    dry_run: bool = False
    scaling: str = "none"
    engine: str = "local"
    jobs: int = 1
    address: str | None = None
    device: str = "auto"
    store: Path | None = None
    output: Path = Path("paper-results")
    data_home: Path | None = None
    epochs: int | None = None
    seeds: int = 20

    @property
    def home(self) -> str | None:
        """The folder of data sets."""
        return None if self.data_home is None else str(self.data_home)

    def setting(self) -> Setting:
        """The protocol's setting."""
        return Setting(scaling=self.scaling, max_epochs=self.epochs or MAX_EPOCHS)  # type: ignore[arg-type] # Setting checks it

    def fold_numbers(self) -> list[int] | None:
        """Folds as numbers; None means all."""
        if self.folds is None:
            return None
        numbers: list[int] = []
        for part in self.folds.split(","):
            first, _, last = part.partition("-")
            start, end = int(first), int(last or first)
            if start > end:
                raise ValueError(f"folds {part} are in descending order; write {end}-{start}")
            if end >= N_FOLDS:
                raise ValueError(f"folds {part} do not exist; expected some of 0 to {N_FOLDS - 1}")
            numbers += range(start, end + 1)
        return numbers

    @property
    def store_path(self) -> Path:
        """The file of results."""
        return self.store or self.output / "results.sqlite"

    def open_store(self) -> ResultStore:
        """The results store; its folder is made if it is the output folder."""
        if self.store is None:
            self.output.mkdir(parents=True, exist_ok=True)
        return ResultStore(self.store_path)

    @contextmanager
    def look_into_store(self) -> Iterator[ResultStore | None]:
        """The results store for a dry run, which neither makes nor changes it; None where there is none."""
        if not self.store_path.exists():
            yield None
        else:
            with ResultStore.snapshot(self.store_path) as store:
                yield store


def run_tables(console: Console, options: Options) -> Page | None:
    """Tables 1 and 2."""
    engine = Engine(options.engine, options.jobs, options.address, options.home, options.device)
    setting, folds = options.setting(), options.fold_numbers()
    whole = plan(data_sets(options.only, options.home), setting, folds=folds, data_home=options.home)
    own = whole
    if options.shard is not None:
        number, of = map(int, options.shard.split("/"))
        own = whole.shard(number, of)
    _require_data(whole.units, whole.missing)
    if not own.units:
        _say(console, f"Part {options.shard} has no work: there are fewer units than parts. No page is written.")
        return None
    if options.dry_run:
        with options.look_into_store() as known:
            todo = own.units if known is None else missing_units(known, own.units)
        _list_work(console, own, todo, options, engine)
        return None
    pictures.require_matplotlib()
    with options.open_store() as store, _progress(console, "tables") as show:
        run(own, store, engine, progress=lambda state: show(*_of_run(state)))
        results = store.results(whole.result_keys())
    return _finish(console, pages.tables_page(whole, results, setting, folds), options)


def _require_data(work: Sequence[Any], missing: Mapping[str, str]) -> None:
    if not work:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise ValueError(f"none of the data sets is available: {reasons}")


def run_curves_command(console: Console, options: Options) -> Page | None:
    """Training curves."""
    setting = options.setting()
    tasks, missing = curve_tasks(setting, options.only, data_home=options.home)
    _require_data(tasks, missing)
    if options.dry_run:
        with options.look_into_store() as known:
            todo = [task for task in tasks if known is None or known.record(task.key) is None]
        units = [Unit(task.source, setting, task.body, (0,)) for task in todo]
        # A unit of the tables is four trainings; a curve is one.
        seconds = measure_speed(options.device).seconds(units) / 4 if units else 0.0
        _say(console, f"{len(todo)} of {len(tasks)} curves to train; very roughly {in_words(seconds)}")
        return None
    pictures.require_matplotlib()
    with options.open_store() as store, _progress(console, "curves") as show:
        began = time.monotonic()
        curves = run_curves(
            tasks,
            store,
            data_home=options.home,
            device=options.device,
            on_curve=lambda done: show(done, len(tasks), f"{done} of {len(tasks)}", _left(began, done, len(tasks))),
        )
    return _finish(console, pages.curves_page(curves, setting, missing), options)


def run_runtime(console: Console, options: Options) -> Page | None:
    """Running times."""
    tasks, missing = runtime_tasks(options.only, data_home=options.home)
    _require_data(tasks, missing)
    if options.dry_run:
        _say(
            console,
            f"{len(tasks)} networks to measure, four epochs of each or more",
        )
        return None
    pictures.require_matplotlib()
    with _progress(console, "runtime") as show:
        began = time.monotonic()
        runtimes = measure_runtimes(
            tasks,
            n_epochs=options.epochs,
            data_home=options.home,
            device=options.device,
            on_task=lambda done: show(done, len(tasks), f"{done} of {len(tasks)}", _left(began, done, len(tasks))),
        )
    return _finish(console, pages.runtime_page(runtimes, options.epochs, missing), options)


def run_sparse(console: Console, options: Options) -> Page | None:
    """Sparse machines."""
    epochs = options.epochs or SPARSE_EPOCHS
    if options.dry_run:
        _say(console, f"one fleet: {options.seeds} seeds x 7 strengths of the penalty, {epochs} epochs; a few seconds")
        return None
    pictures.require_matplotlib()
    began = time.perf_counter()
    machines = learn_sparse_machines(
        range(options.seeds), max_epochs=epochs, device=options.device, verbose=int(console.is_terminal)
    )
    page = pages.sparse_page(machines, epochs, time.perf_counter() - began)
    return _finish(console, page, options)


def run_all(console: Console, options: Options) -> None:
    """All experiments; a slice of epochs is one of the tables and curves."""
    of_tables = (run_curves_command, run_tables)
    done = [run_sparse(console, replace(options, epochs=None, device="cpu"))]
    done.append(run_runtime(console, replace(options, epochs=None)))
    done += [command(console, options) for command in of_tables]
    found = [page for page in done if page is not None]
    if found:
        pages.write_index(found, options.output)


def _finish(console: Console, page: Page, options: Options) -> Page:
    """Show a page and write its files."""
    for table in page.tables:
        _show(console, table)
    for remark in page.remarks:
        _say(console, remark)
    command = printable(shlex.join(["tabgnm", *sys.argv[1:]]))
    for path in write_page(page, options.output, provenance(command, options.device)):
        _say(console, str(path))
    return page


def _show(console: Console, table: TextTable) -> None:
    from rich import box
    from rich.table import Table

    shown = Table(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(table.columns):
        shown.add_column(name, justify="left" if number == 0 else "right", no_wrap=number > 0, max_width=_WIDEST_CELL)
    for row in table.rows:
        shown.add_row(*row)
    # A terminal that is too narrow breaks lines; to leave out digits or the names of data sets would be worse.
    before = console.width
    console.width = max(before, console.measure(shown, options=console.options.update(width=_WIDEST)).maximum)
    console.print(shown, crop=False, soft_wrap=True)
    console.width = before


def _say(console: Console, text: str) -> None:
    console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


def _list_work(console: Console, own: ExperimentPlan, todo: list[Unit], options: Options, engine: Engine) -> None:
    """What `--dry-run` shows."""
    speed = measure_speed(options.device) if todo else NO_WORK
    n_jobs = engine.n_workers or 1
    rows = []
    for source in own.sources:
        units = [unit for unit in own.units if unit.source == source]
        left = [unit for unit in todo if unit.source == source]
        if units:
            n_models, n_left = (sum(unit.n_models for unit in some) for some in (units, left))
            rows.append(
                (source.label, f"{len(units)}", f"{n_models:,}", f"{n_left:,}", in_words(speed.seconds(left, n_jobs)))
            )
    columns = ("data set", "fleets", "trainings", "to do", "time, roughly")
    _show(console, TextTable("The work", columns, rows))
    for remark in pages.setting_remarks(options.setting(), options.fold_numbers()):
        _say(console, remark)
    for name, left_out in own.skipped.items():
        _say(console, f"{name}: {len(left_out)} networks of the grid are left out, e.g. {left_out[0].reason}")
    for remark in pages.missing_remarks(own.missing):
        _say(console, remark)
    if not todo:
        _say(console, "All results are in the store: nothing to train.")
        return
    at_once = "one worker of the cluster" if engine.n_workers is None else f"{n_jobs} at once"
    total, n_folds = speed.seconds(todo, n_jobs), len(options.fold_numbers() or range(N_FOLDS))
    _say(
        console,
        f"Total: {sum(unit.n_models for unit in todo):,} trainings ({n_folds} folds), roughly {in_words(total)} with "
        f"{at_once}: an estimate from {speed.measured_in:.1f} s of measurements on this machine, which may be "
        "off by a factor of two, or more if other programs are running.",
    )


@contextmanager
def _progress(console: Console, name: str) -> Iterator[Callable[[float, float, str, float], Any]]:
    """Give a function that shows how far the work is and the time left; silent where there is no terminal."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None, text="")

        def show(done: float, total: float, text: str, left: float) -> None:
            words = f"{text}, {in_words(left)} left" if left == left else text
            bar.update(task, completed=done, total=total, text=words)

        yield show


def _of_run(state: Progress) -> tuple[float, float, str, float]:
    return state.cost_done, state.cost_total, f"{state.done:,} of {state.total:,} trainings", state.seconds_left


def _left(began: float, done: int, total: int) -> float:
    return (time.monotonic() - began) / done * (total - done)
