"""Entry of the app: build the page, open the port, load the models behind it."""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from kvrescue import zero  # noqa: F401  first of all: on ZeroGPU it must come before torch
from kvrescue.backend import ModelBackend
from kvrescue.cli import choice_of, model_options
from kvrescue.config import ConfigError
from kvrescue.presets import named_set, offered
from kvrescue.ui.page import build_page, launch_options


def main() -> None:
    parser = argparse.ArgumentParser(description="kvrescue: the page")
    model_options(parser)
    parser.set_defaults(models=named_set())
    parser.add_argument("--port", type=int, default=int(os.environ.get("GRADIO_SERVER_PORT", "7860")))
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    args = parser.parse_args()
    try:
        backend = ModelBackend(choice_of(args))
    except ConfigError as error:
        parser.error(str(error))
    others = [ModelBackend(name) for name in offered(backend.model_set) if name != backend.model_set]
    page = build_page(backend, *others)
    for lent in (one for one in (backend, *others) if one.lent):
        lent.start()
    page.launch(server_port=args.port, prevent_thread_lock=True, **launch_options(page, args.host))
    backend.start()
    page.block_thread()


if __name__ == "__main__":
    main()
