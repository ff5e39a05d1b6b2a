"""Files and folders appear whole or not at all, with the permissions that people expect."""

from __future__ import annotations

import errno
import os
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
@pytest.mark.usefixtures("usual_mask")
def test_a_new_file_and_a_new_folder_get_the_usual_permissions(tmp_path: Path) -> None:
    write_whole(tmp_path / "new.txt", "one\n")
    with replacing_folder(tmp_path / "new" / "folder"):
        pass
    assert mode(tmp_path / "new.txt") == 0o640
    assert mode(tmp_path / "new" / "folder") == 0o750


@posix
@pytest.mark.parametrize("bits", [0o600, 0o664, 0o755])
@pytest.mark.usefixtures("usual_mask")
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "team.yaml"
    path.write_text("old")
    path.chmod(bits)
    seen = []
    with replacing(path) as file:
        seen += [mode(each) for each in tmp_path.iterdir()]
        file.write(b"new")
    assert path.read_text() == "new"
    assert mode(path) == bits
    assert seen == [bits, bits]  # nobody else can read the unfinished one either


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


def test_text_is_utf_8_and_line_ends_stay(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "ä\n")
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa4\n"
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "b", "\ud800")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def full_disk() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", [full_disk, interrupt])
def test_what_was_there_stays_after_an_error(tmp_path: Path, end: Callable[[], None]) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("old")
    folder.mkdir()
    (folder / "old").write_text("old")

    def write_file() -> None:
        with replacing(file) as part:
            part.write(b"half")
            end()

    def fill_folder() -> None:
        with replacing_folder(folder) as new:
            (new / "half").write_text("half")
            end()

    with pytest.raises((OSError, KeyboardInterrupt)) as of_file:
        write_file()
    with pytest.raises((OSError, KeyboardInterrupt)) as of_folder:
        fill_folder()
    assert file.read_text() == "old"
    assert [each.name for each in folder.iterdir()] == ["old"]
    assert sorted(tmp_path.iterdir()) == [file, folder]
    if end is full_disk:
        assert str(of_file.value) == f"[Errno 28] No space left on device: {str(file)!r}"
        assert str(of_folder.value) == (
            f"[Errno 28] No space left on device; what was there is untouched: {str(folder)!r}"
        )


def test_errors_name_what_was_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "file.txt"
    with pytest.raises(FileNotFoundError) as gone:
        write_whole(path, "")
    assert gone.value.filename == str(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError) as below:
        write_whole(tmp_path / "file" / "file.txt", "")
    assert below.value.filename == str(tmp_path / "file" / "file.txt")
    with pytest.raises(IsADirectoryError) as folder:
        write_whole(tmp_path, "")
    assert folder.value.filename == str(tmp_path)


def test_errors_of_others_pass_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as other, replacing(tmp_path / "out"):
        (tmp_path / "input").read_bytes()
    assert other.value.filename == str(tmp_path / "input")
    with pytest.raises(OSError, match=r"^nobody listens$"), replacing(tmp_path / "out"):
        raise OSError("nobody listens")
    assert not list(tmp_path.iterdir())


def test_long_names_are_written(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)  # 254 of 255 bytes
    write_whole(path, "new")
    with replacing_folder(tmp_path / ("b" * 255)) as new:
        (new / "file").write_text("new")
    assert path.read_text() == "new"
    assert (tmp_path / ("b" * 255) / "file").read_text() == "new"


def test_what_another_process_made_meanwhile_may_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with replacing_folder(path, unless=path.exists) as new:
        (new / "ours").write_text("")
        path.mkdir()
    assert not list(path.iterdir())
    assert list(tmp_path.iterdir()) == [path]


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


def test_what_was_left_long_ago_is_swept(tmp_path: Path) -> None:
    old = tmp_path / ".out.0123456789ab.unfinished"
    young = tmp_path / ".out.ba9876543210.unfinished"
    mine = tmp_path / ".mine.unfinished"
    for folder in (old, young, mine):
        folder.mkdir()
    for folder in (old, mine):
        os.utime(folder, (0, 0))
    with replacing_folder(tmp_path / "out"):
        pass
    assert sorted(tmp_path.iterdir()) == sorted([mine, young, tmp_path / "out"])
