"""Every error this package raises on purpose, as one tree.

    MCRankerError
    ├── ConfigError               an option, or two options that do not go together
    ├── InputError                the query or the passages
    │   └── RunError              a run, or a run file, that is not one
    ├── MissingScoreError         a score is missing and the policy is "fail"
    ├── DownloadError             a model file could not be fetched, checked or stored
    ├── LedgerError               the file that keeps the answers cannot be used
    ├── BudgetExceeded            another call would go beyond max_calls or max_cost
    └── ModelError                the model, or the way to it
        ├── ConnectionFailed      no server there, name not found, connection lost
        ├── ModelTimeout          no answer within the deadline
        ├── AuthenticationFailed  no key, a wrong key, one without the right, or no credit left
        ├── ModelNotFound         no model of that name, or no such model file
        ├── ModelFileError        a file that is there but is not a usable model
        ├── RateLimited           the provider asks to slow down (429, 529)
        ├── ServerFailed          the provider failed (5xx)
        ├── RequestRejected       this request cannot succeed as it is (400, 413, 422)
        │   ├── ContextTooLong    the prompt does not fit into the model's context
        │   └── ContentRefused    the provider or the model declines to answer
        ├── UnsupportedCapability the model lacks what the configuration needs
        └── ReplyError            an answer came, but not of the form that was asked for
            └── FormNotKept       none of the answers was, and no more are asked for

Errors in persona, rubric, team and prompt files are `personas.PersonasError`s: that
package stands below this one and knows nothing of models.

Foreign errors (of the HTTP client, the operating system) are turned into
one of these at the boundary where they arise, and kept as ``__cause__``.
"""

from __future__ import annotations


class MCRankerError(Exception):
    """Base of every error of this package; its text says what happened and what to do."""


class ConfigError(MCRankerError, ValueError):
    """An option has a value it cannot have, or does not go with another one."""


class InputError(MCRankerError, ValueError):
    """The query or the passages cannot be ranked as given."""


class RunError(InputError):
    """A run cannot be read or written: a bad line, a document twice, a score that is no number."""


class MissingScoreError(MCRankerError):
    """A score is missing and ``missing_policy="fail"`` asks not to go on without it."""


class DownloadError(MCRankerError):
    """A model file could not be fetched, did not match its hash, or could not be stored."""


class LedgerError(MCRankerError):
    """The ledger cannot be opened, read or written, or is no ledger; what it holds is safe."""


class BudgetExceeded(MCRankerError):
    """Another call would go beyond ``max_calls`` or ``max_cost``. Answers so far are kept."""


class ModelError(MCRankerError):
    """The model or the way to it failed.

    Attributes:
        model: the model as the user names it, e.g. ``"openai:gpt-5-mini"``; empty if unknown.
        retryable: whether the same request may succeed when sent again.
        others_answered: of a request that kept failing, whether the model answers others
            meanwhile: True if it does, so that it is this request that fails; False if the model
            is down; None if that is not known.
        shape: of a reply that cannot be read: equal for replies that differ in their values alone,
            of which one call asks for two at most.
    """

    retryable = False
    others_answered: bool | None = None
    shape = ""

    def __init__(self, message: str, *, model: str = "") -> None:
        super().__init__(message)
        self.model = model


class ConnectionFailed(ModelError):
    """No connection, or it was lost before the answer was complete."""

    retryable = True


class ModelTimeout(ModelError):
    """No complete answer within the deadline."""

    retryable = True


class AuthenticationFailed(ModelError):
    """No API key, a wrong one, or one that may not use this model (401, 402, 403)."""


class ModelNotFound(ModelError):
    """The provider, the catalogue or the file system has no model of that name (404)."""


class ModelFileError(ModelError):
    """A local file exists but the engine cannot load it as a model."""


class RateLimited(ModelError):
    """The provider asks to slow down (429, 529).

    Attributes:
        retry_after: seconds the provider asks to wait, or None if it does not say.
    """

    retryable = True

    def __init__(self, message: str, *, model: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, model=model)
        self.retry_after = retry_after


class ServerFailed(ModelError):
    """The provider failed to serve a request that may well be fine (5xx)."""

    retryable = True


class RequestRejected(ModelError):
    """The provider refuses this request (400, 413, 422)."""


class ContextTooLong(RequestRejected):
    """The prompt does not fit into the model's context window."""


class ContentRefused(RequestRejected):
    """The provider's filter or the model itself declines to answer."""


class UnsupportedCapability(ModelError):
    """The configuration needs something this model does not offer."""


class ReplyError(ModelError):
    """An answer came, but not of the form that was asked for.

    Attributes:
        reply: the text of the answer, as it came.
    """

    def __init__(self, message: str, *, reply: str, model: str = "") -> None:
        super().__init__(message, model=model)
        self.reply = reply


class FormNotKept(ReplyError):
    """None of a judge's first answers was of the form that was asked for: it is given up."""


FATAL_ERRORS = (
    AuthenticationFailed,
    ConfigError,
    LedgerError,
    ModelFileError,
    ModelNotFound,
    UnsupportedCapability,
)
"""Errors that, when they fail one query, fail all of them."""
