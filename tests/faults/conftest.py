"""Fixtures of the tests in which something goes wrong."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("registry.shelves", "registry.images")

from builders import own_cache  # noqa: E402, F401
