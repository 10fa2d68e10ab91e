"""Parameters: documented with their true defaults, presets, and quiet whatever they are."""

from __future__ import annotations

import ast
import inspect
import logging
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, neural_network
from sklearn.model_selection import KFold

from tabgnm import FleetSearchCV, GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor
from tabgnm.estimators.parameter_roles import FREE_PARAMETERS
from tests.estimators.examples import frame, gnm, gnmr, mlp, mlpr, numbers

ROOT = Path(__file__).resolve().parent.parent.parent
CLASSES = [GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor]
X, Y, T = numbers()
F = frame()


SCIKIT_LEARN = [
    neural_network.MLPClassifier,
    ensemble.HistGradientBoostingClassifier,
    ensemble.RandomForestRegressor,
]
DOCUMENTED = [*CLASSES, FleetSearchCV]


def static_docstring(cls: Any) -> str:
    """The docstring as tools read it that do not run the code, such as editors."""
    tree = ast.parse(Path(inspect.getfile(cls)).read_text())
    [node] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
    return ast.get_docstring(node) or ""


def entries(cls: Any, section: str) -> list[tuple[str, str, str]]:
    """Name, type and description of the entries of a section of a docstring in numpydoc's format."""
    text = static_docstring(cls).split(f"{section}\n{'-' * len(section)}\n")[1].split("\n\n")[0]
    found = re.findall(r"^(\w[\w, ]*?)(?: : (.+))?\n((?:    .*(?:\n|$))*)", text + "\n", flags=re.MULTILINE)
    return [(name, kind, described.strip()) for names, kind, described in found for name in names.split(", ")]


@pytest.mark.parametrize("cls", DOCUMENTED)
def test_the_docstring_in_the_source_is_complete(cls: Any) -> None:
    assert inspect.getdoc(cls) == static_docstring(cls)
    assert not re.search(r"\{[a-z_]+\}", static_docstring(cls)), "a placeholder"


@pytest.mark.parametrize("cls", DOCUMENTED)
def test_every_parameter_is_documented_once_with_its_true_default(cls: Any) -> None:
    described = entries(cls, "Parameters")
    parameters = inspect.signature(cls).parameters
    assert sorted(name for name, _, _ in described) == sorted(parameters)
    for name, kind, text in described:
        assert text, f"{name} has no description"
        default = parameters[name].default
        if default is inspect.Parameter.empty:
            assert "default=" not in kind, name
        elif default is np.nan:
            assert kind.endswith(", default=nan"), name
        else:
            assert ast.literal_eval(kind.partition("default=")[2] or "missing") == default, f"{name}: {kind}"


@pytest.mark.parametrize("section", ["Parameters", "Attributes"])
def test_what_estimators_share_is_described_identically(section: str) -> None:
    described: dict[str, set[tuple[str, str]]] = {}
    for cls in CLASSES:
        for name, kind, text in entries(cls, section):
            described.setdefault(name, set()).add((kind, text.replace("R² (D² of quantiles)", "accuracy")))
    networks_differ = {"activation", "init"}  # where an MLP has other choices
    assert {name for name, texts in described.items() if len(texts) > 1} <= networks_differ


def test_descriptions_are_copies_of_those_of_the_parameter_groups() -> None:
    script = runpy.run_path(str(ROOT / ".ci" / "parameter_docs.py"))
    for name, groups in script["GROUPS"].items():
        source = (script["ESTIMATORS"] / name).read_text()
        assert script["with_descriptions"](source, groups) == source, f"{name} is out of date: run make format"


@pytest.mark.parametrize("make", [gnm, gnmr, mlp, mlpr])
def test_every_fitted_attribute_is_documented(make: Any) -> None:
    size = {"n_nodes": 40} if make in (gnm, gnmr) else {}
    model = make(max_epochs=1, **size).fit(pd.DataFrame(X, columns=list("abcd")), Y)
    fitted = {name for name in dir(model) if name.endswith("_") and not name.startswith("_") and hasattr(model, name)}
    assert fitted == {name for name, _, _ in entries(type(model), "Attributes")}


def test_the_table_of_names_that_differ_from_scikit_learn_is_true() -> None:
    page = (ROOT / "docs" / "estimators.md").read_text().split("## Where names differ from scikit-learn's")[1]
    rows = re.findall(r"^\| (`.+?) \| (`.+?) \|", page.split("\n## ")[0], flags=re.MULTILINE)
    ours, theirs = ({name for row in rows for name in re.findall(r"`(\w+)`", row[side])} for side in (0, 1))
    assert len(rows) > 5 and not ours & (theirs - {"learning_rate"})
    known = {name for cls in CLASSES for section in ("Parameters", "Attributes") for name, *_ in entries(cls, section)}
    assert ours <= known and not theirs & (known - {"learning_rate"})
    text = "".join(inspect.getdoc(cls) or "" for cls in SCIKIT_LEARN)
    assert not {name for name in theirs if not re.search(rf"^{name} :", text, flags=re.MULTILINE)}


@pytest.mark.parametrize("cls", CLASSES)
def test_every_default_is_one_of_the_documented_choices(cls: Any) -> None:
    for name, choices in re.findall(r"^(\w+) : \{(.+?)\}", static_docstring(cls), flags=re.MULTILINE):
        default = inspect.signature(cls).parameters[name].default
        assert repr(default).replace("'", '"') in choices, f"the default of {name} is none of {choices}"


@pytest.mark.parametrize("cls", CLASSES)
def test_parameters_are_keywords_and_stored_as_given(cls: Any) -> None:
    with pytest.raises(TypeError, match="positional"):
        cls(100)
    odd: Any = object()
    for name in inspect.signature(cls).parameters:
        assert getattr(cls(**{name: odd}), name) is odd


@pytest.mark.parametrize("cls", CLASSES)
def test_gnm_and_mlp_take_the_same_parameters_but_for_the_network(cls: Any) -> None:
    network = {
        "n_nodes",
        "n_layers",
        "combine",
        "clamp_inputs",
        "persistent_outputs",
        "tied",
        "learn_initial",
        "hidden",
    }
    other = {GNMClassifier: MLPClassifier, GNMRegressor: MLPRegressor}.get(cls)
    if other is not None:
        ours, theirs = inspect.signature(cls).parameters, inspect.signature(other).parameters
        assert set(ours) ^ set(theirs) == network
        assert all(ours[name].default == theirs[name].default for name in set(ours) & set(theirs))
    assert (
        set(inspect.signature(GNMClassifier).parameters) | set(inspect.signature(GNMRegressor).parameters)
        >= FREE_PARAMETERS
    )


PAPER = {
    "n_candidates": 1,
    "n_folds": 1,
    "max_epochs": 300,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "optimizer": "adam",
    "schedule": "constant",
    "weight_decay": 0.0,
    "dropout": 0.0,
    "l1": 0.0,
    "l2": 0.0,
    "l0": 0.0,
    "scaling": "none",
    "numeric_embedding": None,
    "patience": None,
    "precision": "float32",
    "activation": "relu",
}


@pytest.mark.parametrize("cls", CLASSES)
def test_paper_is_the_setting_of_the_paper(cls: Any) -> None:
    model = cls.paper()
    assert type(model) is cls
    given = model.get_params()
    assert {name: given[name] for name in PAPER} == PAPER
    if cls in (GNMClassifier, GNMRegressor):
        assert (given["init"], given["combine"], given["n_layers"]) == ("paper", "none", 2)
        assert not any(given[name] for name in ("clamp_inputs", "persistent_outputs", "tied", "learn_initial"))
    if cls in (GNMRegressor, MLPRegressor):
        assert given["scale_target"] is False and given["loss"] == "squared_error"
    else:
        assert given["class_weight"] is None and given["label_smoothing"] == 0
    changed = cls.paper(max_epochs=7, random_state=3)
    assert (changed.max_epochs, changed.random_state, changed.scaling) == (7, 3, "none")
    with pytest.raises(TypeError, match="no_such"):
        cls.paper(no_such=1)


def test_the_papers_machine_takes_raw_numbers() -> None:
    model = GNMClassifier.paper(max_epochs=2, n_nodes=20, random_state=0).fit(X * 100, Y)
    assert (model.encode(X * 100) == (X * 100).astype("float32")).all()
    (net,) = model.members_
    assert net.shape.n_nodes == 20 and net.shape.n_layers == 2 and net.shape.init == "paper"


@pytest.mark.parametrize("verbose", [0, False, 1, True])
@pytest.mark.parametrize("make", [mlp, gnm, mlpr, gnmr])
def test_nothing_is_printed_unless_asked_for(
    make: Any, verbose: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a program that has not configured logging
    model = make(verbose=verbose, n_nodes=40) if make in (gnm, gnmr) else make(verbose=verbose)
    model.fit(X, Y if make in (mlp, gnm) else T).predict(X)
    out, err = capfd.readouterr()
    assert out == "" and bool(err) == bool(verbose)


def test_an_option_is_never_ignored_in_silence() -> None:
    plain = gnm(n_nodes=40).fit(X, Y).predict_proba(X)
    for changed in (
        {"activation": "tanh"}, {"init": "paper"}, {"combine": "residual"}, {"clamp_inputs": True}, {"tied": True},
        {"persistent_outputs": True}, {"learn_initial": True}, {"n_layers": 3}, {"n_nodes": 41}, {"l1": 0.1}, {"l2": 0.1},
        {"l0": 0.1}, {"weight_decay": 1.0}, {"optimizer": "adam"}, {"schedule": "constant"}, {"warmup": 0.5},
        {"scaling": "standard"}, {"numeric_embedding": "piecewise"}, {"n_basis": 5}, {"numeric_dim": 3}, {"dropout": 0.5},
        {"frequency_scale": 2.0}, {"column_kinds": {0: "ignore"}}, {"precision": "float64"}, {"random_state": 1},
        {"learning_rate": 0.01}, {"batch_size": 7}, {"class_weight": {0: 2.0}}, {"label_smoothing": 0.2}, {"n_folds": 3}, {"n_folds": 1}, {"n_folds": 0},
        {"n_folds": "auto", "cv": KFold(4)},
    ):  # fmt: skip
        found = gnm(**({"n_nodes": 40} | changed)).fit(X, Y).predict_proba(X)
        assert abs(found - plain).max() > 1e-9, changed
    plain = mlp(max_epochs=20, learning_rate=0.01).fit(F, Y).predict_proba(F)
    for changed in (
        {"max_one_hot": 0},
        {"level_dim": 2},
        {"min_level_count": 9},
        {"max_epochs": 2},
        {"hidden": (8, 8)},
    ):
        found = mlp(**({"max_epochs": 20, "learning_rate": 0.01} | changed)).fit(F, Y).predict_proba(F)
        assert abs(found - plain).max() > 1e-9, changed
    # Less patience may end at the same best epoch, but not after as many epochs.
    patient, impatient = (mlp(max_epochs=40, learning_rate=0.1, patience=patience).fit(F, Y) for patience in (40, 1))
    epochs = [sum(len(network["val_loss"]) for network in model.history_) for model in (patient, impatient)]
    assert epochs[0] > epochs[1]


def test_each_column_of_a_wide_table_gets_fewer_learned_features() -> None:
    random = np.random.default_rng(0)
    for n_columns, numeric_dim in ((100, 4), (101, 3), (200, 2)):
        model = mlpr(n_folds=1, max_epochs=1, hidden=(4,)).fit(random.normal(size=(30, n_columns)), range(30))
        assert model.fitted_.groups[0].encoder.embedding.numeric_dim == numeric_dim
    model = mlpr(n_folds=1, max_epochs=1).fit(random.normal(size=(30, 201)), range(30))
    assert model.fitted_.groups[0].encoder.embedding is None
    model = mlpr(n_folds=1, max_epochs=1, numeric_dim=4).fit(random.normal(size=(30, 500)), range(30))
    assert model.fitted_.groups[0].encoder.embedding.numeric_dim == 4


def test_a_table_too_wide_for_a_dense_machine_is_an_error_with_a_way_out() -> None:
    wide, y = np.random.default_rng(0).normal(size=(6, 8200)), [0, 1, 0, 1, 0, 1]
    settings: dict[str, Any] = {"n_candidates": 1, "n_folds": 1, "max_epochs": 1, "scaling": "none"}
    with pytest.raises(
        ValueError, match=r"n_nodes='auto' would create 8234 nodes for 8200 encoded inputs.*clamp_inputs=True"
    ):
        GNMClassifier(**settings, numeric_embedding=None, screen_columns=False).fit(wide, y)
    clamped = GNMClassifier(**settings, clamp_inputs=True, numeric_embedding=None).fit(wide, y)
    with pytest.warns(UserWarning, match="no more of them are related to the target than by chance"):
        screened = GNMClassifier(**settings).fit(wide, y)  # by default, columns are left out
    assert clamped.predict(wide).shape == screened.predict(wide).shape == (6,)
