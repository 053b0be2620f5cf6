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
    """Another sampler first; then another loss."""
    if study.record["config"]["sampler"]["name"] == "uniform":
        return again(study, "sampler.name=class_aware")
    other = "partial_label_masking" if study.method == "distribution_balanced" else "distribution_balanced"
    return again(study, method=other)


def for_missing(study: Study) -> str:
    return again(study, method="role" if study.method == "ignore_likely" else "ignore_likely")


def for_too_many(study: Study) -> str:
    """For too many predictions: plainer weights, and negatives where there are none."""
    if study.record["config"]["sampler"]["name"] != "uniform":
        return again(study, "sampler.name=uniform")
    if hidden_labels(study) and ignores_unknown(study):
        return again(study, method="assume_negative")
    return "" if study.method == "binary_cross_entropy" else again(study, method="binary_cross_entropy")


def hidden_labels(study: Study) -> bool:
    return study.unknown is not None and bool(study.unknown.any())


def ignores_unknown(study: Study) -> bool:
    return bool(study.record["method"]["slots"].get("complete") == "ObservedOnly")
