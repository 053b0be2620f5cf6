"""From the logits of a trained model to the numbers of its record."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.listener import SILENT, Listener, Step
from raretag.core.method import Method
from raretag.core.solver import Solver, kept
from raretag.core.targets import Targets
from raretag.data.dataset import Items
from raretag.data.sources import counted_on
from raretag.engine.batches import features_of
from raretag.engine.prepare import Prepared
from raretag.labels.split import split
from raretag.metrics.calibration import Tuned, calibration_error
from raretag.metrics.decision_cuts import MARKED, CrossFitted, tune_out_of_fold
from raretag.metrics.evaluation import evaluate, grouped_means
from raretag.metrics.marked_shares import marked_shares
from raretag.metrics.partial_labels import HiddenCounts, micro_hidden_recall, partial_truth
from raretag.metrics.precision_curve import average_precision
from raretag.metrics.scored import number_or_none
from raretag.metrics.tuning import tune
from raretag.runs import evidence
from raretag.runs.card import WEIGHTS, Card, Decisions
from raretag.runs.record import OUT_OF_FOLD, Record, beginning

CROSS_FITS = 5  # folds
MOST_LABELS = 1000  # whose inner numbers are written down each epoch


def epoch_row(prepared: Prepared, step: Step) -> dict[str, Any]:
    """The numbers of an epoch that has just ended, measured on the validation items."""
    assert prepared.training is not None
    validation, method = prepared.data.validation, prepared.training.method
    names: list[str] = []

    def read(outputs: Any) -> Tensor:
        """The prediction, and beside it what each branch would predict: all from one pass."""
        branches = method.branch_logits(outputs)
        names[:] = branches
        return torch.cat([method.logits(outputs), *branches.values()], 1)

    logits, *branches = prepared.logits(validation, read).split(validation.labels.labels, 1)
    row = validation_row(prepared, logits) | {
        "epoch": step.epoch,
        "step": step.step,
        "loss": step.mean_loss,
        "learning_rate": step.learning_rate,
        "vital_signs": method.vital_signs(),
    }
    if branches:
        row["branches"] = {name: {"mAP": mean_ap(prepared, some)} for name, some in zip(names, branches, strict=True)}
    if prepared.training.truth is not None:
        row["found_missing"] = {"right": step.found, "wrong": step.mistaken}
    signs = method.label_signs() if validation.labels.labels <= MOST_LABELS else {}
    if signs:
        row["by_label"] = {name: [float(f"{x:.7g}") for x in values.tolist()] for name, values in signs.items()}
    return row


def solved_row(prepared: Prepared, solver: Solver) -> dict[str, Any]:
    """The one row of a run without steps."""
    row = validation_row(prepared, validation_logits(prepared))
    return row | {"epoch": 0, "step": 1, "loss": None, "learning_rate": 0.0, "vital_signs": solver.vital_signs()}


def validation_logits(prepared: Prepared) -> Tensor:
    """Of the validation items by a model that never saw them; where all items teach, of these out of fold."""
    if prepared.first_validation is not None:
        return prepared.first_validation
    if prepared.data.validation is prepared.data.train and prepared.out_of_fold is not None:
        return prepared.out_of_fold
    return prepared.logits(prepared.data.validation)


def decides_out_of_fold(prepared: Prepared) -> bool:
    """Whether the scores of the final model out of fold are known; a network that was tuned has none."""
    return prepared.out_of_fold is not None and prepared.first_validation is None


def validation_row(prepared: Prepared, logits: Tensor) -> dict[str, Any]:
    targets = prepared.data.validation.labels.targets().assuming_negatives()  # or every ranking would be perfect
    numbers = metrics_of(prepared, targets, logits)
    return {"validation": {name: numbers[name] for name in ("mAP", "F1")}}


def mean_ap(prepared: Prepared, logits: Tensor) -> dict[str, Any]:
    """Of the validation items, by group."""
    per_label = average_precision(logits, prepared.data.validation.labels.targets().assuming_negatives())
    return grouped_means(per_label, prepared.groups).as_dict()


def metrics_of(
    prepared: Prepared, targets: Targets, logits: Tensor, thresholds: float | Tensor = 0.5
) -> dict[str, Any]:
    return evaluate(
        logits,
        targets,
        thresholds=thresholds,
        groups=prepared.groups,
        training_positives=prepared.statistics.positives,
        least_frequent=prepared.config.least_frequent,
    )


@dataclass
class Measured:
    """What a finished run is described by: written into its folder, or kept in memory."""

    record: Record
    decisions: Decisions
    logits: dict[str, Tensor]  # of validation and test items
    evidence: dict[str, Tensor]


def measure_run(prepared: Prepared, history: list[dict[str, Any]], listener: Listener) -> Measured:
    """Every final number of a trained model. Where there is no test part, validation items stand in, and it is said."""
    data, config = prepared.data, prepared.config
    test = prepared.logits(data.test) if prepared.test_logits is None else prepared.test_logits
    logits = {"validation": validation_logits(prepared), "test": test}
    shares = None  # of the positives that are marked, by label
    fitted = None  # thresholds and calibration from out-of-fold logits, where there are such
    with prepared.cost.of("decide"):
        if decides_out_of_fold(prepared):
            assert prepared.out_of_fold is not None
            targets = data.train.labels.targets()
            if config.data.marking != "assumed":
                by_label = config.data.marking == "by_label"
                shares = marked_shares(prepared.out_of_fold, targets, by_label=by_label)
            marked = MARKED if shares is None else torch.from_numpy(shares.shares())
            fitted = tune_out_of_fold(prepared.out_of_fold, targets, prepared.groups, seed=config.seed, marked=marked)
            tuned = fitted.tuned
        else:
            tuned = tune(logits["validation"], data.validation.labels.targets(), prepared.groups, seed=config.seed)
    measured_on = "test" if len(data.test) else "validation"
    items, scores = data.parts[measured_on], logits[measured_on]
    final = metrics_of(prepared, items.labels.targets(), scores)
    if fitted is not None and measured_on == "validation" and items is data.train:
        measured_on = "out of fold"
        final |= cross_fitted_metrics(prepared, fitted)
        listener.message(f"there is no test part: the numbers are {OUT_OF_FOLD}")
    elif measured_on == "test" or fitted is not None:
        final |= tuned_metrics(prepared, items, scores, tuned)
    if measured_on == "validation":
        listener.message("there is no test part: the numbers are those of the validation items")
    if measured_on != "test":
        final["measured_on"] = measured_on
    if data.truth is not None:
        final["hidden_recall"] = hidden_recall(prepared)
    unsure = items.labels.targets()
    if not unsure.observed.all():
        kept: float | NDArray[np.float64] | None = config.data.kept_in_test
        if kept is not None and shares is not None and shares.vary:  # test items were marked as training items were
            kept = shares.shares(config.data.kept_in_test)
        final["partial_truth"] = partial_truth(scores, unsure, kept=kept, seed=config.seed)
        listener.message(sentence_on_partial_truth(final["partial_truth"], measured_on))
    rows = evidence.rows_to_search(data.train.labels)
    searched = prepared.logits(data.train.take(rows)) if prepared.out_of_fold is None else prepared.out_of_fold[rows]
    decisions = Decisions.of(tuned)
    record = record_of(prepared, history, final, decisions)
    return Measured(record, decisions, logits, evidence.evidence_of(data, prepared.statistics, rows, searched))


def record_of(prepared: Prepared, history: list[dict[str, Any]], final: dict[str, Any], decisions: Decisions) -> Record:
    config, data, learner = prepared.config, prepared.data, prepared.learner
    slots = learner.objective.filled() if isinstance(learner, Method) else {}
    return Record.from_json(
        {
            **beginning(
                config,
                data,
                torch.get_num_threads(),
                labels=list(data.train.labels.names),
                content=prepared.raw.content,
            ),
            "groups": {
                "edges": list(config.group_edges),
                "counted_on": counted_on(data),
                **{name: members.tolist() for name, members in prepared.groups.items()},
            },
            "method": {
                "name": config.method.name,
                "solves": isinstance(learner, Solver),
                "slots": slots,
                "denominator": slots.get("reduce"),
                "learned": learner.learned(),
            },
            "fitted_on": fitted_on(prepared, final),
            "metrics": {  # numbers of single labels are in metrics.jsonl
                "validation_from": kind_of_validation(prepared),
                "epochs": [{key: value for key, value in row.items() if key != "by_label"} for row in history],
                "final": final,
            },
            **decisions.model_dump(),
        }
    )


def card_of(prepared: Prepared, decisions: Decisions, weights_sha256: str) -> Card:
    raw, statistics = prepared.raw, prepared.statistics
    return Card(
        labels=list(prepared.data.train.labels.names),
        training_positives=statistics.positives.tolist(),
        training_negatives=statistics.negatives.tolist(),
        training_items=statistics.items,
        group_edges=list(prepared.config.group_edges),
        groups={name: members.tolist() for name, members in prepared.groups.items()},
        inputs=raw.description,
        columns=raw.columns,
        input_shape=list(raw.shape),
        encoder=raw.encoder,
        weights={"file": WEIGHTS, "sha256": weights_sha256},
        config=prepared.config.model_dump(mode="json"),
        outside=prepared.outside.as_json() if prepared.outside is not None and prepared.outside.counts else None,
        **decisions.model_dump(),
    )


def kind_of_validation(prepared: Prepared) -> str:
    """Whose scores the validation numbers are."""
    if prepared.data.validation is prepared.data.train and prepared.out_of_fold is not None:
        return "out of fold"
    return "validation items" if prepared.data.held_out else "training items"


def fitted_on(prepared: Prepared, final: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the model, its thresholds and its numbers come from; "training items" were seen by what they judge."""
    data = prepared.data
    validation = {"from": kind_of_validation(prepared), "items": len(data.validation)}
    out_of_fold = {"from": "out of fold", "items": len(data.train)}
    parts = ["train", *data.notes.get("joined", [])] if data.validation is data.train else ["train"]
    measured = {"from": "test items", "items": len(data.test)} if "measured_on" not in final else validation
    return {
        "model": prepared.refitted or {"parts": parts, "items": len(data.train)},
        "thresholds": out_of_fold if decides_out_of_fold(prepared) else validation,
        "metrics": measured,
    }


def tuned_metrics(prepared: Prepared, items: Items, logits: Tensor, tuned: Tuned) -> dict[str, Any]:
    """What thresholds and calibration do to the numbers of items that had no part in them."""
    after = tuned.calibrated(logits)
    decided = metrics_of(prepared, items.labels.targets(), after, tuned.thresholds)
    return own_decisions(decided) | calibration_errors(items, logits, after)


def cross_fitted_metrics(prepared: Prepared, fitted: CrossFitted) -> dict[str, Any]:
    """The same out of fold: model, cuts and calibration of an item all come from others."""
    assert prepared.out_of_fold is not None
    decided = metrics_of(prepared, prepared.data.train.labels.targets(), torch.where(fitted.decided, 1.0, -1.0))
    return own_decisions(decided) | calibration_errors(prepared.data.train, prepared.out_of_fold, fitted.calibrated)


def own_decisions(decided: dict[str, Any]) -> dict[str, Any]:
    return {"F1_tuned": decided["F1"], "micro_F1_tuned": decided["micro_F1"]}


def calibration_errors(items: Items, before: Tensor, after: Tensor) -> dict[str, Any]:
    targets, logits = items.labels.targets(), {"before": before, "after": after}
    return {"ECE": {when: number_or_none(calibration_error(z.sigmoid(), targets)) for when, z in logits.items()}}


def hidden_recall(prepared: Prepared) -> float | None:
    """The share of the hidden training positives that the model finds at 0.5 (what COMIC's Table 2 calls recall)."""
    items, truth = prepared.data.train, prepared.data.truth
    assert truth is not None
    logits = prepared.logits(items) if prepared.out_of_fold is None else prepared.out_of_fold
    counts = HiddenCounts.of(logits > 0, truth.targets(), items.labels.targets())
    return number_or_none(micro_hidden_recall(counts))


def sentence_on_partial_truth(found: dict[str, Any], part: str = "test") -> str:
    """The mAP of a set of which some labels are unknown, in a line."""
    number = found["mAP"]
    line = f"{part}: {found['observed_share']:.0%} of the labels are observed"
    low, high = number["bounds"]
    if low is None or high is None:
        return f"{line}; no label has a positive among them, so mAP cannot be measured"
    line += f"; mAP lies between {100 * low:.1f} and {100 * high:.1f}"
    if number["estimate"] is not None:
        a, b = number["interval"]
        line += f", estimate {100 * number['estimate']:.1f} [{100 * a:.1f}, {100 * b:.1f}] if {found['assumption']}"
    return line if number["estimate"] is not None else f"{line}; {found['assumption']} (data.kept_in_test)"


def cross_fit(prepared: Prepared, solver: Solver) -> Tensor:
    """Out-of-fold logits [N, C] of the training items, for a solver that gave none: solved again without each fold.

    The head and the solver stay as they are.
    """
    items, head = prepared.data.train, prepared.model.get_submodule("head")
    solution = copy.deepcopy(head.state_dict())
    folds = min(CROSS_FITS, len(items))
    logits = torch.zeros(len(items), items.labels.labels)
    for rows in split(items.labels, [1.0 / folds] * folds, prepared.config.seed).parts:
        # The solution of all items hangs on everything that those without a fold hang on.
        logits[torch.from_numpy(rows)] = kept(partial(logits_without, prepared, solver, rows), solution, rows)
    head.load_state_dict(solution)
    return logits


def logits_without(prepared: Prepared, solver: Solver, rows: NDArray[Any]) -> Tensor:
    """Of some items, by a solution that was not fitted to them; it stays in the head."""
    items = prepared.data.train
    rest = items.take(torch.from_numpy(np.setdiff1d(np.arange(len(items)), rows)))
    rows_at_once = 4 * prepared.config.train.batch_size
    copy.deepcopy(solver).solve(
        lambda: features_of(prepared.model, rest, prepared.fabric, rows_at_once, keep_sparse=solver.takes_sparse),
        prepared.model.get_submodule("head"),
        SILENT,
    )
    return prepared.logits(items.take(torch.from_numpy(rows)))
