"""All settings of a run, checked. Imports no torch, so that mistakes are found at once.

`data`, `method`, `encoder`, `fine_tune`, `model`, `branches`, `head` and `sampler` name a module and carry its options
beside the name; the options are checked by the module's own constructor when the run is built.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from raretag.config import yaml_text
from raretag.config.recipes import RECIPES
from raretag.core.errors import UserError
from raretag.core.registry import nearest


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(BaseModel):
    """A module's name, and its options as further keys."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Chosen(Named):
    name: str = Field("auto", description="its name; auto: what suits the data and the method")


class Encoder(Named):
    name: str = Field(
        "auto",
        description="a frozen network whose features replace photographs (`raretag list encoders`), or none; "
        "auto: the best one that is installed",
    )


class FineTune(Named):
    name: str = Field(
        "none", description="the method that trains the encoder's network further, after the frozen fit; auto, or none"
    )


class Method(Named):
    name: str = Field("auto", description="the method; auto: blend for feature vectors and texts, else the plain loss")


class Data(Named):
    name: str = Field(
        "digits", description="a data set by name (`raretag list data`), or a reader of files: table, arff, svmlight"
    )
    root: str | None = Field(None, description="the folder of named data sets; default: $RARETAG_DATA")
    hide: Literal["none", "pal", "ppl", "spl"] = Field(
        "none", description="which training labels are hidden on purpose"
    )
    keep: float | None = Field(None, gt=0, le=1, description="share of labels left visible, for hide = pal or ppl")
    at_least_one: bool = Field(False, description="leave every item at least one positive when labels are hidden")
    hide_validation: bool = Field(False, description="also hide labels of the validation part, as in training")
    longtail: Literal["none", "exponential", "pareto"] = Field("none", description="make the training part long-tailed")
    tail_ratio: float = Field(100.0, ge=1, description="for exponential: ratio of most frequent to rarest label")
    tail_largest: int = Field(800, ge=1, description="for pareto: number of items of the most frequent label")
    tail_power: float = Field(6.0, gt=0, description="for pareto: how fast the tail falls")
    order: Literal["items", "rows"] = Field(
        "items", description="order of the items of a table: by id or content, or by rows as in older runs"
    )
    corrections: str | None = Field(None, description="a CSV of item, label and state, from `raretag labels apply`")
    prior: str | None = Field(None, description="a file of item, label and score from outside (docs/prior.md)")
    label_texts: str = Field(
        "auto", description="texts of labels, if items are texts: names (auto), a file of label and text, or none"
    )
    prepare: Literal["auto", "raw", "counts", "dense", "rows", "standardised"] = Field(
        "auto", description="how feature vectors are scaled, by training items (docs/recommend.md); raw: not at all"
    )
    groups_by: Literal["whole", "visible"] = Field(
        "whole", description="head, medium and tail by positives before labels are hidden (whole) or after (visible)"
    )
    all_teach: bool = Field(
        False, description="make no validation part; set by the run itself, from train.use_all and its solver"
    )
    kept_in_test: float | None = Field(
        None, gt=0, le=1, description="share of the true test positives that are marked, if test labels are incomplete"
    )
    marking: Literal["assumed", "alike", "by_label"] = Field(
        "assumed", description="share of positives that is marked, without negatives: 60 %, an estimate, one by label"
    )

    @field_validator("hide", mode="before")
    @classmethod
    def old_name_of_none(cls, value: Any) -> Any:
        """Configurations of older runs call it `fal`."""
        return "none" if value == "fal" else value

    @model_validator(mode="before")
    @classmethod
    def as_before_order(cls, given: Any) -> Any:
        """The file of an older run says everything but this; its items are dealt to parts as they were."""
        whole = isinstance(given, dict) and {"root", "hide", "longtail", "tail_ratio"} <= given.keys()
        if whole and "order" not in given:
            return {**given, "order": "rows"}
        return given

    @model_validator(mode="after")
    def keep_goes_with_hide(self) -> Data:
        if (self.hide in ("pal", "ppl")) != (self.keep is not None):
            raise ValueError(f"hide={self.hide} with keep={self.keep}: pal and ppl need keep, the others have none")
        return self


ALWAYS_WRITTEN = {"epochs", "batch_size", "optimizer", "learning_rate", "weight_decay", "schedule", "warmup", "workers"}


class Train(Section):
    recipe: str | None = Field(None, description="training settings of a paper (see below); fills in what is not set")
    epochs: int = Field(20, ge=1, description="largest number of passes over the training items")
    batch_size: int = Field(32, ge=1, description="number of items per step, over all processes together")
    accumulate: int = Field(1, ge=1, description="parts in which the items of a step pass the model, to save memory")
    optimizer: Literal["adamw", "sgd"] = Field("adamw", description="the optimizer: adamw or sgd")
    learning_rate: float = Field(2e-3, gt=0, description="the largest learning rate of the schedule")
    backbone_rate: float = Field(1.0, ge=0, description="factor of the learning rate for the backbone; 0 freezes it")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of sgd")
    weight_decay: float = Field(1e-4, ge=0, description="strength of the pull of all weights towards 0")
    schedule: Literal["constant", "cosine", "steps"] = Field(
        "cosine", description="how the learning rate falls: constant, cosine or steps"
    )
    milestones: tuple[float, ...] = Field(
        (0.65, 0.87), description="for steps: shares of the run at which the rate falls"
    )
    decay: float = Field(0.1, gt=0, lt=1, description="for steps: the factor by which the learning rate falls")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the run during which the learning rate rises")
    warmup_steps: int | None = Field(None, ge=0, description="the same, as a number of steps")
    warmup_from: float = Field(0.0, ge=0, le=1, description="fraction of the learning rate at which the rise starts")
    clip: float | None = Field(None, gt=0, description="largest norm of the gradient; larger gradients are scaled down")
    average: float | None = Field(
        None, gt=0, lt=1, description="evaluate a moving average of the weights, of this decay"
    )
    use_all: bool = Field(
        True, description="train solvers on validation items too: they score out of fold and need none held out"
    )
    refit: bool | Literal["auto"] = Field(
        "auto", description="train again with validation items, for the chosen epochs; auto: for feature vectors"
    )
    fine_tune: bool = Field(False, description="train a text encoder further, without the default beside it")
    patience: int | None = Field(None, ge=1, description="stop after this many epochs without a better validation mAP")
    workers: int = Field(0, ge=0, description="number of processes that load inputs in advance")
    accelerator: Literal["cpu", "cuda", "mps", "gpu", "tpu", "auto"] = Field(
        "auto", description="where the model trains; auto takes a GPU if there is one"
    )
    devices: int = Field(1, ge=1, description="number of processes per machine")
    nodes: int = Field(1, ge=1, description="number of machines, if a cluster such as SLURM starts the processes")
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"] = Field(
        "32-true", description="numerical precision: 32-true, 64-true, bf16-mixed or 16-mixed"
    )
    save_every: int | None = Field(
        None, ge=1, description="steps between checkpoints; default: at the end of epochs, at least 10 s apart"
    )

    @model_validator(mode="before")
    @classmethod
    def follow_recipe(cls, given: Any) -> Any:
        """A recipe fills in what was not given."""
        name = given.get("recipe") if isinstance(given, dict) else None
        if name is None:
            return given
        if not isinstance(name, str) or name not in RECIPES:
            raise ValueError(f"there is no recipe '{name}'; {nearest(str(name), RECIPES)}")
        return {**RECIPES[name], **given}

    @model_validator(mode="before")
    @classmethod
    def as_before_refit(cls, given: Any) -> Any:
        """The file of an older run says everything but this; it runs as it did."""
        if isinstance(given, dict) and "refit" not in given and given.keys() >= ALWAYS_WRITTEN:
            return {**given, "refit": False}
        return given


class Config(Section):
    data: Data = Data()
    method: Method = Method()
    encoder: Encoder = Encoder()
    fine_tune: FineTune = FineTune()
    model: Chosen = Chosen()
    branches: Chosen = Chosen()
    head: Chosen = Chosen()
    sampler: Chosen = Chosen()
    train: Train = Train()
    group_edges: tuple[int, int] = Field(
        (20, 100), description="training positives that separate groups: tail < first <= medium < second <= head"
    )
    propensity: tuple[float, float] = Field(
        (0.55, 1.5), description="A and B of PSP@k, for very many labels (docs/large-labels.md)"
    )
    least_frequent: tuple[int, ...] = Field((3, 5), description="K: metrics are also averaged over the K rarest labels")
    effort: Literal["quick", "default", "best"] = Field(
        "default", description="how much a solver tries: quick is logistic regression alone, best uses more folds"
    )
    log: tuple[str, ...] = Field(
        ("auto",),
        description="where the numbers of each epoch are sent, besides metrics.jsonl: tensorboard, mlflow, wandb, or "
        "package.module:Class; auto is tensorboard if it is installed",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="seed of everything that is drawn at random")

    @field_validator("log", mode="before")
    @classmethod
    def one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


READERS = {  # by the ending of a file: the source that reads it, and the option that names the file
    **dict.fromkeys((".csv", ".tsv", ".tab", ".parquet", ".jsonl", ".ndjson"), ("table", "file")),
    ".arff": ("arff", "train"),
    **dict.fromkeys((".svm", ".libsvm", ".txt"), ("svmlight", "train")),
}


_WORDS_OF_OLD_RUNS = {"table": 20_000, "goemotions": 10_000}  # TF-IDF of single words
BRINGS_OPTIONS = re.compile(r"\s*(\w+\.name|train\.recipe)\s*=")


def data_of(word: str) -> dict[str, Any]:
    """What `--data WORD` means: a data set by name, or a file and the source that reads it."""
    name, option = READERS.get(Path(word).suffix.lower(), (word, None))
    return {"name": name} if option is None else {"name": name, option: word}


def compose(file: Path | None, changes: list[str], data: str | None = None, **direct: Any) -> Config:
    """A configuration from a file, then the direct flags, then `a.b=c` changes; later ones win.

    Among the changes, names and recipes come first whatever their place: they bring options of their own, which must
    not undo what was asked for on the same line.
    """
    tree: dict[str, Any] = read(file) if file else {}
    if data is not None:
        for key, value in data_of(data).items():
            put(tree, f"data.{key}", value)
    for key, value in direct.items():
        if value is not None:
            put(tree, key.replace("__", "."), value)
    for change in sorted(changes, key=lambda change: not BRINGS_OPTIONS.match(change)):
        key, equals, value = change.partition("=")
        if not equals or not key.strip():
            raise UserError(f"'--set {change}' is not understood; expected a.b=c, for example --set train.epochs=4")
        put(tree, key.strip(), parsed(value) if value else "")
    return checked(tree)


def read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise UserError(f"the configuration file '{file}' does not exist")
    tree = yaml_text.read_yaml(file)
    if not isinstance(tree, dict):
        raise UserError(f"'{file}' must hold sections such as data, method and train, got {type(tree).__name__}")
    return with_texts_of_old_runs(tree)


def with_texts_of_old_runs(tree: dict[str, Any]) -> dict[str, Any]:
    """A run writes all settings, with how texts and columns became vectors; older runs had one way and said nothing."""
    data = tree.get("data")
    written_by_a_run = {"data", "method", "model", "sampler", "train", "seed"} <= tree.keys()
    if not written_by_a_run or not isinstance(data, dict):
        return tree
    if "label_texts" not in data:
        tree = {**tree, "data": (data := {**data, "label_texts": "none"})}
    if data.get("name") == "table" and "mixed" not in data:
        tree = {**tree, "data": (data := {**data, "mixed": False})}
    if "representation" in data:
        return tree
    words = _WORDS_OF_OLD_RUNS.get(data.get("name", ""))
    if words is None or (data["name"] == "goemotions" and data.get("encoder")):
        return tree
    plain = {"representation": "tfidf", "words": words, "ngrams": 1, "characters": 0}
    return {**tree, "data": {**plain, **data}}


def flat(tree: dict[str, Any], mark: str = ".") -> dict[str, Any]:
    """{"a": {"b": 1}} as {"a.b": 1}."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        inner = flat(value, mark) if isinstance(value, dict) else None
        leaves |= {key: value} if inner is None else {f"{key}{mark}{name}": leaf for name, leaf in inner.items()}
    return leaves


def parsed(text: str) -> Any:
    """A value as typed after `=`: YAML, in which 1e-3 is a number too."""
    try:
        return float(text) if re.fullmatch(r"[+-]?\d+(\.\d*)?e[+-]?\d+", text) else yaml_text.values(text)
    except Exception as error:
        raise UserError(f"'{text[:60]}' is not a value: {yaml_text.sentence(error)}") from None


def put(tree: dict[str, Any], path: str, value: Any) -> None:
    """Set a.b.c in nested dictionaries; naming another module (`method.name`) drops the options of the old one."""
    *sections, last = path.split(".")
    for section in sections:
        inner = tree.setdefault(section, {})
        if not isinstance(inner, dict):
            tree[section] = inner = {"name": inner}  # `method: focal` in a file is short for `method: {name: focal}`
        tree = inner
    if last == "name" and tree.get("name") not in (None, value):
        kept = {key: tree[key] for key in Data.model_fields if sections == ["data"] and key in tree}
        tree.clear()
        tree.update(kept)
    if (sections, last) == (["train"], "recipe"):  # a recipe replaces what an earlier file says of the same things
        for key in RECIPES.get(str(value), {}):
            tree.pop(key, None)
    tree[last] = value


def checked(tree: dict[str, Any]) -> Config:
    named = ("data", "method", "encoder", "fine_tune", "model", "branches", "head", "sampler")
    strange = next((key for key in tree if not isinstance(key, str)), None)
    if strange is not None:
        raise UserError(f"there is no setting '{str(strange)[:60]}'; expected sections such as data, method and train")
    tree = {key: {"name": value} if key in named and isinstance(value, str) else value for key, value in tree.items()}
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise UserError(_sentence(error)) from None


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        section: Any = Config.model_fields[str(first["loc"][0])].annotation if len(first["loc"]) > 1 else Config
        known = section.model_fields
        return f"there is no setting '{where}'; {nearest(str(first['loc'][-1]), known)}"
    reason = str(first["msg"]).removeprefix("Value error, ")
    given = f" is {first['input']!r}" if isinstance(first.get("input"), (str, int, float, list)) else ""
    return f"{where}{given}: {reason[0].lower()}{reason[1:]}"
