"""Settings that cannot be used stop the start and are named."""

import pytest

from queues.conf import Conf
from queues.words.errors import InvalidSetting


def test_a_build_without_a_name_is_called_unversioned() -> None:
    assert Conf().generation == "unversioned"


@pytest.mark.parametrize("generation", ["", None, 7])
def test_an_empty_generation_is_refused(generation: str) -> None:
    with pytest.raises(InvalidSetting, match="GENERATION"):
        Conf(generation=generation)
