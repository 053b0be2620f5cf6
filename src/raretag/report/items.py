"""Items to look at: pictures or texts with what they have, what was found and what may be missing."""

from __future__ import annotations

import base64

from raretag.report.markup import text
from raretag.report.study import Example, Study

TITLES = {
    "suggestion": (
        "Labels that may be missing in training",
        "These training items are not marked with the label, but the model thinks that they have it. The likeliest of "
        "each label, so that rare ones appear too; raretag suggest makes the whole list, out of fold.",
    ),
    "doubt": (
        "Sure of labels that the test set denies",
        "A mistake of the model, or a label that is missing in the test set.",
    ),
    "missed": (
        "Missed labels, the rarest first",
        "Test items that have the label, with the lowest probability that the model gives to it.",
    ),
    "right": ("Rare labels that were found", "Test items whose rarest label is ranked best."),
}


def gallery(study: Study) -> str:
    parts = []
    for kind, (title, note) in TITLES.items():
        found = [example for example in study.examples if example.kind == kind]
        if found:
            cards = "".join(map(card, found))
            parts.append(f'<h3>{title}</h3><p class="quiet">{note}</p><div class="cards">{cards}</div>')
    return "".join(parts) or "<p>There are no items to show: see what is missing on the first page.</p>"


def card(example: Example) -> str:
    if example.image is not None:
        picture = base64.b64encode(example.image).decode()
        head = f'<img src="data:image/jpeg;base64,{picture}" alt="item {text(example.id, 60)}" decoding="async">'
    elif example.text is not None:
        head = f"<blockquote>{text(example.text, 400)}</blockquote>"
    else:
        head = ""
    found = "".join(_found(*entry) for entry in example.found)
    missed = "".join(f'<li class="wrong">missed: {text(name, 60)} {_p(p)}</li>' for name, p in example.missed)
    present = ", ".join(text(name, 60) for name in example.present) or "none known"
    return (
        f'<article class="card">{head}<p class="quiet id">{text(example.id, 60)}</p>'
        f"<p>has: {present}</p><ul>{found}{missed}</ul></article>"
    )


def _found(name: str, p: float, right: bool | None) -> str:
    kind, mark = {True: ("right", "✓"), False: ("wrong", "✗"), None: ("unsure", "?")}[right]
    said = {True: "truly there", False: "not there", None: "not marked"}[right]
    return f'<li class="{kind}"><span aria-label="{said}" title="{said}">{mark}</span> {text(name, 60)} {_p(p)}</li>'


def _p(p: float) -> str:
    return f'<small class="quiet">{100 * p:.0f}&nbsp;%</small>'
