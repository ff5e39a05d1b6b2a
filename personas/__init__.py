"""Judges and their criteria: personas, rubrics, teams, prompts and the library of ready ones.

Data, pure code and rendering only: nothing here calls a model. Each public name is imported when
it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from personas import library
    from personas.ensembles import Ensemble
    from personas.errors import PersonasError, PromptError, SchemaError
    from personas.files import dumps, load, loads, save
    from personas.schema import (
        Criterion,
        Member,
        Origin,
        Persona,
        Rubric,
        Team,
        normalize_weights,
    )
    from personas.team_diff import TeamDiff, diff_teams
    from personas.templates import PromptSet

_EXPORTS = {
    "personas.ensembles": "Ensemble",
    "personas.errors": "PersonasError PromptError SchemaError",
    "personas.files": "dumps load loads save",
    "personas.schema": "Criterion Member Origin Persona Rubric Team normalize_weights",
    "personas.team_diff": "TeamDiff diff_teams",
    "personas.templates": "PromptSet",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = [
    "Criterion",
    "Ensemble",
    "Member",
    "Origin",
    "Persona",
    "PersonasError",
    "PromptError",
    "PromptSet",
    "Rubric",
    "SchemaError",
    "Team",
    "TeamDiff",
    "diff_teams",
    "dumps",
    "library",
    "load",
    "loads",
    "normalize_weights",
    "save",
]


def __getattr__(name: str) -> Any:
    if name == "library":
        return import_module("personas.library")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
