"""Networks that make or compare pictures: diffusion, GANs, super resolution, optical flow, video, CLIP."""
from registry import Example, add


def diffusion_unet():
    """The U-Net of Ho 2020: residual blocks with group norm and SiLU, the step in sines, attention at the bottom."""
    import math
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, a, b, step):
            super().__init__()
            self.first = nn.Sequential(nn.GroupNorm(8, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1))
            self.step = nn.Sequential(nn.SiLU(), nn.Linear(step, b))
            self.second = nn.Sequential(nn.GroupNorm(8, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1))
            self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

        def forward(self, x, t):
            return self.second(self.first(x) + self.step(t)[:, :, None, None]) + self.skip(x)

    class Attention(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.norm, self.qkv, self.out = nn.GroupNorm(8, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

        def forward(self, x):
            n, c, h, w = x.shape
            q, k, v = self.qkv(self.norm(x)).reshape(n, 3, c, h * w).unbind(1)
            y = v @ torch.softmax(q.transpose(1, 2) @ k / math.sqrt(c), -1).transpose(1, 2)
            return x + self.out(y.reshape(n, c, h, w))

    class UNet(nn.Module):
        def __init__(self, c=32):
            super().__init__()
            self.embed = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
            self.first = nn.Conv2d(3, c, 3, padding=1)
            self.down = nn.ModuleList([Block(c, c, 4 * c), Block(c, 2 * c, 4 * c)])
            self.shrink = nn.ModuleList([nn.Conv2d(c, c, 3, 2, 1), nn.Conv2d(2 * c, 2 * c, 3, 2, 1)])
            self.middle, self.attention = Block(2 * c, 2 * c, 4 * c), Attention(2 * c)
            self.up = nn.ModuleList([Block(3 * c, c, 4 * c), Block(4 * c, 2 * c, 4 * c)])
            self.last = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))
            self.c = c

        def forward(self, x, t):
            waves = t[:, None].float() * torch.exp(torch.arange(self.c // 2) * (-math.log(10000) / (self.c // 2)))
            t = self.embed(torch.cat([waves.sin(), waves.cos()], 1))
            x, kept = self.first(x), []
            for block, shrink in zip(self.down, self.shrink):
                x = block(x, t)
                kept.append(x)
                x = shrink(x)
            x = self.attention(self.middle(x, t))
            for block in reversed(self.up):
                x = block(torch.cat([nn.functional.interpolate(x, scale_factor=2.0), kept.pop()], 1), t)
            return self.last(x)

    return Example(UNet().eval(), lambda batch, height, width: {"x": torch.randn(batch, 3, height, width), "step": torch.randint(0, 1000, (batch,))},
                   [{"batch": 1, "height": 32, "width": 32}, {"batch": 2, "height": 16, "width": 48}], {"x": {0: "batch", 2: "height", 3: "width"}, "step": {0: "batch"}})


def dcgan():
    import torch
    from torch import nn
    layers, widths = [], (64, 64, 32, 16)
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layers += [nn.ConvTranspose2d(a, b, 4, 1 if i == 0 else 2, 0 if i == 0 else 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2)]
    module = nn.Sequential(*layers, nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()).eval()
    return Example(module, lambda batch: {"z": torch.randn(batch, 64, 1, 1)}, [{"batch": 1}, {"batch": 3}], {"z": {0: "batch"}})


def pix2pix():
    """The generator of CycleGAN: reflection, instance norm, residual blocks."""
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.block = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c), nn.ReLU(), nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c))

        def forward(self, x):
            return x + self.block(x)

    module = nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(3, 16, 7), nn.InstanceNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.InstanceNorm2d(32), nn.ReLU(), Residual(32), Residual(32),
                           nn.ConvTranspose2d(32, 16, 3, 2, 1, 1), nn.InstanceNorm2d(16), nn.ReLU(), nn.ReflectionPad2d(3), nn.Conv2d(16, 3, 7), nn.Tanh()).eval()
    return Example(module, lambda height, width: {"x": torch.randn(1, 3, height, width)}, [{"height": 32, "width": 32}, {"height": 48, "width": 64}], {"x": {2: "height", 3: "width"}})


def style_gan():
    """A synthesis block of StyleGAN 2: weights modulated by the style, noise, blurred upsampling, leaky ReLU."""
    import torch
    from torch import nn

    class Modulated(nn.Module):
        def __init__(self, a, b, style):
            super().__init__()
            self.weight, self.style = nn.Parameter(torch.randn(b, a, 3, 3) / (9 * a) ** 0.5), nn.Linear(style, a)

        def forward(self, x, style):
            n, c, h, w = x.shape
            weight = self.weight[None] * (self.style(style) + 1)[:, None, :, None, None]
            weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
            y = nn.functional.conv2d(x.reshape(1, n * c, h, w), weight.reshape(-1, c, 3, 3), padding=1, groups=n)
            return nn.functional.leaky_relu(y.reshape(n, -1, h, w), 0.2)

    class Synthesis(nn.Module):
        def __init__(self, c=32):
            super().__init__()
            self.mapping = nn.Sequential(nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2))
            self.start = nn.Parameter(torch.randn(1, c, 4, 4))
            self.blocks = nn.ModuleList(Modulated(c, c, 32) for _ in range(3))
            self.rgb = nn.Conv2d(c, 3, 1)

        def forward(self, z):
            style, x = self.mapping(z), self.start.expand(z.shape[0], -1, -1, -1)
            for block in self.blocks:
                x = block(nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False), style)
            return self.rgb(x)

    return Example(Synthesis().eval(), lambda: {"z": torch.randn(2, 32)})


def super_resolution():
    """ESPCN (Shi 2016): convolutions, then pixel shuffle."""
    import torch
    from torch import nn
    module = nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.Tanh(), nn.Conv2d(32, 32, 3, padding=1), nn.Tanh(), nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3)).eval()
    return Example(module, lambda batch, height, width: {"y": torch.rand(batch, 1, height, width)},
                   [{"batch": 1, "height": 32, "width": 32}, {"batch": 2, "height": 24, "width": 40}], {"y": {0: "batch", 2: "height", 3: "width"}})


def esrgan():
    """Residual dense blocks of ESRGAN, two of them."""
    import torch
    from torch import nn

    class Dense(nn.Module):
        def __init__(self, c=32, grow=16):
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv2d(c + i * grow, grow if i < 4 else c, 3, padding=1) for i in range(5))

        def forward(self, x):
            parts = [x]
            for conv in self.convs[:-1]:
                parts.append(nn.functional.leaky_relu(conv(torch.cat(parts, 1)), 0.2))
            return x + 0.2 * self.convs[-1](torch.cat(parts, 1))

    module = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), Dense(), Dense(), nn.Upsample(scale_factor=2), nn.Conv2d(32, 3, 3, padding=1)).eval()
    return Example(module, lambda batch, height, width: {"x": torch.rand(batch, 3, height, width)},
                   [{"batch": 1, "height": 32, "width": 32}, {"batch": 1, "height": 24, "width": 40}], {"x": {0: "batch", 2: "height", 3: "width"}})


def swin2sr():
    import torch
    from transformers import Swin2SRConfig, Swin2SRForImageSuperResolution
    module = Swin2SRForImageSuperResolution(Swin2SRConfig(image_size=32, embed_dim=32, depths=[2], num_heads=[2], window_size=8, upscale=2)).eval()
    return Example(module, lambda: {"x": torch.rand(1, 3, 32, 32)}, call=lambda m, x: m(x).reconstruction)


def raft():
    import torch
    import torchvision
    module = torchvision.models.optical_flow.raft_small(weights=None).eval()
    return Example(module, lambda: {"one": torch.rand(1, 3, 128, 128) * 2 - 1, "two": torch.rand(1, 3, 128, 128) * 2 - 1},
                   call=lambda m, one, two: m(one, two, num_flow_updates=2)[-1])


def video(name, frames=8, size=32):
    def make():
        import torch
        import torchvision
        options = {"num_classes": 10}
        return Example(torchvision.models.get_model(name, weights=None, **options).eval(), lambda batch: {"clip": torch.rand(batch, 3, frames, size, size)},
                       [{"batch": 1}, {"batch": 2}], {"clip": {0: "batch"}})
    return make


def mvit_video():
    import torch
    from torchvision.models.video.mvit import MSBlockConfig, MViT
    blocks = [MSBlockConfig(1, 32, 32, [3, 3, 3], [], [1, 1, 1], []), MSBlockConfig(2, 32, 64, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 2, 2])]
    module = MViT((32, 32), 4, blocks, num_classes=10, residual_pool=True, residual_with_cls_embed=False, rel_pos_embed=True, proj_after_attn=True).eval()
    return Example(module, lambda batch: {"clip": torch.rand(batch, 3, 4, 32, 32)}, [{"batch": 1}, {"batch": 2}], {"clip": {0: "batch"}})


def clip():
    import torch
    from transformers import CLIPConfig, CLIPModel
    small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    module = CLIPModel(CLIPConfig(text_config=small | {"vocab_size": 320, "eos_token_id": 2}, vision_config=small | {"image_size": 64, "patch_size": 16}, projection_dim=32,
                                  attn_implementation="eager")).eval()

    def draw(images, texts):
        ids = torch.randint(3, 300, (texts, 9))
        ids[:, -1] = 2
        return {"ids": ids, "pixels": torch.rand(images, 3, 64, 64), "mask": torch.ones(texts, 9, dtype=torch.int64)}

    def call(m, ids, pixels, mask):
        found = m(input_ids=ids, pixel_values=pixels, attention_mask=mask)
        return [found.logits_per_image, found.text_embeds, found.image_embeds]
    return Example(module, draw, [{"images": 1, "texts": 2}, {"images": 3, "texts": 4}], {"ids": {0: "texts"}, "pixels": {0: "images"}, "mask": {0: "texts"}}, call)


def autoencoder():
    """A variational autoencoder's decoder as latent diffusion has it, with attention through scaled_dot_product_attention."""
    import torch
    from torch import nn
    torch.backends.mha.set_fastpath_enabled(False)

    class Decoder(nn.Module):
        def __init__(self, c=32):
            super().__init__()
            self.first, self.norm, self.heads = nn.Conv2d(4, c, 3, padding=1), nn.GroupNorm(8, c), nn.MultiheadAttention(c, 4, batch_first=True)
            self.up = nn.Sequential(nn.Upsample(scale_factor=2.0), nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(8, c), nn.SiLU(), nn.Upsample(scale_factor=2.0), nn.Conv2d(c, 3, 3, padding=1))

        def forward(self, z):
            x = self.first(z)
            y = self.norm(x).flatten(2).transpose(1, 2)
            y = self.heads(y, y, y, need_weights=False)[0].transpose(1, 2).reshape(x.shape)
            return self.up(x + y)

    return Example(Decoder().eval(), lambda batch: {"z": torch.randn(batch, 4, 16, 16)}, [{"batch": 1}, {"batch": 2}], {"z": {0: "batch"}})


add("generative", "diffusion u-net", "diffusion_unet", diffusion_unet, "ts.free dynamo.free")
add("generative", "latent decoder", "vae_decoder", autoencoder, "ts.free dynamo.free")
add("generative", "dcgan", "dcgan", dcgan, "ts.free dynamo.free")
add("generative", "cyclegan", "cyclegan", pix2pix, "ts.free dynamo")
add("generative", "stylegan 2", "stylegan2", style_gan, "ts dynamo")
add("generative", "espcn", "espcn", super_resolution, "ts.free dynamo.free ts.free.qdq ts.f16")
add("generative", "esrgan", "esrgan", esrgan, "ts.free")
add("generative", "swin2sr", "swin2sr", swin2sr, "ts")
add("generative", "raft", "raft_small", raft, "ts")
add("video", "r3d", "r3d_18", video("r3d_18"), "ts.free")
add("video", "r2plus1d", "r2plus1d_18", video("r2plus1d_18"), "dynamo")
add("video", "s3d", "s3d", video("s3d", 16, 224), "ts")
add("video", "mvit", "mvit_video", mvit_video, "ts.free dynamo")
add("multimodal", "clip", "clip", clip, "ts.free dynamo")
