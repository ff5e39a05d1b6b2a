"""Convert errors and logs of ir_datasets to lines that name the next step."""

from __future__ import annotations

import errno
import logging
import os
import pickle
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from beir_eval.errors import BeirEvalError, DatasetError
from mcranker.logs import safe_logger

ENVIRONMENT = "IR_DATASETS_HOME"
LONGEST = 300  # characters of a foreign message that are shown

_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_ARCHIVE = "source.zip"
_log = safe_logger("mcranker.beir_eval.datasets")


def home() -> Path:
    """The folder in which ir_datasets keeps its files; it need not be there yet."""
    return Path(os.environ.get(ENVIRONMENT, Path.home() / ".ir_datasets"))


@contextmanager
def plainly(name: str, identifier: str) -> Iterator[None]:
    """Run calls of ir_datasets.

    Its log lines are not shown: those about downloads become records of this package's logger,
    the others such of level DEBUG.
    """
    records = _Records(name)
    logger = logging.getLogger("ir_datasets")
    logger.addFilter(records)
    try:
        yield
    except BeirEvalError:
        raise
    except ImportError as missing:  # a package that only this data set needs
        raise DatasetError(f"{name!r} cannot be read: {_short(missing)}") from missing
    except _foreign() as failure:
        raise DatasetError(_explain(failure, name, identifier)) from failure
    finally:
        logger.removeFilter(records)


class _Records(logging.Filter):
    """Takes what ir_datasets logs to this package's logger."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if text.startswith("[starting] http"):
            _log.info("%s: downloading %s", self._name, text.removeprefix("[starting] "))
        elif text == "[starting] building docstore":
            _log.info("%s: storing its documents in %s", self._name, home())
        elif text.startswith("download error"):
            _log.info("%s: the download was cut off, or did not begin; trying again", self._name)
        else:
            _log.debug("ir_datasets: %s", text)
        return False


def _foreign() -> tuple[type[Exception], ...]:
    """Return the errors raised for the network, the disk and malformed files."""
    kinds: list[type[Exception]] = [
        OSError,
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        pickle.UnpicklingError,
        struct.error,
        EOFError,
        AssertionError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ]
    with suppress(ImportError):  # without it nothing raises its error
        kinds.append(import_module("lz4.block").LZ4BlockError)
    return tuple(kinds)


def _explain(failure: Exception, name: str, identifier: str) -> str:
    if failure.args[:1] == ("All download sources failed",):
        failure = failure.args[1][0][1]  # of the first source; the others are its copies
    # What is not imported has raised nothing; importing ir_datasets may be what has failed.
    requests, library = sys.modules.get("requests"), sys.modules.get("ir_datasets")
    if requests is not None and isinstance(failure, requests.RequestException):
        return _no_download(failure, requests, library, name)
    if library is not None and isinstance(failure, library.util.HashVerificationError):
        return (
            f"{name!r} was downloaded, but is not the file that was expected, and was thrown "
            f"away ({_short(failure)}); try again, and see whether the network answers with a "
            "page of its own"
        )
    if isinstance(failure, FileNotFoundError):
        return _not_there(failure, library, name)
    if isinstance(failure, OSError):
        return _disk(failure, name)
    if str(failure).startswith("Insufficient disk space"):
        return f"{name!r}: {_short(failure)}; make room, or set {ENVIRONMENT} to another folder"
    what = f"{type(failure).__name__}: {_short(failure)}"
    return f"{name!r}: a file is damaged or incomplete ({what}); {_cure(failure, identifier)}"


def _no_download(failure: Any, requests: Any, library: Any, name: str) -> str:
    url = getattr(failure.request, "url", None) or ""
    host = urlsplit(url).hostname or "the server"
    answer = getattr(failure.response, "status_code", None)
    if answer is not None:
        why = f"{host} answered {answer}"
    elif isinstance(failure, requests.Timeout):
        why = f"{host} did not answer in time"
    elif isinstance(failure, requests.exceptions.SSLError):
        why = f"no trusted connection to {host}"
    elif isinstance(failure, requests.ConnectionError):
        why = f"no connection to {host}"
    else:
        why = _short(failure)
    place = _saved_as(library, url)
    by_hand = f", or save {url} as {os.fspath(place)!r}" if place else ""
    return (
        f"{name!r} is not on this machine and cannot be downloaded: {why}; try again with a "
        f"network{by_hand}, or give a folder in BEIR format"
    )


def _not_there(failure: FileNotFoundError, library: Any, name: str) -> str:
    path = Path(failure.filename or (failure.args[0] if failure.args else ""))
    for segment, entry in _downloads(library):
        if "instructions" in entry and home() / segment / entry.get("cache_path", "") == path:
            advice = " ".join(entry["instructions"].format(path=path).split())
            return f"{name!r} cannot be downloaded: {advice}"
    return (
        f"{name!r} needs {os.fspath(path)!r}, which is not there; https://ir-datasets.com says "
        "how to get it"
    )


def _disk(failure: OSError, name: str) -> str:
    where = os.fspath(failure.filename or home())
    if failure.errno in _FULL:
        return (
            f"{name!r}: the disk of {where!r} is full; make room, or set {ENVIRONMENT} to another "
            "folder"
        )
    if failure.errno in _NOT_ALLOWED:
        return f"{name!r}: no permission for {where!r}; set {ENVIRONMENT} to a folder of yours"
    what = failure.strerror or _short(failure)
    return f"{name!r}: {where!r}: {what}; mend that, or set {ENVIRONMENT} to another folder"


def _cure(failure: Exception, identifier: str) -> str:
    top, *rest = identifier.split("/")
    folder = home() / top
    if top != "beir":
        return f"see to the files in {os.fspath(folder)!r}; one that is deleted is fetched again"
    folder = next(
        (
            folder.joinpath(*rest[:count])
            for count in range(len(rest), 0, -1)
            if folder.joinpath(*rest[:count]).is_dir()
        ),
        folder,
    )
    archive = folder / _ARCHIVE
    in_archive = isinstance(failure, (zipfile.BadZipFile, zlib.error, EOFError, KeyError))
    culprit = archive if archive.exists() and in_archive else folder
    return f"delete {os.fspath(culprit)!r} and load the data set again"


def _saved_as(library: Any, url: str) -> Path | None:
    for segment, entry in _downloads(library):
        if entry.get("url") == url and "cache_path" in entry:
            return home() / segment / str(entry["cache_path"])
    return None


def _downloads(library: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(folder, entry) for every file that ir_datasets knows how to get."""
    if library is None:
        return
    for segment, tree in library.util.DownloadConfig.contents().items():
        for entry in _leaves(tree):
            yield segment, entry


def _leaves(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "url" in node or "instructions" in node:
            yield node
        else:
            for inner in node.values():
                yield from _leaves(inner)


def _short(failure: BaseException) -> str:
    return " ".join(str(failure).split())[:LONGEST] or "no message"
