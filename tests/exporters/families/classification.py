"""Convolutional classifiers of torchvision and timm, at 64 x 64 (96 and 75 where strides ask for more)."""
from registry import Example, add


def pictures(module, size=64, batches=(1, 2)):
    import torch
    return Example(module.eval(), lambda batch: {"image": torch.rand(batch, 3, size, size) * 2 - 1},
                   [{"batch": n} for n in batches], {"image": {0: "batch"}})


def of_torchvision(name, size):
    def make():
        import torchvision
        more = {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
        return pictures(torchvision.models.get_model(name, weights=None, num_classes=100, **more), size)
    return make


def of_timm(name, size):
    def make():
        import timm
        return pictures(timm.create_model(name, pretrained=False, num_classes=100), size)
    return make


TORCHVISION = [
    ("resnet", "resnet18", 64, "ts.free dynamo.free ts.f16 ts.bf16 ts.free.qdq ts.qop"),
]
for architecture, name, size, forms in TORCHVISION:
    add("classification", architecture, name, of_torchvision(name, size), forms)
