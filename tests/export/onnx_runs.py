"""Running exported ONNX models on tables, as a user would."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd

from tabgnm.table.cells import canonical

_TYPES = {"tensor(double)": np.float64, "tensor(float)": np.float32}


def loaded(content: bytes) -> onnx.ModelProto:
    """Return a model that the checker of ONNX has accepted."""
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    return model


def metadata(content: bytes) -> dict[str, Any]:
    return {entry.key: entry.value for entry in onnx.load_from_string(content).metadata_props}


def run(content: bytes, table: Any) -> dict[str, Any]:
    """Return all outputs for a frame or an array."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    columns = {own["input"]: own for own in json.loads(metadata(content)["columns"])}
    feeds = {}
    for own in session.get_inputs():
        if own.shape[1] > 1:
            feeds[own.name] = frame.to_numpy(_TYPES[own.type])
        else:
            column = columns[own.name]
            feeds[own.name] = cells(frame.iloc[:, column["position"]], own.type, column.get("missing"))[:, None]
    return dict(zip([own.name for own in session.get_outputs()], session.run(None, feeds), strict=True))


def cells(column: Any, kind: str, missing: str | None = None) -> Any:
    """Return a column as an input of this type takes it."""
    if kind == "tensor(string)":
        texts = [canonical(cell) for cell in column]
        return np.array([missing if text is None else text for text in texts], dtype=object)
    if kind == "tensor(int64)":
        return pd.to_datetime(column).to_numpy("datetime64[us]").view(np.int64)
    if kind == "tensor(bool)":
        return column.to_numpy(bool)
    if pd.api.types.is_timedelta64_dtype(column):
        column = column.dt.total_seconds()
    return column.to_numpy(_TYPES[kind], na_value=np.nan)
