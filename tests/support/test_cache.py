"""The cache: what is kept, what goes, and who makes a value that several threads ask for."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from decobandit.support import Cache

PATIENCE = 240.0  # seconds, of tests that would otherwise wait for ever


def test_the_value_unused_for_longest_goes_first() -> None:
    cache = Cache[str, int](2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1  # a use: now b is the older one
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert "a" in cache  # not a use: a stays the older one
    assert cache.values() == [1, 3]
    cache.put("d", 4)
    assert cache.values() == [3, 4]


def test_bytes_are_counted_where_values_have_a_size() -> None:
    cache = Cache[str, bytes](10, size=len)
    cache.put("a", b"1234")
    cache.put("b", b"12345")
    assert len(cache) == 2
    cache.put("b", b"123456")  # in place of the other
    assert cache.values() == [b"1234", b"123456"]
    cache.put("c", b"1")
    assert cache.values() == [b"123456", b"1"]
    cache.put("d", b"12345678901")  # larger than all the room: others stay
    assert cache.values() == [b"123456", b"1"]
    cache.put("c", b"12345678901")  # and what it would replace is out of date
    assert cache.values() == [b"123456"]
    cache.drop("b")
    cache.put("e", b"1234567890")
    assert cache.values() == [b"1234567890"]
    cache.clear()
    cache.put("f", b"1234567890")
    assert len(cache) == 1


def test_none_is_a_value_too() -> None:
    cache, made = Cache[str, int | None](2), []
    for _ in range(2):
        assert cache.get_or_make("a", lambda: made.append(1)) is None
    assert made == [1]


def test_a_value_too_large_to_keep_is_returned_all_the_same() -> None:
    cache = Cache[str, bytes](2, size=len)
    assert cache.get_or_make("a", lambda: b"123") == b"123"
    assert len(cache) == 0


def test_several_threads_make_a_value_once() -> None:
    cache = Cache[str, object](4)
    start, made = threading.Barrier(8), []

    def make() -> object:
        made.append(threading.get_ident())
        slow.wait(0.05)
        return object()

    def ask(_: int) -> object:
        start.wait(PATIENCE)
        return cache.get_or_make("a", make)

    slow = threading.Event()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(made) == 1
    assert len(set(map(id, found))) == 1


def test_no_lock_is_held_while_a_value_is_made() -> None:
    cache = Cache[str, int](4)

    def make() -> int:
        # other keys, also new ones, are served meanwhile by another thread
        with ThreadPoolExecutor(1) as pool:
            pool.submit(cache.put, "b", 2).result(PATIENCE)
            assert pool.submit(cache.get_or_make, "c", lambda: 3).result(PATIENCE) == 3
        return 1

    assert cache.get_or_make("a", make) == 1
    assert sorted(cache.values()) == [1, 2, 3]


def test_a_failure_is_for_who_made_it_and_others_try_again() -> None:
    cache = Cache[str, int](4)
    begun, go_on = threading.Event(), threading.Event()

    def fail() -> int:
        begun.set()
        go_on.wait(PATIENCE)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get_or_make, "a", fail)
        begun.wait(PATIENCE)
        second = pool.submit(cache.get_or_make, "a", lambda: 5)
        go_on.set()
        with pytest.raises(KeyboardInterrupt):
            first.result(PATIENCE)
        assert second.result(PATIENCE) == 5
    assert cache.get("a") == 5


def test_threads_that_want_values_of_each_other_do_not_wait_for_ever() -> None:
    cache = Cache[int, int](10)
    start, made = threading.Barrier(2), []

    def make(keys: list[int]) -> list[int]:
        made.extend(keys)
        start.wait(PATIENCE)  # both are under way, each with keys of its own
        return [10 * key for key in keys]

    def ask(keys: list[int]) -> list[int]:
        return cache.get_or_make_all(keys, make)

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(ask, [1, 2, 2])
        while not made:  # it has claimed 1 and 2
            pass
        two = pool.submit(ask, [2, 3, 1])
        assert one.result(PATIENCE) == [10, 20, 20]
        assert two.result(PATIENCE) == [20, 30, 10]
    assert sorted(made) == [1, 2, 3]


def test_updates_of_several_threads_are_all_counted() -> None:
    cache = Cache[str, int](1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: cache.update("a", lambda n: (n or 0) + 1), range(2000)))
    assert cache.get("a") == 2000
