"""What is wrong with a run, why, and what to try next. Each question is a function that returns a finding or None."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from raretag.core.ranker import are_many
from raretag.report.study import ENOUGH, GROUPS, Study

OFTEN, SELDOM = 1.5, 0.67  # predicted positives over true ones
FEWEST = 10  # test positives of a group, from which that ratio is judged
AUTO = ("sampler.name=auto", "head.name=auto", "branches.name=auto")  # what another method wants instead
GAIN = 0.03  # of F1 by other thresholds, from which it is worth mentioning
GAP = 0.05  # between head and tail, of how often a positive outranks a negative
MOVED = 0.03  # of validation mAP
BLEND_ENTRIES = 2**27  # items x labels: from there on `raretag train` chooses otherwise


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
        level: Literal["good", "note"] = "note" if study.test is None else "good"  # what was not seen is not praised
        findings.insert(0, Finding(level, "Nothing stands out", looked_at(study)))
    return findings


def looked_at(study: Study) -> str:
    """What "nothing stands out" rests on."""
    if study.test is None:
        return "Only means could be examined."
    few = int((study.at_half.positives < ENOUGH).sum())
    examined = f"{labels(len(study.labels) - few)} with at least {ENOUGH} {study.positives} could be examined"
    return f"{examined}; {labels(few)} with fewer could not." if few else f"All {examined}."


def collapsed(study: Study) -> Finding | None:
    """Labels that are never predicted: is it the threshold or the ranking?"""
    if study.test is None:
        return None
    never = study.never_predicted()
    if not len(never):
        return None
    fine = study.ranks_well()
    ranked, lost, unclear = ([c for c in never if fine[c] is verdict] for verdict in (True, False, None))
    found = int((study.at_tuned.hits[ranked] > 0).sum())
    text = f"At a threshold of 0.5 the model never predicts {listed(study, never)}. "
    if ranked:
        text += (
            f"For {some(len(ranked), len(never))} the ranking is fine and only the threshold is wrong: with the "
            f"thresholds tuned on {study.thresholds_from} (in card.json) {found} of {len(ranked)} "
            f"{'is' if found == 1 else 'are'} found at least once. "
        )
    if unclear:
        text += (
            f"For {some(len(unclear), len(never))} there are fewer than {ENOUGH} {study.positives}: too few to tell "
            "whether the threshold or the ranking is at fault. "
        )
    title = f"{labels(len(never))} never predicted"
    if not lost:
        return Finding("warn" if ranked else "note", title, text.strip())
    counts = "" if study.counts is None else f" ({_range(study.counts[lost])} training positives)"
    text += f"For {some(len(lost), len(never))}{counts} the ranking is poor too, so another threshold does not help."
    return Finding("bad", title, text, for_rare(study))


def thresholds(study: Study) -> Finding | None:
    """Ranking and cutting are two questions."""
    half, tuned = study.final["F1"]["total"], study.final["F1_tuned"]["total"]
    if half is None or tuned is None or abs(tuned - half) < GAIN:
        return None
    apart = study.gain_of_thresholds
    if apart is None or not (apart.low > 0 or apart.high < 0):
        return None  # other test items might say the opposite
    interval = f" (95 % interval of the difference: {100 * apart.low:+.1f} to {100 * apart.high:+.1f} points)"
    if tuned < half:
        return Finding(
            "note",
            "Tuned thresholds do worse than 0.5",
            f"Macro F1 is {_percent(tuned)} with the thresholds tuned on {study.thresholds_from} and {_percent(half)} "
            f"at 0.5{interval}. Those items may have too few positives of the rare labels, or labels that are "
            "distributed differently from the test set.",
            shlex.join(["raretag", "tune", str(study.path), "--threshold", "0.5"]),
        )
    gains, trivial = [], study.f1_of_always_yes()
    for group in GROUPS:
        before, after = study.final["F1"][group], study.final["F1_tuned"][group]
        if before is not None and after is not None:
            idle = group in trivial and after - before > GAIN and after < trivial[group] + GAIN
            same = f", but predicting it everywhere has {_percent(trivial[group])}" if idle else ""
            gains.append(f"{group} {_percent(before)} → {_percent(after)}{same}")
    return Finding(
        "note",
        "Tuned thresholds do better than 0.5",
        f"Macro F1 is {_percent(half)} at 0.5 and {_percent(tuned)} when each label has its own threshold, tuned on "
        f"{study.thresholds_from} ({'; '.join(gains)}){interval}. They are in card.json, and predictions use them.",
    )


def balance(study: Study) -> Finding | None:
    """Over- and under-prediction by group, at the thresholds that predictions use."""
    if study.test is None:
        return None
    ratios: list[str] = []
    sides: dict[str, list[str]] = {"often": [], "seldom": []}
    judged = 0
    for group in GROUPS:
        members = study.record["groups"][group]
        true = int(study.at_tuned.positives[members].sum())
        if not true:
            continue
        ratio = int(study.at_tuned.predicted[members].sum()) / true
        enough = true >= FEWEST
        ratios.append(f"{group} {ratio:.2f}" + ("" if enough else f" (of {true} positives: too few to judge)"))
        judged += enough
        if enough and not SELDOM <= ratio <= OFTEN:
            sides["seldom" if ratio < SELDOM else "often"].append(group)
    if not judged:
        return None
    text = f"Predicted over true positives on the {study.measured_items}: {', '.join(ratios)}."
    parts = [f"{_and(groups, len(ratios))} too {word}" for word, groups in sides.items() if groups]
    if not parts:
        whom = "Every group" if judged == len(ratios) else f"Each of the {judged} groups that can be judged"
        whom = "The only group that can be judged" if judged == 1 < len(ratios) else whom
        return Finding("good", f"{whom} is predicted about as often as it occurs", text)
    if sides["seldom"] and study.has_unknown_labels:
        text += " Some training labels are missing: a method that treats them as absent learns to predict too little."
        command = for_missing(study)
    else:
        command = for_rare(study) if sides["seldom"] else for_too_many(study)
    return Finding("warn", f"Predicted {'; '.join(parts)}", text, command)


def tail_gap(study: Study) -> Finding | None:
    """By how often positives outrank negatives: average precision falls with the frequency of a label by itself."""
    if study.test is None:
        return None
    ranked = {group: study.outranks[study.record["groups"][group]] for group in ("head", "tail")}
    ranked = {group: values[~np.isnan(values)] for group, values in ranked.items()}
    head, tail = ranked["head"], ranked["tail"]
    if min(len(head), len(tail)) < 2:
        return None
    gap = float(head.mean() - tail.mean())
    error = float(np.sqrt(head.var(ddof=1) / len(head) + tail.var(ddof=1) / len(tail)))
    if gap < max(GAP, 2 * error):
        return None
    ap = study.final["mAP"]
    return Finding(
        "warn",
        "Rare labels are ranked worse than frequent ones",
        f"A positive scores above a negative in {_percent(head.mean())} of the cases for the head and in "
        f"{_percent(tail.mean())} for the tail ({len(head)} and {labels(len(tail))} with at least {ENOUGH} "
        f"{study.positives}); mAP is {_percent(ap['head'])} and {_percent(ap['tail'])}.",
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
        "model learns to predict every label for every item.",
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
        f"The {study.measured_items} hold no observed positive of {listed(study, excluded)}: left out of all means, "
        "not counted as 0.",
    )


def schedule(study: Study) -> Finding | None:
    """Stopped too early, or trained for too long; a change counts if it is larger than the jitter of the curve."""
    curve = [row["validation"]["mAP"]["total"] for row in study.record["metrics"]["epochs"]]
    if len(curve) < 4 or any(value is None for value in curve):
        return None
    best, quarter = int(np.argmax(curve)), max(1, len(curve) // 4)
    jitter = float(np.median(np.abs(np.diff(curve, 2)))) if len(curve) > 4 else 0.0
    enough = max(MOVED, 2 * jitter)
    if curve[best] - curve[-1] > enough:
        return Finding(
            "note",
            "Validation was best before the end",
            f"Validation mAP was {_percent(curve[best])} after epoch {best + 1} and {_percent(curve[-1])} at the end.",
            again(study, f"train.epochs={best + 1}"),
        )
    if curve[-1] - curve[-1 - quarter] > enough:
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
    right = counted[-1]["right"]
    low, high = beta.ppf([0.025, 0.975], right + 0.5, found - right + 0.5)
    text = (
        f"In the last epoch it treated {found:,} unknown labels as positives, of which {_percent(right / found)} "
        "are right."
    )
    if high < 0.5:
        return Finding(
            "warn", "Most labels that the method adds are wrong", text + " Raise its threshold or its warm-up."
        )
    return Finding("good" if low > 0.8 else "note", "The method fills in missing labels", text)


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
    """Feature vectors: what `raretag train` would choose, then more labels. Others: the sampler, then the loss."""
    config = study.record["config"]
    items, labels = study.record["data"]["items"]["train"], len(study.labels)
    if study.method in ("blend", "committee"):
        return shlex.join(["raretag", "review", str(study.path)]) if study.labels_may_be_missing else ""
    if study.solved or config["model"]["name"] == "mlp":
        fits = items * labels <= BLEND_ENTRIES and not are_many(items, labels, 0)
        return again(study, "model.layers=0", method="blend") if fits else ""
    if config["sampler"]["name"] == "uniform":
        return again(study, "sampler.name=class_aware")
    other = "partial_label_masking" if study.method == "distribution_balanced" else "distribution_balanced"
    return again(study, method=other)


def for_missing(study: Study) -> str:
    if study.solved:
        return shlex.join(["raretag", "review", str(study.path)])
    return again(study, method="role" if study.method == "ignore_likely" else "ignore_likely")


def for_too_many(study: Study) -> str:
    """For too many predictions: plainer weights, and negatives where there are none; else surer decisions."""
    if not study.solved and study.record["config"]["sampler"]["name"] != "uniform":
        return again(study, "sampler.name=uniform")
    if not study.solved and study.has_unknown_labels and study.ignores_unknown:
        return again(study, method="assume_negative")
    return shlex.join(["raretag", "tune", str(study.path), "--precision", "0.8"])


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
