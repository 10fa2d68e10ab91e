"""The description of a data set, which is known before its rows are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabgnm.datasets.formats import Arff, Columns, Delimited, Kind
from tabgnm.datasets.limits import SizeLimits

Task = Literal["classification", "regression"]
TASKS: tuple[Task, ...] = ("classification", "regression")
Variant = Literal["clean", "paper", "sample"]
DEFAULT_VARIANT: Variant = "clean"


@dataclass(frozen=True)
class Archive:
    """The original archive of a data set, and how to read it.

    Parameters
    ----------
    url : str
        The URL of the archive.
    file : str
        The name of the archive in the cache, with its suffix (``.zip`` or ``.tgz``).
    members : tuple of str
        The files in the archive that contain the rows, in order. A member may be compressed (``.Z`` or ``.gz``) and
        may be in an archive within the archive.
    format : Delimited or Arff
        The format of the members.
    sha256 : str, optional
        The checksum of the archive, if one is published. UCI publishes none, so the parsed content of its data sets is
        verified (`DatasetSpec.content_sha256`).
    raw : tuple of (str, kind) pairs, optional
        The columns to read, with their kinds, if they differ from those of the data set, which `derive` computes.
    derive : callable, optional
        Computes the columns of the data set from the columns that were read.
    """

    url: str
    file: str
    members: tuple[str, ...]
    format: Delimited | Arff
    sha256: str | None = None
    raw: tuple[tuple[str, Kind], ...] | None = None
    derive: Callable[[Columns], Columns] | None = None


@dataclass(frozen=True)
class Computed:
    """A data set that needs no file: it is generated, or comes with scikit-learn.

    Parameters
    ----------
    origin : str
        A readable origin: ``"generated"`` or ``"scikit-learn"``.
    make : callable
        Takes the variant and returns the features, shape (n_samples, n_features), and the target.
    """

    origin: str
    make: Callable[[Variant], tuple[NDArray[np.float64], NDArray[Any]]]


@dataclass(frozen=True)
class DatasetSpec:
    """A data set: its names, content, source, and the work to cite.

    Parameters
    ----------
    name : str
        The name in `load_dataset`.
    title : str
        The usual name.
    task : {"classification", "regression"}
        How the paper uses it.
    target : str
        The column to predict.
    columns : tuple of str
        All columns of the cached table, in order: features, identifiers, leaking columns and the target.
    n_samples : int
        The number of rows of the clean and the paper's variant.
    description : str
        What a row is and what is predicted, in one or two sentences.
    license, citation : str
        The terms of use, and the work to cite.
    source : Archive or Computed
        Where the rows come from.
    n_classes : int, optional
        The number of classes; None for regression.
    integer_labels : bool, default=False
        Whether the class labels are integers rather than text.
    categorical : tuple of str, default=()
        The features that are categories; all others are numbers.
    identifiers : tuple of str, default=()
        Columns that number the rows and are never features.
    leaking : tuple of str, default=()
        Columns from which the target is computed; features only in the paper's variant.
    n_missing : int, default=0
        The number of missing cells.
    uci_id : int, optional
        The number of the data set in the UCI repository.
    n_samples_original : int, optional
        The number of rows of the original, if the paper uses only a part of it.
    may_be_sampled : bool, default=False
        Whether a cache may have a sample instead of all rows. A sample is only loaded by ``variant="sample"``.
    content_sha256 : str, optional
        The checksum of the parsed values (`tabgnm.datasets.content.content_checksum`); None if it is not known.
    notes : str, default=""
        Remarks for readers of results.
    in_tables : bool, default=True
        Whether the data set is one of the 21 of the paper's tables.
    """

    name: str
    title: str
    task: Task
    target: str
    columns: tuple[str, ...]
    n_samples: int
    description: str
    license: str
    citation: str
    source: Archive | Computed
    n_classes: int | None = None
    integer_labels: bool = False
    categorical: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    leaking: tuple[str, ...] = ()
    n_missing: int = 0
    uci_id: int | None = None
    n_samples_original: int | None = None
    may_be_sampled: bool = False
    content_sha256: str | None = None
    notes: str = ""
    in_tables: bool = True

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants that `load_dataset` accepts for this data set."""
        return ("clean", "paper", "sample") if self.may_be_sampled else ("clean", "paper")

    @property
    def n_rows_published(self) -> int:
        """The number of rows of the original data set; the paper may use only a part of them."""
        return self.n_samples_original or self.n_samples

    @property
    def limits(self) -> SizeLimits:
        """The maximum size of a file of this data set, cached or original."""
        n_columns = len(self.columns)
        if isinstance(self.source, Archive) and isinstance(self.source.format, Delimited):
            n_columns = max(n_columns, len(self.source.format.columns or ()))
        return SizeLimits.of_table(self.n_rows_published, n_columns)

    @property
    def n_features(self) -> int:
        """The number of features of the clean variant."""
        return len(self.feature_names("clean"))

    def feature_names(self, variant: Variant = DEFAULT_VARIANT) -> tuple[str, ...]:
        """Return the features of a variant, in the order of the columns."""
        left_out = {self.target, *self.identifiers, *(() if variant == "paper" else self.leaking)}
        return tuple(name for name in self.columns if name not in left_out)

    def kinds(self) -> dict[str, Kind]:
        """Return every column of the cached table with the kind of its values."""
        kinds: dict[str, Kind] = {name: "category" if name in self.categorical else "number" for name in self.columns}
        if self.task == "classification":
            kinds[self.target] = "integer" if self.integer_labels else "category"
        return kinds
