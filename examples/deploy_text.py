"""Labels of texts from an exported model, without raretag: NumPy, onnxruntime, and tokenizers if there is an encoder.

raretag export runs/comments --decide
python examples/deploy_text.py runs/comments/model.inputs.json "a first text" "a second one"

A model of a table with several kinds of columns takes each item as JSON: '{"price": 3.5, "colour": "red"}'.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime


def terms(text, part):
    """Words and runs of words, or pieces of words with a space at each end."""
    text = text.lower() if part["lowercase"] else text
    if not part.get("pieces"):
        words = re.findall(part["token"], text)
        return [" ".join(words[i : i + n]) for n in range(1, part["ngrams"] + 1) for i in range(len(words) - n + 1)]
    fewest, most = part["letters"]
    found = []
    for word in (f" {word} " for word in text.split()):
        for n in range(fewest, most + 1):
            found += [word[i : i + n] for i in range(max(1, len(word) - n + 1))]
            if len(word) <= n:  # a short word counts once
                break
    return found


def weights(texts, part):
    """TF-IDF: (1 + ln count) x idf, then rows of length 1."""
    column = {word: place for place, word in enumerate(part["words"])}
    rows = np.zeros((len(texts), len(column)), np.float32)
    for row, text in zip(rows, texts, strict=True):
        for term, count in Counter(terms(text, part)).items():
            if term in column:
                row[column[term]] = (1 + np.log(count)) * part["idf"][column[term]]
    return unit(rows)


def tokens(texts, part, folder):
    """Token numbers, -1 after the last one of a text."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / part["tokenizer"]))
    tokenizer.enable_truncation(part["longest"])
    tokenizer.no_padding()
    texts = [part["prompt"] + (text.lower() if part["lowercase"] else text) for text in texts]
    coded = tokenizer.encode_batch(texts, add_special_tokens=part["marks_of_the_ends"])
    rows = [[number for number in one.ids if number != part["left_out"]] for one in coded]
    longest = max(1, *map(len, rows))
    return np.array([row + [-1] * (longest - len(row)) for row in rows], np.int64)


def cells(rows, part):
    """Numbers and categories of a table, column after column."""
    blocks = []
    for one in part["columns"] or []:
        values = [row[one["column"]] for row in rows]
        if one["kind"] == "category":  # a 1 in the column of its value; another value is none of them
            blocks += [[float(value == known) for value in values] for known in one["values"]]
        else:  # standardised; a blank is the mean, with a 1 beside it
            away = [0.0 if v is None or not one["std"] else (v - one["mean"]) / one["std"] for v in values]
            blocks.append(np.clip(away, -part["limit"], part["limit"]))
            blocks += [[float(value is None) for value in values]] * one["blanks"]
    return np.array(blocks, np.float32).reshape(len(blocks), len(rows)).T


def table(rows, part, folder):
    """Columns alone, or beside a text: then each block has about length 1, and each row exactly."""
    if "text" not in part:
        return cells(rows, part)
    texts, inputs = [row[part["text"]["column"]] for row in rows], part["text"]["inputs"]
    beside = [cells(rows, part) / max(1, len(part["columns"] or [])) ** 0.5] if part["columns"] is not None else []
    parts = inputs["parts"].values() if inputs["kind"] == "side_by_side" else [inputs]
    return unit(np.concatenate([*beside, *(numbers(texts, one, folder) for one in parts)], axis=1))


def unit(rows):
    return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)).astype(np.float32)


def numbers(texts, part, folder):
    """What the graph reads."""
    if part["kind"] == "mixed":
        return table([json.loads(text) for text in texts], part, folder)
    if part["kind"] == "tfidf":
        return weights(texts, part)
    if part["kind"] == "tokens":
        return tokens(texts, part, folder)
    if part["kind"] == "encoder":
        session = onnxruntime.InferenceSession(str(folder / part["encoder"]))
        return session.run(None, {"inputs": tokens(texts, part, folder)})[0]
    blocks = [part["weights"][name] * numbers(texts, one, folder) for name, one in part["parts"].items()]
    return unit(np.concatenate(blocks, axis=1))  # side by side, then rows of length 1 again


def main(file, *texts):
    folder, about = Path(file).parent, json.loads(Path(file).read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(str(folder / about["graph"]))
    probabilities, chosen = session.run(None, {"inputs": numbers(texts, about["inputs"], folder)})
    for text, row, flags in zip(texts, probabilities, chosen, strict=True):
        labels = [label for label, flag in zip(about["labels"], flags, strict=True) if flag]
        print(json.dumps({"text": text, "labels": labels, "probabilities": row.tolist()}))


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else print(__doc__)
