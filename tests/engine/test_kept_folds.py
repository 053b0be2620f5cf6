"""A solver that was stopped goes on with the folds that it had fitted, and ends as if nothing had happened."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import wraps

import pytest
import torch
from scipy import sparse

from raretag.config.settings import compose
from raretag.core.listener import SILENT, Listener
from raretag.core.solver import Shared, keeping, kept, name_of
from raretag.engine import checkpoint, measure
from raretag.engine import run as engine
from raretag.runs import folder
from raretag.solvers import forest, learners, network, newton, regression
from support.served import feature_rows


class Enough(Listener):
    """Interrupts a run at a share of its work."""

    def __init__(self, share):
        self.share = share

    def progress(self, share):
        if share >= self.share:
            raise KeyboardInterrupt


@pytest.fixture
def fits(monkeypatch):
    """Everything that takes long in a fit, one name for each time."""
    done = []

    def watch(place, name):
        function = getattr(place, name)

        @wraps(function)
        def watched(*given, **more):
            found = function(*given, **more)
            done.append(name)
            return found

        monkeypatch.setattr(place, name, watched)

    for place in (regression, learners):
        watch(place, newton.minimise.__name__)
    watch(forest, forest.grown_trees.__name__)
    watch(network.Network, network.Network.trained.__name__)
    monkeypatch.setattr(network, "FEWEST", 10)
    monkeypatch.setattr(folder, "WORTH_KEEPING", 0.0)
    return done


@pytest.mark.parametrize(
    ("method", "share"),
    [
        ("logistic_regression", 0.3),
        ("committee", 0.05),
        ("blend", 0.1),
        ("blend", 0.3),
        ("blend", 0.65),
        ("blend", 0.85),
    ],
)
def test_a_solver_goes_on_with_the_folds_that_it_has_finished(tmp_path, fits, method, share):
    feature_rows(tmp_path / "rows.csv")
    config = compose(None, ["data.name=table", f"data.file={tmp_path / 'rows.csv'}", f"method.name={method}"])
    engine.run(config, tmp_path / "whole", listener=SILENT)
    whole = len(fits)
    fits.clear()
    with pytest.raises(KeyboardInterrupt):
        engine.run(config, tmp_path / "stopped", listener=Enough(share))
    before = len(fits)
    assert before > 0
    fits.clear()
    engine.run(config, tmp_path / "stopped", resume=True, listener=SILENT)
    assert len(fits) <= whole - before + 1  # the one that was under way
    for name in ("model.safetensors", "logits.safetensors"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "stopped" / folder.FOLDS).exists()


def test_folds_without_some_items_are_kept_too(tmp_path, fits, monkeypatch):
    """Of a solver that gives no logits out of fold, and is fitted again for them."""
    calls = []

    def stops(prepared, solver, rows, real=measure.logits_without):
        calls.append(len(rows))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(prepared, solver, rows)

    feature_rows(tmp_path / "rows.csv")
    changes = ["method.name=logistic_regression", "method.strength=1.0"]
    config = compose(None, changes, str(tmp_path / "rows.csv"))
    monkeypatch.setattr(measure, "logits_without", stops)
    with pytest.raises(KeyboardInterrupt):
        engine.run(config, tmp_path / "stopped", listener=SILENT)
    engine.run(config, tmp_path / "stopped", resume=True, listener=SILENT)
    assert len(calls) == 3 + 3
    engine.run(config, tmp_path / "whole", listener=SILENT)
    for name in ("model.safetensors", "logits.safetensors"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_damaged_fold_is_fitted_again(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "WORTH_KEEPING", 0.0)
    folds = folder.FinishedFolds(tmp_path, checkpoint.read, checkpoint.write)
    with keeping(folds):
        assert kept(lambda: torch.ones(2), "one").tolist() == [1.0, 1.0]
        assert kept(lambda: torch.zeros(2), "one").tolist() == [1.0, 1.0]
        (path,) = folds.folder.iterdir()
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        assert kept(lambda: torch.zeros(2), "one").tolist() == [0.0, 0.0]


@pytest.mark.parametrize("limit", ["WORTH_KEEPING", "MOST_KEPT"])
def test_what_is_quick_or_very_much_is_not_kept(limit, tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "WORTH_KEEPING", 0.0)
    monkeypatch.setattr(folder, limit, 1e9 if limit == "WORTH_KEEPING" else -1)
    with keeping(folder.FinishedFolds(tmp_path, checkpoint.read, checkpoint.write)):
        assert kept(lambda: 1, "one") == 1
    assert not (tmp_path / folder.FOLDS).exists()


@dataclass(frozen=True)
class Options:
    strength: float
    rows: torch.Tensor


def test_the_name_of_a_part_hangs_on_everything_in_it():
    rows = torch.eye(3)
    different = [
        Options(1.0, rows), Options(2.0, rows), Options(1.0, rows.double()), Options(1.0, rows[:2]),
        Options(1.0, rows.clone().fill_diagonal_(2.0)), (1.0, rows), [1.0, rows], sparse.csr_array(rows.numpy()),
        sparse.csr_array(2 * rows.numpy()), rows.numpy(), {"a": 1}, {"a": True}, {"b": 1}, slice(0, 3), slice(0, 4),
        None, "None", Shared(rows), Shared(2 * rows), (1, (2, 3)), ((1, 2), 3), 12, (1, 2), range(3),
    ]  # fmt: skip
    with keeping(None):
        names = [name_of(one) for one in different]
        assert len(set(names)) == len(names)
        assert names == [name_of(one) for one in copy.deepcopy(different)]
