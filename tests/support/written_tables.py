"""Small tables as a user would write them, and what they say."""

from __future__ import annotations

import json

TAGS = [["a", "b"], [], ["b"], ["a", "c"]]


def rows(count=20):
    return [(f"r{i}", f"word{i} and some more", TAGS[i % 4]) for i in range(count)]


def csv(separator=",", mark=";", count=20):
    lines = [separator.join((i, text, mark.join(tags))) for i, text, tags in rows(count)]
    return "\n".join([separator.join(("id", "text", "tags")), *lines, ""])


def jsonl(count=20, **more):
    return "".join(json.dumps({"id": i, "text": text, "tags": tags, **more}) + "\n" for i, text, tags in rows(count))


def labelled(data):
    """The positive labels of each id, over all parts."""
    parts = (data.train, data.validation, data.test)
    return {i: set(names) for part in parts for i, names in zip(part.labels.ids, part.labels.name_lists(), strict=True)}


STATES = "f,cat,dog\n" + "".join(f"0.{i},{cat},{dog}\n" for i, (cat, dog) in enumerate([("1", "0"), ("", "1")] * 10))
