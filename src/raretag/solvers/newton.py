r"""Linear classifiers of many labels at their minimum: logistic loss or squared hinge, by truncated Newton.

For each label, with y in {0, 1}, u = 2y - 1, weights s of the items and strength K (scikit-learn's C)::

    f(w, b) = 1/2 |w|^2 + K sum_i s_i l(u_i (w x_i + b))

    logistic        l(m) = log(1 + exp(-m))       l'' = p (1 - p),  p = 1 / (1 + exp(-m))
    squared hinge   l(m) = max(0, 1 - m)^2        l'' = 2 where m < 1

The labels of a block take their steps together, so that one product with the features serves all of them. A step solves
(I + K X' diag(s l'') X) v = -gradient by conjugate gradients (Lin, Weng and Keerthi, JMLR 2008), each column of X in
units of its own curvature, and its length is the first at which the value falls enough (Armijo). A solved label takes
no further steps. Labels are the last dimension in memory, so that a sparse product adds long rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

Loss = Literal["logistic", "hinge"]
MOST_STEPS, MOST_INNER, MOST_HALVINGS = 40, 12, 20
CACHE = 2**21  # numbers: the weights of a block of labels should stay in the cache of a processor
BLOCK = 2**24  # numbers: logits of a block of labels
CHOSEN = 0.6


class Products:
    """Features [N, D], a tensor or a scipy matrix, with a last column of ones for the bias."""

    def __init__(self, x: Any) -> None:
        self.items, self.columns = int(x.shape[0]), int(x.shape[1])
        self.dense = isinstance(x, Tensor)
        self.x = x if self.dense else x.tocsr()
        self.squared = x * x if self.dense else self.x.multiply(self.x).tocsr()
        self.square = float(self.squared.sum())

    @property
    def unit(self) -> float:
        """1 over the mean of |x|^2: the strength that stands for 1 where rows have length 1."""
        return self.items / max(self.square, 1e-12)

    @property
    def filled(self) -> int:
        """Entries that are kept."""
        return self.items * self.columns if self.dense else int(self.x.nnz)

    def logits(self, theta: Tensor) -> Tensor:
        """theta [D + 1, B], the bias last -> [N, B]."""
        if self.dense:
            return torch.addmm(theta[-1], self.x, theta[:-1])
        return torch.from_numpy(self.x @ theta[:-1].numpy()).add_(theta[-1])

    def back(self, errors: Tensor, *, squared: bool = False) -> Tensor:
        """errors [N, B] -> their sums over items times each column [D + 1, B]; or times its square."""
        x = self.squared if squared else self.x
        sums = x.T @ errors if self.dense else torch.from_numpy(np.ascontiguousarray(x.T @ errors.numpy()))
        return torch.cat([sums, errors.sum(0, keepdim=True)])


def loss_weights(
    positive: Tensor, counted: Tensor | None = None, rows: Tensor | None = None, *, balanced: bool = True
) -> Tensor:
    """s [N, C] of a label's items: N / (2 n) on either side if balanced, so that both weigh the same; else 1.

    `counted` [N, C] and `rows` [N], both bool, leave out single entries and whole items: those weigh 0, and the others
    of their side more. A label of which a side is empty has nothing to learn from: all of it weighs 0.
    """
    positive = positive.to(torch.get_default_dtype()) if positive.dtype == torch.bool else positive
    negative = 1 - positive if counted is None else (1 - positive) * counted
    items = len(positive)
    if rows is not None:
        positive, negative, items = positive * rows[:, None], negative * rows[:, None], int(rows.sum())
    absent, present = negative.sum(0), positive.sum(0)
    sides = items / (2 * torch.stack([absent, present]).clamp(min=1)) if balanced else torch.ones(2, 1).to(positive)
    sides = torch.where((absent > 0) & (present > 0), sides, 0.0)
    return sides[0] * negative + sides[1] * positive


def without_typical_negatives(products: Products, positive: Tensor, observed: Tensor) -> Tensor:
    """[C] bool: labels whose unknown entries must count as negatives, as observed ones cannot stand for them.

    Those of which no negative is observed; and all labels if the observed negatives were chosen for being like
    positives, as rejected suggestions are: fitted to such negatives alone, a model knows nothing of ordinary items.
    They were chosen if they are nearer to the mean of their label's positives than unknown entries more often than in
    CHOSEN of all pairs.
    """
    negative, unknown = observed & ~positive, ~observed
    none = ~negative.any(0)
    higher = pairs = 0.0
    for block in label_blocks(positive.shape[1], products.columns, products.items):
        asked = (negative[:, block] & unknown[:, block].any(0)).any(0) & positive[:, block].any(0)
        if not asked.any():
            continue
        here = positive[:, block].to(torch.get_default_dtype())
        centre = products.back(here) / here.sum(0).clamp(min=1)  # [D + 1, B]
        centre[-1] = 0.0
        near = products.logits(centre)
        for label in asked.nonzero().flatten().tolist():
            column = near[:, label]
            ranked = column[unknown[:, block][:, label]].sort().values
            mine = column[negative[:, block][:, label]].contiguous()
            below = torch.searchsorted(ranked, mine) + torch.searchsorted(ranked, mine, right=True)  # a tie counts half
            higher += float(below.sum()) / (2 * len(ranked))
            pairs += len(mine)
    return torch.ones_like(none) if pairs and higher / pairs > CHOSEN else none


def label_blocks(labels: int, columns: int, items: int) -> Iterator[slice]:
    """Slices of the labels that are solved together."""
    size = max(8, min(256, CACHE // max(columns, 1), BLOCK // max(items, 1)))
    for start in range(0, labels, size):
        yield slice(start, min(labels, start + size))


def minimise(
    x: Products,
    positive: Tensor,
    weight: Tensor,
    strength: float,
    loss: Loss = "logistic",
    start: Tensor | None = None,
    tolerance: float = 1e-2,
) -> tuple[Tensor, Tensor]:
    """theta [D + 1, B] and the logits [N, B] of all items, also of those that weigh nothing.

    positive, weight [N, B]. A label is solved when the length of its gradient is `tolerance` times that at w = 0 and
    the best bias. One that weighs nothing stays at 0.
    """
    up, down = (weight * positive).sum(0), (weight * (1 - positive)).sum(0)
    constant = best_constant(up, down, loss)
    theta = torch.zeros(x.columns + 1, positive.shape[1]).to(positive) if start is None else start.clone()
    theta[-1] = constant if start is None else theta[-1]
    logits = torch.zeros_like(positive)
    active = ((up > 0) & (down > 0)).nonzero().flatten()
    if not len(active):
        return torch.zeros_like(theta), logits
    y, s, w = positive[:, active], weight[:, active] * strength, theta[:, active]
    at_zero = torch.linalg.vector_norm(x.back(slopes(constant[active].expand_as(y), y, s, loss)[0]), dim=0)
    z = x.logits(w)
    value = values(z, y, s, loss) + 0.5 * (w[:-1] ** 2).sum(0)
    theta[:, (up == 0) | (down == 0)] = 0
    for _ in range(MOST_STEPS):
        slope, curve = slopes(z, y, s, loss)
        gradient = x.back(slope)
        gradient[:-1] += w[:-1]
        size = torch.linalg.vector_norm(gradient, dim=0)
        going = size > tolerance * at_zero
        if not going.all():
            theta[:, active[~going]], logits[:, active[~going]] = w[:, ~going], z[:, ~going]
            if not going.any():
                return theta, logits
            active, value, at_zero, size = active[going], value[going], at_zero[going], size[going]
            y, s, w, z, gradient, curve = (part[:, going] for part in (y, s, w, z, gradient, curve))
        goal = size * torch.minimum(torch.full_like(size, 0.3), (size / at_zero).sqrt())
        step, z_step = newton_step(x, gradient, curve, goal)
        length, value = step_lengths(w, z, value, step, z_step, (step * gradient).sum(0), (y, s, loss))
        w, z = w + length * step, z + length * z_step
    theta[:, active], logits[:, active] = w, z
    return theta, logits


def best_constant(up: Tensor, down: Tensor, loss: Loss) -> Tensor:
    """[B] the bias at which the loss is least without features, for sums of weights of either side."""
    if loss == "hinge":
        return (up - down) / (up + down).clamp(min=1e-12)
    return torch.where((up > 0) & (down > 0), (up.clamp(min=1e-12) / down.clamp(min=1e-12)).log(), 0.0)


def values(z: Tensor, y: Tensor, s: Tensor, loss: Loss) -> Tensor:
    """[B] sum of the losses."""
    against = torch.where(y > 0, -z, z)  # -m
    return (s * (softplus(against) if loss == "logistic" else (1 + against).clamp_(min=0).square_())).sum(0)


def slopes(z: Tensor, y: Tensor, s: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """[N, B] first and second derivative of each loss by its logit."""
    if loss == "logistic":
        p = torch.sigmoid(z)
        return s * (p - y), s * (p * (1 - p))
    side = 2 * y - 1
    lack = (1 - side * z).clamp_(min=0)
    return -2 * s * side * lack, 2 * s * (lack > 0)


def newton_step(x: Products, gradient: Tensor, curve: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
    """v [D + 1, B] and X v [N, B], until what is left of the equation is shorter than `goal` [B]."""
    scale = x.back(curve, squared=True)
    scale[:-1] += 1
    scale.clamp_(min=1e-8)
    step, z_step = torch.zeros_like(gradient), torch.zeros_like(curve)
    left = -gradient
    direction = left / scale
    inner, on = (left * direction).sum(0), torch.ones_like(goal)
    for _ in range(MOST_INNER):
        z_direction = x.logits(direction)
        turned = x.back(curve * z_direction)
        turned[:-1] += direction[:-1]
        far = on * inner / (direction * turned).sum(0).clamp(min=1e-20)
        step += far * direction
        z_step += far * z_direction
        left -= far * turned
        on = on * (torch.linalg.vector_norm(left, dim=0) > goal)
        if not on.any():
            break
        scaled = left / scale
        new = (left * scaled).sum(0)
        direction, inner = scaled + (new / inner.clamp(min=1e-30)) * direction, new
    return step, z_step


def step_lengths(
    w: Tensor,
    z: Tensor,
    value: Tensor,
    step: Tensor,
    z_step: Tensor,
    slope: Tensor,
    problem: tuple[Tensor, Tensor, Loss],
) -> tuple[Tensor, Tensor]:
    """[B] how far to go, halved until the value falls as its slope promises, and the value there."""
    own, both, far = ((a[:-1] * b[:-1]).sum(0) for a, b in ((w, w), (w, step), (step, step)))
    rounding = 8 * torch.finfo(z.dtype).eps * value.abs()
    length = torch.ones_like(value)
    for _ in range(MOST_HALVINGS):
        new = values(z + length * z_step, *problem) + 0.5 * (own + 2 * length * both + length**2 * far)
        short = new > value + 1e-4 * length * slope + rounding
        if not short.any():
            break
        length = torch.where(short, length / 2, length)
    return length, new
