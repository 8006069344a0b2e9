"""Language models of transformers: encoders, decoders with and without a cache, encoder-decoders."""
from registry import Example, add

SMALL = dict(vocab_size=320, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
CACHE_LAYERS = 2


def tokens(module, call, mask=True, length=12, other=7):
    import torch

    def draw(batch, sequence):
        inputs = {"input_ids": torch.randint(3, 300, (batch, sequence))}
        if mask:
            inputs["attention_mask"] = torch.ones(batch, sequence, dtype=torch.int64)
            if batch > 1:
                inputs["attention_mask"][1, sequence - 2:] = 0
        return inputs
    axes = {0: "batch", 1: "sequence"}
    return Example(module.eval(), draw, [{"batch": 1, "sequence": length}, {"batch": 2, "sequence": other}],
                   {"input_ids": axes, "attention_mask": axes} if mask else {"input_ids": axes}, call)


def made(kind, config, options):
    import transformers
    return getattr(transformers, kind)(getattr(transformers, config)(**options))


def encoder(kind, config, mask=True, **options):
    def make():
        module = made(kind, config, {**SMALL, "attn_implementation": "eager", **options})
        if mask:
            return tokens(module, lambda m, ids, mask: m(input_ids=ids, attention_mask=mask)[0])
        return tokens(module, lambda m, ids: m(input_ids=ids)[0], mask=False)
    return make


def decoder(kind, config, mask=True, **options):
    """All logits, no cache."""
    def make():
        module = made(kind, config, {**SMALL, "attn_implementation": "eager", **options, "use_cache": False})
        if mask:
            return tokens(module, lambda m, ids, mask: m(input_ids=ids, attention_mask=mask, use_cache=False).logits)
        return tokens(module, lambda m, ids: m(input_ids=ids, use_cache=False).logits, mask=False)
    return make


def cached(kind, config, heads, head_size, **options):
    """One step with keys and values of before in, all of them out."""
    def make():
        import torch
        from transformers import DynamicCache
        module = made(kind, config, {**SMALL, "attn_implementation": "eager", **options})

        def draw(batch, sequence, past):
            inputs = {"input_ids": torch.randint(3, 300, (batch, sequence)), "attention_mask": torch.ones(batch, past + sequence, dtype=torch.int64)}
            for layer in range(CACHE_LAYERS):
                for part in ("key", "value"):
                    inputs[f"past_{layer}_{part}"] = torch.randn(batch, heads, past, head_size)
            return inputs

        def call(m, ids, mask, *past):
            cache = DynamicCache()
            for layer in range(CACHE_LAYERS):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            out = m(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
            return [out.logits, *[t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]]
        free = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "total"}}
        free.update({f"past_{layer}_{part}": {0: "batch", 2: "past"} for layer in range(CACHE_LAYERS) for part in ("key", "value")})
        return Example(module.eval(), draw, [{"batch": 2, "sequence": 3, "past": 5}, {"batch": 1, "sequence": 1, "past": 9}], free, call)
    return make


def pairs(kind, config, **options):
    """Encoder and decoder at once."""
    def make():
        import torch
        module = made(kind, config, {"attn_implementation": "eager", **options, "use_cache": False})

        def draw(batch, source, target):
            return {"input_ids": torch.randint(3, 300, (batch, source)), "decoder_input_ids": torch.randint(3, 300, (batch, target))}
        return Example(module.eval(), draw, [{"batch": 1, "source": 9, "target": 4}, {"batch": 2, "source": 5, "target": 6}],
                       {"input_ids": {0: "batch", 1: "source"}, "decoder_input_ids": {0: "batch", 1: "target"}},
                       lambda m, ids, answer: m(input_ids=ids, decoder_input_ids=answer, use_cache=False).logits)
    return make


def sentence():
    """A sentence transformer: an encoder, the mean over the words of the mask, length one."""
    import torch
    bert = made("BertModel", "BertConfig", {**SMALL, "attn_implementation": "eager"})

    def call(m, ids, mask):
        words, weights = m(input_ids=ids, attention_mask=mask)[0], mask[..., None].float()
        return torch.nn.functional.normalize((words * weights).sum(1) / weights.sum(1).clamp(min=1e-9), dim=1)
    return tokens(bert, call)


GQA = {"num_key_value_heads": 2}
ENCODERS = [
    ("bert", "BertModel", "BertConfig", {}, "ts.free dynamo.free ts.free.f16 ts.bf16 ts.free.dynamic ts.free.qdq"),
    ("roberta", "RobertaForSequenceClassification", "RobertaConfig", {"max_position_embeddings": 64}, "ts.free dynamo.free"),
    ("distilbert", "DistilBertForTokenClassification", "DistilBertConfig", {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}, "ts.free dynamo.free ts.free.dynamic"),
    ("albert", "AlbertModel", "AlbertConfig", {"embedding_size": 32}, "ts.free dynamo.free"),
    ("electra", "ElectraModel", "ElectraConfig", {"embedding_size": 32}, "ts.free"),
    ("deberta", "DebertaV2Model", "DebertaV2Config", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_position_embeddings": 64}, "ts.free dynamo"),
    ("mpnet", "MPNetModel", "MPNetConfig", {}, "ts.free"),
    ("mobilebert", "MobileBertModel", "MobileBertConfig", {"embedding_size": 32, "intra_bottleneck_size": 32}, "ts.free"),
    ("squeezebert", "SqueezeBertModel", "SqueezeBertConfig", {"embedding_size": 64}, "ts.free"),
    ("layoutlm", "LayoutLMModel", "LayoutLMConfig", {}, "ts.free"),
    ("modernbert", "ModernBertModel", "ModernBertConfig", {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}, "dynamo"),
]
for name, kind, config, options, forms in ENCODERS:
    add("language", name, name, encoder(kind, config, **options), forms)
add("language", "fnet", "fnet", encoder("FNetModel", "FNetConfig", mask=False), "dynamo")
add("language", "sentence transformer", "sentence_bert", sentence, "ts.free dynamo.free ts.free.dynamic")

DECODERS = [
    ("gpt2", "GPT2LMHeadModel", "GPT2Config", {"n_positions": 64}, "ts.free dynamo.free"),
    ("llama", "LlamaForCausalLM", "LlamaConfig", GQA, "ts.free dynamo.free ts.f16 dynamo.bf16"),
    ("mistral", "MistralForCausalLM", "MistralConfig", GQA | {"sliding_window": 8}, "ts.free"),
    ("qwen2", "Qwen2ForCausalLM", "Qwen2Config", GQA, "ts.free dynamo.free"),
    ("phi", "PhiForCausalLM", "PhiConfig", {}, "dynamo.free"),
    ("gemma2", "Gemma2ForCausalLM", "Gemma2Config", GQA | {"head_dim": 16}, "dynamo.free"),
    ("mpt", "MptForCausalLM", "MptConfig", {"d_model": 64, "n_heads": 4, "n_layers": 2}, "ts"),
    ("falcon", "FalconForCausalLM", "FalconConfig", {"alibi": False}, "ts.free"),
    ("opt", "OPTForCausalLM", "OPTConfig", {"ffn_dim": 128, "word_embed_proj_dim": 64, "max_position_embeddings": 64}, "ts.free"),
    ("bloom", "BloomForCausalLM", "BloomConfig", {"n_layer": 2, "n_head": 4}, "ts.free"),
    ("gpt-neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", {}, "dynamo.free"),
    ("gpt-j", "GPTJForCausalLM", "GPTJConfig", {"n_embd": 64, "n_layer": 2, "n_head": 4, "rotary_dim": 8, "n_positions": 64}, "ts.free"),
    ("stablelm", "StableLmForCausalLM", "StableLmConfig", {}, "ts.free"),
    ("mixtral", "MixtralForCausalLM", "MixtralConfig", GQA | {"num_local_experts": 4}, "dynamo"),
    ("qwen3", "Qwen3ForCausalLM", "Qwen3Config", GQA | {"head_dim": 16}, "dynamo.free"),
    ("mamba", "MambaForCausalLM", "MambaConfig", {"state_size": 8}, "ts dynamo"),
]
for name, kind, config, options, forms in DECODERS:
    add("language", name, name, decoder(kind, config, **options), forms)
add("language", "rwkv", "rwkv", decoder("RwkvForCausalLM", "RwkvConfig", mask=False, attention_hidden_size=64), "ts")

add("language", "gpt2", "gpt2_cache", cached("GPT2LMHeadModel", "GPT2Config", 4, 16, n_positions=64), "ts.free dynamo.free")
add("language", "llama", "llama_cache", cached("LlamaForCausalLM", "LlamaConfig", 2, 16, **GQA), "ts.free dynamo.free")
add("language", "qwen2", "qwen2_cache", cached("Qwen2ForCausalLM", "Qwen2Config", 2, 16, **GQA), "ts.free")
add("language", "t5", "t5", pairs("T5ForConditionalGeneration", "T5Config", vocab_size=320, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4), "ts.free dynamo.free")
add("language", "bart", "bart", pairs("BartForConditionalGeneration", "BartConfig", vocab_size=320, d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                                      decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=64), "ts.free dynamo.free")
