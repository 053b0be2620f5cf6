"""Mergeable sums in, numbers out. Only what was observed counts; what cannot be evaluated is excluded and counted.

raretag.metrics.average_precision(logits, targets)                       [C], of each class
raretag.metrics.mean_average_precision(logits, targets)                  one number
counts = raretag.metrics.DecisionCounts.of(raretag.metrics.decide(logits, 0.0), targets)
raretag.metrics.macro_f1(counts), raretag.metrics.micro_f1(counts)
raretag.metrics.evaluate(logits, targets, groups=..., training_positives=...)      all of them at once
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.metrics.bounds import BinnedScores as BinnedScores
    from raretag.metrics.bounds import Bounds as Bounds
    from raretag.metrics.bounds import Bracket as Bracket
    from raretag.metrics.bounds import average_precision_bounds as average_precision_bounds
    from raretag.metrics.bounds import binned_average_precision as binned_average_precision
    from raretag.metrics.bounds import decision_bounds as decision_bounds
    from raretag.metrics.bounds import micro_bounds as micro_bounds
    from raretag.metrics.calibration import Tuned as Tuned
    from raretag.metrics.calibration import best_f1_thresholds as best_f1_thresholds
    from raretag.metrics.calibration import calibration_error as calibration_error
    from raretag.metrics.calibration import class_calibration_error as class_calibration_error
    from raretag.metrics.decisions import DecisionCounts as DecisionCounts
    from raretag.metrics.decisions import class_f1 as class_f1
    from raretag.metrics.decisions import decide as decide
    from raretag.metrics.decisions import exact_match as exact_match
    from raretag.metrics.decisions import f1 as f1
    from raretag.metrics.decisions import hamming_loss as hamming_loss
    from raretag.metrics.decisions import least_frequent as least_frequent
    from raretag.metrics.decisions import macro_f1 as macro_f1
    from raretag.metrics.decisions import macro_precision as macro_precision
    from raretag.metrics.decisions import macro_recall as macro_recall
    from raretag.metrics.decisions import micro_f1 as micro_f1
    from raretag.metrics.decisions import overall_precision as overall_precision
    from raretag.metrics.decisions import overall_recall as overall_recall
    from raretag.metrics.decisions import precision as precision
    from raretag.metrics.decisions import recall as recall
    from raretag.metrics.evaluation import GroupedMeans as GroupedMeans
    from raretag.metrics.evaluation import evaluate as evaluate
    from raretag.metrics.evaluation import grouped_means as grouped_means
    from raretag.metrics.intervals import Difference as Difference
    from raretag.metrics.intervals import Interval as Interval
    from raretag.metrics.intervals import bootstrap as bootstrap
    from raretag.metrics.intervals import paired_difference as paired_difference
    from raretag.metrics.intervals import paired_differences as paired_differences
    from raretag.metrics.partial_labels import HiddenCounts as HiddenCounts
    from raretag.metrics.partial_labels import hidden_recall as hidden_recall
    from raretag.metrics.partial_labels import micro_hidden_recall as micro_hidden_recall
    from raretag.metrics.partial_labels import partial_truth as partial_truth
    from raretag.metrics.precision_curve import average_precision as average_precision
    from raretag.metrics.precision_curve import mean_average_precision as mean_average_precision
    from raretag.metrics.ranking import PropensityCounts as PropensityCounts
    from raretag.metrics.ranking import RankingSums as RankingSums
    from raretag.metrics.ranking import coverage as coverage
    from raretag.metrics.ranking import excluded_rows as excluded_rows
    from raretag.metrics.ranking import ndcg_at as ndcg_at
    from raretag.metrics.ranking import precision_at as precision_at
    from raretag.metrics.ranking import propensities as propensities
    from raretag.metrics.ranking import propensity_scored_precision_at as propensity_scored_precision_at
    from raretag.metrics.ranking import ranking_loss as ranking_loss
    from raretag.metrics.scored import Scored as Scored
    from raretag.metrics.tuning import tune as tune

_MODULES = {  # what each module offers
    "raretag.metrics.bounds": (
        "average_precision_bounds",
        "decision_bounds",
        "micro_bounds",
        "Bounds",
        "BinnedScores",
        "Bracket",
        "binned_average_precision",
    ),
    "raretag.metrics.calibration": (
        "Tuned",
        "best_f1_thresholds",
        "calibration_error",
        "class_calibration_error",
    ),
    "raretag.metrics.decisions": (
        "decide",
        "DecisionCounts",
        "precision",
        "recall",
        "f1",
        "macro_precision",
        "macro_recall",
        "macro_f1",
        "class_f1",
        "overall_precision",
        "overall_recall",
        "micro_f1",
        "exact_match",
        "hamming_loss",
        "least_frequent",
    ),
    "raretag.metrics.evaluation": (
        "evaluate",
        "grouped_means",
        "GroupedMeans",
    ),
    "raretag.metrics.intervals": (
        "bootstrap",
        "paired_difference",
        "paired_differences",
        "Interval",
        "Difference",
    ),
    "raretag.metrics.partial_labels": ("partial_truth", "HiddenCounts", "hidden_recall", "micro_hidden_recall"),
    "raretag.metrics.precision_curve": (
        "average_precision",
        "mean_average_precision",
    ),
    "raretag.metrics.ranking": (
        "RankingSums",
        "precision_at",
        "ndcg_at",
        "coverage",
        "ranking_loss",
        "excluded_rows",
        "propensities",
        "PropensityCounts",
        "propensity_scored_precision_at",
    ),
    "raretag.metrics.scored": ("Scored",),
    "raretag.metrics.tuning": ("tune",),
}
__getattr__, __dir__ = lazy.exports(__name__, modules=_MODULES)
__all__ = __dir__()
