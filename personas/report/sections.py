"""Sections that other packages add to the page of a ranked query."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from markupsafe import Markup

from personas.errors import PersonasError
from personas.ranking.record import RankingRecord
from personas.registry import Registry
from personas.report.markup import part

_LONGEST = 20_000
"""Characters of a section's text that are shown."""


class Section(NamedTuple):
    """A section below the others of a page.

    A package adds one with an entry point in its ``pyproject.toml``::

        [project.entry-points."personas.sections"]
        lengths = "my_sections:LENGTHS"

    Attributes:
        title: its heading.
        write: returns the section's text for a ranking; empty for none. Plain text is escaped, a
            `markupsafe.Markup` is inserted as it is.
    """

    title: str
    write: Callable[[RankingRecord], str]


SECTIONS: Registry[Section] = Registry(
    "report section",
    "personas.sections",
    {},
    PersonasError,
    lambda found: isinstance(found, Section),
)
"""Every added section, by name."""


def added_sections(record: RankingRecord) -> list[tuple[str, Markup]]:
    """Title and content of each added section; the error instead if one fails."""
    found = list[tuple[str, Markup]]()
    for name, section in SECTIONS.load_all().items():
        if not isinstance(section, Section):
            found.append((name, part(str(section), _LONGEST)))
            continue
        try:
            text = section.write(record)
        except Exception as error:  # noqa: BLE001 - a page without a section is still a page
            text = f"Not written: {type(error).__name__}: {error}"
        if text:
            shown = text if isinstance(text, Markup) else part(text, _LONGEST)
            found.append((section.title, shown))
    return found
