"""The checks find what they are for: a tree with one fault of each kind, and the same tree without them."""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"

GOOD = {
    "base/status.h": "#pragma once\n",
    "base/status.cpp": '#include "base/status.h"\n',
    "base/README.md": "base\n",
    "base/CMakeLists.txt": "add_library(mlc_example STATIC a.cpp)\ntarget_compile_options(mlc_example PRIVATE -fno-exceptions)\n",
    "runtime/io/picture/png.cpp": '#include <png.h>\n#include "base/status.h"\n// throw TODO(#12)\nauto s = "throw try printf(";\n',
    "runtime/loader.h": "#pragma once\n",
    "loaders/elf/elf.cpp": '#include "runtime/loader.h"\n',
    "packager/loop/loop.h": '#pragma once\n#include "packager/ir/ir.h"\n',
    "packager/ir/ir.h": "#pragma once\n",
    "targets/x86/x86.cpp": '#include "packager/loop/loop.h"\n#include <Zydis/Zydis.h>\n',
    "base/cli/program.cpp": "#include <CLI/CLI.hpp>\n",
    "packager/cli/main.cpp": 'int main() { printf("%s", "nobody // whoever"); }\n',
}
# What is added, and a part of the sentence that it must give.
FAULTS = [
    ({"runtime/plan/a.cpp": '#include "packager/ir/ir.h"\n'}, "runtime/ may not include packager/ir/ir.h"),
    ({"loaders/elf/b.cpp": '#include "targets/x86/x.h"\n', "targets/x86/x.h": "#pragma once\n"}, "loaders/ may not include"),
    ({"runtime/plan/a.cpp": '#include "runtime/gone.h"\n'}, "no file of this project"),
    ({"targets/x86/y.cpp": "#include <llvm/IR/Module.h>\n"}, "<llvm/IR/Module.h> belongs to targets/llvm/"),
    ({"runtime/plan/a.cpp": "#  include <openssl/evp.h>\n"}, "<openssl/evp.h> belongs to signing/"),
    ({"runtime/cli/run.cpp": "#include <CLI/App.hpp>\n"}, "<CLI/App.hpp> belongs to base/cli/command.cpp"),
    ({"packager/cli/json.cpp": "#include <nlohmann/json.hpp>\n"}, "<nlohmann/json.hpp> belongs to base/cli/json_tree.cpp"),
    ({"tests/a.cpp": "#include <sys/socket.h>\n"}, "<sys/socket.h> belongs to nobody"),
    ({"runtime/plan/a.cpp": '#include "schema/generated/plan_generated.h"\n',
      "schema/generated/plan_generated.h": ""}, "encoders and decoders only"),
    ({"packager/ir/back.cpp": '#include "packager/loop/loop.h"\n'}, "cycle: packager/ir -> packager/loop -> packager/ir"),
    ({"tests/unit/io/a_test.cpp": "int made(int x) {\n", "tests/unit/io/b_test.cpp": "long made(long x) {\n"}, "made is a name of tests/unit/io/a_test.cpp too"),
    ({"base/new.h": "int x;\n"}, "no #pragma once"),
    ({"base/status.cpp": '#include <string>\n#include "base/status.h"\n'}, "is not included first"),
    ({"packager/ir/a.cpp": "using namespace std;\n"}, "using namespace std"),
    ({"packager/ir/a.h": "#pragma once\nusing namespace mlc;\n"}, "opens a namespace for everybody"),
    ({"packager/ir/a.cpp": "// TODO: later\n"}, "TODO(#12)"),
    ({"packager/ir/a.cpp": "\n/* Shared by\n * whoever asks. */\n"}, 'packager/ir/a.cpp:3: a comment says "whoever": name the component'),
    ({"bindings/python/src/a.cpp": "int x;  // Nobody reads it.\n"}, 'bindings/python/src/a.cpp:1: a comment says "Nobody"'),
    ({"runtime/plan/a.cpp": "void f() { throw 1; }\n"}, "no exceptions here"),
    ({"packager/ir/a.cpp": 'void f() { std::printf("x"); }\n'}, "does not print"),
    ({"runtime/plan/a.cpp": "void f() { abort(); }\n"}, "does not end the process"),
    ({"runtime/plan/a.cpp": 'auto x = std::getenv("X");\n'}, "does not read the environment"),
    ({"packager/ir/a.cpp": 'void f() { system("ls"); }\n'}, "not a function for new code"),
    ({"base/CMakeLists.txt": "add_library(mlc_example STATIC a.cpp)\n"}, "not built with -fno-exceptions"),
    ({"base/CMakeLists.txt": "add_library(mlc_base STATIC a.cpp)\ntarget_compile_options(mlc_base PRIVATE -fno-exceptions)\n"},
     "a lack of memory must find its way through it"),
    ({"runtime/io/CMakeLists.txt": ""}, "runtime/io/: no README.md"),
    ({f"packager/ir/part{i}.h": "#pragma once\n" for i in range(25)}, "packager/ir/: 26 sources, at most 25"),
    ({"tests/fuzz/a_fuzz.cpp": "int x;\n"}, "tests/fuzz/: 1 sources, it needs no place in FULL_FOLDERS"),
    ({"packager/ir/a/a.h": '#pragma once\n#include "packager/ir/b/b.h"\n', "packager/ir/b/b.h": '#pragma once\n#include "packager/ir/a/a.h"\n'},
     "cycle: packager/ir/a -> packager/ir/b -> packager/ir/a"),
    ({"README.md": "| folder |\n"}, "the table has no row for base/"),
]


LONG = "int f(int x) {\n" + "  ++x;\n" * 99 + "  return x;\n}\n"
BUDGETS = [
    ("base 100\n", {}, None),
    ("base 100\n", {"base/wide.h": "//" + "x" * 12000 + "\n"}, "base: 103 lines of 120 columns, 100 in budget.txt"),
    ("", {}, "base: budget.txt has no line for it"),
    ("base 100\nloaders/elf 5\n", {}, "budget.txt: there is no loaders/elf"),
    ("base 300\n", {"base/long.cpp": LONG}, "base/long.cpp:1: 102 lines, at most 100 are a function: int f(int x) {"),
    ("base 300\n", {"base/long.cpp": LONG.replace("  ++x;\n", "", 2)}, None),
]


def check_budget(budget, files):
    with tempfile.TemporaryDirectory(prefix="mlc-budget-") as folder:
        for name, text in {"base/a.h": "#pragma once\n", "base/b.h": "#pragma once\n", "tests/layering/budget.txt": budget, **files}.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(HERE / "budget_test.py")], capture_output=True, text=True, env=dict(os.environ, MLC_LAYERING_ROOT=folder))
    return done.returncode, done.stdout + done.stderr


def check(files):
    with tempfile.TemporaryDirectory(prefix="mlc-layering-") as folder:
        tree = {"README.md": README.read_text(encoding="utf-8"), **GOOD, **files}
        # Enough files that the tree does not look like the wrong folder.
        tree.update({f"base/filler{i // 25}/f{i}.h": "#pragma once\n" for i in range(100)})
        for name, text in tree.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(HERE / "layering_test.py")], capture_output=True, text=True,
                              env=dict(os.environ, MLC_LAYERING_ROOT=folder))
    return done.returncode, done.stdout + done.stderr


def main():
    failed = 0
    code, text = check({})
    if code != 0:
        failed += 1
        print(f"FAIL  a tree without faults: {text}")
    for files, sentence in FAULTS:
        code, text = check(files)
        if code != 1 or sentence not in text:
            failed += 1
            print(f"FAIL  {sorted(files)}: expected '{sentence}', found exit {code} {text}")
    for budget, files, sentence in BUDGETS:
        code, text = check_budget(budget, files)
        if code != (sentence is not None) or (sentence or "") not in text:
            failed += 1
            print(f"FAIL  {sorted(files)}: expected '{sentence}', found exit {code} {text}")
    print(f"{1 + len(FAULTS) + len(BUDGETS) - failed} passed, {failed} failed")
    return min(failed, 1)


sys.exit(main())
