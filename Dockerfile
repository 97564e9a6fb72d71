# The image of a Spoolrack server: `docker build --tag spoolrack .`
#
# It runs as 10001 and needs one writable folder, the volume; the root file system may be read-only. There is
# no pip, no compiler and no shell script in the way: the program is process 1, and drains on SIGTERM.
# docs/how-to/container.md says how to run it, and how it serves Amazon SQS (SPOOLRACK_SQS). The base is Debian's own Python, which Debian keeps patched; name
# another one by its digest to build the same image twice: --build-arg BASE=debian@sha256:...
ARG BASE=docker.io/library/debian:12-slim

FROM ${BASE} AS build
# Debian's security updates come by rebuilding, so no version is pinned here.
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends python3 python3-venv ca-certificates && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /source
# What is pinned changes less often than the source, so it comes first. Every wheel is held against its hash.
COPY requirements/server.txt requirements/server.txt
RUN python3 -m venv /build && \
    /build/bin/python -m pip wheel --no-cache-dir --no-input --disable-pip-version-check --no-deps \
        --require-hashes --only-binary :all: --wheel-dir /wheels --requirement requirements/server.txt && \
    /build/bin/python -m pip install --no-cache-dir --no-input --disable-pip-version-check \
        --no-index --find-links /wheels hatchling
COPY pyproject.toml README.md LICENSE ./
COPY client/spoolrack client/spoolrack
COPY client/pyspark_spoolrack client/pyspark_spoolrack
COPY client/pyspark_spoolrack_root client/pyspark_spoolrack_root
COPY client/kombu_spoolrack client/kombu_spoolrack
COPY server server
# What builds the wheel stays behind: only what the wheel asks for is installed, from the wheels above alone.
# The compiled files are not held against times, which builders of images change.
RUN /build/bin/python -m pip wheel --no-input --disable-pip-version-check --no-deps --no-index \
        --no-build-isolation --wheel-dir /wheels . && \
    python3 -m venv --without-pip /opt/spoolrack && \
    /build/bin/python -m pip --python /opt/spoolrack/bin/python install --no-cache-dir --no-input \
        --disable-pip-version-check --no-compile --no-index --find-links /wheels 'spoolrack[server,otel]' && \
    /opt/spoolrack/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/spoolrack/lib

FROM ${BASE}
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends python3 && \
    rm -rf /var/lib/apt/lists/* && \
    groupadd --system --gid 10001 spoolrack && \
    useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/spoolrack \
        --shell /usr/sbin/nologin spoolrack && \
    install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/spoolrack
COPY --from=build /opt/spoolrack /opt/spoolrack
# The root of the queues is a folder in the volume, which the program makes as it wants it: a volume has its
# own mode, and a lost+found.
ENV PATH=/opt/spoolrack/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    SPOOLRACK_DATA=/var/lib/spoolrack/root \
    SPOOLRACK_GRPC=0.0.0.0:50051 \
    SPOOLRACK_HTTP=0.0.0.0:8080 \
    SPOOLRACK_HEALTH=0.0.0.0:8081
LABEL org.opencontainers.image.title="Spoolrack" \
      org.opencontainers.image.description="A durable message queue that is nothing but files" \
      org.opencontainers.image.licenses="MIT"
USER 10001:10001
WORKDIR /var/lib/spoolrack
VOLUME /var/lib/spoolrack
EXPOSE 50051 8080 8081
# Asked without TLS, of the listener that serves health and nothing else.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/opt/spoolrack/bin/spoolrack", "health"]
ENTRYPOINT ["/opt/spoolrack/bin/spoolrack"]
CMD ["serve"]
