"""Convolutional classifiers of torchvision and timm, small pictures and few blocks."""
from registry import add
from .pictures import of_timm, of_torchvision

TORCHVISION = [
    ("resnet", "resnet18", 64, {}, "ts.free dynamo.free ts.f16 ts.bf16 ts.free.qdq ts.qop"),
    ("regnet", "regnet_x_400mf", 64, {}, "ts.free"),
    ("mobilenet v2", "mobilenet_v2", 64, {}, "ts.free dynamo.free ts.f16 ts.free.qdq ts.qop"),
    ("mobilenet v3", "mobilenet_v3_small", 64, {}, "ts.free dynamo ts.qdq"),
    ("efficientnet v1", "efficientnet_b0", 64, {}, "dynamo.free"),
    ("shufflenet", "shufflenet_v2_x0_5", 64, {}, "ts.free dynamo.free"),
    ("squeezenet", "squeezenet1_1", 64, {}, "ts.free dynamo"),
    ("googlenet", "googlenet", 64, {"aux_logits": False, "init_weights": False}, "ts.free"),
    ("inception v3", "inception_v3", 96, {"aux_logits": False, "init_weights": False}, "ts.free"),
    ("mnasnet", "mnasnet0_5", 64, {}, "ts.free dynamo"),
]
TIMM = [
    ("resnext", "resnext50_32x4d", 64, {"layers": [1, 1, 1, 1]}, "ts.free dynamo"),
    ("regnet", "regnety_002", 64, {}, "dynamo.free"),
    ("efficientnet v2", "tf_efficientnetv2_b0", 64, {}, "ts.free"),
    ("densenet", "densenet121", 64, {"block_config": (2, 2, 3, 2)}, "ts.free dynamo.free"),
    ("convnext", "convnext_atto", 64, {"depths": (1, 1, 2, 1)}, "ts.free dynamo.free ts.f16"),
    ("convnext v2", "convnextv2_atto", 64, {"depths": (1, 1, 2, 1)}, "dynamo"),
    ("ghostnet", "ghostnet_050", 64, {}, "ts.free dynamo"),
    ("repvgg", "repvgg_a0", 64, {}, "ts.free"),
    ("mobileone", "mobileone_s0", 64, {}, "dynamo.free"),
    ("res2net", "res2net50_26w_4s", 64, {"layers": [1, 1, 1, 1]}, "ts.free"),
    ("resnest", "resnest14d", 64, {}, "ts.free"),
    ("lcnet", "lcnet_050", 64, {}, "ts.free"),
    ("mobilenet v4", "mobilenetv4_conv_small", 64, {}, "dynamo.free"),
    ("dpn", "dpn48b", 64, {}, "ts"),
    ("xception", "xception41", 64, {}, "ts"),
    ("cspnet", "cspresnet50", 64, {}, "dynamo"),
    ("hrnet", "hrnet_w18_small", 64, {}, "ts"),
    ("nfnet", "dm_nfnet_f0", 64, {"depths": (1, 1, 1, 1)}, "dynamo"),
]
for library, rows in ((of_torchvision, TORCHVISION), (of_timm, TIMM)):
    for architecture, name, size, options, forms in rows:
        add("classification", architecture, name, library(name, size, options), forms)
