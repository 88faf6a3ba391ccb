"""`make test-faults`: DECO_FAULTS faults (1000), and what came of them.

DECO_FAULTS_SEED repeats a run: the same faults in the same order, and clients with the same
preferences; when exactly each of them strikes is for the machine to say. Ctrl-C ends the run with
what was found so far. The figures of a long run go into docs/reliability.md.
"""

import signal
import sys

from helpers.faults.campaign import KEPT, Tally, asked_for, new_seed, open_stage, run_campaign
from helpers.faults.page import PAGE, figures, write_page

LONG = 300  # faults of a run that is worth its place in the page


def main() -> int:
    """Exit code 1 if anything was found that cannot be true."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell may have it ignored
        signal.signal(number, signal.default_int_handler)
    faults, seed = asked_for(1000), new_seed()
    print(f"{faults} faults; to repeat: DECO_FAULTS={faults} DECO_FAULTS_SEED={seed}", flush=True)
    tally = Tally(seed)
    try:
        with open_stage(postgresql=True) as stage:
            run_campaign(stage, tally, faults=faults, say=lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        print("interrupted before anything was found")
        return 130
    text = figures(tally)
    print(text)
    if tally.whole and tally.struck >= LONG:
        write_page(text)
        print(f"written to docs/{PAGE.name}")
    for one in tally.wrong:
        print(one)
    if tally.wrong:
        print(f"{len(tally.wrong)} violations; their histories are in {KEPT}")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
