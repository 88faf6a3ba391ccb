"""Trials of a server from another machine: the methods of the library, over HTTP.

    with Client("https://trials.example.org", token) as client:
        trial = client.open_trial("pilot")
        allocation = trial.ask(subject="S-017")
        trial.tell(allocation.id, "good")

Needs the extra `client`. The methods are written once, for `Client` and `AsyncClient`
(`clients.py`). Requests, retries and pages of lists: `exchange.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .clients import AsyncClient as AsyncClient
    from .clients import Client as Client
    from .clients import RemoteTrial as RemoteTrial
    from .exchange import Answer as Answer
    from .exchange import Refused as Refused
    from .exchange import Unreachable as Unreachable

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
