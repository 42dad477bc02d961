"""Where the user's own files lie."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$KVRESCUE_CACHE, else kvrescue under the user's cache folder."""
    chosen = os.environ.get("KVRESCUE_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root).expanduser() if root else Path.home() / ".cache") / "kvrescue"
