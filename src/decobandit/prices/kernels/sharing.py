"""A stage that has several resources: prices at which arms share them out, and the shares.

    maximise  sum_i w_i x_i key_i   subject to  sum_i w_i x_i uses[group_i] <= supply,  0 <= x <= 1

Of any number of offers i (a state's unit, with mass w_i) and few rows. The primal simplex method
with generated columns: a column is what all offers above some prices earn and use, so that a basis
has rows + 1 of them and the solution is a mixture of at most as many.
"""

import numpy as np

from ...support.kernels.compiled import compiled

SMALLEST = 1e-12  # entries of a direction that limit no step


@compiled
def respond(key, weight, group, cost, taken):
    """Take all offers above the cost (groups,) of theirs. Fills taken (groups,); the reward."""
    taken[:] = 0.0
    gained = 0.0
    for i in range(key.shape[0]):
        k = group[i]
        if key[i] > cost[k]:
            gained += weight[i] * key[i]
            taken[k] += weight[i]
    return gained


@compiled
def costs_at(uses, price):
    """Cost of a unit of every group at prices (rows,), (groups,)."""
    cost = np.zeros(uses.shape[0])
    for k in range(uses.shape[0]):
        for r in range(uses.shape[1]):
            if uses[k, r] > 0.0:  # not 0 times infinity
                cost[k] += uses[k, r] * price[r]
    return cost


@compiled
def share_out(key, weight, group, uses, supply, tolerance, most):
    """Share out a stage. Returns its prices (rows,), and a mixture: parts (C,), prices (C, rows).

    uses (groups, rows), supply (rows,). Ends where prices are the best to the tolerance, in reward,
    or after `most` columns. Offers above the prices of a member of the mixture are taken in it.
    """
    rows = supply.shape[0]
    size = rows + 1
    inverse, earned = np.eye(size), np.zeros(size)
    amount = np.ones(size)
    amount[:rows] = supply
    at = np.full((size, rows), np.inf)  # first: unused amounts, and a stage without pulls
    is_flow = np.zeros(size, np.bool_)
    is_flow[rows] = True
    taken, column, price = np.zeros(uses.shape[0]), np.zeros(size), np.zeros(rows)
    best, prices = np.inf, np.zeros(rows)
    for _ in range(most):
        dual = np.sum(earned.reshape(size, 1) * inverse, axis=0)
        reached = np.sum(earned * amount)
        worst = int(np.argmin(dual[:rows]))
        column[:] = 0.0
        gained, enters_flow = 0.0, dual[worst] >= 0.0
        if enters_flow:
            price[:] = dual[:rows]
            cost = costs_at(uses, price)
            gained = respond(key, weight, group, cost, taken)
            value = gained + np.sum(price * supply) - np.sum(taken * cost)
            column[:rows] = np.sum(taken.reshape(taken.size, 1) * uses, axis=0)
            column[rows] = 1.0
            if value < best:
                best = value
                prices[:] = price
            if best - reached <= tolerance:
                break
        else:
            column[worst] = 1.0
        step, leaves = np.inf, -1
        direction = np.sum(inverse * column, axis=1)
        for i in range(size):
            if direction[i] > SMALLEST and amount[i] < step * direction[i]:
                step, leaves = amount[i] / direction[i], i
        if leaves < 0:
            break
        amount = np.maximum(amount - step * direction, 0.0)
        amount[leaves] = step
        inverse[leaves] /= direction[leaves]
        for i in range(size):
            if i != leaves:
                inverse[i] -= direction[i] * inverse[leaves]
        earned[leaves], is_flow[leaves] = gained, enters_flow
        at[leaves] = price
    part = np.where(is_flow, amount, 0.0)
    return prices, part, at


@compiled
def mixed_parts(key, group, uses, part, at):
    """Part of every offer that a mixture takes, (offers,); part (C,), at (C, rows)."""
    parts = np.zeros(key.shape[0])
    for c in range(part.shape[0]):
        if part[c] > 0.0:
            cost = costs_at(uses, at[c])
            for i in range(key.shape[0]):
                if key[i] > cost[group[i]]:
                    parts[i] += part[c]
    return np.minimum(parts, 1.0)
