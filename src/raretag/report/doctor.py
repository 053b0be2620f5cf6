"""What is wrong with a run, why, and what to try next. Each question is a function that returns a finding or None."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from raretag.report.study import GROUPS, Study

OFTEN, SELDOM = 1.5, 0.67  # predicted positives over true ones
AUTO = ("sampler.name=auto", "head.name=auto", "branches.name=auto")  # what another method wants instead
GAIN = 0.03  # of F1 by other thresholds, from which it is worth mentioning


@dataclass(frozen=True)
class Finding:
    level: Literal["good", "note", "warn", "bad"]
    title: str
    text: str
    command: str = ""  # to try next


def examine(study: Study) -> list[Finding]:
    """The worst first."""
    findings = [finding for question in QUESTIONS if (finding := question(study)) is not None]
    order = ("bad", "warn", "note", "good")
    findings.sort(key=lambda finding: order.index(finding.level))
    advised: set[str] = set()
    for place, finding in enumerate(findings):  # one thing at a time, and each once
        if finding.command in advised:
            findings[place] = replace(finding, command="")
        advised.add(finding.command)
    if not any(finding.level in ("bad", "warn") for finding in findings):
        findings.insert(0, Finding("good", "Nothing stands out", "No label collapsed and no group is far off."))
    return findings


def collapsed(study: Study) -> Finding | None:
    """Labels that are never predicted: is it the threshold or the ranking?"""
    if study.test is None:
        return None
    never = study.never_predicted()
    if not len(never):
        return None
    fine = study.ranks_well()
    ranked, lost = [c for c in never if fine[c]], [c for c in never if not fine[c]]
    found = int((study.at_tuned.hits[ranked] > 0).sum())
    text = f"At a threshold of 0.5 the model never predicts {listed(study, never)}. "
    if ranked:
        text += (
            f"For {some(len(ranked), len(never))} the ranking is fine and only the threshold is wrong: with the "
            f"thresholds tuned on validation (in card.json) {found} of {len(ranked)} {'is' if found == 1 else 'are'} "
            "found. "
        )
    if not lost:
        return Finding("warn", f"{labels(len(never))} never predicted", text.strip())
    counts = "" if study.counts is None else f" ({_range(study.counts[lost])} training positives)"
    text += (
        f"For {some(len(lost), len(never))}{counts} the ranking is poor too, so no threshold makes them useful: this "
        "needs another sampler, another loss, or more labelled items."
    )
    return Finding("bad", f"{labels(len(never))} never predicted", text, for_rare(study))


def thresholds(study: Study) -> Finding | None:
    """Ranking and cutting are two questions."""
    half, tuned = study.final["F1"]["total"], study.final["F1_tuned"]["total"]
    if half is None or tuned is None or abs(tuned - half) < GAIN:
        return None
    if tuned < half:
        return Finding(
            "note",
            "Tuned thresholds do worse than 0.5",
            f"F1 is {_percent(tuned)} with the thresholds tuned on validation and {_percent(half)} at 0.5: validation "
            "has too few positives of the rare labels, or its labels are distributed unlike those of the test set.",
        )
    gains, trivial = [], study.f1_of_always_yes()
    for group in GROUPS:
        before, after = study.final["F1"][group], study.final["F1_tuned"][group]
        if before is not None and after is not None:
            idle = group in trivial and after - before > GAIN and after < trivial[group] + GAIN
            same = f", but predicting it everywhere has {_percent(trivial[group])}" if idle else ""
            gains.append(f"{group} {_percent(before)} → {_percent(after)}{same}")
    return Finding(
        "warn",
        "The ranking is better than the threshold of 0.5",
        f"Macro F1 rises from {_percent(half)} to {_percent(tuned)} when each label has its own threshold, tuned on "
        f"validation ({'; '.join(gains)}). They are in card.json; training need not be repeated.",
    )


def balance(study: Study) -> Finding | None:
    """Over- and under-prediction by group."""
    if study.test is None:
        return None
    ratios: list[str] = []
    under: list[str] = []
    over: list[str] = []
    for group in GROUPS:
        members = study.record["groups"][group]
        true = int(study.at_half.positives[members].sum())
        if not true:
            continue
        ratio = int(study.at_half.predicted[members].sum()) / true
        ratios.append(f"{group} {ratio:.2f}")
        (under if ratio < SELDOM else over if ratio > OFTEN else []).append(group)
    if not under and not over:
        return (
            Finding("good", "Every group is predicted about as often as it occurs", _times(ratios)) if ratios else None
        )
    sides = ((over, "often"), (under, "seldom"))
    parts = [f"{_and(groups, len(ratios))} too {word}" for groups, word in sides if groups]
    text = _times(ratios)
    if under and study.has_unknown_labels:
        text += " Some training labels are missing: a method that takes them for absent learns to be cautious."
    command = (
        for_missing(study) if under and study.has_unknown_labels else for_rare(study) if under else for_too_many(study)
    )
    return Finding("warn", f"At 0.5: {'; '.join(parts)}", text, command)


def tail_gap(study: Study) -> Finding | None:
    ap = study.final["mAP"]
    if ap["head"] is None or ap["tail"] is None or ap["head"] - ap["tail"] < 0.15:
        return None
    return Finding(
        "warn",
        "Rare labels are ranked much worse than frequent ones",
        f"mAP is {_percent(ap['head'])} for the head and {_percent(ap['tail'])} for the tail.",
        for_rare(study),
    )


def no_negatives(study: Study) -> Finding | None:
    """Where only positives are in the loss, predicting every label everywhere is the best answer."""
    if study.unknown is None or study.counts is None or not study.ignores_unknown:
        return None
    if (study.record["data"]["items"]["train"] - study.counts - study.unknown).any():
        return None
    return Finding(
        "bad",
        "The method was given no negative",
        f"No training label is an observed negative and {study.method} leaves unknown labels out of the loss, so the "
        "model learns to find every label everywhere.",
        again(study, method="assume_negative"),
    )


def unlearnable(study: Study) -> Finding | None:
    if study.counts is None or not (empty := np.flatnonzero(study.counts == 0).tolist()):
        return None
    return Finding(
        "warn",
        f"{labels(len(empty))} without a training positive",
        f"{listed(study, empty)} cannot be learned. Find examples, or leave the label out.",
    )


def unmeasured(study: Study) -> Finding | None:
    excluded = study.final["excluded_classes"]
    if not excluded:
        return None
    return Finding(
        "note",
        f"{labels(len(excluded))} not measured",
        f"The test set has no observed positive of {listed(study, excluded)}: left out of all means, not counted as 0.",
    )


def schedule(study: Study) -> Finding | None:
    """Stopped too early, or trained for too long."""
    curve = [row["validation"]["mAP"]["total"] for row in study.record["metrics"]["epochs"]]
    if len(curve) < 4 or any(value is None for value in curve):
        return None
    best = int(np.argmax(curve))
    if curve[best] - curve[-1] > 0.03:
        return Finding(
            "note",
            "Validation was best before the end",
            f"Validation mAP was {_percent(curve[best])} after epoch {best + 1} and {_percent(curve[-1])} at the end.",
            again(study, f"train.epochs={best + 1}"),
        )
    quarter = max(1, len(curve) // 4)
    if curve[-1] - curve[-1 - quarter] > 0.03:
        return Finding(
            "note",
            "Validation was still rising at the end",
            f"mAP on validation rose by {100 * (curve[-1] - curve[-1 - quarter]):.1f} points in the last {quarter} of "
            f"{len(curve)} epochs.",
            again(study, f"train.epochs={2 * len(curve)}"),
        )
    return None


def missing_labels(study: Study) -> Finding | None:
    """Unknown labels that the method trained as positives, where the truth is known."""
    counted = [row["found_missing"] for row in study.epochs if row.get("found_missing")]
    if not counted or not (found := counted[-1]["right"] + counted[-1]["wrong"]):
        return None
    right = counted[-1]["right"] / found
    text = f"In the last epoch it trained {found:,} unknown labels as positives, of which {_percent(right)} are."
    if right < 0.5:
        return Finding(
            "warn", "Most labels that the method adds are wrong", text + " Raise its threshold or its warm-up."
        )
    return Finding("good" if right > 0.8 else "note", "The method fills in missing labels", text)


QUESTIONS: tuple[Callable[[Study], Finding | None], ...] = (
    no_negatives, collapsed, thresholds, balance, tail_gap, unlearnable, missing_labels, schedule, unmeasured,
)  # fmt: skip


# What to try next, as a command. ------------------------------------------------------------------------------------


def again(study: Study, *changes: str, method: str | None = None) -> str:
    """The command that trains the run again with these changes."""
    words = ["raretag", "train", "--config", f"{study.path}/config.yaml"]
    words += ["--method", method] if method else []
    for change in (*changes, *(AUTO if method else ())):
        words += ["--set", change]
    return shlex.join([*words, "--out", f"{study.path}-next"])


def for_rare(study: Study) -> str:
    """Another sampler first; then another loss. Where a method solves there is no sampler: more learners beside it."""
    if study.solved:
        return "" if study.method in ("blend", "committee") else again(study, method="blend")
    if study.record["config"]["sampler"]["name"] == "uniform":
        return again(study, "sampler.name=class_aware")
    other = "partial_label_masking" if study.method == "distribution_balanced" else "distribution_balanced"
    return again(study, method=other)


def for_missing(study: Study) -> str:
    if study.solved:
        return shlex.join(["raretag", "suggest", str(study.path)])
    return again(study, method="role" if study.method == "ignore_likely" else "ignore_likely")


def for_too_many(study: Study) -> str:
    """For too many predictions: plainer weights, and negatives where there are none; else other thresholds."""
    if study.solved:
        return shlex.join(["raretag", "tune", str(study.path)])
    if study.record["config"]["sampler"]["name"] != "uniform":
        return again(study, "sampler.name=uniform")
    if study.has_unknown_labels and study.ignores_unknown:
        return again(study, method="assume_negative")
    return "" if study.method == "binary_cross_entropy" else again(study, method="binary_cross_entropy")


# Words. -------------------------------------------------------------------------------------------------------------


def labels(number: int) -> str:
    return "1 label" if number == 1 else f"{number:,} labels"


def some(number: int, of: int) -> str:
    if number == of:
        return "it" if of == 1 else "all of them"
    return f"{number:,} of them"


def listed(study: Study, members: list[int], shown: int = 8) -> str:
    names = study.labels
    more = f" and {len(members) - shown:,} more" if len(members) > shown else ""
    return ", ".join(f"“{names[label]}”" for label in members[:shown]) + more


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _range(counts: NDArray[np.int64]) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _and(groups: list[str], of: int) -> str:
    return "every group" if len(groups) == of > 1 else " and ".join(groups)


def _times(ratios: list[str]) -> str:
    return f"Predicted over true positives: {', '.join(ratios)}."
