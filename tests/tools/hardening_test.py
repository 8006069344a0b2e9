"""What hardening.cmake asks for is in the programs and the libraries: a flag that a build drops is seen here."""
import pathlib
import re
import subprocess
import sys

BIN = pathlib.Path(sys.argv[1]).resolve()
READELF = sys.argv[2]
PROGRAMS = [BIN / "mlrun", BIN / "mlpack", *BIN.glob("mlpack-oci"), *BIN.glob("mlrun-alone")]
LIBRARIES = [BIN.parent / "lib/libmlrt.so", BIN.parent / "lib/libmlio.so"]


def readelf(*args):
    return subprocess.run([READELF, "-W", *map(str, args)], check=True, capture_output=True, text=True).stdout


def check_file(path, program):
    """What is missing, in words."""
    headers, dynamic, symbols = readelf("-l", path), readelf("-d", path), readelf("--dyn-syms", path)
    stack = re.search(r"GNU_STACK.*", headers)
    wrong = []
    if not re.search(r"GNU_RELRO", headers) or "BIND_NOW" not in dynamic:
        wrong.append("its tables of addresses stay writable: no full RELRO")
    if not stack or "E" in stack.group(0).split()[-2]:
        wrong.append("its stack is executable")
    if re.search(r"LOAD.*RWE", headers):
        wrong.append("memory is writable and executable at once")
    if "TEXTREL" in dynamic:
        wrong.append("its code is relocated")
    if program and " PIE" not in dynamic:
        wrong.append("it is loaded at a fixed address")
    if "__stack_chk_fail" not in symbols:
        wrong.append("no function has a stack protector")
    if program and not re.search(r"__\w+_chk@", symbols):
        wrong.append("no copy is checked (_FORTIFY_SOURCE)")
    if program and path.name != "mlrun-alone" and "__glibcxx_assert_fail" not in symbols:  # which has that function inside
        wrong.append("indices into containers are not checked (_GLIBCXX_ASSERTIONS)")
    return wrong


failed = 0
for path in [*PROGRAMS, *LIBRARIES]:
    wrong = check_file(path, path in PROGRAMS)
    failed += bool(wrong)
    print(f"{'FAIL' if wrong else 'ok'}    {path.name} {'; '.join(wrong)}")
count = len(PROGRAMS) + len(LIBRARIES)
print(f"[doctest] test cases: {count} | {count - failed} passed | {failed} failed | 0 skipped")
sys.exit(min(failed, 1))
