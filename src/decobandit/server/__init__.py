"""Trials over HTTP: an API and pages. Needs the extra `server`.

`api/`: routes, request bodies (`schemas.py`), responses (`responses.py`), plans and new trials
(`planning.py`). `pages/`: forms and templates. Slow computations run in processes of their own
(`long_work.py`). Tokens, roles, access log: `auth.py`; log and metrics: `observation.py`; HTTP
itself: `http_server.py`.
"""
