"""The progress bar is a listener: a bar in a terminal, messages and a line now and then elsewhere."""

import subprocess
import sys
from dataclasses import replace

import pytest

from raretag.cli.progress import Bar
from raretag.config.settings import compose
from raretag.core.listener import Step

STEP = Step(epoch=0, step=3, loss=0.5, learning_rate=0.1, ends_epoch=True, mean_loss=0.5)


def test_messages_and_the_last_state_are_printed(capsys):
    with Bar(compose(None, ["train.epochs=2"], method__name="focal")) as bar:
        bar.message("a label is [missing]")
        bar.step(STEP)
        bar.epoch(STEP, {"loss": 0.25, "validation": {"mAP": {"total": 0.5}}})
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[0] == "a label is [missing]"
    assert "loss 0.2500, mAP 50.0" in printed.err


def test_a_run_without_steps_shows_how_far_it_is():
    with Bar() as bar:
        bar.progress(0.25)
        task = bar.bars.tasks[0]
        assert (task.completed, task.total) == (0.25, 1)
        bar.name("committee")
        assert task.description == "committee"


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("raretag.cli.progress.monotonic", made)
    return made


def test_the_time_left_follows_from_the_time_since_the_work_began(clock):
    with Bar() as bar:
        clock.now += 50  # loading is not counted
        bar.progress(0.0)
        clock.now += 3
        assert bar.work.time_left() == "3 s so far"
        bar.progress(0.25)
        assert bar.work.time_left() == "about 9 s left"
        bar.progress(0.0)  # a second fit begins
        clock.now += 2
        bar.step(replace(STEP, share=0.5))
        assert bar.work.time_left() == "about 2 s left"


def test_a_resumed_run_counts_what_it_does_itself(clock):
    with Bar() as bar:
        bar.progress(0.8)
        clock.now += 10
        bar.progress(0.9)
        assert bar.work.time_left() == "about 10 s left"


def test_outside_a_terminal_a_line_comes_now_and_then(clock, capsys):
    with Bar(compose(None, [], method__name="blend")) as bar:
        bar.progress(0.0)
        for second in range(1, 121):
            clock.now += 1
            bar.progress(second / 121)
    lines = [line for line in capsys.readouterr().err.splitlines() if "left" in line]
    assert lines[0] == "blend: 4 %, about 1 min 56 s left"
    assert 5 <= len(lines) <= 12


def test_a_notebook_without_widgets_gets_one_line_that_changes(monkeypatch, capsys):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("raretag.cli.progress.find_spec", lambda name: None)
    with Bar(compose(None, ["train.epochs=2"], method__name="focal")) as bar:
        bar.epoch(STEP, {"loss": 0.25, "validation": {"mAP": {"total": None}}})
    assert capsys.readouterr().out == "\rfocal: 0 %, 0 s so far, epoch 1/2, loss 0.2500\n"


def test_the_bar_needs_no_command_line():
    code = "import sys, raretag.cli.progress; assert not {'typer', 'torch'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("old", "new"), [("--kept=0.5", "--marked-share=0.5"), ("--answers-from-truth", "--simulate-answers")]
)
def test_former_names_of_options_still_work(old, new, monkeypatch):
    from typer.core import TyperCommand

    from raretag.cli.main import Command

    monkeypatch.setattr(TyperCommand, "parse_args", lambda self, ctx, args: args)
    assert Command("suggest").parse_args(None, ["run", old, "--folds", "2"]) == ["run", new, "--folds", "2"]
    assert Command("train").parse_args(None, [old]) == [old]
