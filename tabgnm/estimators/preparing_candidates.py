"""Choose the candidates of a pack, and encode the table for each of them."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.estimators import narrowing
from tabgnm.estimators.candidates import BASE, LIST, SHORT_LIST, VARIANTS, TableFacts, candidate_settings
from tabgnm.estimators.checks import is_auto
from tabgnm.estimators.effort import effort_of
from tabgnm.estimators.fitting import (
    EncodedTables,
    FittedPack,
    Narrowed,
    PreparedCandidate,
    PreparedFit,
    PreparedRows,
    PreparedTable,
    full_shape,
)
from tabgnm.estimators.integer_codes import MIN_ROWS_PER_CODE, integer_codes
from tabgnm.estimators.memory import check_memory
from tabgnm.estimators.parameters import TooFewNodesError
from tabgnm.estimators.screening import (
    MAX_COPIED_NUMBERS,
    MAX_ROWS,
    SCREENED_FROM,
    sample_of_rows,
    unrelated_columns,
)
from tabgnm.estimators.targets import NumberTargets, Targets
from tabgnm.nn.losses import LogLinkLoss
from tabgnm.nn.shapes import Shape, body_of
from tabgnm.table import TableEncoder, TableSettings
from tabgnm.table.advice import Advice, warn_about, warn_once_about
from tabgnm.table.settings import checked_kinds
from tabgnm.training import Member, Table
from tabgnm.training.threads import single_threaded_math

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]

_log = logging.getLogger("tabgnm")

_SHARE_OF_ENCODING = 0.15  # fraction of a time limit
_SKEWED = 1.0  # the minimum skewness of a target with a long tail


def prepare_candidates(
    estimator: TabularEstimator,
    rows: PreparedRows,
    shared: EncodedTables,
    *,
    previous: FittedPack | None,
    one_epoch: bool,
    n_calls: int,
    only_planned: bool = False,
) -> PreparedFit:
    """Choose the candidates, and encode the table for each, unless they are only planned."""
    began = time.monotonic()
    effort = effort_of(estimator, rows.n_rows)
    parameters = {name: getattr(estimator, name) for name in estimator._get_param_names()}
    if is_auto(parameters.get("hidden")):
        parameters["n_layers"] = "auto"
    unused: tuple[int, ...] = ()
    if previous is not None:
        # Use the current values of parameters; networks and their inputs do not change.
        changed = {name: value for name, value in parameters.items() if name in BASE and not is_auto(value)}
        wanted = [group.settings | changed for group in previous.groups]
    else:
        n = effort.n_candidates if is_auto(estimator.n_candidates) else int(estimator.n_candidates)
        if one_epoch or not rows.validated:
            n = 1  # candidates cannot be compared without validation
        facts, narrowed = _facts(estimator, parameters, rows, shared, one_epoch=one_epoch)
        if narrowed is not None:
            unused, rows = narrowed.unused, _first_folds(rows, narrowed.n_folds)
        wanted = candidate_settings(parameters, n, facts, SHORT_LIST if effort.is_short else LIST)
    candidates: list[PreparedCandidate] = []

    def prepared() -> PreparedFit:
        return PreparedFit(rows, candidates, effort, rows.raw.names, rows.raw.has_names, previous)

    too_small = None
    for number, settings in enumerate(wanted):
        if previous is None and is_auto(estimator.n_candidates) and len(candidates) == effort.n_candidates:
            break
        if number and estimator.time_limit is not None and previous is None:
            spent = time.monotonic() - began
            if spent > _SHARE_OF_ENCODING * estimator.time_limit:
                break  # encoding a large table for all candidates would leave no time for training
        group = previous.groups[number] if previous is not None else None
        if group is not None:
            data = _encoded_as_before(rows, group.encoder, estimator._with_own_loss(group.targets), group.dtype, shared)
            folds, shape, seeds = group.folds, group.shape, group.seeds
        else:
            data = _encoded(estimator, rows, settings, shared, unused, one_epoch=one_epoch)
            folds = list(range(len(rows.folds)))
            body = functools.partial(estimator._network_shape, settings=settings, n_auto=effort.n_nodes)
            try:
                shape = full_shape(data.encoder, body, data.targets.n_outputs)
            except TooFewNodesError as error:  # n_nodes may be large enough for other candidates
                _log.info("setting %d is left out: %s", number + 1, error)
                too_small = too_small or error
                continue
            seeds = [(seed + 1_000_003 * number) % 2**31 for seed in rows.seeds]
            if not candidates:
                effort = effort.for_networks(shape.n_parameters(), rows.n_rows)
        n_train = len(rows.folds[0].train)
        fleet = estimator._fleet_settings(
            data.targets.loss, n_train, effort, validated=rows.validated, one_epoch=one_epoch
        )
        members = [
            Member(
                train=rows.folds[fold % len(rows.folds)].train,
                val=rows.folds[fold % len(rows.folds)].val,
                val_halves=rows.folds[fold % len(rows.folds)].val_halves,
                # Each call of partial_fit shuffles the rows in a different order.
                seed=seed + 1_000_003 * n_calls,
                learning_rate=settings["learning_rate"],
                weight_decay=settings["weight_decay"],
                dropout=settings["dropout"],
                l1=estimator.l1,
                l2=estimator.l2,
                l0=estimator.l0,
                sample_weight=rows.weight_tensor,
                frequency_scale=settings["frequency_scale"] if group is None and _is_periodic(shape) else None,
                start=None if group is None else group.network(position),
            )
            for position, (fold, seed) in enumerate(zip(folds, seeds, strict=True))
        ]
        candidate = PreparedCandidate(settings, data, shape, fleet, members, seeds, folds, group)
        candidates.append(candidate)
        if not only_planned:
            check_memory(prepared())
            is_first = len(candidates) == 1
            left_out = _left_out(estimator, rows, candidate, time.monotonic() if is_first else began)
            n_screened = candidate.n_folds if left_out is None else len(left_out)
            if n_screened < candidate.n_folds:
                if not is_first:
                    del candidates[-1]
                    break
                rows = _first_folds(rows, n_screened)
                candidate = candidate.of_first_folds(n_screened)
            candidates[-1] = replace(candidate, left_out=left_out)
    if not candidates and too_small is not None:
        raise too_small
    return prepared()


def _first_folds(rows: PreparedRows, n_folds: int) -> PreparedRows:
    """Return the rows without the folds that there was no time to test columns on."""
    if n_folds == len(rows.folds):
        return rows
    _log.info("there is only time to test the columns on %d of %d folds", n_folds, len(rows.folds))
    return rows.of_first_folds(n_folds)


def _left_out(
    estimator: TabularEstimator, rows: PreparedRows, candidate: PreparedCandidate, began: float
) -> list[Array] | None:
    """Return the columns that each member leaves out: by a test on its training rows, or the same as before.

    With a time limit, there may be only the first members.
    """
    table = candidate.data.table  # encodes the table
    if not candidate.settings["screen_columns"]:
        return None
    shape, group = candidate.shape, candidate.previous
    body = body_of(shape)
    n_plain = shape.n_inputs if shape.embedding is None else shape.embedding.n_plain
    if group is not None:
        weights = group.parameters[body.layer_names[0][0]][:, :n_plain]
        return [np.flatnonzero((own == 0).all(dim=1).numpy()) for own in weights]
    if is_auto(estimator.screen_columns) and n_plain * rows.n_rows > MAX_COPIED_NUMBERS:
        return None
    if id(table) in rows.left_out:  # candidates with the same encoder share their table
        return rows.left_out[id(table)]
    x, y, of_rows = table.x[:, :n_plain].numpy(), table.y.numpy(), rows.weights
    seconds = np.inf if estimator.time_limit is None else _SHARE_OF_ENCODING * estimator.time_limit
    left_out: list[Array] = []
    with single_threaded_math():
        for member in candidate.members:
            if left_out and time.monotonic() - began > seconds:
                return left_out
            train = _not_none(member.train).numpy()
            own = train[sample_of_rows(len(train), MAX_ROWS)]
            left_out.append(unrelated_columns(x[own], y[own], None if of_rows is None else of_rows[own]))
    rows.left_out[id(table)] = left_out
    return left_out


def _not_none(rows: Tensor | None) -> Tensor:
    assert rows is not None
    return rows


def _is_periodic(shape: Shape) -> bool:
    return shape.embedding is not None and shape.embedding.n_numeric > 0 and shape.embedding.numeric == "periodic"


def _facts(
    estimator: TabularEstimator,
    parameters: Mapping[str, Any],
    rows: PreparedRows,
    shared: EncodedTables,
    *,
    one_epoch: bool,
) -> tuple[TableFacts, Narrowed | None]:
    """Return the facts that the choice of candidates depends on, and the columns that candidates use if not all."""
    embedding = parameters["numeric_embedding"]
    settings = {name: value for name, value in parameters.items() if name in BASE and not is_auto(value)}
    first = _encoded(estimator, rows, BASE | settings | {"target_transform": "none"}, shared, one_epoch=one_epoch)
    own, n_inputs = first.encoder.embedding, narrowing.n_inputs(first.encoder)
    n_numbers = 1  # not used without embeddings
    if embedding is not None:
        n_numbers = 0 if own is None else own.n_numeric
    takes_log = isinstance(rows.targets, NumberTargets) and not isinstance(rows.targets.loss, LogLinkLoss)
    long_tail = takes_log and _has_long_tail(rows.y)
    without_variants = all(is_auto(parameters.get(name, "auto")) or parameters[name] == BASE[name] for name in VARIANTS)
    can_screen = without_variants and not parameters.get("learn_initial", False)
    screened = can_screen and SCREENED_FROM < n_inputs <= MAX_COPIED_NUMBERS / rows.n_rows
    wants = (is_auto(embedding) or embedding is None) and bool(parameters["screen_columns"])
    narrowed = None
    if can_screen and wants and not one_epoch and n_inputs > narrowing.NARROWED_FROM:
        narrowed = _narrowed(estimator, rows, first.encoder)
    return TableFacts(n_numbers, long_tail, screened, narrowed is not None), narrowed


def _codes(estimator: TabularEstimator, rows: PreparedRows, *, one_epoch: bool) -> list[str | int]:
    """Return the names or positions of columns of whole numbers to encode as categories."""
    tested = is_auto(estimator.integer_codes)
    if not estimator.integer_codes or (tested and one_epoch):
        return []
    if tested not in rows.codes:
        least = max(MIN_ROWS_PER_CODE, estimator.min_level_count)
        rows.codes[tested] = integer_codes(rows, set(estimator.column_kinds or {}), least, tested=tested)
    # Positions are ambiguous if names are integers.
    return [rows.raw.names[column] if rows.raw.has_integer_names else column for column in rows.codes[tested]]


def _narrowed(estimator: TabularEstimator, rows: PreparedRows, encoder: TableEncoder) -> Narrowed | None:
    """Return the columns of a very wide table that candidates use, or None if they use all columns."""
    if id(encoder) not in rows.narrowed:  # candidates of a search share it
        seconds = np.inf if estimator.time_limit is None else _SHARE_OF_ENCODING * estimator.time_limit
        rows.narrowed[id(encoder)] = narrowing.narrow(rows, encoder, seconds)
    narrowed, n_inputs = rows.narrowed[id(encoder)], narrowing.n_inputs(encoder)
    if narrowed.is_informative or not is_auto(estimator.screen_columns):
        return narrowed
    if narrowing.can_keep(n_inputs, rows.n_rows, is_mlp=hasattr(estimator, "hidden")):
        return None
    n_used = encoder.n_columns - len(narrowed.unused)
    warn_once_about(
        "screening",
        f"{n_used:,} of {encoder.n_columns:,} columns are used, but no more of them are related to the target than by "
        "chance; columns that matter only together with others are not found. Use screen_columns=False to keep all "
        "columns, which takes longer",
        UserWarning,
    )
    return narrowed


def _has_long_tail(y: Array) -> bool:
    """Whether all targets are positive and right-skewed, and their logarithms are less skewed."""
    if not (y > 0).all():
        return False

    def skewness(values: Array) -> Array:
        center = values.mean(axis=0)
        deviations = (values - center) / np.maximum(np.abs(values).max(axis=0), 1e-300)  # so that cubes do not overflow
        spread = np.sqrt((deviations**2).mean(axis=0))
        return np.asarray(
            np.divide((deviations**3).mean(axis=0), spread**3, out=np.zeros_like(spread), where=spread > 0)
        )

    columns = y.reshape(len(y), -1)
    before, after = skewness(columns / np.abs(columns).max(axis=0)), skewness(np.log(columns))
    return bool(((before > _SKEWED) & (np.abs(after) < before)).all())


def _encoded(
    estimator: TabularEstimator,
    rows: PreparedRows,
    settings: Mapping[str, Any],
    shared: EncodedTables,
    unused: tuple[int, ...] = (),
    *,
    one_epoch: bool = False,
) -> PreparedTable:
    """Encode the table with the settings of a candidate; candidates with equal settings share the result."""
    scale: Any = estimator.frequency_scale
    kinds = dict(checked_kinds("column_kinds", estimator.column_kinds) or {})
    kinds |= dict.fromkeys(_codes(estimator, rows, one_epoch=one_epoch), "category")
    table_settings = TableSettings(
        scaling=settings["scaling"],
        numeric_embedding=settings["numeric_embedding"],
        n_basis=settings["n_basis"],
        numeric_dim=settings["numeric_dim"],
        # It affects only initial weights (see `Member`), so candidates with different scales share an encoder.
        frequency_scale=BASE["frequency_scale"] if is_auto(scale) else scale,
        max_one_hot=estimator.max_one_hot,
        level_dim=estimator.level_dim,
        min_level_count=estimator.min_level_count,
        kinds=kinds or None,
    )
    transform = settings.get("target_transform", "none")
    key = f"{table_settings!r} {transform} {unused}"
    if key not in rows.encoded:
        dtype = np.float64 if estimator.precision == "float64" else np.float32
        encoder, encode = shared.encoder(rows.raw, rows.kept, table_settings, rows.trained_on, dtype, unused)
        if one_epoch and encoder.is_empty:
            raise ValueError(
                f"all columns are constant in the {rows.n_rows} rows of the first call of partial_fit, which "
                "determines the encoding of the columns; pass more rows, typical of later calls, in the first call"
            )
        if encoder.is_empty:
            warn_about([Advice("no column", "")], table_settings.min_level_count)
        targets = rows.targets
        if transform == "log":
            assert isinstance(targets, NumberTargets)
            of_rows = slice(None) if rows.trained_on is None else rows.trained_on
            weights = None if rows.weights is None else rows.weights[: rows.n_rows][of_rows]
            targets = NumberTargets.of(
                rows.y[of_rows], weights, targets.loss, scaled=True, may_vary=rows.may_vary, transform="log"
            )
        make = functools.partial(_table, rows, encoder, encode, targets, shared)
        rows.encoded[key] = PreparedTable(encoder, targets, make)
    return rows.encoded[key]


def _encoded_as_before(
    rows: PreparedRows, encoder: TableEncoder, targets: Targets, dtype: Any, shared: EncodedTables
) -> PreparedTable:
    key = f"{id(encoder)} {targets.transform}"
    if key not in rows.encoded:
        encode = functools.partial(encoder.encode, rows.raw, dtype=dtype)
        make = functools.partial(_table, rows, encoder, encode, targets, shared)
        rows.encoded[key] = PreparedTable(encoder, targets, make)
    return rows.encoded[key]


def _table(
    rows: PreparedRows, encoder: TableEncoder, encode: Callable[[], Array], targets: Targets, shared: EncodedTables
) -> Table:
    x = encode()
    dtype = torch.float64 if x.dtype == np.float64 else torch.float32
    numbers = rows.target_tensor(targets, dtype)
    if rows.raw_val is not None:
        x = np.concatenate([x, encoder.encode(rows.raw_val, dtype=x.dtype)])
    return shared.table(x, numbers)
