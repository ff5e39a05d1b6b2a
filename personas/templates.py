"""Prompt files: load, check placeholders, render, hash.

A prompt folder holds one text file a prompt (`PROMPTS`), divided into turns by lines that read
``[system]``, ``[user]`` or ``[assistant]``; text before the first such line is the user's, and a
last ``[assistant]`` turn is continued by the model. A turn is a template of Jinja, whose values
stand as ``{{query}}`` and are never looked at again. Every value is neutralised as
`personas.untrusted` says, unless it is marked as the house's `Own`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, cast

import jinja2
from jinja2 import meta
from jinja2.sandbox import SandboxedEnvironment

from personas.errors import PromptError
from personas.files import read_text
from personas.untrusted import Cleaner, Own, marker, without_tokens

Role = Literal["system", "user", "assistant"]

SHIPPED = "paper"
"""The prompt set that is shipped: the paper's contract in this project's words."""


class Placeholders(NamedTuple):
    """Placeholders that a prompt must have, may have, and of which it must have at least one."""

    required: frozenset[str]
    optional: frozenset[str]
    one_of: frozenset[str]
    is_part: bool

    @classmethod
    def read(cls, text: str, *, is_part: bool) -> Placeholders:
        """As in ``query criteria/criteria_names | answer k``."""
        needed, _, optional = text.partition("|")
        required = {each for each in needed.split() if "/" not in each}
        one_of = {each for either in needed.split() if "/" in either for each in either.split("/")}
        values = frozenset(required), frozenset(optional.split()), frozenset(one_of)
        return cls(*values, is_part)

    @property
    def known(self) -> frozenset[str]:
        """Everything that the prompt may contain."""
        return self.required | self.optional | self.one_of


def _contract() -> dict[str, dict[str, Placeholders]]:
    """Family -> prompt -> its placeholders, of ``prompts/placeholders.txt``."""
    text = (resources.files("personas") / "prompts" / "placeholders.txt").read_text("utf-8")
    families: dict[str, dict[str, Placeholders]] = {}
    for family, lines in re.findall(r"^\[(\w+)\]\n((?:.+\n)+)", text, re.MULTILINE):
        families[family] = {
            name.lstrip("*"): Placeholders.read(values, is_part=name.startswith("*"))
            for names, _, values in (line.partition(":") for line in lines.splitlines())
            for name in names.split()
        }
    return families


OPTIONAL_PROMPTS = _contract()
"""Additions to the paper's prompts, by the folder that has the shipped ones; used where a folder
of one's own leaves them out."""

PROMPTS = OPTIONAL_PROMPTS.pop("paper")
"""Every prompt of a set and its placeholders: those without which it could not work, and others."""

PIECES = OPTIONAL_PROMPTS.pop("pieces")
"""Parts of prompts that a folder may leave out: there is what ``paper`` has, and `_INSTEAD`."""

_INSTEAD = {
    "assessment_scientist": "assessment",
    "criteria_dataset_scientist": "criteria_dataset",
}
"""Substitutes in a folder's own prompts for pieces that they lack."""

_OPTIONAL = {
    prompt: needed for family in OPTIONAL_PROMPTS.values() for prompt, needed in family.items()
}
_KNOWN = {**PROMPTS, **PIECES, **_OPTIONAL}
_LINES = frozenset(prompt for prompt, needed in PIECES.items() if needed.is_part)
_ENTRIES_OF_CONTEXT = {"rag_passage_document", "rag_passage_numbered"}

_ROLE_LINE = re.compile(r"^\[(system|user|assistant)\][ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^([A-Za-z][\w -]{0,40}):", re.MULTILINE)
_BEGINNING = re.compile(r"\s*([^{]*)(?:\{\{\s*(number)\s*\}\}([^{]?))?")
_LETTERS = re.compile(r"[^\W\d_]{3}")
_PLAIN = re.compile(r"\{\{ *([A-Za-z_]\w*) *\}\}", re.ASCII)
_JINJA_ONLY = re.compile(r"\{[{%#]|\r|\n\Z")
_WORD = re.compile(r"[^\W\d_]+")
_SPELLED = re.compile(r"[A-Z]{1,3}|[B-DF-HJ-NP-TV-Z]+")
_VOWEL_IN_SPEECH = re.compile(
    r"(?!eu|uni(?!n|d|m)|u[kstr][aeiou]|ukr|one|once)[aeiou]|heir|honest|hono|hour", re.IGNORECASE
)
_ARTICLE = re.compile(r"(?:an?|the)\s|(?:An?|The)\s+(?=[a-z])")
_OPEN = Own("\0")


class Turn(NamedTuple):
    """One turn of a rendered prompt; its first `shared` characters are the same for all values."""

    role: Role
    text: str
    shared: int = 0


@dataclass(frozen=True)
class Template:
    """One prompt: its turns, and the values that are put in already."""

    name: str
    turns: tuple[tuple[Role, str], ...]
    cleaner: Cleaner = field(default_factory=Cleaner, repr=False)
    bound: Mapping[str, Own] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str, text: str, cleaner: Cleaner | None = None) -> Template:
        """Split a file's text into turns."""
        pieces = _ROLE_LINE.split(text)
        blocks = [("user", pieces[0]), *zip(pieces[1::2], pieces[2::2], strict=True)]
        turns = ((cast("Role", role), block.strip()) for role, block in blocks if block.strip())
        return cls(name, tuple(turns), cleaner or Cleaner())

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of the values that are still to be put in."""
        names = frozenset[str]()
        for _, text in self.turns:
            names |= _names(text)
        return names - self.bound.keys()

    def bind(self, values: Mapping[str, str]) -> Template:
        """The template with some values put in; the others stay open."""
        return replace(self, bound=self._with(values))

    def render(self, values: Mapping[str, str]) -> tuple[Turn, ...]:
        """The finished turns, which know how far they are the same for all values."""
        known, turns = self._with(values), []
        try:
            for (role, text), (begun, shared) in zip(self.turns, self._begun, strict=True):
                filled = begun if self.bound.keys() >= _names(text) else _filler(text)(known)
                turns.append(Turn(role, filled, shared))
        except (jinja2.UndefinedError, KeyError) as error:
            missing = _listed(self.placeholders - values.keys()) or str(error)
            raise PromptError(f"prompt {self.name!r}: no value for {missing}") from error
        return tuple(turns)

    @cached_property
    def _begun(self) -> list[tuple[str, int]]:
        """Each turn with the open values marked, and its length before the first of all turns."""
        found, same = [], True
        values = {**self.bound, **dict.fromkeys(self.placeholders, _OPEN)}
        for _, text in self.turns:
            filled = _filler(text)(values)
            beginning, opened, _ = filled.partition(_OPEN)
            found.append((filled, len(beginning) if same else 0))
            same = same and not opened
        return found

    def _with(self, values: Mapping[str, str]) -> dict[str, Own]:
        known = dict(self.bound)
        for name, value in values.items():
            known[name] = value if isinstance(value, Own) else self.cleaner.value(value)
        if "persona" in values:
            known["a_persona"] = Own(with_article(known["persona"]))
        return known


_JINJA = SandboxedEnvironment(undefined=jinja2.StrictUndefined)


@cache
def _filler(text: str) -> Callable[[Mapping[str, str]], str]:
    """A turn's text as a function of its values: without Jinja where it has but plain ones."""
    literals, names = _PLAIN.split(text)[::2], _PLAIN.findall(text)
    if _JINJA_ONLY.search("".join(literals)) or _names(text) != frozenset(names):
        return _JINJA.from_string(text).render
    escaped = [each.replace("{", "{{").replace("}", "}}") for each in literals]
    opened = [f"{{{name}}}" for name in names]
    return "".join(chain(*zip_longest(escaped, opened, fillvalue=""))).format_map


@cache
def _names(text: str) -> frozenset[str]:
    return frozenset(meta.find_undeclared_variables(_JINJA.parse(text)))


def with_article(name: str) -> str:
    """``a nurse``, ``an NLP scientist``, by how the first word sounds; ``the nurse`` as it is."""
    word = next(iter(_WORD.findall(name)), "")
    if _ARTICLE.match(name):
        return name
    spelled = _SPELLED.fullmatch(word)  # letter by letter: "en-el-pee"
    vowel = word[0] in "AEFHILMNORSX" if spelled else _VOWEL_IN_SPEECH.match(word)
    return f"{'an' if vowel else 'a'} {name}"


class PromptSet:
    """All prompts of one folder, checked; `cleaner` neutralises texts for them.

    `hashes` has the SHA-256 of each prompt's text, in hexadecimal, to name what a run was asked;
    pieces are among them where they are other ones than those that are shipped.
    """

    def __init__(self, name: str, texts: Mapping[str, str], *, source: str) -> None:
        self.name = name
        self._texts = {prompt: texts[prompt] for prompt in texts if prompt not in _OPTIONAL}
        complete = {**_shipped(SHIPPED), **self._texts}
        for piece, other in _INSTEAD.items():
            complete[piece] = texts.get(piece, complete[other])
        for prompt, text in {**complete, **texts}.items():
            _check(Template.parse(prompt, text), f"{source}/{prompt}.txt")
        headings = _headings(self._texts)
        entries = {_beginning(complete[piece]) for piece in _LINES}
        self.cleaner = Cleaner(headings, sorted(entries - {""}))
        self._templates = {
            prompt: Template.parse(prompt, text, self.cleaner) for prompt, text in complete.items()
        }
        self._others: dict[str, str] = {}
        # Each family adds its own headings only, so that no text changes in others' prompts.
        for folder, known in OPTIONAL_PROMPTS.items():
            family = {**_shipped(folder), **{each: texts[each] for each in known & texts.keys()}}
            parts = {_beginning(family[piece]) for piece in _ENTRIES_OF_CONTEXT & family.keys()}
            cleaner = Cleaner(headings | _headings(family), sorted((entries | parts) - {""}))
            self._templates |= {
                each: Template.parse(each, text, cleaner) for each, text in family.items()
            }
            self._others |= family
        self._marks = "token" in self["passage"].placeholders
        changed = {
            prompt: text
            for prompt, text in self._texts.items()
            if prompt in PROMPTS or text != _shipped(SHIPPED).get(prompt)
        }
        self.hashes = _hashes(changed)

    @classmethod
    def load(cls, name_or_folder: str | os.PathLike[str]) -> PromptSet:
        """The shipped set, ``"paper"``, or a folder of one's own.

        Raises:
            PromptError: the folder or a file is missing or unreadable, or a prompt lacks a
                placeholder or has one that is unknown.
        """
        if name_or_folder == SHIPPED:
            return cls(SHIPPED, _shipped(SHIPPED), source=f"prompts/{SHIPPED}")
        path = Path(name_or_folder).expanduser()
        if not path.is_dir():
            raise PromptError(
                f"there is no prompt folder {str(name_or_folder)!r}; name a folder, or {SHIPPED!r}"
            )
        files = {prompt: path / f"{prompt}.txt" for prompt in _KNOWN}
        there = {prompt: file for prompt, file in files.items() if file.is_file()}
        if missing := _listed(f"{prompt}.txt" for prompt in PROMPTS.keys() - there.keys()):
            complete = "a folder holds every prompt, so start from a copy of a shipped set"
            raise PromptError(f"{path}: misses {missing}; {complete}")
        try:
            found = {prompt: read_text(file) for prompt, file in there.items()}
        except ValueError as error:
            raise PromptError(str(error)) from error
        return cls(path.name, found, source=str(path))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write every prompt and piece as a file into `folder`, which must be new or empty.

        Raises:
            PromptError: the folder holds something already, or cannot be written.
        """
        path = Path(folder).expanduser()
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise PromptError(f"{path}: is not empty; name a new folder")
            shipped = {piece: text for piece, text in _shipped(SHIPPED).items() if piece in _LINES}
            for prompt, text in {**shipped, **self._texts, **self._others}.items():
                (path / f"{prompt}.txt").write_text(text, encoding="utf-8")
        except OSError as error:
            raise PromptError(f"{path}: cannot be written: {error.strerror or error}") from error

    def __getitem__(self, prompt: str) -> Template:
        return self._templates[prompt]

    def passage(self, text: str, *, query: str) -> Own:
        """A passage as models see it, its end marked by what it cannot contain.

        Where the set's ``passage`` has no ``{{token}}`` to do that, what could pass for a part of
        the prompt is neutralised instead.
        """
        values = {"text": text}
        if self._marks:
            text = without_tokens(text)
            values = {"text": Own(text), "token": marker(text, query=query)}
        return self.piece("passage", values)

    def piece(self, name: str, values: Mapping[str, str]) -> Own:
        """A piece of a prompt, e.g. ``criterion``, with its values."""
        (turn,) = self._templates[name].render(values)
        return Own(turn.text)

    def turns(self, turns: Iterable[tuple[str, str]]) -> Own:
        """A conversation's earlier messages, a role and a text each, as RankRAG shows them."""
        values = ({"speaker": role.title(), "turn": text} for role, text in turns)
        return Own("\n\n".join(self.piece("rag_rankrag_turn", each) for each in values))

    def comparative_hashes(self, prompt: str) -> Mapping[str, str]:
        """`hashes` of a prompt of a ranker that compares, and what goes with it."""
        shared = {name: self.hashes[name] for name in ("passage", "repair") if name in self.hashes}
        return {**self.hashes_of((prompt, "compared_passage")), **shared}

    def hashes_of(self, prompts: Iterable[str]) -> Mapping[str, str]:
        """`hashes` of prompts that a folder may leave out."""
        return _hashes({prompt: self._others[prompt] for prompt in prompts})


def _hashes(texts: Mapping[str, str]) -> Mapping[str, str]:
    return {
        prompt: hashlib.sha256(text.encode()).hexdigest() for prompt, text in sorted(texts.items())
    }


@cache
def _shipped(folder: str) -> Mapping[str, str]:
    """The prompts and pieces of a folder that is shipped."""
    path = resources.files("personas") / "prompts" / folder
    files = {prompt: path / f"{prompt}.txt" for prompt in _KNOWN}
    return {
        prompt: file.read_text(encoding="utf-8") for prompt, file in files.items() if file.is_file()
    }


def _headings(texts: Mapping[str, str]) -> set[str]:
    return {found for text in texts.values() for found in _HEADING.findall(text)}


def _beginning(piece: str) -> str:
    """Return a pattern of the piece's first words, and a number if one follows."""
    found = _BEGINNING.match(piece)
    words, number, behind = found.groups() if found else ("", "", "")
    if not _LETTERS.search(words):
        return ""
    return re.escape(words) + (rf"\d{{1,4}}{re.escape(behind or '')}" if number else "")


def _check(template: Template, where: str) -> None:
    needed = _KNOWN[template.name]
    if not template.turns:
        raise PromptError(f"{where}: is empty")
    try:
        there = template.placeholders
    except jinja2.TemplateSyntaxError as error:
        raise PromptError(
            f"{where}: {error.message}; write placeholders as {{{{query}}}}"
        ) from error
    if missing := needed.required - there:
        raise PromptError(f"{where}: misses the placeholder {_braced(missing)}")
    if needed.one_of and not needed.one_of & there:
        raise PromptError(f"{where}: misses one of the placeholders {_braced(needed.one_of)}")
    if unknown := there - needed.known:
        raise PromptError(
            f"{where}: has the unknown placeholder {_braced(unknown)}; "
            f"known here: {_braced(needed.known)}"
        )
    try:
        template.render(dict.fromkeys(there, Own("1")))
    except (PromptError, jinja2.TemplateError, TypeError, ValueError, ArithmeticError) as error:
        raise PromptError(f"{where}: cannot be filled: {error}") from error
    roles = [role for role, _ in template.turns]
    if needed.is_part and roles != ["user"]:
        raise PromptError(
            f"{where}: is a part of other prompts, so it has no turns; leave out {roles}"
        )
    if "assistant" in roles[:-1] or "system" in roles[1:]:
        raise PromptError(
            f"{where}: [system] comes first and [assistant] last; the turns here are {roles}"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _braced(names: frozenset[str]) -> str:
    return _listed("{{" + name + "}}" for name in names)
