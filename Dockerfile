# The app in a container; it uses a GPU when the host gives it one and the CPU otherwise.
# Build: docker build -t kvrescue .      Run: docker run -p 7860:7860 [--gpus all] kvrescue
FROM nvidia/cuda:12.8.1-runtime-ubuntu24.04

# Ubuntu 24.04 has Python 3.12; its first user already has the id 1000.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && (userdel --remove ubuntu || true) \
    && useradd --create-home --uid 1000 user
USER 1000
WORKDIR /home/user/app
ENV PATH=/home/user/venv/bin:$PATH \
    HF_HOME=/home/user/.cache/huggingface \
    KVRESCUE_CACHE=/home/user/.cache/kvrescue \
    GRADIO_TEMP_DIR=/home/user/.cache/gradio \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_ANALYTICS_ENABLED=False \
    PYTHONUNBUFFERED=1

# Dependencies in a layer of their own: a change of the code does not install them again.
COPY --chown=user requirements.txt ./
RUN python3 -m venv /home/user/venv && pip install --no-cache-dir -r requirements.txt

COPY --chown=user app.py ./
COPY --chown=user kvrescue ./kvrescue
COPY --chown=user assets ./assets
COPY --chown=user examples ./examples

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/kvrescue/health', timeout=4)"]
CMD ["python", "app.py"]
