"""The order of examples and notebooks: that of use, a clinical trial first."""

from __future__ import annotations

ORDER = (
    "plot_clinical_trial.py",
    "plot_three_arm_design.py",
    "plot_floors.py",
    "plot_live_trial.py",
    "plot_ab_test.py",
    "plot_hourly_batches.py",
    "plot_judgements.py",
    "plot_batches.py",
    "plot_deployment.py",
    "plot_seasons.py",
    "plot_other_outcomes.py",
    "plot_ordinal_endpoint.py",
    "plot_measurements.py",
    "plot_event_counts.py",
    "plot_own_arm.py",
    "plot_machine_repair.py",
    "plot_health_calls.py",
    "plot_reading_the_gap.py",
    "plot_wrong_prior.py",
    "plot_dask_cluster.py",
)


class OrderOfUse:
    """Sort key of the files of a folder for sphinx-gallery; files not listed come last, by name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        return (ORDER.index(name) if name in ORDER else len(ORDER)), name
