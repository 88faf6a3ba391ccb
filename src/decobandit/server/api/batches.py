"""Routes of batches: ask for a whole stage, record outcomes as counts or rows, cancel the rest.

Operators see codes of arms and how many pulls each has, and call arms by their codes.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from ...trials import Batch, Trial
from ...trials.codes import in_order
from ...trials.log_pages import ledger_of
from ..auth import EVERYBODY, Caller, allow
from ..errors import ApiError
from ..principal import Principal
from . import responses as out
from . import schemas as sent
from .api_router import router
from .arguments import ID_PATTERN, Key, Opened, Seen, key_of, reasoned
from .list_parameters import PageOfMade, next_key
from .record_models import Out

_BATCHES = "/trials/{trial}/batches"
_BATCH = f"{_BATCHES}/{{batch}}"
_SHOWN = out.BatchOut | out.BlindBatch
BatchId = Annotated[str, Path(pattern=ID_PATTERN, description="Id of the batch.")]


def masked_batch(batch: Batch, trial: Trial) -> out.BlindBatch:
    """A batch for blinded people: codes of its arms, and no outcomes."""
    arms = [
        out.BlindBatchArm(
            arm=trial.codes[one.arm], pulls=one.pulls, share=one.share, pending=one.pending
        )
        for one in batch.arms
    ]
    return out.BlindBatch(
        id=batch.id, state=batch.state, pulls=batch.pulls, pending=batch.pending,
        arms=sorted(arms, key=lambda one: in_order(one.arm)), subject=batch.subject,
        note=batch.note,
    )  # fmt: skip


def _shown_to(caller: Principal, batch: Batch, trial: Trial) -> Out:
    if caller.blinded:
        return masked_batch(batch, trial)
    return out.BatchOut.model_validate(batch.to_dict())


@router.post(_BATCHES, status_code=201, response_model=_SHOWN)
@allow("admin", "operator")
def batch_ask(
    caller: Caller, trial: Opened, body: sent.AskIn | None = None, key: Key = None
) -> Out:
    """Allot the next stage: so many pulls of every arm. The same subject gets the same batch."""
    asked = body or sent.AskIn()
    batch = trial.ask_batch(
        subject=asked.subject, note=asked.note, key=key_of(key, asked), by=caller.name
    )
    return _shown_to(caller, batch, trial)


@router.get(
    _BATCHES,
    response_model=out.BatchesOut | out.BlindBatches,
    response_model_exclude_unset=True,
)
@allow(*EVERYBODY)
def batch_list(caller: Caller, trial: Seen, asked: PageOfMade) -> Out:
    """Batches in the order in which they were made."""
    page = asked.of(ledger_of(trial.store, trial.id).batches)
    if caller.blinded:
        blind = [masked_batch(batch, trial) for batch in page.items]
        return out.BlindBatches(batches=blind, **next_key(page))
    shown = [out.BatchOut.model_validate(batch.to_dict()) for batch in page.items]
    return out.BatchesOut(batches=shown, **next_key(page))


@router.get(_BATCH, response_model=_SHOWN)
@allow(*EVERYBODY)
def batch_show(caller: Caller, trial: Seen, batch: BatchId) -> Out:
    """One batch: what every arm has of it, and what is pending."""
    return _shown_to(caller, trial.batch(batch), trial)


@router.post(f"{_BATCH}/outcomes", response_model=_SHOWN)
@allow("admin", "operator")
def batch_tell(
    caller: Caller, trial: Opened, batch: BatchId, body: sent.BatchOutcomesIn, key: Key = None
) -> Out:
    """Record outcomes, as counts or as rows; those of several requests add up."""
    if (body.counts is None) == (body.rows is None):
        raise ApiError(422, "invalid", "body: outcomes are missing, or there are two forms of them")
    rows = None if body.rows is None else [(row.arm, row.outcome) for row in body.rows]
    told = trial.tell_batch(
        batch, body.by_arm(), rows=rows, key=key_of(key, body), by=caller.name,
        by_code=caller.blinded, confirm_range=body.confirm_range,
    )  # fmt: skip
    return _shown_to(caller, told, trial)


@router.post(f"{_BATCH}/cancel", response_model=_SHOWN)
@allow("admin", "operator")
def batch_cancel(
    caller: Caller, trial: Opened, batch: BatchId, body: sent.ReasonIn, key: Key = None
) -> Out:
    """Cancel what is pending, and say why; a batch without outcomes frees its stage."""
    return _shown_to(caller, trial.cancel_batch(batch, **reasoned(caller, body, key)), trial)


@router.post(f"{_BATCH}/correct", response_model=out.BatchOut)
@allow("admin")
def batch_correct(
    caller: Caller, trial: Opened, batch: BatchId, body: sent.CorrectBatchIn, key: Key = None
) -> Out:
    """Replace all recorded outcomes of some arms, and say why; the old ones stay in the log."""
    fixed = trial.correct_batch(
        batch, body.by_arm() or {}, reason=body.reason, key=key_of(key, body), by=caller.name,
        confirm_range=body.confirm_range,
    )  # fmt: skip
    return out.BatchOut.model_validate(fixed.to_dict())
