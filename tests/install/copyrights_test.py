"""share/doc/PACKAGE/copyright of an installed tree names whose code is in its programs: what their bytes tell, and no text of another origin."""
import pathlib
import re
import subprocess
import sys

from installed import BUILD, ROOT, SCRATCH, install, main

# What codecs and libraries say of themselves in programs, and the package of Debian that they were linked from.
MARKS = {rb"libpng version 1\.": "libpng-dev", rb"inflate 1\.\d+[.\d]* Copyright": "zlib1g-dev", rb"Copyright \(C\) 20\d\d.*D\. R\. Commander": "libjpeg62-turbo-dev",
         rb"opj_\w+\(|Stream error while reading JP2": "libopenjp2-7-dev", rb"LLD 19\.": "liblld-19"}
PACKAGES = {"mlrt": ["bin/mlrun"], "libmlrt1": ["**/libmlrt.so.1", "**/libmlrt-gpu.so.1", "**/libmlio.so.1"], "mlpack": ["bin/mlpack"], "mlrt-dev": []}
tree = install(SCRATCH / "tree")


def text_of(package):
    return (tree / "share/doc" / package / "copyright").read_text()


def named_in(text):
    return set(re.findall(r"^  (\S+) \S+ \((?:archive|headers|library)", text, re.M))


def what_is_in_a_program_is_named():
    seen = set()
    for package, programs in PACKAGES.items():
        data = b"".join(path.read_bytes() for program in programs for path in tree.glob(program))
        assert not programs or data, programs
        held = {name for mark, name in MARKS.items() if re.search(mark, data)}
        seen |= held
        named = named_in(text_of(package))
        assert held <= named, (package, held - named)
        assert bool(programs) == ("libflatbuffers-dev" in named), (package, named)
    assert len(seen) >= 4, seen


def texts_are_those_of_the_packages():
    for package in PACKAGES:
        text = text_of(package)
        assert text.startswith(f"{package}: the owners of its project have not set its licence yet."), text[:200]
        for name in named_in(text):
            assert pathlib.Path(f"/usr/share/doc/{name}/copyright").read_text(errors="replace").strip() in text, (package, name)


def copyrights(*words):
    return subprocess.run([sys.executable, str(ROOT / "install/copyrights.py"), "--build", str(BUILD), *map(str, words)], capture_output=True, text=True)


def what_a_wheel_brings_is_named_too():
    """Shared libraries, and the licences that texts only refer to."""
    out = SCRATCH / "whole"
    done = copyrights("--out", out, "--name", "x", "--shared", "--whole", "--also", f"other={__file__}", "bin/mlrun")
    assert done.returncode == 0, done.stderr
    text = out.read_text()
    assert {"libssl3", "libzstd1"} <= named_in(text) and not {"libc6", "libstdc++6"} & named_in(text), named_in(text)
    assert "/usr/share/common-licenses/Apache-2.0\n====" in text and pathlib.Path("/usr/share/common-licenses/Apache-2.0").read_text() in text
    assert "  other\n" in text and pathlib.Path(__file__).read_text().strip() in text


def what_is_not_known_is_said():
    for words, sentence in ((("bin/no_such_program",), "bin/no_such_program"), (("--build", SCRATCH, "bin/mlrun"), "was not built by ninja"),
                            (("--also", f"x={SCRATCH}/missing", "bin/mlrun"), "missing")):
        done = copyrights("--out", SCRATCH / "none", "--name", "x", *words)
        assert done.returncode == 1 and sentence in done.stderr and "Traceback" not in done.stderr, done.stderr
        assert not (SCRATCH / "none").exists()


main([what_is_in_a_program_is_named, texts_are_those_of_the_packages, what_a_wheel_brings_is_named_too, what_is_not_known_is_said])
