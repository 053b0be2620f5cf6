"""From a name to the class behind it: ours, from tables that anyone can read, and those of other packages.

Every room that can be chosen from by name has a table `REGISTRY` in its `__init__.py`: name -> "module:Class", as
strings, so that listing loads neither torch nor the modules. Other packages add names with entry points
(`[project.entry-points."raretag.methods"]`), and `package.module:Class` needs no registration at all.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from raretag.core.errors import UserError, some

# Rooms that a name of another room may stand for: `--method committee` names a solver.
MOST_NAMES = 60  # in a sentence; no room has more, but a table may have any number of columns
_ALSO = {"methods": ("solvers", "ranking")}
_INSTALLED_ONLY: ContextVar[bool] = ContextVar("installed_only", default=False)


@contextmanager
def installed_only() -> Iterator[None]:
    """Within, a name from outside is looked for where Python looks, and not in the current folder.

    For names that stand in a file: a run folder of a stranger may bring a module with it, which must not run because
    somebody is in that folder.
    """
    token = _INSTALLED_ONLY.set(True)
    try:
        yield
    finally:
        _INSTALLED_ONLY.reset(token)


def table(room: str) -> dict[str, str]:
    """Name -> "module:Class" for all names of a room: `table("methods")["focal"]`."""
    own: dict[str, str] = dict(importlib.import_module(f"raretag.{room}").REGISTRY)
    return {**_from_packages(room), **own}  # a package cannot replace what is ours


@cache
def _from_packages(room: str) -> Mapping[str, str]:
    return {point.name: point.value for point in entry_points(group=f"raretag.{room}")}


def names(room: str) -> list[str]:
    """The names of a room, found without importing what they stand for."""
    return sorted(table(room))


def is_known(room: str, name: str) -> bool:
    """Whether a name may be used, as far as can be told without importing anything."""
    return ":" in name or any(name in table(one) for one in (room, *_ALSO.get(room, ())))


def room_of(room: str, name: str) -> str:
    """The room that has the name: "solvers" for a solver that was asked for as a method."""
    return next((one for one in (room, *_ALSO.get(room, ())) if name in table(one)), room)


def refuse_unknown(room: str, name: str) -> None:
    """Raise the error that names the nearest known name."""
    if not is_known(room, name):
        known = [one for shelf in (room, *_ALSO.get(room, ())) for one in table(shelf)]
        raise UserError(f"there is no '{name[:60]}' in {room}; {nearest(name[:60], known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that complains about a name."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known: {some(known, MOST_NAMES) or 'none'}"


def find(room: str, name: str) -> Any:
    """The class that a name stands for: `find("methods", "focal")` is `raretag.methods.focal.Focal`."""
    refuse_unknown(room, name)
    return _imported(table(room_of(room, name)).get(name, name), outside=":" in name)


def _imported(target: str, *, outside: bool) -> Any:
    module, _, attribute = target.partition(":")
    here = outside and not _INSTALLED_ONLY.get()
    if here and os.getcwd() not in sys.path:  # a user's own file beside the data, as `python -m` would find it
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        if not outside:
            raise
        where = "installed or below this folder" if here else "installed; if you trust it, put its folder in PYTHONPATH"
        raise UserError(f"'{target}' cannot be imported ({error}); expected package.module:Class, {where}") from None
    except AttributeError:
        raise UserError(f"the module '{module}' has no '{attribute}'; expected package.module:Class") from None


def build(room: str, name: str, options: Mapping[str, Any], *, kind: type | None = None, **offered: Any) -> Any:
    """An object of a room from a user's options; of what is `offered` (statistics, seed, ...) it gets what it names.

    `kind` is the class that a name from outside must be derived from: a configuration may come from a stranger, and
    must not be able to call just anything.
    """
    maker = find(room, name)
    if ":" in name and kind is not None and not (inspect.isclass(maker) and issubclass(maker, kind)):
        raise UserError(f"'{name}' is not a {kind.__name__}: expected a class derived from {kind.__module__}")
    return construct(name, maker, options, **offered)


def construct(name: str, maker: Callable[..., Any], options: Mapping[str, Any], **offered: Any) -> Any:
    """The same for a class that is at hand already; `name` is for the sentences of errors."""
    hints = typing.get_type_hints(maker.__init__ if inspect.isclass(maker) else maker)
    accepted = parameters(maker)
    known = [option for option in accepted if option not in offered]
    for option, value in options.items():
        if option not in known:
            raise UserError(f"'{name}' has no option '{option}'; {nearest(option, known)}")
        check(f"{name}.{option}", value, hints.get(option, Any))
    missing = [
        option for option in known if accepted[option].default is inspect.Parameter.empty and option not in options
    ]
    if missing:
        raise UserError(f"'{name}' needs the option '{missing[0]}', for example through `--set ...{missing[0]}=VALUE`")
    return maker(**{key: value for key, value in offered.items() if key in accepted}, **options)


def parameters(maker: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return {key: value for key, value in inspect.signature(maker).parameters.items() if key != "self"}


def check(where: str, value: Any, hint: Any) -> None:
    """Refuse a value of the wrong type before it becomes a strange error far away."""
    allowed = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        if not any(_fits(value, one) for one in allowed):
            raise UserError(f"{where} is {value!r}; expected {_words(hint)}")
    elif typing.get_origin(hint) is typing.Literal:
        if value not in allowed:
            raise UserError(f"{where} is {value!r}; expected one of {', '.join(map(repr, allowed))}")
    elif hint is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UserError(f"{where} is {value!r}; expected a number")
    elif hint in (int, bool, str) and type(value) is not hint:
        raise UserError(f"{where} is {value!r}; expected {hint.__name__}")


def _fits(value: Any, hint: Any) -> bool:
    if hint is type(None):
        return value is None
    try:
        check("", value, hint)
    except UserError:
        return False
    return value is not None


def _words(hint: Any) -> str:
    """A type as a user would say it."""
    arms = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_words(one) for one in arms)
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(repr, arms))
    plain = {float: "a number", int: "a whole number", str: "a word", bool: "true or false", type(None): "null"}
    return plain.get(hint, str(hint))


@dataclass(frozen=True, slots=True)
class Entry:
    """What a name stands for, as its docstring tells it."""

    name: str
    target: str  # "module:Class"
    docstring: str  # of the module, or of the class where a module holds several names
    files: tuple[str, ...]  # what a data set needs below the folder of data sets; alternatives are separated by |

    @property
    def summary(self) -> str:
        """The first line."""
        return self.docstring.split("\n\n")[0].strip()

    @property
    def source(self) -> str:
        """The second paragraph: a citation, or where to get a data set."""
        return " ".join(("\n\n".join(self.docstring.split("\n\n")[1:2])).split())

    def missing(self, root: Path | None) -> list[str]:
        """The files that are not there."""
        if root is None:
            return list(self.files)
        return [file for file in self.files if not any((root / one).exists() for one in file.split("|"))]


def entries(room: str) -> list[Entry]:
    """All names of a room as they describe themselves, sorted. Reads source text and imports no module of the room."""
    targets = table(room)
    modules = [target.partition(":")[0] for target in targets.values()]
    return [_entry(name, target, modules.count(target.partition(":")[0])) for name, target in sorted(targets.items())]


def _entry(name: str, target: str, names_in_module: int) -> Entry:
    attribute = target.partition(":")[2]
    tree = ast.parse(text_of(target))
    made = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == attribute), None)
    alone = names_in_module == 1 or made is None
    docstring = ast.get_docstring(tree if alone or made is None else made) or ""
    return Entry(name, target, docstring, (_files(made.body) if made else ()) or _files(tree.body))


def text_of(target: str) -> str:
    """The source of a "module:Class"; empty where there is none to read."""
    spec = find_spec(target.partition(":")[0])
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    return Path(spec.origin).read_text(encoding="utf-8")


def _files(body: list[ast.stmt]) -> tuple[str, ...]:
    """The literal `FILES = (...)` of a module or a class."""
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FILES":
            return tuple(ast.literal_eval(node.value))
    return ()
