"""Base of services of typed questions: one address, one key, no prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcranker.llm.providers.compatible_http import CompatibleChat

if TYPE_CHECKING:
    from mcranker.llm.chat import Capabilities


class TypedService:
    """A service of typed questions over HTTP; subclasses implement ``complete``.

    Args:
        model: as the service names it.
        name: of the model in rankings.
        capabilities: what it takes.
        base_url: the address before the path.
        key_variable: the environment variable that may hold the key.
        api_key: sent as bearer token; None for the environment's.
        timeout: seconds allowed to one call, from asking for a connection to the last byte.
        concurrency: connections at most.

    Raises:
        AuthenticationFailed: the key cannot be one.
        ConfigError: an argument that cannot be.
    """

    def __init__(
        self,
        model: str,
        *,
        name: str,
        capabilities: Capabilities,
        base_url: str,
        key_variable: str,
        api_key: str | None,
        timeout: float,
        concurrency: int,
    ) -> None:
        self._model = model
        self._name = name
        self._capabilities = capabilities
        self._http = CompatibleChat(
            model,
            base_url=base_url,
            api_key=api_key,
            key_variable=key_variable,
            timeout=timeout,
            concurrency=concurrency,
            name=name,
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def endpoint(self) -> str:
        """The service's base URL."""
        return self._http.endpoint

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        await self._http.aclose()
