"""Holds the includes against the table of the root README, and replaces remarks that every review would repeat.

    layering_test.py            fails with one line per finding
    layering_test.py --arrows   prints the libraries and what each includes
"""
import re
import sys

import rules
from sources import ROOT, all_sources, allowed_arrows, unit_of

findings = []


def finding(source, line, text):
    findings.append(f"{source.path}:{line}: {text}")


def excepted(path, target):
    return any(path.startswith(who) and target.startswith(what) for who, what in rules.EXCEPTIONS)


def check_arrows(source, table):
    folder = source.path.split("/")[0]
    may = table[folder]
    for target, line in source.own:
        top = target.split("/")[0]
        if not (ROOT / target).is_file():
            finding(source, line, f'"{target}" is no file of this project; other libraries are included with <>')
        elif top == "tests" and not source.within(*rules.TESTS):
            finding(source, line, f"{target}: only tests include tests")
        elif top != folder and "everything" not in may and top not in may and not excepted(source.path, target):
            finding(source, line, f"{folder}/ may not include {target} (the table of README.md)")


def check_foreign(source):
    for target, line in source.foreign:
        for pattern, owners in rules.FOREIGN:
            if not re.match(pattern, target):
                continue
            network = "socket" in pattern
            if source.within(*owners) or (source.within(*rules.TESTS) and not network):
                break
            finding(source, line, f"<{target}> belongs to {' and '.join(owners) or 'nobody'}")
            break
    if source.within(*rules.FLATBUFFERS):
        return
    for target, line in source.own + source.foreign:
        if "_generated.h" in target:
            finding(source, line, f"{target}: generated code is seen by encoders and decoders only")


def unit(path):
    for prefix in rules.UNITS:
        if path.startswith((prefix + ".", prefix + "/")):
            return prefix
    return unit_of(path)


def arrows_between_units(sources):
    graph = {}
    for source in sources:
        if source.within(*rules.TESTS):
            continue
        here = unit(source.path)
        for target, line in source.own:
            there = unit(target)
            if there != here:
                graph.setdefault(here, {}).setdefault(there, f"{source.path}:{line}")
    return graph


def arrows_between_folders(sources):
    """Of folders inside of the same library; a folder and what is inside of it are one."""
    graph = {}
    for source in sources:
        if source.within(*rules.TESTS):
            continue
        here = source.path.rsplit("/", 1)[0]
        for target, line in source.own:
            there = target.rsplit("/", 1)[0]
            nested = (here + "/").startswith(there + "/") or (there + "/").startswith(here + "/")
            if not nested and unit(target) == unit(source.path) and (here, there) not in rules.FOLDERS_IN_CIRCLES:
                graph.setdefault(here, {}).setdefault(there, f"{source.path}:{line}")
    return graph


def check_cycles(graph):
    """A layer is right if a linker that reads each library once would accept it."""
    done, reported = set(), set()
    for start in sorted(graph):
        stack = [(start, iter(sorted(graph.get(start, ()))))]
        path = [start]
        while stack:
            node, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                done.add(node)
                stack.pop()
                path.pop()
            elif target in path:
                cycle = path[path.index(target):] + [target]
                key = frozenset(cycle)
                if key not in reported:
                    reported.add(key)
                    places = ", ".join(graph[a][b] for a, b in zip(cycle, cycle[1:]))
                    findings.append(f"cycle: {' -> '.join(cycle)} ({places})")
            elif target not in done:
                stack.append((target, iter(sorted(graph.get(target, ())))))
                path.append(target)


def check_header_rules(source):
    if source.path.endswith((".h", ".hpp")):
        # Headers that C reads have guards.
        if "_generated" not in source.path and not re.search(r"^#pragma once$|^#ifndef MLC_\w+_H\w*\n#define MLC_",
                                                             source.text, re.M):
            finding(source, 1, "no #pragma once")
        return
    own = source.path.rsplit(".", 1)[0] + ".h"
    if (ROOT / own).is_file() and own in source.includes and source.includes[0] != own:
        finding(source, 1, f"its own header {own} is not included first")


def check_habits(source):
    if "_generated" in source.path:
        return
    # `using namespace std::string_view_literals` names no std.
    for line, _ in source.lines_with(r"\busing\s+namespace\s+std\s*;"):
        finding(source, line, "using namespace std")
    if source.path.endswith((".h", ".hpp")) and not source.within(*rules.TESTS):
        for line, code in source.lines_with(r"^using\s+namespace\b"):
            finding(source, line, f"a header opens a namespace for everybody: {code}")
    for number, text in enumerate(source.text.split("\n"), 1):
        if re.search(r"\b(TODO|FIXME)\b(?!\(#\d+\))", text):
            finding(source, number, "a TODO carries the number of an issue: TODO(#12)")
    if source.within(*rules.NO_EXCEPTIONS) and not source.within(*rules.NO_EXCEPTIONS_BUT):
        for line, code in source.lines_with(r"\b(throw|try|catch)\b"):
            finding(source, line, f"no exceptions here: {code}")
    if not source.within(*rules.SPEAKERS):
        check_silence(source)
    for line, code in source.lines_with(r"(?<![\w:.>])(system|popen|gets|strcpy|strcat|sprintf|tmpnam|alloca)\s*\("):
        if not source.within("tests/"):
            finding(source, line, f"not a function for new code: {code}")


def check_words(sources):
    """Comments name the component, in a word that a search finds; which person did it is no answer."""
    for source in sources:
        if source.within(*rules.PEOPLE_BUT) or "_generated" in source.path:
            continue
        for line, text in source.comments():
            for word in re.findall(rules.PEOPLE, text, re.I):
                finding(source, line, f'a comment says "{word}": {rules.NAME_THE_COMPONENT}')


def check_silence(source):
    if source.within(*rules.SILENT_BUT):
        return
    for line, code in source.lines_with(r"\bstd::(cout|cerr|clog)\b|(?<![\w.>])(?:std::)?f?(?:printf|puts)\s*\("):
        finding(source, line, f"a library does not print: {code}")
    for line, code in source.lines_with(r"(?<![\w.>])(?:std::)?(?:exit|_exit|quick_exit|abort)\s*\("):
        finding(source, line, f"a library does not end the process: {code}")
    for line, code in source.lines_with(r"\bgetenv\s*\("):
        finding(source, line, f"a library does not read the environment: {code}")


def check_flags():
    """Every library of the folders without exceptions is built without them, but for those that are unwound through."""
    for folder in rules.NO_EXCEPTIONS:
        for path in sorted((ROOT / folder).rglob("CMakeLists.txt")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(rules.NO_EXCEPTIONS_BUT):
                continue
            text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8"))
            if not (ROOT / folder / "CMakeLists.txt").is_file():
                continue
            above = re.sub(r"#[^\n]*", "", (ROOT / folder / "CMakeLists.txt").read_text(encoding="utf-8"))
            for library in re.findall(r"add_library\(\s*(\w+)\s+(?:STATIC|SHARED|OBJECT)", text):
                options = re.findall(r"target_compile_options\(\s*" + library + r"\b[^)]*\)", text)
                without = any("-fno-exceptions" in option for option in options) or re.search(
                    r"(add_compile_options|set)\([^)]*-fno-exceptions", above) is not None
                if without and library in rules.UNWOUND:
                    findings.append(f"{name}: {library} is built with -fno-exceptions, a lack of memory must find its way through it")
                if not without and library not in rules.UNWOUND:
                    findings.append(f"{name}: {library} is not built with -fno-exceptions")


def check_readmes():
    for folder in {p.parent for pattern in ("*/", "packager/*/", "runtime/*/", "loaders/*/", "targets/*/", "tests/*/",
                                            "bench/*/") for p in ROOT.glob(pattern + "CMakeLists.txt")}:
        name = folder.relative_to(ROOT).as_posix()
        if name != "." and not name.startswith("build") and not (folder / "README.md").is_file():
            findings.append(f"{name}/: no README.md")


def check_full_folders(sources):
    """A folder that needs a table of contents is asking to be several."""
    count = {}
    for source in sources:
        if source.path.endswith((".h", ".hpp", ".cpp")) and "_generated" not in source.path:
            folder = source.path.rsplit("/", 1)[0] + "/"
            count[folder] = count.get(folder, 0) + 1
    for folder, number in count.items():
        if number > rules.MOST_SOURCES and folder not in rules.FULL_FOLDERS:
            findings.append(f"{folder}: {number} sources, at most {rules.MOST_SOURCES} are a folder: divide it by subject")
        elif number <= rules.MOST_SOURCES and folder in rules.FULL_FOLDERS:
            findings.append(f"{folder}: {number} sources, it needs no place in FULL_FOLDERS")


def report_long_files(sources):
    for source in sources:
        lines = source.text.count("\n")
        if lines > rules.LONG_FILE and "_generated" not in source.path:
            print(f"long: {source.path} has {lines} lines")


def check_the_checks(table, sources):
    """What would make the rest pass without looking."""
    for folder in ("base", "schema", "signing", "packager", "targets", "runtime", "loaders", "registry", "tests", "bench"):
        if folder not in table:
            findings.append(f"README.md: the table has no row for {folder}/")
            table[folder] = set()
    if len(sources) < 100:
        findings.append(f"only {len(sources)} files found below {ROOT}")


# A function of one file of tests, as it begins.
LOCAL_FUNCTION = re.compile(r"^(?:template.*> )?(?:static |inline |constexpr |const )*[A-Za-z_][\w:<>,*& ]*[ *&](\w+)\([^;]*\{\s*$")


def check_joined_tests(sources):
    """Sources that are compiled together share their local names: of two overloads a call could take the neighbour's."""
    cmake = ROOT / "tests/CMakeLists.txt"
    apart = re.search(r'FILTER apart INCLUDE REGEX "([^"]+)"', cmake.read_text(encoding="utf-8")) if cmake.is_file() else None
    first = {}
    for source in sources:
        if not source.within("tests/unit/") or apart and re.search(apart.group(1), "/" + source.path):
            continue
        folder = source.path.rsplit("/", 1)[0]
        for line, text in enumerate(source.code.split("\n"), 1):
            found = LOCAL_FUNCTION.match(text)
            if not found or text.startswith("TEST_CASE"):
                continue
            other = first.setdefault((folder, found.group(1)), source.path)
            if other != source.path:
                finding(source, line, f"{found.group(1)} is a name of {other} too, which is compiled with it (`apart` in tests/CMakeLists.txt)")


def main():
    sources = all_sources()
    table = allowed_arrows()
    check_the_checks(table, sources)
    graph = arrows_between_units(sources)
    if sys.argv[1:] == ["--arrows"]:
        for name in sorted(graph):
            print(f"{name}: {' '.join(sorted(graph[name]))}")
        return 0
    for source in sources:
        check_arrows(source, table)
        check_foreign(source)
        check_header_rules(source)
        check_habits(source)
    check_words(all_sources(rules.COMMENTED))
    check_joined_tests(sources)
    check_cycles(graph)
    check_cycles(arrows_between_folders(sources))
    check_full_folders(sources)
    check_flags()
    check_readmes()
    report_long_files(sources)
    for text in sorted(findings):
        print(text)
    print(f"{len(sources)} files, {sum(map(len, graph.values()))} arrows between {len(graph)} libraries, "
          f"{len(findings)} findings")
    return min(len(findings), 1)


sys.exit(main())
