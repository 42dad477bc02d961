from __future__ import annotations

import hypothesis
import pytest
import torch

from kvrescue.models.load import Pair, load_pair

torch.set_num_threads(2)
# A property holds or not; how long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def smollm2() -> Pair:
    """The real default models: fetched and converted on the first use, from the cache afterwards."""
    return load_pair("smollm2")
