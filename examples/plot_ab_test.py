"""
An A/B/n test with ten variants
===============================

Ten versions of a page, and three hundred visitors. Versions convert about one visitor in ten,
some more and some less: earlier tests suggest Beta(2, 18). If every version is shown equally
often, nine visitors in ten do not see the best one. How many conversions can a policy gain, and
how many could any policy gain?
"""

from decobandit import BetaBernoulli, Problem, State, make_policy, recommend, simulate, solve
from decobandit.figures import regret_figure, show_figure

problem = Problem.uniform(arms=10, horizon=300, prior=BetaBernoulli(good=2, bad=18))
solution = solve(problem)
print(solution)

# %%
# The upper end of this interval is certified: no policy has more expected conversions.
#
# All policies on the same visitors
# ---------------------------------
# There are too many states for exact values, so we simulate. All policies get the same conversion
# rates, and the j-th visitor of a version does the same under each policy. Differences are due to
# the policies alone.

NAMES = ("deco", "bayes-ucb", "thompson", "greedy", "equal")
policies = [make_policy(problem, name, solution=solution) for name in NAMES]
results = simulate(problem, policies, draws=384, per_draw=2, rng=1, solution=solution)

print(f"{'policy':10} {'conversions':>18} {'more than equal':>18} {'of the bound':>13}")
for result in results.results:
    more = results.difference(result.policy, "equal")
    print(
        f"{result.policy:10} {result.value:10.2f} ± {result.value_se:5.2f} "
        f"{more.value:10.2f} ± {more.value_se:5.2f} "
        f"{result.value / solution.upper_bound:13.1%}"
    )

# %%
# The number after ± is one standard error. *Regret* is the difference from always showing the best
# version. It cannot be zero: a policy does not know the best version, and always showing it earns
# more than the upper bound on every policy.

figure = regret_figure(results)
show_figure(figure)

# %%
# During the test
# ---------------
# After some visitors, which version comes next? A state is conversions/visitors for each version.
# The index of a version is its expected conversion rate, plus the value of information of its next
# visitor.

state = State.parse("1/12,0/9,3/14,2/11,0/8,1/10,4/21,0/0,1/9,0/6")
deco = policies[0]
terms = recommend(problem, state, deco).arms
for position in deco.indices(state.total, state).argsort()[::-1][:4]:
    name, of = problem.arms[position].name, terms[position]
    print(
        f"{name:7} {state.good[position]:2}/{state.pulls[position]:<3} "
        f"expected {of.expected_reward:.4f} + information {of.value_of_information:.4f} "
        f"= index {of.index:.4f}"
    )
(chosen,) = deco.choose(state)
print("next:", problem.arms[chosen].name)

# %%
# What to try next
# ----------------
# - Add ``"fh-gittins"`` and ``"deco-calibrated"`` to the policies: two more index policies,
#   whose tables take longer to compute.
# - Visitors arrive in batches: ``pulls_per_stage`` shows several versions at once.
# - The winner stays on the page for a year: give the problem a ``Terminal(deploy=...)``.
