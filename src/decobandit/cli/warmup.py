"""`deco warmup`: compile the kernels once, so that later commands start at once."""

from __future__ import annotations


def warmup() -> None:
    """Compile the kernels and keep them on disk."""
    import time

    from ..arm import EXACT_STAGES, PricePath
    from ..bounds import gap, information_bound
    from ..evaluation import evaluate
    from ..joint import optimum
    from ..policies import POLICIES, CalibratedPolicy, OptimalPolicy, fh_gittins, policy_class
    from ..policies.deco import deco
    from ..prices import dual_value, solve
    from ..problem import Problem, State
    from ..simulation import simulate

    began = time.perf_counter()
    problem = Problem.uniform(arms=2, horizon=4)
    solution = solve(problem)
    dual_value(problem, solution.prices)
    policy = deco(solution)
    policy.choose(State.fresh(2))
    evaluate(problem, policy)
    evaluate(problem, fh_gittins(problem))
    optimum(problem)
    three = Problem.uniform(arms=3, horizon=4)
    evaluate(three, OptimalPolicy(three))
    longer = Problem.uniform(arms=1, horizon=EXACT_STAGES + 1)
    CalibratedPolicy(longer, PricePath(kappa=0.1), sweeps=64).stage_index(0)
    CalibratedPolicy(problem, PricePath(tick=0.1)).arm_index(0, 0, 0, 0)
    solve(Problem.uniform(arms=2, horizon=110))
    optimum(Problem.uniform(arms=3, horizon=4, pulls_per_stage=2))
    kinds = {name: policy_class(name) for name, each in POLICIES.items() if each.single}
    compiled = [name for name, kind in kinds.items() if kind.plays_compiled()]
    simulate(problem, compiled, draws=2, per_draw=1)
    batches = Problem.uniform(arms=2, horizon=2, pulls_per_stage=4, unit=2, repeat=True)
    simulate(batches, [name for name, each in POLICIES.items() if each.batches], draws=2)
    for arms in (2, 3):
        information_bound(Problem.uniform(arms=arms, horizon=4), draws=2)
    gap(problem, policy, solution=solution, method="simulated", draws=2)
    print(f"kernels ready ({time.perf_counter() - began:.1f} s)")
