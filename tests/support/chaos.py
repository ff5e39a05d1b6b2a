"""A model provider on the loopback device that fails as real ones do, by seeded rates.

It speaks OpenAI's chat protocol and Anthropic's, recruits and writes rubrics by rote, and
gives every persona and passage the score that `truth` says, so a test can tell a score that
was made up. What befalls a request depends only on the seed, the prompt, and how often the
prompt came before; never on the order in which requests arrive.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from aiohttp import web
from anyio.from_thread import start_blocking_portal

from tests.support.loopback import (
    Answer,
    Body,
    Drop,
    Hang,
    anthropic_message,
    completion,
    listening,
    openai_error,
    position,
    respond,
)
from tests.support.scripted import RECRUITS, RUBRIC

TOP = 10
"""The highest score that `truth` gives: the paper's k."""

_PERSONA = re.compile(r"^Role: you are an? (.+)\.$", re.MULTILINE)
_PASSAGE = re.compile(r"\[passage (\S+)\]")


def _refusal(status: int, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, openai_error(f"chaos {status}"), named)


WIRE_FAULTS: dict[str, Callable[[bytes], Answer | Drop | Hang]] = {
    "429 with a time": lambda _: _refusal(429, retry_after="1", retry_after_ms="10"),
    "429": lambda _: _refusal(429),
    "500": lambda _: _refusal(500),
    "503": lambda _: _refusal(503),
    "529": lambda _: _refusal(529),
    "timeout": lambda _: Hang(),
    "drop": lambda _: Drop(),
    "drop in the body": lambda body: Drop(after=body[: len(body) // 2]),
    "cut body": lambda body: Answer(body=body[: len(body) // 2]),
    "HTML": lambda _: Answer(body=b"<html>a gateway</html>", headers={"Content-Type": "text/html"}),
}
"""What can happen to the body of a good answer."""

TEXT_FAULTS: dict[str, Callable[[str, Body], str]] = {
    "prose": lambda key, said: "It is hard to tell, but I would say seven.",
    "out of range": lambda key, said: json.dumps({key: TOP + 1 if key == "Score" else []}),
    "cut text": lambda key, said: json.dumps(said)[:-2],
    "cut number": lambda key, said: str(said[key])[:1],
    "contradiction": lambda key, said: (
        f'{{"{key}": {_other(said[key])}, {json.dumps(said)[1:-1]}, "{key}": {_other(said[key])}}}'
    ),
}
"""What a model can say, in a whole and paid answer, instead of what it should."""

MIXED = dict.fromkeys([*WIRE_FAULTS, *TEXT_FAULTS], 0.005) | dict.fromkeys(
    ("500", "503", "drop", "drop in the body", "cut body"), 0.01
)
"""Rates: a tenth of the requests fails."""

GOOD = "good"


@dataclass(eq=False)
class Reception:
    """One request that came."""

    prompt: str  # a digest of all messages: a retry has the same one, a repair turn another
    about: tuple[str, str]  # persona and doc_id of a request for a score, else two empty texts
    fate: str  # `GOOD` or the name of a fault
    answered: bool = False  # a whole body with status 200 has gone


class Chaos:
    """The provider: its address, and what became of each request.

    Args:
        rates: fault -> share of the requests; what is left of 1 is answered well.
        seed: of all chance.
        latency: seconds before an answer, at least and at most.
        always: passage -> the fault of every request about it.
    """

    def __init__(
        self,
        rates: Mapping[str, float],
        *,
        seed: int,
        latency: tuple[float, float],
        always: Mapping[str, str],
    ) -> None:
        assert sum(rates.values()) < 1
        self.fates = [*rates, GOOD]
        self._shares = [*rates.values(), 1 - sum(rates.values())]
        self._seed = seed
        self._latency = latency
        self.always = always
        self._times_seen: Counter[str] = Counter()
        self._alarms: list[tuple[int, threading.Event]] = []
        self.receptions: list[Reception] = []
        self.root = ""

    @property
    def url(self) -> str:
        """The base URL for clients of OpenAI's protocol."""
        return f"{self.root}/v1"

    @property
    def duplicates(self) -> int:
        """Requests beyond the first with the same prompt."""
        return len(self.receptions) - self.distinct

    @property
    def distinct(self) -> int:
        """Requests whose prompt had not come before."""
        return len(self._times_seen)

    @property
    def answered(self) -> int:
        """Requests with a whole answer, good or bad."""
        return sum(reception.answered for reception in self.receptions)

    def asked_again(self, ends: Sequence[int]) -> int:
        """Return how many answers of a process were asked for again by later ones, at most.

        Those that were under way when it was ended may have come too late to be kept.

        Args:
            ends: how many requests had come in all when each process was ended.
        """
        known = [
            {each.prompt for each in self.receptions[begin:end] if each.answered}
            & {each.prompt for each in self.receptions[end:]}
            for begin, end in pairwise([0, *ends])
        ]
        return max(map(len, known))

    def alarm(self, receptions: int) -> threading.Event:
        """Set once so many requests have come in all."""
        event = threading.Event()
        self._alarms.append((receptions, event))
        if len(self.receptions) >= receptions:
            event.set()
        return event

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        first = next(turn["content"] for turn in body["messages"] if turn["role"] == "user")
        if isinstance(first, list):  # divided for the prompt cache
            first = "".join(part["text"] for part in first)
        told = json.dumps([body.get("system"), body["messages"]])
        prompt = hashlib.sha256(told.encode()).hexdigest()
        luck = random.Random(f"{self._seed} {prompt} {self._times_seen[prompt]}")
        (fate,) = luck.choices(self.fates, self._shares)
        form = _schema(body)
        about = _about(first) if form in ("Score", "") else ("", "")
        fate = self.always.get(about[1], fate)
        reception = Reception(prompt, about, fate)
        self._times_seen[prompt] += 1
        self.receptions.append(reception)
        for count, event in self._alarms:
            if len(self.receptions) >= count:
                event.set()
        await asyncio.sleep(luck.uniform(*self._latency))
        speak = _anthropic if request.path.endswith("messages") else _openai
        said = speak(
            _said(form, about, fate), cut=fate.startswith("cut"), labels="logprobs" in body
        )
        whole = json.dumps(said).encode()
        fault = WIRE_FAULTS.get(fate)
        response = await respond(request, fault(whole) if fault else Answer(body=whole))
        reception.answered = fault is None
        return response

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve in this event loop."""
        async with listening(self.handle) as port:
            self.root = f"http://127.0.0.1:{port}"
            yield


class Outage(dict[str, str]):
    """For `Chaos.always`: the same fault for every request, once so many were answered."""

    def __init__(self, server: Chaos, fault: str, *, after: int) -> None:
        super().__init__()
        self._server, self._fault, self._after = server, fault, after

    def get(self, key: str, default: Any = None) -> Any:
        return self._fault if self._server.answered >= self._after else default


@contextmanager
def chaos(
    rates: Mapping[str, float] = MIXED,
    *,
    seed: int = 0,
    latency: tuple[float, float] = (0.0, 0.0),
    always: Mapping[str, str] | None = None,
) -> Iterator[Chaos]:
    """A running `Chaos` in a thread and an event loop of its own."""
    server = Chaos(rates, seed=seed, latency=latency, always=always or {})
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server.running()):
        yield server


def truth(persona: str, doc_id: str) -> int:
    """The score that the server gives, 0 to `TOP`, unless what it says is unusable."""
    return hashlib.sha256(f"{persona}\0{doc_id}".encode()).digest()[0] % (TOP + 1)


def _about(prompt: str) -> tuple[str, str]:
    persona, shown = _PERSONA.search(prompt), _PASSAGE.search(prompt)
    assert persona, prompt
    assert shown, prompt
    return persona.group(1), shown.group(1)


def _schema(body: Body) -> str:
    """The first key of the object that is asked for, or nothing where labels are."""
    wanted = body.get("response_format", {}).get("json_schema") or body.get(
        "output_config", {}
    ).get("format", {"schema": {"properties": {"": None}}})
    return str(next(iter(wanted["schema"]["properties"])))


def _said(form: str, about: tuple[str, str], fate: str) -> str:
    if not form:
        return "prose" if fate in TEXT_FAULTS else str(truth(*about))
    wanted: dict[str, Body] = {
        "Identities": json.loads(RECRUITS),
        "Criteria": json.loads(RUBRIC),
        "Score": {"Score": truth(*about)},
    }
    wrong = TEXT_FAULTS.get(fate)
    return wrong(form, wanted[form]) if wrong else json.dumps(wanted[form])


def _other(value: Any) -> str:
    return json.dumps((value + 1) % (TOP + 1) if isinstance(value, int) else ["something else"])


def _openai(text: str, *, cut: bool, labels: bool) -> Body:
    logprobs = {"content": [position(text, **{text: 1.0})]} if labels else None
    return completion(text, finish_reason="length" if cut else "stop", logprobs=logprobs)


def _anthropic(text: str, *, cut: bool, labels: bool) -> Body:
    assert not labels
    return anthropic_message(text, stop_reason="max_tokens" if cut else "end_turn")
