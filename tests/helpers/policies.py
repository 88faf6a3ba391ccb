"""Policies of one problem by name, and which of them have an index of single arms."""

from decobandit.policies import POLICIES, Context, Policy, make_policies, policy_class

SINGLE_PULLS = tuple(name for name, entry in POLICIES.items() if entry.single)  # serve them


def _without_index() -> tuple[str, ...]:
    return tuple(
        name for name in SINGLE_PULLS if policy_class(name).stage_index is Policy.stage_index
    )


NO_INDEX = _without_index()


class Bench(Context):
    """Policies that share one solved dual."""

    def policy(self, name: str) -> Policy:
        (made,) = make_policies(self, [name])
        return made
