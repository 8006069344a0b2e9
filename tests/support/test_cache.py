"""Compiled kernels that all tests of this user share, whatever clone they run from."""
import os
import pathlib


def test_cache():
    """The XDG_CACHE_HOME of tools under test. Keys of what lies there hold the identity of the code generator (packager/compile/cache),
    so that a clone finds what another has compiled unless the generator differs."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(home) / "mlc-tests"
