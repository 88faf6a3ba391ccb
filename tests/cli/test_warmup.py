"""After `deco warmup` nothing is left to compile: its parts reach every kernel of the package."""

import json
import subprocess
import sys

# kernels, those that Python called, and whom each calls, by the names in its code
REACHED = """
import importlib, json, pkgutil, sys
from numba.core.registry import CPUDispatcher
import decobandit
from decobandit.cli.warmup import PARTS

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
for part in PARTS:
    part()
ahead, reached = [kernel for kernel in kernels if kernel.signatures], set()
while ahead:
    kernel = ahead.pop()
    if kernel not in reached:
        reached.add(kernel)
        known = kernel.py_func.__globals__
        called = [known.get(name) for name in kernel.py_func.__code__.co_names]
        ahead += [each for each in called if isinstance(each, CPUDispatcher)]
print(json.dumps([len(kernels), sorted(kernels[each] for each in set(kernels) - reached)]))
"""


def test_every_kernel_is_reached() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REACHED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    number, missing = json.loads(done.stdout.splitlines()[-1])
    assert number > 200
    assert missing == []
