from __future__ import annotations

import pytest
import torch

from kvrescue.models.load import Pair, load_pair

torch.set_num_threads(2)


@pytest.fixture(scope="session")
def smollm2() -> Pair:
    """The real default models: fetched and converted on the first use, from the cache afterwards."""
    return load_pair("smollm2")
