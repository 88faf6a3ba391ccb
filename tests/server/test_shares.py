"""Nobody takes more places than are left free."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from decobandit.server.errors import ApiError
from decobandit.server.limits import Places


def _shares(places: Places, greedy: int) -> Counter[str]:
    """What so many people hold who all want everything, asking in turn."""
    held = Counter[str]()

    async def ask_for_all() -> None:
        for _ in range(places.count):
            for name in (f"person {i}" for i in range(greedy)):
                with suppress(ApiError):
                    await places.take(name, seconds=0)
                    held[name] += 1

    asyncio.run(ask_for_all())
    return held


@pytest.mark.parametrize("greedy", [1, 2, 3, 7, 15])
def test_whoever_comes_next_finds_a_place(greedy: int) -> None:
    places = Places(16)
    held = _shares(places, greedy)
    assert len(held) == greedy
    assert max(held.values()) - min(held.values()) <= 1
    asyncio.run(places.take("person new", seconds=0))


def test_places_go_to_the_first_who_may_have_one() -> None:
    async def run() -> list[str]:
        places, came = Places(4), list[str]()

        async def want(name: str) -> None:
            await places.take(f"person {name}", seconds=60)
            came.append(name)

        tasks = [asyncio.create_task(want(name)) for name in ("a", "a", "a", "a", "b")]
        await asyncio.sleep(0.01)
        assert came == ["a", "a", "b"]  # two of a, for two are free; then one of b
        places.give_back("person b")
        places.give_back("person a")
        await asyncio.sleep(0.01)
        assert came == ["a", "a", "b", "a"]
        tasks[3].cancel()
        places.give_back("person a")
        places.give_back("person a")
        await asyncio.gather(*tasks, return_exceptions=True)
        assert places.taken.total() == 0
        assert not places.waiting
        return came

    assert len(asyncio.run(run())) == 4


def test_whoever_waits_too_long_is_told_to_come_back() -> None:
    async def run() -> None:
        places = Places(1)
        await places.take("person a", seconds=60)
        await places.take("person b", seconds=0.01)

    with pytest.raises(ApiError) as busy:
        asyncio.run(run())
    assert (busy.value.status_code, busy.value.headers) == (503, {"Retry-After": "1"})


def test_strangers_together_take_a_quarter() -> None:
    async def run() -> int:
        places, taken = Places(16), 0
        for address in map(str, range(16)):
            with suppress(ApiError):
                await places.take(address, seconds=0)
                taken += 1
        return taken

    assert asyncio.run(run()) == 4
