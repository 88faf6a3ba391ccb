"""Other packages that simulate bandits, each in an environment of its own.

An environment is made once, under results/, and never touches ours. A peer runs as one copy per
core, all at the same time, and its figure is their sum. What cannot be installed or does not run
is said in one line, and nothing fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = HERE / "peer_scripts"
ENVIRONMENTS = HERE / "results" / "peers"
INSTALLING = 300.0  # seconds that an installation may take
RUNNING = 60.0  # seconds that a run may take, loading included


class NotMeasuredError(Exception):
    """Why there is no figure of a peer, in one line."""


@dataclass(frozen=True)
class Peer:
    """A package, and the script that measures it."""

    name: str
    policies: tuple[str, ...]  # that it has too, by our names
    requirements: tuple[str, ...] = ()  # as pip takes them
    script: Path | None = None  # takes policy, arms, horizon, seconds; prints {way: steps/s}
    why_not: str = ""  # where it cannot even be tried
    folder: Path = ENVIRONMENTS


PEERS = (
    Peer(
        "pymab 2.0.1",
        policies=("kl-ucb", "thompson", "ucb1"),
        requirements=("pymab==2.0.1",),
        script=SCRIPTS / "run_pymab.py",
    ),
    Peer(
        "SMPyBandits 0.9.7",
        policies=("kl-ucb", "thompson", "ucb1"),
        # it imports scipy.special.btdtri, which later versions no longer have
        requirements=("SMPyBandits==0.9.7", "scipy<1.14", "numpy<2"),
        script=SCRIPTS / "run_smpybandits.py",
    ),
    Peer(
        "river 0.26.1",
        policies=("thompson", "ucb1", "bayes-ucb"),
        requirements=("river==0.26.1",),
        script=SCRIPTS / "run_river.py",
    ),
    Peer(
        "MABWiser 2.7.4",
        policies=("thompson", "ucb1"),
        requirements=("mabwiser==2.7.4",),
        script=SCRIPTS / "run_mabwiser.py",
    ),
    # information-directed sampling on a grid: scripts, neither on the package index nor a package
    Peer("D. Baudry's IDS", policies=("ids",), why_not="does not install"),
)


def rates(
    peer: Peer, policy: str, arms: int, horizon: int, seconds: float, copies: int | None = None
) -> dict[str, float]:
    """Steps per second for each way to run the peer, by one copy per core or by so many."""
    if why := unusable(peer):
        raise NotMeasuredError(why)
    command = [
        str(_python(peer)),
        "-I",
        str(peer.script),
        policy,
        str(arms),
        str(horizon),
        str(seconds),
    ]
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        for _ in range(copies or os.cpu_count() or 1)
    ]
    try:
        found = [_answer(copy) for copy in running]
    finally:
        for copy in running:
            copy.kill()
            copy.communicate()
    return {way: sum(each[way] for each in found) for way in found[0]}


def _answer(copy: subprocess.Popen[str]) -> dict[str, float]:
    try:
        out, err = copy.communicate(timeout=RUNNING)
    except subprocess.TimeoutExpired:
        raise NotMeasuredError(f"does not run: nothing after {RUNNING:g} s") from None
    if copy.returncode != 0:
        raise NotMeasuredError(f"does not run: {_last_line(err)}")
    found: dict[str, float] = json.loads(_last_line(out))
    return found


@cache
def unusable(peer: Peer) -> str:
    """Make the environment where it is not there; why that cannot be done, or nothing."""
    if peer.why_not or peer.script is None:
        return peer.why_not or "no script"
    done = _python(peer).parents[1] / "installed.txt"
    wanted = "\n".join(peer.requirements)
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return ""
    print(f"installing: {peer.name}", file=sys.stderr)
    home = str(done.parent)
    steps = [[sys.executable, "-m", "venv", "--clear", "--without-pip", home]]
    if peer.requirements:
        options = ["--disable-pip-version-check", "--retries", "1", "--prefer-binary", "--quiet"]
        pip = [sys.executable, "-m", "pip", "--python", str(_python(peer)), "install"]
        steps.append([*pip, *options, *peer.requirements])
    for step in steps:
        try:
            subprocess.run(step, capture_output=True, text=True, check=True, timeout=INSTALLING)
        except subprocess.TimeoutExpired:
            return f"does not install within {INSTALLING:g} s"
        except subprocess.CalledProcessError as error:
            return f"does not install: {_last_line(error.stderr)}"
    done.write_text(wanted, encoding="utf-8")
    return ""


def _python(peer: Peer) -> Path:
    place = peer.folder / peer.name.partition(",")[0].replace(" ", "-")
    return place / ("Scripts" if os.name == "nt" else "bin") / "python"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"
