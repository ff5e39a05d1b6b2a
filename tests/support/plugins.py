"""Packages that add something by an entry point, as an installed one would."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from personas.registry import Registry

__all__ = ["OTHERS", "installed"]

OTHERS = sorted(
    {
        each.name
        for each in distributions()
        if any(entry.group.startswith(("mcranker.", "personas.")) for entry in each.entry_points)
    }
    - {"mcranker"}
)
"""Packages that add something where the tests run; what the help lists depends on them."""


@contextmanager
def installed(folder: Path, registry: Registry[Any], source: str, **names: str) -> Iterator[None]:
    """While it lasts, a package ``own_plugin`` is there that adds objects to the registry.

    Args:
        folder: an empty one, that becomes part of the import path.
        registry: where they are found.
        source: of the package's one module.
        names: name -> the module's attribute.
    """
    (folder / "own_plugin.py").write_text(source, encoding="utf-8")
    info = folder / "own_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-plugin\nVersion: 1.0\n")
    lines = [f"[{registry._group}]", *(f"{name} = own_plugin:{at}" for name, at in names.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        registry.__dict__.pop("_added", None)
        try:
            yield
        finally:
            registry.__dict__.pop("_added", None)
            sys.modules.pop("own_plugin", None)
