"""Code to load, use and export a model, to be copied."""

from __future__ import annotations

from dataclasses import dataclass

from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.machines import NoSingleMachine
from tabgnm.estimators.parameters import GNMParameters
from tabgnm.estimators.targets import ClassTargets, NumberTargets


@dataclass(frozen=True)
class Snippet:
    """Code with a heading."""

    heading: str
    code: str


def usage(model: TabularEstimator) -> list[Snippet]:
    """Return code that fits the model."""
    predictions = ["model.predict(X)"]
    targets = model.fitted_.targets
    if isinstance(targets, ClassTargets):
        predictions.append("model.predict_proba(X)")
    elif isinstance(targets, NumberTargets) and model.fitted_.residuals:
        predictions.append("model.predict_interval(X, coverage=0.9)")
    predictions.append("model.out_of_range(X)  # cells outside the training data")
    snippets = [
        Snippet("Save and load", 'model.save("model.tabgnm")\n\nimport tabgnm\nmodel = tabgnm.load("model.tabgnm")'),
        Snippet("Predict", "# X: a table with the training columns, in any order\n" + "\n".join(predictions)),
    ]
    whole = 'model.export("model.onnx")\nmodel.export("model.py")'
    of_small = 'export("model.c")\n{0}.export("model.sql", table="rows", dialect="sqlite")'
    try:
        _ = model.machine_
    except NoSingleMachine:
        if isinstance(model, GNMParameters):
            whole += "\n\n# C and SQL require a small machine\nsmall = model.distill(X, y)\nsmall." + of_small.format(
                "small"
            )
    else:
        whole += "\nmodel." + of_small.format("model")
    command = "# in a terminal\ntabgnm predict model.tabgnm new.csv -o predictions.csv"
    return [*snippets, Snippet("Export", whole), Snippet("Command line", command)]
