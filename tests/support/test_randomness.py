"""Seeds: whole numbers as they are, one drawn from a generator, refusals of one line."""

import numpy as np
import pytest

from decobandit.support import generator_of, seed_of
from helpers.refusals import refused


@pytest.mark.parametrize("seed", [0, 7, 2**70, np.int64(7), np.uint8(3)])
def test_a_whole_number_is_the_seed_itself(seed: int) -> None:
    assert seed_of(seed) == int(seed)
    assert type(seed_of(seed)) is int


def test_a_generator_gives_one_number_and_goes_on() -> None:
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    wanted = again.integers(2**53, size=2).tolist()  # that every reader of JSON keeps
    assert [seed_of(rng), seed_of(rng)] == wanted


def test_a_seed_makes_the_generator_of_numpy_and_a_generator_stays() -> None:
    rng = np.random.default_rng(3)
    assert generator_of(rng) is rng
    assert generator_of(5).random() == np.random.default_rng(5).random()


@pytest.mark.parametrize("wrong", ["7", 1.5, True, [1, 2], np.random.RandomState(1)])
def test_what_is_no_seed_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"^rng: .* is not allowed; must be a seed .*Generator"):
        seed_of(wrong)  # type: ignore[arg-type]


def test_a_negative_seed_is_refused() -> None:
    with refused("invalid_argument", "seed"):
        seed_of(-2)
