"""Prompt files: load, check placeholders, render, hash.

A prompt folder holds one text file a prompt (`PROMPTS`). A file is divided into turns by
lines that read ``[system]``, ``[user]`` or ``[assistant]``; text before the first such line
is the user's. A last ``[assistant]`` turn is a prefill: the model continues it. Values
stand between double braces, ``{{query}}``. They are put in as they are and never looked at
again, so braces in a passage mean nothing.

Values that others wrote are neutralised as `personas.untrusted` says; passages are put
between markers by `fence`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple, cast

from personas.errors import PromptError
from personas.files import read_text
from personas.untrusted import Cleaner

Role = Literal["system", "user", "assistant"]

BUILTIN_SETS = ("paper", "compact")
"""Prompt sets that are shipped: the paper's contract, and short ones for small models."""


class Placeholders(NamedTuple):
    """What a prompt must contain, what it may, and of what it must contain at least one."""

    required: frozenset[str]
    optional: frozenset[str] = frozenset()
    one_of: frozenset[str] = frozenset()

    @property
    def known(self) -> frozenset[str]:
        """Everything that the prompt may contain."""
        return self.required | self.optional | self.one_of


def _placeholders(required: str, optional: str = "", one_of: str = "") -> Placeholders:
    return Placeholders(*(frozenset(names.split()) for names in (required, optional, one_of)))


_CRITERIA = "criteria criteria_names"

PROMPTS: dict[str, Placeholders] = {
    # App. D.1; {{others}} is empty, or says who is on the team already and who is not wanted
    "recruit": _placeholders("query passage number", "others"),
    # Our addition: picking from the library, by one choice or by the subject's likelihood
    "choose": _placeholders("query members number", "others"),
    "subject": _placeholders("query"),
    # App. D.2, D.3 and 5.2.2 (dataset-based criteria)
    "criteria_scientist": _placeholders("query persona", "description"),
    "criteria": _placeholders("query persona", "description"),
    "criteria_dataset": _placeholders("dataset persona", "description"),
    # App. D.4, with and without criteria (Table 2)
    "score": _placeholders("persona query passage answer", "description", _CRITERIA),
    "score_without_criteria": _placeholders("persona query passage answer", "description"),
    # Our addition: the criteria of a whole team, put to one passage in one call
    "panel": _placeholders("query passage"),
    "panel_question": _placeholders("persona criterion k", "description"),
    # App. D.5
    "assess": _placeholders("query passage assessments k"),
    # App. D.6, with and without criteria (Table 2)
    "direct": _placeholders("query passage answer"),
    "direct_with_criteria": _placeholders("query passage answer", "", _CRITERIA),
    # How to answer: put in for {{answer}}
    "answer_integer": _placeholders("k"),
    "answer_label": _placeholders("labels"),
    "answer_per_criterion": _placeholders("k criteria_count"),
    # The one repair turn after an answer that could not be read
    "repair": _placeholders("problem"),
}
"""Every prompt of a set and its placeholders."""

TYPED_PROMPTS: dict[str, Placeholders] = {
    # Our addition: typed questions about a state of query, judges and passages
    "typed_task": _placeholders(""),
    "typed_judge": _placeholders("persona", "description criteria"),
    "typed_score": _placeholders("passage judge"),
    "typed_criterion": _placeholders("passage judge criterion"),
    "typed_direct": _placeholders("passage", "criteria"),
    # A line for each level that is described, the lowest first
    "typed_levels": _placeholders(""),
    "typed_recruit": _placeholders(""),
    # The same in one prompt, for models that answer in text
    "typed_reply": _placeholders("query passages questions levels", "judges task"),
}
"""Prompts of typed questions. A folder may leave them out; the shipped ones then stand in."""

_PLACEHOLDER = re.compile(r"\{\{(?!\{)\s*+((?:[^{}\n]*[^\s{}])?)\s*+\}\}")
_ROLE_LINE = re.compile(r"^\[(system|user|assistant)\][ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^([A-Z][\w ]{0,40}):", re.MULTILINE)
_OF_OTHERS = frozenset(
    {"query", "persona", "description", "dataset", "criterion", "others", "members", "problem"}
)
"""Placeholders whose values others wrote; lists of such texts are cleaned where they are made."""

_NAMES = frozenset({"persona"})


class Turn(NamedTuple):
    """One turn of a rendered prompt.

    The first `shared` characters of the text, and all turns before it, are the same however
    the values of the last `Template.render` are chosen. It is 0 where an earlier turn differs.
    """

    role: Role
    text: str
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Template:
    """One prompt, parsed: turns, each a list of literal texts and placeholder names.

    Attributes:
        name: its name in the set.
        turns: role and parts; parts at even places are literal, at odd places names.
        cleaner: neutralises the values that others wrote.
    """

    name: str
    turns: tuple[tuple[Role, tuple[str, ...]], ...]
    cleaner: Cleaner = field(default_factory=Cleaner, repr=False, compare=False)

    @classmethod
    def parse(cls, name: str, text: str) -> Template:
        """Split a file's text into turns and parts."""
        pieces = _ROLE_LINE.split(text)
        blocks = [("user", pieces[0]), *zip(pieces[1::2], pieces[2::2], strict=True)]
        turns = tuple(
            (cast("Role", role), tuple(_PLACEHOLDER.split(block.strip())))
            for role, block in blocks
            if block.strip()
        )
        return cls(name, turns)

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of the values that are still to be put in."""
        return frozenset(name for _, parts in self.turns for name in parts[1::2])

    def bind(self, values: Mapping[str, str]) -> Template:
        """The template with some values put in; the others stay open."""
        values = self._cleaned(values)
        return replace(
            self, turns=tuple((role, _merge(parts, values)) for role, parts in self.turns)
        )

    def render(self, values: Mapping[str, str]) -> tuple[Turn, ...]:
        """The finished turns, which know how far they are the same for all values.

        Raises:
            PromptError: a placeholder has no value.
        """
        open_ones = self.placeholders - values.keys()
        if open_ones:
            raise PromptError(f"prompt {self.name!r}: no value for {_listed(open_ones)}")
        values = self._cleaned(values)
        turns = []
        all_shared = True
        for role, parts in self.turns:
            pieces = list(parts)
            pieces[1::2] = [values[name] for name in parts[1::2]]
            turns.append(Turn(role, "".join(pieces), len(parts[0]) if all_shared else 0))
            all_shared = all_shared and len(parts) == 1
        return tuple(turns)

    def _cleaned(self, values: Mapping[str, str]) -> dict[str, str]:
        cleaned = dict(values)
        for name in _OF_OTHERS & values.keys():
            clean = self.cleaner.line if name in _NAMES else self.cleaner.text
            cleaned[name] = clean(values[name])
        return cleaned


class PromptSet:
    """All prompts of one folder, checked.

    Attributes:
        name: the shipped set's name, or the folder's.
        cleaner: neutralises texts that others wrote, for these prompts.
    """

    def __init__(
        self,
        name: str,
        texts: Mapping[str, str],
        *,
        source: str,
        typed: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        headings = {found for text in texts.values() for found in _HEADING.findall(text)}
        self.cleaner = Cleaner(headings)
        self._texts = dict(texts)
        self._typed = _shipped_typed() | dict(typed or {})
        headings |= {found for text in self._typed.values() for found in _HEADING.findall(text)}
        self._templates = {
            prompt: replace(
                _checked(Template.parse(prompt, text), f"{source}/{prompt}.txt"), cleaner=cleaner
            )
            for cleaner, group in (
                (self.cleaner, self._texts),
                (Cleaner(headings), self._typed),
            )
            for prompt, text in group.items()
        }

    @classmethod
    def load(cls, name_or_folder: str | os.PathLike[str]) -> PromptSet:
        """A shipped set (``"paper"``, ``"compact"``) or a folder of one's own.

        Raises:
            PromptError: the folder or a file is missing or unreadable, or a prompt lacks a
                placeholder or has one that is unknown.
        """
        if name_or_folder in BUILTIN_SETS:
            folder = resources.files("personas") / "prompts" / str(name_or_folder)
            texts = {
                prompt: (folder / f"{prompt}.txt").read_text(encoding="utf-8") for prompt in PROMPTS
            }
            return cls(str(name_or_folder), texts, source=f"prompts/{name_or_folder}")
        path = Path(name_or_folder).expanduser()
        if not path.is_dir():
            raise PromptError(
                f"there is no prompt folder {str(name_or_folder)!r}; "
                f"name a folder, or one of {_listed(BUILTIN_SETS)}"
            )
        missing = [prompt for prompt in PROMPTS if not (path / f"{prompt}.txt").is_file()]
        if missing:
            raise PromptError(
                f"{path}: misses {_listed(f'{prompt}.txt' for prompt in missing)}; "
                "a folder holds every prompt, so start from a copy of a shipped set"
            )
        try:
            texts = {prompt: read_text(path / f"{prompt}.txt") for prompt in PROMPTS}
            typed = {
                prompt: read_text(path / f"{prompt}.txt")
                for prompt in TYPED_PROMPTS
                if (path / f"{prompt}.txt").is_file()
            }
        except ValueError as error:
            raise PromptError(str(error)) from error
        return cls(path.name, texts, source=str(path), typed=typed)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write every prompt as a file into `folder`, which must be new or empty.

        Raises:
            PromptError: the folder holds something already, or cannot be written.
        """
        path = Path(folder).expanduser()
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise PromptError(f"{path}: is not empty; name a new folder")
            for prompt, text in (self._texts | self._typed).items():
                (path / f"{prompt}.txt").write_text(text, encoding="utf-8")
        except OSError as error:
            raise PromptError(f"{path}: cannot be written: {error.strerror or error}") from error

    def __getitem__(self, prompt: str) -> Template:
        return self._templates[prompt]

    @cached_property
    def hashes(self) -> Mapping[str, str]:
        """SHA-256 of each prompt's text, in hexadecimal; they name what a run was asked."""
        return _hashes(self._texts)

    @cached_property
    def typed_hashes(self) -> Mapping[str, str]:
        """The same for the prompts of typed questions."""
        return _hashes(self._typed)


@lru_cache(maxsize=1)
def _shipped_typed() -> dict[str, str]:
    folder = resources.files("personas") / "prompts" / "typed"
    return {
        prompt: (folder / f"{prompt}.txt").read_text(encoding="utf-8") for prompt in TYPED_PROMPTS
    }


def _hashes(texts: Mapping[str, str]) -> Mapping[str, str]:
    return {
        prompt: hashlib.sha256(text.encode()).hexdigest() for prompt, text in sorted(texts.items())
    }


def _merge(parts: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    merged = [parts[0]]
    for name, literal in zip(parts[1::2], parts[2::2], strict=True):
        if name in values:
            merged[-1] += values[name] + literal
        else:
            merged += [name, literal]
    return tuple(merged)


def _checked(template: Template, where: str) -> Template:
    needed = (PROMPTS | TYPED_PROMPTS)[template.name]
    if not template.turns:
        raise PromptError(f"{where}: is empty")
    missing = needed.required - template.placeholders
    if missing:
        raise PromptError(f"{where}: misses the placeholder {_braced(missing)}")
    if needed.one_of and not needed.one_of & template.placeholders:
        raise PromptError(f"{where}: misses one of the placeholders {_braced(needed.one_of)}")
    unknown = template.placeholders - needed.known
    if unknown:
        raise PromptError(
            f"{where}: has the unknown placeholder {_braced(unknown)}; "
            f"known here: {_braced(needed.known)}"
        )
    roles = [role for role, _ in template.turns]
    if "assistant" in roles[:-1] or "system" in roles[1:]:
        raise PromptError(
            f"{where}: [system] comes first and [assistant] last; the turns here are {roles}"
        )
    return template


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _braced(names: frozenset[str]) -> str:
    return _listed("{{" + name + "}}" for name in names)
