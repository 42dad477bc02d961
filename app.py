"""Entry of the app: build the page, open the port, load the models behind it."""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from kvrescue.backend import ModelBackend
from kvrescue.presets import MODEL_SETS
from kvrescue.ui.page import build_page, launch_options


def main() -> None:
    parser = argparse.ArgumentParser(description="kvrescue: the page")
    parser.add_argument("--models", default=os.environ.get("KVRESCUE_MODELS"), help=f"model set: {', '.join(MODEL_SETS)}")
    parser.add_argument("--base", help="your own base model: a local folder or a hub id")
    parser.add_argument("--helper", help="your own helper model (default: the base)")
    parser.add_argument("--port", type=int, default=int(os.environ.get("GRADIO_SERVER_PORT", "7860")))
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    args = parser.parse_args()
    if args.models and args.models not in MODEL_SETS:
        parser.error(f"there is no model set {args.models!r}; known: {', '.join(MODEL_SETS)}")
    backend = ModelBackend(args.models, args.base, args.helper)
    others = [ModelBackend(name) for name in MODEL_SETS if name != backend.model_set]
    page = build_page(backend, *others)
    backend.start()
    options = launch_options()
    if args.host:
        options["server_name"] = args.host
    page.launch(server_port=args.port, **options)


if __name__ == "__main__":
    main()
