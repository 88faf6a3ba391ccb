"""After `deco warmup` everyday commands compile nothing; with `--all` every kernel is compiled."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.program import deco_at_terminal

# kernels, those that Python called, and whom each calls, by the names in its code
FOLLOW = """
import contextlib, importlib, io, json, pkgutil, sys
from numba.core.registry import CPUDispatcher
import decobandit
from decobandit.cli import main
from decobandit.cli.set_up import EVERYDAY, RARER

for module in pkgutil.walk_packages(decobandit.__path__, "decobandit."):
    if ".kernels." in module.name:
        importlib.import_module(module.name)
kernels = {
    kernel: f"{kernel.__module__}.{kernel.__name__}"
    for name, module in list(sys.modules.items())
    if name.startswith("decobandit.") and ".kernels." in name
    for kernel in vars(module).values()
    if isinstance(kernel, CPUDispatcher)
}

def called():
    return {(kernel, str(types)) for kernel in kernels for types in kernel.signatures}

def reached():
    ahead, found = [kernel for kernel, _ in called()], set()
    while ahead:
        kernel = ahead.pop()
        if kernel not in found:
            found.add(kernel)
            known = kernel.py_func.__globals__
            named = [known.get(name) for name in kernel.py_func.__code__.co_names]
            ahead += [each for each in named if isinstance(each, CPUDispatcher)]
    return found
"""
REACHED = f"""{FOLLOW}
for part in EVERYDAY + RARER:
    part()
print(json.dumps([len(kernels), sorted(kernels[each] for each in set(kernels) - reached())]))
"""
# one that everyday parts reach by other kernels only may be called: it has been compiled with them
EVERYDAY = f"""{FOLLOW}
for part in EVERYDAY:
    part()
known, inner = called(), reached()
inner -= {{kernel for kernel, _ in known}}
more = {{}}
for command in json.loads(sys.argv[1]):
    sys.argv = ["deco", *command.split()]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
    fresh = [(kernels[each], types) for each, types in called() - known if each not in inner]
    more[command], known = sorted(fresh), known | called()
print(json.dumps([len(known), more]))
"""
DIFFERENT = """horizon = 30
[[arms]]
name = "a"
prior = { good = 2, bad = 3 }
[[arms]]
name = "b"
"""
DESIGN = """
[design]
policies = ["deco-calibrated", "thompson", "equal"]
control = "a"
burn_in = 2
floor = 0.1
delay = 3
looks = { first = 10, every = 10 }
stop = { superiority = 0.99, inferiority = 0.01 }
test = { kind = "posterior", threshold = 0.975 }
draws = 20
[[design.scenarios]]
name = "null"
truth = [0.3, 0.3, 0.3]
"""
COMMANDS = (
    "demo",
    "solve --arms 3 --horizon 20",
    "solve three.toml",
    "bound --arms 2 --horizon 20 --draws 50",
    "bound --arms 5 --horizon 40 --draws 50",
    "bound three.toml --draws 50",
    "optimum two.toml",
    "evaluate --arms 3 --horizon 12 --policy deco,deco-calibrated,fh-gittins,optimal,equal",
    "evaluate two.toml --policy deco,deco-calibrated,fh-gittins,optimal,thompson",
    "evaluate --arms 3 --horizon 12 --truth 0.3,0.4,0.5",
    "simulate --arms 3 --horizon 20 --draws 50",
    "simulate three.toml --draws 50",
    "simulate --arms 3 --horizon 20 --draws 50 --policy greedy,ucb1,kl-ucb,moss",
    "recommend --arms 3 --horizon 20 --state 3/5,2/2,0/0",
    "recommend --arms 3 --horizon 110 --state 3/5,2/2,0/0",
    "gap --arms 3 --horizon 12 --policy deco",
    "path --arms 3 --horizon 12 --out path.svg",
    "market --arms 3 --horizon 10",
    "index --arms 3 --horizon 5 --stage 2 --good 1 --bad 0",
    "design design.toml",
    "trial new --arms 3 --horizon 50 --name pilot --db trials.db",
    "trial ask pilot --db trials.db",
    "trial status pilot --db trials.db",
    "trial new three.toml --name drawn --policy thompson --db trials.db",
    "trial ask drawn --db trials.db",
)


def test_everyday_commands_need_no_other_kernel(tmp_path: Path) -> None:
    three = DIFFERENT + '[[arms]]\nname = "c"\n'
    for name, text in (("two", DIFFERENT), ("three", three), ("design", three + DESIGN)):
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", EVERYDAY, json.dumps(COMMANDS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    number, more = json.loads(done.stdout.splitlines()[-1])
    assert done.stderr == ""
    assert number > 50
    assert {command: found for command, found in more.items() if found} == {}


def test_every_kernel_is_reached() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REACHED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    number, missing = json.loads(done.stdout.splitlines()[-1])
    assert number > 200
    assert missing == []


def test_a_first_command_says_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DECO_CACHE", str(tmp_path))
    problem = ("optimum", "--arms", 2, "--horizon", 2)
    first, second = deco_at_terminal(*problem), deco_at_terminal(*problem)
    assert (first.code, second.code) == (0, 0)
    assert "compiling kernels, first use only: 1" in first.err
    assert "compiling" not in second.err
