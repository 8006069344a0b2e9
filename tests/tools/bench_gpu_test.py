"""bench/gpu.sh with next to no time: every step runs or says why it does not, and the table comes last. Once on what this machine has, once on the
libcuda of the tests (its folder in MLC_FAKE_CUDA_FOLDER), which executes what a card would."""
import json
import os
import pathlib
import subprocess
import sys

from tool_test import main

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu.sh"


def run(t, *options, minutes="0.5"):
    done = subprocess.run([SCRIPT, "--bin", t.bin, "--out", t.dir / "out", "--minutes", minutes, *options], env=t.env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    table = (t.dir / "out" / "table.txt").read_text()
    assert done.stdout.endswith(table), done.stdout
    results = json.loads((t.dir / "out" / "gpu.json").read_text())
    assert results["failures"] == [], results["failures"]
    for skipped in results["skipped"]:
        assert skipped["why"] and f"skipped: {skipped['what']}: {skipped['why']}" in table, skipped
    return results


def without_a_card_it_says_what_it_skips(t):
    t.env["VK_ICD_FILENAMES"] = t.env["VK_DRIVER_FILES"] = "/nonexistent/icd.json"
    results = run(t)
    skipped = {s["what"] for s in results["skipped"]}
    if not results["devices"]:
        assert {"devices of cuda", "devices of vulkan", "devices"} <= skipped, skipped


def what_needs_no_card_runs(t):
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    t.env["MLC_FAKE_CUDA"] = "memory=268435456"
    results = run(t, "--software", "--only", "probe,failures,ceilings,start,peers", minutes="4")  # half a minute of work: no step is left out
    shown = {d["api"]: d for d in results["devices"]}
    assert shown["cuda"]["title"] == "Fake 90", shown
    assert (t.dir / "out" / "fixtures" / "cuda-fake-90.txt").read_text().startswith("mlrt-devices 1\n")
    why = {s["what"]: s["why"] for s in results["skipped"]}
    for kind in ("image", "memory", "lost"):
        assert f"failure {kind}, cuda" in results["answers"], (kind, results)
    assert "cuda" in results["ceilings"], results
    assert "no card" in why["peers"], why


def a_prepared_folder_needs_no_compiler(t):
    only = "ceilings,golden,start"
    t.run(SCRIPT, "--bin", t.bin, "--prepare", "card", "--only", only, "--target", "cuda-sm80,cuda-sm90")
    made = json.loads((t.dir / "card" / "prepared.json").read_text())
    assert {"small", "start"} == {m["kind"] for m in made["models"]} and made["targets"] == ["cuda-sm80", "cuda-sm90"], made
    t.env["LD_LIBRARY_PATH"] = os.environ["MLC_FAKE_CUDA_FOLDER"]
    t.env["MLC_FAKE_CUDA"] = "memory=268435456"
    t.env["VK_ICD_FILENAMES"] = t.env["VK_DRIVER_FILES"] = "/nonexistent/icd.json"
    there = t.dir / "card" / "gpu" / "gpu.py"
    done = subprocess.run([sys.executable, there, "--from", t.dir / "card", "--out", t.dir / "there", "--only", f"probe,{only}"], env={**t.env, "PATH": "/nonexistent"},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((t.dir / "there" / "gpu.json").read_text())
    small = [m["name"] for m in made["models"] if m["kind"] == "small"]
    assert {(row["model"], row["target"]) for row in results["golden"] if row["answer"] == "ok"} == {(m, target) for m in small for target in made["targets"]}, results["golden"]
    assert results["ceilings"]["cuda"]["target"] == "cuda-sm90" and results["start"], results


def steps_are_chosen_by_name(t):
    done = subprocess.run([SCRIPT, "--bin", t.bin, "--only", "everything"], env=t.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "everything" in done.stderr, done.stderr


if __name__ == "__main__":
    main([without_a_card_it_says_what_it_skips, what_needs_no_card_runs, a_prepared_folder_needs_no_compiler, steps_are_chosen_by_name])
