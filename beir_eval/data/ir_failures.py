"""Convert errors and logs of ir_datasets to lines that name the next step."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from beir_eval.errors import BeirEvalError, DatasetError
from mcranker.logs import safe_logger

ENVIRONMENT = "IR_DATASETS_HOME"
LONGEST = 300  # characters of a foreign message that are shown

_log = safe_logger("mcranker.beir_eval.datasets")


def home() -> Path:
    """The folder in which ir_datasets keeps its files; it need not be there yet."""
    return Path(os.environ.get(ENVIRONMENT, Path.home() / ".ir_datasets"))


@contextmanager
def plainly(name: str, identifier: str) -> Iterator[None]:
    """Run calls of ir_datasets."""

    def taken_over(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if text.startswith("[starting] http"):
            _log.info("%s: downloading %s", name, text.removeprefix("[starting] "))
        elif text == "[starting] building docstore":
            _log.info("%s: storing its documents in %s", name, home())
        elif text.startswith("download error"):
            _log.info("%s: the download was cut off, or did not begin; trying again", name)
        else:
            _log.debug("ir_datasets: %s", text)
        return False

    logger = logging.getLogger("ir_datasets")
    logger.addFilter(taken_over)
    try:
        yield
    except BeirEvalError:
        raise
    except ImportError as missing:  # a package that only this data set needs
        raise DatasetError(f"{name!r} cannot be read: {_short(missing)}") from missing
    except Exception as failure:  # whatever foreign code raises about damaged files
        raise DatasetError(_explain(failure, name, identifier)) from failure
    finally:
        logger.removeFilter(taken_over)


def _explain(failure: Exception, name: str, identifier: str) -> str:
    if failure.args[:1] == ("All download sources failed",):
        failure = failure.args[1][0][1]  # of the first source; the others are its copies
    text = _short(failure)
    # What is not imported has raised nothing; importing ir_datasets may be what has failed.
    requests, library = sys.modules.get("requests"), sys.modules.get("ir_datasets")
    if requests is not None and isinstance(failure, requests.RequestException):
        host = urlsplit(getattr(failure.request, "url", None) or "").hostname or "the server"
        answer = getattr(failure.response, "status_code", None)
        why = f"no connection to {host} ({text})" if answer is None else f"{host} answered {answer}"
        return (
            f"{name!r} is not on this machine and cannot be downloaded: {why}; try again with a "
            "network, or give a folder in BEIR format"
        )
    if library is not None and isinstance(failure, library.util.HashVerificationError):
        return (
            f"{name!r} was downloaded, but is not the file that was expected, and was thrown away "
            f"({text}); try again, and see whether the network answers with a page of its own"
        )
    if isinstance(failure, FileNotFoundError):
        path = os.fspath(failure.filename or (failure.args[0] if failure.args else ""))
        return f"{name!r} needs {path!r}, which is not there; see https://ir-datasets.com"
    if isinstance(failure, OSError) or text.startswith("Insufficient disk space"):
        where = os.fspath(getattr(failure, "filename", None) or home())
        what = getattr(failure, "strerror", None) or text
        return f"{name!r}: {where!r}: {what}; mend that, or set {ENVIRONMENT} to another folder"
    top, *rest = identifier.split("/")
    # The innermost folder that is there: of BEIR, each data set has its own.
    places = (home().joinpath(top, *rest[:count]) for count in range(len(rest), 0, -1))
    folder = next((each for each in places if top == "beir" and each.is_dir()), home() / top)
    return (
        f"{name!r}: a file is damaged or incomplete ({type(failure).__name__}: {text}); delete "
        f"{os.fspath(folder)!r} and load the data set again"
    )


def _short(failure: BaseException) -> str:
    return " ".join(str(failure).split())[:LONGEST] or "no message"
