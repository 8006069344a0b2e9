"""Programs in another folder build against the installed tree and run from it, and so do the tools, also after the tree was
moved."""
import re
import shutil
import subprocess

from installed import BUILD, ROOT, SCRATCH, Machine, install, main

WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-pedantic", "-Werror"]
COMPILERS = [(c, cpp) for c, cpp in (("gcc", "g++"), ("clang-19", "clang++-19")) if shutil.which(c) and shutil.which(cpp)]
machine = Machine("user", install(SCRATCH / "prefix"))
examples = machine.home / "examples"


def output(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def library():
    return next(machine.prefix.glob("**/libmlrt.so.1")).parent


def components_are_parts_of_the_tree():
    """Each file belongs to one component, with and without DESTDIR."""
    everything = {p.relative_to(machine.prefix) for p in machine.prefix.rglob("*") if not p.is_dir()}
    seen = []
    for component in ("runtime", "libraries", "development", "packager"):
        install("/opt/mlrt", component, destdir=SCRATCH / component)
        part = SCRATCH / component / "opt/mlrt"
        seen += [p.relative_to(part) for p in part.rglob("*") if not p.is_dir()]
    assert sorted(seen) == sorted(everything), sorted(set(seen) ^ everything)
    names = {str(p) for p in everything}
    for name in ("bin/mlrun", "bin/mlpack", "include/mlrt/mlc.h", "include/mlrt/mlc.hpp", "include/mlrt/mlc/session.hpp", "include/mlrt/mlio.h", "share/man/man1/mlrun.1",
                 "share/man/man1/mlpack.1", "share/man/man5/mlc.5", "share/man/man5/mlc-pipeline.5", "share/man/man5/mlc-trust.5",
                 "share/bash-completion/completions/mlrun", "share/zsh/site-functions/_mlpack",
                 "share/fish/vendor_completions.d/mlrun.fish"):
        assert name in names, name
    assert (SCRATCH / "runtime/opt/mlrt/bin/mlrun").exists() and not (SCRATCH / "runtime/opt/mlrt/bin/mlpack").exists()


def the_readme_names_what_is_there():
    documents = machine.prefix / "share/doc/mlrt"
    named = re.findall(r"`((?:\w+/)+[\w.-]*|[A-Z]+\.md)`", (documents / "README.md").read_text())
    assert len(named) > 5, named
    for path in named:
        assert (documents / path).exists(), path


def the_library_has_its_name_and_two_symbols():
    header = (machine.prefix / "include/mlrt/mlc.h").read_text()
    major = re.search(r"MLC_API_VERSION (\d+)u", header).group(1)
    real = (library() / "libmlrt.so").resolve()
    assert re.fullmatch(rf"libmlrt\.so\.{major}\.\d+\.\d+", real.name), real
    assert (library() / f"libmlrt.so.{major}").resolve() == real
    assert f"[libmlrt.so.{major}]" in re.search(r"SONAME.*", output("readelf", "-d", real)).group(0)
    symbols = {line.split()[-1] for line in output("nm", "-D", "--defined-only", real).splitlines()}
    assert symbols == {"mlc_get_api", "mlc_version_string"}, symbols


def nothing_points_to_the_trees_that_it_was_made_in():
    trees = [str(tree).encode() for tree in {ROOT, BUILD}]
    for path in machine.prefix.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not any(tree in data for tree in trees), path
            if data.startswith(b"\x7fELF"):
                dynamic = output("readelf", "-d", path)
                assert "RPATH" not in dynamic and "RUNPATH" not in dynamic, (path, dynamic)


def headers_are_clean_for_each_compiler():
    lone = machine.home / "lone.h"
    lone.write_text("#include <mlrt/mlc.h>\n")
    include = f"-I{machine.prefix}/include"
    for c, cpp in COMPILERS:
        for standard in ("c99", "c17"):
            machine.run(c, f"-std={standard}", *WARNINGS, "-fsyntax-only", include, "-x", "c", lone)
        machine.run(cpp, "-std=c++11", *WARNINGS, "-fsyntax-only", include, "-x", "c++", lone)
        programs = sorted((machine.prefix / "share/doc/mlrt/examples/cpp").glob("*.cpp"))
        for source in programs:
            for more in ([], ["-fno-exceptions", "-fno-rtti"]):
                machine.run(cpp, "-std=c++20", *WARNINGS, *more, "-fsyntax-only", include, source)
        for part in sorted((machine.prefix / "include/mlrt/mlc").iterdir()):
            lone.write_text(f"#include <mlrt/mlc/{part.name}>\n")
            machine.run(cpp, "-std=c++20", *WARNINGS, "-fsyntax-only", include, "-x", "c++", lone)
        lone.write_text("#include <mlrt/mlc.h>\n")
        old = machine.run(cpp, "-std=c++17", "-fsyntax-only", include, programs[0], code=1)
        assert "mlc.hpp needs C++20" in old.stderr, old.stderr


def the_tools_make_and_run_a_container():
    shutil.copytree(machine.prefix / "share/doc/mlrt/examples", examples, dirs_exist_ok=True)
    machine.run("mlpack", "keygen", "-o", "publisher.pem", without=["LD_LIBRARY_PATH"])
    machine.run("mlpack", "build", "examples/digits/digits.onnx", "--pipeline", "examples/digits/pipeline.json", "--target",
                "native", "--id", "demo/digits", "--key", "publisher.pem", "-o", "digits.mlc", without=["LD_LIBRARY_PATH"])
    run_tools()


def run_tools():
    for tool in ("mlrun", "mlpack"):
        assert machine.run("sh", "-c", f"command -v {tool}").stdout == f"{machine.prefix}/bin/{tool}\n"
    done = machine.run("mlrun", "digits.mlc", "-i", "examples/digits/images/plain_7.png", "--top", "1", "--trust",
                       "publisher.pub.pem", without=["LD_LIBRARY_PATH"])
    assert re.match(r"\s*7\s", done.stdout), done.stdout
    assert "ok" in machine.run("mlpack", "verify", "digits.mlc", "--deep", "--key", "publisher.pub.pem").stdout
    for page in ("mlrun", "mlpack", "mlc", "mlc-pipeline", "mlc-trust"):
        where = machine.run("man", "-w", page).stdout.strip()
        assert where.startswith(str(machine.prefix)), where
    assert "packed machine-learning model" in machine.run("man", "-M", machine.prefix / "share/man", "mlrun").stdout


def shells_complete_what_the_installed_tools_say():
    script = """source "$1"; COMP_WORDS=(mlrun sel); COMP_CWORD=1; _mlrun; echo "${COMPREPLY[@]}\""""
    done = machine.run("bash", "-c", script, "bash", machine.prefix / "share/bash-completion/completions/mlrun")
    assert done.stdout.split() == ["selftest"], done


def check_program(program, without=()):
    """What it answers, with a key and without; what it says where there is no container."""
    done = machine.run(program, "digits.mlc", "examples/c/seven.pgm", "publisher.pub.pem", without=without)
    assert done.stdout == "7\n" and "portable" not in done.stderr.split(";")[0], done
    done = machine.run(program, "digits.mlc", "examples/c/seven.pgm", without=without)
    assert done.stdout == "7\n" and "portable" in done.stderr.split(";")[0], done
    done = machine.run(program, "absent.mlc", "examples/c/seven.pgm", code=3, without=without)
    assert done.stdout == "" and "absent.mlc" in done.stderr, done


def c_programs_build_with_pkg_config_and_with_plain_flags():
    for cc, _ in COMPILERS:
        flags = machine.run("pkg-config", "--cflags", "--libs", "mlrt").stdout.split()
        machine.run(cc, "-std=c99", *WARNINGS, "examples/c/digit.c", *flags, "-o", "digit_c")
        check_program("./digit_c")
        machine.run(cc, "-std=c99", f"-I{machine.prefix}/include", "examples/c/digit.c", f"-L{library()}", "-lmlrt", "-o", "digit_plain")
        check_program("./digit_plain")
        dynamic = output("readelf", "-d", machine.home / "digit_plain")
        assert "[libmlrt.so.1]" in dynamic, dynamic
        flags = machine.run("pkg-config", "--cflags", "--libs", "mlio").stdout.split()
        machine.run(cc, "-std=c99", *WARNINGS, "examples/c/answers.c", *flags, "-o", "answers_c")
        picture = "examples/digits/images/photo_3.jpg"
        assert machine.run("./answers_c", "digits.mlc", picture, "publisher.pub.pem").stdout.startswith("3 "), picture
        machine.run("./answers_c", "digits.mlc", "publisher.pub.pem", code=6)  # no picture
    version = machine.run("pkg-config", "--modversion", "mlrt").stdout.strip()
    assert (library() / f"libmlrt.so.{version}").is_file(), version


def a_cpp_program_builds_with_find_package():
    build = machine.home / "build_cpp"
    shutil.rmtree(build, ignore_errors=True)
    machine.run("cmake", "-G", "Ninja", "-S", "examples/cpp", "-B", build, "-DCMAKE_CXX_FLAGS=" + " ".join(WARNINGS))
    machine.run("cmake", "--build", build)
    check_program(build / "digit", without=["LD_LIBRARY_PATH"])  # CMake has told the program where the library is
    pictures = ["examples/c/seven.pgm"] * 5
    assert machine.run(build / "many", "digits.mlc", "publisher.pub.pem", *pictures).stdout == "7\n" * 5
    other = machine.home / "other"
    other.mkdir(exist_ok=True)
    (other / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(p LANGUAGES C)\n"
                                          "find_package(mlrt 2 REQUIRED)\n")
    assert "mlrt" in machine.run("cmake", "-G", "Ninja", "-S", other, "-B", other / "build", code=1).stderr


def everything_works_again_from_another_folder():
    moved = SCRATCH / "moved to/a folder"
    moved.parent.mkdir()
    shutil.move(machine.prefix, moved)
    machine.prefix = moved
    run_tools()
    a_cpp_program_builds_with_find_package()
    moved = SCRATCH / "moved"  # pkg-config does not quote blanks
    shutil.move(machine.prefix, moved)
    machine.prefix = moved
    c_programs_build_with_pkg_config_and_with_plain_flags()


main([components_are_parts_of_the_tree, the_library_has_its_name_and_two_symbols,
      nothing_points_to_the_trees_that_it_was_made_in, headers_are_clean_for_each_compiler,
      the_tools_make_and_run_a_container, shells_complete_what_the_installed_tools_say,
      c_programs_build_with_pkg_config_and_with_plain_flags,
      a_cpp_program_builds_with_find_package, everything_works_again_from_another_folder])
