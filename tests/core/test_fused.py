"""The quick way to a loss and its gradient gives what the plain way gives, and steps aside where it cannot."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from raretag.core import compiled, fused
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method, build_method
from raretag.core.numerics import Logistic, Price, power
from raretag.core.objective import Objective
from raretag.core.parts import Complete, Weigh
from raretag.core.targets import Completed, LabelStatistics, Targets
from raretag.objective import scores
from raretag.objective.completions import UnknownIsNegative
from raretag.objective.reductions import MeanOverEntries
from raretag.objective.weights import LabelWeights
from support.batches import EDGES, EPOCHS, a_batch, label, make
from support.cases import CASES
from support.method_table import Case, Options

every_edge = pytest.mark.parametrize(("case", "options"), EDGES, ids=label)
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # a compiler does
SCORES: list[tuple[str, Options]] = [
    ("binary_cross_entropy", {}),
    ("focal", {}),
    ("focal", {"gamma": 1.5}),
    ("asymmetric", {}),
    ("asymmetric", {"gamma_neg": 0.0, "margin": 0.2}),
    ("multi_focal", {"detach_focus": False}),
    ("negative_tolerant", {}),
    ("hill", {}),
]


@pytest.fixture
def row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "BLOCK", 1)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Torch's tracer without its slow code generator."""
    trace = torch.compile

    def only_traced(function: Callable[..., object], **_: object) -> object:
        return trace(function, backend="eager", fullgraph=True)

    monkeypatch.setattr(torch, "compile", only_traced)
    yield
    torch._dynamo.reset()


def both(mode: str, name: str, options: Options, epoch: int, logits: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
    _, _, index, positives = a_batch(len(logits))
    logits = logits.detach().clone().requires_grad_()
    with fused.using(mode):
        loss = make(name, options, positives).loss(logits, targets, Context(index, epoch, EPOCHS))
    (gradient,) = torch.autograd.grad(loss, logits)
    return loss.detach(), gradient


def assert_same(ours: tuple[Tensor, Tensor], plain: tuple[Tensor, Tensor], tolerance: float) -> None:
    """Relative to the largest gradient, or to the 1 / B C of a wrong label where all are right."""
    for a, b in zip(ours, plain, strict=True):
        assert a.dtype == b.dtype
        scale = max(b.abs().max().item(), 1.0 / b.numel())
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * scale)


@every_edge
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-6), (torch.bfloat16, 1e-2)], ids=str
)
@pytest.mark.usefixtures("row_by_row")
def test_blocks_give_the_plain_numbers(case: Case, options: Options, dtype: torch.dtype, tolerance: float) -> None:
    # In float64 the plain way is off by e^-20: torch's softplus is a straight line from 20 on.
    if case.name in ("comic", "oltr"):
        pytest.skip("their models give more than logits; their losses are made of objectives tested here")
    logits, targets, _, _ = a_batch()
    targets = Targets(torch.where(targets.observed, targets.value, torch.nan), targets.observed)
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    targets = Targets(targets.value.to(exact), targets.observed)
    for epoch in case.epochs:
        ours = both("blocks", case.name, options, epoch, logits.to(dtype), targets)
        assert_same(ours, both("off", case.name, options, epoch, logits.to(dtype), targets), tolerance)


def test_every_method_of_the_catalogue_takes_the_quick_way() -> None:
    logits, targets, index, positives = a_batch()
    for name in CASES.keys() - {"decoupled_softmax", "two_way"}:  # what a label costs there hangs on its whole row
        objective = make(name, {}, positives).objective
        assert fused.ratio(objective, logits.requires_grad_(), targets, Context(index, 3, EPOCHS)) is not None, name


def test_what_is_no_function_of_one_logit_takes_the_plain_way() -> None:
    logits, targets, index, positives = a_batch()
    softmax = make("ldam", {"form": "softmax"}, positives).objective
    assert fused.ratio(softmax, logits.requires_grad_(), targets, Context(index, 3, EPOCHS)) is None


@pytest.mark.parametrize(("name", "options"), SCORES)
@pytest.mark.parametrize("extreme", [-1e4, -90.0, -17.0, 0.0, 17.0, 90.0, 1e4])
def test_agrees_at_the_ends(name: str, options: Options, extreme: float) -> None:
    _, targets, _, _ = a_batch(8)
    targets = Targets(torch.where(targets.observed, targets.value.float(), torch.nan), targets.observed)
    logits = torch.full((8, 5), extreme)
    logits[4:, ::2] *= -1
    ours = both("blocks", name, options, 0, logits, targets)
    assert all(part.isfinite().all() for part in ours)
    assert_same(ours, both("off", name, options, 0, logits, targets), 1e-6)


@pytest.mark.parametrize(("name", "options"), SCORES)
def test_slopes_are_those_of_the_values(name: str, options: Options) -> None:
    logits, targets, index, positives = a_batch()
    method = make(name, {"unknown": "negative", **options}, positives)
    with fused.using("blocks"):
        assert torch.autograd.gradcheck(lambda z: method.loss(z, targets, Context(index)), logits.requires_grad_())


def test_a_logit_that_does_not_count_may_be_anything() -> None:
    logits, targets, _, _ = a_batch()
    expected = both("blocks", "binary_cross_entropy", {}, 0, logits, targets)
    broken = torch.where(targets.observed, logits, torch.inf)
    ours = both("blocks", "binary_cross_entropy", {}, 0, broken, targets)
    assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))


def test_a_loss_without_gradient_is_the_same_number() -> None:
    logits, targets, index, positives = a_batch()
    method = make("asymmetric", {}, positives)
    with torch.no_grad():
        quiet = method.loss(logits, targets, Context(index))
    assert torch.equal(quiet, method.loss(logits.requires_grad_(), targets, Context(index)).detach())


def test_gradients_add_up_over_several_backwards() -> None:
    logits, targets, _, positives = a_batch()
    logits.requires_grad_()
    loss = make("focal", {}, positives).loss(logits, targets)
    loss.backward(retain_graph=True)
    first = logits.grad.clone()
    loss.backward(retain_graph=True)
    (3.0 * loss).backward()
    torch.testing.assert_close(logits.grad, 5.0 * first)


def test_second_derivatives_are_refused_in_words_and_plain_ones_exist() -> None:
    logits, targets, _, positives = a_batch()
    logits.requires_grad_()
    method = make("focal", {}, positives)
    (gradient,) = torch.autograd.grad(method.loss(logits, targets), logits, create_graph=True)
    with pytest.raises(UserError, match="no derivative"):
        gradient.sum().backward()
    with fused.using("off"):
        (gradient,) = torch.autograd.grad(method.loss(logits, targets), logits, create_graph=True)
    gradient.sum().backward()
    assert logits.grad.any()


def objective(**parts: object) -> Objective:
    filled = {"complete": UnknownIsNegative(), "score": scores.CrossEntropy(), "reduce": MeanOverEntries(), **parts}
    return Objective(**filled)  # type: ignore[arg-type]


class Learnt(Weigh):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5, dtype=torch.float64))

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        return self.weight


class ByProbability(Weigh):
    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        return torch.sigmoid(logits)


class Believed(Complete):
    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        return Completed(torch.sigmoid(logits), torch.ones_like(targets.observed), targets.observed)


class Tripled(scores.CrossEntropy):
    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return 3.0 * super().positive(s, completed)


def test_a_part_that_learns_gets_its_gradient() -> None:
    logits, targets, _, _ = a_batch()
    weigh = Learnt()
    objective(weigh=weigh)(logits.requires_grad_(), targets).backward()
    assert weigh.weight.grad is not None
    assert weigh.weight.grad.any()


@pytest.mark.parametrize("parts", [{"weigh": ByProbability()}, {"complete": Believed()}, {"score": Tripled()}], ids=str)
def test_a_part_that_the_quick_way_would_misread_takes_the_plain_way(parts: dict[str, object]) -> None:
    logits, targets, _, _ = a_batch()
    logits.requires_grad_()
    (ours,) = torch.autograd.grad(objective(**parts)(logits, targets), logits)
    with fused.using("off"):
        (plain,) = torch.autograd.grad(objective(**parts)(logits, targets), logits)
    assert torch.equal(ours, plain)


def test_function_transforms_work() -> None:
    logits, targets, _, _ = a_batch()
    loss = objective()
    (expected,) = torch.autograd.grad(loss(logits.requires_grad_(), targets), logits)
    torch.testing.assert_close(torch.func.grad(lambda z: loss(z, targets))(logits.detach()), expected)


@pytest.mark.parametrize(("name", "options"), [SCORES[0], SCORES[3], SCORES[6]])
def test_works_in_a_compiled_step(name: str, options: Options) -> None:
    logits, targets, index, positives = a_batch()
    method, layer = make(name, options, positives).eval(), nn.Linear(5, 5, dtype=torch.float64)

    def step(x: Tensor, value: Tensor, observed: Tensor) -> Tensor:
        return method.loss(layer(x), Targets(value, observed), Context(index))

    def gradient(function: Callable[..., Tensor]) -> Tensor:
        layer.zero_grad()
        function(logits, targets.value, targets.observed).backward()
        return layer.weight.grad.clone()

    try:
        torch.testing.assert_close(gradient(torch.compile(step, backend="aot_eager")), gradient(step))
    finally:
        torch._dynamo.reset()


def masked(name: str, options: Options, positives: Tensor) -> Method:
    method = make("partial_label_masking", {"base": {"name": name, **options}}, positives)
    method.objective.keep.target.mul_(0.5)
    return method.eval()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(("name", "options"), [SCORES[2], SCORES[3], SCORES[5]])  # the rest below, with machine code
def test_what_is_compiled_gives_the_plain_numbers(name: str, options: Options) -> None:
    logits, targets, _, positives = a_batch(8)
    logits = torch.cat([logits.float(), logits.float() * 30.0])  # from soft to sure
    logits[-1] = torch.tensor([1e4, -1e4, 90.0, -90.0, 0.0])
    targets = Targets(targets.value.float().repeat(2, 1), targets.observed.repeat(2, 1))
    method, context = masked(name, options, positives), Context(torch.arange(16) % 12, 3, EPOCHS)

    def of(mode: str) -> tuple[Tensor, Tensor]:
        z = logits.clone().requires_grad_()
        with fused.using(mode):
            loss = method.loss(z, targets, context)
        return loss.detach(), torch.autograd.grad(loss, z)[0]

    ours = of("compiled")
    assert compiled._kernels[method.objective] is not None
    assert_same(ours, of("off"), 1e-6)


@pytest.mark.usefixtures("traced")
def test_logarithms_under_a_compiler_are_good_to_the_last_bits() -> None:
    from raretag.core.numerics import log_one_plus, logarithm

    x = torch.cat([torch.logspace(-37, 0, 999), torch.linspace(0.5, 2.0, 999)])
    e = torch.cat([torch.logspace(-37, 0, 999), torch.zeros(1)])
    ours = torch.compile(lambda x, e: (logarithm(x), log_one_plus(e)), options=None)(x, e)
    torch.testing.assert_close(ours[0].double(), x.double().log(), rtol=4e-7, atol=1e-9)
    torch.testing.assert_close(ours[1].double(), e.double().log1p(), rtol=4e-7, atol=0.0)


@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 8.0, 2.5, 9.0, torch.tensor([0.5, 2.0])])
def test_powers_are_powers(gamma: float | Tensor) -> None:
    x = torch.rand(3, 2, dtype=torch.float64) + 0.01
    torch.testing.assert_close(power(x, gamma), x**gamma)
    torch.testing.assert_close(power(x, gamma, -x.log()), x**gamma)


def test_a_failing_compiler_goes_unnoticed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def no_compiler(*_: object, **__: object) -> None:
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr(compiled, "own", lambda function: no_compiler)
    logits, targets, _, positives = a_batch()
    z = logits.float().requires_grad_()
    method = make("focal", {}, positives)
    with fused.using("compiled"), caplog.at_level(logging.INFO):
        (ours,) = torch.autograd.grad(method.loss(z, targets), z)
        method.loss(z, targets)
    with fused.using("blocks"):
        (expected,) = torch.autograd.grad(method.loss(z, targets), z)
    assert torch.equal(ours, expected)
    assert [record.message for record in caplog.records] == [
        "an objective is computed without compilation: no C++ compiler"
    ]  # said once


def test_nothing_small_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(compiled, "sums", lambda *_: asked.append(1))
    monkeypatch.setattr(compiled, "LARGE", 20)
    _, targets, _, positives = a_batch()
    for rows, dtype in ((3, torch.float32), (4, torch.float64), (4, torch.float32)):
        z = torch.zeros(rows, 5, dtype=dtype, requires_grad=True)
        make("focal", {}, positives).loss(z, targets[:rows])
        assert len(asked) == (rows == 4 and dtype == torch.float32)


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UserError, match="RARETAG_FUSED"), fused.using("on"):
        pass


def peak(step: Callable[[], object]) -> float:
    """The most bytes that were allocated at once during a step."""
    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        step()
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


@pytest.mark.parametrize(("name", "options"), SCORES)
def test_needs_two_matrices_beside_its_inputs(name: str, options: Options) -> None:
    rows, labels = 256, 4096
    generator = torch.Generator().manual_seed(0)
    statistics = LabelStatistics.of_counts(torch.randint(1, 100, (labels,), generator=generator), 1000)
    base = {"name": name, **options}
    method = build_method("partial_label_masking", statistics, items=1000, base=base).eval()
    method.objective.weigh = LabelWeights(torch.rand(labels, generator=generator))
    logits = torch.randn(rows, labels, generator=generator, requires_grad=True)
    targets = Targets(torch.rand(rows, labels, generator=generator).round(), torch.ones(rows, labels).bool())

    def step() -> None:
        method.loss(logits, targets, Context(torch.arange(rows))).backward()
        logits.grad = None

    with fused.using("blocks"):
        assert peak(step) / (4 * rows * labels) <= 2.2 + 20 * fused.BLOCK / (rows * labels)  # and a block's temporaries
    with fused.using("off"):
        assert peak(step) / (4 * rows * labels) > 5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), SCORES)
def test_machine_code_gives_the_plain_numbers_in_two_matrices(name: str, options: Options) -> None:
    rows, labels = 64, 1000
    generator = torch.Generator().manual_seed(0)
    statistics = LabelStatistics.of_counts(torch.randint(1, 100, (labels,), generator=generator), 1000)
    method = build_method("partial_label_masking", statistics, items=1000, base={"name": name, **options}).eval()
    method.objective.keep.target.mul_(torch.rand(labels, generator=generator) + 0.5)
    logits = 4.0 * torch.randn(rows, labels, generator=generator)
    value = torch.rand(rows, labels, generator=generator).round()
    targets = Targets(value, torch.rand(rows, labels, generator=generator) < 0.7)

    def of(mode: str, rows: int) -> tuple[Tensor, Tensor]:
        z = logits[:rows].clone().requires_grad_()
        with fused.using(mode):
            loss = method.loss(z, targets[slice(rows)], Context(torch.arange(rows), 3, EPOCHS))
        return loss.detach(), torch.autograd.grad(loss, z)[0]

    for some in (rows, rows - 7):  # the last batch of an epoch is smaller
        assert_same(of("compiled", some), of("off", some), 1e-6)
    assert compiled._kernels[method.objective] is not None
    assert peak(lambda: of("compiled", rows)) / (4 * rows * labels) <= 1 + 2.2  # and the copy of the logits above


def test_prices_can_be_scaled() -> None:
    x = Logistic(torch.tensor([0.0]))
    assert Price(x.p, x.q).times(2.0) == Price(torch.tensor([1.0]), torch.tensor([1.0]))
