"""The tests, by subject; code that several of them use is in `tests.support`."""

from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[1]
