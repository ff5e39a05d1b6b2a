"""Questions with their answers, as files of several projects have them.

```json
{"id": "a1", "question": "What is NSP?", "golden_answers": ["next sentence prediction"],
 "metadata": {"type": "factoid"}, "documents": ["bert.txt"]}
```

That is FlashRAG's form with `documents`, those that support the answer, besides. LiveRAG's fields
(``answer``, ``document_ids``, ``question_categories``), BEIR's (``_id``, ``text``) and RAGAS'
(``user_input``, ``reference``) are read too, and so is an array of such objects.
The ``"messages"`` of a conversation, the last of which is the user's, are a question as well; where
the question is given apart, they may end before it.
A line with ``"keep": false`` is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from beir_eval.errors import DatasetError
from mcranker.errors import InputError
from mcranker.inputs.passages import in_conversation
from personas.io.lines import joined, parsed, read_texts
from personas.ranking.types import Query

LONGEST_LINE = 50_000_000
"""Bytes of a question or of an answer."""

_TEXT = ("question", "text", "query", "user_input")
_ID = ("id", "_id", "question_id", "qid")
_GOLDEN = ("golden_answers", "answers", "answer", "reference")
_DOCUMENTS = ("documents", "document_ids", "supporting_documents")

Message: TypeAlias = dict[str, str]
"""``{"role": "user", "content": "…"}``; the role may also be ``assistant`` or ``system``."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question; what is not known of it is empty."""

    id: str  # unique in its file
    text: str  # as it is asked
    golden_answers: tuple[str, ...] = ()  # right answers in other words
    metadata: Mapping[str, Any] = field(default_factory=dict)  # e.g. its type
    documents: tuple[str, ...] = ()  # ids of those that support the answer
    turns: tuple[tuple[str, str], ...] = ()  # earlier messages, a role and a text each

    @property
    def query(self) -> Query:
        """The question as a pipeline is asked it."""
        return Query(self.text, self.id, self.turns)


def read_questions(path: str | os.PathLike[str]) -> list[Question]:
    """Read a JSONL file of questions; without an id its number from 1 among all lines is the id."""
    found: dict[str, Question] = {}
    for number, (place, record) in enumerate(records(path), 1):
        if record.get("keep") is False:
            continue
        question = question_of(record, place, str(number))
        if question.id in found:
            raise DatasetError(f"{place}: the id {question.id!r} is there twice")
        found[question.id] = question
    if not found:
        raise DatasetError(f"{os.fspath(path)}: holds no question")
    return list(found.values())


def records(path: str | os.PathLike[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield place and object of each line of a JSONL file, or of each entry of a JSON array."""
    for place, record in _entries(os.fspath(path)):
        if not isinstance(record, Mapping):
            raise DatasetError(f"{place}: holds {record!r:.80}; write an object")
        yield place, record


def _entries(path: str) -> Iterator[tuple[str, Any]]:
    lines = read_texts(Path(path), DatasetError, longest=LONGEST_LINE)
    for place, text in lines:
        if not text.startswith("["):
            yield place, parsed(text, [place], DatasetError)
            continue
        whole, places = joined(chain([(place, text)], lines), path, DatasetError)
        for number, entry in enumerate(parsed(whole, places, DatasetError), 1):
            yield f"{path}: entry {number}", entry


def question_of(record: Mapping[str, Any], place: str, number: str = "") -> Question:
    """Return the question of a record; `number` is its id where it has none."""
    text = first_of(record, _TEXT)
    turns: tuple[tuple[str, str], ...] = ()
    if record.get("messages") is not None:
        try:
            query = in_conversation(record["messages"], Query(text) if text is not None else None)
        except InputError as error:
            raise DatasetError(f"{place}: {error}") from error
        text, turns = query.text, query.turns
    if not isinstance(text, str) or not text.strip():
        raise DatasetError(f'{place}: there is no question; give it under "question"')
    name = first_of(record, _ID)
    if name is not None and (isinstance(name, bool) or not isinstance(name, str | int)):
        raise DatasetError(f'{place}: "id" holds {name!r}; write a text')
    metadata = record.get("metadata", record.get("question_categories"))
    return Question(
        id=str(name) if name not in (None, "") else number,
        text=text,
        golden_answers=texts_of(record, _GOLDEN, place),
        metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
        documents=texts_of(record, _DOCUMENTS, place),
        turns=turns,
    )


def messages_of(record: Mapping[str, Any], place: str, *, last: str) -> list[Message]:
    """Return the messages of a conversation, of which the last has that role."""
    found = record.get("messages")
    entries = found if isinstance(found, list) else []
    messages = [
        {"role": each["role"], "content": each["content"]}
        for each in entries
        if isinstance(each, Mapping)
        and each.get("role") in ("system", "user", "assistant")
        and isinstance(each.get("content"), str)
    ]
    if not messages or len(messages) < len(entries) or messages[-1]["role"] != last:
        raise DatasetError(f'{place}: "messages" must be role and content each, the last of {last}')
    return messages


def first_of(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value of the first name that the record has; None if it has none."""
    return next((record[name] for name in names if name in record), None)


def texts_of(record: Mapping[str, Any], names: tuple[str, ...], place: str) -> tuple[str, ...]:
    """Return the texts under the first name that the record has, blank ones left out."""
    found = first_of(record, names)
    entries = [] if found is None else [found] if isinstance(found, str) else found
    if not isinstance(entries, list) or not all(isinstance(each, str) for each in entries):
        raise DatasetError(f'{place}: "{names[0]}" holds {found!r:.80}; write a list of texts')
    return tuple(each for each in entries if each.strip())
