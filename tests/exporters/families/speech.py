"""Sound: recognition, codecs, vocoders, voice activity."""
from registry import Example, add

SMALL = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, attn_implementation="eager")
WAVES = dict(conv_dim=(32, 32, 32), conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, vocab_size=32)


def waves(kind, config, **options):
    def make():
        import torch
        import transformers
        module = getattr(transformers, kind)(getattr(transformers, config)(**SMALL | WAVES | options)).eval()
        return Example(module, lambda batch, samples: {"input_values": torch.randn(batch, samples)}, [{"batch": 1, "samples": 1600}, {"batch": 2, "samples": 2400}],
                       {"input_values": {0: "batch", 1: "samples"}}, lambda m, x: m(x)[0])
    return make


def whisper(part):
    def make():
        import torch
        from transformers import WhisperConfig, WhisperForConditionalGeneration
        module = WhisperForConditionalGeneration(WhisperConfig(vocab_size=320, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                                                               encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=100, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                                               decoder_start_token_id=1, attn_implementation="eager")).eval()
        if part == "encoder":
            return Example(module, lambda batch: {"mel": torch.randn(batch, 80, 200)}, [{"batch": 1}, {"batch": 2}], {"mel": {0: "batch"}},
                           lambda m, mel: m.model.encoder(mel)[0])
        return Example(module, lambda batch, tokens: {"ids": torch.randint(3, 300, (batch, tokens)), "heard": torch.randn(batch, 100, 64)},
                       [{"batch": 1, "tokens": 6}, {"batch": 2, "tokens": 3}], {"ids": {0: "batch", 1: "tokens"}, "heard": {0: "batch"}},
                       lambda m, ids, heard: m.proj_out(m.model.decoder(input_ids=ids, encoder_hidden_states=heard, use_cache=False)[0]))
    return make


def encodec(part):
    def make():
        import torch
        from transformers import EncodecConfig, EncodecModel
        module = EncodecModel(EncodecConfig(num_filters=8, hidden_size=32, num_lstm_layers=1, codebook_size=64, upsampling_ratios=[4, 4, 2])).eval()
        if part == "encoder":
            return Example(module, lambda samples: {"sound": torch.randn(1, 1, samples)}, [{"samples": 1280}, {"samples": 1280}], {}, lambda m, x: m.encoder(x))
        return Example(module, lambda frames: {"codes": torch.randn(1, 32, frames)}, [{"frames": 40}, {"frames": 24}], {"codes": {2: "frames"}}, lambda m, x: m.decoder(x))
    return make


def hifi_gan():
    import torch
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig
    module = SpeechT5HifiGan(SpeechT5HifiGanConfig(model_in_dim=20, upsample_initial_channel=64, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8],
                                                   resblock_kernel_sizes=[3, 5], resblock_dilation_sizes=[[1, 3], [1, 3]], normalize_before=False)).eval()
    return Example(module, lambda batch, frames: {"mel": torch.randn(batch, frames, 20)}, [{"batch": 1, "frames": 20}, {"batch": 2, "frames": 12}],
                   {"mel": {0: "batch", 1: "frames"}})


def vad():
    """Voice activity as Silero's: a learnt short-time transform, convolutions, an LSTM with its state outside."""
    import torch
    from torch import nn

    class Vad(nn.Module):
        def __init__(self):
            super().__init__()
            self.basis = nn.Conv1d(1, 130, 128, 64, bias=False)
            self.encoder = nn.Sequential(nn.Conv1d(65, 64, 3, padding=1), nn.ReLU(), nn.Conv1d(64, 64, 3, 2, 1), nn.ReLU())
            self.cell = nn.LSTM(64, 64, batch_first=True)
            self.last = nn.Linear(64, 1)

        def forward(self, sound, h, c):
            re, im = self.basis(nn.functional.pad(sound[:, None], (0, 64), mode="reflect")).chunk(2, 1)
            x, (h, c) = self.cell(self.encoder(torch.sqrt(re * re + im * im + 1e-9)).transpose(1, 2), (h, c))
            return torch.sigmoid(self.last(x.relu())).mean(1), h, c

    return Example(Vad().eval(), lambda batch: {"sound": torch.randn(batch, 512), "h": torch.zeros(1, batch, 64), "c": torch.zeros(1, batch, 64)},
                   [{"batch": 1}, {"batch": 3}], {"sound": {0: "batch"}, "h": {1: "batch"}, "c": {1: "batch"}})


def spectrogram_net():
    """A keyword spotter on a real short-time Fourier transform."""
    import torch
    from torch import nn

    class Spotter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("window", torch.hann_window(128))
            self.net = nn.Sequential(nn.Conv2d(1, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))

        def forward(self, sound):
            x = torch.stft(sound, 128, 64, window=self.window, return_complex=False, center=False)
            return self.net((x.square().sum(-1) + 1e-6).log()[:, None])

    return Example(Spotter().eval(), lambda batch: {"sound": torch.randn(batch, 2048)}, [{"batch": 1}, {"batch": 3}], {"sound": {0: "batch"}})


def ast():
    import torch
    from transformers import ASTConfig, ASTForAudioClassification
    module = ASTForAudioClassification(ASTConfig(**SMALL, max_length=64, num_mel_bins=32, num_labels=10)).eval()
    return Example(module, lambda batch: {"mel": torch.randn(batch, 64, 32)}, [{"batch": 1}, {"batch": 2}], {"mel": {0: "batch"}}, lambda m, x: m(x).logits)


add("speech", "wav2vec2", "wav2vec2", waves("Wav2Vec2ForCTC", "Wav2Vec2Config"), "ts.free dynamo.free")
add("speech", "hubert", "hubert", waves("HubertModel", "HubertConfig"), "ts.free")
add("speech", "conformer", "conformer", waves("Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig"), "ts.free dynamo")
add("speech", "wavlm", "wavlm", waves("WavLMModel", "WavLMConfig"), "ts")
add("speech", "whisper", "whisper_encoder", whisper("encoder"), "ts.free dynamo ts.free.dynamic")
add("speech", "whisper", "whisper_decoder", whisper("decoder"), "dynamo.free dynamo")
add("speech", "encodec", "encodec_encoder", encodec("encoder"), "ts")
add("speech", "encodec", "encodec_decoder", encodec("decoder"), "ts ts.free")
add("speech", "hifi-gan", "hifi_gan", hifi_gan, "ts.free dynamo.free")
add("speech", "voice activity lstm", "vad", vad, "ts.free dynamo.free")
add("speech", "keyword cnn", "keyword_stft", spectrogram_net, "ts dynamo")
add("speech", "ast", "ast", ast, "ts.free")
