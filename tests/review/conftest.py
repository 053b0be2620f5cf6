"""A finished run on texts, its list of suggestions, and a desk with an empty log."""

from __future__ import annotations

import json

import pytest

from raretag.config.settings import compose
from raretag.review.desk import Desk
from raretag.review.log import AnswerLog
from raretag.suggestions.job import SuggestOptions, suggest_for
from support.evil import EVIL
from support.served import train


def rows_of_texts():
    """Weather; every fourth "sun" is not marked. One label and all texts try to run a script."""
    names = {"sun": "sun", "rain": EVIL, "snow": "snow"}
    words = ("sun", "rain", "snow") * 24
    return [
        {
            "id": f"t{number}",
            "text": f"{word} and {number % 5} {EVIL}",
            "tags": [] if number % 12 == 0 else [names[word]],
            "split": "test" if number >= 60 else "train",
        }
        for number, word in enumerate(words)
    ]


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("review")
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, rows_of_texts())))
    return train(folder / "run", ["method.name=logistic_regression"], folder / "texts.jsonl")


@pytest.fixture(scope="session")
def listed(trained):
    config = compose(trained / "config.yaml", [])
    found, data = suggest_for(config, trained / "out_of_fold", SuggestOptions(most=20, folds=2, wrong=0))
    return config, found, data


@pytest.fixture
def desk(listed, tmp_path):
    config, found, data = listed
    return Desk("run", config, data, found, AnswerLog(tmp_path / "answers.jsonl"))
