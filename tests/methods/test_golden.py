"""Every loss in golden/loss-vectors.json is reproduced in value and gradient, or is listed with the reason why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from raretag.core.context import Context
from raretag.core.method import build_method
from raretag.core.targets import LabelStatistics, Targets
from support.golden_with_models import learned_scales, three_branches
from support.golden_with_state import WithState
from support.paths import GOLDEN

ABOUT = GOLDEN["_about"]
ITEMS = int(ABOUT["num_train"])
STATISTICS = LabelStatistics.of_counts([int(n) for n in ABOUT["class_freq"]], ITEMS)
LOGITS = torch.tensor(ABOUT["logits"], dtype=torch.float64)
FULL = torch.tensor(ABOUT["labels_full"], dtype=torch.float64)
PARTIAL = torch.tensor(ABOUT["labels_partial(1=pos,0=neg,-1=unknown)"], dtype=torch.float64)
TARGETS = {
    "full": Targets(FULL, torch.ones_like(FULL, dtype=torch.bool)),
    "partial": Targets(PARTIAL, PARTIAL >= 0),
    "positives": Targets(PARTIAL, PARTIAL > 0),  # what is not an observed positive is unknown
    "one": Targets(torch.eye(4, 5, dtype=torch.float64), torch.ones(4, 5, dtype=torch.bool)),  # label i in row i
}
Result = tuple[float, list[list[float]]]


def entry(
    method: str, labels: str = "full", epoch: int = 0, times: float = 1.0, **options: Any
) -> Callable[[], Result]:
    """How to get a golden loss and its gradient: `times` the loss of a method with these options."""

    def run() -> Result:
        logits = LOGITS.clone().requires_grad_()
        made = build_method(method, STATISTICS, items=ITEMS, **options)
        loss = times * made.loss(logits, TARGETS[labels], Context(torch.arange(len(logits)), epoch, 10))
        (gradient,) = torch.autograd.grad(loss, logits)
        return loss.item(), gradient.tolist()

    return run


ENTRIES: dict[str, Callable[[], Result]] = {
    "bce_mean": entry("binary_cross_entropy"),
    "bce_sum_c_mean_b": entry("binary_cross_entropy", reduce="rows"),
    "bce_sum": entry("binary_cross_entropy", reduce="sum"),
    "bce_ls_stable": entry("label_smoothing"),
    "focal_db_gamma2_balance2_mean": entry("focal", balance=2.0),
    "focal_lin_alpha0.25_gamma2_mean": entry("focal", alpha=0.25),
    "focal_comic_gamma2_scale0.25_sum": entry("focal", balance=0.25, reduce="sum"),
    "focal_aslrepo_gamma2_detached_sum": entry("focal", detach_focus=True, reduce="sum"),
    "focal_cui_gamma1_norm_by_npos": entry("focal", times=1 / FULL.sum().item(), gamma=1.0, reduce="sum"),
    "cb_cui_normalised_beta0.9999_plm_eq8": entry("class_balanced", mode="normalised", beta=0.9999, reduce="rows"),
    "rw_sqrt_inv_by_batch_bce_mean": entry("inverse_frequency"),
    "rw_sqrt_inv_unnormalised_bce_mean": entry("inverse_frequency", normalise=False),
    "ldam_ml_s1_mean": entry("ldam"),
    "ldam_ml_class_level_all_labels_mean": entry("ldam", margin_on="all"),
    "ldam_ml_s30_mean": entry("ldam", scale=30.0),
    "ldam_drw_ml_s1_mean": entry("ldam", epoch=8, reweigh_from=0.8),
    "ldam_single_label_softmax_s30": entry("ldam", "one", form="softmax", scale=30.0, reduce="rows"),
    "an_stable": entry("assume_negative", "positives"),
    "wan_stable": entry("weak_negative", "positives"),
    "asl_4_0_0.05_detached_sum": entry("asymmetric", detach_focus=True, reduce="sum"),
    "asl_4_1_0.05_detached_sum": entry("asymmetric", gamma_pos=1.0, detach_focus=True, reduce="sum"),
    "asl_4_1_0.05_fullgrad_sum": entry("asymmetric", gamma_pos=1.0, reduce="sum"),
    "hill_sum": entry("hill", "positives", reduce="sum"),
    "splc_epoch0_sum": entry("splc", "positives", reduce="sum"),
    "splc_epoch1_sum": entry("splc", "positives", epoch=1, reduce="sum"),
    "pseudo_label_hard_tau0.6_mean": entry("pseudo_label", "positives", epoch=1),
}
for beta in (0.9, 0.99):
    ENTRIES |= {
        f"cb_by_class_beta{beta}_bce_mean": entry("class_balanced", mode="by_class", beta=beta),
        f"cb_average_w_beta{beta}_bce_mean": entry("class_balanced", beta=beta),
        f"cb_paperA2_inv_meanE_beta{beta}_bce_mean": entry("class_balanced", mode="inverse_mean_e", beta=beta),
        f"cb_focal_average_w_beta{beta}_lw10": entry("class_balanced", times=10, beta=beta, score="focal"),
    }
for data, mu, scale in (("voc", 0.3, 5.0), ("coco", 0.2, 2.0)):
    ENTRIES |= {
        f"rbce_{data}": entry("rebalanced", mu=mu),
        f"rbce_focal_{data}": entry("rebalanced", mu=mu, score="focal"),
    }
    for reading, over in (("code(kappa/lambda)", True), ("paper(kappa)", False)):
        tolerance: dict[str, Any] = {"scale": scale, "shift_over_scale": over}
        ENTRIES |= {
            f"ntbce_{data}_{reading}": entry("negative_tolerant", **tolerance),
            f"db_{data}_{reading}": entry("distribution_balanced", mu=mu, **tolerance),
            f"db_focal_{data}_{reading}": entry("distribution_balanced", mu=mu, score="focal", **tolerance),
        }
for vector, selection in {
    "negative": {"mode": "negative"},
    "ignore": {"mode": "ignore"},
    "ignore_normalize_classes": {"mode": "ignore_normalize"},
    "selective": {"likely": 1},
    "selective_prior": {"likely": 1, "prior": [0.62, 0.3, 0.1, 0.04, 0.02], "prior_threshold": 0.25},
}.items():
    ENTRIES[f"pasl_{vector}"] = entry("partial_asymmetric", "partial", detach_focus=True, reduce="sum", **selection)

MULTI_FOCAL_CODE = {"name": "multi_focal", "class_weight": True, "distribution": "dynamic", "reduce": "sum"}
ENTRIES |= {
    "comic_mfm_code_sum(MultiGrainedFocal)": entry("multi_focal", gamma_neg=4.0, class_weight=True, reduce="sum"),
    "comic_mfm_paper_eq5_6_sum": entry(
        "multi_focal", gamma_pos=1.0, gamma_neg=4.0, head_tail_pos=1.0, margin=0.0, detach_focus=False, reduce="sum"
    ),
    "comic_rlc_code_epoch1_sum": entry(
        "reflective_correction",
        "positives",
        epoch=1,
        base=MULTI_FOCAL_CODE,
        mean_of="batch",
        margin=1.0,
        scale="positives",
        warm_up=0.0,
        cap=None,
    ),
    **WithState(GOLDEN).entries(),
    "lws_bce_mean": lambda: learned_scales(GOLDEN)[0],
    "comic_htb_code": lambda: three_branches(GOLDEN),
}

DEFECTS = {
    "bce_ls_spml_eps1e-5": "-log(p + 1e-5) has no gradient for saturated errors; bce_ls_stable is the loss",
    "an_spml_eps1e-5": "-log(p + 1e-5) has no gradient for saturated errors; an_stable is the loss",
    "wan_spml_eps1e-5": "-log(p + 1e-5) has no gradient for saturated errors; wan_stable is the loss",
    "epr_spml_eps1e-5": "no gradient for saturated errors; test_role.py compares with it",
    "role_spml_eps1e-5": "no gradient for saturated errors; test_role.py compares with it",
    "comic_pfm_code_sum": "a factor that is in no paper, and nan for a row without positives",
}


def test_every_golden_loss_is_accounted_for_once() -> None:
    listed = [*ENTRIES, *DEFECTS]
    assert sorted(listed) == sorted(GOLDEN["losses"])


@pytest.mark.parametrize("name", ENTRIES)
def test_golden_loss_and_gradient_are_reproduced(name: str) -> None:
    loss, gradient = ENTRIES[name]()
    expected = GOLDEN["losses"][name]
    torch.testing.assert_close(loss, expected["value"], rtol=1e-6, atol=1e-6)
    slope = torch.tensor(expected["grad"], dtype=torch.float64)
    torch.testing.assert_close(torch.tensor(gradient, dtype=torch.float64), slope, rtol=1e-6, atol=1e-6)
