"""The competitors that the benchmarks measure compute what they claim to."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import __main__ as command_line
from benchmarks import accuracy, ceilings, default_networks, export_speed, gnm_vs_mlp, standings, synthetic
from benchmarks.accuracy_models import OURS, EarlyStopped, ModelSettings
from benchmarks.authors_loop import AuthorsGNM, authors_mlp, seconds_per_epoch
from benchmarks.forward_cost import literal_forward
from benchmarks.older_checkout import FleetTask, OlderCheckout
from benchmarks.timing import ROOT, Options
from tabgnm import GNMClassifier
from tabgnm.nn import GNM, MLP, EmbeddedNetwork, EmbeddedShape, GNMShape, InputEmbedding, cross_entropy
from tabgnm.nn.losses import CrossEntropy
from tabgnm.training import Fleet, FleetSettings, Member, Table

SIZES = [(4, 3, 20, 2), (4, 3, 20, 3), (21, 4, 50, 2)]  # inputs, outputs, nodes, layers


def machine_and_rows(n_inputs: int, n_outputs: int, n_nodes: int, n_layers: int) -> tuple[GNM, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    net = GNM(n_inputs, n_outputs, n_nodes, n_layers, init="kaiming", generator=generator).eval()
    return net, torch.randn(7, n_inputs, generator=generator)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_authors_module_is_our_gnm(sizes: tuple[int, int, int, int]) -> None:
    net, x = machine_and_rows(*sizes)
    authors = AuthorsGNM(*sizes).eval()
    with torch.no_grad():
        authors.adjacency.copy_(net.adjacency())
    torch.testing.assert_close(authors(x), net(x), atol=1e-5, rtol=1e-5)


def test_the_authors_weights_that_our_gnm_leaves_out_cannot_matter() -> None:
    net, x = machine_and_rows(4, 3, 20, 3)
    authors = AuthorsGNM(4, 3, 20, 3).eval()
    with torch.no_grad():
        full = authors.adjacency.clone()
        full[:, net.layout.bias] = 0  # the one row that set_adjacency insists on: the bias has no incoming edges
        net.set_adjacency(full)
    assert (net.adjacency() == 0).sum() > 20 * 20
    torch.testing.assert_close(authors(x), net(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_literal_forward_is_our_forward(sizes: tuple[int, int, int, int]) -> None:
    net, x = machine_and_rows(*sizes)
    torch.testing.assert_close(literal_forward(net.adjacency(), x, sizes[1]), net(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_jax_forward_is_our_forward(sizes: tuple[int, int, int, int]) -> None:
    pytest.importorskip("jax", reason="only `make bench` installs JAX")
    from benchmarks import jax_fleet

    net, x = machine_and_rows(*sizes)
    weights = {name: value.detach().numpy() for name, value in net.named_parameters()}
    outputs = jax_fleet.forward(net.shape, weights, x.numpy(), "highest")
    torch.testing.assert_close(torch.tensor(outputs.tolist()), net(x).detach(), atol=1e-5, rtol=1e-5)


def test_the_jax_fleet_learns_with_batches_that_do_not_divide_the_rows() -> None:
    pytest.importorskip("jax", reason="only `make bench` installs JAX")
    from benchmarks.jax_fleet import JaxFleet

    data = synthetic.classification(n_train=100, n_val=20, n_inputs=6, n_classes=3)
    # Three, which two cores cannot share equally.
    losses = JaxFleet(GNMShape(6, 3, 30, 2), data, n_models=3, device="cpu", learning_rate=0.01).train(epochs=15)
    assert losses.shape == (15, 2, 3)
    assert (losses[-1] < losses[0]).all()
    assert losses[-1, 0, 0] != losses[-1, 0, 1]  # every model has its own seed


def test_the_jax_fleet_takes_the_steps_that_torch_adam_takes() -> None:
    pytest.importorskip("jax", reason="only `make bench` installs JAX")
    from benchmarks.jax_fleet import JaxFleet

    # All rows in one batch: then shuffling changes nothing.
    data = synthetic.classification(n_train=64, n_val=20, n_inputs=6, n_classes=3)
    fleet = JaxFleet(GNMShape(6, 3, 30, 2), data, n_models=2, device="cpu", learning_rate=0.01)
    net = GNM(6, 3, 30, 2)
    with torch.no_grad():
        for name, values in fleet.new_state()["weights"].items():
            getattr(net, name).copy_(torch.tensor(values[1].tolist()))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    expected = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = cross_entropy(net(data.x[data.train]), data.y[data.train])
        loss.backward()
        optimizer.step()
        expected.append([loss.item(), cross_entropy(net(data.x[data.val]), data.y[data.val]).item()])
    torch.testing.assert_close(torch.tensor(fleet.train(5)[:, :, 1].tolist()), torch.tensor(expected))


@pytest.mark.parametrize("table", default_networks.TABLES)
def test_the_jax_forward_is_that_of_our_default_network(table: str) -> None:
    pytest.importorskip("jax", reason="only `make bench` installs JAX")
    from benchmarks import jax_fleet

    shape, x = default_networks.network(table), default_networks.rows(table, quick=True).x[:50]
    net = EmbeddedNetwork(shape.embedding, shape.body, generator=torch.Generator().manual_seed(0)).eval()
    weights = {name: value.detach().numpy() for name, value in net.named_parameters()}
    outputs = jax_fleet.forward(shape, weights, x.numpy(), "highest")
    torch.testing.assert_close(torch.tensor(outputs.tolist()), net(x).detach(), atol=1e-5, rtol=1e-5)


def test_the_jax_fleet_steps_as_our_fleet_does_with_embeddings() -> None:
    pytest.importorskip("jax", reason="only `make bench` installs JAX")
    from benchmarks.jax_fleet import JaxFleet

    embedding = InputEmbedding(n_plain=0, n_numeric=2, levels=(4, 3), level_dim=2)
    shape = EmbeddedShape(embedding, GNMShape(embedding.n_outputs, 2, n_nodes=30, n_layers=3, init="kaiming"))
    # All rows in one batch: then shuffling changes nothing, and an epoch is a step.
    data = synthetic.numbers_and_categories(64, 20, embedding.n_numeric, embedding.levels)
    theirs = JaxFleet(shape, data, n_models=2, device="cpu", learning_rate=0.01)
    first = {name: torch.tensor(values[1].tolist()) for name, values in theirs.new_state()["weights"].items()}
    member = Member(train=data.train, learning_rate=0.01, start=first)
    for n_steps in (1, 3):
        ours = Fleet(shape, [member], FleetSettings(loss=CrossEntropy(), max_epochs=n_steps)).fit(Table(data.x, data.y))
        stepped = {name: torch.tensor(values[1].tolist()) for name, values in theirs.trained(n_steps)[0].items()}
        for name, values in ours.models[0].parameters.items():
            assert not torch.equal(values, first[name])
            # Adam's step is as long for a tiny gradient as for a large one, and rounding makes up half of the tiniest.
            torch.testing.assert_close(stepped[name], values, atol=1e-4, rtol=1e-4)


def test_dropout_in_jax_acts_in_training_only_and_keeps_the_mean() -> None:
    jax = pytest.importorskip("jax", reason="only `make bench` installs JAX")
    from benchmarks import jax_fleet

    # A single row, and weights of 1 from 30 inputs to 200 nodes to an output: it counts the nodes that are kept.
    shape = GNMShape(30, 1, n_nodes=201, n_layers=2)
    weights = {name: np.full(size, 1.0, np.float32) for name, size in shape.parameter_shapes().items()}
    x = np.zeros((1, 30), np.float32)
    kept = [
        jax_fleet.forward(shape, weights, x, dropout=0.1, key=jax.random.key(seed)).item() - 1 for seed in range(50)
    ]
    assert jax_fleet.forward(shape, weights, x, dropout=0.1).item() == 201
    assert len(set(kept)) > 5
    assert np.mean(kept) == pytest.approx(200, rel=0.02)


@pytest.mark.parametrize("table", default_networks.TABLES)
def test_the_default_networks_are_those_of_the_estimators(table: str) -> None:
    n_numeric, levels = default_networks.TABLES[table]
    data = default_networks.rows(table, quick=True)
    frame = {f"number {i}": data.x[:, i].numpy() for i in range(n_numeric)}
    frame |= {f"category {i}": [f"level {code:g}" for code in data.x[:, n_numeric + i]] for i in range(len(levels))}
    size = {"n_nodes": 256, "activation": "relu"}  # as of the third candidate on a GPU
    model = GNMClassifier(n_candidates=1, n_folds=1, max_epochs=1, random_state=0, **size)
    model.fit(pd.DataFrame(frame), data.y.numpy())
    ours, theirs = default_networks.network(table), model.members_[0].shape
    # With two classes an estimator has one output, and its categories have a level for what is unknown.
    assert replace(theirs.body, n_outputs=2) == ours.body
    assert replace(theirs.embedding, levels=levels) == ours.embedding
    assert len(theirs.embedding.levels) == len(levels)


@pytest.mark.parametrize("kind", ["gnm", "mlp"])
def test_the_authors_loop_trains(kind: str) -> None:
    torch.manual_seed(0)
    data = synthetic.classification(n_train=100, n_val=20, n_inputs=6, n_classes=3)
    model = AuthorsGNM(6, 3, 30, 2, dropout=0.1) if kind == "gnm" else authors_mlp([6, 30, 3], dropout=0.1)
    loss = torch.nn.CrossEntropyLoss()
    before = loss(model.eval()(data.x), data.y).item()
    assert seconds_per_epoch(model, data, epochs=20, device="cpu").epoch > 0
    assert loss(model.eval()(data.x), data.y).item() < before


def test_the_authors_mlp_is_our_mlp() -> None:
    authors = authors_mlp([6, 20, 10, 3]).eval()
    ours = MLP.from_linears([layer for layer in authors if isinstance(layer, torch.nn.Linear)])
    x = torch.randn(5, 6)
    torch.testing.assert_close(authors(x), ours(x))


@pytest.mark.parametrize("wanted", gnm_vs_mlp.COUNTS.values())
@pytest.mark.parametrize("data_set", gnm_vs_mlp.DATA_SETS)
def test_gnm_and_mlp_have_the_wanted_numbers_of_parameters(data_set: str, wanted: int) -> None:
    _, n_inputs, n_classes = gnm_vs_mlp.DATA_SETS[data_set]
    for shape in (
        gnm_vs_mlp.gnm_of_size(wanted, n_inputs, n_classes),
        gnm_vs_mlp.mlp_of_size(wanted, n_inputs, n_classes),
    ):
        assert shape.n_layers == 3
        assert shape.n_parameters() == pytest.approx(wanted, rel=0.03)


def test_the_floor_counts_every_row_and_model() -> None:
    shape = GNMShape(2, 1, 10, 2)  # 2 x 9 weights, then 9 x 1
    work = ceilings.work_of_epoch(shape, n_models=3, n_train=64, n_val=0)
    assert work.operations == 3 * 64 * (4 * 27 + 2 * 9)
    assert ceilings.work_of_epoch(shape, n_models=1, n_train=64, n_val=0).bytes_moved * 3 == work.bytes_moved


def test_the_operations_of_embedded_networks_are_three_products_per_weight() -> None:
    embedding = InputEmbedding(n_plain=0, n_numeric=2, n_basis=5, numeric_dim=3, levels=(4,), level_dim=2)
    shape = EmbeddedShape(embedding, GNMShape(10, 1, n_nodes=20, n_layers=2))
    weights = 2 * 5 * 3 + 10 * 19 + 19 * 1
    assert ceilings.operations_of_embedded_epoch(shape, n_models=3, n_train=64, n_val=0) == 3 * 64 * 6 * weights
    assert ceilings.operations_of_embedded_epoch(shape, n_models=1, n_train=0, n_val=8) == 8 * 2 * weights


def test_the_benchmark_of_fleets_includes_the_default_network_once() -> None:
    assert command_line.without_groups(["fleet", "fleet-default"]) == ["fleet-paper", "fleet-default"]


@pytest.mark.slow
def test_another_checkout_is_measured_in_a_process_of_its_own() -> None:
    task = FleetTask("8 numbers", 2, "cpu", "float32", 0.0, quick=True, seconds_per_sample=0.001)
    with OlderCheckout(ROOT) as checkout:
        time = checkout.sampler(task)()
    assert time.set_up is not None
    assert checkout._process.returncode == 0


def test_another_checkout_needs_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no tabgnm/__init__\.py"):
        OlderCheckout(tmp_path)


def quick_accuracy(path: Path, models: str, *more: str) -> list[dict[str, Any]]:
    accuracy.main(["--quick", "--sets", "noisy_moons", "--models", models, "--output", str(path), *more])
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_accuracy_of_every_effort_and_of_a_peer_is_measured(tmp_path: Path) -> None:
    models = [*OURS, "hist_gradient_boosting"]
    path = tmp_path / "accuracy.jsonl"
    accuracy.main(["--quick", "--models", ",".join(models), "--output", str(path)])
    results = standings.read_results([path])
    assert set(results) == {(slug, model) for slug in ("noisy_moons", "diabetes") for model in models}
    for (slug, _), result in results.items():
        assert result["folds"] == len(result["fold_m1"]) == len(result["seconds"]) == 1
        assert ("log_loss" in result) == (slug == "noisy_moons")


def test_accuracy_continues_what_is_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fits = tmp_path / "accuracy.jsonl", []
    fit_fold = accuracy.fit_fold

    def counted(table: Any, model: str, fold: int, options: Any) -> dict[str, float]:
        fits.append((model, fold))
        return fit_fold(table, model, fold, options)

    monkeypatch.setattr(accuracy, "fit_fold", counted)
    (first,) = quick_accuracy(path, "sklearn_mlp", "--folds", "1")
    longer = quick_accuracy(path, "sklearn_mlp,hist_gradient_boosting", "--folds", "2")
    assert quick_accuracy(path, "sklearn_mlp", "--folds", "1") == longer
    assert fits == [
        ("sklearn_mlp", 0),
        ("sklearn_mlp", 1),
        ("hist_gradient_boosting", 0),
        ("hist_gradient_boosting", 1),
    ]
    assert [result["folds"] for result in longer] == [2, 2]
    assert longer[0]["fold_m1"][0] == first["fold_m1"][0]
    assert longer[0]["commit"] == first["commit"]
    with pytest.raises(SystemExit, match="seed=0"):
        quick_accuracy(path, "sklearn_mlp", "--seed", "1")


def test_accuracy_begins_no_fit_after_the_time_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accuracy.main(["--quick", "--models", "sklearn_mlp", "--time-limit", "-1", "--output", str(tmp_path / "a.jsonl")])
    assert "run again to continue" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_kill_while_results_are_written_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "accuracy.jsonl"
    old = {"slug": "wine", "model": "tabgnm", "fold_m1": [1.0]}
    accuracy.store(path, old)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            accuracy.store(path, old | {"fold_m1": [1.0, 2.0]})
    assert list(standings.read_results([path]).values()) == [old]


def test_a_peer_that_is_not_installed_is_left_out_and_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "is_installed", lambda model: model not in ("realmlp", "tabm"))
    assert accuracy.options_of(["--models", "realmlp,tabm,sklearn_mlp"]).models == ["sklearn_mlp"]
    assert capsys.readouterr().out == "Left out: realmlp, tabm; to include them, install pytabkit\n"


def test_tables_of_a_folder_keep_missing_categories_and_leave_out_excluded_columns(tmp_path: Path) -> None:
    entry = {
        "file": "a.csv",
        "task": "classification",
        "target": "y",
        "categorical": ["c"],
        "exclude_columns": ["leak"],
    }
    (tmp_path / "datasets.json").write_text(json.dumps({"a": entry}))
    (tmp_path / "a.csv").write_text("c,n,leak,y\n1,0.5,1,no\n,1.5,2,yes\n2,,3,no\n")
    (table,) = accuracy.tables_of_folder(tmp_path, wanted=[])
    assert list(table.x) == ["c", "n"]
    assert list(table.x["c"].cat.categories) == ["1", "2"] and table.x["c"].isna().tolist() == [False, True, False]
    assert table.y.tolist() == [0, 1, 0]


def test_boosted_trees_ignore_validation_rows_of_classes_that_they_do_not_train_on() -> None:
    class Recorded:
        def fit(self, _: pd.DataFrame, y: np.ndarray, eval_set: list[Any]) -> None:
            self.y, self.y_validation = y, eval_set[0][1]

    x, y = pd.DataFrame({"a": range(20)}), np.array([*range(10), *range(10, 20)]) % 19
    model = EarlyStopped(Recorded(), ModelSettings("classification", seed=0)).fit(x, y)
    assert set(model.model.y) == set(range(len(model.classes_)))
    assert set(model.model.y_validation) <= set(model.model.y)


def test_standings_are_those_computed_by_hand() -> None:
    def result(
        slug: str, model: str, task: str, folds: list[float], log_loss: list[float] | None = None
    ) -> tuple[tuple[str, str], dict[str, Any]]:
        return (slug, model), {"slug": slug, "model": model, "task": task, "fold_m1": folds, "log_loss": log_loss}

    results = dict(
        [
            result("a", "tabgnm", "classification", [90.0, 80.0], [0.3, 0.5]),
            result("a", "lightgbm", "classification", [95.0, 85.0, 0.0], [0.2, 0.7, 9.0]),
            result("a", "tabm", "classification", [80.0, 90.0]),
            result("b", "tabgnm", "regression", [1.0]),
            result("b", "lightgbm", "regression", [4.0, 100.0]),
            result("c", "lightgbm", "regression", [1.0]),  # none of ours
        ]
    )
    found = standings.compare(results)
    assert found.models == ["tabgnm", "lightgbm", "tabm"]
    assert found.n_folds == {"a": 2, "b": 1}
    assert found.errors == {"a": {"tabgnm": 15, "lightgbm": 10, "tabm": 15}, "b": {"tabgnm": 1, "lightgbm": 4}}
    assert found.ranks == {"tabgnm": [2.5, 1], "lightgbm": [1, 2], "tabm": [2.5]}
    assert found.gaps["tabgnm"] == pytest.approx([1 / 3, 0]) and found.gaps["lightgbm"] == [0, 0.75]
    assert {pair: str(wins) for pair, wins in found.wins.items()} == {
        ("tabgnm", "lightgbm"): "1 of 2",
        ("tabgnm", "tabm"): "0.5 of 1",
    }
    log_loss = standings.compare_log_loss(results, found)
    assert {pair: str(wins) for pair, wins in log_loss.items()} == {("tabgnm", "lightgbm"): "1 of 1"}


def test_standings_name_the_line_that_is_not_a_result(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"slug": "wine", "model": "tabgnm", "fold_m1": [1.0]}\n{"slug": "wi')
    with pytest.raises(ValueError, match="line 2 is not a result"):
        standings.read_results([path])


@pytest.mark.skipif(not (shutil.which("gcc") or shutil.which("clang")), reason="there is no C compiler")
def test_exported_machines_of_200_edges_are_measured(tmp_path: Path) -> None:
    assert export_speed.random_program("relu").machine.n_edges == 200
    found = export_speed.run(Options("cpu", True, tmp_path, 1, 0.001))["seconds_per_row"]
    assert {name.partition(",")[0] for name in found} == {"relu", "silu", "tanh", "gelu"}
    assert all(seconds > 0 for seconds in found.values())
