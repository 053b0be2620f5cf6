"""The golden losses of methods with inner state: the vectors give the state and the draws, so both are put in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.method import build_method
from raretag.core.targets import LabelStatistics, Targets

Result = tuple[float, list[list[float]]]


def tensor(numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


class WithState:
    def __init__(self, golden: dict[str, Any]) -> None:
        about, self.losses = golden["_about"], golden["losses"]
        self.items = int(about["num_train"])
        self.statistics = LabelStatistics.of_counts([int(n) for n in about["class_freq"]], self.items)
        self.logits, self.full = tensor(about["logits"]), tensor(about["labels_full"])
        self.partial = tensor(about["labels_partial(1=pos,0=neg,-1=unknown)"])

    def entries(self) -> dict[str, Callable[[], Result]]:
        by_class = {"name": "class_balanced", "mode": "normalised", "beta": 0.9999}
        paper = {"reading": "paper"}
        return {
            "plm_bce_sum_c_mean_b": lambda: self.masking(reduce="rows"),
            "plm_bce_mean_all": lambda: self.masking(),
            "plm_bce_mean_kept": lambda: self.masking(reduce="kept"),
            "plm_focal_gamma2_sum_c_mean_b": lambda: self.masking(base="focal", reduce="rows"),
            "plm_cb_sum_c_mean_b": lambda: self.masking(base=by_class, reduce="rows"),
            "zhang_eq11_epoch0_of10_pseudo0.5": lambda: self.pseudo(0, q=1.0, **paper),
            "zhang_eq12_epoch7_of10_pseudo_q": lambda: self.pseudo(7, **paper),
            "zhang_eq12_literal_d_eq9": lambda: self.pseudo(7, schedule="printed", **paper),
            "zhang_eq12_T_existing_labels": lambda: self.pseudo(7, total="observed", **paper),
            "zhang_eq12_all_negative_penalty(logits-6)": lambda: self.pseudo(7, shift=-6.0, **paper),
        }

    def masking(self, **options: Any) -> Result:
        given = self.losses["plm_bce_sum_c_mean_b"]
        method = build_method("partial_label_masking", self.statistics, items=self.items, **options)
        method.objective.keep.target.copy_(method.objective.keep.ratio * tensor(given["r_bar"]) / tensor(given["r"]))
        everything = Targets(self.full, torch.ones_like(self.full, dtype=torch.bool))
        return self.run(method, everything, tensor(given["uniform"]), 0, 0.0)

    def pseudo(self, epoch: int, shift: float = 0.0, **options: Any) -> Result:
        given = self.losses["zhang_eq12_epoch7_of10_pseudo_q"]
        method = build_method("dynamic_pseudo_labels", self.statistics, items=self.items, **options)
        if epoch:
            method.objective.complete.recall = lambda items, like, context: tensor(given["pseudo"])
        drawn = 1.0 - tensor(given["q_keep_mask(applies to unknown only)"])
        return self.run(method, Targets(self.partial, self.partial >= 0), drawn, epoch, shift)

    def run(self, method: Any, targets: Targets, drawn: Tensor, epoch: int, shift: float) -> Result:
        logits = (self.logits + shift).requires_grad_()
        with patch("raretag.core.chance.uniform", return_value=drawn * (1.0 - 1e-9)):
            loss = method.loss(logits, targets, Context(torch.arange(len(logits)), epoch, 10))
        (gradient,) = torch.autograd.grad(loss, logits)
        return loss.item(), gradient.tolist()
