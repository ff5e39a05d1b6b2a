"""Notes on disk of batches under way, so that the next run finds them.

One JSON file a batch, next to the ledger: the keys of its requests, and how their results are to be
read; no prompt and no API key. Anthropic keeps no mark with a batch, so one whose id was not noted
is not found there, and its requests are sent, and paid for, again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from mcranker.errors import LedgerError
from mcranker.llm.masking import shown_url
from mcranker.logs import safe_logger
from personas.io.atomic import write_whole
from personas.ranking.usage import Stage

logger = safe_logger("mcranker.llm")

Key = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Mark = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class BatchNote(BaseModel):
    """One batch."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    model: str
    endpoint: str
    mark: Mark
    created: float
    batch: str | None = None
    requests: dict[Key, tuple[Stage, tuple[str, ...]]]
    """The key of each request, and by which stage and labels its reply is read."""


class BatchNotes:
    """The folder of the notes; several processes may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, mark: str) -> Path:
        """Return the path of a note."""
        return self._folder / f"{mark}.json"

    def write(self, note: BatchNote) -> None:
        """Write a note, in place of the one of the same mark: all of it, or nothing."""
        path = self.path(note.mark)
        with _usable(path):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, note.model_dump_json())

    def read(self, mark: str) -> BatchNote | None:
        """Return a note; None if there is none, or if it cannot be read, which is logged."""
        path = self.path(mark)
        with _usable(path):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                return None
        try:
            return BatchNote.model_validate_json(content)
        except ValidationError:
            logger.warning(
                "%s is no note of a batch, or one of a newer version; its answers cannot be "
                "fetched, and it can be deleted",
                path,
            )
            return None

    def remove(self, mark: str) -> None:
        """Remove a note, if it is there."""
        with _usable(self.path(mark)):
            self.path(mark).unlink(missing_ok=True)

    def of(self, model: str, endpoint: str) -> list[BatchNote]:
        """The notes of one model at one service, oldest first."""
        with _usable(self._folder):
            try:
                marks = [path.stem for path in self._folder.iterdir() if path.suffix == ".json"]
            except FileNotFoundError:
                return []
        where = shown_url(endpoint)
        notes = map(self.read, marks)
        mine = [n for n in notes if n and n.model == model and n.endpoint == where]
        return sorted(mine, key=lambda note: note.created)


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerError(
            f"{str(path)!r}: a batch cannot be noted here ({error.strerror or error}); "
            "use a ledger in a folder that can be written to"
        ) from error
