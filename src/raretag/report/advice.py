"""What to try next, as a command."""

from __future__ import annotations

import shlex

from raretag.report.study import Study

AUTO = ("sampler.name=auto", "head.name=auto", "branches.name=auto")  # what another method wants instead


def again(study: Study, *changes: str, method: str | None = None) -> str:
    words = ["raretag", "train", "--config", f"{study.path}/config.yaml"]
    words += ["--method", method] if method else []
    for change in (*changes, *(AUTO if method else ())):
        words += ["--set", change]
    return shlex.join([*words, "--out", f"{study.path}-next"])


def for_rare(study: Study) -> str:
    """Another sampler first; then another loss. Where a method solves there is no sampler: networks beside it."""
    if solved(study):
        return "" if study.method == "committee" else again(study, method="committee")
    if study.record["config"]["sampler"]["name"] == "uniform":
        return again(study, "sampler.name=class_aware")
    other = "partial_label_masking" if study.method == "distribution_balanced" else "distribution_balanced"
    return again(study, method=other)


def for_missing(study: Study) -> str:
    if solved(study):
        return shlex.join(["raretag", "suggest", str(study.path)])
    return again(study, method="role" if study.method == "ignore_likely" else "ignore_likely")


def for_too_many(study: Study) -> str:
    """For too many predictions: plainer weights, and negatives where there are none; else other thresholds."""
    if solved(study):
        return shlex.join(["raretag", "tune", str(study.path)])
    if study.record["config"]["sampler"]["name"] != "uniform":
        return again(study, "sampler.name=uniform")
    if hidden_labels(study) and ignores_unknown(study):
        return again(study, method="assume_negative")
    return "" if study.method == "binary_cross_entropy" else again(study, method="binary_cross_entropy")


def solved(study: Study) -> bool:
    return bool(study.record["method"].get("solves"))


def hidden_labels(study: Study) -> bool:
    return study.unknown is not None and bool(study.unknown.any())


def ignores_unknown(study: Study) -> bool:
    return bool(study.record["method"]["slots"].get("complete") == "ObservedOnly")
