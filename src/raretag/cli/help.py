"""What `--help` shows beside the options themselves: an example for each command, and panels."""

from __future__ import annotations

from typing import Any

EXAMPLES = {  # shown below the help of a command
    "list": "raretag list methods",
    "inspect": "raretag inspect my.csv --picture labels.png",
    "train": "raretag train --data my.csv --test 0.2 --out runs/first",
    "report": "raretag report runs/first",
    "predict": "raretag predict runs/first new.csv --out answers.csv",
    "tune": "raretag tune runs/first --precision 0.8",
    "export": "raretag export runs/first --to onnx",
    "push": "raretag push runs/first hf://me/my-model",
    "suggest": "raretag suggest runs/first --max-missing 100",
    "review": "raretag review runs/first",
    "serve": "raretag serve runs/first --port 8000",
    "bench": "raretag bench quick",
    "sweep": "raretag sweep examples/sweep.yaml --trials 20",
    "figure": "raretag figure per_class runs/a runs/b --out bars.png",
    "apply": "raretag labels apply answered.csv --data my.csv --out better.csv",
}
TRAINING, USE, MISSING, RESEARCH = "Train and understand", "Use a model", "Missing and wrong labels", "Research"
COMMAND_PANELS = {
    **dict.fromkeys(("list", "inspect", "train", "report"), TRAINING),
    **dict.fromkeys(("predict", "tune", "export", "push", "serve"), USE),
    **dict.fromkeys(("suggest", "review", "labels"), MISSING),
    **dict.fromkeys(("bench", "sweep", "figure"), RESEARCH),
}
DATA, MODEL, MACHINES, WRITTEN, PRINTED = "Data", "Model", "Machines", "What is written", "What is printed"
OPTION_PANELS: dict[str, dict[str, tuple[str, ...]]] = {  # command: panel of an option; all others stay in "Options"
    "train": {
        DATA: ("data", "test", "data_changed"),
        MODEL: ("method", "effort", "fine_tune", "download", "config", "set_", "seed"),
        MACHINES: ("devices", "on"),
        WRITTEN: ("out", "resume", "overwrite", "log"),
    },
    "inspect": {DATA: ("set_",), "Recommendation": ("recommend", "minutes"), WRITTEN: ("picture", "numbers")},
    "predict": {
        DATA: ("part", "column", "folder", "allow_outside", "skip_bad", "prior"),
        MODEL: ("top", "encoder", "batch_size"),
        WRITTEN: ("out", "raw_cells", "overwrite"),
    },
    "tune": {"Goal (one of them; default: the best F1)": ("precision", "recall", "threshold")},
    "suggest": {
        "What is suggested": ("max_missing", "max_wrong", "even_share", "teach", "marked_share", "audit"),
        "How it is scored": ("folds", "set_", "data_changed"),
        WRITTEN: ("out", "images", "raw_cells", "simulate_answers", "overwrite"),
    },
    "review": {
        "What is asked": ("suggestions", "max_missing", "folds", "data_changed"),
        "Server": ("host", "port", "name"),
    },
    "serve": {
        "Server": ("host", "port", "name", "device"),
        "Limits": ("max_items", "max_megabytes", "max_seconds", "max_waiting"),
    },
    "bench": {
        "Which runs": ("budget", "only", "data"),
        MACHINES: ("jobs", "threads"),
        "What is done": ("dry_run", "table", "paired", "form", "out"),
    },
    "apply": {DATA: ("data", "set_", "data_changed"), WRITTEN: ("out", "form", "log", "overwrite")},
}
EVERYWHERE = ("quiet", "json", "help")  # options that every command has


def sort_into_panels(command: str, parameters: list[Any]) -> list[Any]:
    """Options with the panel that they are shown in, the panels in the order of the table."""
    panels = {name: panel for panel, names in OPTION_PANELS.get(command, {}).items() for name in names}
    order = [*OPTION_PANELS.get(command, {}), PRINTED]
    for one in parameters:
        if one.param_type_name == "option":
            one.rich_help_panel = PRINTED if one.name in EVERYWHERE else panels.get(one.name)
    return sorted(parameters, key=lambda one: _place(order, getattr(one, "rich_help_panel", None)))


def _place(order: list[str], panel: str | None) -> int:
    return order.index(panel) if panel in order else -1
