"""Files that earlier versions wrote are still read, and predict what they predicted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tabgnm
from tabgnm.estimators.model_file import from_bytes, to_bytes
from tabgnm.modelfile.container import VERSION
from tests.modelfile.examples import forged, frame, numbers, parts, target
from tests.modelfile.fixtures.make import FOLDER, MODELS, from_json, predictions

FILES = sorted(FOLDER.glob("*.tabgnm"))


def test_every_version_of_the_format_has_its_fixtures() -> None:
    versions = {parts(path.read_bytes())[0]["version"] for path in FILES}
    assert versions == set(range(1, VERSION + 1))
    assert {f"v{VERSION}-{name}" for name in MODELS} <= {path.stem for path in FILES}


def test_fixtures_of_packs_have_several_groups() -> None:
    classifier = tabgnm.load(FOLDER / "v2-pack-gnm-classifier.tabgnm")
    assert len(classifier.fitted_.groups) == 2 and classifier.fitted_.temperature != 1
    regressor = tabgnm.load(FOLDER / "v2-pack-log-mlp-regressor.tabgnm")
    assert {group.targets.transform for group in regressor.fitted_.groups} == {"none", "log"}
    assert len(regressor.fitted_.encoders) == 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_an_earlier_version_predicts_what_it_predicted(path: Path) -> None:
    assert path.stat().st_size < 30_000
    stored = json.loads(path.with_suffix(".json").read_text())
    found = predictions(tabgnm.load(path), from_json(stored["table"]))
    assert list(found) == list(stored["expected"])
    for name, expected in stored["expected"].items():
        if name == "predict_proba":
            for own, other in zip(found[name], expected, strict=True):
                np.testing.assert_allclose(own, other, rtol=0, atol=1e-6)
        elif isinstance(np.ravel(expected)[0], str):
            assert found[name] == expected
        else:
            np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-6)


FIRST = [path for path in FILES if path.stem.startswith("v1-")]


@pytest.mark.parametrize("path", FIRST, ids=lambda path: path.stem)
def test_a_file_of_version_1_becomes_one_of_version_2_without_a_change_of_predictions(path: Path) -> None:
    model = tabgnm.load(path)
    again = from_bytes(to_bytes(model))
    assert to_bytes(again) == to_bytes(model)
    X = from_json(json.loads(path.with_suffix(".json").read_text())["table"])
    assert predictions(again, X) == predictions(model, X)
    assert again.get_params() == model.get_params()


@pytest.mark.parametrize("path", FIRST, ids=lambda path: path.stem)
def test_training_goes_on_from_a_file_of_version_1(path: Path) -> None:
    model = tabgnm.load(path)
    X = frame() if hasattr(model, "feature_names_in_") else numbers()
    y = model.predict(X)
    n_epochs = len(model.history_[0]["train_loss"])
    if not isinstance(getattr(model, "class_weight", None), str):
        model.partial_fit(X, y)
        n_epochs += 1
    model.set_params(warm_start=True, max_epochs=2).fit(X, y)
    assert len(model.history_) == 2
    assert len(model.history_[0]["train_loss"]) == n_epochs + 2


def test_members_of_version_1_become_folds() -> None:
    """Their number and their validation rows had parameters that are gone."""
    schema, arrays = parts((FOLDER / "v1-quantile-float64-mlp-regressor.tabgnm").read_bytes())

    def loaded(fitted_with: dict[str, Any] | None = None, **parameters: Any) -> Any:
        changed = schema | {"parameters": schema["parameters"] | parameters}
        return from_bytes(forged(changed | ({} if fitted_with is None else {"fitted_with": fitted_with}), arrays))

    assert (loaded().n_folds, loaded().n_candidates, loaded().fitted_.n_networks) == (2, 1, 2)
    assert loaded(n_members=1).n_folds == 1
    assert loaded(validation_fraction=0.0).n_folds == 0
    assert loaded(validation_fraction=0).n_folds == 0
    model = loaded({"n_members": 2, "hidden": {"tuple": [5]}}, n_members=7)
    assert model.n_folds == 7
    with pytest.raises(ValueError, match=r"n_folds=7 was 2 when training started"):
        model.partial_fit(numbers(), target())
    model.set_params(n_folds=2).partial_fit(numbers(), target())


def test_r2_of_a_quantile_is_not_read_as_d2() -> None:
    path = FOLDER / "v1-quantile-float64-mlp-regressor.tabgnm"
    assert "val_r2" in tabgnm.load(path).history_[0]
    schema, arrays = parts(to_bytes(tabgnm.load(path)))
    model = from_bytes(forged(schema | {"scores": {"r2": -0.6, "mse": 1.0, "quantile": 0.1}}, arrays))
    with pytest.raises(AttributeError, match="oof_score_ needs rows"):
        model.oof_score_  # noqa: B018
