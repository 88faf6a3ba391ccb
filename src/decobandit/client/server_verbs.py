"""What is asked of a server as a whole: trials, forecasts and designs, tokens, people.

Names and arguments are those of `decobandit.trials`, `decobandit.designs` and `decobandit.server`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from ..policies import COMPARED_POLICIES, DEFAULT_POLICY
from ..problem import DEFAULT_TIES, Design, Problem, Rules, designed_to_dict
from .exchange import Request
from .verbs import Many, One, RemoteTrial, Verbs

Handle = TypeVar("Handle")
Asked = Problem | Mapping[str, Any]


class ServerVerbs(Verbs[One, Many], Generic[One, Many, Handle]):
    """What is asked of a server; `Handle`: what `create_trial` gives."""

    def health(self) -> One:
        """The server is running: `status` and `version`. Needs no token."""
        return self._get("health")

    # -- trials -------------------------------------------------------------------------------

    def list_trials(self, *, archived: bool = False) -> Many:
        """The trials that the token is for, the oldest first."""
        return self._all("trials", "trials", archived=archived)

    def open_trial(self, trial: str) -> RemoteTrial[One, Many]:
        """A trial by its name or id; nothing is asked of the server yet."""
        return RemoteTrial(self._exchange, self._run, trial)

    def create_trial(
        self,
        problem: Asked,
        *,
        policy: str = DEFAULT_POLICY,
        name: str | None = None,
        seed: int | None = None,
        tol: float = 1e-4,
        ties: str = DEFAULT_TIES,
        bound: bool | None = None,
        design: Rules | None = None,
        max_open: int | None = None,
        max_cancelled: int | None = None,
    ) -> Handle:
        """Start a trial, as `decobandit.trials.create_trial`; `design`: whose rules it obeys.

        `problem` may be a table as problem files hold it, with a design in it.
        """
        body = {
            "problem": _table(problem, design), "policy": policy, "name": name, "seed": seed,
            "tol": tol, "ties": ties, "bound": bound, "max_open": max_open,
            "max_cancelled": max_cancelled,
        }  # fmt: skip
        given = {key: value for key, value in body.items() if value is not None}
        made: Handle = self._run(self._create(Request("POST", ("trials",), body=given, slow=True)))
        return made

    async def _create(self, request: Request) -> RemoteTrial[One, Many]:
        return self.open_trial((await self._exchange.one(request))["name"])

    def make_checkpoint(self) -> One:
        """A signed note of the heads of all trials: `note`; the same if nothing has changed."""
        return self._sent(Request("POST", ("checkpoints",), alike=True))

    # -- before a trial -----------------------------------------------------------------------

    def forecast(self, problem: Asked, policies: Sequence[str] = COMPARED_POLICIES) -> One:
        """What policies are expected to earn, and bounds for all: the plan of the server."""
        return self._computed("plan", problem=_table(problem), policies=list(policies))

    def operating_characteristics(
        self,
        problem: Asked,
        design: Design | None = None,
        *,
        calibrate_to: float | None = None,
        ties: str = DEFAULT_TIES,
        tol: float = 1e-4,
    ) -> One:
        """What each policy of a design does in each scenario, as `deco design --json`."""
        return self._computed("design", **_designed(problem, design, calibrate_to, ties, tol))

    def design_report(
        self,
        problem: Asked,
        design: Design | None = None,
        *,
        calibrate_to: float | None = None,
        ties: str = DEFAULT_TIES,
        tol: float = 1e-4,
    ) -> One:
        """The report of a design: `html`, one page that needs no other, to save and to print."""
        body = _designed(problem, design, calibrate_to, ties, tol)
        return self._computed("design", "report", page=True, **body)

    def _computed(self, *path: str, page: bool = False, **body: Any) -> One:
        given = {name: value for name, value in body.items() if value is not None}
        return self._sent(Request("POST", path, body=given, slow=True, alike=True, page=page))

    # -- people -------------------------------------------------------------------------------

    def list_tokens(self) -> Many:
        """All tokens, without their secrets."""
        return self._all("tokens", "tokens")

    def new_token(
        self, name: str, role: str, *, days: int | None = None, trials: Sequence[str] = ()
    ) -> One:
        """A token for somebody; its secret is the key `token`, and is shown this once.

        `role`: admin, operator or viewer; `days`: until it expires, 90 by default; `trials`: names
        of those that it is for, none: all.
        """
        body = {"name": name, "role": role, "trials": list(trials)}
        given = body if days is None else body | {"days": days}
        return self._sent(Request("POST", ("tokens",), body=given))

    def revoke_token(self, name: str) -> One:
        """End a token and its sessions; the last administrator's is refused."""
        return self._sent(Request("DELETE", ("tokens", name), alike=True))

    def people_log(self) -> One:
        """Who logged in, made tokens, exported, saw results or unmasked; checked by the server."""
        return self._get("people", slow=True)


def _table(problem: Asked, design: Rules | None = None) -> Mapping[str, Any]:
    return designed_to_dict(problem, design) if isinstance(problem, Problem) else problem


def _designed(
    problem: Asked, design: Design | None, calibrate_to: float | None, ties: str, tol: float
) -> dict[str, Any]:
    table = _table(problem, design)
    return {"problem": table, "calibrate": calibrate_to, "ties": ties, "tol": tol}
