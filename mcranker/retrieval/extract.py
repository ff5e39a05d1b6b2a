"""Text of PDF, HTML, Office and EPUB files, taken out in a process of its own.

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
import zipfile
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

SECONDS = 60  # to read one file
MEMORY = 2_000_000_000  # bytes of the process, where the operating system can limit them
MOST_PAGES = 10_000
MOST_CHARACTERS = 20_000_000
LARGEST_PDF = 500_000_000
LARGEST_HTML = 50_000_000

OFFICE = (".docx", ".pptx", ".xlsx", ".epub")
ENDINGS = (".html", ".htm", ".xhtml", ".pdf", *OFFICE)  # endings of files whose text is taken out
_GUESSED = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r"),
    *("gb18030", "big5", "cp932", "euc_jp", "cp949"),
)
_DECLARED = re.compile(rb"(?i)<meta[^<>]{0,200}charset=[\"']?([\w-]{1,40})")
_OF_TEXTS = re.compile(r"(?:iso-?8859|windows|cp|ibm|koi8|mac|latin|tis|gb|big5|euc|s(?:hift|jis))")
"""Beginnings of encodings that a page may declare; others, such as UTF-7, hide what it says."""


class Extractor:
    """The process, started for the first file, and again after one that ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def text_of(self, path: Path) -> tuple[str, str]:
        """Text and title of a file, by its ending."""
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
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class _Unreadable(Exception):
    pass


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
                ending = path.suffix.lower()
                read = _pdf if ending == ".pdf" else _office if ending in OFFICE else _html
                title, text = read(path)
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
        pages, size = list[str](), 0
        for page in document:
            pages.append(page.get_textpage().get_text_range())
            page.close()
            if (size := size + len(pages[-1])) > MOST_CHARACTERS:
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
    page = _decoded(content)
    try:
        import trafilatura
    except ImportError as missing:
        raise _Unreadable("HTML needs trafilatura; run: pip install 'mcranker[rag]'") from missing
    from lxml import etree, html

    try:
        parser = html.HTMLParser(encoding="utf-8", huge_tree=True)
        tree = html.document_fromstring(page.encode(errors="replace"), parser=parser)
    except etree.ParserError:  # nothing is in it
        return "", ""
    title = " ".join((tree.findtext(".//title") or "").split())
    etree.strip_elements(tree, "script", "style", "noscript", "title", with_tail=False)
    # A page's text without its menus and footers; all of a page that is little else.
    text = trafilatura.extract(deepcopy(tree), favor_recall=True, include_comments=False)
    if text:
        return title, text.strip()
    lines = (" ".join(each.split()) for each in tree.xpath("//text()"))
    return title, "\n".join(filter(None, lines))


def _decoded(content: bytes) -> str:
    with suppress(UnicodeDecodeError):
        return content.decode("utf-8-sig")
    declared = _DECLARED.search(content[:4096])
    named = declared[1].decode().lower() if declared else ""
    if _OF_TEXTS.match(named):
        with suppress(UnicodeDecodeError, LookupError):
            # gb18030 has the characters of all of its kind.
            return content.decode("gb18030" if named.startswith("gb") else named)
    if not (guess := guessed_encoding(content)):
        raise _Unreadable("not utf-8; save it as UTF-8")
    return content.decode(guess)


def _office(path: Path) -> tuple[str, str]:
    _check_size(path, LARGEST_HTML)
    if not zipfile.is_zipfile(path):
        raise _Unreadable(f"no {path.suffix} that can be read")
    try:
        from markitdown import MarkItDown, MarkItDownException
    except ImportError as missing:
        raise _Unreadable(
            f"{path.suffix} needs markitdown; run: pip install 'mcranker[office]'"
        ) from missing
    try:
        found = MarkItDown(enable_plugins=False).convert_local(path)
    except MarkItDownException as error:
        said = " ".join(str(error).split())[:200]
        raise _Unreadable(f"no {path.suffix} that can be read: {said}") from error
    return " ".join((found.title or "").split()), found.markdown.replace("\0", "")


def guessed_encoding(content: bytes) -> str:
    """Return the encoding of text that is not UTF-8, by its letters; empty if none fits."""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return ""
    found = from_bytes(content, cp_isolation=[*_GUESSED])
    # Of those that fit alike, the usual one.
    fits = [
        (each.chaos, -each.coherence, each.encoding != "cp1252", each.encoding) for each in found
    ]
    return min(fits)[-1] if fits else ""


def _check_size(path: Path, largest: int) -> None:
    if (size := path.stat().st_size) > largest:
        raise _Unreadable(f"{size / 1e6:,.0f} MB; {largest / 1e6:,.0f} MB are read at most")


if __name__ == "__main__":
    _main()
