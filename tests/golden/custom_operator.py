#!/usr/bin/env python3
"""The operators of examples/custom_operator, compiled from their texts, against NumPy in every variant of this host.

    custom_operator.py --bin build/release/bin --examples examples
"""
import argparse
import os
import sys
import tempfile

import models  # and where test_cache is
from test_cache import test_cache

TARGETS = "x86-64-v2,x86-64-v3,x86-64-v4,armv8-a,rv64gc"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--examples", required=True)
    args = parser.parse_args()
    folder = os.path.join(args.examples, "custom_operator")
    mlpack, mlrun = os.path.join(args.bin, "mlpack"), [os.path.join(args.bin, "mlrun")]
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as work:
        os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = os.path.join(work, "home")
        os.environ["XDG_CACHE_HOME"] = str(test_cache())
        for name in ("capsules", "faces"):
            container = os.path.join(work, name + ".mlc")
            models.run([mlpack, "build", os.path.join(folder, name + ".onnx"), "--ops", os.path.join(folder, "ops"),
                        "-o", container, "--target", TARGETS])
            variants = models.fitting_variants(mlrun, container)
            assert "portable" in variants and len(variants) > 1, variants
            for variant in variants:
                try:
                    worst = models.compare(os.path.join(folder, name + ".npz"), mlrun, container, variant, work, 1e-5)
                    print(f"ok {name} on {variant}: {worst:.1e}")
                    passed += 1
                except RuntimeError as error:
                    print(f"FAILED {name} on {variant}: {error}")
                    failed += 1
            models.run([*mlrun, "selftest", container])
    print(f"[doctest] test cases: {passed + failed} | {passed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


sys.exit(main())
