"""Settings of the service: a TOML file (see ``docs/serve.md``), or the same as objects."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError
from mcranker.rag.config import PipelineConfig, Preset, own_keys
from mcranker.rankers.keys import check_names, keys_of, located, read_options, read_toml
from personas.errors import fault, shown

if TYPE_CHECKING:
    from mcranker.rag.pipeline import RAGPipeline

GRACE = 5.0  # seconds after a ranking's deadline for returning its partial results

NOT_PER_REQUEST = {
    *("prompts", "concurrency", "query_concurrency", "requests_per_minute", "tokens_per_minute"),
    *("max_calls", "max_cost", "batch", "timeout"),
}
"""Options that name files, limits of the operator, or the shared models."""

Unscored = Literal["falling", "null", "error"]
"""Result for rerank clients of documents that no judge scored."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    if not TYPE_CHECKING:

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
            else:
                return
            where = ".".join(str(part)[:100] for part in first["loc"])
            hint = "; see docs/serve.md for all" if first["type"] == "extra_forbidden" else ""
            raise ConfigError(f"{fault(first, where)}{hint}")


class Limits(_Form):
    """Limits of requests, see docs/serve.md. Times are seconds."""

    rankings: int = Field(32, ge=1, le=10_000)  # at once, of each ranker
    waiting: int = Field(128, ge=0, le=100_000)  # requests; more are refused with 429
    wait: float = Field(30.0, gt=0, le=3600, strict=False)  # of each; then it is refused with 503
    deadline: float = Field(120.0, gt=0, le=86_400, strict=False)  # requests may ask for less
    body: int = Field(4_000_000, ge=1_000, le=1_000_000_000)  # bytes
    body_seconds: float = Field(30.0, gt=0, le=3600, strict=False)  # for a body to arrive
    documents: int = Field(1_000, ge=1, le=1_000_000)  # of a request
    query: int = Field(10_000, ge=1, le=1_000_000)  # characters
    explanations: int = Field(200, ge=0, le=100_000)  # rankings kept for ``/v1/explain``
    explanations_bytes: int = Field(64_000_000, ge=0, le=100_000_000_000)  # that they take, about
    reader: float = Field(20.0, gt=0, le=3600, strict=False)  # pause of a reader of events
    connections: int = Field(1_000, ge=1, le=100_000)  # at once; more are refused with 503
    stop: int = Field(25, ge=0, le=3600)  # for running requests when the service is to stop

    @property
    def values(self) -> int:
        """Values in a body, about: 50 for each document, names and texts included."""
        return 50 * max(self.documents, 1_000)


class RankerSettings(_Form):
    """A ranker that the service offers.

    Attributes:
        name: by which requests choose it.
        ranker: its name in `mcranker.rankers.RANKERS`.
        options: what its class takes, models and team included.
        names: other names for it, and patterns such as ``"rerank-*"``.
        per_request: options that requests may choose; fields of `RankerConfig`, and ``"team"``.
        unscored: what rerank clients get for documents that no judge scored, and from rankers that
            compare: ``"falling"``, numbers that fall with the rank; ``"null"``; or ``"error"``.
        fail_open: 0 to 1; the first document's number if none was scored, those behind it get less.
            With it, a failed ranking is one in input order unless ``on_failure`` is an option.

    Raises:
        ConfigError: there is no such ranker, it does not take an option, or `fail_open` does not
            go with `unscored`.
    """

    name: str = "mcranker"
    ranker: str = "mcranker"
    options: dict[str, Any] = {}
    names: tuple[str, ...] = Field((), strict=False)
    per_request: tuple[str, ...] = Field((), strict=False)
    unscored: Unscored = "falling"
    fail_open: float | None = Field(None, ge=0, le=1)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the ranker's class."""
        return {**({} if self.fail_open is None else {"on_failure": "keep_order"}), **self.options}

    def model_post_init(self, _: Any, /) -> None:
        place = f"ranker {self.name!r}"
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{place}: a name has up to 100 letters, digits and . _ : / -, and begins with a "
                "letter or digit"
            )
        if self.fail_open is not None and self.unscored != "falling":
            raise ConfigError(
                f"{place}: fail_open gives numbers, unscored={self.unscored!r} none; leave out one"
            )
        takes = keys_of(self.ranker)
        check_names(self.options, takes, place)
        for option in self.per_request:
            said = f"{place}: per_request: {option[:100]!r}"
            if option in NOT_PER_REQUEST:
                raise ConfigError(f"{said} is the operator's to choose; leave it out")
            if option not in takes or not (option in RankerConfig.model_fields or option == "team"):
                raise ConfigError(
                    f"{said} is no option that a request could choose; give 'team', or fields of "
                    "RankerConfig"
                )


class AnswerSettings(_Form):
    """The pipeline that answers questions."""

    index: str
    pipeline: PipelineConfig
    options: dict[str, Any] = {}

    def make(self) -> RAGPipeline:
        """Open the index, and make the pipeline."""
        from mcranker.rag.pipeline import RAGPipeline

        return RAGPipeline(self.index, self.pipeline, **self.options)


_ANY = RankerSettings(names=("*",))


class Settings(_Form):
    """The service.

    Attributes:
        rankers: what it offers; the first one serves requests that name no other.
        limits: what requests may take.
        keys: name -> hash of an API key; none are needed if it is empty.
        host: address to listen at.
        port: of it; 0 for any that is free.
        hosts: names by which clients address the service, besides `host`.
        open_metrics: whether ``/metrics`` needs no key.
        answer: answers questions, if there is an index.

    Raises:
        ConfigError: there is no ranker, two share a name, or a value cannot be.
    """

    rankers: tuple[RankerSettings, ...] = (_ANY,)
    limits: Limits = Limits()
    keys: dict[str, Any] = {}
    host: str = Field("127.0.0.1", min_length=1, max_length=255)
    port: int = Field(8080, ge=0, le=65_535)
    hosts: tuple[str, ...] = Field((), strict=False)
    open_metrics: bool = False
    answer: AnswerSettings | None = None

    def model_post_init(self, _: Any, /) -> None:
        names = [name for each in self.rankers for name in (each.name, *each.names)]
        if not self.rankers:
            raise ConfigError("there is no ranker to be served; write a table [rankers.NAME]")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"the name {twice!r} means two rankers; leave it to one")
        for name, value in self.keys.items():
            if not (isinstance(value, str) and _FORM.fullmatch(value)):
                # Without the value, which may be a key.
                raise ConfigError(
                    f"keys: {name!r} is no hash of a key, 'sha256:' and 64 hexadecimal digits; "
                    "'mcranker serve --new-key' makes a key with its hash"
                )

    @property
    def loopback(self) -> bool:
        """True if only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


TABLES = frozenset({"server", "limits", "keys", "rankers", "answer"})
"""Tables of the service's file; a file without any holds the options of one ranker."""
_SERVER = ("host", "port", "hosts", "open_metrics")


def load_settings(path: str | os.PathLike[str]) -> Settings:
    """The service that a TOML file describes, see the module. Nothing is connected yet."""
    path = Path(path)
    base = path.absolute().parent
    try:
        data = _tables(read_toml(path), "", TABLES)
        rankers = _tables(data.get("rankers", {}), "rankers.")
        found = tuple(_ranker(name, table, base) for name, table in rankers.items())
        server = data.get("server", {})
        for name in server.keys() - set(_SERVER):
            raise ConfigError(f"[server]: there is no key {name!r}; see docs/serve.md for all")
        return Settings(
            rankers=found or (_ANY,),
            limits=Limits(**data.get("limits", {})),
            keys=data.get("keys", {}),
            answer=_answer(data["answer"], base) if "answer" in data else None,
            **server,
        )
    except ConfigError as error:
        said = str(error)
        raise ConfigError(said if str(path) in said else f"{path}: {said}") from error


def _tables(
    found: dict[str, Any], above: str, known: frozenset[str] | None = None
) -> dict[str, dict[str, Any]]:
    for name, table in found.items():
        if known is not None and name not in known:
            raise ConfigError(f"there is no key {name!r}; see docs/serve.md for all")
        if not isinstance(table, dict):
            raise ConfigError(f"{above}{name}={shown(table)}; write a table [{above}{name}]")
    return found


_SHARED = ("ranker", "names", "per_request", "unscored", "fail_open")


def _ranker(name: str, table: dict[str, Any], base: Path) -> RankerSettings:
    shared = {key: table[key] for key in _SHARED if key in table}
    own = {key: located(key, table[key], base) for key in table.keys() - shared.keys()}
    known = keys_of(str(shared.get("ranker", "mcranker")))
    options = read_options(own, known, f"ranker {name!r}")
    try:
        return RankerSettings(**{**shared, "name": name, "options": options})
    except ConfigError as error:
        raise ConfigError(f"[rankers.{name}]: {error}") from error


def _answer(table: dict[str, Any], base: Path) -> AnswerSettings:
    """Read the table of the pipeline: its tables are stages, its other keys options of all."""
    stages = {name: value for name, value in table.items() if isinstance(value, dict)}
    own = {name: located(name, table[name], base) for name in table.keys() - stages.keys()}
    index, named = str(own.pop("index", "")), str(own.pop("pipeline", "team"))
    if not index:
        raise ConfigError("[answer]: there is no index; give index = FILE")
    path = named if named in get_args(Preset) else base / Path(named).expanduser()
    return AnswerSettings(
        index=str(base / Path(index).expanduser()),
        pipeline=PipelineConfig.load(path, **stages),
        options=read_options(own, own_keys(), "[answer]"),
    )


_SHORTEST, _LONGEST = 20, 500  # characters of a key
_FORM = re.compile(r"sha256:[0-9a-f]{64}")


def new_key() -> str:
    """A key of 256 random bits."""
    return f"mcr_{secrets.token_urlsafe(32)}"


def hash_key(key: str) -> str:
    """Return the form of a key in the configuration file: ``sha256:`` and 64 hex digits.

    Raises:
        ConfigError: the key is too short or too long, or holds something else than printable
            ASCII without spaces, which headers cannot carry.
    """
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise ConfigError(
            f"the key has {len(key)} characters; give {_SHORTEST} to {_LONGEST} random ones, or "
            "let 'mcranker serve --new-key' make one"
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError("the key must be of printable ASCII characters without spaces")
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def holder_of(authorization: str, hashes: Mapping[str, str]) -> str | None:
    """Return the name of the key in an ``Authorization`` header; None if it is not in `hashes`."""
    scheme, _, given = authorization.strip().partition(" ")
    key = given.strip()
    if scheme.lower() == "basic":
        try:
            key = base64.b64decode(key, validate=True).decode().partition(":")[2]
        except ValueError:
            return None
    elif scheme.lower() != "bearer":
        return None
    # Keys are random, so a fast hash keeps them as well as a slow one.
    digest = "sha256:" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
    equal = [name for name, known in hashes.items() if hmac.compare_digest(known, digest)]
    return equal[-1] if equal else None
