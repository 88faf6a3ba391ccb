"""Check an exported trial without decobandit: hash chain, states, rewards and decisions.

    python tools/check_trial.py trial.json      exit 0 and a summary, or exit 1 and every difference

Needs Python 3.11 and nothing else; docs/reference/files.md describes the export. Checked are hashes
and links of all lines; whether every event may follow those before it; counts and total reward; and
for single pulls of good and bad outcomes without rules, budgets or segments the decisions of `deco`
(from the prices of the log, one arm at a time), `equal` and `thompson`. Others are counted.
"""

import hashlib
import json
import sys
from functools import cache
from itertools import accumulate
from math import asin, exp, log, pi, prod, sin, sqrt
from typing import Any

ANGLES = 2000  # a success probability is sin(angle)^2
NEAR = 1e-4  # of probabilities to be best
TOLERANCE = 1e-9  # of indices, relative to the largest reward
TIE = 1e-12  # indices this close, relative to the largest reward, are tied
FIELDS = ("trial", "seq", "kind", "at", "by", "key", "previous", "data", "version")


class Check:
    """One exported trial, and the differences that were found."""

    def __init__(self, export: dict[str, Any]) -> None:
        self.export = export
        self.differences: list[str] = []
        self.slots: dict[str, dict[str, Any]] = {}
        self.computed = self.skipped = 0
        self.policy: Policy | None = None
        self.state, self.locked_by = "running", ""

    def expect(self, true: bool, where: str, text: str) -> None:
        self.differences += [] if true else [f"{where}: {text}"]

    def run(self) -> None:
        self.expect(self.export.get("format") == "decobandit-trial-1", "export", "unknown format")
        for event in self.chain():
            self.apply(event)
        self.results()

    def chain(self) -> list[dict[str, Any]]:
        """Return the events as their lines say, checked one by one."""
        events, previous = [], "0" * 64
        for number, row in enumerate(self.export["events"]):
            where, body = f"event {number}", row["body"]
            digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
            event = json.loads(body)
            self.expect(digest == row["hash"], where, "the hash does not fit the line")
            self.expect(event["previous"] == previous, where, "does not follow the event before it")
            named = (event["seq"], event["trial"]) == (number, self.export["trial"])
            self.expect(named, where, "has another number, or belongs to another trial")
            same = all(row[name] == event[name] for name in FIELDS)
            self.expect(same, where, "fields differ from the line")
            canonical = json.dumps(event, sort_keys=True, separators=(",", ":"))
            self.expect(canonical == body, where, "the line is not canonical JSON")
            events.append(event)
            previous = digest
        last = self.export["head"] == previous
        self.expect(last, "export", "the head is not the hash of the last event")
        return events

    def apply(self, event: dict[str, Any]) -> None:
        where, kind, data = f"event {event['seq']}", event["kind"], event["data"]
        first = (kind == "created") == (event["seq"] == 0)
        self.expect(first, where, "a trial is created once, first")
        if kind == "created":
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
        elif kind == "reviewed":
            there = 0 <= data["up_to"] < event["seq"]
            self.expect(there, where, "reviews events that were not there")

    def create(self, data: dict[str, Any]) -> None:
        plan = data["plan"]
        self.problem, self.arms = plan["problem"], list[dict[str, Any]]()
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
        if kind == "unlocked":
            other = self.state == "locked" and event["by"] != self.locked_by
            self.expect(other, where, "was not locked, or the person who locked it unlocks it")
        else:
            self.expect(self.state != "locked", where, "changes a locked trial")
        if kind == "locked":
            self.expect(self.state == "closed", where, "locks a trial that is not closed")
        self.state = names.get(kind, kind)
        self.locked_by = event["by"] if kind == "locked" else ""

    def counts(self) -> tuple[list[int], list[int], list[int]]:
        """Good and bad outcomes and pending pulls by arm, of single pulls."""
        good, bad, pending = ([0] * len(self.arms) for _ in range(3))
        names = [arm["name"] for arm in self.arms]
        for slot in self.slots.values():
            k = names.index(slot["arm"])
            pending[k] += slot["state"] == "open"
            good[k] += slot["outcome"] == 1
            bad[k] += slot["outcome"] == 0
        return good, bad, pending

    def ask(self, where: str, data: dict[str, Any]) -> None:
        self.expect(self.state == "running", where, "allocates in a trial that is not running")
        new = data["allocation"] not in self.slots
        self.expect(new, where, "uses the id of another allocation")
        fits = sum(data["pulls"].values()) <= self.problem["pulls_per_stage"]
        self.expect(fits, where, "allocates more pulls than a stage has")
        used = sum(slot["state"] != "cancelled" for slot in self.slots.values())
        decision = data["decision"]
        now = "segments" in self.problem or decision["stage"] == used
        self.expect(now, where, f"the stage is {used}, the decision was made for another one")
        if self.policy is None:
            self.skipped += 1
        else:
            counts, state = self.counts(), decision["state"]
            same = [state[key] for key in ("good", "bad", "open")] == list(counts)
            self.expect(same, where, "the counts of the decision do not follow from the events")
            found = self.policy.differences(data, used, *counts)
            self.skipped += found is None
            self.computed += found is not None
            self.differences += [f"{where}: {text}" for text in found or []]
        slot = {"arm": data["arm"], "pulls": data["pulls"], "state": "open", "outcome": None}
        self.slots[data["allocation"]] = {**slot, "stage": decision["stage"]}

    def change(self, where: str, kind: str, data: dict[str, Any]) -> None:
        slot = self.slots.get(data["allocation"])
        self.expect(self.state != "locked", where, "changes a locked trial")
        if slot is None:
            self.expect(False, where, "is about an allocation that does not exist")
        elif "counts" in data or slot["arm"] is None:
            slot["state"] = "several"  # of several pulls: parts add up, and are not followed here
        elif slot["state"] != ("told" if kind == "corrected" else "open"):
            self.expect(False, where, f"{kind}, but the allocation is {slot['state']}")
        elif kind == "cancelled":
            slot["state"] = "cancelled"
        else:
            slot["state"], slot["outcome"] = "told", data["outcome"]

    def results(self) -> None:
        listed = {slot["id"]: slot for slot in self.export["allocations"]}
        listing = list(listed) == list(self.slots)
        self.expect(listing, "allocations", "are not those of the log")
        for slot_id, slot in self.slots.items() if listing else ():
            followed = () if slot["state"] == "several" else ("state", "outcome")
            names = ("arm", "pulls", "stage", *followed)
            same = all(listed[slot_id][name] == slot[name] for name in names)
            self.expect(same, f"allocation {slot_id}", "differs from the log")
        status = self.export["status"]
        self.expect(status["state"] == self.state, "status", f"the state is {self.state}")
        if self.policy is None:
            return
        counts = tuple([arm[key] for arm in status["arms"]] for key in ("good", "bad", "open"))
        same = counts == self.counts()
        self.expect(same, "status", "the counts of the arms do not follow from the log")
        by_name = {arm["name"]: arm for arm in self.arms}
        told = [slot for slot in self.slots.values() if slot["state"] == "told"]
        earned = sum(self.policy.rewards(by_name[x["arm"]], x["stage"])[x["outcome"]] for x in told)
        same = abs(earned - status["earned"]) <= TOLERANCE * max(1.0, abs(earned))
        self.expect(same, "status", f"the total reward is {earned}")


class Policy:
    """Decisions of three policies for single pulls of good and bad outcomes."""

    def __init__(self, arms: list[Any], horizon: int, plan: dict[str, Any], end: Any) -> None:
        self.arms, self.horizon, self.name, self.ties = arms, horizon, plan["policy"], plan["ties"]
        self.prices, self.seed = plan.get("multipliers"), plan["seed"]
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

    def differences(self, data: Any, stage: int, *counts: list[int]) -> list[str] | None:
        """Return what differs from the logged decision; None if it cannot be computed."""
        logged, arm = data["decision"], [one["name"] for one in self.arms].index(data["arm"])
        pulls = [sum(parts) for parts in zip(*counts, strict=True)]
        if self.name == "thompson" and (shares := self.shares(stage, *counts[:2])):
            digest = hashlib.sha256(f"{self.seed} {stage}".encode()).hexdigest()
            number, high = int(digest[:14], 16) / 2.0**56, sum(shares[: arm + 1])
            drawn = high - shares[arm] - NEAR <= number <= high + NEAR
            drawn &= abs(logged["probability"] - shares[arm]) <= NEAR
            return [] if drawn else [f"the arm is not the one that {number} draws from {shares}"]
        if self.name == "equal":
            index = [-self.scale * n for n in pulls]
        elif self.name == "deco" and self.prices is not None:
            index = [self.deco(k, stage, *n) for k, n in enumerate(zip(*counts, strict=True))]
        else:
            return None
        pairs = zip(index, logged["index"], strict=True)
        wrong = any(abs(x - y) > TOLERANCE * self.scale for x, y in pairs)
        texts = [f"the indices are {index}, the log has {logged['index']}"] if wrong else []
        chosen = self.choose(index, pulls)
        return texts if chosen in (None, arm) else [*texts, f"the arm is number {chosen + 1}"]

    def shares(self, stage: int, good: list[int], bad: list[int]) -> list[float] | None:
        """Return the probability of every arm to be best; None for arms that it cannot compare."""
        squares = [sin((k + 0.5) * pi / 2 / ANGLES) ** 2 for k in range(ANGLES)]
        rows = []
        for arm, counts in zip(self.arms, zip(good, bad, strict=True), strict=True):
            a, b = (arm["prior"][key] + n for key, n in zip(("good", "bad"), counts, strict=True))
            (low, high), m = self.rewards(arm, stage), a / (a + b)
            if min(a, b) < 0.5 or low >= high:
                return None
            logs = [(a - 0.5) * log(x / m) + (b - 0.5) * log((1 - x) / (1 - m)) for x in squares]
            rows.append((low, high - low, [*map(exp, logs)], [0.0, *accumulate(map(exp, logs))]))

        def below(row: Any, reward: float) -> float:
            x = min(max((reward - row[0]) / row[1], 0.0), 1.0)
            place = asin(sqrt(x)) * ANGLES * 2 / pi
            k = min(int(place), ANGLES - 1)
            return (row[3][k] + (place - k) * row[2][k]) / row[3][-1]

        shares = []
        for row in rows:
            others = [other for other in rows if other is not row]
            parts = zip(row[2], (row[0] + row[1] * x for x in squares), strict=True)
            total = sum(w * prod(below(other, y) for other in others) for w, y in parts)
            shares.append(total / row[3][-1])
        return shares

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
    check = Check({})
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            check.export = json.load(file)
        check.run()
    except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        check.expect(False, "export", f"cannot be read: {type(error).__name__}: {error}")
    if check.differences:
        sys.exit("\n".join(check.differences))
    print(f"{len(check.export['events'])} events: the chain is intact, states and rewards follow")
    print(f"{check.computed} decisions are the same; {check.skipped} were not computed again")


if __name__ == "__main__":
    main()
