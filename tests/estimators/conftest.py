"""What the tests of the estimators share."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # networks are so small here that a second thread only costs time
    yield
    torch.set_num_threads(before)
