"""Check an exported trial without decobandit: hash chain, states, rewards and decisions.

    python tools/check_trial.py trial.json      exit 0 and a summary, or exit 1 and every difference

Needs Python 3.11 and nothing else; docs/reference/files.md describes the export. Checked are the
hashes of all lines and the links between them; whether every event may follow those before it; the
counts that decisions were made from, those of the export, and the total reward; and for single
pulls of good and bad outcomes without rules, budgets or segments the decisions of `deco` (from the
prices of the log, one arm at a time) and of `equal`. Decisions of other policies are counted.
"""

import hashlib
import json
import sys
from functools import cache
from typing import Any

TOLERANCE = 1e-9  # of indices, relative to the largest reward
TIE = 1e-12  # indices this close, relative to the largest reward, are tied
GENESIS = "0" * 64
FIELDS = ("trial", "seq", "kind", "at", "by", "key", "previous", "data", "version")


class Check:
    """One exported trial, and the differences that were found."""

    def __init__(self, export: dict[str, Any]) -> None:
        self.export = export
        self.differences: list[str] = []
        self.slots: dict[str, dict[str, Any]] = {}
        self.computed = self.skipped = self.earned = 0
        self.arms: list[dict[str, Any]] = []
        self.policy: Policy | None = None
        self.state, self.locked_by = "running", ""

    def differ(self, where: str, text: str) -> None:
        self.differences.append(f"{where}: {text}")

    def run(self) -> None:
        if self.export.get("format") != "decobandit-trial-1":
            self.differ("export", "the format is not decobandit-trial-1")
            return
        for event in self.chain():
            self.apply(event)
        self.results()

    # -- the chain --------------------------------------------------------------------------------

    def chain(self) -> list[dict[str, Any]]:
        """Return the events as their lines say, checked one by one."""
        events, previous = [], GENESIS
        for number, row in enumerate(self.export["events"]):
            where, body = f"event {number}", row["body"]
            digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
            event = json.loads(body)
            if digest != row["hash"]:
                self.differ(where, "the hash does not fit the line")
            if event["previous"] != previous:
                self.differ(where, "does not follow the event before it")
            if (event["seq"], event["trial"]) != (number, self.export["trial"]):
                self.differ(where, "has another number, or belongs to another trial")
            if any(row[name] != event[name] for name in FIELDS):
                self.differ(where, "fields differ from the line")
            canonical = json.dumps(event, sort_keys=True, separators=(",", ":"))
            if canonical != body:
                self.differ(where, "the line is not canonical JSON")
            events.append(event)
            previous = digest
        if self.export["head"] != previous:
            self.differ("export", "the head is not the hash of the last event")
        return events

    # -- states -----------------------------------------------------------------------------------

    def apply(self, event: dict[str, Any]) -> None:
        where, kind, data = f"event {event['seq']}", event["kind"], event["data"]
        if (kind == "created") != (event["seq"] == 0):
            self.differ(where, "a trial is created once, first")
        elif kind == "created":
            self.create(data)
        elif kind == "asked":
            self.ask(where, data)
        elif kind in ("told", "corrected", "cancelled"):
            self.change(where, kind, data)
        elif kind in ("closed", "archived", "reopened", "locked", "unlocked"):
            self.turn(where, event)
        elif kind in ("arm_added", "arm_closed"):
            self.create(data)  # settings from this stage on
            self.policy = None
        elif kind == "reviewed" and not 0 <= data["up_to"] < event["seq"]:
            self.differ(where, "reviews events that were not there")

    def create(self, data: dict[str, Any]) -> None:
        plan = data["plan"]
        self.problem = plan["problem"]
        self.arms = []
        for entry in self.problem["arms"]:
            ends = [f"-{k + 1}" for k in range(entry.get("count", 1))] if "count" in entry else [""]
            self.arms += [{**entry, "name": entry["name"] + end} for end in ends]
        horizon, unusual = self.problem["horizon"], bool(plan["rules"])
        unusual |= not {"budget", "resources", "segments", "repeat"}.isdisjoint(self.problem)
        unusual |= self.problem["pulls_per_stage"] > 1 or not isinstance(horizon, int)
        unusual |= any("kind" in x["prior"] or {"terminal", "available"} & {*x} for x in self.arms)
        if not unusual:
            self.policy = Policy(self.arms, horizon, plan, self.problem.get("terminal"))

    def turn(self, where: str, event: dict[str, Any]) -> None:
        kind, names = event["kind"], {"reopened": "running", "unlocked": "closed"}
        if kind == "unlocked" and (self.state != "locked" or event["by"] == self.locked_by):
            self.differ(where, "was not locked, or is unlocked by the person who locked it")
        if self.state == "locked" and kind != "unlocked":
            self.differ(where, "changes a locked trial")
        if kind == "locked" and self.state != "closed":
            self.differ(where, "locks a trial that is not closed")
        self.state = names.get(kind, kind)
        self.locked_by = event["by"] if kind == "locked" else ""

    def counts(self) -> tuple[list[int], list[int], list[int]]:
        """Good and bad outcomes and pending pulls by arm, of single pulls."""
        good, bad, pending = ([0] * len(self.arms) for _ in range(3))
        at = {arm["name"]: k for k, arm in enumerate(self.arms)}
        for slot in self.slots.values():
            if slot["state"] == "cancelled":
                continue
            k = at[slot["arm"]]
            pending[k] += slot["state"] == "open"
            good[k] += slot["outcome"] == 1
            bad[k] += slot["outcome"] == 0
        return good, bad, pending

    def ask(self, where: str, data: dict[str, Any]) -> None:
        if self.state != "running":
            self.differ(where, "allocates in a trial that is not running")
        if data["allocation"] in self.slots:
            self.differ(where, "uses the id of another allocation")
        if sum(data["pulls"].values()) > self.problem["pulls_per_stage"]:
            self.differ(where, "allocates more pulls than a stage has")
        used = sum(slot["state"] != "cancelled" for slot in self.slots.values())
        decision = data["decision"]
        if "segments" not in self.problem and decision["stage"] != used:
            self.differ(where, f"the stage is {used}, the decision was made for another one")
        slot = {"arm": data["arm"], "pulls": data["pulls"], "state": "open", "outcome": None}
        if self.policy is None:
            self.skipped += 1
        else:
            good, bad, pending = self.counts()
            state = decision["state"]
            if (state["good"], state["bad"], state["open"]) != (good, bad, pending):
                self.differ(where, "the counts of the decision are not those of the events before")
            self.decide(where, data, used, good, bad, pending)
        self.slots[data["allocation"]] = slot | {"stage": decision["stage"]}

    def change(self, where: str, kind: str, data: dict[str, Any]) -> None:
        slot = self.slots.get(data["allocation"])
        if slot is None:
            self.differ(where, "is about an allocation that does not exist")
        elif self.state == "locked":
            self.differ(where, "changes a locked trial")
        elif "counts" in data or slot["arm"] is None:
            slot["state"] = "several"  # of several pulls: parts add up, and are not followed here
        elif slot["state"] != ("told" if kind == "corrected" else "open"):
            self.differ(where, f"{kind}, but the allocation is {slot['state']}")
        elif kind == "cancelled":
            slot["state"] = "cancelled"
        else:
            slot["state"], slot["outcome"] = "told", data["outcome"]

    # -- decisions --------------------------------------------------------------------------------

    def decide(self, where: str, data: dict[str, Any], stage: int, *counts: list[int]) -> None:
        assert self.policy is not None
        index = self.policy.index(stage, *counts)
        if index is None:
            self.skipped += 1
            return
        self.computed += 1
        logged, scale = data["decision"]["index"], self.policy.scale
        if any(abs(x - y) > TOLERANCE * scale for x, y in zip(index, logged, strict=True)):
            self.differ(where, f"the indices are {index}, the log has {logged}")
        arm = self.policy.choose(index, [sum(parts) for parts in zip(*counts, strict=True)])
        if arm is not None and data["arm"] != self.arms[arm]["name"]:
            self.differ(
                where, f"the arm is {self.arms[arm]['name']!r}, the log has {data['arm']!r}"
            )

    # -- what the export says ---------------------------------------------------------------------

    def results(self) -> None:
        listed = {slot["id"]: slot for slot in self.export["allocations"]}
        if list(listed) != list(self.slots):
            self.differ("allocations", "are not those of the log")
            return
        for slot_id, slot in self.slots.items():
            same = ("arm", "pulls", "stage") + (
                () if slot["state"] == "several" else ("state", "outcome")
            )
            if any(listed[slot_id][name] != slot[name] for name in same):
                self.differ(f"allocation {slot_id}", "differs from the log")
        status = self.export["status"]
        if status["state"] != self.state:
            self.differ("status", f"the state is {self.state}")
        if self.policy is None:
            return
        good, bad, pending = self.counts()
        arms = [[arm["good"], arm["bad"], arm["open"]] for arm in status["arms"]]
        if arms != [list(parts) for parts in zip(good, bad, pending, strict=True)]:
            self.differ("status", "the counts of the arms do not follow from the log")
        self.earned = sum(
            self.policy.reward(slot["arm"], slot["stage"], slot["outcome"])
            for slot in self.slots.values()
            if slot["state"] == "told"
        )
        if abs(self.earned - status["earned"]) > TOLERANCE * max(1.0, abs(self.earned)):
            self.differ("status", f"the total reward is {self.earned}")


class Policy:
    """Decisions of `deco` and `equal` for single pulls of good and bad outcomes."""

    def __init__(self, arms: list[Any], horizon: int, plan: dict[str, Any], end: Any) -> None:
        self.arms, self.horizon, self.name, self.ties = arms, horizon, plan["policy"], plan["ties"]
        self.prices = plan.get("multipliers")
        self.deploy = 0.0 if end is None else end["deploy"]
        self.last = plan.get("deployment_price") or 0.0
        rewards = [self.rewards(arm, t) for arm in arms for t in range(horizon)]
        self.scale = max([abs(x) for pair in rewards for x in pair] + [self.deploy]) or 1.0
        self.value = cache(self._value)

    @staticmethod
    def rewards(arm: dict[str, Any], stage: int) -> tuple[float, float]:
        """Rewards of a bad outcome and of a good one."""
        sides = [arm["reward"][key] for key in ("bad", "good")]
        bad, good = (side[stage] if isinstance(side, list) else side for side in sides)
        return bad, good

    def reward(self, name: str, stage: int, outcome: int) -> float:
        """Reward of an outcome that is on record."""
        arm = next(arm for arm in self.arms if arm["name"] == name)
        return self.rewards(arm, stage)[outcome]

    def chance(self, arm: int, good: int, bad: int) -> float:
        prior = self.arms[arm]["prior"]
        return (prior["good"] + good) / (prior["good"] + prior["bad"] + good + bad)

    def pull(self, arm: int, stage: int, good: int, bad: int) -> float:
        """Return what a pull earns, and what follows it is worth; its price is not subtracted."""
        p, (low, high) = self.chance(arm, good, bad), self.rewards(self.arms[arm], stage)
        after = self.value(arm, stage + 1, good + 1, bad), self.value(arm, stage + 1, good, bad + 1)
        return low + p * (high - low) + p * after[0] + (1.0 - p) * after[1]

    def _value(self, arm: int, stage: int, good: int, bad: int) -> float:
        """Value of one arm alone, at the prices."""
        if stage == self.horizon:
            return max(0.0, self.deploy * self.chance(arm, good, bad) - self.last)
        wait = self.value(arm, stage + 1, good, bad)
        return max(wait, self.pull(arm, stage, good, bad) - self.prices[stage])

    def deco(self, arm: int, stage: int, good: int, bad: int, pending: int) -> float:
        """Index, averaged over the outcomes of pending pulls."""
        if pending:
            p = self.chance(arm, good, bad)
            ahead = [(p, good + 1, bad), (1.0 - p, good, bad + 1)]
            return sum(w * self.deco(arm, stage, g, b, pending - 1) for w, g, b in ahead)
        return self.pull(arm, stage, good, bad) - self.value(arm, stage + 1, good, bad)

    def index(self, stage: int, good: list[int], bad: list[int], pending: list[int]) -> Any:
        """Return the indices of all arms; None for a policy that is not computed here."""
        counts = list(enumerate(zip(good, bad, pending, strict=True)))
        if self.name == "equal":
            return [-self.scale * sum(parts) for _, parts in counts]
        if self.name == "deco" and self.prices is not None:
            return [self.deco(arm, stage, *parts) for arm, parts in counts]
        return None

    def choose(self, index: list[float], pulls: list[int]) -> int | None:
        """Return the arm by the tie rule; None where it is drawn."""
        tied = [k for k, x in enumerate(index) if x >= max(index) - TIE * self.scale]
        signs = {"first": 0, "last": 0, "least-pulled": 1, "most-pulled": -1}
        if self.ties not in signs:
            return tied[0] if len(tied) == 1 else None
        tied = tied[::-1] if self.ties == "last" else tied
        return min(tied, key=lambda k: signs[self.ties] * pulls[k])


def main() -> None:
    sys.setrecursionlimit(20_000)
    with open(sys.argv[1], encoding="utf-8") as file:
        check = Check(json.load(file))
    try:
        check.run()
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        check.differ("export", f"cannot be read: {type(error).__name__}: {error}")
    if check.differences:
        sys.exit("\n".join(check.differences))
    print(f"{len(check.export['events'])} events: the chain is intact, states and rewards follow")
    print(f"{check.computed} decisions are the same; {check.skipped} were not computed again")


if __name__ == "__main__":
    main()
