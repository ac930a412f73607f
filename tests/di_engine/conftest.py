"""Configs of the tests of this folder may name the classes of tests/config."""

from tests.config.conftest import registered as registered
