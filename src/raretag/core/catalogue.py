"""Names for the command line: the folder is the list. Python code may as well import the class.

A module `raretag.methods.two_words` holds the class `TwoWords`. Nothing is imported until it is used, and listing a
folder reads its files as text, so that `raretag list` does not wait for torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from raretag.core.errors import UserError

if typing.TYPE_CHECKING:
    from raretag.core.method import Method
    from raretag.core.statistics import LabelStatistics


SLOTS = ("complete", "shape", "keep", "weigh", "score", "reduce")  # of the one equation


def folder(room: str) -> Path:
    spec = find_spec(f"raretag.{room}")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


def names(room: str) -> list[str]:
    """The modules of a room, found without importing any of them; its sub-packages are rooms of their own."""
    return sorted(module.name for module in pkgutil.iter_modules([str(folder(room))]) if not module.ispkg)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that complains about a name."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known) or 'none'}"


def find(room: str, name: str) -> Any:
    """The class of a module: `find("methods", "two_words")` is `raretag.methods.two_words.TwoWords`."""
    if name not in names(room):
        raise UserError(f"there is no '{name}' in {room}; {nearest(name, names(room))}")
    module = importlib.import_module(f"raretag.{room}.{name}")
    return getattr(module, "".join(word.capitalize() for word in name.split("_")))


def build(room: str, name: str, options: dict[str, Any], **offered: Any) -> Any:
    """An object of a room from a user's options; of what is `offered` (statistics, seed, ...) it gets what it names."""
    maker = find(room, name)
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


def build_method(name: str, statistics: LabelStatistics, *, items: int, seed: int = 0, **options: Any) -> Method:
    """A method by its name: `build_method("focal", labels.statistics(), items=len(labels), gamma=2.0)`."""
    return make_method(name, options, statistics, items=items, seed=seed)


def make_method(name: str, options: dict[str, Any], statistics: LabelStatistics, *, items: int, seed: int) -> Method:
    """The same for options that a user typed, which may have any name."""
    method: Method = build("methods", name, options, statistics=statistics, items=items, seed=seed)
    return method


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
    """What a module's text says about itself."""

    name: str
    summary: str  # first line of the docstring
    source: str  # second paragraph: the citation
    slots: tuple[str, ...]  # the slots of the one equation that the module fills
    files: tuple[str, ...]  # what a data set needs below the folder of data sets; alternatives are separated by |

    def missing(self, root: Path | None) -> list[str]:
        """The files that are not there."""
        if root is None:
            return list(self.files)
        return [file for file in self.files if not any((root / one).exists() for one in file.split("|"))]


def entries(room: str) -> list[Entry]:
    """All modules of a room as they describe themselves; reads text only."""
    return [_entry(name, (folder(room) / f"{name}.py").read_text(encoding="utf-8")) for name in names(room)]


def _entry(name: str, text: str) -> Entry:
    tree = ast.parse(text)
    paragraphs = (ast.get_docstring(tree) or "").split("\n\n")
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    made = [call for call in calls if ast.unparse(call.func).split(".")[-1] in ("Objective", "replaced")]
    filled = {keyword.arg for call in made for keyword in call.keywords if keyword.arg}
    source = " ".join(paragraphs[1].split()) if len(paragraphs) > 1 else ""
    return Entry(name, paragraphs[0].strip(), source, tuple(slot for slot in SLOTS if slot in filled), _files(tree))


def _files(tree: ast.Module) -> tuple[str, ...]:
    """The literal `FILES = (...)` of a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FILES":
            return tuple(ast.literal_eval(node.value))
    return ()
