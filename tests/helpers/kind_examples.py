"""What the examples of other outcomes say, by second roads: prior means, Bellman's equation."""

from functools import cache
from typing import Any

import numpy as np
import pytest

Names = dict[str, Any]  # that an example leaves


def above_all(names: Names, values: dict[str, float], bound: float) -> None:
    """No policy is above the bound by more than chance, and DeCo beats equal allocation."""
    errors = names["errors"]
    assert all(value <= bound + 4.5 * errors[name] for name, value in values.items())
    assert values["deco"] > values["equal"] + 4.5 * np.hypot(errors["deco"], errors["equal"])


def check_ordinal_endpoint(names: Names) -> None:
    standard = names["problem"].arms[0].prior.counts
    assert standard == pytest.approx((1 + 60 / 4, 1 + 35 / 4, 1 + 25 / 4))
    mean = float(np.array([0, 0.5, 1]) @ standard / sum(standard))
    values, errors = names["values"], names["errors"]
    # fifteen patients on each: the prior means of the arms
    assert values["equal"] == pytest.approx(15 * (mean + 0.5 + 0.5), abs=4.5 * errors["equal"])
    above_all(names, values, names["solution"].upper_bound)
    assert np.all(np.diff(names["index"]) < 0.0)
    assert names["index"][-1] > 0.5


def check_measurements(names: Names) -> None:
    values, errors, solution = names["values"], names["errors"], names["solution"]
    assert values["equal"] == pytest.approx(40 * 4.0, abs=4.5 * errors["equal"])
    above_all(names, values, solution.upper_bound)
    coarse, fine = names["coarse"], names["fine"]
    widths = [each.upper_bound - each.lower_bound for each in (coarse, fine)]
    assert widths[0] / widths[1] == pytest.approx(4.0, abs=1.0)
    assert coarse.lower_bound <= fine.upper_bound
    assert fine.lower_bound <= solution.upper_bound


def check_event_counts(names: Names) -> None:
    priors = [arm.prior for arm in names["problem"].arms]
    means = [(3 + 18 / 2) / (1 + 8 / 2), (3 + 31 / 2) / (1 + 10 / 2), 3.0, 3.0]
    assert [prior.shape / prior.rate for prior in priors] == pytest.approx(means)
    falls, errors = names["falls"], names["errors"]
    # 26 weeks of four schedules in turns: two of them have one week more
    least, most = (6 * sum(means) + sum(sorted(means)[i : i + 2]) for i in (0, 2))
    assert least - 4.5 * errors["equal"] <= falls["equal"] <= most + 4.5 * errors["equal"]
    above_all(names, {name: -n for name, n in falls.items()}, names["solution"].upper_bound)
    assert names["pulls"].sum() == 26


def check_own_arm(names: Names) -> None:
    """The optimum again, by Bellman's equation over the steps of two advertisements."""

    @cache
    def value(day: int, odd: int, loud: int) -> float:
        if day == 30:
            return 0.0
        stay = value(day + 1, odd, loud)
        use_odd = [0.2, 0.4, 1.0][odd] + (
            stay if odd == 2 else 0.7 * stay + 0.3 * value(day + 1, odd + 1, loud)
        )
        use_loud = [1.4, 0.9, 0.1][loud] + (
            stay if loud == 2 else 0.6 * stay + 0.4 * value(day + 1, odd, loud + 1)
        )
        return max(use_odd, use_loud, 0.6 + stay)

    assert names["best"] == pytest.approx(value(0, 0, 0))
    above_all(names, names["values"], names["best"])
    assert names["best"] <= names["solution"].upper_bound
