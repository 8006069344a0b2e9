"""Weights that let every part of a network be seen in its answer.

Libraries start many weights at zero or nearly so (biases, scales of layers, last layers), and normalise by statistics that no data
has made: a deep network then answers nearly zero, or as if half of it were missing, and would agree with anything.
"""
import torch

SMALL = 1e-3  # largest value of a parameter that counts as switched off


def drawn(parameter):
    """What a switched off parameter becomes: numbers of the size that its place in a layer asks for."""
    if parameter.dim() < 2:
        return torch.rand_like(parameter) * 0.2 + 0.1
    return torch.randn_like(parameter) / parameter[0].numel() ** 0.5


def switch_on(module):
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.numel() > 0 and parameter.abs().max() < SMALL:
                parameter.copy_(drawn(parameter))


def settle(module, run):
    """Normalises by what the random layers give. `run` answers for a batch of more than one."""
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    if not norms:
        return

    def measured(norm, inputs):
        norm.train(inputs[0].numel() > inputs[0].shape[1])  # one value per channel has no spread

    for norm in norms:
        norm.momentum = 1.0
    hooks = [norm.register_forward_pre_hook(measured) for norm in norms]
    with torch.no_grad():
        run()
    for hook in hooks:
        hook.remove()
    for norm in norms:
        norm.eval()


def prepare(example):
    if not isinstance(example.module, torch.nn.Module) or isinstance(example.module, torch.jit.ScriptModule):
        return
    switch_on(example.module)
    settle(example.module, lambda: example.call(example.module, *example.draw(**example.extents[1]).values()))

