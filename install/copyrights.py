"""Writes what is said by the licences of other projects' code in programs and libraries of a build.

    copyrights.py --build DIR --out FILE --name NAME [--shared] [--whole] [--also NAME=FILE]... [OUTPUT...]
        OUTPUT    a program or library as ninja names it in DIR, "bin/mlrun"; none: NAME holds no code of others
        --shared  shared libraries that an OUTPUT loads are shipped as well, beside those that every system has (a wheel)
        --whole   the licences that Debian keeps in /usr/share/common-licenses are appended: FILE is read on other systems
        --also    a licence that no package of this machine has; of a header its first comment

What an OUTPUT holds is read from the build: archives in its link, headers in the dependencies of its objects. Whose they are says dpkg, and
the texts are /usr/share/doc/PACKAGE/copyright. Ends with 1, and a line on stderr, where a file has no package or a package no text."""
import argparse
import collections
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENTS, COMMON = pathlib.Path("/usr/share/doc"), pathlib.Path("/usr/share/common-licenses")
# Interfaces of the system and of the compiler: their licences ask nothing of programs that are compiled with them (GCC's by its runtime library
# exception, the kernel's by its syscall note).
SYSTEM = re.compile(r"(libc6|libc6-dev|linux-libc-dev|libgcc-.*|libstdc\+\+.*|libcrypt-dev)$")
# Libraries that a wheel of manylinux takes from the system.
EVERYWHERE = re.compile(r"(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|z))\.so")


class Failure(Exception):
    pass


def output_of(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(map(str, command))}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return done.stdout


class Build:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        if not (self.folder / "build.ninja").is_file():
            raise Failure(f"{folder} was not built by ninja")
        cache = (self.folder / "CMakeCache.txt").read_text()
        # Archives that were copied before they were linked (runtime/io/codecs.cmake).
        self.copied = {f"lib{name}.a": path for name, path in re.findall(r"^MLC_(\w+)_ARCHIVE:FILEPATH=(/.*)$", cache, re.M)}
        self.compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M)[1]

    def ninja(self, tool, *words):
        return output_of("ninja", "-n", "-C", self.folder, "-t", tool, *words)  # -n: another ninja may be at work

    def archives(self, output):
        """What was linked of the system, as files; shared libraries are not among them."""
        link = shlex.split(self.ninja("commands", "-s", output).strip().splitlines()[-1])
        folders = [f"-B{word[2:]}" for word in link if word.startswith("-L")]
        for word in link:
            if word.startswith("-l") and len(word) > 2:
                found = [output_of(self.compiler, *folders, f"-print-file-name=lib{word[2:]}.{end}").strip() for end in ("so", "a")]
                word = next((path for path in found if "/" in path), word)
            if word.endswith(".a"):
                path = pathlib.Path(word)
                if path.is_absolute():
                    yield str(path)
                elif path.name in self.copied:
                    yield self.copied[path.name]

    def headers(self, output):
        objects = [word for word in self.ninja("inputs", output).split("\n") if word.endswith(".o")]
        for line in self.ninja("deps", *objects).splitlines():
            path = line.strip()
            if line.startswith("    /") and not path.startswith((f"{ROOT}/", f"{self.folder}/")):
                yield path

    def shared(self, output):
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", output_of("ldd", self.folder / output), re.M):
            if not EVERYWHERE.match(name):
                yield path


def packages_of(files):
    """{file: package}. A file may be known by its real path, or by one without /usr."""
    named = {}
    for file in files:
        real = pathlib.Path(file).resolve()
        for path in {str(pathlib.Path(file)), str(real), *(str(p)[4:] for p in (pathlib.Path(file), real) if str(p).startswith("/usr/")),
                     *("/usr" + str(p) for p in (pathlib.Path(file), real) if str(p).startswith("/lib"))}:
            named[path] = file
    done = subprocess.run(["dpkg-query", "-S", *named], capture_output=True, text=True)  # ends with 1 where it does not know one of them
    known = {}
    for line in done.stdout.splitlines():
        package, _, path = line.partition(": ")
        if path in named:
            known[named[path]] = package.split(",")[0].split(":")[0]
    return known


def parts_of(build, outputs, shared):
    """{package: how its code gets in}, in the order of names."""
    kinds = {"archive": set(), "headers": set(), "library": set()}
    for output in outputs:
        kinds["archive"] |= set(build.archives(output))
        kinds["headers"] |= {str(pathlib.Path(path)) for path in build.headers(output)}
        kinds["library"] |= set(build.shared(output)) if shared else set()
    known = packages_of(set().union(*kinds.values()))
    parts = collections.defaultdict(list)
    for kind, files in kinds.items():
        unknown = sorted(file for file in files if file not in known)
        if unknown:
            raise Failure(f"{unknown[0]} belongs to no package of Debian: its licence is not known here, name it with --also")
        for package in {known[file] for file in files}:
            if not SYSTEM.match(package):
                parts[package].append(kind)
    return dict(sorted(parts.items()))


def text_of(package):
    path = DOCUMENTS / package / "copyright"
    if not path.is_file():
        raise Failure(f"{path} is missing: install {package} with its documents (dpkg may be told to leave them out)")
    return path.read_text(encoding="utf-8", errors="replace").strip() + "\n"


def document(name, parts, also, whole):
    """The whole file. Equal texts stand there once."""
    texts = collections.defaultdict(list)
    for package in parts:
        texts[text_of(package)].append(package)
    for one, path in also:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        if path.endswith(".h"):
            text = re.match(r"/\*.*?\*/", text, re.S)[0]
        texts[text.strip() + "\n"].append(one)
    lines = [f"{name}: the owners of its project have not set its licence yet. This file gives none.\n"]
    if not texts:
        lines.append("It holds no code of other projects.\n")
    else:
        lines.append("Code of other projects is in it, under their licences, which follow as the packages have them that it was built with:\n")
        versions = dict(line.split(" ", 1) for line in output_of("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *parts).splitlines()) if parts else {}
        lines += [f"  {package} {versions[package]} ({', '.join(kinds)})" for package, kinds in parts.items()] + [f"  {one}" for one, _ in also]
        lines.append("")
    rule = "=" * 100
    for text, names in texts.items():
        lines.append(f"{rule}\n{', '.join(names)}\n{rule}\n\n{text}")
    if whole:
        wanted = sorted(set(re.findall(r"/usr/share/common-licenses/([A-Z][\w.-]*\w)", "".join(texts))))
        for licence in wanted:
            lines.append(f"{rule}\n/usr/share/common-licenses/{licence}\n{rule}\n\n{(COMMON / licence).read_text(encoding='utf-8')}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--also", action="append", default=[])
    parser.add_argument("outputs", nargs="*")
    options = parser.parse_args()
    try:
        parts = parts_of(Build(options.build), options.outputs, options.shared) if options.outputs else {}
        text = document(options.name, parts, [one.split("=", 1) for one in options.also], options.whole)
    except (Failure, OSError) as failure:
        sys.exit(f"no copyright of {options.name}: {failure}")
    out = pathlib.Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
