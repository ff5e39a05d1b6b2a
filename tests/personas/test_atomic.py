"""Files and folders appear whole or not at all, with the permissions that people expect."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from personas.io.atomic import replacing, replacing_folder, write_whole

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions, links and pipes of POSIX")


@pytest.fixture
def usual_mask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@posix
@pytest.mark.parametrize("bits", [None, 0o600, 0o664, 0o755])
@pytest.mark.usefixtures("usual_mask")
def test_new_files_get_the_usual_permissions_and_replaced_ones_keep_theirs(
    tmp_path: Path, bits: int | None
) -> None:
    path = tmp_path / "team.yaml"
    if bits is not None:
        path.write_text("old")
        path.chmod(bits)
    seen = []
    with replacing(path) as file:
        seen += [mode(each) for each in tmp_path.iterdir()]
        file.write(b"new")
    assert path.read_text() == "new"
    assert mode(path) == (bits or 0o640)
    assert set(seen) == {bits or 0o640}  # no other user can read the unfinished one either
    with replacing_folder(tmp_path / "new" / "folder"):
        pass
    assert mode(tmp_path / "new" / "folder") == 0o750


@posix
@pytest.mark.parametrize("known", [True, False])
def test_a_link_stays_one(tmp_path: Path, known: bool) -> None:
    real, link = tmp_path / "below" / "real.txt", tmp_path / "link.txt"
    real.parent.mkdir()
    if known:
        real.write_text("old")
    link.symlink_to(real)
    write_whole(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    (tmp_path / "way").symlink_to(real.parent)
    with replacing_folder(tmp_path / "way") as new:
        (new / "other.txt").write_text("other")
    assert (tmp_path / "way").is_symlink()
    assert [each.name for each in real.parent.iterdir()] == ["other.txt"]


@posix
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, "ä")
    reader.join()
    assert read == ["ä".encode()]
    assert pipe.is_fifo()


Write = Callable[[], object]


def full_disk(write: Write) -> None:
    write()
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupt(write: Write) -> None:
    write()
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", [full_disk, interrupt])
def test_what_was_there_stays_after_an_error(tmp_path: Path, end: Callable[[Write], None]) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("old")
    folder.mkdir()
    (folder / "old").write_text("old")
    with pytest.raises((OSError, KeyboardInterrupt)) as of_file, replacing(file) as part:
        end(lambda: part.write(b"half"))
    with pytest.raises((OSError, KeyboardInterrupt)) as of_folder, replacing_folder(folder) as new:
        end(lambda: (new / "half").write_text("half"))
    assert file.read_text() == "old"
    assert [each.name for each in folder.iterdir()] == ["old"]
    assert sorted(tmp_path.iterdir()) == [file, folder]
    if end is full_disk:
        said = "[Errno 28] No space left on device"
        assert str(of_file.value) == f"{said}: {str(file)!r}"
        assert str(of_folder.value) == f"{said}; what was there is untouched: {str(folder)!r}"


def test_a_swap_that_fails_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "marker").write_text("old")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(errno.EIO, "Input/output error", str(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="untouched"), replacing_folder(out) as new:
        (new / "marker").write_text("new")
    assert (out / "marker").read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_what_is_written_to_standard_output_stays(tmp_path: Path) -> None:
    code = (
        "from personas.io.atomic import write_whole\n"
        "write_whole('/dev/stdout', 'first and long'); print(' second', flush=True)"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True, timeout=60)
    assert (tmp_path / "out").read_bytes() == b"first and long second\n"
