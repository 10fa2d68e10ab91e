"""The encoder of tables: fitted on training rows, applied to any rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tabgnm.table.advice import warn_about, warn_once_about
from tabgnm.table.cells import canonical_cells
from tabgnm.table.columns import ColumnTable
from tabgnm.table.errors import TableError
from tabgnm.table.layout import CategorySlot, EmbeddingNumbers, EncodedLayout
from tabgnm.table.numbers import NumberMaps
from tabgnm.table.plans import ColumnPlan, inferred_kind, numbers_of, plan_column, refuse_infinity
from tabgnm.table.raw import RawTable, shortened
from tabgnm.table.recipes import Recipe, recipes
from tabgnm.table.settings import KINDS, TableSettings
from tabgnm.table.sources import Source
from tabgnm.table.state import read_state, written_state
from tabgnm.table.text import USUAL_READING
from tabgnm.table.values import DATE_PARTS, Floats, as_moments, check_booleans

ReadableKind = Literal["number", "category", "date"]

# Numbers that are converted at a time: in addition to its result, `encode` takes at most about 40 MB of memory.
_BLOCK_SIZE = 2_000_000
# Warn if none of at least _MIN_UNKNOWN cells has a known level of a category with at most _MAX_USUAL_LEVELS levels, or
# of a category of numbers, which may be days.
_MIN_UNKNOWN, _MAX_USUAL_LEVELS = 10, 50
_LARGEST = {np.dtype(np.float32): float(np.finfo(np.float32).max)}


class TableEncoder:
    """Converts tables to arrays of numbers for a network.

    Everything is learned from the rows passed to `fit`. The order of the encoded columns is: plain numbers, indicators
    and one-hot columns; numbers that the network embeds; codes of categories that the network embeds.

    Parameters
    ----------
    settings : TableSettings, default=TableSettings()

    Examples
    --------
    >>> from tabgnm.table import TableSettings, read_table
    >>> raw = read_table([[1.0, "red"], [2.0, "blue"], [None, "red"]])
    >>> encoder = TableEncoder(TableSettings(scaling="standard")).fit(raw)
    >>> encoder.encode(raw)
    array([[-1.,  0.,  1.],
           [ 1.,  0., -1.],
           [ 0.,  1.,  1.]], dtype=float32)
    >>> encoder.encoded_names
    ['x0', 'x0 is missing', 'x1: blue or red']
    """

    def __init__(self, settings: TableSettings | None = None) -> None:
        self.settings = TableSettings() if settings is None else settings
        self._plans: list[ColumnPlan] | None = None

    def fit(self, raw: RawTable, rows: slice | ArrayLike | None = None) -> TableEncoder:
        """Learn how to encode tables, only from `rows` of this table (if None, from all rows)."""
        overrides = self._overrides(raw)
        training = raw if rows is None else raw.take(rows)
        if training.n_rows == 0:
            raise TableError("there are no training rows; expected at least one")
        self._set_plans(
            [
                plan_column(training.source, column, name, self.settings, overrides.get(column))
                for column, name in enumerate(raw.names)
            ]
        )
        warn_about((plan.advice for plan in self.plans if plan.advice is not None), self.settings.min_level_count)
        return self

    def without(self, columns: Iterable[int], note: str) -> TableEncoder:
        """Return a copy of this encoder that does not use some raw columns, for the reason in `note`."""
        unused = set(columns)
        nothing: dict[str, Any] = {"features": (), "indicator": False, "encoding": "", "levels": None, "span": None}
        encoder = TableEncoder(self.settings)
        encoder._set_plans(
            [
                replace(plan, note=note, **nothing) if i in unused and (plan.features or plan.encoding) else plan
                for i, plan in enumerate(self.plans)
            ]
        )
        return encoder

    def _overrides(self, raw: RawTable) -> dict[int, str]:
        overrides: dict[int, str] = {}
        names = raw.names
        for key, kind in (self.settings.kinds or {}).items():
            if not isinstance(key, str) and raw.has_integer_names:
                raise TableError(
                    f"the key {key} of the column kinds is ambiguous: it may be a name or a position, because the "
                    f"columns have the names {', '.join(names[:20])}; use {shortened(names)} for names"
                )
            if isinstance(key, str) and key not in names:
                raise TableError(
                    f"a kind is given for column {key!r}, which does not exist; expected one of {shortened(names)}"
                )
            if not isinstance(key, str) and not 0 <= key < len(names):
                raise TableError(
                    f"a kind is given for column {key}, which does not exist; expected a position from 0 to "
                    f"{len(names) - 1}"
                )
            column = names.index(key) if isinstance(key, str) else key
            if overrides.get(column, kind) != kind:
                raise TableError(
                    f"two kinds are given for column {names[column]!r}, {overrides[column]!r} and {kind!r}; remove one "
                    "of the two"
                )
            overrides[column] = kind
        return overrides

    def _set_plans(self, plans: list[ColumnPlan]) -> None:
        self._plans = plans
        self._layout = layout = EncodedLayout(plans)
        self._maps = NumberMaps([slot.feature.map for slot in layout.features])
        # Arrays of positions, so that a block can be filled without a loop over its columns.
        written = [(index, slot.target) for index, slot in enumerate(layout.features) if slot.target is not None]
        self._written = np.array([index for index, _ in written], dtype=np.intp)
        self._targets = np.array([target for _, target in written], dtype=np.intp)
        self._indicators = np.array(layout.indicators, dtype=np.intp).reshape(-1, 2).T
        self._columns_read = [slot.column for slot in layout.features]
        self._booleans = [index for index, slot in enumerate(layout.features) if plans[slot.column].kind == "boolean"]
        kinds = self.settings.kinds or {}
        self._declared = {i for i, plan in enumerate(plans) if plan.name in kinds or i in kinds}
        numeric_kinds = {plans[slot.column].kind for slot in layout.features}
        self._only_numbers = numeric_kinds <= {"number", "boolean"}

    @property
    def learned_kinds(self) -> dict[str | int, str]:
        """The kinds of the columns by position, so that encoders of other rows use the same kinds."""
        return {column: plan.kind for column, plan in enumerate(self.plans) if plan.kind in KINDS}

    @property
    def plans(self) -> list[ColumnPlan]:
        """The plan of each raw column."""
        if self._plans is None:
            raise AttributeError("this TableEncoder is not fitted yet; call fit first")
        return self._plans

    @property
    def n_columns(self) -> int:
        """The number of raw columns."""
        return len(self.plans)

    @property
    def n_encoded(self) -> int:
        """The number of encoded columns; at least one, a column of zeros if no column can be used."""
        return self._fitted_layout.n_encoded

    @property
    def is_empty(self) -> bool:
        """Whether no column can be used."""
        return self._fitted_layout.is_empty

    @property
    def owners(self) -> list[int]:
        """The position of the raw column that each encoded column is computed from."""
        return list(self._fitted_layout.owners)

    @property
    def encoded_names(self) -> list[str]:
        """A readable name of each encoded column."""
        return list(self._fitted_layout.names)

    @property
    def recipes(self) -> list[Recipe]:
        """Descriptions of how each encoded column is computed, for code outside of this package."""
        return recipes(self.plans, self._fitted_layout)

    @property
    def embedding(self) -> EmbeddingNumbers | None:
        """The parameters of the embedding in the network, or None if there is nothing to embed."""
        return self._fitted_layout.embedding(self.settings)

    @property
    def level_names(self) -> list[list[str]]:
        """The names of the levels of each embedded category, by code."""
        return self._fitted_layout.level_names()

    @property
    def untrained_levels(self) -> list[int]:
        """The positions of levels without training rows in the stacked embedding table of all categories."""
        positions, start = [], 0
        for slot in self._fitted_layout.categories:
            if slot.encoding == "embedding":
                if self.plans[slot.column].n_missing == 0:
                    positions.append(start)  # only code 0 can be without training rows
                start += slot.levels.n_codes
        return positions

    @property
    def columns(self) -> ColumnTable:
        """The inferred properties of each raw column, as a readable table."""
        return ColumnTable.of_plans(self.plans, self._fitted_layout, self.settings)

    @property
    def _fitted_layout(self) -> EncodedLayout:
        if self._plans is None:
            raise AttributeError("this TableEncoder is not fitted yet; call fit first")
        return self._layout

    def encode(self, raw: RawTable, dtype: DTypeLike = np.float32, *, warn: bool = True) -> NDArray[Any]:
        """Encode a table that has the same columns, in the same order, as in `fit`.

        Parameters
        ----------
        raw : RawTable
        dtype : float32 or float64, default=float32
        warn : bool, default=True
            Whether to warn of categories of which no level is known; a sample of rows may have none by chance.

        Returns
        -------
        array of shape (rows, encoded columns)
            The encoded table: C-contiguous, without NaN or infinity. Numbers too large for the type become its largest
            number.
        """
        layout = self._fitted_layout
        self._check_columns(raw)
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise TypeError(f"dtype={dtype!r} is not supported; use numpy.float32 or numpy.float64")
        encoded = np.zeros((raw.n_rows, layout.n_encoded), dtype=dtype)
        width = max(len(layout.features), raw.n_columns if layout.features else 1)
        step = max(_BLOCK_SIZE // width, 1)
        for start in range(0, raw.n_rows, step):
            part = raw.source if raw.n_rows <= step else raw.source.take(slice(start, start + step))
            out = encoded[start : start + step]
            if layout.features:
                self._encode_numbers(part, out)
            for slot in layout.categories:
                codes = slot.levels.codes(part.cells(slot.column))
                if warn and len(codes) >= _MIN_UNKNOWN and not slot.levels.has_named(codes):
                    self._warn_of_unknown(slot, part)
                if slot.encoding == "embedding":
                    out[:, slot.targets.start] = codes
                elif slot.encoding == "two-level":
                    out[:, slot.targets.start] = np.array([0, -1, 1])[codes]
                elif slot.encoding == "one-hot":
                    known = np.flatnonzero(codes)
                    out[known, slot.targets.start + codes[known] - 1] = 1
                if slot.indicator is not None:
                    out[:, slot.indicator] = codes == 0
        return encoded

    def _warn_of_unknown(self, slot: CategorySlot, part: Source) -> None:
        """Warn that no cell has a level of `fit`, for instance because the type of the column has changed."""
        plan, names = self.plans[slot.column], slot.levels.names
        given = [cell for cell in canonical_cells(part.cells(slot.column)) if cell is not None]
        if len(given) < _MIN_UNKNOWN or not names or plan.order is not None:
            return
        are_numbers = all(re.fullmatch(r"-?\d+", text) for text in (given[0], *names))
        if len(names) <= _MAX_USUAL_LEVELS or are_numbers:
            remedy = (
                f"if new rows have other numbers than those of fit, fit with column_kinds={{{plan.name!r}: 'number'}}"
                if are_numbers
                else "use the spelling and the type of fit"
            )
            message = (
                f"column {plan.name!r} has no level that occurred in fit: it has {given[0]!r:.50}, for example, and "
                f"fit had {names[0]!r:.50}. All cells count as unknown; {remedy}"
            )
            warn_once_about(f"unknown levels of {plan.name}", message, UserWarning)  # by one of several encoders

    def _encode_numbers(self, part: Source, out: NDArray[Any]) -> None:
        numbers = self._read_numbers(part)
        missing = None
        if not np.isfinite(numbers).all():
            missing = np.isnan(numbers)
            if np.isinf(numbers).any():
                for own, slot in zip(numbers, self._layout.features, strict=True):
                    refuse_infinity(own, self.plans[slot.column].name, part.row)
            of_feature, to_column = self._indicators
            out[:, to_column] = missing[of_feature].T
        self._maps.apply(numbers, missing)
        largest = _LARGEST.get(out.dtype)
        if largest is not None:
            np.clip(numbers, -largest, largest, out=numbers)
        if len(self._written) == len(numbers) == out.shape[1]:
            out[...] = numbers.T
        else:
            out[:, self._targets] = numbers[self._written].T

    def _read_numbers(self, part: Source) -> Floats:
        """Return a new array (features, rows)."""
        block = part.block(self._columns_read) if self._only_numbers else None
        if block is not None:
            for index in self._booleans:
                check_booleans(block[index], self.plans[self._columns_read[index]].name, part.row)
            return block
        numbers = np.empty((len(self._columns_read), part.n_rows))
        read: dict[int, Floats] = {}
        for index, slot in enumerate(self._layout.features):
            if slot.column not in read:
                plan, declared = self.plans[slot.column], slot.column in self._declared
                read[slot.column] = numbers_of(part, slot.column, plan, declared=declared)
            place = DATE_PARTS.index(slot.feature.part) if slot.feature.part in DATE_PARTS else 0
            numbers[index] = read[slot.column][place]
        return numbers

    def readable(self, raw: RawTable, column: int) -> tuple[ReadableKind, NDArray[Any]]:
        """Return the cells of a raw column in readable form, and their kind.

        Parameters
        ----------
        raw : RawTable
            With the same columns, in the same order, as in `fit`.
        column : int

        Returns
        -------
        kind : {"number", "category", "date"}
        values : array of shape (rows,)
            Numbers as float64 with NaN for missing ones (durations and times of day in seconds), dates as
            datetime64[us] with NaT, or levels as str with None. The levels of booleans are "False" and "True".
        """
        self._check_columns(raw)
        plan = self.plans[column]
        if plan.kind == "ignore":  # its kind follows from its type
            plan = replace(plan, kind=inferred_kind(raw.source.values(column, plan.name)))
        if plan.kind == "category":
            return "category", np.array(canonical_cells(raw.source.cells(column)), dtype=object)
        if plan.kind == "datetime":
            reading = plan.reading or USUAL_READING["datetime"]
            return "date", as_moments(raw.source.values(column, plan.name), plan.name, reading, strict=False)
        numbers = numbers_of(raw.source, column, plan, declared=column in self._declared)[0]
        if plan.kind != "boolean":
            return "number", numbers
        names = {0.0: "False", 1.0: "True"}
        return "category", np.array([names.get(number) for number in numbers.tolist()], dtype=object)

    def typical_row(self) -> NDArray[np.float64]:
        """Return an encoded row of typical numbers, without missing values, with equal shares of all levels.

        A number has the fill value of missing numbers: a median or mean. Codes of embedded categories are 0, because
        only the network can average their levels.
        """
        layout = self._fitted_layout
        row = np.zeros(layout.n_encoded)
        for slot in layout.features:
            if slot.target is not None:
                row[slot.target] = slot.feature.map.fill
        for category in layout.categories:
            if category.encoding == "one-hot":
                row[list(category.targets)] = 1 / len(category.targets)
        return row

    def out_of_range(self, raw: RawTable) -> NDArray[np.bool_]:
        """Return which cells are outside the range of the training rows; see docs/tables.md.

        Parameters
        ----------
        raw : RawTable
            With the same columns, in the same order, as in `fit`.

        Returns
        -------
        array of shape (rows, columns)
            True for numbers, dates, durations and times below the minimum or above the maximum of the training rows,
            and for levels that no training row has. False for missing cells, for columns that are not used, and for
            unseen levels of columns with rare levels, which are treated as rare.
        """
        layout = self._fitted_layout
        self._check_columns(raw)
        outside = np.zeros((raw.n_rows, self.n_columns), dtype=np.bool_)
        for column in sorted({slot.column for slot in layout.features}):
            plan = self.plans[column]
            if plan.kind in ("boolean", "category"):
                continue
            if plan.span is None:
                raise TableError(
                    f"the range of column {plan.name!r} is not known, because the model was saved by an earlier "
                    "version; fit the model again"
                )
            numbers = numbers_of(raw.source, column, plan, declared=column in self._declared)[0]
            outside[:, column] = (numbers < plan.span[0]) | (numbers > plan.span[1])
        for slot in layout.categories:
            if not slot.levels.rare:
                outside[:, slot.column] = slot.levels.unknown(raw.source.cells(slot.column))
        return outside

    def check_precision(self, dtype: DTypeLike) -> None:
        """Raise if training numbers are not scaled and too large or too small for a floating-point type."""
        limits = np.finfo(np.dtype(dtype).name)
        for slot in self._fitted_layout.features:
            plan = self.plans[slot.column]
            if plan.span is None or slot.feature.map.method != "identity" or slot.feature.role == "indicator only":
                continue
            largest = max(map(abs, plan.span))
            if largest > float(limits.max) or largest < float(limits.tiny):
                problem = "large" if largest > 1 else "small"
                raise TableError(
                    f"column {plan.name!r} has numbers of magnitude {largest:.3g}, which are too {problem} for "
                    f"{np.dtype(dtype)} without scaling; use another scaling, such as 'standard', or float64"
                )

    def _check_columns(self, raw: RawTable) -> None:
        if raw.n_columns != self.n_columns:
            raise TableError(
                f"X has {raw.n_columns} features, but TableEncoder is expecting {self.n_columns} features as input."
            )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted state as JSON values and arrays. It contains no rows of the training table."""
        return written_state(self.settings, self.plans)

    @classmethod
    def from_state(cls, schema: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TableEncoder:
        """Restore an encoder from its `state`.

        Raises
        ------
        ValueError
            If the state is incomplete or invalid. It is validated completely, because it may come from a damaged file.
        """
        settings, plans = read_state(schema, arrays)
        encoder = cls(settings)
        encoder._set_plans(plans)
        return encoder
