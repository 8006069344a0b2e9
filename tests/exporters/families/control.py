"""Control flow: what scripting keeps of a module's loops and branches, and dynamo of torch.cond."""
from registry import Example, add


def scripted(make):
    def made():
        import torch
        example = make()
        example.module = torch.jit.script(example.module)
        return example
    return made


def loop():
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 16)

        def forward(self, x, count):
            h = torch.zeros(x.shape[1], 16)
            for i in range(int(count)):
                h = torch.tanh(self.a(x[i]) + self.b(h))
            return h

    return Example(Net().eval(), lambda count: {"x": torch.randn(8, 2, 8), "count": torch.tensor(count)}, [{"count": 5}, {"count": 3}], {})


def branch():
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            if bool(x.sum() > 0):
                y = self.a(x)
            else:
                y = self.b(x) * 2
            return y.relu()

    return Example(Net().eval(), lambda: {"x": torch.randn(3, 8)})


def until():
    import torch
    from torch import nn

    class Net(nn.Module):
        """Newton's iteration until it stands still."""

        def forward(self, a):
            x = torch.ones_like(a)
            step = 0
            while bool((x * x - a).abs().max() > 1e-4) and step < 50:
                x = (x + a / x) / 2
                step += 1
            return x

    return Example(Net().eval(), lambda: {"a": torch.rand(6) * 10 + 1})


def greedy():
    """A list that grows in a scripted loop: greedy decoding."""
    import torch
    from typing import List
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.cell, self.last = nn.Embedding(20, 16), nn.Linear(32, 16), nn.Linear(16, 20)

        def forward(self, h):
            word = torch.zeros(h.shape[0], dtype=torch.int64)
            out: List[torch.Tensor] = []
            for _ in range(6):
                h = torch.tanh(self.cell(torch.cat([self.embed(word), h], 1)))
                word = self.last(h).argmax(1)
                out.append(word)
            return torch.stack(out, 1), h

    return Example(Net().eval(), lambda batch: {"h": torch.randn(batch, 16)}, [{"batch": 2}, {"batch": 5}], {"h": {0: "batch"}})


def conditional():
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: self.a(x).relu(), lambda x: self.b(x) * 2, (x,))

    return Example(Net().eval(), lambda: {"x": torch.randn(3, 8)})


for name, make, forms in (("loop", loop, "ts"), ("branch", branch, "ts"), ("while", until, "ts"), ("greedy", greedy, "ts.free")):
    add("control", f"scripted {name}", name, scripted(make), forms)
add("control", "cond", "cond", conditional, "dynamo")
