"""Classifiers of pictures with attention or mixing: ViT and its descendants."""
from registry import add
from .pictures import of_timm

SMALL = {"img_size": 64}
TIMM = [
    ("vit", "vit_tiny_patch16_224", SMALL | {"depth": 2}, "ts.free dynamo.free ts.f16 ts.bf16 ts.free.dynamic ts.qdq"),
    ("deit", "deit_tiny_distilled_patch16_224", SMALL | {"depth": 2}, "ts.free dynamo"),
    ("swin", "swin_tiny_patch4_window7_224", SMALL | {"window_size": 4, "depths": (2, 2), "num_heads": (3, 6)}, "ts.free dynamo.free"),
    ("swin v2", "swinv2_tiny_window8_256", SMALL | {"window_size": 4, "depths": (2, 2), "num_heads": (3, 6)}, "ts dynamo.free"),
    ("maxvit", "maxvit_rmlp_pico_rw_256", SMALL, "ts dynamo"),
    ("mvit", "mvitv2_tiny", SMALL, "ts.free dynamo"),
    ("beit", "beit_base_patch16_224", SMALL | {"depth": 2, "embed_dim": 192, "num_heads": 3}, "ts.free"),
    ("cait", "cait_xxs24_224", SMALL | {"depth": 2}, "dynamo.free"),
    ("pit", "pit_ti_224", SMALL, "ts.free"),
    ("levit", "levit_128s", SMALL, "ts.free"),
    ("poolformer", "poolformer_s12", {}, "ts.free dynamo"),
    ("mobilevit", "mobilevit_xxs", {}, "ts dynamo"),
    ("xcit", "xcit_nano_12_p16_224", SMALL | {"depth": 2}, "ts.free"),
    ("twins", "twins_pcpvt_small", SMALL | {"depths": (1, 1, 1, 1)}, "dynamo"),
    ("pvt v2", "pvt_v2_b0", {"depths": (1, 1, 1, 1)}, "ts.free"),
    ("mlp-mixer", "mixer_s32_224", SMALL, "ts.free dynamo.free"),
    ("gmlp", "gmlp_ti16_224", SMALL, "ts"),
    ("davit", "davit_tiny", {"depths": (1, 1, 1, 1)}, "dynamo"),
    ("focalnet", "focalnet_tiny_srf", {}, "ts"),
    ("dinov2", "vit_small_patch14_dinov2", {"img_size": 56, "depth": 2}, "dynamo.free"),
    ("eva02", "eva02_tiny_patch14_224", {"img_size": 56, "depth": 2}, "ts.free"),
    ("sequencer", "sequencer2d_s", {"layers": (1, 1, 1, 1)}, "ts"),
    ("convmixer", "convmixer_768_32", {}, "ts.free"),
]
for architecture, name, options, forms in TIMM:
    add("attention", architecture, name, of_timm(name, options.get("img_size", 64), options), forms)
