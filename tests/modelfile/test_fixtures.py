"""Files that earlier versions wrote are still read, and predict what they predicted."""

import json
from pathlib import Path

import numpy as np
import pytest

import tabgnm
from tabgnm.modelfile.container import VERSION
from tests.modelfile.examples import parts
from tests.modelfile.fixtures.make import FOLDER, MODELS, from_json, predictions

FILES = sorted(FOLDER.glob("*.tabgnm"))


def test_every_version_of_the_format_has_its_fixtures() -> None:
    versions = {parts(path.read_bytes())[0]["version"] for path in FILES}
    assert versions == set(range(1, VERSION + 1))
    assert {f"v{VERSION}-{name}" for name in MODELS} <= {path.stem for path in FILES}


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
