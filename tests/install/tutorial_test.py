"""The pages of docs/ (pages.py) with what is installed below a prefix."""
from installed import SCRATCH, Machine, install, main
from pages import follow, text_of, with_scp

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
    follow("updates.md", machines_for("updates.md"), 5)


def the_tutorial_has_two_pages():
    words = len(text_of("tutorial.md").split())
    assert words < 1300, f"{words} words"


main([the_tutorial_can_be_followed, keys_in_production_do_what_their_page_says, files_change_as_their_page_says, the_tutorial_has_two_pages])
