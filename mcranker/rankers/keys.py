"""Options of rankers by name, as ``-o KEY=VALUE``, configuration files and suites give them."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from mcranker.config import LARGEST, RankerConfig
from mcranker.errors import ConfigError
from mcranker.llm.models import MODEL_OPTIONS, ROLES
from mcranker.paths import is_file, is_folder
from mcranker.rankers import RANKERS
from personas.errors import fault, shown
from personas.io.lines import read_text
from personas.registry import Registry

NAMED = (
    *("ranker", "model", "base_url", "team", "team_size", "scoring", "ensemble", "depth"),
    *("max_cost", "ledger", "offline"),
)
"""Options with flags of their own on the command line."""
LONGEST_FILE = 1_000_000
"""Bytes of a configuration file."""

KEPT_OUT = {
    "api_key": "set OPENAI_API_KEY or ANTHROPIC_API_KEY instead",
    "config": "write its fields one by one, each as a key of its own",
}
"""Options of constructors that no text can name, with advice."""

_SHARED = {
    "model": "openai:NAME, anthropic:NAME, local:NAME or local:PATH.gguf, for all roles. Without: "
    "MCRANKER_MODEL, else a key that is set, else a small local model.",
    "recruiter_model": "Recruits the personas, instead of model.",
    "criteria_model": "Writes the criteria, instead of model; a strong one helps a weak scorer.",
    "scoring_model": "Scores the passages, instead of model.",
    "assessor_model": "Combines the scores with ensemble=assessor, instead of model; puts the "
    "first passages of rankgpt in order again.",
    "base_url": "Address of an OpenAI- or Anthropic-compatible server. Keys are not given here: "
    "set OPENAI_API_KEY or ANTHROPIC_API_KEY.",
    "team": "A saved team or ranking, or a team of the library; none is recruited then, unless the "
    "team size is larger. Several: personas by name.",
    "ledger": "File or postgresql:// URL that keeps every answer; none for no ledger. Without: "
    "MCRANKER_LEDGER, else a file in the user's cache folder.",
}
_NAMES = ("require", "team")  # lists of names, which may hold a comma
_VALUES = {
    **dict.fromkeys(("require", *MODEL_OPTIONS), "NAME"),
    "base_url": "URL",
    "team": "FILE|NAME",
    "ledger": "FILE|URL|none",
}
_TEAM_FILES = {".yaml", ".yml", ".json"}
_ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)  # of a docstring's list
_NUMBERS = {int: "N", float: "X", bool: "true|false"}


@dataclass(frozen=True, slots=True)
class Key:
    """An option that users name."""

    name: str
    kind: Any = str | None
    default: Any = None
    help: str = ""
    limits: tuple[Any, ...] = ()

    @property
    def values(self) -> str:
        """The values it may have, in short, such as ``N|none``."""
        if self.name in _VALUES:
            return _VALUES[self.name]
        for registry in (each for each in self.limits if isinstance(each, Registry)):
            return "|".join(registry.names)
        parts = _parts(self.kind)
        if self.is_list:
            return "TEXT,TEXT,..."
        literals = [value for part in parts for value in get_args(part)]
        known = [*map(str, literals)] or [_NUMBERS.get(part, "TEXT") for part in parts[:1]]
        return "|".join([*known, *(["none"] if NoneType in get_args(self.kind) else [])])

    @property
    def text(self) -> str:
        """The sentence, the default and the limits, such as ``... [default: 3; 1 to 20]``."""
        default = "none" if self.default is None else self.default
        if isinstance(default, bool):
            default = str(default).lower()
        elif isinstance(default, tuple | list):
            default = ",".join(map(str, default))
        elif isinstance(default, str) and default != default.strip():
            default = repr(default)
        notes = [] if default == "" or self.name in _SHARED else [f"default: {default}"]
        low, high = (
            next((getattr(each, name) for each in self.limits if hasattr(each, name)), None)
            for name in ("ge", "le")
        )
        if low is not None and low != -LARGEST:
            largest = high is None or high > 1_000_000
            notes.append(f"{low:g} or more" if largest else f"{low:g} to {high:,.7g}")
        return f"{self.help} [{'; '.join(notes)}]" if notes else self.help

    @property
    def is_list(self) -> bool:
        """True if it takes several values."""
        lists = (tuple, list, Sequence)
        return self.name in _NAMES or any(get_origin(part) in lists for part in _parts(self.kind))

    def joined(self, values: Sequence[str]) -> Any:
        """Return the value of a key given once or more: a list if it takes one, else the last."""
        if not self.is_list or len(values) == 1:
            return values[-1]
        return tuple(values) if self.name in _NAMES else ",".join(values)

    def read(self, value: Any) -> Any:
        """Convert a value of a command line or a file."""
        if isinstance(value, str):
            if value.lower() == "none" and NoneType in get_args(self.kind):
                return None
            if self.name in _NAMES:
                value = value if self.name == "team" else (value,)
            elif self.is_list:
                value = tuple(part.strip() for part in value.split(",")) if value else ()
        if self.name == "team" and isinstance(value, Sequence):
            return value
        try:
            kind: Any = Annotated[(self.kind, *self.limits)] if self.limits else self.kind
            return TypeAdapter[Any](kind).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ConfigError(fault(first, self.name)) from error


def _fields(config: type[RankerConfig]) -> dict[str, Key]:
    return {
        name: Key(
            name,
            field.annotation,
            field.default,
            " ".join((field.description or "").split()),
            tuple(field.metadata),
        )
        for name, field in config.model_fields.items()
    }


def shared_keys() -> dict[str, Key]:
    """Options of every ranker: models, and the fields of `RankerConfig`."""
    named = {name: Key(name, help=text) for name, text in _SHARED.items() if name != "team"}
    return named | _fields(RankerConfig)


def flag_keys() -> dict[str, Key]:
    """Options with flags of their own, but for the ranker."""
    named = {name: Key(name, help=text) for name, text in _SHARED.items()} | _fields(RankerConfig)
    return {name: named[name] for name in NAMED if name != "ranker"}


def keys_of(*rankers: str) -> dict[str, Key]:
    """Options that these rankers take, all together; without any, those of every ranker."""
    if not rankers:
        return shared_keys()
    found: dict[str, Key] = {}
    for kind in map(RANKERS.get, rankers):
        named = {name: Key(name, help=_SHARED[name]) for name in kind.keywords() if name in _SHARED}
        found |= _fields(kind.config_class) | named
    return found


def own_keys(ranker: str) -> list[Key]:
    """Options that this ranker takes besides those that it shares with others."""
    fields = _fields(RANKERS.get(ranker).config_class)
    return [key for name, key in fields.items() if name not in RankerConfig.model_fields]


def check_names(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse options that `what`, such as "ranker 'direct'", does not know."""
    known = [each for each in known if each not in KEPT_OUT]
    for name in names:
        if name in known:
            continue
        if name in KEPT_OUT:
            raise ConfigError(f"{what} takes no option {name!r} here; {KEPT_OUT[name]}")
        others = [each for each in RANKERS.names if name in keys_of(each)]
        close = difflib.get_close_matches(name[:100], known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see 'mcranker rank --options' for all"
        hint = f"it goes with {', '.join(others)}" if others else hint
        raise ConfigError(f"{what} takes no option {shown(name)}; {hint}")


def read_options(given: Mapping[str, Any], known: Mapping[str, Key], what: str) -> dict[str, Any]:
    """Check and convert options, as `check_names` and `Key.read` do."""
    check_names(given, known, what)
    return {name: known[name].read(value) for name, value in given.items()}


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a configuration file."""
    text = read_text(Path(path), ConfigError, LONGEST_FILE)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error


def located(name: str, value: Any, base: Path) -> Any:
    """Return an option's value, with the whole path of a file that lies beside its file."""
    if not isinstance(value, str):
        return value

    def beside(path: str) -> Path:
        # Without "..", so that a model has one name; links stay.
        return Path(os.path.abspath(base / Path(path).expanduser()))  # noqa: PTH100

    file = beside(value)
    is_team = name == "team" and file.suffix.lower() in _TEAM_FILES
    is_ledger = False
    if name == "ledger" and value != "default":
        from mcranker.llm.ledger.ledger import place_of

        is_ledger = isinstance(place_of(value), Path)
    if is_team or is_ledger or (name == "prompts" and is_folder(file)):
        return str(file)
    if name in MODEL_OPTIONS and value.startswith("local:"):
        model = beside(value.removeprefix("local:"))
        return f"local:{model}" if is_file(model) else value
    return value


def sentences_of(kind: type) -> dict[str, str]:
    """Return what a class's docstring says of its arguments or attributes, by name."""
    found = dict(_ENTRY.findall(inspect.getdoc(kind) or ""))
    texts = {name: " ".join(text.replace("`", "").split()) for name, text in found.items()}
    return {name: f"{text[:1].upper()}{text[1:]}" for name, text in texts.items()}


def needed_models(rankers: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return the models that rankers with these options ask, the default one included."""
    from mcranker.llm.connect import choose_default

    found: list[Any] = []
    for name, options in rankers:
        if RANKERS.get(name).needs_model:
            specs = [options.get(f"{role}_model") or options.get("model") for role in ROLES]
            found += [spec or choose_default(os.environ)[0] for spec in specs]
    return [spec for spec in dict.fromkeys(found) if isinstance(spec, str)]


def _parts(kind: Any) -> list[Any]:
    """Return the types of a union, without None; a type by itself otherwise."""
    if get_origin(kind) is Literal or not (args := get_args(kind)) or isinstance(kind, type):
        return [kind]
    union = NoneType in args or get_origin(kind) not in (tuple, list, Sequence, Mapping)
    return [part for part in args if part is not NoneType] if union else [kind]
