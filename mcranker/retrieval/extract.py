"""Text of PDF and HTML files, taken out in a process of its own.

Such a file may be made to hang its reader or to fill the memory; here it ends that process, and
is reported. The process is this file run on its own: it imports nothing of this package. It reads
a path a line and answers each with a line of JSON.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path

SECONDS = 60
"""To read one file."""

MEMORY = 2_000_000_000
"""Bytes of the process, where the operating system can limit them."""

MOST_PAGES = 10_000
MOST_CHARACTERS = 20_000_000
LARGEST_PDF = 500_000_000
LARGEST_HTML = 50_000_000

_BLOCKS = re.compile(
    "address|article|aside|blockquote|br|caption|dd|details|div|dl|dt|fieldset|figcaption|figure|"
    "footer|form|h[1-6r]|header|li|main|nav|ol|option|p|pre|section|summary|table|tbody|td|tfoot|"
    "th|thead|tr|ul"
)


class Extractor:
    """The process, started for the first file, and again after one that ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def text_of(self, path: Path) -> tuple[str, str]:
        """Text and title of a PDF or HTML file, by its suffix."""
        from mcranker.errors import InputError

        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # it ended: it has no answer
            process.stdin.write(json.dumps(os.path.abspath(path)).encode() + b"\n")  # noqa: PTH100
            process.stdin.flush()
        answer = process.stdout.readline()
        if not answer.endswith(b"\n"):
            self.close()
            raise InputError(
                f"{path}: reading it took over {SECONDS} seconds or {MEMORY / 1e9:g} GB of memory, "
                f"or ended the process (exit code {process.returncode}); save it in another way"
            )
        found = json.loads(answer)
        if "error" in found:
            raise InputError(f"{path}: {found['error']}")
        return found["text"], found["title"]

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class _Unreadable(Exception):
    """The text says why."""


def _main() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the process that started this one
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with Path(os.devnull).open("wb") as nowhere:
        for line in sys.stdin.buffer:
            # Ends this process, also inside of the PDF library.
            faulthandler.dump_traceback_later(SECONDS, exit=True, file=nowhere)
            path = Path(json.loads(line))
            try:
                pdf = path.suffix.lower() == ".pdf"
                title, text = _pdf(path) if pdf else _html(path)
                if len(text) > MOST_CHARACTERS:
                    raise _Unreadable(f"more than {MOST_CHARACTERS:,} characters of text")
                answer = {"title": title, "text": text}
            except OSError as error:
                answer = {"error": f"cannot be read: {error.strerror}"}
            except (_Unreadable, MemoryError, RecursionError) as error:
                answer = {"error": str(error) or "takes too much memory"}
            faulthandler.cancel_dump_traceback_later()
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _pdf(path: Path) -> tuple[str, str]:
    try:
        import pypdfium2
    except ImportError as missing:
        raise _Unreadable("PDF needs pypdfium2; run: pip install 'mcranker[rag]'") from missing
    _check_size(path, LARGEST_PDF)
    try:
        document = pypdfium2.PdfDocument(path)
        if len(document) > MOST_PAGES:
            raise _Unreadable(f"{len(document):,} pages; {MOST_PAGES:,} are read at most")
        pages: list[str] = []
        left = MOST_CHARACTERS
        for number in range(len(document)):
            page = document[number]
            pages.append(page.get_textpage().get_text_range())
            page.close()
            left -= len(pages[-1])
            if left < 0:
                break
        title = document.get_metadata_value("Title")
    except pypdfium2.PdfiumError as error:
        raise _Unreadable(f"no PDF that can be read: {error}") from error
    # The library's mark for a word that a hyphen divides at the end of a line.
    text = "\n".join(pages).replace("\r\n", "\n").replace("\ufffe", "").replace("\0", "")
    if not text.strip():
        raise _Unreadable("there is no text in it; recognise its scanned pages by OCR first")
    return " ".join(title.split()), text


def _html(path: Path) -> tuple[str, str]:
    _check_size(path, LARGEST_HTML)
    content = path.read_bytes()
    declared = re.search(rb"(?i)<meta[^<>]{0,200}charset=[\"']?([\w-]{1,40})", content[:2048])
    coding = declared[1].decode() if declared else "utf-8-sig"
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        coding = "utf-16"
    try:
        parser = _Text(content.decode("utf-8-sig" if coding.lower() == "utf-8" else coding))
    except (UnicodeDecodeError, LookupError) as error:
        raise _Unreadable(f"not {coding}; save it as UTF-8") from error
    lines = (" ".join(line.split()) for line in "".join(parser.texts).split("\n"))
    return " ".join("".join(parser.title).split()), "\n".join(line for line in lines if line)


class _Text(HTMLParser):
    """Texts of a page, with a line break at each block. No element is kept, however deep."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.title: list[str] = []
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in ("script", "style") or (tag == "title" and not self.title):
            self._inside = tag
        elif _BLOCKS.fullmatch(tag):
            self.texts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""
        elif _BLOCKS.fullmatch(tag):
            self.texts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title.append(data)
        elif not self._inside:
            # A line break in the source is a space; those of blocks are added above.
            self.texts.append(data.replace("\n", " "))


def _check_size(path: Path, largest: int) -> None:
    if (size := path.stat().st_size) > largest:
        raise _Unreadable(f"{size / 1e6:,.0f} MB; {largest / 1e6:,.0f} MB are read at most")


if __name__ == "__main__":
    _main()
