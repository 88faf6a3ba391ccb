"""What one pull of an arm is worth: its reward, and what it changes in a table over states.

    worth = reward_bad + p spread  +  p v(n+1, g+1) + (1-p) v(n+1, g) - v(n, g)
            expected reward, ell      what the outcome adds to v: delta

with spread = reward_good - reward_bad and p the chance of a good outcome.
    v = V_{t+1}, values at later prices    the index: delta is the value of information
    v = terminal rewards                   what a pull earns in all (`joint`)

Inlined: the caller's loop is compiled as if the formula stood in it, with the caller's options.
"""

from ...support.kernels.compiled import compiled


@compiled(inline="always")
def worth(p, bad, spread, own, after_bad, after_good):
    """Worth of a pull; own, after_bad, after_good: v(n, g), v(n+1, g), v(n+1, g+1)."""
    return bad + after_bad - own + p * (spread + after_good - after_bad)


@compiled(inline="always")
def expected_reward(p, bad, good):
    """Reward of a pull, where good and bad outcomes earn so much: `worth` without v."""
    return bad + p * (good - bad)
