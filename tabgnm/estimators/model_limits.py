"""Limits of the memory and time that a model file may require.

Weights take as much memory as space in the file, and each is usually used once per row. This module limits what a file
may require beyond that: large structures that take few bytes in the file, and weights that are used many times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tabgnm.estimators import prediction
from tabgnm.estimators.fitting import FittedPack, NetworkGroup
from tabgnm.modelfile.errors import ModelFileError
from tabgnm.nn.shapes import body_of
from tabgnm.table import TableEncoder

MAX_GROUPS = 1000
MAX_NETWORKS = 100_000  # of a group
MAX_LAYERS = 4096  # of all groups together
MAX_SIZES = 64  # of the path of a small machine
_LONGEST_NAMES = 2**23  # characters in the names of all encoded columns; each repeats the name of a raw column

# Levels and encoded columns take a few hundred bytes each, and encoded columns also take memory for each row. Up to
# _MAX_ENTRIES are always accepted; files with many weights may have more.
_MAX_ENTRIES = 2**19
_ENTRIES_OF_COLUMN = 3
_WEIGHTS_PER_ENTRY = 64
# The machines of a path are stored without weights that are 0, which take memory once they are loaded.
_MAX_PATH_WEIGHTS = 2**22
_PATH_WEIGHTS_PER_STORED = 8
# Predictions take 8 bytes for each row and output.
_MAX_OUTPUTS = 2**15
_WEIGHTS_PER_OUTPUT = 128

# Work is measured in multiplications; a processor core does about 10^9 to 10^10 of them per second.
_ROWS = 100
_MAX_WORK = 2**32  # for _ROWS rows
_MAX_USES = 64  # of each weight per row, in files that exceed _MAX_WORK
_WORK_OF_LAYER = 2**18  # in addition to its products
_WORK_OF_ACTIVATION = 2**6


def check_names(n_characters: int) -> None:
    """Raise if the names of encoded columns would take much memory."""
    if n_characters > _LONGEST_NAMES:
        raise ModelFileError(
            f"the names of its encoded columns have {n_characters} characters; expected at most {_LONGEST_NAMES}: use "
            "shorter column names or fewer columns"
        )


def check_encoders(encoders: Sequence[TableEncoder], n_weights: int) -> None:
    """Raise if the levels and encoded columns would take much more memory than space in the file."""
    levels = [plan.levels for encoder in encoders for plan in encoder.plans if plan.levels is not None]
    n_encoded = sum(encoder.n_encoded for encoder in encoders)
    n_entries = sum(len(own.names) for own in levels) + _ENTRIES_OF_COLUMN * n_encoded
    most = max(_MAX_ENTRIES, n_weights // _WEIGHTS_PER_ENTRY)
    if n_entries > most:
        raise ModelFileError(
            f"its levels and encoded columns count as {n_entries} entries; expected at most {most} with {n_weights} "
            "weights: use a larger min_level_count or a smaller max_one_hot"
        )


def check_outputs(n_outputs: int, n_weights: int) -> None:
    """Raise if predictions would be much larger than the file."""
    most = max(_MAX_OUTPUTS, n_weights // _WEIGHTS_PER_OUTPUT)
    if n_outputs > most:
        raise ModelFileError(f"it has {n_outputs} outputs; expected at most {most} with {n_weights} weights")


def check_path(n_sizes: int, n_weights: int, n_stored: int) -> None:
    """Raise if the machines of a path, with `n_weights` each, would take much more memory than space in the file."""
    most = max(_MAX_PATH_WEIGHTS, _PATH_WEIGHTS_PER_STORED * (n_weights + n_stored))
    if n_sizes * n_weights > most:
        raise ModelFileError(
            f"the {n_sizes} machines of its path have {n_sizes * n_weights} weights; expected at most {most}: use a "
            "smaller n_hidden or fewer columns"
        )


def check_work(fitted: FittedPack, n_weights: int) -> None:
    """Raise if predictions would take much longer than using each weight once per row."""
    n_layers = sum(body_of(group.shape).n_layers for group in fitted.groups)
    n_pieces = math.ceil(_ROWS / prediction.piece_rows(prediction.elements_per_row(fitted)))
    work = _ROWS * sum(map(_work_per_row, fitted.groups)) + n_pieces * n_layers * _WORK_OF_LAYER
    most = max(_MAX_WORK, _MAX_USES * _ROWS * n_weights)
    if work > most:
        raise ModelFileError(
            f"predicting {_ROWS} rows takes {work} operations; expected at most {most} with {n_weights} weights: use a "
            "tied network with fewer layers"
        )


def _work_per_row(group: NetworkGroup) -> int:
    sizes = body_of(group.shape).parameter_shapes()
    work = sum(map(math.prod, sizes.values()))
    if body_of(group.shape).tied:  # each layer uses all weights again
        work = body_of(group.shape).n_layers * (work + _WORK_OF_ACTIVATION * sizes["bias"][0])
    return group.n_networks * work
