"""Prompt files: load, check placeholders, render, hash.

A prompt folder holds one text file a prompt (`PROMPTS`), divided into turns by lines that read
``[system]``, ``[user]`` or ``[assistant]``; text before the first such line is the user's, and a
last ``[assistant]`` turn is continued by the model. Values take the place of ``{{query}}`` and are
never looked at again, so braces in a passage mean nothing. Texts that prompts are made of, such as
the lines of a rubric (`PIECES`), may be left out. Values that others wrote are neutralised as
`personas.untrusted` says.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple, cast

from personas.errors import PromptError
from personas.files import read_text
from personas.format import with_article
from personas.untrusted import Cleaner, marker, without_tokens

Role = Literal["system", "user", "assistant"]

SHIPPED = "paper"
"""The prompt set that is shipped: the paper's contract in this project's words."""


class Placeholders(NamedTuple):
    """Placeholders that a prompt must have, may have, and of which it must have at least one."""

    required: frozenset[str]
    optional: frozenset[str]
    one_of: frozenset[str]

    @property
    def known(self) -> frozenset[str]:
        """Everything that the prompt may contain."""
        return self.required | self.optional | self.one_of


def _placeholders(required: str = "", optional: str = "", one_of: str = "") -> Placeholders:
    return Placeholders(*(frozenset(names.split()) for names in (required, optional, one_of)))


_CRITERIA = "criteria criteria_names"
_PERSON = "persona a_persona"

PROMPTS: dict[str, Placeholders] = {
    # App. D.1; {{others}} is empty, or says who is on the team already and who is not wanted
    "recruit": _placeholders("query", "passage number others"),
    # Our addition: picking from the library
    "choose": _placeholders("query members", "number others"),
    # App. D.2, D.3 and 5.2.2 (dataset-based criteria)
    "criteria_scientist": _placeholders("query", f"{_PERSON} description"),
    "criteria": _placeholders("query", "description", _PERSON),
    "criteria_dataset": _placeholders("dataset", "description", _PERSON),
    # App. D.4, with and without criteria (Table 2)
    "score": _placeholders("query passage", f"{_PERSON} description answer k", _CRITERIA),
    "score_without_criteria": _placeholders("query passage", "description answer k", _PERSON),
    # App. D.5
    "assess": _placeholders("query passage assessments", "k experts"),
    # App. D.6, with and without criteria (Table 2)
    "direct": _placeholders("query passage", "answer k"),
    "direct_with_criteria": _placeholders("query passage", "answer k", _CRITERIA),
    # How to answer: put in for {{answer}}
    "answer_integer": _placeholders("", "k"),
    "answer_label": _placeholders("", "labels"),
    "answer_per_criterion": _placeholders("", "k criteria_count"),
    # The one repair turn after an answer that could not be read
    "repair": _placeholders("", "problem"),
}
"""Every prompt of a set and its placeholders: those without which it could not work, and others."""

PIECES: dict[str, Placeholders] = {
    # Put in for {{passage}}; {{token}} is what the passage cannot contain
    "passage": _placeholders("text", "token"),
    # A line of {{criteria}}, with and without an explanation, and one of {{criteria_names}}
    "criterion": _placeholders("", "number weight", "name explanation"),
    "criterion_unexplained": _placeholders("name", "number weight"),
    "criterion_name": _placeholders("name", "number weight"),
    # One persona's {{criteria}} or {{criteria_names}} among those of others (Table 2)
    "criteria_of": _placeholders("criteria", f"{_PERSON} description number"),
    # A line of {{assessments}} (App. D.5), for the NLP scientist, and without a score
    "assessment": _placeholders("score", f"{_PERSON} number k"),
    "assessment_scientist": _placeholders("score", f"{_PERSON} number k"),
    "assessment_missing": _placeholders("", f"{_PERSON} number k"),
    # Table 3: App. D.2 for a data set
    "criteria_dataset_scientist": _placeholders("dataset", f"{_PERSON} description"),
}
"""Prompts that a folder may leave out; their placeholders. All but the last are parts of prompts.

Without them there is what the set ``paper`` has, and `_INSTEAD`.
"""

_INSTEAD = {
    "assessment_scientist": "assessment",
    "criteria_dataset_scientist": "criteria_dataset",
}
"""Substitutes in a folder's own prompts for pieces that they lack."""

_LINES = frozenset(PIECES) - {"criteria_dataset_scientist"}
_PARTS = _LINES | {"compared_passage", "rebel_property"}
_PARTS |= {"comparing_persona", "comparing_persona_without_criteria"}
_ENTRIES_OF_CONTEXT = {"rag_passage_document", "rag_passage_numbered"}
_PARTS |= _ENTRIES_OF_CONTEXT | {"rag_rankrag_turn"}

OPTIONAL_PROMPTS: dict[str, dict[str, Placeholders]] = {
    # Typed questions about a state of query, judges and passages
    "typed": {
        "typed_task": _placeholders(),
        "typed_judge": _placeholders("persona", "description criteria"),
        "typed_score": _placeholders("passage judge"),
        "typed_criterion": _placeholders("passage judge criterion"),
        "typed_direct": _placeholders("passage", "criteria"),
        # A line for each level that is described, the lowest first
        "typed_levels": _placeholders(),
        "typed_recruit": _placeholders(),
        # The same in one prompt, for models that answer in text
        "typed_reply": _placeholders("query passages questions levels", "judges task"),
    },
    # Several passages in one call, put in order or chosen among
    "comparative": {
        "rankgpt": _placeholders("query passages", "count"),
        "setwise": _placeholders("query passages", "count labels"),
        # One of {{passages}}, with the number or letter that it is called by
        "compared_passage": _placeholders("name passage"),
    },
    "rebel": {
        # The first call of two: which properties, and how they are scored
        "rebel_infer": _placeholders("query"),
        "rebel_infer_weights": _placeholders("query"),
        "rebel_infer_relevance": _placeholders("query"),
        # The call that scores a window of passages
        "rebel": _placeholders("query passages properties keys", "relevance formula count"),
        "rebel_relevance": _placeholders("query passages", "relevance count"),
        # An entry of {{properties}}
        "rebel_property": _placeholders("number name", "weight explanation"),
        # What one turn has in place of the first call: a line a property, and {{relevance}}
        "rebel_criteria": _placeholders(),
        "rebel_rubric": _placeholders(),
    },
    # Several passages in one call, compared by a persona of a team
    "by_persona": {
        "rankgpt_by_persona": _placeholders("judge query passages", "count"),
        "setwise_by_persona": _placeholders("judge query passages", "count labels"),
        # Put in for {{judge}}: who compares, with a rubric and without
        "comparing_persona": _placeholders("", f"{_PERSON} description", _CRITERIA),
        "comparing_persona_without_criteria": _placeholders("", "description", _PERSON),
    },
    # Why a judge has scored passages as it did, with a rubric and without
    "reasons": {
        "reasons": _placeholders(
            "query passages scores", f"{_PERSON} description count", _CRITERIA
        ),
        "reasons_without_criteria": _placeholders(
            "query passages scores", f"{_PERSON} description count"
        ),
    },
    # From a question to an answer: queries, answers of a pipeline, and its two rankers
    "rag": {
        "rag_hyde": _placeholders("question"),
        "rag_variants_naive": _placeholders("question", "count"),
        "rag_variants_medium": _placeholders("question", "count"),
        "rag_variants_advanced": _placeholders("question", "count"),
        # Decomposition: four calls, the last only for a question composed of several
        "rag_components": _placeholders("question"),
        "rag_rephrase": _placeholders("question components"),
        "rag_complexity": _placeholders("question"),
        "rag_subqueries": _placeholders("question"),
        "rag_answer_naive": _placeholders("question context"),
        "rag_answer_medium": _placeholders("question context"),
        "rag_answer_advanced": _placeholders("question context"),
        "rag_answer_rebel": _placeholders("question context"),
        "rag_answer_rankrag": _placeholders("question context"),
        "rag_answer_rankrag_turns": _placeholders("question context turns"),
        "rag_answer_rankrag_claim": _placeholders("question context"),
        # What RankRAG's training asks for besides a short phrase
        "rag_answer_rankrag_full": _placeholders("question context"),
        "rag_answer_rankrag_number": _placeholders("question context"),
        "rag_answer_rankrag_either": _placeholders("question context"),
        "rag_answer_cited": _placeholders("question context"),
        "rag_shorten": _placeholders("draft", "question words"),
        "rag_p_yes": _placeholders("query passage_text"),
        "rag_rankrag_rank": _placeholders("query passage_text"),
        "rag_rankrag_rank_turns": _placeholders("query passage_text turns"),
        "rag_rankrag_rank_claim": _placeholders("query passage_text"),
        "rag_rankrag_retrieve": _placeholders("question context"),
        # An entry of {{turns}}, and of {{context}}: as G-RAG and as RankRAG have it
        "rag_rankrag_turn": _placeholders("speaker turn"),
        "rag_passage_document": _placeholders("number", "title", "passage passage_text"),
        "rag_passage_numbered": _placeholders("number", "title", "passage passage_text"),
    },
    # A grade of a passage, 0 to 3, and how to answer: put in for {{answer}}
    "umbrela": {
        "umbrela": _placeholders("query passage answer"),
        "answer_umbrela": _placeholders(),
    },
    # Judges of answers
    "judging": {
        "judge_similarity": _placeholders("question reference response"),
        "judge_passage": _placeholders("question passage"),
        "judge_relevance": _placeholders("question response reference context"),
        "judge_faithfulness": _placeholders("question response context", "reference"),
        "judge_nuggets": _placeholders("question reference", "most"),
        "judge_nugget_support": _placeholders("question response nuggets"),
        # Questions written for a test, and checked
    },
}
"""Additions to the paper's prompts, by the folder that has the shipped ones; used where a folder
of one's own leaves them out."""

_OPTIONAL = {
    prompt: needed for family in OPTIONAL_PROMPTS.values() for prompt, needed in family.items()
}
_KNOWN = {**PROMPTS, **PIECES, **_OPTIONAL}

_PLACEHOLDER = re.compile(r"\{\{(?!\{)\s*+((?:[^{}\n]*[^\s{}])?)\s*+\}\}")
_ROLE_LINE = re.compile(r"^\[(system|user|assistant)\][ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^([A-Za-z][\w -]{0,40}):", re.MULTILINE)
_LETTERS = re.compile(r"[^\W\d_]{3}")
_OF_OTHERS = {"query", "persona", "description", "dataset", "criterion", "others", "members"}
_OF_OTHERS |= {"problem", "name", "explanation", "relevance"}
_OF_OTHERS |= {
    "question",
    "components",
    "draft",
    "claim",
    "quote",
    "turn",
    "title",
    "passage_text",
    "nuggets",
}
"""Placeholders whose values others wrote."""

_NAMES = {"persona", "name", "title", "passage_text"}


class Turn(NamedTuple):
    """One turn of a rendered prompt."""

    role: Role
    text: str
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Template:
    """One prompt, parsed: turns, each a list of literal texts and placeholder names."""

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
        turns = []
        for role, (first, *rest) in self.turns:
            merged = [first]
            for name, literal in zip(rest[::2], rest[1::2], strict=True):
                if name in values:
                    merged[-1] += values[name] + literal
                else:
                    merged += [name, literal]
            turns.append((role, tuple(merged)))
        return replace(self, turns=tuple(turns))

    def render(self, values: Mapping[str, str]) -> tuple[Turn, ...]:
        """The finished turns, which know how far they are the same for all values."""
        values = values if _OF_OTHERS.isdisjoint(values) else self._cleaned(values)
        turns = []
        all_shared = True
        for role, parts in self.turns:
            pieces = list(parts)
            try:
                pieces[1::2] = map(values.__getitem__, parts[1::2])
            except KeyError as error:
                open_ones = self.placeholders - values.keys()
                missing = f"prompt {self.name!r}: no value for {_listed(open_ones)}"
                raise PromptError(missing) from error
            turns.append(Turn(role, "".join(pieces), len(parts[0]) if all_shared else 0))
            all_shared = all_shared and len(parts) == 1
        return tuple(turns)

    def _cleaned(self, values: Mapping[str, str]) -> dict[str, str]:
        cleaned = dict(values)
        for name in _OF_OTHERS & values.keys():
            clean = self.cleaner.line if name in _NAMES else self.cleaner.text
            cleaned[name] = clean(values[name])
        if "persona" in cleaned:
            cleaned["a_persona"] = with_article(cleaned["persona"])
        return cleaned


class PromptSet:
    """All prompts of one folder, checked.

    Attributes:
        name: the shipped set's name, or the folder's.
        cleaner: neutralises texts that others wrote, for these prompts.
    """

    def __init__(self, name: str, texts: Mapping[str, str], *, source: str) -> None:
        self.name = name
        self._texts = {prompt: texts[prompt] for prompt in texts if prompt not in _OPTIONAL}
        complete = {**_shipped(SHIPPED), **self._texts}
        for piece, other in _INSTEAD.items():
            complete[piece] = texts.get(piece, complete[other])
        families = [
            {**_shipped(folder), **{prompt: texts[prompt] for prompt in known & texts.keys()}}
            for folder, known in OPTIONAL_PROMPTS.items()
        ]
        self._others = {prompt: text for family in families for prompt, text in family.items()}
        templates = {
            prompt: _checked(Template.parse(prompt, text), f"{source}/{prompt}.txt")
            for prompt, text in {**complete, **self._others}.items()
        }
        headings = _headings(self._texts)
        entries = sorted({_beginning(templates[piece]) for piece in _LINES} - {""})
        self.cleaner = Cleaner(headings, entries)
        cleaners = dict.fromkeys(complete, self.cleaner)
        # Each family adds its own headings only, so that no text changes in others' prompts.
        for family in families:
            parts = {_beginning(templates[piece]) for piece in _ENTRIES_OF_CONTEXT & family.keys()}
            cleaner = Cleaner(headings | _headings(family), [*entries, *sorted(parts - {""})])
            cleaners |= dict.fromkeys(family, cleaner)
        self._templates = {
            prompt: replace(template, cleaner=cleaners[prompt])
            for prompt, template in templates.items()
        }
        self._marks_end = "token" in templates["passage"].placeholders

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
        if missing := PROMPTS.keys() - there.keys():
            raise PromptError(
                f"{path}: misses {_listed(f'{prompt}.txt' for prompt in missing)}; "
                "a folder holds every prompt, so start from a copy of a shipped set"
            )
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

    def passage(self, text: str, *, query: str) -> str:
        """A passage as models see it, its end marked by what it cannot contain.

        Where the set's ``passage`` has no ``{{token}}`` to do that, what could pass for a part of
        the prompt is neutralised instead.
        """
        if not self._marks_end:
            return self.piece("passage", {"text": self.cleaner.text(text)})
        text = without_tokens(text)
        return self.piece("passage", {"text": text, "token": marker(text, query=query)})

    def piece(self, name: str, values: Mapping[str, str]) -> str:
        """A piece of a prompt, e.g. ``criterion``, with its values."""
        (turn,) = self[name].render(values)
        return turn.text

    def turns(self, turns: Iterable[tuple[str, str]]) -> str:
        """A conversation's earlier messages, a role and a text each, as RankRAG shows them."""
        values = ({"speaker": role.title(), "turn": text} for role, text in turns)
        return "\n\n".join(self.piece("rag_rankrag_turn", each) for each in values)

    @cached_property
    def hashes(self) -> Mapping[str, str]:
        """SHA-256 of each prompt's text, in hexadecimal; they name what a run was asked.

        Pieces are among them where they are other ones than those that are shipped.
        """
        return _hashes(
            {
                prompt: text
                for prompt, text in self._texts.items()
                if prompt in PROMPTS or text != _shipped(SHIPPED).get(prompt)
            }
        )

    def comparative_hashes(self, prompt: str) -> Mapping[str, str]:
        """The same for a prompt of a ranker that compares, and what goes with it."""
        shared = {name: self.hashes[name] for name in ("passage", "repair") if name in self.hashes}
        return {**self.hashes_of((prompt, "compared_passage")), **shared}

    def persona_hashes(self, prompt: str) -> Mapping[str, str]:
        """The same for a prompt of a ranker that compares by a team, with the prompts of teams."""
        used = (f"{prompt}_by_persona", "comparing_persona", "comparing_persona_without_criteria")
        return {**self.hashes, **self.hashes_of((*used, "compared_passage"))}

    def hashes_of(self, prompts: Iterable[str]) -> Mapping[str, str]:
        """The same for prompts that a folder may leave out."""
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


def _beginning(piece: Template) -> str:
    """Return a pattern of the piece's first words, and a number if one follows."""
    ((_, (words, *rest)),) = piece.turns
    if not _LETTERS.search(words):
        return ""
    numbered = rest[:1] == ["number"]
    return re.escape(words) + (rf"\d{{1,4}}{re.escape(rest[1][:1])}" if numbered else "")


def _checked(template: Template, where: str) -> Template:
    needed = _KNOWN[template.name]
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
    if template.name in _PARTS and roles != ["user"]:
        raise PromptError(
            f"{where}: is a part of other prompts, so it has no turns; leave out {roles}"
        )
    if "assistant" in roles[:-1] or "system" in roles[1:]:
        raise PromptError(
            f"{where}: [system] comes first and [assistant] last; the turns here are {roles}"
        )
    return template


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _braced(names: frozenset[str]) -> str:
    return _listed("{{" + name + "}}" for name in names)
