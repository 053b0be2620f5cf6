"""A matrix of which few entries are not 0: only those are stored, and products with it are sparse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from raretag.core.errors import UserError

if TYPE_CHECKING:
    from typing_extensions import Self

FILLED = 0.02  # the share of entries up to which a sparse product is faster than a dense one
_PARTS = ("row", "column", "value")


def is_thin(filled: int, rows: int, columns: int) -> bool:
    """Whether a matrix with so many entries that are not 0 should be one."""
    return 0 < filled <= FILLED * rows * columns


class Thin(nn.Module):
    """`thin(x)` are the inner products [B, L] of rows x [B, D] with those of the matrix [L, D].

    In an exported graph, which knows no sparse tensors, the matrix is put together there.
    """

    row: Tensor  # [M] of an entry
    column: Tensor  # [M]
    value: Tensor  # [M]
    squares: Tensor  # [L] |row|^2
    matrix: Tensor  # [L, D], sparse

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.shape = (rows, columns)
        self.register_buffer("row", torch.zeros(0, dtype=torch.int32))
        self.register_buffer("column", torch.zeros(0, dtype=torch.int32))
        self.register_buffer("value", torch.zeros(0))
        self.remember()

    @classmethod
    def of(cls, matrix: Any) -> Thin:
        """A matrix of scipy [L, D].

        >>> from scipy import sparse
        >>> Thin.of(sparse.csr_array([[0.0, 2.0], [0.0, 0.0]]))(torch.tensor([[1.0, 3.0]]))
        tensor([[6., 0.]])
        """
        found, entries = cls(*matrix.shape), matrix.tocoo()
        found.row, found.column = (torch.from_numpy(place).int().clone() for place in entries.coords)
        found.value = torch.from_numpy(entries.data).float().clone()
        found.remember()
        return found

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            rows, columns = self.shape
            places = self.row.long() * columns + self.column
            dense = x.new_zeros(rows * columns).scatter(0, places, self.value)
            return x @ dense.view(rows, columns).T
        found: Tensor = torch.sparse.mm(self.matrix, x.T).T
        return found

    @torch.no_grad()
    def remember(self) -> None:
        """What follows from the entries, which may come from a stranger's file."""
        places = torch.stack([self.row, self.column]).long()
        try:
            self.matrix = torch.sparse_coo_tensor(places, self.value, self.shape, check_invariants=True)
        except RuntimeError as error:
            raise UserError(f"a matrix of {self.shape} has no place for some of its stored entries: {error}") from None
        self.squares = self.value.new_zeros(self.shape[0]).index_add(0, self.row, self.value**2)

    def resize_for(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Room for stored parts of these shapes."""
        for name in _PARTS:
            part: Tensor = getattr(self, name)
            if len(shapes.get(name, ())) == 1:
                setattr(self, name, part.new_zeros(shapes[name]))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        self.remember()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.remember()
        return self
