"""`raretag list methods`: what each needs, and where it won, as the pages of benchmarks have it."""

from __future__ import annotations

import csv
import inspect
from pathlib import Path

import torch
from typer.testing import CliRunner

from raretag.bench.plan import load
from raretag.cli.listing import NEEDS, WON
from raretag.cli.main import app
from raretag.core import registry
from raretag.core.errors import UserError
from raretag.core.method import build_method, wishes
from raretag.core.targets import LabelStatistics, Targets
from raretag.methods import NEEDS as OF_METHODS

PAGES = Path(__file__).parents[2] / "docs" / "benchmarks"
STATISTICS = LabelStatistics.of_counts([5, 2, 9], items=12)


def needs(name: str) -> str:
    """The most demanding of what a method asks for, seen from outside."""
    method = build_method(name, STATISTICS, items=12)
    if wishes(method):
        return "model"
    try:
        method(torch.zeros(2, 3), Targets.from_dense([[1, 0, float("nan")], [0, 1, 1]]))
    except UserError:  # passes no row numbers
        return "items"
    return "counts" if "statistics" in inspect.signature(registry.find("methods", name)).parameters else "nothing"


def test_methods_are_grouped_by_what_they_need() -> None:
    assert {name: kind for kind, names in OF_METHODS.items() for name in names} == {
        name: needs(name) for name in registry.names("methods")
    }
    assert list(NEEDS) == list(OF_METHODS)


def winners() -> dict[str, set[str]]:
    """Methods by the plans of which they had the best mAP in a section, from the tables beside the pages."""
    found: dict[str, set[str]] = {}
    for file in PAGES.glob("*.csv"):
        plan_name = file.stem.replace("-", "_")
        plan = load(plan_name)
        columns = [column for column, where in plan.metrics.items() if where == "mAP.total"]
        references = {method.label for method in plan.methods if "data.hide" in method.set}  # see what others do not
        best: dict[str, tuple[float, str]] = {}
        for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
            if row["metric"] in columns and row["mean"] and row["method"] not in references:
                best[row["section"]] = max(best.get(row["section"], (-1.0, "")), (float(row["mean"]), row["method"]))
        rows = {method.label: method for method in plan.methods}
        for _, label in best.values():
            name = rows[label].set.get("method.name", "") if label in rows else ""
            if name and ":" not in name:  # peers have no name of their own
                found.setdefault(name, set()).add(plan_name)
    return found


def test_where_a_method_won_is_what_the_tables_say() -> None:
    assert {name: set(plans) for name, plans in WON.items()} == winners()


def test_the_list_shows_groups_years_and_wins() -> None:
    shown = CliRunner().invoke(app, ["list", "methods"])
    assert shown.exit_code == 0
    for words in (*NEEDS.values(), "Zhou et al., ECCV 2022", "data.prior=FILE"):
        assert words in shown.stdout
    plain = CliRunner().invoke(app, ["list", "methods", "--plain"]).stdout.split()
    assert set(registry.names("methods")) <= set(plain)
