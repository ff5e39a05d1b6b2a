"""The answer that a pipeline gives, which shows itself as a page and on a terminal."""

from __future__ import annotations

import os
from typing import TextIO

from mcranker.rag.record import AnswerRecord
from personas.io.atomic import write_whole


class RAGResult(AnswerRecord):
    """An answer; write it with `save`, read it with `load`. `AnswerRecord` has its fields."""

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return one page from question to answer, and write it to `path` if given.

        Raises:
            OSError: it cannot be written.
        """
        from mcranker.rag.page import render_answer

        page = render_answer(self)
        if path is not None:
            write_whole(path, page)
        return page

    def show(self, *, file: TextIO | None = None) -> None:
        """Print the answer with its numbered sources, to standard output if `file` is None."""
        from mcranker.rag.terminal import print_answer

        print_answer(self, file)
