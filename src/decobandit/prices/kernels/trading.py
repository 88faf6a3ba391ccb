"""One stage of several groups of arms together: prices back, masses ahead.

The graphs of all groups (`arm.kernels.graph`) are one after the other; group k has the entries
ends[i, k] .. ends[i, k+1] - 1 of the i-th array. A table of a stage has the states that arms may be
in then, group by group: those of group k stand at now[k] .. now[k+1] - 1; `next` are the same
places of the stage after it, `every` those of all states that there are.

Notations, besides those of `arm.kernels.units`
    terms (4, groups)     base and factor of the rewards of a step; rise and fall of values after it
    low, high (groups, rows)  what is left of each row between 0 and the line, as in `stage_worth`
    offers                units of the states with mass, in the order of states: index and mass
"""

from typing import NamedTuple

import numpy as np

from ...arm.kernels.graph import Graph
from ...arm.kernels.units import (
    advance,
    demand,
    hull_slopes,
    offers,
    raise_values,
    settle_rows,
    stage_worth,
    stage_worths,
)
from ...support import Flags, Floats, Ints
from ...support.kernels.compiled import compiled


class Graphs(NamedTuple):
    """Graphs of groups of arms, as above."""

    layout: Ints  # (groups,)
    even: Flags  # (groups,)
    ends: Ints  # (6, groups + 1) of start, mean, at, weights, to; up and down
    start: Ints
    mean: Floats
    at: Ints
    weights: Floats
    to: Ints
    up: Floats
    down: Floats


@compiled(inline="always")
def graph_of(graphs, k):
    """Return the graph of a group."""
    e = graphs.ends
    return Graph(
        graphs.layout[k],
        graphs.start[e[0, k] : e[0, k + 1]],
        graphs.mean[e[1, k] : e[1, k + 1]],
        graphs.at[e[2, k] : e[2, k + 1]],
        graphs.weights[e[3, k] : e[3, k + 1]],
        graphs.to[e[4, k] : e[4, k + 1]],
        graphs.up[e[5, k] : e[5, k + 1]],
        graphs.down[e[5, k] : e[5, k + 1]],
        graphs.even[k],
    )


@compiled
def price_stage(
    graphs, units, steps, stage, terms, slope, faint, low, high, share, now, next, later, worth
):
    """Fill worth (states, units) from later = V_{t+1}; share: part of the work, and of how many."""
    part, parts = share
    for k in range(now.shape[0] - 1):
        graph = graph_of(graphs, k)
        base, factor, rise, fall = terms[0, k], terms[1, k], terms[2, k], terms[3, k]
        after, gains = later[next[k] : next[k + 1]], worth[now[k] : now[k + 1]]
        if units * steps == 1:
            line = (slope[k], faint[k], low[k], high[k])
            flat = gains.reshape(-1)
            stage_worth(graph, stage, base, factor, rise, fall, *line, part, parts, after, flat)
        else:
            widest = 0
            for n in range(graph.start.shape[0] - 1):
                widest = max(widest, graph.start[n + 1] - graph.start[n])
            earned = (base, factor, rise, fall, widest)
            stage_worths(graph, units, steps, stage, *earned, part, parts, after, gains)


@compiled
def settle_stage(
    graphs, single, stage, cost, ground, slope, faint, low, high, now, next, later, worth, values
):
    """Fill values = V_t at the cost of a unit (groups,); single: arms take one step at most."""
    for k in range(now.shape[0] - 1):
        after, gains = later[next[k] : next[k + 1]], worth[now[k] : now[k + 1]]
        mine = values[now[k] : now[k + 1]]
        if single:
            line = (ground[k], slope[k], faint[k])
            ends = (low[k], high[k])
            settle_rows(graph_of(graphs, k), stage, cost[k], *line, gains, after, mine, *ends)
        else:
            raise_values(gains, cost[k], after, mine)


@compiled
def offer_stage(now, next, places, later, worth, mass, key, weight, count):
    """Collect the offers of the masses of group k, from mass[places[k]] on. Fills count (groups,).

    Returns their number in all.
    """
    total = 0
    for k in range(count.shape[0]):
        size, gains = now[k + 1] - now[k], worth[now[k] : now[k + 1]]
        after, here = later[next[k] : next[k] + size], mass[places[k] : places[k] + size]
        count[k] = offers(after, gains, here, key[total:], weight[total:])
        total += count[k]
    return total


@compiled
def take_offers(units, steps, later, worth, cost, slack, part, parts, mass, under_way):
    """Let the masses of one group take units; adds to under_way by the steps that they take.

    parts: of every offer; where there are none, offers above the cost are taken, and a part of
    those within slack of it: that part of the mass of a state takes all, the rest none. Returns the
    units taken, and how many offers there were.
    """
    at, slopes = np.empty(units + 1, np.int64), np.empty(units)
    spent, offer = 0.0, 0
    for s in range(worth.shape[0]):
        m = mass[s]
        if m <= 0.0:
            continue
        if parts.shape[0] > 0:
            left = m
            for a in range(units):
                taken = m * parts[offer + a]
                under_way[a * steps, s] += left - taken
                spent += taken
                left = taken
            under_way[units * steps, s] += left
        else:
            hull_slopes(later[s], worth[s], at, slopes)
            fewest, most = demand(slopes, cost, slack)
            under_way[fewest * steps, s] += (1.0 - part) * m
            under_way[most * steps, s] += part * m
            spent += m * (fewest + part * (most - fewest))
        offer += units
    return spent, offer


@compiled
def trade_stage(
    graphs, steps, stage, deployed, terms, places, later, worth, deal, blend, average, arms, totals
):
    """Move the masses over a stage, in place, after they have joined the averages.

    places: now, next and every. deal: cost (groups,) to parts, as in `take_offers`. arms: mass, and
    room for the masses by steps to come, zero on return. A deployment moves no mass. totals: fills
    spent (groups,), adds to reward (groups,).
    """
    now, next, every = places
    mass, under_way = arms
    cost, slack, part, parts = deal
    spent, reward = totals
    units = worth.shape[1]
    most = units * steps
    for k in range(now.shape[0] - 1):
        size, masses = now[k + 1] - now[k], mass[every[k] : every[k + 1]]
        if blend > 0.0:
            averages = average[now[k] : now[k + 1]]
            for s in range(size):
                averages[s] += blend * (masses[s] - averages[s])
        first, last = (most + 1) * every[k], (most + 1) * every[k + 1]
        moving = under_way[first:last].reshape((most + 1, every[k + 1] - every[k]))
        after, gains = later[next[k] : next[k + 1]], worth[now[k] : now[k + 1]]
        how = (cost[k], slack, part, parts)
        spent[k], used = take_offers(units, steps, after, gains, *how, masses, moving)
        if parts.shape[0] > 0:
            parts = parts[used:]
        if deployed:
            for s in range(size):
                reward[k] += moving[1, s] * (gains[s, 0] - after[s])
            moving[:] = 0.0
        else:
            base, factor = terms[0, k], terms[1, k]
            reward[k] += advance(graph_of(graphs, k), most, stage, base, factor, masses, moving)
