"""Check that no policy can earn more than the bound of a certificate, without decobandit.

`python certificate_checker.py cert.json`: exit 0 and the bound, or exit 1 and the reason. Every
policy earns at most phi = sum over arms of V_0 + sum_t m_t mu_t at any prices mu, where V_t(s) is
the largest, over units a, of E[rewards of a units + V_{t+1}(s after them)] - a mu_t. Computed in
rational numbers if an arm takes at most 60 pulls, else with every operation rounded up.
"""

import json
import sys
from fractions import Fraction
from hashlib import sha256
from math import inf, nextafter
from typing import Any

EXACT_PULLS = 60
KEYS = {"horizon", "pulls_per_stage", "repeat", "unit", "arms", "terminal", "budget"}
KEYS_OF_ARMS = {"name", "prior", "reward", "count", "available", "cost", "terminal"}
KNOWN = KEYS_OF_ARMS | {"good", "bad", "values", "factor"} | {"beta", "categorical", "chain"}


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise ValueError(reason)


def numbers(value: Any, size: int) -> list[Fraction]:
    """Return a number for each of `size` stages, or states."""
    values = [Fraction(x) for x in (value if isinstance(value, list) else [value] * size)]
    require(len(values) == size, f"{len(values)} numbers where {size} are needed")
    return values


class Dual:  # the dual function of a problem at prices: `total`, or a number above it
    def __init__(self, problem: Any, prices: list[float]) -> None:
        horizon, arms = problem["horizon"], problem["arms"]
        weights = horizon["survival"] if isinstance(horizon, dict) else [1] * horizon
        self.T = T = len(weights)
        self.weights, self.unit = numbers(weights, T), problem.get("unit", 1)
        counts = [arm.get("count", 1) for arm in arms]
        units, rest = divmod(problem["pulls_per_stage"], self.unit)
        require(rest == 0 and min(units, self.unit, *counts) > 0, "wrong numbers of arms or pulls")
        self.most = units if problem.get("repeat") else 1  # units of an arm at a stage
        self.exact = self.most * self.unit * T <= EXACT_PULLS
        self.up: Any = (lambda x: x) if self.exact else (lambda x: nextafter(x, inf))
        terminal = problem.get("terminal", {"deploy": 0})
        self.deploy, budget = Fraction(terminal["deploy"]), Fraction(problem.get("budget", 0))
        self.mu = mu = numbers(prices, T + (self.deploy > 0) + (budget > 0))
        require(budget == 0 or min(mu) >= 0, "a negative price, where pulls may be left out")
        self.money = mu.pop() if budget > 0 else Fraction(0)
        self.last = mu.pop() if self.deploy > 0 else Fraction(0)
        self.total = units * sum(mu) + self.last * terminal.get("deploy_arms", 1)
        self.total += self.money * budget + sum(n * self.value(x) for n, x in zip(counts, arms))

    def ends(self, x: Any) -> Any:
        """Return numbers to compute with, at most and at least x."""
        near = x if self.exact else float(x)
        return (near, near) if near == x else (nextafter(near, -inf), nextafter(near, inf))

    def law(self, chances: list[Any], states: Any, outcomes: Any) -> list[Any]:
        """Return probabilities with bounds, next states and outcomes of a pull, or of a rest."""
        chances = [Fraction(p) for p in chances]
        require(min(chances) >= 0 and abs(sum(chances) - 1) < 1e-8, "wrong probabilities")
        return [(*self.ends(p), s, o) for p, s, o in zip(chances, states, outcomes, strict=True)]

    def expect(self, rows: Any, rewards: Any, later: Any) -> list[list[Any]]:
        """Return at least E[reward of the outcome + later], by row and state."""
        rewards = [self.ends(x)[1] for x in rewards]
        values: list[list[Any]] = [[] for _ in zip(rows, later)]
        for k, (laws, after) in enumerate(zip(rows, later)):
            for law in laws:
                total: Any = 0
                for low, high, state, outcome in law:
                    x = self.up(rewards[outcome] + after[state])
                    total = self.up(total + self.up((high if x > 0 else low) * x))
                values[k].append(total)
        return values

    def value(self, arm: Any) -> Any:
        """Return V_0 of an arm."""
        T, prior, reward = self.T, arm["prior"], arm["reward"]
        kind, factors = prior.get("kind", "beta"), numbers(reward.get("factor", 1), T)
        unknown = {*arm, *reward, kind} - KNOWN
        require(not unknown, f"cannot be checked with {sorted(unknown)}")
        if kind == "chain":  # its states do not count pulls, and it may move at rest
            at, sides = range(len(prior["rest"])), (enumerate(prior[x]) for x in ("pull", "rest"))
            pull, rest = ([self.law(p, at, [k] * len(at)) for k, p in side] for side in sides)
            means = [numbers(prior[x], len(at)) for x in ("reward", "rest_reward")]
            paid, idle = ([[f * x for x in side] for f in factors] for side in means)
            V, first = self.backward(arm, [pull], paid, means[0], [rest], idle)[0], prior["first"]
            law = numbers(first if isinstance(first, list) else [k == first for k in at], len(at))
            return sum(p * Fraction(x) for p, x in zip(law, V))
        counts = [Fraction(x) for x in prior.get("counts") or (prior["bad"], prior["good"])]
        worth = numbers(reward.get("values", [0, 1]), len(counts))
        paid = [[f * x for x in worth] for f in factors]
        if kind == "beta":
            paid = [[*x] for x in zip(numbers(reward["bad"], T), numbers(reward["good"], T))]
        rows: list[Any] = []
        states, after = {(0,) * len(counts): 0}, dict[tuple[int, ...], int]()
        for n in range(self.most * self.unit * T + 1):
            rows.append([])
            for s in states:
                moves = [(*s[:j], x + 1, *s[j + 1 :]) for j, x in enumerate(s)]
                chances = [(c + x) / (sum(counts) + n) for c, x in zip(counts, s)]
                places = [after.setdefault(state, len(after)) for state in moves]
                rows[n].append(self.law(chances, places, range(len(s))))
            states, after = after, {}
        return Fraction(self.backward(arm, rows, paid, worth, [], [])[0][0])

    def backward(self, arm: Any, rows: Any, paid: Any, worth: Any, rest: Any, idle: Any) -> Any:
        """Return V_0 by row and state; rows[n]: laws of the states after n pulls."""
        last = arm.get("terminal") or [[0] * len(row) for row in rows]
        V = [[self.ends(Fraction(x))[1] for x in row] for row in last]
        if self.deploy > 0:
            nothing, price = [0] * len(worth) * (len(rows[-1]) + 1), self.ends(self.last)[0]
            gains = self.expect(rows, [self.deploy * x for x in worth], [nothing] * len(rows))
            V = [[max(0, self.up(x - price)) for x in row] for row in gains]
        costs, windows = numbers(arm.get("cost", 0), self.T), arm.get("available", [[0, self.T]])
        for t in reversed(range(self.T)):
            best, W = self.expect(rest, idle[t], V) if rest else V, V
            earned = [self.weights[t] * x - self.money * costs[t] for x in paid[t]]
            most = self.most if any(start <= t < end for start, end in windows) else 0
            for a in range(1, most + 1):
                for _ in range(self.unit):
                    W = self.expect(rows, earned, W if rest else W[1:])
                price = self.ends(a * self.mu[t])[0]
                best = [[max(v, self.up(w - price)) for v, w in zip(*x)] for x in zip(best, W)]
            V = best
        return V


def check(certificate: Any) -> float:
    """Return the bound; raise ValueError with the reason if it is not proved."""
    problem, prices = certificate["problem"], certificate["prices"]
    require(certificate["format"] == "decobandit-certificate-1", "format: not a certificate")
    require({*problem} <= KEYS, f"cannot be checked with {sorted({*problem} - KEYS)}")
    digest = sha256(json.dumps([problem, prices], sort_keys=True).encode()).hexdigest()
    require(certificate.get("sha256", digest) == digest, "sha256: problem or prices were changed")
    bound = float.fromhex(certificate["bound"])
    total = Dual(problem, [float.fromhex(price) for price in prices]).total
    require(total <= bound, f"bound {bound!r} is below the dual function, {float(total)!r}")
    return bound


if __name__ == "__main__":
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            print(f"valid: no policy earns more than {check(json.load(file))!r}")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        sys.exit(f"refuted: {type(error).__name__}: {error}")
