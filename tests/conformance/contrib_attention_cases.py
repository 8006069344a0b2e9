"""Forms of the attentions of com.microsoft beside those of contrib_cases.py: shared buffers, beams, rotation, packed and 4D
forms, linear attention. NumPy's formula where ONNX Runtime has no kernel on the CPU for a form."""
import numpy as np

from contrib_cases import f32, mask_of


def trimmed(make):
    def inputs(r):
        xs = make(r)
        while xs[-1] is None:
            xs.pop()
        return xs
    return inputs


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v, add=0.0, scale=None):
    """[b, h, s, c], [b, h, t, c], [b, h, t, v] to [b, s, h*v]."""
    scores = q @ k.swapaxes(-1, -2) * (scale or 1 / np.sqrt(q.shape[-1])) + add
    y = softmax(scores.astype(np.float64)) @ v
    return y.swapaxes(1, 2).reshape(q.shape[0], q.shape[2], -1).astype(np.float32)


def heads(x, h):
    return x.reshape(*x.shape[:2], h, -1).swapaxes(1, 2)


def rotated(x, first, turning):
    """[b, h, s, c] by angles of base 10000, halves paired."""
    half, y = turning // 2, x.copy()
    angle = (first + np.arange(x.shape[2]))[:, None] / 10000.0 ** (2 * np.arange(half) / turning)
    a, b = x[..., :half], x[..., half:turning]
    y[..., :half], y[..., half:turning] = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
    return y.astype(np.float32)


def attention(cases):
    b, s, h, c, i, places = 2, 3, 2, 4, 6, 8
    e = 3 * h * c

    def base(r):
        return [f32(r, b, s, i), f32(r, i, e), f32(r, e)]

    def parts(x, w, bias):
        return [heads(part, h) for part in np.split(x @ w + bias, 3, -1)]

    # Lengths with offsets of packed rows behind them.
    cases.add("ms_attention_offsets", "Attention", lambda r: base(r) + [np.array([2, 3, 0, 3, 6, 0, 3, 6], np.int32)], {"num_heads": h})
    for past in (0, 3, 5):
        for causal in (0, 1):
            for mask in (False, True):
                def shared(r):
                    return base(r) + [mask_of(r, b, past + s) if mask else None, f32(r, 2, b, h, places, c), None, np.array(past, np.int32)]

                def expected(x, w, bias, mask, kv, _, length):
                    q, k, v = parts(x, w, bias)
                    p, t = int(length), int(length) + s
                    present = kv.copy()
                    present[0, :, :, p:t], present[1, :, :, p:t] = k, v
                    add = np.zeros((b, 1, s, t), np.float32)
                    if mask is not None:
                        add += np.where(mask > 0, 0, -10000.0)[:, None, None]
                    if causal:
                        add = np.where(np.arange(t) > p + np.arange(s)[:, None], -3e38, add)
                    return [attend(q, present[0, :, :, :t], present[1, :, :, :t], add), present]
                cases.add(f"ms_attention_shared_{past}_{causal}{int(mask)}", "Attention", shared,
                          {"num_heads": h, "unidirectional": causal, "past_present_share_buffer": 1}, outputs=(True, True), expected=expected)
    # Masks of all positions: [b, 1, places, places].
    for past in (0, 2):
        def cube(r):
            m = mask_of(r, b, 1, places, places)
            return base(r) + [m] + ([f32(r, 2, b, h, past, c)] if past else [])

        def expected(x, w, bias, m, kv=None):
            q, k, v = parts(x, w, bias)
            if kv is not None:
                k, v = np.concatenate([kv[0], k], 2), np.concatenate([kv[1], v], 2)
            return [attend(q, k, v, np.where(m[:, :, past:past + s, :past + s] > 0, 0, -10000.0)), np.stack([k, v])]
        cases.add(f"ms_attention_places_{past}", "Attention", cube, {"num_heads": h}, outputs=(True, True), expected=expected)
    for past in (0, 2):
        for turning in (0, 2):
            def expected(x, w, bias, _=None, kv=None):
                q, k, v = parts(x, w, bias)
                q, k = rotated(q, past, turning or c), rotated(k, past, turning or c)
                if kv is not None:
                    k, v = np.concatenate([kv[0], k], 2), np.concatenate([kv[1], v], 2)
                add = np.where(np.arange(past + s) > past + np.arange(s)[:, None], -3e38, 0)
                return [attend(q, k, v, add), np.stack([k, v])]
            cases.add(f"ms_attention_rotary_{past}_{turning}", "Attention",
                      lambda r: base(r) + ([None, f32(r, 2, b, h, past, c)] if past else []),
                      {"num_heads": h, "unidirectional": 1, "do_rotary": 1, **({"rotary_embedding_dim": turning} if turning else {})},
                      outputs=(True, True), expected=expected)


def multi_head(cases):
    b, s, l, h, c, places = 2, 3, 4, 2, 4, 8
    hidden = h * c

    def add(name, inputs, attrs=None, outputs=(True,), **more):
        cases.add("ms_multi_head_" + name, "MultiHeadAttention", trimmed(inputs), {"num_heads": h, **(attrs or {})}, outputs, **more)
    for bias in (False, True):
        tail = "_bias" if bias else ""

        def qkv(x, _k=None, _v=None, shift=None):
            q, k, w = (x[:, :, :, j].swapaxes(1, 2) for j in range(3))
            if shift is not None:
                q, k, w = (z + part.reshape(h, 1, c) for z, part in zip((q, k, w), np.split(shift, 3)))
            return [attend(q, k, w)]
        add("packed_all" + tail, lambda r: [f32(r, b, s, h, 3, c), None, None, f32(r, 3 * hidden) if bias else None], expected=qkv)

        def kv(x, pair, _v=None, shift=None):
            q, k, w = heads(x, h), pair[:, :, :, 0].swapaxes(1, 2), pair[:, :, :, 1].swapaxes(1, 2)
            if shift is not None:
                q, k, w = (z + part.reshape(h, 1, c) for z, part in zip((q, k, w), np.split(shift, 3)))
            return [attend(q, k, w)]
        add("packed_pairs" + tail, lambda r: [f32(r, b, s, hidden), f32(r, b, l, h, 2, c), None, f32(r, 3 * hidden) if bias else None], expected=kv)
    for past in (0, 1, 5):
        for length in (1, 3):
            for causal in (0, 1):
                def shared(r):
                    return [f32(r, b, length, hidden), f32(r, b, length, hidden), f32(r, b, length, hidden), f32(r, 3 * hidden), None,
                            f32(r, b, h, length, past + length), f32(r, b, h, places, c), f32(r, b, h, places, c), np.array([past], np.int32)]
                add(f"shared_{past}_{length}_{causal}", shared, {"unidirectional": causal}, outputs=(True, True, True))
    # Beams: row k of a group took each place from the row that the table names. ONNX Runtime's kernel reads no table.
    groups, beams, past = 2, 3, 4

    def rows(r):
        n = groups * beams
        table = r.integers(0, beams, (groups, beams, places)).astype(np.int32)
        return [f32(r, n, 1, hidden), f32(r, n, 1, hidden), f32(r, n, 1, hidden), f32(r, n, h, places, c), f32(r, n, h, places, c), table]

    def chosen(q, k, w, pk, pv, table):
        n = groups * beams
        source = np.arange(n)[:, None] // beams * beams + table.reshape(n, places)[:, :past]
        old = lambda buffer: np.stack([buffer[source[row], :, np.arange(past)].swapaxes(0, 1) for row in range(n)])
        k, w = heads(k, h), heads(w, h)
        y = attend(heads(q, h), np.concatenate([old(pk), k], 2), np.concatenate([old(pv), w], 2))
        pk, pv = pk.copy(), pv.copy()
        pk[:, :, past:past + 1], pv[:, :, past:past + 1] = k, w
        return [y, pk, pv]
    at = np.array([past], np.int32)
    add("beams", lambda r: (lambda x: x[:3] + [None, None, None, x[3], x[4], at, x[5]])(rows(r)), outputs=(True, True, True),
        expected=lambda q, k, w, _b, _m, _e, pk, pv, _p, table: chosen(q, k, w, pk, pv, table))
    cases.add("ms_decoder_masked_beams", "DecoderMaskedMultiHeadAttention",
              lambda r: (lambda x: x[:3] + [None, None, x[3], x[4], at, np.array([beams], np.int32), x[5]])(rows(r)),
              {"num_heads": h, "past_present_share_buffer": 1}, outputs=(True, True, True),
              expected=lambda q, k, w, _m, _e, pk, pv, _p, _w, table: chosen(q, k, w, pk, pv, table))


def decoder_masked(cases):
    b, h, c, places, l = 2, 2, 4, 8, 5
    hidden = h * c

    def add(name, inputs, attrs=None, outputs=(True, True, True), **more):
        cases.add("ms_decoder_masked_" + name, "DecoderMaskedMultiHeadAttention", trimmed(inputs), {"num_heads": h, **(attrs or {})}, outputs, **more)
    for past in (0, 3, 7):
        for mask in (False, True):
            for bias in (False, True):
                for extra in (False, True):
                    def inputs(r):
                        return [f32(r, b, 1, hidden), f32(r, b, 1, hidden), f32(r, b, 1, hidden), mask_of(r, b, past + 1) if mask else None,
                                f32(r, b, h, 1, past + 1) if extra else None, f32(r, b, h, places, c), f32(r, b, h, places, c), np.array([past], np.int32),
                                None, None, f32(r, 3 * hidden) if bias else None]
                    add(f"{past}_{int(mask)}{int(bias)}{int(extra)}", inputs, {"past_present_share_buffer": 1})
    for mask in (False, True):
        add(f"cross_{int(mask)}", lambda r: [f32(r, b, 1, hidden), f32(r, b, h, l, c), f32(r, b, h, l, c), mask_of(r, b, l) if mask else None],
            {"mask_filter_value": -5000.0, "scale": 0.4}, outputs=(True,))


def embeddings(cases):
    b, s, h, c, table = 2, 3, 2, 8, 12

    def tables(r, width):
        angles = r.random((table, width)) * 6
        return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    for form in ("flat", "apart"):
        shape = (b, s, h * c) if form == "flat" else (b, h, s, c)
        for interleaved in (0, 1):
            for part in (0, 4):
                for at in ("offset", "each"):
                    def inputs(r):
                        place = np.array([4]) if at == "offset" else r.integers(0, table, (b, s))
                        return [f32(r, *shape), place, *tables(r, (part or c) // 2)]
                    attrs = {"interleaved": interleaved, "scale": 2.0, **({"rotary_embedding_dim": part, "num_heads": h} if part else {})}
                    cases.add(f"ms_rotary_forms_{form}_{interleaved}{part}_{at}", "RotaryEmbedding", inputs, attrs)
                    if at == "each":
                        cases.add(f"ms_rotary_forms_{form}_{interleaved}{part}_packed", "RotaryEmbedding", inputs, {**attrs, "is_packed_batching": 1})
    for layout in (0, 1):
        for interleaved in (0, 1):
            for form, shape in (("flat", (b, s, h * c)), ("apart", (b, h, s, c))):
                for part in (0, 6):
                    half = (part or c) // 2
                    section = [half - 2, 1, 1]
                    cases.add(f"ms_m_rotary_{form}_{layout}{interleaved}{part}", "MRotaryEmbedding",
                              lambda r: [f32(r, *shape), r.integers(0, table, (3, b, s)), *tables(r, half)],
                              {"mrope_section": section, "mrope_layout": layout, "interleaved": interleaved, "num_heads": h,
                               **({"rotary_embedding_dim": part} if part else {})})


def fading(q, k, v, past, decay, beta, window):
    """gated_delta step by step, the states after the last `window` steps kept."""
    b, s, _, h = *q.shape[:2], 0, past.shape[2]
    state, states, ys = past[-1].astype(np.float64), [], []
    split = lambda x, t: x[:, t].reshape(b, h, -1).astype(np.float64)
    for t in range(s):
        qt, kt, vt = split(q, t), split(k, t), split(v, t)
        state = state * np.exp(split(decay, t))[..., None]
        state = state + (split(beta, t) * kt)[..., None] * (vt - np.einsum("bhde,bhd->bhe", state, kt))[:, :, None]
        states.append(state)
        ys.append((np.einsum("bhde,bhd->bhe", state, qt) / np.sqrt(qt.shape[-1])).reshape(b, -1))
    kept = [np.zeros_like(state)] * max(0, window - s) + states[max(0, s - window):]
    return [np.stack(ys, 1).astype(np.float32), np.stack(kept).astype(np.float32)]


def looking_back(x, w, bias, past):
    window, n, k = len(past), x.shape[2], w.shape[2]
    every = np.concatenate([past[-1], x], 2)
    y = bias[:, None] + sum(every[:, :, j:j + n] * w[:, 0, j, None] for j in range(k))
    kept = [every[:, :, n - window + j + 1:n - window + j + k] if n - window + j >= 0 else np.zeros_like(past[0]) for j in range(window)]
    return [y.astype(np.float32), np.stack(kept)]


def linear(cases):
    b, s, d, e = 2, 5, 4, 6
    for rule in ("linear", "gated", "delta", "gated_delta"):
        for hq, hk in ((2, 2), (4, 2), (2, 4)):
            for past in (False, True):
                for wide in (False, True):
                    if wide and "gated" not in rule:
                        continue
                    def inputs(r):
                        k = f32(r, b, s, hk * d)
                        k = (k.reshape(b, s, hk, d) / np.linalg.norm(k.reshape(b, s, hk, d), axis=-1, keepdims=True)).reshape(b, s, hk * d)
                        return [f32(r, b, s, hq * d), k.astype(np.float32), f32(r, b, s, hk * e), f32(r, b, hk, d, e) if past else None,
                                -np.abs(f32(r, b, s, hk * (d if wide else 1))) if "gated" in rule else None,
                                r.random((b, s, hk if not wide else 1)).astype(np.float32) if "delta" in rule else None]
                    cases.add(f"ms_linear_attention_{rule}_{hq}{hk}_{int(past)}{int(wide)}", "LinearAttention", trimmed(inputs),
                              {"q_num_heads": hq, "kv_num_heads": hk, "update_rule": rule, **({"scale": 0.7} if past else {})}, outputs=(True, True))
    for window in (1, 3, 7):
        cases.add(f"ms_linear_attention_window_{window}", "LinearAttention",
                  lambda r: [f32(r, b, s, 2 * d), f32(r, b, s, 2 * d, scale=0.4), f32(r, b, s, 2 * e), f32(r, window, b, 2, d, e), -np.abs(f32(r, b, s, 2)),
                             r.random((b, s, 2)).astype(np.float32)], {"q_num_heads": 2, "kv_num_heads": 2, "state_window": window}, outputs=(True, True),
                  expected=lambda *x: fading(*x, window))  # no window on the CPU
    for bias in (False, True):
        for past in (False, True):
            for activation in ("none", "silu", "swish"):
                for dilation in (1, 2):
                    for last in (0, 1):
                        c, k, n = 3, 4, 6
                        state = (k - 1) * dilation
                        shape, kept = ((b, n, c), (b, state, c)) if last else ((b, c, n), (b, c, state))
                        cases.add(f"ms_causal_conv_{int(bias)}{int(past)}_{activation}_{dilation}{last}", "CausalConvWithState",
                                  trimmed(lambda r: [f32(r, *shape), f32(r, c, 1, k), f32(r, c) if bias else None, f32(r, *kept) if past else None]),
                                  {"activation": activation, "dilation": dilation, "channels_last": last}, outputs=(True, True))
    for length in (1, 2, 8):  # a sequence shorter than what is kept
        cases.add(f"ms_causal_conv_length_{length}", "CausalConvWithState", lambda r: [f32(r, b, 3, length), f32(r, 3, 1, 4), f32(r, 3), f32(r, b, 3, 3)],
                  outputs=(True, True))
    for window in (1, 3, 8):
        cases.add(f"ms_causal_conv_window_{window}", "CausalConvWithState",
                  lambda r: [f32(r, b, 3, 4), f32(r, 3, 1, 3), f32(r, 3), f32(r, window, b, 3, 2)], {"state_window": window}, outputs=(True, True), expected=looking_back)
    for gate in (False, True):
        cases.add(f"ms_linear_attention_gate_{int(gate)}", "LinearAttentionGate",
                  trimmed(lambda r: [f32(r, b, s, 3, scale=3), f32(r, 3), -np.abs(f32(r, 3)), f32(r, b, s, 3) if gate else None]),
                  outputs=(True, True) if gate else (True,))


def branches(cases):
    b, s, c, h = 2, 3, 3, 4

    def add(name, op, *args, **more):
        cases.add("ms_branch_" + name, op, *args, **more)
    for activation in ("silu", "swish", "sigmoid"):
        add(f"gated_norm_{activation}", "GatedRMSNorm", lambda r: [f32(r, b, s, c * h), f32(r, h), f32(r, b, s, c * h)], {"activation": activation, "epsilon": 1e-3})
    add("gated_norm_flat", "GatedRMSNorm", lambda r: [f32(r, 5, h), f32(r, h), f32(r, 5, h)])
    add("gated_add", "GatedAdd", lambda r: [f32(r, b, s, h), f32(r, b, s, h), f32(r, b, s, 1)])
    add("scaled_silu", "ScaledSiLU", lambda r: [f32(r, b, s, h)], {"alpha": 1.7})
    add("scaled_silu_input", "ScaledSiLU", lambda r: [f32(r, b, s, h), np.float32(0.3)], {"alpha": 1.7})
    for flat in (0, c):
        x = (b, s, c * h) if flat else (b, s, c, h)
        attrs = {"num_branches": flat} if flat else {}
        for name, scale in (("none", None), ("last", (h,)), ("all", (c * h,)), ("both", (c, h))):
            add(f"norm_{name}_{flat}", "BranchwiseRMSNorm", trimmed(lambda r: [f32(r, *x), f32(r, *scale) if scale else None]), attrs)
        mixes = {"branch": (b, s, c), "one": (b, s, c, 1), "each": (b, s, c, h)}
        if flat:
            mixes["flat"] = (b, s, c * h)
        for name, mix in mixes.items():
            add(f"pre_{name}_{flat}", "HyperConnectionPreMix", lambda r: [f32(r, *x), f32(r, *mix)], {**attrs, "reduction_scale": 0.6})
            if name != "flat":
                for whole in (False, True):
                    add(f"post_{name}_{flat}_{int(whole)}", "HyperConnectionPostMix",
                        trimmed(lambda r: [f32(r, *x), f32(r, b, s, h), f32(r, *mix), f32(r, b, s, c, c) if whole else None]), attrs)
    for normed in (False, True):
        add(f"engram_{int(normed)}", "EngramGate",
            trimmed(lambda r: [f32(r, b, s, c, h), f32(r, b, s, c, h), f32(r, b, s, h), f32(r, c, h), f32(r, c, h), f32(r, c, h) if normed else None]),
            outputs=(True, True) if normed else (True,))


def caches(cases):
    """GroupQueryAttention with caches that are quantised, or hold a window."""
    h, g, c, places = 4, 2, 16, 8

    def tables(r):
        angles = r.random((32, c // 2)) * 6
        return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    for bits in (8, 4):
        for how in ("PER_TENSOR", "PER_CHANNEL"):
            for name, b, s, total in (("prompt", 1, 5, 5), ("step", 2, 1, 6), ("chunk", 1, 3, 7)):
                for variant, attrs in (("plain", {}), ("rotary", {"do_rotary": 1}), ("window", {"local_window_size": 3}), ("capped", {"softcap": 3.0})):
                    def inputs(r):
                        width = c if bits == 8 else c // 2
                        cache = lambda: r.integers(-128, 128, (b, g, places, width)).astype(np.int8) if bits == 8 else r.integers(0, 256, (b, g, places, width)).astype(np.uint8)
                        scale = lambda: np.array([0.02 if bits == 8 else 0.3], np.float32) if how == "PER_TENSOR" else ((r.random((1, g, 1, c)) + 0.5) * (0.02 if bits == 8 else 0.3)).astype(np.float32)
                        rotary = tables(r) if variant == "rotary" else [None, None]
                        return [f32(r, b, s, h * c), f32(r, b, s, g * c), f32(r, b, s, g * c), cache(), cache(), np.full(b, total - 1, np.int32), np.array(total, np.int32),
                                *rotary, None, None, None, scale(), scale()]
                    cases.add(f"ms_group_query_bits_{bits}_{how}_{name}_{variant}", "GroupQueryAttention", inputs,
                              {"num_heads": h, "kv_num_heads": g, "k_quant_type": how, "v_quant_type": how, "kv_cache_bit_width": bits, **attrs}, outputs=(True, True, True))
    for places, window in ((4, 4), (6, 4), (9, 4), (5, 1)):
        for name, b, s, totals in (("prompt", 1, 3, [3]), ("long_prompt", 1, 12, [12]), ("step", 2, 1, [9, 5]), ("full", 1, 1, [places + 1]), ("chunk", 1, 5, [13])):
            for variant in ("plain", "rotary", "extra", "sink", "packed"):
                def inputs(r):
                    rotary = tables(r) if variant == "rotary" else [None, None]
                    extra = f32(r, b, h, s, max(totals)) if variant == "extra" else None
                    qkv = [f32(r, b, s, h * c), f32(r, b, s, g * c), f32(r, b, s, g * c)]
                    if variant == "packed":
                        qkv = [np.concatenate(qkv, -1), None, None]
                    return [*qkv, f32(r, b, g, places, c), f32(r, b, g, places, c), np.array(totals, np.int32) - 1, np.array(max(totals), np.int32), *rotary, None, extra,
                            f32(r, h) if variant == "sink" else None]
                attrs = {"num_heads": h, "kv_num_heads": g, "local_window_size": window, "sliding_window_cache": 1, **({"do_rotary": 1} if variant == "rotary" else {})}

                def held(*xs):  # rows behind those that are held are unspecified: zeros here
                    import contrib
                    case = contrib.Case("window", "com.microsoft", "GroupQueryAttention", list(xs), attrs, (True, True, True))
                    y, keys, values = case.run(case.inputs)
                    for row, total in enumerate(totals):
                        step = places - window + 1
                        count = total if total <= places else total - step * -(-(total - places) // step)
                        keys[row, :, count:], values[row, :, count:] = 0, 0
                    return [y, keys, values]
                cases.add(f"ms_group_query_window_{places}{window}_{name}_{variant}", "GroupQueryAttention", trimmed(inputs), attrs, outputs=(True, True, True), expected=held)


def collect(cases):
    caches(cases)
    branches(cases)
    attention(cases)
    multi_head(cases)
    decoder_masked(cases)
    embeddings(cases)
    linear(cases)
