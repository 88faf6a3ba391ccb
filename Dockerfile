# The server of trials: docker build --tag decobandit .
# Everything is installed and compiled when the image is built; nothing is fetched when it runs.
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/decobandit \
 && /opt/decobandit/bin/pip install --no-cache-dir ".[server,postgres]" \
 && DECO_CACHE=/opt/decobandit/cache /opt/decobandit/bin/deco warmup --all

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin deco \
 && install --directory --owner=deco --group=deco --mode=0700 /data
COPY --from=build --chown=10001:10001 /opt/decobandit /opt/decobandit
ENV PATH=/opt/decobandit/bin:$PATH \
    DECO_CACHE=/opt/decobandit/cache \
    DECO_DB=/data/trials.db \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/api/v1/live', timeout=4)"]
ENTRYPOINT ["deco", "serve", "--host", "0.0.0.0", "--port", "8000", "--log-format", "json"]
