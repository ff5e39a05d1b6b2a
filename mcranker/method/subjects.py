"""Which personas of the library know the subject of a query, by a weak model's likelihoods.

A small model cannot name experts, nor pick them from a list, but the words with which it
would go on after "this question belongs to the field of" tell the subject well. Each
persona is scored by the mean log-probability of the first words of its topics, less the same
for queries that are about nothing in particular or about something else, so that words that
are likely anywhere do not count.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from personas import Member

CALIBRATION_QUERIES = (
    "N/A",
    "How does it work?",
    "Tell me more about this.",
    "How to plant tomatoes in spring?",
    "What is the capital of Peru?",
    "latest smartphone reviews",
)
"""Three queries about nothing in particular, and three about things far apart."""

_UNLISTED = 0.5
"""How far below the least likely word listed a word that is not listed counts, in nats."""


def first_words(members: Sequence[Member]) -> tuple[str, ...]:
    """The first word of every topic of every member, each once, in alphabetical order."""
    return tuple(
        sorted({_first_word(topic) for member in members for topic in member.persona.topics})
    )


def suitability(
    members: Sequence[Member],
    logprobs: Mapping[str, float],
    baselines: Sequence[Mapping[str, float]],
) -> list[float]:
    """How much better each member's topics fit this query than the calibration queries, in nats.

    Args:
        members: in the order of the result; each has at least one topic.
        logprobs: first word -> log-probability for the query.
        baselines: the same for each of the calibration queries.
    """
    base = [_mean_logprobs(members, each) for each in baselines]
    here = _mean_logprobs(members, logprobs)
    return [value - statistics.fmean(column) for value, *column in zip(here, *base, strict=True)]


def lift_by_topic(
    member: Member, logprobs: Mapping[str, float], baselines: Sequence[Mapping[str, float]]
) -> list[tuple[float, str]]:
    """The member's topics by how much the query speaks for them, in nats, most first."""
    lifts = []
    for topic in member.persona.topics:
        word = _first_word(topic)
        usual = statistics.fmean(_logprob(each, word) for each in baselines)
        lifts.append((_logprob(logprobs, word) - usual, topic))
    return sorted(lifts, key=lambda pair: -pair[0])


def _mean_logprobs(members: Sequence[Member], logprobs: Mapping[str, float]) -> list[float]:
    return [
        statistics.fmean(_logprob(logprobs, _first_word(topic)) for topic in member.persona.topics)
        for member in members
    ]


def _logprob(logprobs: Mapping[str, float], word: str) -> float:
    known = logprobs.get(word)
    return known if known is not None else min(logprobs.values(), default=0.0) - _UNLISTED


def _first_word(topic: str) -> str:
    return topic.split(maxsplit=1)[0].casefold()
