"""A small design, and what is looked at in the figures of its pages."""

from typing import Any

FILE = """horizon = 12
[[arms]]
name = "control"
prior = { good = 3, bad = 7 }
[[arms]]
name = "new"
[design]
policies = ["thompson"]
control = "control"
burn_in = 2
stop = { superiority = 0.97 }
draws = 300
question = "Is new better?"
[[design.scenarios]]
name = "null"
truth = [0.3, 0.3]
[[design.scenarios]]
name = "works"
truth = [0.3, 0.7]
"""

OVERLAPS = """() => [...document.querySelectorAll("svg")].flatMap((svg) => {
  const texts = [...svg.querySelectorAll("text")];
  const labels = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
  const overlap = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  return labels.flatMap(([one, a], i) =>
    labels.slice(i + 1).filter(([, b]) => overlap(a, b)).map(([two]) => [one, two]));
})"""


def overlapping(page: Any) -> Any:
    """Pairs of labels of a figure that overlap by more than a pixel."""
    return page.evaluate(OVERLAPS)
