"""The encoded columns: their order, names and raw columns, and the parameters of the embedding in the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tabgnm.table.categories import RARE, UNKNOWN, Levels
from tabgnm.table.plans import ColumnPlan, Feature
from tabgnm.table.settings import TableSettings

NOTHING = "(nothing)"  # the name of the input of a table without usable columns


@dataclass(frozen=True)
class EmbeddingNumbers:
    """The parameters of an embedding of encoded columns. Its fields are the arguments of `tabgnm.nn.InputEmbedding`.

    The encoded columns are `n_plain` numbers that pass through, then `n_numeric` numbers to embed, then one column of
    codes for each entry of `levels`.

    Attributes
    ----------
    n_plain, n_numeric : int
    numeric : {"periodic", "piecewise"}
        How numbers are embedded, if there are any to embed.
    n_basis, numeric_dim : int
    frequency_scale : float
    levels : tuple of int
        The number of codes of each embedded category, including 0 (missing or unknown).
    level_dim : int
    """

    n_plain: int
    n_numeric: int
    numeric: str
    n_basis: int
    numeric_dim: int
    frequency_scale: float
    levels: tuple[int, ...]
    level_dim: int


@dataclass(frozen=True)
class FeatureSlot:
    """The raw column from which a number is read, and the encoded column to which it is written, if any."""

    column: int
    feature: Feature
    target: int | None


@dataclass(frozen=True)
class CategorySlot:
    """The raw column from which a category is read, and the encoded columns to which it is written."""

    column: int
    levels: Levels
    encoding: str
    targets: range
    indicator: int | None


class EncodedLayout:
    """The encoded columns of a table: plain ones, then embedded numbers, then codes of embedded categories.

    Parameters
    ----------
    plans : sequence of ColumnPlan
        One per raw column.

    Attributes
    ----------
    features : list of FeatureSlot
    indicators : list of (feature, target)
        The position in `features` of a number, and the encoded column that is 1 where this number is missing.
    categories : list of CategorySlot
    owners : list of int
        The raw column of each encoded column.
    names : list of str
        The name of each encoded column.
    n_plain, n_numeric : int
    levels : tuple of int
        The number of codes of each embedded category.
    is_empty : bool
        Whether no raw column can be used. There is then one encoded column of zeros.
    """

    def __init__(self, plans: Sequence[ColumnPlan]) -> None:
        self.features: list[FeatureSlot] = []
        self.indicators: list[tuple[int, int]] = []
        self.categories: list[CategorySlot] = []
        self.owners: list[int] = []
        self.names: list[str] = []
        for column, plan in enumerate(plans):
            self._add_plain(column, plan)
        self.is_empty = not self.owners and next(_embedded(plans), None) is None
        if self.is_empty:  # a network needs an input: one column, which stays zero
            self._new(0, NOTHING)
        self.n_plain = len(self.owners)
        for column, plan, feature in _embedded(plans):
            if feature is not None:
                self.features.append(FeatureSlot(column, feature, self._new(column, _feature_name(plan, feature))))
        self.n_numeric = len(self.owners) - self.n_plain
        for column, plan, feature in _embedded(plans):
            if feature is None and plan.levels is not None:
                target = self._new(column, plan.name)
                slot = CategorySlot(column, plan.levels, plan.encoding, range(target, target + 1), None)
                self.categories.append(slot)
        self.levels = tuple(slot.levels.n_codes for slot in self.categories if slot.encoding == "embedding")

    def _new(self, column: int, name: str) -> int:
        self.owners.append(column)
        self.names.append(name)
        return len(self.owners) - 1

    def _add_plain(self, column: int, plan: ColumnPlan) -> None:
        first_feature = None
        for feature in plan.features:
            if feature.role == "embedded":
                continue
            target = self._new(column, _feature_name(plan, feature)) if feature.role == "plain" else None
            first_feature = len(self.features) if first_feature is None else first_feature
            self.features.append(FeatureSlot(column, feature, target))
        if plan.levels is not None and plan.encoding != "embedding":
            self._add_category(column, plan, plan.levels)
        elif plan.features and plan.indicator:
            if first_feature is None:
                # All numbers of this column are embedded and follow later; this one is read only to find missing cells.
                first_feature = len(self.features)
                self.features.append(FeatureSlot(column, plan.features[0], None))
            self.indicators.append((first_feature, self._new(column, f"{plan.name} is missing")))

    def _add_category(self, column: int, plan: ColumnPlan, levels: Levels) -> None:
        start = len(self.owners)
        if plan.encoding == "two-level":
            self._new(column, f"{plan.name}: {_visible(levels.names[0])} or {_visible(levels.names[1])}")
        elif plan.encoding == "one-hot":
            for level in levels.names:
                self._new(column, f"{plan.name}={_visible(level)}")
        targets = range(start, len(self.owners))
        indicator = self._new(column, f"{plan.name}={UNKNOWN}") if plan.indicator else None
        self.categories.append(CategorySlot(column, levels, plan.encoding, targets, indicator))

    @property
    def n_encoded(self) -> int:
        """The number of encoded columns."""
        return len(self.owners)

    def embedding(self, settings: TableSettings) -> EmbeddingNumbers | None:
        """Return the parameters of the embedding; None if no column is embedded."""
        if not self.n_numeric and not self.levels:
            return None
        return EmbeddingNumbers(
            n_plain=self.n_plain,
            n_numeric=self.n_numeric,
            numeric=settings.numeric_embedding or "periodic",
            n_basis=settings.n_basis,
            numeric_dim=settings.numeric_dim,
            frequency_scale=settings.frequency_scale,
            levels=self.levels,
            level_dim=settings.level_dim,
        )

    def level_names(self) -> list[list[str]]:
        """Return the names of the codes of each embedded category, in order."""
        return [
            [UNKNOWN, *slot.levels.names, *([RARE] if slot.levels.rare else [])]
            for slot in self.categories
            if slot.encoding == "embedding"
        ]


def _embedded(plans: Sequence[ColumnPlan]) -> Iterator[tuple[int, ColumnPlan, Feature | None]]:
    """Yield each embedded number, and None in place of a number for each embedded category."""
    for column, plan in enumerate(plans):
        for feature in plan.features:
            if feature.role == "embedded":
                yield column, plan, feature
        if plan.encoding == "embedding":
            yield column, plan, None


def _feature_name(plan: ColumnPlan, feature: Feature) -> str:
    return f"{plan.name}.{feature.part}" if feature.part else plan.name


def _visible(level: str) -> str:
    """Return a level, in quotes if it would be invisible."""
    return level if level.strip() else f'"{level}"'
