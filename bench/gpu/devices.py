"""Which devices of this machine are measured, and by which driver interface: the first card by each that shows it."""
import dataclasses
import json
import os
import shutil

from lab import Skip

TARGETS = {"cuda": ("cuda-sm75", "cuda-sm80", "cuda-sm90"), "vulkan": ("vulkan-base", "vulkan-subgroup")}


@dataclasses.dataclass
class Device:
    api: str
    title: str
    driver: str
    software: bool
    facts: dict
    name: str   # as mlrun takes it
    made: list  # targets of the containers

    @property
    def slow(self):
        """No card: small shapes do."""
        return self.software or self.title.startswith("Fake ")

    def targets(self):
        """Those that it can run and that were made, the best last."""
        if self.api == "cuda":
            able = [t for t in TARGETS["cuda"] if int(t.removeprefix("cuda-sm")) <= self.facts["cuda.cc"]]
        else:
            picks = self.facts.get("vk.api", 0) >= 1030 and self.facts.get("vk.subgroup_pick") and self.facts.get("vk.subgroup_shuffle") and self.facts.get("vk.int_dot")
            able = list(TARGETS["vulkan"]) if picks else ["vulkan-base"]
        return [t for t in able if t in self.made]


def card_and_tool(devices, name):
    """The card of NVIDIA, and where this tool of its toolkit is."""
    card = devices.get("cuda")
    if not card or card.slow:
        raise Skip("no card of NVIDIA")
    program = shutil.which(name) or f"/usr/local/cuda/bin/{name}"
    if not os.access(program, os.X_OK):
        raise Skip(f"no {name}")
    return card, program


def probe(lab):
    """{api: Device}. What drivers told is kept, as text for a fixture."""
    answer = lab.json("probe", [lab.bin / "mlrun", "probe", "--json"], 30)
    (lab.out / "probe.json").write_text(json.dumps(answer, indent=1) + "\n")
    (lab.out / "probe.txt").write_text(lab.run("probe", [lab.bin / "mlrun", "probe"], 30))
    found = {}
    for api in TARGETS:
        shown = [(d, by) for d in sorted(answer["devices"], key=lambda d: d["software"]) for by in d["drivers"] if by["api"] == api]
        if shown:
            card, by = shown[0]
            found[api] = Device(api, card["title"], by["driver"], card["software"], by["facts"], "gpu", lab.options.targets)
            text = lab.run("probe", [lab.bin / "mlrun", "probe-child", api], 30)
            kept = "".join(c if c.isalnum() else "-" for c in card["title"].lower()).strip("-")
            (lab.out / "fixtures" / f"{api}-{kept[:60]}.txt").write_text(text)
    # A processor that stands in for a card says nothing about one.
    real = [d for d in found.values() if not d.software]
    for api in list(found):
        if found[api].software and real and not lab.options.software:
            lab.skip(f"devices of {api}", f"{found[api].title} is software, and there is a card ({real[0].title}); --software measures it too")
            del found[api]
    for api in TARGETS:
        if api not in found and not any(s["what"] == f"devices of {api}" for s in lab.results["skipped"]):
            why = next((a["why"] for a in answer["no_devices"] if a["api"] == api), "none")
            lab.skip(f"devices of {api}", why)
    lab.results["devices"] = [dataclasses.asdict(d) for d in found.values()]
    for d in found.values():
        lab.say(f"device: {d.title}, by {d.api} ({d.driver})" + (", software" if d.software else ""))
    if not found:
        raise Skip("no device by any driver")
    return found
