"""What went wrong at the model hub, in one sentence that names the repository and says what to do. By the hub library's own exceptions,
which transformers wraps into others."""

from __future__ import annotations

from collections.abc import Iterator

from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def hub_says(error: BaseException, repo: str, field: str, revision: str | None = None) -> str | None:
    """None when the hub has nothing to do with it."""
    causes = list(_causes(error))

    def any_is(*kinds: type[BaseException]) -> bool:
        return any(isinstance(one, kinds) for one in causes)

    status = next((one.response.status_code for one in causes if isinstance(one, HfHubHTTPError) and one.response is not None), None)
    if any_is(GatedRepoError) or (status in (401, 403) and not any_is(RepositoryNotFoundError)):
        todo = "accept its terms on its page there and log in (hf auth login, or HF_TOKEN), or choose another model."
        return f"{field} {repo!r} is gated or private on the model hub; {todo}"
    if any_is(RepositoryNotFoundError, HFValidationError):
        todo = "check the spelling (owner/name), or log in (hf auth login) if it is private."
        return f"{field} {repo!r} is neither a local folder nor a model on the hub; {todo}"
    if any_is(RevisionNotFoundError):
        return f"{field} {repo!r} has no revision {revision or 'main'} on the model hub; fetch another one, and name its folder."
    if any_is(OfflineModeIsEnabled) or (constants.HF_HUB_OFFLINE and any_is(LocalEntryNotFoundError)):
        todo = "fetch it once without HF_HUB_OFFLINE, or name a local folder."
        return f"{field} {repo!r} is not in the local cache, and offline mode is on; {todo}"
    # The library's HTTP client goes by several names.
    cut = any(kind.__name__ == "TransportError" for one in causes for kind in type(one).__mro__)
    if cut or any_is(LocalEntryNotFoundError, ConnectionError):
        todo = "check the network, or name a local folder."
        return f"{field} {repo!r} is not in the local cache, and the model hub cannot be reached; {todo}"
    if status is not None:
        return f"{field} {repo!r} could not be fetched: the model hub answered with error {status}; try again later."
    return None
