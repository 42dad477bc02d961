"""Entry of the app: build the page, open the port, load the models behind it."""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from kvrescue import zero  # noqa: F401  first of all: on ZeroGPU it must come before torch
from kvrescue.backend import ModelBackend
from kvrescue.cli import choice_of, model_options
from kvrescue.config import ConfigError
from kvrescue.presets import MODEL_SETS, offered
from kvrescue.ui.page import build_page, launch_options


def main() -> None:
    parser = argparse.ArgumentParser(description="kvrescue: the page")
    model_options(parser)
    parser.set_defaults(models=wanted())
    parser.add_argument("--port", type=int, default=int(os.environ.get("GRADIO_SERVER_PORT", "7860")))
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    args = parser.parse_args()
    try:
        backend = ModelBackend(choice_of(args))
    except ConfigError as error:
        parser.error(str(error))
    others = [ModelBackend(name) for name in offered(backend.model_set) if name != backend.model_set]
    page = build_page(backend, *others)
    options = launch_options(page)
    if args.host:
        options["server_name"] = args.host
    for one in (backend, *others):
        if one.lent:
            one.start()
    page.launch(server_port=args.port, prevent_thread_lock=True, **options)
    backend.start()
    page.block_thread()


def wanted() -> str | None:
    """The set that a Space's variable names; none where it could not run, so that a copy of a Space without a GPU shows the lab."""
    name = os.environ.get("KVRESCUE_MODELS")
    return None if name in MODEL_SETS and name not in offered(name) else name


if __name__ == "__main__":
    main()
