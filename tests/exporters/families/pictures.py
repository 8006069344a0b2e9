"""How classifiers of pictures are made, for the families that hold them."""
from registry import Example


def pictures(module, size, free_size=False):
    """One picture and two; with `free_size` the second case has another height and width, too."""
    import torch
    extents = [{"batch": 1, "height": size, "width": size}, {"batch": 2, "height": size, "width": size}]
    axes = {0: "batch"}
    if free_size:
        extents[1].update(height=size + 32, width=size * 2)
        axes.update({2: "height", 3: "width"})
    return Example(module.eval(), lambda batch, height, width: {"image": torch.rand(batch, 3, height, width) * 2 - 1}, extents, {"image": axes})


def of_torchvision(name, size, options=None, free_size=False):
    def make():
        import torchvision
        return pictures(torchvision.models.get_model(name, weights=None, num_classes=100, **options or {}), size, free_size)
    return make


def of_timm(name, size, options=None, free_size=False):
    def make():
        import timm
        return pictures(timm.create_model(name, pretrained=False, num_classes=100, **options or {}), size, free_size)
    return make
