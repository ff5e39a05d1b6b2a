"""The local models that have a name: where each file comes from and how to know it is right.

The list itself is data, `catalogue.yaml`, beside this file.
"""

from __future__ import annotations

import difflib
import importlib.util
import threading
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from mcranker.errors import ConfigError, ModelNotFound

SUGGESTED_MODEL = "qwen3-4b"
"""Model suggested to a reader who has a hub and enough memory."""

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class Source(BaseModel):
    """A file of a package of a version, or of a Hugging Face repository at a revision."""

    model_config = _FROZEN

    kind: Literal["registry", "hub"]
    name: str
    version: str
    file: str


class CatalogueFile(BaseModel):
    """One file of a model."""

    model_config = _FROZEN

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\.(gguf|onnx|json)$")]
    size: Annotated[int, Field(gt=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    source: Source


class CatalogueEntry(CatalogueFile):
    """One model that `local:NAME` can name."""

    licence: str
    context: Annotated[int, Field(gt=0)]
    note: str
    tokenizer: CatalogueFile | None = None
    dimensions: Annotated[int, Field(ge=0)] = 0

    @property
    def files(self) -> tuple[CatalogueFile, ...]:
        """The files to fetch, the model last."""
        return (self,) if self.tokenizer is None else (self.tokenizer, self)


@cache
def catalogue() -> tuple[CatalogueEntry, ...]:
    """All named models, the default first."""
    text = (resources.files("mcranker.llm.local") / "catalogue.yaml").read_text(encoding="utf-8")
    return tuple(map(CatalogueEntry.model_validate, yaml.safe_load(text)["models"]))


def find(name: str) -> CatalogueEntry | None:
    """The entry of this name or of this file name, or None if the catalogue has neither."""
    wanted = name.casefold()
    fitting = (each for each in catalogue() if wanted in (each.name, each.file.casefold()))
    return next(fitting, None)


def not_found(name: str, *, encoders: bool = False) -> ModelNotFound:
    """The error for a name that is neither a file nor in the catalogue, with suggestions."""
    names = [entry.name for entry in catalogue() if entry.tokenizer is not None or not encoders]
    kind, place, give = "model", "file", "a GGUF file"
    if encoders:
        kind, place, give = "encoder", "folder", "a folder with model.onnx"
    close = difflib.get_close_matches(name.casefold(), names, n=2, cutoff=0.6)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return ModelNotFound(
        f"No local {kind} {name!r}: there is no such {place}, and the catalogue has no such name."
        f"{hint} Give the path of {give} or one of: {', '.join(names)}.",
        model=f"local:{name}",
    )


def check_installed(name: str, packages: Mapping[str, str], extra: str = "local") -> None:
    """Refuse a model whose packages are missing."""
    absent = [package for each, package in packages.items() if not importlib.util.find_spec(each)]
    if absent:
        raise ConfigError(f"{name} needs {' and '.join(absent)}: pip install 'mcranker[{extra}]'.")


def release_apart(release: Callable[[], None]) -> None:
    """Call `release` in a thread of its own, for finalizers."""
    if threading.main_thread().is_alive():
        threading.Thread(target=release, name="mcranker-release").start()
    else:
        release()
