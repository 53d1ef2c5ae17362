# What trains at an institution: torch and all.
# In the repository's root: docker build -f deploy/docker/client.Dockerfile -t fedgt-client:0.1.0 .
#
# The tag follows the pattern of Flower's earlier releases; where it differs, set FLWR.
ARG FLWR=1.39.0-py3.11-ubuntu24.04
FROM flwr/superexec:${FLWR}

# With PyPI's build of torch for Linux, which works with a graphics card and without.
RUN --mount=type=bind,source=deploy/docker/requirements-client.lock,target=/tmp/requirements.txt \
    python -m pip install --no-cache-dir --require-hashes --requirement /tmp/requirements.txt
RUN --mount=type=bind,target=/tmp/fedgt,rw \
    python -m pip install --no-cache-dir --no-deps --no-build-isolation /tmp/fedgt

# Flower's own 'app'; the compose files put the owner of the kit in its place.
USER 49999
ENTRYPOINT ["flower-superexec"]
