"""
An A/B/n test with ten variants
===============================

Ten versions of a page, and three hundred visitors. Versions convert about one visitor in ten,
some more and some less: earlier tests suggest Beta(2, 18). If every version is shown equally
often, nine visitors in ten do not see the best one. How many conversions can be gained, and how
many at most?
"""

from decobandit import Beta, Problem, State, Workbench, simulate
from decobandit.plots import regret_figure

problem = Problem.uniform(arms=10, horizon=300, prior=Beta(good=2, bad=18))
bench = Workbench(problem)
print(bench.solution)

# %%
# The line above is a certificate. Whatever the policy, it cannot expect more conversions than the
# upper end of that interval.
#
# All policies on the same visitors
# ---------------------------------
# There are too many states for exact values, so we simulate. Every policy meets the same
# versions, and the j-th visitor of a version does the same under each of them: what differs is
# due to the policies.

NAMES = ("deco", "bayes-ucb", "thompson", "greedy", "equal")
policies = [bench.policy(name) for name in NAMES]
results = simulate(problem, policies, draws=384, per_draw=2, seed=1, solution=bench.solution)

print(f"{'policy':10} {'conversions':>18} {'more than equal':>18} {'of the bound':>13}")
for found in results.results:
    more = results.difference(found.policy, "equal")
    print(
        f"{found.policy:10} {found.value:10.2f} ± {found.value_se:5.2f} "
        f"{more.value:10.2f} ± {more.standard_error:5.2f} "
        f"{found.value / bench.solution.upper_bound:13.1%}"
    )

# %%
# The number after ± is one standard error. *Regret* is what is missing to somebody who knows the
# best version from the start. It cannot be zero: what that person earns is above the bound on
# what can be earned without this knowledge.

figure = regret_figure(results)

# %%
# In the middle of the test
# -------------------------
# After some visitors, which version comes next? A state is conversions/visitors for each version.
# The index of a version is what it is expected to convert, plus what its next visitor teaches.

state = State.parse("1/12,0/9,3/14,2/11,0/8,1/10,4/21,0/0,1/9,0/6")
deco = policies[0]
terms = deco.terms(state.total, state)
for position in deco.indices(state.total, state).argsort()[::-1][:4]:
    name, of = problem.arms[position].name, terms[position]
    print(
        f"{name:7} {state.good[position]:2}/{state.pulls[position]:<3} "
        f"expected {of.expected_reward:.4f} + information {of.value_of_information:.4f} "
        f"= index {of.index:.4f}"
    )
(chosen,) = deco.choose(state.total, state)
print("next:", problem.arms[chosen].name)

# %%
# What to try next
# ----------------
# - Add ``"fh-gittins"`` and ``"deco-calibrated"`` to the policies: two more indices, whose tables
#   take longer to make.
# - Visitors come in batches: ``pulls_per_stage`` shows several versions at once.
# - The winner stays on the page for a year: give the problem a ``Terminal(deploy=...)``.
