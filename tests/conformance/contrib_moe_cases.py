"""Cases for mixtures of experts, weights of few bits and blocks, and operators that only other processors have kernels for."""
import math

import numpy as np

from contrib_attention_cases import trimmed
from contrib_cases import f32


def acted(kind, x):
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    return {"relu": lambda: np.maximum(x, 0), "silu": lambda: x * sigmoid(x), "identity": lambda: x,
            "gelu": lambda: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))}[kind]()


def glu(g, l, alpha, beta, limit):
    g, l = np.minimum(g, limit), np.clip(l, -limit, limit)
    return g / (1 + np.exp(-alpha * g)) * (l + beta)


def mixed(x, router, w1, b1, w2, b2, w3=None, b3=None, k=1, kind="relu", fusion=0, alpha=1.0, beta=0.0, limit=np.inf, normalize=0, mixing=None):
    rows, y = x.reshape(-1, x.shape[-1]).astype(np.float64), []
    for row, logits in zip(rows, router.astype(np.float64)):
        p = np.exp(logits - logits.max())
        p /= p.sum()
        best = sorted(range(len(p)), key=lambda e: (p[e], e), reverse=True)[:k]
        share = np.array([(p if mixing is None else mixing[len(y)])[e] for e in best])
        if normalize:
            share = share / share.sum()
        total = 0
        for e, part in zip(best, share):
            up = w1[e] @ row + (0 if b1 is None else b1[e])
            side = 1 if w3 is None else w3[e] @ row + (0 if b3 is None else b3[e])
            if kind == "swiglu":
                g, l = (up[0::2], up[1::2]) if fusion == 1 else np.split(up, 2) if fusion == 2 else (up, side)
                mid = glu(g, l, alpha, beta, limit)
            else:
                mid = acted(kind, up) * side
            total = total + part * (w2[e] @ mid + (0 if b2 is None else b2[e]))
        y.append(total)
    return np.array(y).reshape(x.shape).astype(np.float32)


def experts(cases):
    e, h, i, n = 4, 8, 6, 5
    for kind in ("relu", "gelu", "silu", "identity", "swiglu"):
        for k in (1, 2, 4):
            for normalize in (0, 1):
                for bias in (False, True):
                    f = 2 * i if kind == "swiglu" else i
                    shape = (n, h) if k != 2 else (1, n, h)
                    cases.add(f"ms_moe_{kind}_{k}{normalize}{int(bias)}", "MoE",
                              trimmed(lambda r: [f32(r, *shape), f32(r, n, e), f32(r, e, f, h), f32(r, e, f) if bias else None, f32(r, e, h, i), f32(r, e, h) if bias else None]),
                              {"activation_type": kind, "k": k, "normalize_routing_weights": normalize,
                               **({"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 2.0} if kind == "swiglu" else {})}, atol=1e-5)
    cases.add("ms_moe_halves", "MoE", lambda r: [f32(r, n, h), f32(r, n, e), f32(r, e, 2 * i, h), f32(r, e, 2 * i), f32(r, e, h, i), f32(r, e, h)],
              {"activation_type": "swiglu", "k": 2, "swiglu_fusion": 2}, expected=lambda *x: [mixed(*x, k=2, kind="swiglu", fusion=2)])
    for kind in ("silu", "swiglu"):
        cases.add(f"ms_moe_gated_{kind}", "MoE",
                  lambda r: [f32(r, n, h), f32(r, n, e), f32(r, e, i, h), f32(r, e, i), f32(r, e, h, i), f32(r, e, h), f32(r, e, i, h), f32(r, e, i)],
                  {"activation_type": kind, "k": 2, "normalize_routing_weights": 1}, expected=lambda *x: [mixed(*x, k=2, kind=kind, normalize=1)])


def unpacked(w, bits, scales, zeros, block):
    """Codes as ONNX packs them to numbers; rows with a scale each, or blocks of rows."""
    per = 8 // bits
    spread = lambda a: ((a[..., None] >> (np.arange(per) * bits)) & (2 ** bits - 1)).reshape(*a.shape[:-1], -1).astype(np.float64)
    codes = spread(w)
    if zeros is None:
        zero = 2.0 ** (bits - 1)
    else:
        zero = spread(zeros)[..., :scales.shape[-1]]
        zero = np.repeat(zero, block, -1) if block else zero[..., None]
    return (codes - zero) * (np.repeat(scales, block, -1) if block else scales[..., None])


def quantised_experts(cases):
    e, h, i, n = 3, 32, 64, 4
    for bits in (2, 4, 8):
        for block in (0, 16, 32):
            for zeros in (False, True):
                for kind in ("silu", "swiglu"):
                    f = 2 * i if kind == "swiglu" else i

                    def packed(r, rows, columns):
                        scale = (e, rows) if not block else (e, rows, columns // block)
                        zero = (e, -(-rows * bits // 8)) if not block else (e, rows, -(-columns // block * bits // 8))
                        return (r.integers(0, 256, (e, rows, columns * bits // 8)).astype(np.uint8), (r.random(scale) * 0.02 + 0.01).astype(np.float32),
                                r.integers(0, 256, zero).astype(np.uint8) if zeros else None)

                    def inputs(r):
                        w1, s1, z1 = packed(r, f, h)
                        w2, s2, z2 = packed(r, h, i)
                        return [f32(r, n, h), f32(r, n, e), w1, s1, f32(r, e, f), w2, s2, f32(r, e, h), None, None, None, z1, z2]
                    more = {"kind": kind, "k": 2, "normalize": 1, **({"fusion": 1, "alpha": 1.7, "beta": 1.0} if kind == "swiglu" else {})}

                    def expected(x, router, w1, s1, b1, w2, s2, b2, *rest):
                        z1, z2 = (rest[3], rest[4]) if len(rest) > 3 else (None, None)
                        return [mixed(x, router, unpacked(w1, bits, s1, z1, block), b1, unpacked(w2, bits, s2, z2, block), b2, **more)]
                    # the formula: ONNX Runtime rounds activations to eight bits here and there
                    cases.add(f"ms_q_moe_{bits}_{block}_{int(zeros)}_{kind}", "QMoE", trimmed(inputs),
                              {"activation_type": kind, "k": 2, "normalize_routing_weights": 1, "expert_weight_bits": bits,
                               **({"block_size": block} if block else {}), **({"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0} if kind == "swiglu" else {})},
                              expected=expected)


BNB = ([0, 0.005208333333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25, 0, -0.005208333333, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25],
       [-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1])


def few_bits(cases):
    for kind in (0, 1):
        for block in (16, 64):
            for k, n in ((32, 5), (48, 3), (64, 64)):
                cases.add(f"ms_bnb4_{kind}_{block}_{k}_{n}", "MatMulBnb4",
                          lambda r: [f32(r, 2, k), r.integers(0, 256, (n * k + 1) // 2).astype(np.uint8), (r.random(-(-n * k // block)) + 0.1).astype(np.float32)],
                          {"K": k, "N": n, "block_size": block, "quant_type": kind})
        def back(a, b, scales):  # ONNX Runtime's product without transposition reads other weights
            codes = np.stack([b >> 4, b & 15], -1).reshape(-1)
            w = np.array(BNB[kind])[codes] * np.repeat(scales, 16)
            return [(a @ w.reshape(5, 32)).astype(np.float32)]
        cases.add(f"ms_bnb4_{kind}_back", "MatMulBnb4", lambda r: [f32(r, 2, 5), r.integers(0, 256, 80).astype(np.uint8), (r.random(10) + 0.1).astype(np.float32)],
                  {"K": 32, "N": 5, "block_size": 16, "quant_type": kind, "transB": 0}, expected=back)
    for bits in (2, 4, 8):
        for zeros in (False, True):
            k, n, block = 64, 3, 16

            def ordered(a, b, scales, zero=None, order=None):  # ONNX Runtime knows four bits alone here, and forgets the zero points
                per = 8 // bits
                spread = lambda x: ((x[..., None] >> (np.arange(per) * bits)) & (2 ** bits - 1)).reshape(n, -1).astype(np.float64)
                middle = 2.0 ** (bits - 1) if zero is None else spread(zero)[:, order]
                return [(a @ ((spread(b) - middle) * scales[:, order]).T).astype(np.float32)]
            cases.add(f"ms_matmul_order_{bits}_{int(zeros)}", "MatMulNBits",
                      trimmed(lambda r: [f32(r, 2, k), r.integers(0, 256, (n, k // block, block * bits // 8)).astype(np.uint8), (r.random((n, k // block)) + 0.1).astype(np.float32),
                                         r.integers(0, 256, (n, -(-k // block * bits // 8))).astype(np.uint8) if zeros else None,
                                         r.permutation(np.repeat(np.arange(k // block), block)).astype(np.int32)]),
                      {"K": k, "N": n, "bits": bits, "block_size": block}, expected=ordered if zeros or bits != 4 else None)


def sparse(cases):
    b, h, g, c, block, places = 1, 4, 2, 16, 16, 64
    layouts = np.array([[[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1]], [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]]])
    rows = np.zeros((2, 5), np.int32)
    columns = np.full((2, 8), -1, np.int32)
    for l, layout in enumerate(layouts):
        at = np.argwhere(layout)
        columns[l, :len(at)] = at[:, 1]
        rows[l, 1:] = np.cumsum(layout.sum(1))

    def expected(q, k, v, pk, pv, rows, columns, total, lengths, cosines=None, sines=None):  # ONNX Runtime wants the buffers to be the same memory
        s, before = q.shape[1], int(total[0]) - q.shape[1]
        if k is None:
            q, k, v = np.split(q, [h * c, (h + g) * c], -1)
        q, k, v = (x.reshape(b, s, -1, c).swapaxes(1, 2) for x in (q, k, v))
        if cosines is not None:
            cos, sin = cosines[before:before + s], sines[before:before + s]
            q, k = (np.concatenate([x[..., :c // 2] * cos - x[..., c // 2:] * sin, x[..., c // 2:] * cos + x[..., :c // 2] * sin], -1) for x in (q, k))
        pk, pv = pk.copy(), pv.copy()
        pk[:, :, before:before + s], pv[:, :, before:before + s] = k, v
        place, seen = np.arange(places), before + np.arange(s)[:, None]
        y = np.zeros((b, h, s, c))
        for head in range(h):
            scores = q[:, head] @ pk[:, head // (h // g)].swapaxes(1, 2) / np.sqrt(c)
            visible = (place <= seen) & (layouts[head % 2][np.minimum(seen // block, 3), place // block] == 1)
            e = np.where(visible, np.exp(scores - np.where(visible, scores, -1e30).max(-1, keepdims=True)), 0)
            y[:, head] = e / e.sum(-1, keepdims=True) @ pv[:, head // (h // g)]
        return [y.swapaxes(1, 2).reshape(b, s, h * c).astype(np.float32), pk.astype(np.float32), pv.astype(np.float32)]
    for name, before, s in (("prompt", 0, 40), ("step", 39, 1), ("first", 0, 1)):
        for rotary in (0, 1):
            for packed in (0, 1):
                def inputs(r):
                    angles = r.random((places, c // 2)) * 6
                    qkv = [f32(r, b, s, h * c), f32(r, b, s, g * c), f32(r, b, s, g * c)]
                    if packed:
                        qkv = [np.concatenate(qkv, -1), None, None]
                    return [*qkv, f32(r, b, g, places, c), f32(r, b, g, places, c), rows, columns, np.array([before + s], np.int32), np.array([before + s] * b, np.int32),
                            *([np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)] if rotary else [])]
                cases.add(f"ms_sparse_attention_{name}_{rotary}{packed}", "SparseAttention", inputs,
                          {"num_heads": h, "kv_num_heads": g, "sparse_block_size": block, "do_rotary": rotary}, outputs=(True, True, True), expected=expected)


def norms(cases):
    n, y, x, c = 2, 3, 4, 6
    silu = lambda v: v / (1 + np.exp(-v))

    def grouped(v, gamma, beta, groups, act, last):
        w = np.moveaxis(v, -1, 1) if last else v
        w = w.astype(np.float64).reshape(v.shape[0], groups, -1)
        w = (w - w.mean(-1, keepdims=True)) / np.sqrt(w.var(-1, keepdims=True) + 1e-5)
        w = w.reshape(np.moveaxis(v, -1, 1).shape if last else v.shape)
        w = np.moveaxis(w, 1, -1) * gamma + beta
        w = silu(w) if act else w
        return (w if last else np.moveaxis(w, -1, 1)).astype(np.float32)
    for last in (0, 1):
        for act in (0, 1):
            shape = (n, y, x, c) if last else (n, c, y, x)
            cases.add(f"ms_group_norm_{last}{act}", "GroupNorm", lambda r: [f32(r, *shape), f32(r, c), f32(r, c)],
                      {"groups": 3, "activation": act, "channels_last": last}, expected=lambda v, gamma, beta: [grouped(v, gamma, beta, 3, act, last)])
    for act in (0, 1):
        for skip in ((n, y, x, c), (n, 1, 1, c), (n, c)):
            for bias in (False, True):
                def expected(v, gamma, beta, s, b=0):
                    total = v + (s if s.ndim == 4 else s[:, None, None]) + b
                    return [grouped(total, gamma, beta, 2, act, 1), total.astype(np.float32)]
                cases.add(f"ms_skip_group_norm_{act}{len(skip)}{skip[1]}{int(bias)}", "SkipGroupNorm",
                          trimmed(lambda r: [f32(r, n, y, x, c), f32(r, c), f32(r, c), f32(r, *skip), f32(r, c) if bias else None]),
                          {"groups": 2, "activation": act}, outputs=(True, np.float32), expected=expected, atol=1e-6)
    gelu = lambda v: np.vectorize(lambda e: 0.5 * e * (1 + math.erf(e * math.sqrt(0.5))))(v.astype(np.float64))
    cases.add("ms_bias_add", "BiasAdd", lambda r: [f32(r, n, y, c), f32(r, c), f32(r, n, y, c)], expected=lambda a, b, s: [a + b + s])
    cases.add("ms_bias_split_gelu", "BiasSplitGelu", lambda r: [f32(r, n, y, c), f32(r, c)],
              expected=lambda a, b: [((a + b)[..., :3] * gelu((a + b)[..., 3:])).astype(np.float32)])
    cases.add("ms_gemm_fast_gelu", "GemmFastGelu", lambda r: [f32(r, n, y, c), np.abs(f32(r, c, 4)) * 0.1, np.ones(4, np.float32)],
              expected=lambda a, w, b: [acted("gelu", (a @ w + b).astype(np.float64)).astype(np.float32)])
    for inner in (0, 1):
        def softmax(v, bias):
            t = (v + bias).astype(np.float64)
            e = np.exp(t - t.max(-1, keepdims=True))
            return [(e / e.sum(-1, keepdims=True)).astype(np.float32)]
        cases.add(f"ms_bias_softmax_{inner}", "BiasSoftmax", lambda r: [f32(r, 2, 3, 4, 5), f32(r, *((2, 1, 1, 5) if inner else (1, 1, 4, 5)))],
                  {"axis": 3, "is_inner_broadcast": inner}, expected=softmax)
    for kind in (np.uint8, np.int8):
        lo, hi = np.iinfo(kind).min, np.iinfo(kind).max + 1
        for seg in (False, True):
            for mask in (False, True):
                def inputs(r):
                    q = lambda *shape: r.integers(lo, hi, shape).astype(kind)
                    ids = lambda top: r.integers(0, top, (2, 3)).astype(np.int32)
                    scale = lambda: np.float32(r.random() * 0.02 + 0.01)
                    return [ids(9), ids(2) if seg else None, q(9, 8), q(5, 8), q(2, 8) if seg else None, q(8), q(8), np.array([[1, 1, 0], [1, 0, 0]], np.int32) if mask else None,
                            scale(), scale(), scale() if seg else None, scale(), scale(), q(), q(), q() if seg else None, q(), q()]
                cases.add(f"ms_q_embed_norm_{np.dtype(kind).name}_{int(seg)}{int(mask)}", "QEmbedLayerNormalization", inputs, {"epsilon": 1e-6}, outputs=(True, True))


def relative(cases):
    """T5's buckets (transformers, T5Attention._relative_position_bucket) and WavLM's gate."""
    def buckets(q, c, both, count, far):
        d, base = c - q, 0
        if both:
            count //= 2
            base, d = (count if d > 0 else 0), abs(d)
        else:
            d = -min(d, 0)
        exact = count // 2
        if d < exact:
            return base + d
        return base + min(count - 1, exact + int(np.float32(np.log(np.float32(d) / exact)) / np.float32(math.log(far / exact)) * (count - exact)))
    for both in (0, 1):
        for size, far in ((7, 9), (40, 20)):
            def expected(table, rows, columns):
                at = np.array([[buckets(q, c, both, 8, far) for c in range(columns.item())] for q in range(rows.item())])
                return [table[at].transpose(2, 0, 1)[None]]
            cases.add(f"ms_relative_{both}_{size}", "RelativePositionBias", lambda r: [f32(r, 8, 2), np.array([size]), np.array([size])],
                      {"max_distance": far, "is_bidirectional": both}, expected=expected)
    b, s, h, c, d = 2, 3, 2, 4, 6

    def gated(q, shift, distance, w, bias, factor):
        x = (q + shift).reshape(b, s, h, c).swapaxes(1, 2).astype(np.float64)
        gate = 1 / (1 + np.exp(-(x @ w + bias).reshape(b, h, s, 2, d // 2).sum(-1)))
        return [((gate[..., :1] * (gate[..., 1:] * factor - 1) + 2) * distance).astype(np.float32)]
    cases.add("ms_gated_relative", "GatedRelativePositionBias",
              lambda r: [f32(r, b, s, h * c), f32(r, h * c), f32(r, 1, h, s, s), f32(r, c, d), f32(r, d), f32(r, 1, h, 1, 1)], {"num_heads": h}, expected=gated)


def images(cases):
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                cases.add(f"ms_grid_sample_{mode}_{padding}_{corners}", "GridSample", lambda r: [f32(r, 2, 3, 5, 4), (r.random((2, 3, 4, 2)) * 2.6 - 1.3).astype(np.float32)],
                          {"mode": mode, "padding_mode": padding, "align_corners": corners})
    for mode in ("bilinear", "nearest"):
        for size in ((3, 4), (1, 1), (7, 2)):
            cases.add(f"ms_crop_resize_{mode}_{size[0]}{size[1]}", "CropAndResize",
                      lambda r: [f32(r, 2, 3, 6, 5), np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [0.9, 0.7, 0.2, 0.1], [-0.3, 0.1, 1.4, 1.2]], np.float32),
                                 np.array([0, 1, 1, 0], np.int32), np.array(size, np.int32)], {"mode": mode, "extrapolation_value": 7.0})
    for kind in (np.float32, np.float64):
        for n in (2, 8, 6):
            cases.add(f"ms_rfft_{np.dtype(kind).name}_{n}", "Rfft", lambda r: [f32(r, 2, 3, n).astype(kind)], {"signal_ndim": 1, "onesided": 1, "normalized": 0},
                      expected=lambda x: [np.stack([np.fft.rfft(x).real, np.fft.rfft(x).imag], -1).astype(x.dtype)])
            cases.add(f"ms_irfft_{np.dtype(kind).name}_{n}", "Irfft", lambda r: [f32(r, 2, 3, n // 2 + 1, 2).astype(kind)], {"signal_ndim": 1, "onesided": 1, "normalized": 0},
                      expected=lambda x: [np.fft.irfft(x[..., 0] + 1j * x[..., 1]).astype(x.dtype)])
    for group in (1, 2):
        for pads in ([0, 0, 0, 0], [1, 0, 1, 2]):
            cases.add(f"ms_conv_transpose_{group}_{sum(pads)}", "ConvTransposeWithDynamicPads",
                      trimmed(lambda r: [f32(r, 1, 4, 5, 4), f32(r, 4, 3, 3, 3), np.array(pads), f32(r, 3 * group)]),
                      {"group": group, "strides": [2, 1], "kernel_shape": [3, 3]})
    def channels_last(x, w, b=None, z=None, activation=None, params=(), **attrs):
        import contrib
        node = contrib.Case("conv", "com.microsoft", "FusedConv",
                            [np.ascontiguousarray(np.moveaxis(x, -1, 1)), w, b] + ([np.ascontiguousarray(np.moveaxis(z, -1, 1))] if z is not None else []),
                            {**attrs, "activation": activation or "LeakyRelu", **({"activation_params": list(params or [1.0])} if params or not activation else {})})
        return [np.moveaxis(node.run(node.inputs)[0], 1, -1)]
    attrs = {"group": 2, "pads": [1, 0, 1, 1], "strides": [1, 2]}
    cases.add("ms_nhwc_conv", "NhwcConv", lambda r: [f32(r, 2, 6, 5, 4), f32(r, 6, 2, 3, 3), f32(r, 6)], attrs, expected=lambda *x: channels_last(*x, **attrs))
    cases.add("ms_nhwc_fused_conv", "NhwcFusedConv", lambda r: [f32(r, 2, 6, 5, 4), f32(r, 6, 2, 3, 3), f32(r, 6)], {**attrs, "activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
              expected=lambda *x: channels_last(*x, activation="HardSigmoid", params=[0.3, 0.4], **attrs))
    cases.add("ms_nhwc_fused_conv_sum", "NhwcFusedConv", lambda r: [f32(r, 2, 6, 5, 4), f32(r, 6, 2, 3, 3), f32(r, 6), f32(r, 2, 6, 2, 6)], {**attrs, "activation": "Relu"},
              expected=lambda *x: channels_last(*x, activation="Relu", **attrs))


def old_forms(cases):
    """What ONNX Runtime's optimiser writes into models of any opset."""
    for axis in (-1, 1):
        cases.add(f"ms_layer_norm_9_{axis % 3}", "LayerNormalization", lambda r: [f32(r, 2, 3, 4), f32(r, *(2, 3, 4)[axis:]), f32(r, *(2, 3, 4)[axis:])],
                  {"axis": axis, "epsilon": 1e-4}, domain="", opset=9)


def collect(cases):
    experts(cases)
    quantised_experts(cases)
    few_bits(cases)
    sparse(cases)
    norms(cases)
    relative(cases)
    images(cases)
    old_forms(cases)
