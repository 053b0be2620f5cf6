"""What rooms may expect of each other's objects. A question between rooms is one of these types, never `hasattr`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from torch import Tensor

    from raretag.core.targets import LabelStatistics, Targets


@runtime_checkable
class Sampler(Protocol):
    """The order of items as a function of (seed, epoch)."""

    def epoch(self, number: int) -> Tensor:
        """All rows of an epoch [M] int64, in the order in which all processes together see them."""
        ...


@runtime_checkable
class Inputs(Protocol):
    """Where a model's inputs come from; rows are numbered as in the label store."""

    def __len__(self) -> int: ...

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        """The inputs of some rows; `epoch` is None where nothing may be random, as in evaluation."""
        ...


@runtime_checkable
class HasContent(Protocol):
    """Inputs that know what they were made of: raw numbers, texts, files."""

    def content(self, rows: Tensor) -> Tensor | None:
        """An int64 [B], of what the user gave for each row and nothing else; None if that is not always the same."""
        ...


@runtime_checkable
class HeldSparse(Protocol):
    """Inputs that may be held as a sparse matrix."""

    def sparse_batch(self, rows: Tensor) -> csr_array | None:
        """What `batch` gives for these rows, as float32 [B, D]; None where it is held as dense numbers."""
        ...


@runtime_checkable
class TakesSparse(Protocol):
    """A module that can keep a sparse batch sparse."""

    def sparse(self, x: csr_array) -> csr_array | None:
        """What `forward` gives for the same rows [B, D]; None where that is not sparse."""
        ...


@runtime_checkable
class HasBlocks(Protocol):
    """Inputs whose columns are of several kinds, such as word weights beside sentence vectors."""

    def blocks(self) -> dict[str, range]:
        """The columns of each kind, by its name, from left to right; empty if all are of one kind."""
        ...


def blocks_of(inputs: Inputs) -> dict[str, range]:
    """The columns of inputs by their kind, where there are several; else nothing."""
    return inputs.blocks() if isinstance(inputs, HasBlocks) else {}


class Named(Protocol):
    """A choice from a registry: a name, and options for what it stands for."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> dict[str, Any]: ...


@runtime_checkable
class Labels(Protocol):
    """The labels of a whole data set, as a method needs them: `LabelStore` is one."""

    def __len__(self) -> int: ...

    def statistics(self) -> LabelStatistics: ...

    def targets(self, rows: Any = None) -> Targets:
        """The labels of these rows, or of all."""
        ...


@runtime_checkable
class DataSource(Protocol):
    """What a name of the data room stands for: options in the constructor, and a data set when it is asked for."""

    def load(self) -> Any:
        """The `raretag.data.DataSet`; reads labels and whatever is needed for the inputs."""
        ...


@runtime_checkable
class LabelsAlone(Protocol):
    """A source that can give its labels where its inputs are absent."""

    def labels(self) -> dict[str, Any]:
        """A `LabelStore` each for "train", "validation" and "test"."""
        ...


@runtime_checkable
class PreviewsItems(Protocol):
    """A source that can show items to a person by their ids."""

    def previews(self, items: set[str]) -> dict[str, dict[str, str]]:
        """By id: {"text": ...} or {"image": path}; empty if the items are numbers."""
        ...


@runtime_checkable
class Describes(Protocol):
    """Inputs that can say how a raw item (a path, a text, a row of numbers) becomes a tensor."""

    def describe(self) -> dict[str, Any]:
        """Ready for JSON; `raretag predict` rebuilds the inputs from it."""
        ...


@runtime_checkable
class Photographs(Protocol):
    """Inputs that are images, read from files when they are needed."""

    def of_size(self, side: int) -> Inputs:
        """The same images with sides of so many pixels."""
        ...

    def file_keys(self, rows: Tensor) -> list[bytes]:
        """For each row, a hash of the file's bytes and of how it is read."""
        ...


@runtime_checkable
class Scaler(Protocol):
    """A module before the first layer that brings feature vectors to one scale."""

    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        """Numbers of the training items: how many, and for each column [D] how many are not 0, mean, deviation."""
        ...


@runtime_checkable
class Resizes(Protocol):
    """A module that has as many rows as what it learned from asks for."""

    def resize_for(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Make room for stored tensors of these shapes, by their names in the module."""
        ...


@runtime_checkable
class Logger(Protocol):
    """Who gets the numbers of a run: a class with these methods is one, `--logger my_package.my_module:MyLogger`."""

    def begin(self, name: str, config: dict[str, Any], folder: Path | None, epochs_done: int) -> None: ...

    def epoch(self, number: int, numbers: dict[str, float]) -> None: ...

    def end(self, numbers: dict[str, float]) -> None: ...


@runtime_checkable
class CountsCorrections(Protocol):
    """A part that changes labels, and counts how often it was right where the truth is known."""

    truth: Any  # rows [B] -> Targets before any were hidden; None where nobody knows
