"""Who judges, and by what: personas, rubrics, teams, prompts and the library of ready ones.

Data, pure code and rendering only: nothing here calls a model.
"""

from personas import library
from personas.errors import PersonasError, PromptError, SchemaError
from personas.files import dumps, load, loads, save
from personas.schema import Criterion, Member, Origin, Persona, Rubric, Team
from personas.team_diff import TeamDiff, diff_teams
from personas.templates import PromptSet
from personas.weights import normalize_weights

__all__ = [
    "Criterion",
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
