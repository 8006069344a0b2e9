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
        cases.add(f"ms_gelu_{label}", "Gelu", lambda r: [f32(r, *shape, scale=2)])
        cases.add(f"ms_quick_gelu_{label}", "QuickGelu", lambda r: [f32(r, *shape, scale=2)], {"alpha": 1.3})
        # Moderate inputs: far below zero ONNX Runtime's tanh has lost the digits that 1 + tanh(x) cancels.
        cases.add(f"ms_fast_gelu_{label}", "FastGelu", lambda r: [np.maximum(f32(r, *shape), -2)])
        cases.add(f"ms_fast_gelu_bias_{label}", "FastGelu", lambda r: [np.maximum(f32(r, *shape), -1), np.maximum(f32(r, shape[-1]), -1)])
        cases.add(f"ms_bias_gelu_{label}", "BiasGelu", lambda r: [f32(r, *shape, scale=2), f32(r, shape[-1])])
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


def collect(cases):
    activations(cases)
    normalisations(cases)
    attention(cases)
    multi_head(cases)
    rotary(cases)
    group_query(cases)
