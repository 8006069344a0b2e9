"""The pages of docs/ (pages.py) with what is installed below a prefix."""
import sys

from installed import ROOT, SCRATCH, Machine, install, main
from pages import follow, text_of, with_scp

sys.path.insert(0, str(ROOT / "tests/registry"))
from small_registry import SmallRegistry  # noqa: E402

PREFIXES = {"builder": install(SCRATCH / "everything"), "edge": install(SCRATCH / "runtime", "runtime", "libraries")}


def machines_for(page):
    """Each page begins with empty home folders."""
    tools = with_scp(SCRATCH / f"stand-ins {page}")
    machines = {name: Machine(f"{name} {page}", prefix) for name, prefix in PREFIXES.items()}
    for machine in machines.values():
        known = machine.environment
        machine.environment = lambda known=known: {**known(), "PATH": f"{tools}:" + known()["PATH"], "EDGE": str(machines["edge"].home)}
    return machines


def the_tutorial_can_be_followed():
    assert not (PREFIXES["edge"] / "bin/mlpack").exists()
    follow("tutorial.md", machines_for("tutorial.md"), 8)


def keys_in_production_do_what_their_page_says():
    follow("production.md", machines_for("production.md"), 5)


def files_change_as_their_page_says():
    machines = machines_for("updates.md")
    if not (PREFIXES["builder"] / "bin/mlpack-oci").exists():
        print("skipped: docs/updates.md: this build has no mlpack-oci")
        follow("updates.md", machines, 5, elsewhere={"registry": lambda text: None})
        return
    machines["registry"] = machines["builder"]
    with SmallRegistry() as registry:
        follow("updates.md", machines, 6, instead={"registry.example.org": registry.host})


def the_tutorial_has_two_pages():
    words = len(text_of("tutorial.md").split())
    assert words < 1300, f"{words} words"


main([the_tutorial_can_be_followed, keys_in_production_do_what_their_page_says, files_change_as_their_page_says, the_tutorial_has_two_pages])
