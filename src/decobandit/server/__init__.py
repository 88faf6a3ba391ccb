"""Trials over HTTP: an API and pages. Needs the extra `server`.

`api/`: routes, request bodies (`schemas.py`), responses (`responses.py`), plans and new trials
(`planning.py`). `pages/`: forms and templates. Slow computations run in processes of their own
(`long_work.py`). Access log: `recorder.py`; HTTP itself: `http_server.py`.
"""
