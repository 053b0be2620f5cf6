"""A method as any loss of torch: made by its class, called with logits and targets, copied and pickled."""

from __future__ import annotations

import copy
import inspect
import io
import pickle

import pytest
import torch

import raretag
from raretag import Context, LabelStatistics, Targets, UserError
from raretag.core import registry
from raretag.methods import REGISTRY

CLASSES = {name: getattr(raretag.methods, target.partition(":")[2]) for name, target in REGISTRY.items()}
every_class = pytest.mark.parametrize(("name", "kind"), CLASSES.items(), ids=list(CLASSES))
STATISTICS = LabelStatistics.of_counts([5, 2, 9], items=12)
OFFERED = {"statistics": STATISTICS, "items": 12}
TARGETS = Targets.from_dense([[1, 0, float("nan")], [0, 1, 1]])


def made(kind):
    return kind(**{name: value for name, value in OFFERED.items() if name in inspect.signature(kind).parameters})


@every_class
def test_a_class_is_a_loss(name, kind):
    method = made(kind)
    logits = torch.randn(2, 3, requires_grad=True)
    loss = method(logits, TARGETS, Context(torch.tensor([3, 7]), 0, 10))
    loss.backward()
    assert loss.shape == ()
    assert logits.grad.isfinite().all()


@every_class
def test_a_context_is_needed_by_methods_that_remember_items_only(name, kind):
    method = made(kind)
    if name in ("role", "dynamic_pseudo_labels", "partial_label_masking", "entropy_maximisation"):
        with pytest.raises(UserError, match=r"remembers items: pass Context\(index=rows"):
            method(torch.zeros(2, 3), TARGETS)
    else:
        assert method(torch.zeros(2, 3), TARGETS).isfinite()


@every_class
def test_what_is_missing_is_named(name, kind):
    wanted = [one for one in OFFERED if one in inspect.signature(kind).parameters]
    if not wanted:
        kind()
        return
    with pytest.raises(
        UserError, match=rf'needs label statistics.*{kind.__name__}\(labels.statistics\(\).*bind\("{name}"'
    ) as caught:
        kind()
    assert "\n" not in str(caught.value)
    assert ("the number of items: " in str(caught.value)) == ("items" in wanted)
    with pytest.raises(UserError, match="needs label statistics"):
        kind(raretag.LabelStore.from_dense(torch.eye(3)), **({"items": 3} if "items" in wanted else {}))


def test_a_method_of_ones_own_says_the_same():
    class Mine(raretag.Method):
        def __init__(self, statistics: LabelStatistics) -> None:
            super().__init__(raretag.methods.Focal().objective)

    with pytest.raises(
        UserError, match=r"Mine needs label statistics: Mine\(labels.statistics\(\)\), or raretag.bind\(Mine, labels\)"
    ):
        Mine()
    with pytest.raises(TypeError, match="gama"):
        raretag.methods.Focal(gama=2.0)


@every_class
def test_options_are_keywords_and_python_shows_them(name, kind):
    parameters = inspect.signature(kind).parameters
    assert "self" not in parameters
    assert "given" not in parameters
    assert all(one.kind is not inspect.Parameter.POSITIONAL_ONLY for one in parameters.values())
    assert set(parameters) == set(registry.parameters(kind))


@every_class
@pytest.mark.parametrize("way", ["copy", "pickle", "save"])
def test_a_method_can_be_copied_and_saved(name, kind, way):
    method = made(kind)
    rows = torch.tensor([3, 7])
    method(torch.randn(2, 3), TARGETS, Context(rows, 0, 10))  # it has learned something
    if way == "copy":
        other = copy.deepcopy(method)
    elif way == "pickle":
        other = pickle.loads(pickle.dumps(method))
    else:
        file = io.BytesIO()
        torch.save(method, file)
        other = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    logits = torch.randn(2, 3)
    context = Context(rows, 1, 10)
    assert method.eval()(logits, TARGETS, context) == other.eval()(logits, TARGETS, context)
