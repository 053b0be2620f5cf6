"""One paper, one file: losses for training step by step. `raretag.methods.Focal(gamma=2.0)(logits, targets)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.methods.assume_negative import AssumeNegative as AssumeNegative
    from raretag.methods.asymmetric import Asymmetric as Asymmetric
    from raretag.methods.binary_cross_entropy import BinaryCrossEntropy as BinaryCrossEntropy
    from raretag.methods.class_balanced import ClassBalanced as ClassBalanced
    from raretag.methods.combined import Combined as Combined
    from raretag.methods.comic import Comic as Comic
    from raretag.methods.decoupled_softmax import DecoupledSoftmax as DecoupledSoftmax
    from raretag.methods.distribution_balanced import DistributionBalanced as DistributionBalanced
    from raretag.methods.dynamic_pseudo_labels import DynamicPseudoLabels as DynamicPseudoLabels
    from raretag.methods.entropy_maximisation import EntropyMaximisation as EntropyMaximisation
    from raretag.methods.expected_positive import ExpectedPositive as ExpectedPositive
    from raretag.methods.focal import Focal as Focal
    from raretag.methods.hill import Hill as Hill
    from raretag.methods.ignore_likely import IgnoreLikely as IgnoreLikely
    from raretag.methods.inverse_frequency import InverseFrequency as InverseFrequency
    from raretag.methods.label_smoothing import LabelSmoothing as LabelSmoothing
    from raretag.methods.large_loss import LargeLoss as LargeLoss
    from raretag.methods.ldam import Ldam as Ldam
    from raretag.methods.logit_shift import LogitShift as LogitShift
    from raretag.methods.lws import Lws as Lws
    from raretag.methods.ml_gcn import MlGcn as MlGcn
    from raretag.methods.multi_focal import MultiFocal as MultiFocal
    from raretag.methods.negative_tolerant import NegativeTolerant as NegativeTolerant
    from raretag.methods.oltr import Oltr as Oltr
    from raretag.methods.partial_asymmetric import PartialAsymmetric as PartialAsymmetric
    from raretag.methods.partial_label_masking import PartialLabelMasking as PartialLabelMasking
    from raretag.methods.pseudo_label import PseudoLabel as PseudoLabel
    from raretag.methods.rebalanced import Rebalanced as Rebalanced
    from raretag.methods.reflective_correction import ReflectiveCorrection as ReflectiveCorrection
    from raretag.methods.role import Role as Role
    from raretag.methods.splc import Splc as Splc
    from raretag.methods.two_way import TwoWay as TwoWay
    from raretag.methods.weak_negative import WeakNegative as WeakNegative

REGISTRY = {  # the name on the command line, and where its class is
    "assume_negative": "raretag.methods.assume_negative:AssumeNegative",
    "asymmetric": "raretag.methods.asymmetric:Asymmetric",
    "binary_cross_entropy": "raretag.methods.binary_cross_entropy:BinaryCrossEntropy",
    "class_balanced": "raretag.methods.class_balanced:ClassBalanced",
    "combined": "raretag.methods.combined:Combined",
    "comic": "raretag.methods.comic:Comic",
    "decoupled_softmax": "raretag.methods.decoupled_softmax:DecoupledSoftmax",
    "distribution_balanced": "raretag.methods.distribution_balanced:DistributionBalanced",
    "dynamic_pseudo_labels": "raretag.methods.dynamic_pseudo_labels:DynamicPseudoLabels",
    "entropy_maximisation": "raretag.methods.entropy_maximisation:EntropyMaximisation",
    "expected_positive": "raretag.methods.expected_positive:ExpectedPositive",
    "focal": "raretag.methods.focal:Focal",
    "hill": "raretag.methods.hill:Hill",
    "ignore_likely": "raretag.methods.ignore_likely:IgnoreLikely",
    "inverse_frequency": "raretag.methods.inverse_frequency:InverseFrequency",
    "label_smoothing": "raretag.methods.label_smoothing:LabelSmoothing",
    "large_loss": "raretag.methods.large_loss:LargeLoss",
    "ldam": "raretag.methods.ldam:Ldam",
    "logit_shift": "raretag.methods.logit_shift:LogitShift",
    "lws": "raretag.methods.lws:Lws",
    "ml_gcn": "raretag.methods.ml_gcn:MlGcn",
    "multi_focal": "raretag.methods.multi_focal:MultiFocal",
    "negative_tolerant": "raretag.methods.negative_tolerant:NegativeTolerant",
    "oltr": "raretag.methods.oltr:Oltr",
    "partial_asymmetric": "raretag.methods.partial_asymmetric:PartialAsymmetric",
    "partial_label_masking": "raretag.methods.partial_label_masking:PartialLabelMasking",
    "pseudo_label": "raretag.methods.pseudo_label:PseudoLabel",
    "rebalanced": "raretag.methods.rebalanced:Rebalanced",
    "reflective_correction": "raretag.methods.reflective_correction:ReflectiveCorrection",
    "role": "raretag.methods.role:Role",
    "splc": "raretag.methods.splc:Splc",
    "two_way": "raretag.methods.two_way:TwoWay",
    "weak_negative": "raretag.methods.weak_negative:WeakNegative",
}
__getattr__, __dir__ = lazy.exports(__name__, targets=REGISTRY.values())
__all__ = __dir__()

# The slots of the one equation that each method fills when no option is set; a test compares with the objects.
FILLS: dict[str, tuple[str, ...]] = {
    "assume_negative": ("complete", "score", "reduce"),
    "asymmetric": ("complete", "score", "reduce"),
    "binary_cross_entropy": ("complete", "score", "reduce"),
    "class_balanced": ("complete", "weigh", "score", "reduce"),
    "combined": ("complete", "score", "reduce"),
    "comic": ("complete", "score", "reduce"),
    "decoupled_softmax": ("complete", "shape", "weigh", "score", "reduce"),
    "distribution_balanced": ("complete", "shape", "weigh", "score", "reduce"),
    "dynamic_pseudo_labels": ("complete", "weigh", "score", "reduce"),
    "entropy_maximisation": ("complete", "weigh", "score", "reduce"),
    "expected_positive": ("complete", "score", "reduce"),
    "focal": ("complete", "score", "reduce"),
    "hill": ("complete", "shape", "score", "reduce"),
    "ignore_likely": ("complete", "keep", "score", "reduce"),
    "inverse_frequency": ("complete", "weigh", "score", "reduce"),
    "label_smoothing": ("complete", "score", "reduce"),
    "large_loss": ("complete", "keep", "score", "reduce"),
    "ldam": ("complete", "shape", "score", "reduce"),
    "logit_shift": ("complete", "score", "reduce"),
    "lws": ("complete", "score", "reduce"),
    "ml_gcn": ("complete", "score", "reduce"),
    "multi_focal": ("complete", "score", "reduce"),
    "negative_tolerant": ("complete", "shape", "weigh", "score", "reduce"),
    "oltr": ("complete", "score", "reduce"),
    "partial_asymmetric": ("complete", "keep", "score", "reduce"),
    "partial_label_masking": ("complete", "keep", "score", "reduce"),
    "pseudo_label": ("complete", "score", "reduce"),
    "rebalanced": ("complete", "weigh", "score", "reduce"),
    "reflective_correction": ("complete", "score", "reduce"),
    "role": ("complete", "weigh", "score", "reduce"),
    "splc": ("complete", "shape", "score", "reduce"),
    "two_way": ("complete",),
    "weak_negative": ("complete", "weigh", "score", "reduce"),
}

# What each method needs when no option is set; a test compares with the objects.
NEEDS: dict[str, tuple[str, ...]] = {
    "nothing": (  # logits and labels alone
        "assume_negative",
        "asymmetric",
        "binary_cross_entropy",
        "decoupled_softmax",
        "focal",
        "hill",
        "ignore_likely",
        "label_smoothing",
        "pseudo_label",
        "splc",
        "two_way",
        "weak_negative",
    ),
    "counts": (  # the counts of the labels
        "class_balanced",
        "combined",
        "distribution_balanced",
        "expected_positive",
        "inverse_frequency",
        "large_loss",
        "ldam",
        "logit_shift",
        "multi_focal",
        "negative_tolerant",
        "partial_asymmetric",
        "rebalanced",
        "reflective_correction",
    ),
    "items": (  # the row numbers of items: it remembers them, or draws for each
        "dynamic_pseudo_labels",
        "entropy_maximisation",
        "partial_label_masking",
        "role",
    ),
    "model": (  # a head, branches or stages of its own
        "comic",
        "lws",
        "ml_gcn",
        "oltr",
    ),
}
