# The app in a container; it uses a GPU when the host gives it one and the CPU otherwise.
# Build: docker build -t kvrescue .      Run: docker run -p 7860:7860 [--gpus all] kvrescue
FROM python:3.12-slim

RUN useradd --create-home --uid 1000 user
USER user
WORKDIR /home/user/app
ENV PATH=/home/user/.local/bin:$PATH \
    HF_HOME=/home/user/.cache/huggingface \
    KVRESCUE_CACHE=/home/user/.cache/kvrescue \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_ANALYTICS_ENABLED=False \
    PYTHONUNBUFFERED=1

# Dependencies in a layer of their own: a change of the code does not install them again.
COPY --chown=user requirements.txt ./
RUN pip install --no-cache-dir --user -r requirements.txt

COPY --chown=user app.py ./
COPY --chown=user kvrescue ./kvrescue
COPY --chown=user assets ./assets
COPY --chown=user examples ./examples

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/', timeout=4)"]
CMD ["python", "app.py"]
