# The server of trials: docker build --tag decobandit .
# Everything is installed and compiled when the image is built; nothing is fetched when it runs.
# `make image` names the base by its digest: --build-arg BASE=python@sha256:...
# Kernels are compiled for one kind of CPU, not for the machine that builds the image, so that no
# start compiles them again. Other than x86-64 with AVX2 (2013 and later):
# --build-arg CPU=generic --build-arg CPU_FEATURES=
ARG BASE=python:3.12-slim
FROM ${BASE} AS build
ARG CPU=x86-64-v3
ARG CPU_FEATURES=+avx2,+fma,+bmi,+bmi2,+f16c,+lzcnt,+movbe
ENV NUMBA_CPU_NAME=${CPU} NUMBA_CPU_FEATURES=${CPU_FEATURES}
WORKDIR /source
COPY deploy/requirements.lock ./
RUN python -m venv /opt/decobandit \
 && /opt/decobandit/bin/pip install --no-cache-dir --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY docs ./docs
COPY src ./src
RUN /opt/decobandit/bin/pip install --no-cache-dir --no-deps . \
 && DECO_CACHE=/opt/decobandit/cache /opt/decobandit/bin/deco warmup --all
COPY deploy/sbom.cdx.json /opt/decobandit/sbom.cdx.json

FROM ${BASE}
ARG CPU=x86-64-v3
ARG CPU_FEATURES=+avx2,+fma,+bmi,+bmi2,+f16c,+lzcnt,+movbe
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin deco \
 && install --directory --owner=deco --group=deco --mode=0700 /data
COPY --from=build /opt/decobandit /opt/decobandit
ENV PATH=/opt/decobandit/bin:$PATH \
    NUMBA_CPU_NAME=${CPU} \
    NUMBA_CPU_FEATURES=${CPU_FEATURES} \
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
