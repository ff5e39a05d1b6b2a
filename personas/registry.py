"""What can be chosen by name: what comes with these packages, and what other packages add."""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Mapping
from typing import Generic, TypeVar

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Things with names, each imported when it is first used.

    Installed packages add to it by an entry point: ``name = "package.module:attribute"``. A
    built-in name goes before an added one.

    Args:
        what: one of them in a word, for messages.
        group: the entry points' group.
        built_in: name -> ``module:attribute``.
        error: raised for names that cannot be had.
    """

    def __init__(
        self, what: str, group: str, built_in: Mapping[str, str], error: type[Exception]
    ) -> None:
        self.what = what
        self.group = group
        self._built_in = dict(built_in)
        self._error = error
        self._loaded: dict[str, T] = {}

    def names(self) -> list[str]:
        """All names: the built-in ones in their order, then those added, in alphabetical order."""
        return list({**self._built_in, **self._added()})

    def get(self, name: str) -> T:
        """What has that name.

        Raises:
            Exception: of the type given, if there is no such name, or it cannot be imported.
        """
        if name not in self._loaded:
            place = self._built_in.get(name) or self._added().get(name)
            if place is None:
                names = self.names()
                close = difflib.get_close_matches(name, names, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
                raise self._error(f"there is no {self.what} {name!r}; {hint}")
            try:
                self._loaded[name] = pkgutil.resolve_name(place)
            except (ImportError, AttributeError, ValueError) as error:
                raise self._error(
                    f"the {self.what} {name!r} cannot be loaded from {place!r}: {error}; "
                    "install what it needs, or remove the package that adds it"
                ) from error
        return self._loaded[name]

    def _added(self) -> dict[str, str]:
        from importlib.metadata import entry_points

        found = entry_points(group=self.group)
        return {each.name: each.value for each in sorted(found)}
