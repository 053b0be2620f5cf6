"""Figures show the numbers of the runs."""

import json
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from raretag import figures
from raretag.cli.main import main
from raretag.config.settings import Data, compose
from raretag.core import registry
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.core.method import build_method
from raretag.core.targets import Targets
from raretag.data.sources import load
from raretag.engine import run as engine
from raretag.figures.parts.canvas import save
from raretag.figures.parts.runs import Run, differing, read_run, titles
from raretag.figures.parts.scores import training_logits
from raretag.figures.sweep import tick_labels
from raretag.labels.longtail import pareto
from raretag.labels.store import LabelStore
from raretag.methods.reflective_correction import Corrector
from raretag.objective.completions import UnknownIsNegative
from support.runs import run as train

QUICK = ["train.epochs=2", "data.largest=60", "model.name=mlp", "model.width=16", "train.learning_rate=0.02"]
HIDDEN = [*QUICK, "data.hide=ppl", "data.keep=0.6"]
CORRECTING = [*HIDDEN, "method.tau=0.3", "method.warm_up=0"]
APART = ["method.balance=false", "branches.name=head_tail", "branches.attention=false"]
RUNS = {
    "bce": ("binary_cross_entropy", QUICK),
    "plm": ("partial_label_masking", QUICK),
    "plm rate 1": ("partial_label_masking", [*QUICK, "method.rate=1"]),
    "plm rate 2": ("partial_label_masking", [*QUICK, "method.rate=2"]),
    "plm rate 2 again": ("partial_label_masking", [*QUICK, "method.rate=2", "seed=1"]),
    "db": ("distribution_balanced", [*QUICK, "sampler.reduce=8", "sampler.name=class_aware"]),
    "db beta": ("distribution_balanced", [*QUICK, "sampler.reduce=8", "sampler.name=class_aware", "method.beta=2"]),
    "comic": ("comic", CORRECTING),
    "comic tau": ("comic", [*HIDDEN, "method.warm_up=0"]),
    "comic apart": ("comic", [*CORRECTING, *APART]),
    "other labels": ("binary_cross_entropy", [*QUICK, "data.ratio=2"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which every run above is trained when it is first asked for."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def runs(folder):
    def find(*names):
        for name in names:
            if not (folder / name).exists():
                method, changes = RUNS[name]
                train(compose(None, changes, method__name=method), folder / name)
        return [str(folder / name) for name in names]

    return find


def drawn(number, words, **options):
    name, usual = figures.find(number)
    return registry.build("figures", name, usual | options).draw(words)


def heights(container):
    return [bar.get_height() for bar in container]


def record(word):
    return json.loads((read_run(word).folder / "record.json").read_text())


def labels_of_run(word, split="test"):
    return getattr(load(read_config(word), 0), split).labels.targets()


def read_config(word):
    return Data(**record(word)["config"]["data"])


FIGURES = {
    "plm-1": ["bce", "plm"],
    "plm-2": ["plm"],
    "plm-3": ["plm", "bce"],
    "plm-4": ["plm", "bce"],
    "plm-5": [],
    "plm-6": [],
    "plm-7": ["plm"],
    "plm-8": ["plm", "bce"],
    "db-2": ["bce"],
    "db-3": [],
    "db-5": ["bce"],
    "db-6": ["bce", "plm", "db"],
    "db-7": ["db", "db beta"],
    "db-8": ["bce"],
    "db-9": ["bce", "other labels"],
    "comic-3": ["comic", "comic tau"],
    "comic-4": ["bce", "comic", "comic tau"],
    "comic-5": ["comic"],
    "comic-6": ["comic", "comic apart"],
    "zhang-2": ["bce", "plm"],
}


@pytest.mark.parametrize("number", FIGURES)
def test_every_figure_is_drawn(number, runs, tmp_path):
    figure = drawn(number, runs(*FIGURES[number]))
    save(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 5000
    for axes in figure.axes:
        assert not axes.get_visible() or axes.has_data()


def test_every_figure_of_the_papers_has_a_command():
    assert set(figures.PAPERS) == {*FIGURES, "db-10"}  # db-10 and db-7 are one drawing
    assert {name for name, _ in figures.PAPERS.values()} == set(registry.names("figures"))


def test_the_gradient_of_a_negative_is_that_of_its_loss():
    z = torch.tensor([-3.0, -0.3, 0.0, 0.3, 3.0], dtype=torch.float64)
    right = drawn("db-3", [], scales="1,5", nu=0.1).axes[2]
    for line, scale in zip(right.lines, (1.0, 5.0), strict=True):
        moved = z.clone().requires_grad_()
        (torch.nn.functional.softplus(scale * (moved - 0.1)) / scale).sum().backward()  # (7)
        assert np.interp(z, line.get_xdata(), line.get_ydata()) == pytest.approx(moved.grad.numpy(), abs=1e-3)


def test_the_construction_ends_with_the_set_it_makes(tmp_path, monkeypatch):
    dense = store_of(tmp_path, monkeypatch)
    last = np.asarray(drawn("db-8", ["toy"], largest=4).axes[1].images[0].get_array().filled(0))[-1]
    assert sorted(last) == sorted(dense[pareto(LabelStore.from_dense(dense), 4, 6.0)].sum(0))


def test_the_test_part_stands_in_the_order_of_training(runs):
    (word,) = runs("bce")
    axes = drawn("db-9", [word]).axes[0]
    expected = (labels_of_run(word).positive > 0.5).sum(0)[read_run(word).order]
    assert heights(axes.containers[0]) == expected.tolist()


def test_bars_and_points_are_the_runs_f1_from_head_to_tail(runs):
    words = runs("plm", "bce")
    axes = drawn("plm-4", words).axes[0]
    plm, bce = map(record, words)
    positives = read_run(words[0]).positives
    order = sorted(range(10), key=lambda label: -positives[label])
    assert [text.get_text() for text in axes.get_xticklabels()] == [plm["data"]["labels"][label] for label in order]
    f1 = [run["metrics"]["final"]["per_class"]["f1"] for run in (plm, bce)]
    assert heights(axes.containers[0]) == pytest.approx([100 * f1[0][label] for label in order])
    (points,) = (line for line in axes.lines if line.get_marker() == "o")
    assert list(points.get_ydata()) == pytest.approx([100 * f1[1][label] for label in order])


def test_accuracy_is_how_often_the_highest_score_is_the_label(runs):
    words = runs("plm", "bce")
    axes = drawn("plm-3", words).axes[0]
    logits = load_file(f"{words[0]}/logits.safetensors")["test"]
    there = labels_of_run(words[0]).positive > 0.5
    expected = []
    for label in read_run(words[0]).order:
        rows = there[:, label].nonzero().flatten().tolist()
        expected.append(100 * sum(int(logits[row].argmax()) == label for row in rows) / len(rows))
    assert heights(axes.containers[0]) == pytest.approx(expected)


def test_precision_and_recall_get_a_panel_each(runs):
    figure = drawn("plm-8", runs("plm", "bce"))
    assert [axes.get_ylabel() for axes in figure.axes] == ["precision, %", "recall, %"]


def test_the_example_of_the_paper_has_the_papers_histograms():
    figure = drawn("plm-5", [])
    bars = [heights(axes.containers[0]) for axes in figure.axes]  # truth and predictions, positives then negatives
    assert bars == [[0, 0, 0, 5], [1, 1, 1, 2], [5, 0, 0, 0], [2, 2, 0, 1]]
    shares = [heights(axes.containers[0]) for axes in drawn("plm-6", []).axes]
    assert shares == [pytest.approx([n / 5 for n in bar]) for bar in bars]


def test_probabilities_are_shares_of_each_labels_items(runs):
    words = runs("bce", "plm")
    figure = drawn("plm-1", words, labels=2, bins=5)
    p = load_file(f"{words[1]}/logits.safetensors")["test"].double().sigmoid().numpy()
    there = (labels_of_run(words[1]).positive > 0.5).numpy()
    order = read_run(words[1]).order
    for axes, side in zip(figure.axes[2:], (there, ~there), strict=True):
        for bars, labels in zip(axes.containers, (order[:2], order[-2:]), strict=True):
            each = [np.histogram(p[side[:, i], i], np.linspace(0, 1, 6))[0] / side[:, i].sum() for i in labels]
            assert heights(bars) == pytest.approx(100 * np.mean(each, axis=0))


def test_the_model_of_a_run_is_measured_again_on_its_training_items(runs):
    (word,) = runs("comic")
    data = load(read_config(word), 0)
    hidden = (data.truth.targets().positive > 0.5) & ~data.train.labels.targets().observed
    found = (training_logits(read_run(word)) > 0)[hidden].double().mean()
    assert float(found) == pytest.approx(record(word)["metrics"]["final"]["hidden_recall"])


def test_ratios_begin_with_the_datas_and_go_on_as_the_run_went(runs):
    (word,) = runs("plm")
    axes = drawn("plm-2", [word]).axes[0]
    run = read_run(word)
    items = run.record["data"]["items"]["train"]
    there = [label for label in run.order if run.positives[label]]
    for line, label in zip(axes.lines, there, strict=True):
        n = run.positives[label]
        went = [row["by_label"]["ratio"][label] for row in run.epochs]
        assert list(line.get_ydata()) == pytest.approx([n / (items - n), *went])
    moves = [went[-1] / went[0] for went in (line.get_ydata() for line in axes.lines)]
    signs = run.epochs[-1]["vital_signs"]
    assert [min(moves), max(moves)] == pytest.approx([signs["ratio_lowest"], signs["ratio_highest"]])


def store_of(tmp_path, monkeypatch):
    """Three labels: b always with a, c alone once and twice with a."""
    dense = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 1], [1, 0, 1], [0, 0, 1]])
    store = LabelStore.from_dense(dense, names=["a", "b", "c"])
    monkeypatch.setattr(
        "raretag.figures.parts.scores.training_labels",
        lambda word: (
            "toy",
            store,
            {"head": torch.tensor([0]), "medium": torch.tensor([2]), "tail": torch.tensor([1])},
        ),
    )
    return dense


def test_conditional_probabilities_and_variances_are_those_of_the_data(tmp_path, monkeypatch):
    dense = store_of(tmp_path, monkeypatch)
    figure = drawn("db-5", ["toy"])
    order = [0, 2, 1]
    expected = [[np.mean(dense[dense[:, j] == 1, i]) for i in order] for j in order]
    assert np.asarray(figure.axes[0].images[0].get_array()) == pytest.approx(np.array(expected))
    (line,) = next(axes for axes in figure.axes if "variance" in axes.get_ylabel()).lines
    times = (dense / dense.sum(0)).sum(1)
    variances = [np.var(times[dense[:, i] == 1] / times[dense[:, i] == 1].mean()) for i in order]
    assert list(line.get_ydata()) == pytest.approx(variances)


def test_resampling_shows_what_the_sampler_draws(tmp_path, monkeypatch):
    dense = store_of(tmp_path, monkeypatch)
    left, right = drawn("db-2", ["toy"]).axes
    order = [0, 2, 1]
    assert heights(left.containers[0]) == dense.sum(0)[order].tolist()
    own, along = (np.array(heights(bars)) for bars in right.containers)
    from scipy.sparse import csr_array

    drawn_rows = registry.build("sampling", "class_aware", {}, positives=csr_array(dense), seed=0).epoch(0)
    assert own + along == pytest.approx(dense[drawn_rows.numpy()].sum(0)[order])
    expected = [np.mean([np.mean(dense[dense[:, j] == 1, i]) for j in range(3)]) * len(drawn_rows) for i in order]
    (line,) = (line for line in right.lines if line.get_label() == "expected")
    assert list(line.get_ydata()) == pytest.approx(expected)


def test_increments_are_differences_between_neighbours(runs):
    words = runs("bce", "plm", "db")
    figure = drawn("db-6", words)
    values = [record(word)["metrics"]["final"]["per_class"]["average_precision"] for word in words]
    for step, axes in enumerate(figure.axes):
        change = [100 * (values[step + 1][label] - values[step][label]) for label in read_run(words[0]).order]
        assert heights(axes.containers[0]) == pytest.approx(change)


def test_a_sweep_takes_means_over_seeds_and_knows_defaults(runs):
    axes = drawn("sweep", runs("plm rate 1", "plm rate 2", "plm rate 2 again")).axes[0]
    assert axes.get_xlabel() == "rate"
    total = {
        name: 100 * record(word)["metrics"]["final"]["mAP"]["total"]
        for name, word in zip("abc", runs("plm rate 1", "plm rate 2", "plm rate 2 again"), strict=True)
    }
    line = axes.containers[0].lines[0]
    assert list(line.get_xdata()) == [1, 2]
    assert list(line.get_ydata()) == pytest.approx([total["a"], (total["b"] + total["c"]) / 2])
    axes = drawn("db-7", runs("db", "db beta")).axes[0]
    assert list(axes.containers[0].lines[0].get_xdata()) == [2, 10]  # nobody said 10


def test_names_of_values_do_not_overlap():
    assert tick_labels([0.0, 0.01, 0.05, 0.1, 0.2]) == ["0", "", "0.05", "0.1", "0.2"]
    assert tick_labels([1.0, 2.0, 3.0]) == ["1", "2", "3"]


def test_a_run_of_an_older_version_has_the_defaults_of_later_settings(runs):
    new = read_run(*runs("bce"))
    config = {**new.config, "data": {key: value for key, value in new.config["data"].items() if key != "order"}}
    old = Run(new.folder, {**new.record, "config": config}, new.positives)
    assert old.config != new.config
    assert differing([old, new]) == []


def test_runs_are_named_by_what_is_unusual(runs):
    found = titles([read_run(word) for word in runs("bce", "comic", "comic tau", "db", "db beta")])
    assert found == ["binary cross entropy", "comic, tau=0.3", "comic", "distribution balanced",
                     "distribution balanced, beta=2"]  # fmt: skip


def test_corrections_are_counted_and_compared_with_the_truth():
    truth = Targets(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.ones(3, 2, dtype=torch.bool))
    targets = Targets(truth.value, torch.tensor([[False, False], [False, True], [False, False]]))
    corrector = Corrector(UnknownIsNegative(), torch.tensor([9, 9]), tau=0.5, mean_of="all", warm_up=0.0, cap=None)
    corrector.truth = lambda rows: truth[rows]
    rows = torch.tensor([2, 0, 1])
    logits = torch.tensor([[5.0, -5.0], [5.0, 5.0], [5.0, 5.0]])
    corrector.observe(logits, targets[rows], Context(index=rows))
    corrector.end_epoch(Context())
    signs = corrector.label_signs()
    assert signs["corrected"].tolist() == [3, 1]  # item 1 is observed to have label 1
    assert signs["corrected_rightly"].tolist() == [2, 0]


def test_right_and_wrong_corrections_add_up_to_the_vital_sign(runs):
    (word,) = runs("comic")
    axes = drawn("comic-5", [word]).axes[0]
    right, wrong = (np.array(heights(bars)) for bars in axes.containers)
    rows = record(word)["metrics"]["epochs"]
    assert (right + wrong).tolist() == [row["vital_signs"]["corrected_last_epoch"] for row in rows]
    assert right.sum() > 0
    assert wrong.sum() > 0


def test_the_balanced_branch_is_what_predicts(runs):
    (word,) = runs("comic")
    axes = drawn("comic-6", [word]).axes[0]
    assert axes.get_title(loc="left") == "(b) joint training"
    (line,) = (line for line in axes.lines if line.get_label() == "balanced")
    rows = record(word)["metrics"]["epochs"]
    assert list(line.get_ydata()) == pytest.approx([100 * row["validation"]["mAP"]["total"] for row in rows])
    letters = [axes.get_title(loc="left")[:3] for axes in drawn("comic-6", runs("comic", "comic apart")).axes]
    assert letters == ["(a)", "(b)", "(c)", "(d)"]


def test_a_run_stopped_within_an_epoch_leaves_the_same_numbers_to_draw(runs, tmp_path):
    class Stop(Listener):
        def step(self, step):
            if step.step == 6:  # of five steps an epoch
                raise KeyboardInterrupt

    (word,) = runs("comic")
    config = compose(None, [*CORRECTING, "train.save_every=1"], method__name="comic")
    with pytest.raises(KeyboardInterrupt):
        engine.run(config, tmp_path / "r", listener=Stop())
    train(config, tmp_path / "r", resume=True)
    assert record(tmp_path / "r")["metrics"]["epochs"] == record(word)["metrics"]["epochs"]


def test_branch_losses_are_means_over_the_steps_of_an_epoch():
    statistics = LabelStore.from_dense(np.eye(3)).statistics()
    method = build_method("comic", statistics, items=3, correction=False, balance=False).train()
    targets = Targets(torch.eye(3), torch.ones(3, 3, dtype=torch.bool))
    outputs = torch.randn(2, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    for one in outputs:
        method.loss(one, targets, Context(index=torch.arange(3)))
    method.end_epoch(Context())
    for place, branch in enumerate(("head", "tail", "balanced")):
        losses = [float(method.objective(one[:, place], targets)) for one in outputs]
        assert method.vital_signs()[f"loss_{branch}"] == pytest.approx(np.mean(losses))


def test_only_losses_of_one_kind_share_an_axis(runs):
    words = runs("bce", "comic", "comic tau")
    left, right = drawn("comic-4", words).axes
    assert [bar.get_width() for bar in left.containers[0]] == pytest.approx(
        [100 * record(word)["metrics"]["final"]["mAP"]["total"] for word in words]
    )
    assert [line.get_label() for line in right.lines] == ["comic, tau=0.3", "comic"]
    assert list(right.lines[0].get_ydata()) == [row["loss"] for row in record(words[1])["metrics"]["epochs"]]


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_figure_gives_the_same_file(ending, tmp_path):
    for name in ("a", "b"):
        save(drawn("plm-5", []), tmp_path / f"{name}.{ending}")
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


MISTAKES = {
    "no baseline": ("plm-4", ["plm"], {}, "needs 2 or more runs, got 1"),
    "a baseline on other data": ("plm-4", ["plm", "other labels"], {}, "only run on its data"),
    "ratios of another method": ("plm-2", ["bce"], {}, "expected a run of partial_label_masking"),
    "corrections of another method": ("comic-5", ["bce"], {}, "expected a run of comic"),
    "branches of another method": ("comic-6", ["bce"], {}, "three branches"),
    "two runs of joint training": ("comic-6", ["comic", "comic tau"], {}, "method.balance=false"),
    "too many runs": ("plm-7", ["bce", "plm"], {}, "needs 1 run, got 2"),
    "no run where no example is known": ("plm-7", [], {}, "needs 1 run, got 0"),
    "a sweep of nothing": ("sweep", ["bce", "plm"], {}, "they differ in method.name"),
    "a sweep of the wrong setting": ("db-7", ["plm rate 1", "plm rate 2"], {}, "method.beta or method.scale"),
    "unknown metric": ("per_class", ["plm", "bce"], {"metric": "mAP"}, "expected some of f1"),
    "unknown option": ("per_class", ["plm", "bce"], {"metrics": "f1"}, "did you mean 'metric'"),
    "too few bins": ("plm-1", ["plm"], {"bins": 1}, "bins >= 2"),
    "two data sets": ("db-2", ["bce", "plm"], {}, "one run or the name of one data set"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_missing_is_said(mistake, runs):
    number, names, options, expected = MISTAKES[mistake]
    with pytest.raises(UserError) as error:
        drawn(number, runs(*names), **options)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_a_run_whose_data_has_changed_is_refused(runs, tmp_path):
    (word,) = runs("bce")
    for name in ("config.yaml", "card.json", "logits.safetensors"):
        (tmp_path / name).write_bytes((read_run(word).folder / name).read_bytes())
    changed = record(word)
    changed["data"]["fingerprint"]["test"] = "another"
    (tmp_path / "record.json").write_text(json.dumps(changed))
    with pytest.raises(UserError, match="the data has changed"):
        drawn("plm-1", [str(tmp_path)])


@pytest.fixture
def raretag(tmp_path, monkeypatch, capsys):
    """The command in this process: what it printed on standard error, and its exit code."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["raretag", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return capsys.readouterr().err, end.value.code

    return call


def test_the_command_draws(raretag, tmp_path):
    printed, code = raretag("figure", "histograms", "--set", "example=true", "--set", "bins=4", "--out", "a.svg")
    assert not code, printed
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["plm-44"], "did you mean 'plm-4'"),
        (["plm-5", "--out", "a.gif"], "must end in one of .png"),
        (["plm-5", "--out", "no/a.png"], "does not exist"),
        (["plm-5", "--set", "bins"], "expected an option"),
        (["plm-4", "none", "such"], "the run folder 'none' does not exist"),
        (["plm-4", "begun", "such"], "has not finished"),
        (["plm-4", "empty", "such"], "is not a run folder"),
        (["db-2", "digitz"], "did you mean 'digits'"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(arguments, expected, raretag, tmp_path):
    for name in ("begun", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "begun/config.yaml").write_text("seed: 0\n")
    printed, code = raretag("figure", *arguments)
    assert code == 2
    assert expected in printed
    assert len(printed.strip().splitlines()) == 1
