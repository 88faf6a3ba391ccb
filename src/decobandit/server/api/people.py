"""Routes of tokens, and of the log of people."""

from __future__ import annotations

from fastapi import Request

from ...trials import people_log
from ..auth import Caller, allow
from ..tokens import list_tokens, new_token, revoke_token
from . import responses as out
from . import schemas as sent
from .api_router import router
from .arguments import TokenName
from .record_models import Out


@router.get("/people", response_model=out.PeopleOut)
@allow("admin", all_trials=True)
def people_read(request: Request, _: Caller) -> Out:
    """Who logged in, made tokens, exported, saw results or unmasked; checked as it is read."""
    request.state.recorder.flush()
    return out.PeopleOut.model_validate(people_log(request.app.state.store).to_dict())


@router.get("/tokens", response_model=out.TokensOut)
@allow("admin", all_trials=True)
def token_list(request: Request, _: Caller) -> Out:
    """All tokens, without their secrets."""
    found = list_tokens(request.app.state.store)
    return out.TokensOut.model_validate({"tokens": [token.to_dict() for token in found]})


@router.post("/tokens", status_code=201, response_model=out.TokenMade)
@allow("admin", all_trials=True)
def token_create(request: Request, caller: Caller, body: sent.TokenIn) -> Out:
    """A new token; only this response has the secret."""
    token, secret = new_token(
        request.app.state.store,
        body.name,
        body.role,
        days=body.days,
        trials=body.trials,
        by=caller.name,
    )
    request.app.state.guard.tokens_changed()
    return out.TokenMade.model_validate(token.to_dict() | {"token": secret})


@router.delete("/tokens/{name}", response_model=out.TokenOut)
@allow("admin", all_trials=True)
def token_revoke(request: Request, caller: Caller, name: TokenName) -> Out:
    """Revoke a token, and end its sessions; the last administrator's is refused."""
    token = revoke_token(request.app.state.store, name, by=caller.name)
    request.app.state.guard.tokens_changed()
    return out.TokenOut.model_validate(token.to_dict())
