"""`deco warmup`: compile the kernels once, so that later commands start at once."""

from __future__ import annotations


def warmup() -> None:
    """Compile the kernels and keep them on disk."""
    import time

    from ..calibration import EXACT_STAGES, PricePath
    from ..dual import dual_value, solve
    from ..evaluation import evaluate
    from ..gaps import gap
    from ..information_bounds import information_bound
    from ..joint_optimum import optimum
    from ..policies.calibrated import CalibratedPolicy, fh_gittins
    from ..policies.deco import deco
    from ..policies.optimal import OptimalPolicy
    from ..problem import Problem
    from ..registry import POLICIES, Workbench
    from ..simulation import simulate
    from ..state import State

    began = time.perf_counter()
    problem = Problem.uniform(arms=2, horizon=4)
    solution = solve(problem)
    dual_value(problem, solution.prices)
    policy = deco(solution)
    policy.choose(0, State.fresh(2))
    evaluate(policy)
    evaluate(fh_gittins(problem))
    optimum(problem)
    evaluate(OptimalPolicy(Problem.uniform(arms=3, horizon=4)))
    longer = Problem.uniform(arms=1, horizon=EXACT_STAGES + 1)
    CalibratedPolicy(longer, PricePath(kappa=0.1), sweeps=64).stage_index(0)
    solve(Problem.uniform(arms=2, horizon=110))
    optimum(Problem.uniform(arms=3, horizon=4, pulls_per_stage=2))
    bench = Workbench(problem)
    names = [name for name in POLICIES if name not in ("rolling-deco", "optimal")]
    simulate(problem, [bench.policy(name) for name in names], draws=2, per_draw=1)
    for arms in (2, 3):
        information_bound(Problem.uniform(arms=arms, horizon=4), draws=2)
    gap(policy, solution=solution, method="simulated", draws=2)
    print(f"kernels ready ({time.perf_counter() - began:.1f} s)")
