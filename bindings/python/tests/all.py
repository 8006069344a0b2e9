"""Runs the tests of this folder; the last line is for test.sh."""
import pathlib
import sys
import unittest

suite = unittest.defaultTestLoader.discover(str(pathlib.Path(__file__).parent))
result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
failed = len(result.failures) + len(result.errors)
passed = result.testsRun - failed - len(result.skipped)
print(f"[doctest] test cases: {result.testsRun} | {passed} passed | {failed} failed | {len(result.skipped)} skipped")
sys.exit(min(failed, 1))
