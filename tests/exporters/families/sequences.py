"""Recurrent networks, networks on graphs, recommenders, forecasts: plain modules of PyTorch as users write them."""
from registry import Example, add


def recurrent(kind, directions=1, layers=1, state=False):
    def make():
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = getattr(nn, kind)(24, 32, layers, batch_first=True, bidirectional=directions == 2)
                self.last = nn.Linear(32 * directions, 5)

            def forward(self, x, *state):
                y, state_after = self.cell(x, *state)
                return self.last(y), state_after

        def draw(batch, steps):
            inputs = {"x": torch.randn(batch, steps, 24)}
            if state:
                inputs["h"] = torch.randn(layers * directions, batch, 32)
            return inputs
        return Example(Net().eval(), draw, [{"batch": 1, "steps": 12}, {"batch": 3, "steps": 7}], {"x": {0: "batch", 1: "steps"}, "h": {1: "batch"}})
    return make


def packed():
    """Sentences of different lengths, packed."""
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.cell, self.last = nn.Embedding(100, 16), nn.LSTM(16, 24, batch_first=True, bidirectional=True), nn.Linear(48, 7)

        def forward(self, ids, lengths):
            x = nn.utils.rnn.pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=True)
            y, _ = nn.utils.rnn.pad_packed_sequence(self.cell(x)[0], batch_first=True, total_length=10)
            return self.last(y)

    return Example(Tagger().eval(), lambda batch: {"ids": torch.randint(0, 100, (batch, 10)), "lengths": torch.arange(10, 10 - batch, -1)},
                   [{"batch": 3}, {"batch": 2}], {"ids": {0: "batch"}, "lengths": {0: "batch"}})


def attention_seq2seq():
    """GRU encoder, GRU cells with additive attention, unrolled for four steps."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.encoder, self.cell = nn.Embedding(50, 16), nn.GRU(16, 24, batch_first=True), nn.GRUCell(16 + 24, 24)
            self.a, self.b, self.c, self.last = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 1), nn.Linear(24, 50)

        def forward(self, ids):
            heard, h = self.encoder(self.embed(ids))
            h, word, out = h[0], torch.zeros_like(ids[:, 0]), []
            for _ in range(4):
                weights = torch.softmax(self.c(torch.tanh(self.a(heard) + self.b(h)[:, None])), 1)
                h = self.cell(torch.cat([self.embed(word), (weights * heard).sum(1)], 1), h)
                out.append(self.last(h))
                word = out[-1].argmax(1)
            return torch.stack(out, 1)

    return Example(Net().eval(), lambda batch, steps: {"ids": torch.randint(0, 50, (batch, steps))}, [{"batch": 1, "steps": 9}, {"batch": 2, "steps": 5}], {"ids": {0: "batch", 1: "steps"}})


def graph(kind):
    """Message passing by scatter and gather: a GCN, a GAT with a softmax over neighbours, a GIN with pooling per graph."""
    def make():
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second, self.score = nn.Linear(16, 24), nn.Linear(24, 24), nn.Linear(48, 1)

            def layer(self, x, edges, linear):
                source, target = edges[0], edges[1]
                x = linear(x)
                if kind == "gat":
                    e = nn.functional.leaky_relu(self.score(torch.cat([x[source], x[target]], 1)), 0.2).exp()
                    total = torch.zeros(x.shape[0], 1).scatter_add(0, target[:, None], e)
                    message = x[source] * (e / total[target])
                elif kind == "gcn":
                    degree = torch.ones(x.shape[0]).scatter_add(0, target, torch.ones(target.shape[0]))
                    message = x[source] * (degree[source] * degree[target]).rsqrt()[:, None]
                else:
                    message = x[source]
                return (x + torch.zeros_like(x).scatter_add(0, target[:, None].expand_as(message), message)).relu()

            def forward(self, x, edges):
                x = self.layer(self.layer(x, edges, self.first), edges, self.second)
                return x if kind != "gin" else x.mean(0)

        def draw(nodes, edges):
            return {"x": torch.randn(nodes, 16), "edges": torch.randint(0, nodes, (2, edges))}
        return Example(Net().eval(), draw, [{"nodes": 12, "edges": 30}, {"nodes": 9, "edges": 41}], {"x": {0: "nodes"}, "edges": {1: "edges"}})
    return make


def sage_max():
    """GraphSAGE with the largest message: scatter_reduce."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(16, 24), nn.Linear(16, 24)

        def forward(self, x, edges):
            index = edges[1][:, None].expand(-1, x.shape[1])
            most = torch.zeros_like(x).scatter_reduce(0, index, x[edges[0]], "amax", include_self=True)
            return nn.functional.normalize(self.a(x) + self.b(most), dim=1)

    return Example(Net().eval(), lambda nodes, edges: {"x": torch.randn(nodes, 16), "edges": torch.randint(0, nodes, (2, edges))},
                   [{"nodes": 12, "edges": 30}, {"nodes": 9, "edges": 41}], {"x": {0: "nodes"}, "edges": {1: "edges"}})


def dlrm():
    import torch
    from torch import nn

    class Dlrm(nn.Module):
        """Naumov 2019: tables, bags, products of pairs."""

        def __init__(self, tables=4, rows=100, c=16):
            super().__init__()
            self.tables = nn.ModuleList(nn.EmbeddingBag(rows, c, mode="sum") for _ in range(tables))
            self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, c), nn.ReLU())
            pairs = torch.tril_indices(tables + 1, tables + 1, -1)
            self.register_buffer("rows", pairs[0])
            self.register_buffer("columns", pairs[1])
            self.top = nn.Sequential(nn.Linear(c + pairs.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, dense, sparse):
            x = self.bottom(dense)
            all_of = torch.stack([x, *(table.weight[sparse[:, i]].sum(1) for i, table in enumerate(self.tables))], 1)
            products = (all_of @ all_of.transpose(1, 2))[:, self.rows, self.columns]
            return self.top(torch.cat([x, products], 1)).sigmoid()

    return Example(Dlrm().eval(), lambda batch: {"dense": torch.rand(batch, 13), "sparse": torch.randint(0, 100, (batch, 4, 3))}, [{"batch": 4}, {"batch": 9}],
                   {"dense": {0: "batch"}, "sparse": {0: "batch"}})


def wide_and_deep():
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.embed, self.deep = nn.Linear(40, 1), nn.Embedding(200, 8), nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 1))

        def forward(self, ids):
            hot = nn.functional.one_hot(ids % 10, 10).float().flatten(1)
            return torch.sigmoid(self.wide(hot) + self.deep(self.embed(ids).flatten(1)))

    return Example(Net().eval(), lambda batch: {"ids": torch.randint(0, 200, (batch, 4))}, [{"batch": 3}, {"batch": 8}], {"ids": {0: "batch"}})


def tcn():
    """Dilated causal convolutions (Bai 2018)."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, a, b, dilation):
            super().__init__()
            self.dilation, self.conv, self.skip = dilation, nn.utils.parametrizations.weight_norm(nn.Conv1d(a, b, 3, dilation=dilation)), nn.Conv1d(a, b, 1)

        def forward(self, x):
            return (self.conv(nn.functional.pad(x, (2 * self.dilation, 0))).relu() + self.skip(x)).relu()

    module = nn.Sequential(Block(4, 16, 1), Block(16, 16, 2), Block(16, 16, 4)).eval()
    return Example(module, lambda batch, steps: {"x": torch.randn(batch, 4, steps)}, [{"batch": 1, "steps": 40}, {"batch": 2, "steps": 25}], {"x": {0: "batch", 2: "steps"}})


def patch_tst():
    import torch
    from transformers import PatchTSTConfig, PatchTSTForPrediction
    module = PatchTSTForPrediction(PatchTSTConfig(num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=32, num_hidden_layers=2, num_attention_heads=4,
                                                  ffn_dim=64, prediction_length=8)).eval()
    return Example(module, lambda batch: {"past": torch.randn(batch, 32, 3)}, [{"batch": 1}, {"batch": 3}], {"past": {0: "batch"}}, lambda m, x: m(past_values=x).prediction_outputs)


def transformer():
    """torch.nn's own encoder layers, without the fused path of inference, which exporters do not know."""
    import torch
    from torch import nn
    torch.backends.mha.set_fastpath_enabled(False)
    module = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu"), 2).eval()
    return Example(module, lambda batch, steps: {"x": torch.randn(batch, steps, 32)}, [{"batch": 1, "steps": 9}, {"batch": 2, "steps": 5}], {"x": {0: "batch", 1: "steps"}})


add("sequences", "lstm", "lstm", recurrent("LSTM"), "ts.free dynamo ts.free.dynamic")
add("sequences", "lstm", "lstm_both_ways", recurrent("LSTM", 2, 2), "ts.free dynamo")
add("sequences", "gru", "gru", recurrent("GRU", state=True), "ts.free dynamo.free")
add("sequences", "gru", "gru_both_ways", recurrent("GRU", 2, 2), "ts.free")
add("sequences", "rnn", "rnn", recurrent("RNN"), "ts.free")
add("sequences", "packed lstm", "packed_lstm", packed, "ts.free")
add("sequences", "gru with attention", "seq2seq", attention_seq2seq, "ts.free dynamo")
add("sequences", "tcn", "tcn", tcn, "ts.free dynamo.free")
add("sequences", "patchtst", "patchtst", patch_tst, "ts dynamo")
add("sequences", "transformer", "transformer", transformer, "ts dynamo.free")
add("graphs", "gcn", "gcn", graph("gcn"), "ts.free dynamo.free")
add("graphs", "gat", "gat", graph("gat"), "ts.free dynamo.free")
add("graphs", "gin", "gin", graph("gin"), "ts.free")
add("graphs", "graphsage", "sage_max", sage_max, "ts.free dynamo.free")
add("recommenders", "dlrm", "dlrm", dlrm, "ts.free dynamo.free")
add("recommenders", "wide and deep", "wide_and_deep", wide_and_deep, "ts.free dynamo.free")
