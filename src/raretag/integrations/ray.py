"""Ray, for those who outgrow one machine: training, sweeps and predictions on a cluster.

`raretag train --on ray --devices 8` starts as many workers wherever the cluster has room, in one group of processes, so
the numbers are those of torchrun. The run folder must be on a disk that all machines share. If a worker is lost, all
begin again from the last checkpoint. `ray.init` finds a cluster by RAY_ADDRESS, or makes one of this machine.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from raretag.config.settings import Config, checked
from raretag.core.lazy import needed
from raretag.core.solver import Mapper, mapping_with, solver_named
from raretag.integrations import sweep
from raretag.integrations.sweep import Range, Space, Trial
from raretag.runs.folder import Resume

RESTARTS = 3  # of the whole group, when a worker is lost


def start() -> Any:
    ray = needed("ray", "ray", "--on ray")
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    return ray


def train_on_ray(
    config: Config,
    folder: Path,
    *,
    resume: Resume = False,
    overwrite: bool = False,
    data_changed: bool = False,
    python_path: str | None = None,
) -> None:
    """Train in `config.train.devices` workers of the cluster; the folder is written as by any other run.

    A solver runs here, and its folds and blocks of labels are solved by the workers.

    `python_path` is where methods and loggers of one's own are found on the workers; default: the current folder.
    """
    config, workers = solved_here(config)
    if workers:
        from raretag.engine.run import run

        with mapping_with(on_ray(workers)):
            run(config, folder, resume=resume, overwrite=overwrite, data_changed=data_changed)
        return
    start()
    train: Any = needed("ray.train", "ray", "--on ray")
    torch_train: Any = needed("ray.train.torch", "ray", "--on ray")
    from raretag.runs.folder import refuse_existing

    folder = folder.absolute()
    refuse_existing(folder, resume=resume, overwrite=overwrite)
    cuda = config.train.accelerator in ("cuda", "gpu")
    trainer = torch_train.TorchTrainer(
        worker,
        train_loop_config={"config": config.model_dump(mode="json", exclude_unset=True), "folder": str(folder)}
        | {"resume": resume, "overwrite": overwrite, "data_changed": data_changed}
        | {"started": str(folder.parent / f".{folder.name}.started")}
        | {"python_path": python_path or str(Path.cwd())},
        scaling_config=train.ScalingConfig(num_workers=config.train.devices, use_gpu=cuda),
        torch_config=torch_train.TorchConfig(backend="nccl" if cuda else "gloo"),
        run_config=train.RunConfig(
            name="ray",
            storage_path=str(folder.parent / f".{folder.name}.ray"),
            failure_config=train.FailureConfig(max_failures=RESTARTS),
        ),
    )
    trainer.fit()


def solved_here(config: Config) -> tuple[Config, int]:
    """A solver's settings for this process, and how many workers help it; 0 for a method that learns by steps."""
    from raretag.core.ranker import is_ranker
    from raretag.engine.auto import without_steps

    workers = config.train.devices
    name = without_steps(config) if config.method.name == "auto" else config.method.name
    if name is None or (solver_named(name) is None and not is_ranker(name)):
        return config, 0
    return config.model_copy(update={"train": config.train.model_copy(update={"devices": 1, "nodes": 1})}), workers


def on_ray(workers: int) -> Mapper:
    """Parts of a fit as tasks of the cluster, so many at once; a lost one is begun again, three times at most."""
    ray, kept = start(), dict[int, tuple[Any, Any]]()
    task = ray.remote(num_cpus=1, max_retries=RESTARTS)(called)

    def mapper(function: Callable[[Any, Any], Any], shared: Any, parts: Sequence[Any]) -> Iterator[Any]:
        if id(shared) not in kept:
            kept.clear()  # one fit at a time
            kept[id(shared)] = (shared, ray.put(shared))  # sent once, read by every task; the first keeps the number
        asked, busy = [], list[Any]()
        for part in parts:
            if len(busy) == workers:
                _, busy = ray.wait(busy)
            asked.append(task.remote(function, kept[id(shared)][1], part))
            busy.append(asked[-1])
        for one in asked:
            yield ray.get(one)

    return mapper


def called(function: Callable[[Any, Any], Any], shared: Any, part: Any) -> Any:
    """On a worker."""
    return function(shared, part)


def worker(given: Mapping[str, Any]) -> None:
    """One of the processes. Called again after a loss: then it continues, or begins if nothing was saved yet."""
    from raretag.core.listener import SILENT
    from raretag.engine.run import run

    sys.path.insert(0, given["python_path"])
    folder = Path(given["folder"])
    again = _first_says(lambda: _begun(Path(given["started"])))
    options = {"resume": "auto" if again else given["resume"], "data_changed": given["data_changed"]}
    run(checked(dict(given["config"])), folder, **options, overwrite=given["overwrite"], listener=SILENT)
    _first_says(lambda: Path(given["started"]).unlink(missing_ok=True))


def _begun(mark: Path) -> bool:
    """Whether this training was begun before; from now on it is."""
    before = mark.exists()
    mark.touch()
    return before


def _first_says(question: Callable[[], Any]) -> Any:
    """Asked by the first process while the others wait for what it says."""
    import torch.distributed as dist

    if not dist.is_initialized():
        return question()
    said = [question() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(said, src=0)
    return said[0]


def sweep_with_ray(
    tree: Mapping[str, Any], space: Space, folder: Path, trials: int, done: Callable[[Trial], None]
) -> list[Trial]:
    """Trials at once, as many as the cluster has processors; drawn at random, halved by ASHA."""
    start()
    tune: Any = needed("ray.tune", "ray", "--on ray")
    schedulers: Any = needed("ray.tune.schedulers", "ray", "--on ray")
    folder = folder.absolute()
    before = sweep.read_trials(folder)
    if len(before) >= trials:
        return before
    epochs = sweep.configured(tree, {}).train.epochs
    halving = schedulers.ASHAScheduler(
        time_attr="epoch", metric="mAP", mode="max", max_t=epochs, grace_period=1, reduction_factor=sweep.REDUCTION
    )

    def trainable(settings: dict[str, Any]) -> None:
        name = tune.get_context().get_trial_id()
        config = sweep.configured(tree, settings)
        reporter = sweep.run_trial(config, folder / name, lambda epoch, mAP: tune.report({"epoch": epoch, "mAP": mAP}))
        tune.report({"epoch": reporter.epochs, "mAP": reporter.last, "whole": True})  # also of a solver, without epochs

    tuner = tune.Tuner(
        trainable,
        param_space={key: domain_of(tune, one) for key, one in space.items()},
        tune_config=tune.TuneConfig(num_samples=trials - len(before), scheduler=halving),
        run_config=tune.RunConfig(name="ray", storage_path=str(folder.parent / f".{folder.name}.ray"), verbose=0),
    )
    found = list(before)
    for result in tuner.fit():
        numbers = result.metrics or {}
        reached, value = int(numbers.get("epoch", 0)), numbers.get("mAP", math.nan)
        whole = reached >= epochs or numbers.get("whole", False)
        state = "failed" if result.error is not None else "finished" if whole else "stopped"
        reason = "" if result.error is None else str(result.error).strip().splitlines()[-1]
        measured = None if math.isnan(value) else float(value)
        found.append(Trial(len(found), dict(result.config or {}), measured, reached, state, reason))
        done(found[-1])
    sweep.write_trials(folder, found, tree)
    return found


def domain_of(tune: Any, one: Range | list[Any]) -> Any:
    if isinstance(one, list):
        return tune.choice(one)
    if one.whole:
        return (tune.lograndint if one.log else tune.randint)(int(one.low), int(one.high) + 1)
    return (tune.loguniform if one.log else tune.uniform)(float(one.low), float(one.high))


class Predictor:
    """A trained model for Ray Data: `dataset.map_batches(Predictor, fn_constructor_args=[run], ...)`.

    A batch is a dictionary of arrays; the column `column` holds feature vectors, texts or paths of images. Adds
    `labels` (names that are chosen) and `probabilities`.
    """

    def __init__(self, run: str, column: str = "item") -> None:
        from raretag.serve.model import load

        self.model, self.column = load(run), column

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import numpy as np

        items = batch[self.column]
        items = np.stack(list(items)) if items.dtype == object and not isinstance(items[0], str) else items
        found = self.model.predict(items if items.dtype.kind == "f" else [str(item) for item in items])
        names = np.empty(len(found), dtype=object)
        names[:] = found.chosen_labels()
        return {**batch, "labels": names, "probabilities": found.probabilities}
