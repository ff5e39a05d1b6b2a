"""Objects found by name: those of this project, and those that other packages add."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import Any, Generic, TypeVar

from personas.errors import shown

T = TypeVar("T")
_LONGEST = 100  # characters that are compared with names


class Registry(Generic[T]):
    """Objects by name, each imported when it is asked for."""

    def __init__(
        self,
        kind: str,
        group: str,
        builtin: Mapping[str, str],
        error: type[Exception],
        fits: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        self._kind = kind
        self._group = group
        self._builtin = builtin
        self._error = error
        self._fits = fits

    @cached_property
    def _added(self) -> dict[str, str]:
        from importlib.metadata import entry_points

        found = sorted(entry_points(group=self._group))
        return {each.name: f"{each.module}:{each.attr}" for each in found}

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the built-in ones first."""
        return tuple({**self._builtin, **self._added})

    def __contains__(self, name: str) -> bool:
        return name in self._builtin or name in self._added

    def load_all(self) -> dict[str, T | Exception]:
        """Every object by name; the error instead of one that cannot be loaded."""
        found: dict[str, T | Exception] = {}
        for name in self.names:
            try:
                found[name] = self.get(name)
            except self._error as error:
                found[name] = error
        return found

    def get(self, name: str) -> T:
        """The object of that name."""
        value = self._builtin.get(name) or self._added.get(name)
        if value is None:
            close = difflib.get_close_matches(name[:_LONGEST], self.names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(self.names)}"
            raise self._error(f"there is no {self._kind} {shown(name)}; {hint}")
        module, _, attribute = value.partition(":")
        try:
            loaded: T = attrgetter(attribute)(import_module(module))
        except (ImportError, AttributeError) as error:
            raise self._error(
                f"the {self._kind} {name!r} cannot be loaded from {value!r}: {error}; install "
                "what it needs, or remove the package that adds it"
            ) from error
        if not self._fits(loaded):
            raise self._error(f"{value!r} is a {type(loaded).__name__} and no {self._kind}")
        return loaded
