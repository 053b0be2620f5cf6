"""Feature vectors in files: .npy, .safetensors, scipy's sparse .npz, and archives of an array with ids.

A file may come from anybody. Headers are read first and must fit the limits (data/limits.py); pointers and indices of a
sparse matrix are checked before scipy sees them, because its machine code trusts them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy import sparse

from raretag.core.errors import UserError
from raretag.data import limits
from raretag.data.files import shown, wrong

Arrays: TypeAlias = dict[str, NDArray[Any]]
NUMBERS = "fiub"  # kinds of dtypes


def read_features(path: Path) -> Any:
    """An array from .npy (mapped, not read), .safetensors, or a sparse matrix from scipy's .npz."""
    if not path.is_file():
        raise UserError(f"the file of features '{path}' does not exist")
    read: Callable[[Path], Any] = {".npy": _mapped, ".npz": _sparse}.get(path.suffix, _tensor)
    try:
        found = read(path)
    except UserError:
        raise
    except Exception as error:  # damaged files fail in many ways
        reason = shown(" ".join(str(error).split()) or type(error).__name__, 200)
        raise UserError(f"'{path}' is not a file of features: {reason[1:-1]}") from None
    if found.ndim < 2 or found.dtype.kind not in NUMBERS or 0 in found.shape:
        raise UserError(f"'{path}' holds {found.dtype} of shape {found.shape}; expected numbers [N, D]")
    return found


def _mapped(path: Path) -> NDArray[Any]:
    return npy.open_memmap(path, mode="r")  # of this format alone; np.load would take an archive, too


def _tensor(path: Path) -> NDArray[Any]:
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        names = list(file.keys())
        if not names or (len(names) > 1 and "features" not in names):
            held = ", ".join(shown(name) for name in sorted(names)[:8]) or "nothing"
            raise UserError(f"'{path}' holds {held}; expected one tensor, or one named 'features'")
        name = "features" if "features" in names else names[0]
        shape = file.get_slice(name).get_shape()
        limits.refuse_large(path, path.stat().st_size, f"the tensor {shown(name)} of shape {shape}")
        found: NDArray[Any] = file.get_tensor(name)
    return found


def _sparse(path: Path) -> sparse.csr_array[Any]:
    arrays = _unpacked(path)
    form, shape = _form(path, arrays), _shape(path, arrays)
    limits.refuse_sparse(path, *shape)
    data = _vector(path, arrays, "data", NUMBERS)
    if form == "coo":
        places = [_indices(path, arrays, name, size) for name, size in zip(("row", "col"), shape, strict=True)]
        if len({len(data), *map(len, places)}) > 1:
            raise wrong(path, f"has {len(data)} numbers at {len(places[0])} rows and {len(places[1])} columns")
        return sparse.csr_array(sparse.coo_array((data, tuple(places)), shape=shape))
    major, minor = shape if form == "csr" else shape[::-1]
    ends = _pointers(path, arrays, major)
    indices = _indices(path, arrays, "indices", minor)
    if not ends[-1] <= len(indices) == len(data):
        raise wrong(path, f"has {len(data)} numbers and {len(indices)} indices, but indptr ends at {ends[-1]}")
    parts = (data[: ends[-1]], indices[: ends[-1]], ends)
    return sparse.csr_array(parts if form == "csr" else sparse.csc_array(parts, shape=shape), shape=shape)


def _form(path: Path, arrays: Arrays) -> str:
    form = arrays["format"].tobytes().replace(b"\0", b"") if "format" in arrays else b""  # bytes or text
    if form not in (b"csr", b"csc", b"coo"):
        raise wrong(path, f"has the format {shown(form)}; expected a sparse matrix that scipy saved as csr, csc or coo")
    return form.decode()


def _shape(path: Path, arrays: Arrays) -> tuple[int, int]:
    shape = _vector(path, arrays, "shape", "iu").tolist()
    if len(shape) != 2 or min(shape) < 0 or max(shape) >= 2**62:
        raise wrong(path, f"has the shape {shown(shape)}; expected [N, D]")
    return shape[0], shape[1]


def _pointers(path: Path, arrays: Arrays, rows: int) -> NDArray[np.int64]:
    """[rows + 1], from 0 and never falling."""
    ends = _vector(path, arrays, "indptr", "iu")
    if len(ends) != rows + 1 or ends[0] != 0 or (ends[1:] < ends[:-1]).any() or ends[-1] >= 2**62:
        raise wrong(path, f"indptr does not fit {rows} rows; expected {rows + 1} pointers from 0 that never fall")
    return ends.astype(np.int64)


def _indices(path: Path, arrays: Arrays, name: str, below: int) -> NDArray[np.int64]:
    indices = _vector(path, arrays, name, "iu")
    if len(indices) and not 0 <= indices.min() <= indices.max() < below:
        found = f"{indices.min()} to {indices.max()}"
        raise wrong(path, f"'{name}' holds indices from {found}; its shape allows 0 to {below - 1}")
    return indices.astype(np.int32 if below < 2**31 else np.int64)


def _vector(path: Path, arrays: Arrays, name: str, kinds: str) -> NDArray[Any]:
    if name not in arrays:
        raise wrong(path, f"has no array '{name}'; expected a sparse matrix that scipy saved")
    found = arrays[name]
    if found.ndim != 1 or found.dtype.kind not in kinds:
        raise wrong(path, f"{name} is {found.dtype} of shape {found.shape}; expected numbers [n]")
    return found


def read_archive(path: Path) -> tuple[NDArray[Any], list[str]]:
    """`X` [N, D] and `ids` [N] of a NumPy archive: arrays only, no pickled objects, bounded size."""
    arrays = _unpacked(path)
    absent = {"X", "ids"} - set(arrays)
    if absent:
        raise wrong(path, f"has no array '{min(absent)}'; expected X [N, D] and ids [N]")
    x, ids = arrays["X"], arrays["ids"]
    if x.ndim != 2 or x.dtype.kind != "f" or ids.shape != (len(x),) or ids.dtype.kind != "U":
        raise wrong(path, f"holds X {x.shape} {x.dtype} and ids {ids.shape} {ids.dtype}; expected numbers and texts")
    if not np.isfinite(x).all():
        raise wrong(path, "some features are not finite numbers")
    names = ids.tolist()
    if len(set(names)) < len(names):
        raise wrong(path, "some ids are there twice; expected each item once")
    return x, names


def _unpacked(path: Path) -> Arrays:
    """All arrays of a NumPy archive; nothing is unpacked before it is known that all of it fits."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            total, allowed = sum(one.file_size for one in members), limits.unpacked(path.stat().st_size)
            if total > allowed:
                raise wrong(
                    path,
                    f"unpacks to {limits.words(total)}, and a file of its size may to {limits.words(allowed)}; "
                    f"is it damaged? if not, set the variable {limits.MEMORY}={limits.words(total, up=True)}",
                )
            return {one.filename.removesuffix(".npy"): _array(archive, one) for one in members}
    except UserError:
        raise
    except Exception as error:  # damaged archives fail in many ways
        reason = " ".join(str(error).split()) or type(error).__name__
        raise wrong(path, f"cannot be read as a NumPy archive: {shown(reason, 200)[1:-1]}") from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_columns, dtype = read(file)
        size = dtype.itemsize * int(np.prod(shape, dtype=object))
        if dtype.hasobject or size > member.file_size:
            raise ValueError(f"the format of '{shown(member.filename)}' promises {dtype} {shape}, which it cannot hold")
        content = file.read(size)
    found = np.frombuffer(content, dtype, count=int(np.prod(shape, dtype=object)))
    return found.reshape(shape[::-1]).T if by_columns else found.reshape(shape)
