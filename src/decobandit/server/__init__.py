"""Trials over HTTP: an API and pages. Needs the extra `server`.

`api/`: routes by subject, what is sent `schemas.py`, answered `responses.py`; requests that skip
FastAPI `plain_calls.py`. `pages/`: forms and templates. `middleware/`: what happens to every
request. Changes share commits (`shared_commits.py`), long work has a process of its own
(`long_work.py`). What is on record of people: `recorder.py`; of HTTP itself: `http_protocol.py`.
"""
