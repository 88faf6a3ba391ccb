"""Print the coverage of the last run with `--cov`, one line per room.

Compiled kernels run as machine code, which coverage does not see: they are left out.
"""

from collections import Counter
from pathlib import Path
from textwrap import fill

from coverage import Coverage


def main() -> None:
    """Print the share of executed lines of each room and in all."""
    coverage = Coverage(data_file=".coverage")
    coverage.load()
    lines, missing = Counter[str](), Counter[str]()
    source = Path("src/decobandit").resolve()
    for file in coverage.get_data().measured_files():
        if Path(file).suffix != ".py":  # templates of pages
            continue
        room = Path(file).relative_to(source).parts[0]
        _, statements, _, absent, _ = coverage.analysis2(file)
        for name in (room, "in all"):
            lines[name] += len(statements)
            missing[name] += len(absent)
    shares = {name: f"{name} {100 * (1 - missing[name] / n):.0f}%" for name, n in lines.items()}
    print(f"coverage of the quick tests: {shares.pop('in all')}")
    rooms = [text for name, text in sorted(shares.items()) if not name.endswith(".py")]
    print(fill(", ".join(rooms), 100))


if __name__ == "__main__":
    main()
