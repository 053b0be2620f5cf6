"""A CSV of texts with tags: look at it, train, read the numbers, predict. `python examples/own_data.py`"""

from __future__ import annotations

import csv
import random
import tempfile
from pathlib import Path

import raretag

WORDS = {"sea": "wave beach salt", "city": "street tram noise", "food": "soup bread spoon", "music": "drum choir song"}


def write_table(path: Path, items: int = 300) -> None:
    """Stands for your own file: a text, and tags with ; between them."""
    draw = random.Random(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "text", "tags"])
        for number in range(items):
            tags = [tag for tag, chance in zip(WORDS, (0.5, 0.3, 0.1, 0.04), strict=True) if draw.random() < chance]
            words = [word for tag in tags for word in draw.sample(WORDS[tag].split(), 2)]
            table.writerow([f"note-{number}", " ".join([*words, "a", "short", "note"]), ";".join(tags)])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "notes.csv"
        write_table(file)
        found = raretag.inspect(file)
        print(f"{found['items']} training items, {found['labels']} tags")

        run = raretag.train({"name": "table", "file": str(file), "test": 0.2})
        print(f"{run.record.method.name}: mAP {100 * run.metrics.mAP.total:.1f}")

        answers = run.predict(["wave and salt at the beach", "a choir song with a drum"])
        for tags in answers.chosen_labels():
            print(tags)


if __name__ == "__main__":
    main()
