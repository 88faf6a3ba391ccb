"""Runs of the program without the second that it takes to load: forks of a process that has it.

Run as a script, this is the server. It loads the package and the machine code of its kernels, then
reads requests from the socket whose number it is given: a JSON object with `arguments`,
`environment` and `folder`, sent with the three files for standard input, output and error. Each
is answered by {"pid": ...} when the run has begun and {"ended": code} when it is over (negative:
killed by that signal).

A run is a process of its own, with its own environment, folder, signals and files. What it shares
with the others is what was loaded: variables that are read while Python or a library is loaded
(PYTHONPATH, OPENBLAS_NUM_THREADS) come too late for it, and it ends without the interpreter's
finalisation. `tests/cli/test_program_runs.py` compares it with the installed program.
"""

import gc
import importlib
import io
import json
import os
import pkgutil
import socket
import sys
import threading
import traceback
import warnings
from contextlib import redirect_stdout, suppress
from pathlib import Path

LONGEST = 1 << 20  # bytes of a request
LATE = ("scipy.linalg", "matplotlib.pyplot", "plotly.graph_objects", "psycopg")


def load_modules() -> None:
    """Every module of the package, and what it imports late."""
    import decobandit

    for module in pkgutil.walk_packages(decobandit.__path__, "decobandit."):
        importlib.import_module(module.name)
    for name in LATE:
        with suppress(ImportError):
            importlib.import_module(name)


def load_kernels() -> None:
    """Machine code, by using all of it once."""
    import highspy

    with redirect_stdout(io.StringIO()):
        assert call_program(["warmup", "--all"]) == 0
    highspy.Highs.resetGlobalScheduler(True)  # its threads end; a run that needs some starts them


def call_program(arguments: list[str]) -> int:
    """What the installed script does, and what Python does around it; the exit code."""
    from decobandit.cli import main

    sys.argv = [str(Path(sys.executable).with_name("deco")), *arguments]
    try:
        main()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def run(request: dict[str, object], files: list[int]) -> None:
    """One run, in a fork; never returns."""
    code = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.environ.clear()
        os.environ.update(request["environment"])  # type: ignore[call-overload]
        os.chdir(str(request["folder"]))
        code = call_program(request["arguments"])  # type: ignore[arg-type]
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        with suppress(ValueError):  # the program may have closed it
            sys.stdout.flush()
    except BrokenPipeError:
        code = 120  # as Python says when it cannot flush
    finally:
        os._exit(code)


def serve(line: socket.socket) -> None:
    """Requests, one after the other, until nobody is at the other end."""
    while True:
        text, files, _, _ = socket.recv_fds(line, LONGEST, 3)
        if not text:
            return
        pid = os.fork()
        if pid == 0:
            line.close()
            run(json.loads(text), files)
        for file in files:
            os.close(file)
        line.send(json.dumps({"pid": pid}).encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        line.send(json.dumps({"ended": code}).encode())


def threads() -> int:
    """How many threads this process has, those of libraries included."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else threading.active_count()


def main(number: str, *cold: str) -> None:
    # as for an installed script: modules beside this one are not to be found
    sys.path[0] = str(Path(sys.executable).parent)
    load_modules()
    before = threads()  # those of OpenBLAS, which starts them again after a fork
    if not cold:
        load_kernels()
        if threads() > before:  # a fork would lack them: begin again, without machine code
            os.execv(sys.executable, [sys.executable, __file__, number, "cold"])
    # Python 3.12 and later warn of a fork beside threads; those of OpenBLAS do no harm
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    gc.collect()
    gc.freeze()  # so that collections in forks do not copy what they share
    with socket.socket(fileno=int(number)) as line:
        serve(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
