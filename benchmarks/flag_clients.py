"""Clients of flags: `python -m benchmarks.flag_clients PORT FLAG RATE SECONDS SUBJECTS`.

A process of its own. Evaluations are sent at fixed times, RATE per second over kept connections,
whether or not earlier ones are answered: a slow server makes them wait, and what they wait counts.
SUBJECTS different subjects come in turn. Prints milliseconds from the time of sending, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

CONNECTIONS = 64


async def evaluate(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flag: str, subject: str
) -> None:
    """One evaluation; anything but a success ends the measurement."""
    body = json.dumps({"context": {"targetingKey": subject}}).encode()
    head = f"POST /ofrep/v1/evaluate/flags/{flag} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write((head + fields).encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    lines = answer.decode().lower().split("\r\n")
    size = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
    content = await reader.readexactly(size)
    if " 200 " not in lines[0]:
        raise RuntimeError(f"{lines[0]}: {content.decode(errors='replace')}")


async def client(
    number: int, port: int, flag: str, rate: float, total: int, subjects: int, began: float
) -> list[float]:
    """Milliseconds of every CONNECTIONS-th evaluation."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    taken = []
    for k in range(number, total, CONNECTIONS):
        due = began + k / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await evaluate(reader, writer, flag, f"subject {k % subjects}")
        taken.append(1e3 * (time.perf_counter() - due))
    writer.close()
    return taken


async def main(port: int, flag: str, rate: float, seconds: float, subjects: int) -> None:
    """All clients at once."""
    began, total = time.perf_counter() + 0.5, round(rate * seconds)
    clients = (
        client(number, port, flag, rate, total, subjects, began) for number in range(CONNECTIONS)
    )
    taken = [one for part in await asyncio.gather(*clients) for one in part]
    print(json.dumps({"seconds": time.perf_counter() - began, "taken": taken}))


if __name__ == "__main__":
    port, flag, rate, seconds, subjects = sys.argv[1:]
    asyncio.run(main(int(port), flag, float(rate), float(seconds), int(subjects)))
