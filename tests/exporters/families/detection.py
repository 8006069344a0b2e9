"""Detectors, with their post-processing in the graph. Heads are scaled so that scores spread: with weights at random all are alike."""
from registry import Example, add


def spread(module, gains):
    """Widens the last layers, by parts of their names, so that random scores are well apart and some pass the thresholds."""
    import torch
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            for word, gain in gains.items():
                if word in name and parameter.dim() > 1:
                    parameter.mul_(gain / parameter.std().clamp(min=1e-6) / parameter[0].numel() ** 0.5)
                elif word in name:
                    parameter.zero_()


def of_torchvision(name, size, gains, outputs, **options):
    def make():
        import torch
        import torchvision
        torch.manual_seed(3)
        module = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, **options).eval()
        spread(module, gains)

        def call(m, image):
            (found,) = m([image])
            return [found[o] for o in outputs]
        return Example(module, lambda height, width: {"image": torch.rand(3, height, width)}, [{"height": size, "width": size}, {"height": size + 32, "width": size - 24}],
                       {"image": {1: "height", 2: "width"}}, call)
    return make


def of_transformers(kind, config, size, **options):
    def make():
        import torch
        import transformers
        torch.manual_seed(3)
        module = getattr(transformers, kind)(getattr(transformers, config)(**options)).eval()

        def call(m, image):
            found = m(pixel_values=image)
            return [found.logits, found.pred_boxes]
        return Example(module, lambda batch: {"pixel_values": torch.rand(batch, 3, size, size)}, [{"batch": 1}, {"batch": 2}], {"pixel_values": {0: "batch"}}, call)
    return make


def yolo():
    """The shape of YOLOv5 to v8: cross-stage blocks, a pyramid, boxes decoded and suppressed in the graph."""
    import torch
    import torchvision
    from torch import nn

    def cbs(a, b, k=1, s=1):
        return nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b), nn.SiLU())

    class C3(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.left, self.right, self.block, self.join = cbs(a, b // 2), cbs(a, b // 2), nn.Sequential(cbs(b // 2, b // 2), cbs(b // 2, b // 2, 3)), cbs(b, b)

        def forward(self, x):
            y = self.left(x)
            return self.join(torch.cat([y + self.block(y), self.right(x)], 1))

    class Yolo(nn.Module):
        def __init__(self, classes=8):
            super().__init__()
            self.stem = nn.Sequential(cbs(3, 16, 3, 2), cbs(16, 32, 3, 2), C3(32, 32))
            self.p3, self.p4, self.p5 = (nn.Sequential(cbs(a, b, 3, 2), C3(b, b)) for a, b in ((32, 64), (64, 128), (128, 128)))
            self.n4, self.n3 = C3(256, 64), C3(128, 64)
            self.heads = nn.ModuleList(nn.Conv2d(c, 5 + classes, 1) for c in (64, 64, 128))
            for head in self.heads:
                nn.init.normal_(head.weight, std=1.5 / head.in_channels**0.5)  # more: scores of 1 everywhere

        def forward(self, x):
            p3 = self.p3(self.stem(x))
            p4 = self.p4(p3)
            p5 = self.p5(p4)
            n4 = self.n4(torch.cat([nn.functional.interpolate(p5, scale_factor=2.0), p4], 1))
            n3 = self.n3(torch.cat([nn.functional.interpolate(n4, scale_factor=2.0), p3], 1))
            boxes, scores, labels = [], [], []
            for y, head, stride in ((n3, self.heads[0], 8), (n4, self.heads[1], 16), (p5, self.heads[2], 32)):
                y = head(y)[0].permute(1, 2, 0)
                rows, columns = torch.meshgrid(torch.arange(y.shape[0]), torch.arange(y.shape[1]), indexing="ij")
                centre = (y[..., :2].sigmoid() * 2 - 0.5 + torch.stack([columns, rows], -1)) * stride
                size = (y[..., 2:4].sigmoid() * 2) ** 2 * stride
                best, label = (y[..., 4:5].sigmoid() * y[..., 5:].sigmoid()).max(-1)
                boxes.append(torch.cat([centre - size / 2, centre + size / 2], -1).reshape(-1, 4))
                scores.append(best.reshape(-1))
                labels.append(label.reshape(-1))
            boxes, scores, labels = torch.cat(boxes), torch.cat(scores), torch.cat(labels)
            kept = torch.nonzero(scores > 0.3).squeeze(1)
            boxes, scores, labels = boxes[kept], scores[kept], labels[kept]
            kept = torchvision.ops.nms(boxes, scores, 0.45)
            return boxes[kept], scores[kept], labels[kept]

    return Example(Yolo().eval(), lambda height, width: {"image": torch.rand(1, 3, height, width)}, [{"height": 128, "width": 128}, {"height": 96, "width": 160}],
                   {"image": {2: "height", 3: "width"}})


RCNN = {"cls": 4.0, "bbox_pred": 0.3}
DENSE = {"cls_logits": 20.0, "bbox_reg": 0.3, "bbox_ctrness": 4.0}
BOXES = ("boxes", "scores", "labels")
SMALL = {"min_size": 128, "max_size": 160}
FEW = {"rpn_pre_nms_top_n_test": 200, "rpn_post_nms_top_n_test": 50}
TORCHVISION = [
    ("faster r-cnn", "fasterrcnn_mobilenet_v3_large_320_fpn", 160, RCNN, BOXES, {"min_size": 160, "max_size": 192}, "ts"),
    ("faster r-cnn", "fasterrcnn_resnet50_fpn", 128, RCNN, BOXES, SMALL | FEW, "ts.free"),
    ("mask r-cnn", "maskrcnn_resnet50_fpn", 128, RCNN, (*BOXES, "masks"), SMALL | FEW, "ts.free"),
    ("keypoint r-cnn", "keypointrcnn_resnet50_fpn", 128, RCNN, (*BOXES, "keypoints"), SMALL | FEW, "ts.free"),
    ("retinanet", "retinanet_resnet50_fpn", 128, DENSE, BOXES, SMALL | {"num_classes": 11}, "ts.free"),
    ("fcos", "fcos_resnet50_fpn", 128, DENSE, BOXES, SMALL | {"num_classes": 11}, "ts.free"),
    ("ssd", "ssd300_vgg16", 300, {"classification_head": 4.0}, BOXES, {"num_classes": 5}, "ts"),
    ("ssdlite", "ssdlite320_mobilenet_v3_large", 320, {"classification_head": 4.0}, BOXES, {"num_classes": 5}, "ts"),
]
for architecture, name, size, gains, outputs, options, forms in TORCHVISION:
    add("detection", architecture, name, of_torchvision(name, size, gains, outputs, **options), forms)

FEW_LAYERS = dict(d_model=64, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=20)
add("detection", "detr", "detr", of_transformers("DetrForObjectDetection", "DetrConfig", 96, **FEW_LAYERS, use_timm_backbone=False, use_pretrained_backbone=False), "ts.free dynamo")
add("detection", "rt-detr", "rt_detr", of_transformers("RTDetrForObjectDetection", "RTDetrConfig", 128, d_model=64, encoder_hidden_dim=64, encoder_ffn_dim=128, decoder_layers=2,
                                                      decoder_ffn_dim=128, decoder_attention_heads=4, num_queries=20, decoder_in_channels=[64, 64, 64]), "ts dynamo")
add("detection", "yolos", "yolos", of_transformers("YolosForObjectDetection", "YolosConfig", 64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                                                  image_size=[64, 64], num_detection_tokens=10), "ts.free")
add("detection", "yolo", "yolo", yolo, "ts.free ts")
