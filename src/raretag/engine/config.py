"""All settings of a run, checked. Imports no torch, so that mistakes are found at once.

`data`, `method`, `model`, `head` and `sampler` name a module and carry its options beside the name; the options are
checked by the module's own constructor when the run is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from raretag.core.catalogue import nearest
from raretag.core.errors import UserError


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(BaseModel):
    """A module's name, and its options as further keys."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Data(Named):
    name: str = "digits"
    hide: Literal["fal", "pal", "ppl", "spl"] = Field("fal", description="which training labels are hidden on purpose")
    keep: float = Field(1.0, gt=0, le=1, description="share that stays visible, for hide = pal or ppl")
    at_least_one: bool = Field(False, description="hiding leaves every item at least one positive")


class Train(Section):
    epochs: int = Field(20, ge=1)
    batch_size: int = Field(64, ge=1, description="items of a step, over all processes together")
    optimizer: Literal["adamw", "sgd"] = "adamw"
    learning_rate: float = Field(1e-3, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1, description="for sgd")
    weight_decay: float = Field(1e-4, ge=0)
    schedule: Literal["constant", "cosine", "steps"] = "cosine"
    warmup: float = Field(0.1, ge=0, lt=1, description="share of all steps in which the learning rate rises")
    milestones: tuple[float, ...] = Field((0.65, 0.87), description="for steps: at which shares the rate falls tenfold")
    clip: float | None = Field(None, gt=0, description="largest norm of the gradient")
    accelerator: str = "cpu"
    devices: int = Field(1, ge=1)
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"] = "32-true"
    save_every: int | None = Field(None, ge=1, description="steps between checkpoints; always at the end of an epoch")


class Config(Section):
    data: Data = Data()
    method: Named = Named(name="binary_cross_entropy")
    model: Named = Named(name="auto")
    head: Named = Named(name="linear")
    sampler: Named = Named(name="auto")
    train: Train = Train()
    group_edges: tuple[int, int] = Field(
        (20, 100), description="training positives: tail < first <= medium < second <= head"
    )
    least_frequent: tuple[int, ...] = Field((3, 5), description="K: also average over the K rarest labels")
    seed: int = Field(0, ge=0)

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


def compose(file: Path | None, changes: list[str], **direct: Any) -> Config:
    """A configuration from a file, then the direct flags, then `a.b=c` changes; later ones win."""
    tree: dict[str, Any] = read(file) if file else {}
    for key, value in direct.items():
        if value is not None:
            put(tree, key.replace("__", "."), value)
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key.strip():
            raise UserError(f"'--set {change}' is not understood; expected a.b=c, for example --set train.epochs=4")
        put(tree, key.strip(), yaml.safe_load(value) if value else "")
    return checked(tree)


def read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise UserError(f"the configuration file '{file}' does not exist")
    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"'{file}' is not a YAML file: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict):
        raise UserError(f"'{file}' must hold sections such as data, method and train, got {type(tree).__name__}")
    return tree


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
    tree[last] = value


def checked(tree: dict[str, Any]) -> Config:
    named = ("data", "method", "model", "head", "sampler")
    tree = {key: {"name": value} if key in named and isinstance(value, str) else value for key, value in tree.items()}
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise UserError(_sentence(error)) from None


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        section = Config if len(first["loc"]) == 1 else Config.model_fields[str(first["loc"][0])].annotation
        known = getattr(section, "model_fields", {})
        return f"there is no setting '{where}'; {nearest(str(first['loc'][-1]), known)}"
    return f"{where} is {first.get('input')!r}: {first['msg'][0].lower()}{first['msg'][1:]}"
