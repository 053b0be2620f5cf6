"""What `import raretag` offers to a notebook: train, look at a data set, and a run that predicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from raretag.config.settings import Config, Train, checked, data_of, put
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.core.method import Method, OwnLoss
from raretag.core.ranker import Ranker
from raretag.core.registry import nearest, table
from raretag.core.solver import Solver
from raretag.data.dataset import DataSet
from raretag.runs import run as runs
from raretag.runs.record import Metrics

if TYPE_CHECKING:
    from raretag.serve.predictions import Predictions
    from raretag.serve.ranking import RankedPredictions

Data = DataSet | str | Path | tuple[Any, Any] | Mapping[str, Any]
Learner = Method | Solver | Ranker
Chosen = str | Mapping[str, Any] | Learner | type[Method] | type[Solver] | type[Ranker] | Callable[..., Any]


@dataclass(frozen=True)
class Run(runs.Run):
    """A trained model with everything that is known about it.

    `record` is what `record.json` holds, `metrics` its final numbers, `folder` where it was written (None: nowhere).
    """

    @property
    def metrics(self) -> Metrics:
        """On the test items, by group: `run.metrics.mAP.total`, `run.metrics.mAP.of("tail")`."""
        return self.record.metrics.final

    def predict(self, data: Any = None, **options: Any) -> Predictions | RankedPredictions:
        """Probabilities and decisions for new items; the arguments are those of `Model.predict`."""
        from raretag.serve.model import load

        return load(self).predict(data, **options)

    def report(self, out: Path | str | None = None) -> Path:
        """Write the page that explains the run, and return its path; default: report.html in the folder of the run."""
        if self.folder is None:
            raise UserError("the run was not written, so there is nothing to report from; train with out=FOLDER")
        from raretag.report import write_report

        return write_report([self.folder], None if out is None else Path(out))[0]

    def __repr__(self) -> str:
        if self.metrics.top is not None:
            first = 100 * self.metrics.top["P@1"]
            return f"Run({self.record.method.name} on {self.record.data.name}, P@1 {first:.1f}, folder={self.folder})"
        number = self.metrics.mAP.total
        shown = "not measured" if number is None else f"{100 * number:.1f}"
        return f"Run({self.record.method.name} on {self.record.data.name}, mAP {shown}, folder={self.folder})"


def train(
    data: Data,
    model: nn.Module | str | Mapping[str, Any] | None = None,
    method: Chosen = "auto",
    *,
    out: Path | str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    listener: Listener | None = None,
    prior: Any = None,
    **settings: Any,
) -> Run:
    """Train, measure, and return the run; with `out` it is also written to a folder.

    Args:
        data: A data set (`raretag.data.from_arrays` and its like), a pair (X, Y) of arrays, a file, the name of a data
            set, or {"name": ..., option: value}.
        model: Any module from inputs to logits, a name, or {"name": ..., option: value}; None: what suits the data.
        method: A name (`raretag list methods`), {"name": ..., option: value}, a method, a solver, a ranker or a class
            of them, or a loss of your own: a function of (logits, targets) that gives a number.
        out: The folder of the run; `overwrite` replaces one that exists, `resume` continues it.
        listener: Gets messages and progress. None: a progress bar.
        prior: Scores from outside: a file of item, label, score; for a pair (X, Y) also an array [items, labels] with
            NaN where there is none.
        settings: As on the command line: epochs=5 or batch_size=64 (of the section `train`), seed=1, and whole
            sections such as sampler="class_aware" or head={"name": "cosine", "scale": 20.0}.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(120, 4)).astype("float32")
    >>> run = train((X, X > 0.5), listener=Listener())
    >>> run.record.method.name, run.predict(X[:2]).probabilities.shape
    ('blend', (2, 4))
    """
    own: Learner | None = None
    if isinstance(method, (Method, Solver, Ranker)):
        own = method
    elif not isinstance(method, (str, Mapping, type)):
        own = OwnLoss(method)
    named = method if isinstance(method, (str, Mapping)) else _name_of(method)
    sections = {"model": model} if isinstance(model, (str, Mapping)) else {}
    config = configuration(data, named, {**sections, **settings})
    given = _data_set(data, prior)
    if prior is not None and given is None:
        config = config.model_copy(update={"data": config.data.model_copy(update={"prior": str(prior)})})
    brought: dict[str, Any] = {
        "data": given,
        "model": model if isinstance(model, nn.Module) else None,
        "method": own,
        "resume": resume,
        "overwrite": overwrite,
    }
    if listener is None:
        from raretag.cli.progress import run_with_bar

        found = run_with_bar(config, None if out is None else Path(out), **brought)
    else:
        from raretag.engine.run import run

        found = run(config, out, listener=listener, **brought)
    return Run(**{field.name: getattr(found, field.name) for field in fields(runs.Run)})


def inspect(data: Data, **settings: Any) -> dict[str, Any]:
    """What is in the labels of a data set: counts, groups, what is observed, the rarest and the most frequent labels.

    Args:
        data: As for `train`.
        settings: As for `train`; group_edges=(20, 100) are the edges between tail, medium and head.

    >>> found = inspect("digits")
    >>> found["items"], found["labels"], found["groups"]["tail"]
    (1117, 10, 3)
    """
    from raretag.data.sources import group_counts, look
    from raretag.labels.counts import describe

    config = configuration(data, "auto", settings)
    given = _data_set(data)
    if given is None:
        found = look(config.data, config.seed)
        stores, counted, duplicates = found.stores, found.counted, found.duplicates
    else:
        stores = {name: items.labels for name, items in given.parts.items()}
        counted, duplicates = group_counts(given), given.train.duplicates()
    description = describe(stores["train"], config.group_edges, counted=counted)
    description["splits"] = {name: len(store) for name, store in stores.items()}
    return {**description, "duplicates": duplicates}


def print_results(found: Mapping[str, Run]) -> None:
    """Print a table with a row per run: `print_results({"plain": first, "focal": second})`."""
    from raretag.cli.results import print_results as show

    show({name: run.record for name, run in found.items()})


def configuration(data: Any, method: str | Mapping[str, Any], settings: Mapping[str, Any]) -> Config:
    """The settings of `train`, checked.

    >>> configuration("digits", "focal", {"epochs": 3, "sampler": "class_aware"}).train.epochs
    3
    """
    tree: dict[str, Any] = {"method": {"name": method} if isinstance(method, str) else dict(method)}
    if isinstance(data, (str, Path)):
        tree["data"] = data_of(str(data))
    elif isinstance(data, Mapping):
        tree["data"] = dict(data)
    for key, value in settings.items():
        path = key.replace("__", ".")
        if path in Train.model_fields and path not in Config.model_fields:
            put(tree, f"train.{path}", value)
        elif path.split(".")[0] not in Config.model_fields:
            known = [*Train.model_fields, *Config.model_fields]
            raise UserError(f"there is no setting '{key}'; {nearest(key, known)}")
        elif isinstance(value, Mapping):
            for option, inner in value.items():
                put(tree, f"{path}.{option}", inner)
        else:
            put(tree, f"{path}.name" if path in _NAMED else path, value)
    return checked(tree)


_NAMED = ("data", "encoder", "fine_tune", "model", "branches", "head", "sampler")


def _data_set(data: Data, prior: Any = None) -> DataSet | None:
    """None: the configuration names the data."""
    if isinstance(data, (str, Path, Mapping)):
        if prior is not None and not isinstance(prior, (str, Path)):
            raise UserError("prior is an array, but the data is read from a file: give a file of item, label, score")
        return None
    if isinstance(data, DataSet):
        from raretag.data.sources import with_prior

        return data if prior is None else with_prior(data, prior)
    if isinstance(data, tuple) and len(data) == 2:
        from raretag.data import from_arrays

        inputs, labels = data
        return from_arrays(inputs, labels, prior=prior)
    raise UserError(
        f"data is a {type(data).__name__}; expected a data set from raretag.data, a pair (X, Y), a file or a name"
    )


def _name_of(method: Any) -> str:
    """The name of a method that was given as an object, for the record: ours by its own, others as `module:Class`."""
    maker = method if isinstance(method, type) or not isinstance(method, (Method, Solver, Ranker)) else type(method)
    target = f"{maker.__module__}:{getattr(maker, '__qualname__', type(maker).__qualname__)}"
    ours = {where: name for room in ("methods", "solvers", "ranking") for name, where in table(room).items()}
    return ours.get(target, target)
