"""DeCo in plain Python, slow and complete: one pull per stage, good earns 1 and bad earns 0.

A prior is (good, bad), and so is the state of one arm: its observed outcomes. A key (a, state)
means arm a in that state."""


def chance(prior, state):
    """The posterior probability of a good outcome; with these rewards also the expected reward."""
    return (prior[0] + state[0]) / (sum(prior) + sum(state))


def index_of(prior, state, later):
    """Expected reward + value of information, where `later` are the arm's values one stage on."""
    (good, bad), p = state, chance(prior, state)
    return p + p * later[good + 1, bad] + (1 - p) * later[good, bad + 1] - later[state]


def backward(priors, horizon, price_of):
    """Every arm alone, from the last stage to the first: indices, prices and the upper bound."""
    states = [[(g, n - g) for n in range(t + 1) for g in range(n + 1)] for t in range(horizon + 1)]
    values = [dict.fromkeys(states[horizon], 0.0) for _ in priors]
    index, price = [{} for _ in range(horizon)], [0.0] * horizon
    for t in reversed(range(horizon)):
        for a, prior in enumerate(priors):
            index[t] |= {(a, s): index_of(prior, s, values[a]) for s in states[t]}
        price[t] = price_of(t, index[t])
        for a, s in index[t]:
            values[a][s] += max(index[t][a, s] - price[t], 0.0)  # pulled where index > price
    return index, price, sum(value[0, 0] for value in values) + sum(price)


def forward(priors, index, pull):
    """State probabilities of every stage, expected pulls by stage, and expected reward."""
    mass, masses, pulls, reward = {(a, (0, 0)): 1.0 for a in range(len(priors))}, [], [], 0.0
    for t in range(len(index)):
        pulled, after = pull(t, index[t], mass), {}
        for (a, (g, b)), m in mass.items():
            x, p = pulled.get((a, (g, b)), 0.0), chance(priors[a], (g, b))
            reward += x * p
            for s, part in (((g, b), m - x), ((g + 1, b), x * p), ((g, b + 1), x * (1 - p))):
                after[a, s] = after.get((a, s), 0.0) + part
        masses, pulls, mass = [*masses, mass], [*pulls, sum(pulled.values())], after
    return masses, pulls, reward


def dual(priors, mu):
    """The dual function at prices mu, an upper bound; and its subgradient, 1 - expected pulls."""
    index, _, bound = backward(priors, len(mu), lambda t, index: mu[t])
    relaxed = forward(priors, index, lambda t, i, mass: {k: mass[k] for k in mass if i[k] > mu[t]})
    return bound, [1.0 - pulls for pulls in relaxed[1]]


def auction(index, mass):
    """Sell one pull to the largest indices: how much each state buys, and the price."""
    bought, left, price = {}, 1.0, 0.0
    for key in sorted(mass, key=index.get, reverse=True):
        if left > 1e-12:
            bought[key], price = min(mass[key], left), index[key]
            left -= bought[key]
    return bought, price


def solve(priors, horizon, rounds=30):
    """Prices, the upper bound at these prices, and a lower bound on the minimum of the dual."""
    index, price, upper = backward(priors, horizon, lambda t, index: 1.0)
    average, best, lower = [{} for _ in range(horizon)], (upper, price), 0.0
    for k in range(rounds):
        masses, _, reward = forward(priors, index, lambda t, *market: auction(*market)[0])
        for old, new in zip(average, masses, strict=True):
            for key in old | new:
                old[key] = (k * old.get(key, 0.0) + 2 * new.get(key, 0.0)) / (k + 2)
        index, price, upper = backward(priors, horizon, lambda t, i: auction(i, average[t])[1])
        best, lower = min(best, (upper, price)), max(lower, reward)
    return best[1], best[0], lower


def choose(priors, mu, stage, states):
    """The policy: the arm of largest index; ties go to the least pulled, then to the first."""
    index, _, _ = backward(priors, len(mu), lambda t, index: mu[t])
    return max(enumerate(states), key=lambda arm: (round(index[stage][arm], 12), -sum(arm[1])))[0]
