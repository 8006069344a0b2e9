"""Masks, depth: networks that answer a picture."""
from registry import add
from .pictures import pictures


def torchvision_net(name):
    def make():
        import torchvision
        made = pictures(torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5), 64, True)
        made.call = lambda module, image: module(image)["out"]
        return made
    return make


def unet():
    import torch
    from torch import nn

    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(True), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(True))

    class UNet(nn.Module):
        """Ronneberger 2015, with padding."""

        def __init__(self, widths=(16, 32, 64, 128)):
            super().__init__()
            self.down = nn.ModuleList(block(a, b) for a, b in zip((3, *widths), widths))
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
            self.join = nn.ModuleList(block(2 * a, a) for a in widths[:-1])
            self.last = nn.Conv2d(widths[0], 2, 1)

        def forward(self, x):
            kept = []
            for level in self.down[:-1]:
                x = level(x)
                kept.append(x)
                x = torch.nn.functional.max_pool2d(x, 2)
            x = self.down[-1](x)
            for i in reversed(range(len(self.up))):
                x = self.join[i](torch.cat([kept[i], self.up[i](x)], 1))
            return self.last(x)

    return pictures(UNet(), 64, True)


def segformer():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation
    made = pictures(SegformerForSemanticSegmentation(SegformerConfig(depths=[1] * 4, hidden_sizes=[16, 32, 64, 64], num_labels=5, decoder_hidden_size=64)), 64)
    made.call = lambda module, image: module(pixel_values=image).logits
    return made


def upernet():
    from transformers import ConvNextConfig, UperNetConfig, UperNetForSemanticSegmentation
    backbone = ConvNextConfig(depths=[1] * 4, hidden_sizes=[16, 32, 64, 64], out_features=["stage1", "stage2", "stage3", "stage4"])
    made = pictures(UperNetForSemanticSegmentation(UperNetConfig(backbone_config=backbone, hidden_size=32, use_auxiliary_head=False, num_labels=5)), 64)
    made.call = lambda module, image: module(pixel_values=image).logits
    return made


def dpt():
    from transformers import DPTConfig, DPTForDepthEstimation
    made = pictures(DPTForDepthEstimation(DPTConfig(hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16,
                                                    backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[16, 32, 32, 32], fusion_hidden_size=32)), 64)
    made.call = lambda module, image: module(pixel_values=image).predicted_depth
    return made


add("segmentation", "lraspp", "lraspp_mobilenet_v3_large", torchvision_net("lraspp_mobilenet_v3_large"), "ts.free dynamo")
add("segmentation", "deeplab v3", "deeplabv3_mobilenet_v3_large", torchvision_net("deeplabv3_mobilenet_v3_large"), "ts.free")
add("segmentation", "fcn", "fcn_resnet50", torchvision_net("fcn_resnet50"), "dynamo")
add("segmentation", "u-net", "unet", unet, "ts.free dynamo.free ts.f16 ts.free.qdq")
add("segmentation", "segformer", "segformer", segformer, "ts.free dynamo")
add("segmentation", "upernet", "upernet", upernet, "dynamo")
add("segmentation", "dpt", "dpt", dpt, "dynamo.free")
