"""Cases for the operators of com.microsoft."""
import numpy as np


def f32(rng, *shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def mask_of(rng, *shape):
    """Some places hidden, never a whole row: scores of -10000 keep too few digits to compare."""
    mask = (rng.random(shape) > 0.3).astype(np.int32)
    mask[..., 0] = 1
    return mask


def activations(cases):
    for shape in ((7,), (2, 3, 5), (0, 4)):
        label = "x".join(map(str, shape))
        cases.add(f"ms_gelu_{label}", "Gelu", lambda r: [np.maximum(f32(r, *shape), -2)])
        cases.add(f"ms_quick_gelu_{label}", "QuickGelu", lambda r: [f32(r, *shape, scale=2)], {"alpha": 1.3})
        # Moderate inputs: far below zero 1 + tanh(x) and 1 + erf(x) cancel all digits but few.
        cases.add(f"ms_fast_gelu_{label}", "FastGelu", lambda r: [np.maximum(f32(r, *shape), -2)])
        cases.add(f"ms_fast_gelu_bias_{label}", "FastGelu", lambda r: [np.maximum(f32(r, *shape), -1), np.maximum(f32(r, shape[-1]), -1)])
        cases.add(f"ms_bias_gelu_{label}", "BiasGelu", lambda r: [np.maximum(f32(r, *shape), -1), np.maximum(f32(r, shape[-1]), -1)])
    cases.add("ms_quick_gelu_default", "QuickGelu", lambda r: [f32(r, 3, 9)])


def normalisations(cases):
    b, s, h = 2, 3, 8
    for op, label in (("SkipLayerNormalization", "skip_layer_norm"), ("SkipSimplifiedLayerNormalization", "skip_simplified_norm")):
        beta = [[], [True]] if op == "SkipLayerNormalization" else [[]]
        for shape, skip in (((b, s, h), (b, s, h)), ((b, s, h), (1, s, h)), ((b, s, h), (s, h)), ((5, h), (5, h))):
            for has_beta in beta:
                for has_bias in (False, True):
                    def inputs(r, shape=shape, skip=skip, has_beta=has_beta, has_bias=has_bias, op=op):
                        xs = [f32(r, *shape), f32(r, *skip), f32(r, h)]
                        if op == "SkipLayerNormalization":
                            xs.append(f32(r, h) if has_beta else None)
                        if has_bias:
                            xs.append(f32(r, h))
                        while xs[-1] is None:
                            xs.pop()
                        return xs
                    name = f"ms_{label}_{'x'.join(map(str, shape))}_{'x'.join(map(str, skip))}_{int(bool(has_beta))}{int(has_bias)}"
                    cases.add(name, op, inputs, {"epsilon": 1e-5})
                    cases.add(name + "_sum", op, inputs, {"epsilon": 1e-3}, outputs=(True, False, False, True))
    for axis in (-1, 1, 0):
        shape = (2, 3, 4)
        cases.add(f"simplified_layer_norm_{axis % 3}", "SimplifiedLayerNormalization",
                  lambda r: [f32(r, *shape), f32(r, *shape[axis:])], {"axis": axis, "epsilon": 1e-4}, domain="")
    for has_seg in (False, True):
        for has_mask in (False, True):
            for has_pos in (0, 1, 2):
                def inputs(r, has_seg=has_seg, has_mask=has_mask, has_pos=has_pos):
                    i32 = lambda hi, *shape: r.integers(0, hi, shape).astype(np.int32)
                    xs = [i32(11, b, s), i32(2, b, s) if has_seg else None, f32(r, 11, h), f32(r, 6, h),
                          f32(r, 2, h) if has_seg else None, f32(r, h), f32(r, h)]
                    xs.append(np.array([[1, 1, 0], [1, 0, 0]], np.int32) if has_mask else None)
                    xs.append(None if has_pos == 0 else i32(6, b if has_pos == 1 else 1, s))
                    while xs[-1] is None:
                        xs.pop()
                    return xs
                name = f"ms_embed_layer_norm_{int(has_seg)}{int(has_mask)}{has_pos}"
                cases.add(name, "EmbedLayerNormalization", inputs, {"epsilon": 1e-6}, outputs=(True, True))
                cases.add(name + "_sum", "EmbedLayerNormalization", inputs, {"epsilon": 1e-6}, outputs=(True, True, True))


def attention(cases):
    b, s, h, c = 2, 3, 2, 4
    hidden = h * c

    def inputs(r, mask=None, past=0, extra=None, bias=True, v=c, sizes=(b, s)):
        bb, ss = sizes
        i = 6
        t = past + ss
        masks = {
            None: None,
            "end": np.array([t - 1, t][:bb], np.int32),
            "both": np.array([t, t - 1, 1, 0], np.int32),
            "raw": mask_of(r, bb, t),
            "cube": mask_of(r, bb, ss, t)}
        xs = [f32(r, bb, ss, i), f32(r, i, 2 * hidden + h * v), f32(r, 2 * hidden + h * v) if bias else None, masks[mask],
              f32(r, 2, bb, h, past, c) if past else None, f32(r, *extra, ss, t) if extra else None]
        while xs[-1] is None:
            xs.pop()
        return xs
    for mask in (None, "end", "both", "raw", "cube"):
        for causal in (0, 1):
            attrs = {"num_heads": h, "unidirectional": causal}
            name = f"ms_attention_{mask or 'open'}_{causal}"
            cases.add(name, "Attention", lambda r: inputs(r, mask), attrs)
            cases.add(name + "_past", "Attention", lambda r: inputs(r, mask, past=2), attrs, outputs=(True, True))
            if mask != "end":
                cases.add(name + "_extra", "Attention", lambda r: inputs(r, mask, extra=(b, h)), attrs)
    cases.add("ms_attention_scale", "Attention", lambda r: inputs(r), {"num_heads": h, "scale": 0.3})
    cases.add("ms_attention_filter", "Attention", lambda r: inputs(r, "raw"), {"num_heads": h, "mask_filter_value": -3.0})
    cases.add("ms_attention_no_bias", "Attention", lambda r: inputs(r, bias=False), {"num_heads": h},
              oracle=lambda x, w: [x, w, np.zeros(w.shape[1], np.float32)])  # ONNX Runtime reads the missing bias
    cases.add("ms_attention_present", "Attention", lambda r: inputs(r), {"num_heads": h}, outputs=(True, True))
    cases.add("ms_attention_sizes", "Attention", lambda r: inputs(r, v=6), {"num_heads": h, "qkv_hidden_sizes": [hidden, hidden, 6 * h]})
    cases.add("ms_attention_extra_shared", "Attention", lambda r: inputs(r, extra=(1, 1)), {"num_heads": h})
    cases.add("ms_attention_step", "Attention", lambda r: inputs(r, "raw", past=5, sizes=(b, 1)), {"num_heads": h, "unidirectional": 1},
              outputs=(True, True))


def quantised_attention(cases):
    b, s, h, c, i = 2, 3, 2, 4, 6
    for kind in (np.uint8, np.int8):
        lo, hi = np.iinfo(kind).min, np.iinfo(kind).max
        for columns in (False, True):
            for mask in (None, "end", "raw"):
                for past in (0, 2):
                    def inputs(r):
                        t, e = past + s, 3 * h * c
                        masks = {None: None, "end": np.array([t - 1, t], np.int32), "raw": mask_of(r, b, t)}
                        xs = [r.integers(0, 256, (b, s, i)).astype(np.uint8), r.integers(lo, hi + 1, (i, e)).astype(kind), f32(r, e), np.float32(0.01),
                              (r.random(e) * 0.01 + 0.005).astype(np.float32) if columns else np.float32(0.008), masks[mask], np.array(120, np.uint8),
                              r.integers(lo, hi + 1, e if columns else ()).astype(kind), f32(r, 2, b, h, past, c) if past else None]
                        while xs[-1] is None:
                            xs.pop()
                        return xs
                    cases.add(f"ms_q_attention_{np.dtype(kind).name}_{int(columns)}_{mask or 'open'}_{past}", "QAttention", inputs,
                              {"num_heads": h, "unidirectional": int(past > 0)}, outputs=(True, True) if past else (True,))


def multi_head(cases):
    b, s, l, h, c, v = 2, 3, 4, 2, 4, 6
    hidden = h * c
    attrs = {"num_heads": h}

    def add(name, inputs, attrs=attrs, outputs=(True,)):
        def trimmed(r):
            xs = inputs(r)
            while xs[-1] is None:
                xs.pop()
            return xs
        cases.add("ms_multi_head_" + name, "MultiHeadAttention", trimmed, attrs, outputs)
    for bias in (False, True):
        tail = "_bias" if bias else ""
        add("self" + tail, lambda r: [f32(r, b, s, hidden), f32(r, b, s, hidden), f32(r, b, s, hidden), f32(r, 3 * hidden) if bias else None])
        add("cross" + tail, lambda r: [f32(r, b, s, hidden), f32(r, b, l, hidden), f32(r, b, l, h * v),
                                       f32(r, 2 * hidden + h * v) if bias else None])
        add("apart" + tail, lambda r: [f32(r, b, s, hidden), f32(r, b, h, l, c), f32(r, b, h, l, c),
                                       f32(r, 3 * hidden) if bias else None])
    for causal in (0, 1):
        for mask in (None, "end", "raw", "cube"):
            for past in (0, 2):
                for extra in (None, (b, h), (1, 1), (1, h)):
                    def inputs(r, mask=mask, past=past, extra=extra):
                        t = past + s
                        masks = {None: None, "end": np.array([t, t - 1], np.int32), "raw": mask_of(r, b, t),
                                 "cube": mask_of(r, b, s, t)}
                        return [f32(r, b, s, hidden), f32(r, b, s, hidden), f32(r, b, s, hidden), f32(r, 3 * hidden), masks[mask],
                                f32(r, *extra, s, t) if extra else None, f32(r, b, h, past, c) if past else None,
                                f32(r, b, h, past, c) if past else None]
                    name = f"{mask or 'open'}_{causal}_past{past}" + ("_" + "x".join(map(str, extra)) if extra else "")
                    if mask and extra and extra != (b, h):
                        continue
                    add(name, inputs, {"num_heads": h, "unidirectional": causal}, outputs=(True, True, True) if past else (True,))
    add("qk", lambda r: [f32(r, b, s, hidden), f32(r, b, s, hidden), f32(r, b, s, hidden)], {"num_heads": h, "scale": 0.2},
        outputs=(True, False, False, np.float32))


def rotary(cases):
    b, s, h, c, places = 2, 3, 2, 8, 12

    def angles(r, half):
        x = r.random((places, half)) * 6
        return [np.cos(x).astype(np.float32), np.sin(x).astype(np.float32)]
    for interleaved in (0, 1):
        for offset in (False, True):
            def at(r):
                return np.array([4], np.int64) if offset else r.integers(0, places, (b, s))
            tail = f"{interleaved}{int(offset)}"
            attrs = {"interleaved": interleaved}
            cases.add(f"ms_rotary_{tail}", "RotaryEmbedding", lambda r: [f32(r, b, s, h * c), at(r), *angles(r, c // 2)], attrs)
            cases.add(f"ms_rotary_4d_{tail}", "RotaryEmbedding", lambda r: [f32(r, b, h, s, c), at(r), *angles(r, c // 2)], attrs)
            cases.add(f"ms_rotary_part_{tail}", "RotaryEmbedding", lambda r: [f32(r, b, s, h * c), at(r), *angles(r, c // 4)],
                      {**attrs, "num_heads": h, "rotary_embedding_dim": c // 2})
            cases.add(f"ms_rotary_part_4d_{tail}", "RotaryEmbedding", lambda r: [f32(r, b, h, s, c), at(r), *angles(r, c // 4)],
                      {**attrs, "num_heads": h, "rotary_embedding_dim": c // 2})


def group_query(cases):
    h, g, c = 4, 2, 16

    def inputs(r, b=2, s=3, past=0, room=None, packed=False, rotary=0, at=False, extra=None, sink=False, uneven=False):
        q, kv = f32(r, b, s, h * c), [f32(r, b, s, g * c), f32(r, b, s, g * c)]
        if packed:
            q, kv = f32(r, b, s, (h + 2 * g) * c), [None, None]
        total = past + s
        room = room or past
        lens = np.full(b, total - 1, np.int32)
        if uneven:
            lens[0] -= 1
        x = r.random((16, rotary)) * 6
        xs = [q, *kv, f32(r, b, g, room, c) if room else None, f32(r, b, g, room, c) if room else None, lens, np.array([total], np.int32),
              np.cos(x).astype(np.float32) if rotary else None, np.sin(x).astype(np.float32) if rotary else None,
              (past + np.arange(s)[None, :].repeat(b, 0)).astype(np.int64) if at else None,
              f32(r, *extra, s, total) if extra else None, f32(r, h) if sink else None]
        while xs[-1] is None:
            xs.pop()
        return xs
    heads = {"num_heads": h, "kv_num_heads": g}
    forms = {"prompt": {}, "step": {"s": 1, "past": 5}, "more": {"b": 1, "s": 2, "past": 4}, "prompt_room": {"room": 8},
             "step_room": {"s": 1, "past": 5, "room": 8}, "step_uneven": {"s": 1, "past": 5, "uneven": True}}
    variants = {"plain": ({}, {}), "packed": ({"packed": True}, {}), "scale": ({}, {"scale": 0.2}), "softcap": ({}, {"softcap": 1.5}),
                "smooth": ({}, {"smooth_softmax": 1}), "window": ({}, {"local_window_size": 2}), "sink": ({"sink": True}, {}),
                "extra": ({"extra": (1, 1)}, {}), "extra_capped": ({"extra": (1, h)}, {"softcap": 2.0}),
                "window_smooth": ({}, {"local_window_size": 3, "smooth_softmax": 1, "softcap": 2.0}),
                "rotary": ({"rotary": c // 2}, {"do_rotary": 1}), "rotary_mixed": ({"rotary": c // 2, "packed": True}, {"do_rotary": 1, "rotary_interleaved": 1}),
                "rotary_at": ({"rotary": c // 2, "at": True}, {"do_rotary": 1}), "both_ways": ({}, {"causal": 0})}
    for form, shape in forms.items():
        for variant, (given, attrs) in variants.items():
            if form == "step_uneven" and variant in ("rotary_at", "extra", "extra_capped"):
                continue
            cases.add(f"ms_group_query_{form}_{variant}", "GroupQueryAttention", lambda r: inputs(r, **shape, **given), {**heads, **attrs},
                      outputs=(True, True, True))
        for which in (1, 2) if form != "step_uneven" else ():  # beyond a row's own length these are undefined
            cases.add(f"ms_group_query_{form}_qk{which}", "GroupQueryAttention", lambda r: inputs(r, **shape), {**heads, "qk_output": which},
                      outputs=(True, True, True, True))


def products(cases):
    for label, a, b in (("2d", (3, 4), (4, 5)), ("3d", (2, 3, 4), (2, 4, 5)), ("wide", (2, 1, 3, 4), (3, 4, 5)), ("equal", (3, 3, 3), (3, 3, 3))):
        for ta in (0, 1):
            for tb in (0, 1):
                def inputs(r, a=a, b=b, ta=ta, tb=tb):
                    x, y = f32(r, *a), f32(r, *b)
                    return [np.ascontiguousarray(np.swapaxes(x, -1, -2)) if ta else x, np.ascontiguousarray(np.swapaxes(y, -1, -2)) if tb else y]
                attrs = {"transA": ta, "transB": tb, "alpha": 0.7}
                cases.add(f"ms_fused_matmul_{label}_{ta}{tb}", "FusedMatMul", inputs, attrs)
                cases.add(f"ms_transpose_matmul_{label}_{ta}{tb}", "TransposeMatMul", inputs, attrs)
                if len(a) == len(b) == 3:
                    for ba in (0, 1):
                        for bb in (0, 1):
                            def turned(r):
                                x, y = inputs(r)
                                return [np.ascontiguousarray(np.swapaxes(x, 0, 1)) if ba else x, np.ascontiguousarray(np.swapaxes(y, 0, 1)) if bb else y]
                            cases.add(f"ms_fused_matmul_{label}_{ta}{tb}_batch{ba}{bb}", "FusedMatMul", turned,
                                      {**attrs, "transBatchA": ba, "transBatchB": bb})
    cases.add("ms_fused_matmul_vector", "FusedMatMul", lambda r: [f32(r, 4), f32(r, 2, 4, 5)])
    cases.add("ms_fused_matmul_by_vector", "FusedMatMul", lambda r: [f32(r, 2, 3, 4), f32(r, 4)], {"alpha": -1.5})
    activations = {"Relu": {}, "Tanh": {}, "Sigmoid": {}, "LeakyRelu": {"activation_alpha": 0.2},
                   "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4}}
    for name, params in activations.items():
        cases.add(f"ms_fused_gemm_{name}", "FusedGemm", lambda r: [f32(r, 3, 4), f32(r, 5, 4), f32(r, 5)],
                  {"transB": 1, "alpha": 0.8, "beta": 1.5, "activation": name, **params})
        values = list(params.values())
        cases.add(f"ms_fused_conv_{name}", "FusedConv", lambda r: [f32(r, 1, 4, 6, 5), f32(r, 6, 2, 3, 3), f32(r, 6)],
                  {"group": 2, "pads": [1, 1, 1, 1], "strides": [2, 1], "activation": name, **({"activation_params": values} if values else {})})
    cases.add("ms_fused_gemm_open", "FusedGemm", lambda r: [f32(r, 4, 3), f32(r, 4, 5)], {"transA": 1, "activation": "Relu"})
    cases.add("ms_fused_conv_clip", "FusedConv", lambda r: [f32(r, 1, 2, 7), f32(r, 3, 2, 3)], {"activation": "Clip", "activation_params": [-0.5, 0.7]})
    cases.add("ms_fused_conv_add", "FusedConv", lambda r: [f32(r, 1, 2, 6, 6), f32(r, 3, 2, 3, 3), f32(r, 3), f32(r, 1, 3, 4, 4)], {"activation": "Relu"})


def few_bits(cases):
    for bits in (2, 4, 8):
        for block in (16, 32):
            for k in (32, 48):
                for zeros in ("none", "packed", "float"):
                    if bits == 8 and zeros == "float":  # refused by ONNX Runtime
                        continue
                    def inputs(r, bits=bits, block=block, k=k, zeros=zeros):
                        n, blocks = 5, -(-k // block)
                        xs = [f32(r, 2, 3, k), r.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
                              (r.random((n, blocks)) * 0.1 + 0.01).astype(np.float32)]
                        if zeros == "packed":
                            xs.append(r.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8))
                        if zeros == "float":
                            xs.append((r.random((n, blocks)) * (2 ** bits - 1)).astype(np.float32))
                        return xs
                    attrs = {"K": k, "N": 5, "bits": bits, "block_size": block}
                    cases.add(f"ms_matmul_{bits}_bits_{block}_{k}_{zeros}", "MatMulNBits", inputs, attrs)
    cases.add("ms_matmul_4_bits_bias", "MatMulNBits", lambda r: [f32(r, 4, 32), r.integers(0, 256, (3, 2, 8)).astype(np.uint8), f32(r, 3, 2), None, None, f32(r, 3)],
              {"K": 32, "N": 3, "bits": 4, "block_size": 16})
    cases.add("ms_matmul_4_bits_flat", "MatMulNBits", lambda r: [f32(r, 4, 32), r.integers(0, 256, (3, 2, 8)).astype(np.uint8), f32(r, 6), r.integers(0, 256, 3).astype(np.uint8)],
              {"K": 32, "N": 3, "bits": 4, "block_size": 16})
    for zeros in (False, True):
        for axis, shape in ((1, (6, 32)), (2, (5, 3, 32))):
            def inputs(r, zeros=zeros, shape=shape):
                packed, scales = (*shape[:-1], shape[-1] // 2), (*shape[:-1], shape[-1] // 16)
                xs = [r.integers(0, 256, packed).astype(np.uint8), r.integers(-shape[0], shape[0], (2, 3)), f32(r, *scales)]
                return xs + ([r.integers(0, 256, (*shape[:-1], shape[-1] // 32)).astype(np.uint8)] if zeros else [])
            cases.add(f"ms_gather_blocks_{len(shape)}_{int(zeros)}", "GatherBlockQuantized", inputs,
                      {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": axis})
    cases.add("ms_gather_blocks_8_bits", "GatherBlockQuantized",
              lambda r: [r.integers(0, 256, (6, 32)).astype(np.uint8), np.array([5, 0, -2]), f32(r, 6, 2)], {"bits": 8, "block_size": 16})


def quantised(cases):
    for kind in (np.uint8, np.int8):
        lo, hi, label = np.iinfo(kind).min, np.iinfo(kind).max, np.dtype(kind).name

        def data(r, *shape):
            return r.integers(lo, hi + 1, shape).astype(kind)

        def one(r):  # a scale and a zero point
            return [np.float32(r.random() * 0.1 + 0.01), r.integers(lo, hi + 1, ()).astype(kind)]
        for op, name in (("QLinearAdd", "add"), ("QLinearMul", "mul")):
            for a, b in (((3, 40), (3, 40)), ((2, 3, 5), (3, 1)), ((4, 1), (1, 6)), ((7,), ())):
                cases.add(f"ms_q_{name}_{label}_{len(a)}{len(b)}_{a[0]}", op, lambda r: [data(r, *a), *one(r), data(r, *b), *one(r), *one(r)])
            cases.add(f"ms_q_{name}_{label}_no_zeros", op,
                      lambda r: [data(r, 50), one(r)[0], None, data(r, 50), one(r)[0], None, one(r)[0]],
                      oracle=lambda a, sa, _, b, sb, *rest: [a, sa, kind(0), b, sb, kind(0), rest[1], kind(0)])
        every = np.arange(lo, hi + 1).astype(kind)
        cases.add(f"ms_q_sigmoid_{label}", "QLinearSigmoid", lambda r: [every, *one(r), np.float32(1 / 256), one(r)[1]])
        cases.add(f"ms_q_leaky_relu_{label}", "QLinearLeakyRelu", lambda r: [every, *one(r), *one(r)], {"alpha": 0.3})
        cases.add(f"ms_q_leaky_relu_{label}_default", "QLinearLeakyRelu", lambda r: [every.reshape(4, -1), *one(r), *one(r)])
        cases.add(f"ms_q_where_{label}", "QLinearWhere", lambda r: [r.random((4, 5)) > 0.5, data(r, 4, 5), *one(r), data(r, 5), *one(r), *one(r)])
        for axis in (0, 1, -1):
            cases.add(f"ms_q_concat_{label}_{axis % 3}", "QLinearConcat",
                      lambda r: [*one(r), *[x for n in (1, 3, 2) for x in (data(r, *[n if k == axis % 3 else 4 for k in range(3)]), *one(r))]], {"axis": axis})
        cases.add(f"ms_q_concat_{label}_single", "QLinearConcat", lambda r: [*one(r), data(r, 9), *one(r)], {"axis": 0})
        for opset in (12, 13):
            for axis in (1, -1):
                for fine in (False, True):
                    cases.add(f"ms_q_softmax_{label}_{opset}_{axis % 3}{int(fine)}", "QLinearSoftmax",
                              lambda r: [data(r, 3, 4, 5), *one(r), np.float32(1 / 256 if fine else 0.0073), np.array(lo, kind)],
                              {"axis": axis, "opset": opset})
        for last in (0, 1):
            shape = (2, 7, 6, 3) if last else (2, 3, 7, 6)
            cases.add(f"ms_q_global_pool_{label}_{last}", "QLinearGlobalAveragePool", lambda r: [data(r, *shape), *one(r), *one(r)], {"channels_last": last})
            for name, attrs in {"plain": {}, "pads": {"pads": [1, 0, 1, 1]}, "counted": {"pads": [1, 1, 1, 1], "count_include_pad": 1},
                                "strides": {"strides": [2, 3]}, "ceil": {"strides": [2, 2], "ceil_mode": 1},
                                "same": {"strides": [2, 2], "auto_pad": "SAME_UPPER"}}.items():
                cases.add(f"ms_q_pool_{label}_{last}_{name}", "QLinearAveragePool", lambda r: [data(r, *shape), *one(r), *one(r)],
                          {"kernel_shape": [3, 2], "channels_last": last, **attrs})
        for name, attrs in {"plain": {}, "pads": {"pads": [1, 0, 1, 1]}, "dilated": {"dilations": [2, 1], "strides": [1, 2]},
                            "ceil": {"strides": [2, 2], "ceil_mode": 1}}.items():
            cases.add(f"ms_nhwc_max_pool_{label}_{name}", "NhwcMaxPool", lambda r: [data(r, 2, 7, 6, 3)], {"kernel_shape": [3, 2], **attrs})
        for keep in (0, 1):
            def mean(x, sx, zx, sy, zy):
                m = ((x.astype(np.float64) - zx) * sx).mean((1, 2), keepdims=bool(keep))
                return [np.clip(np.rint(m / sy) + zy, lo, hi).astype(kind)]
            cases.add(f"ms_q_mean_{label}_{keep}", "QLinearReduceMean", lambda r: [data(r, 3, 4, 5), *one(r), *one(r)],
                      {"axes": [1, -1], "keepdims": keep}, expected=mean)
        # Rows of conversions.
        for axis in (None, 0, 1):
            n = 3 if axis == 0 else 4
            def inputs(r):
                if axis is None:
                    return [f32(r, 3, 4, scale=4), *one(r)]
                return [f32(r, 3, 4, scale=4), (r.random(n) * 0.1 + 0.01).astype(np.float32), data(r, n)]
            attrs = {} if axis is None else {"axis": axis}
            cases.add(f"ms_quantize_{label}_{axis}", "QuantizeLinear", inputs, attrs)
            cases.add(f"ms_dequantize_{label}_{axis}", "DequantizeLinear", lambda r: [data(r, 3, 4), *inputs(r)[1:]], attrs)
        # Products; ONNX Runtime wants the right side signed or both unsigned.
        for columns in (False, True):
            for bias in (False, True):
                def inputs(r, n=5, a=(2, 3, 7)):
                    scale = (r.random(n) * 0.1 + 0.01).astype(np.float32) if columns else np.float32(0.03)
                    zero = data(r, n) if columns else data(r)
                    return [r.integers(0, 256, a).astype(np.uint8), data(r, a[-1], n), np.float32(0.02), scale,
                            np.array(117, np.uint8), zero, *([f32(r, n)] if bias else [])]
                name = f"{label}_{int(columns)}{int(bias)}"
                cases.add(f"ms_matmul_integer_to_float_{name}", "MatMulIntegerToFloat", inputs)
                def dynamic(r):
                    _, b, _, scale, _, zero, *rest = inputs(r)
                    return [f32(r, 2, 3, 7), b, scale, zero, *rest]
                cases.add(f"ms_dynamic_quantize_matmul_{name}", "DynamicQuantizeMatMul", dynamic)
                def gemm(r, out=None):
                    a, b, sa, sb, za, zb, *_ = inputs(r, a=(3, 7))
                    c = r.integers(-900, 900, 5).astype(np.int32) if bias else None
                    xs = [a, sa, za, b, sb, zb, c, *(out or [])]
                    while xs[-1] is None:
                        xs.pop()
                    return xs
                cases.add(f"ms_q_gemm_{name}", "QGemm", gemm, {"alpha": 0.5})
                cases.add(f"ms_q_gemm_{name}_rounded", "QGemm", lambda r: gemm(r, [np.float32(0.4), np.array(100, np.uint8)]))
    cases.add("ms_matmul_integer_to_float_plain", "MatMulIntegerToFloat",
              lambda r: [r.integers(0, 256, (3, 4)).astype(np.uint8), r.integers(0, 256, (4, 5)).astype(np.uint8), np.float32(0.1), np.float32(0.2)])
    cases.add("ms_dynamic_quantize_matmul_positive", "DynamicQuantizeMatMul",
              lambda r: [np.abs(f32(r, 3, 4)), r.integers(-128, 128, (4, 5)).astype(np.int8), np.float32(0.2)])
    cases.add("ms_matmul_integer16", "MatMulInteger16", lambda r: [r.integers(-999, 999, (2, 3, 4)).astype(np.int16), r.integers(-999, 999, (4, 5)).astype(np.int16)])
    for last in (0, 1):
        def conv(r):
            x = r.integers(0, 256, (1, 4, 6, 5)).astype(np.uint8)
            return [np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x, np.float32(0.02), np.array(120, np.uint8),
                    r.integers(-128, 128, (6, 2, 3, 3)).astype(np.int8), (r.random(6) * 0.01 + 0.01).astype(np.float32), np.zeros(6, np.int8),
                    np.float32(0.1), np.array(128, np.uint8), r.integers(-500, 500, 6).astype(np.int32)]
        cases.add(f"ms_q_conv_{last}", "QLinearConv", conv, {"channels_last": last, "group": 2, "pads": [1, 0, 1, 1], "strides": [1, 2]})


def recurrent(cases):
    steps, b, i, h = 3, 2, 5, 4
    for kind in (np.uint8, np.int8):
        lo, hi = np.iinfo(kind).min, np.iinfo(kind).max
        for direction in ("forward", "reverse", "bidirectional"):
            for columns in (False, True):
                for rest in ("plain", "bias", "state", "all"):
                    def inputs(r):
                        d = 2 if direction == "bidirectional" else 1
                        shape = (d, 4 * h) if columns else (d,)
                        quant = lambda: [(r.random(shape) * 0.004 + 0.002).astype(np.float32), np.zeros(shape, kind)]  # ONNX Runtime takes no other zero point
                        state = rest in ("state", "all")
                        return [f32(r, steps, b, i), r.integers(lo, hi + 1, (d, i, 4 * h)).astype(kind), r.integers(lo, hi + 1, (d, h, 4 * h)).astype(kind),
                                f32(r, d, 8 * h) if rest in ("bias", "all") else None, None, f32(r, d, b, h) if state else None, f32(r, d, b, h) if state else None,
                                f32(r, d, 3 * h) if rest == "all" else None, *quant(), *quant()]
                    cases.add(f"ms_quantize_lstm_{np.dtype(kind).name}_{direction}_{int(columns)}_{rest}", "DynamicQuantizeLSTM", inputs,
                              {"hidden_size": h, "direction": direction}, outputs=(True, True, True))


def collect(cases):
    activations(cases)
    normalisations(cases)
    attention(cases)
    quantised_attention(cases)
    multi_head(cases)
    rotary(cases)
    group_query(cases)
    products(cases)
    few_bits(cases)
    quantised(cases)
    recurrent(cases)
