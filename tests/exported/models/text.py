"""Models of text and speech."""

import torch
import torch.nn.functional as F

from cases import Training, case, changed

WORDS = 60


def own_loss(network, batch):
    """Models of transformers compute their loss where a batch has labels."""
    return network(**batch).loss


def tokens(rows=4, length=12):
    return torch.randint(3, WORDS, (rows, length))


def classified(_):
    mask = torch.ones(4, 12, dtype=torch.long)
    mask[1, 7:] = mask[3, 10:] = 0
    return {"input_ids": tokens(), "attention_mask": mask, "labels": torch.randint(0, 3, (4,))}


def labelled(_):
    ids = tokens()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def padded(index):
    """As a tokenizer's pad() gives it: the length is that of the batch's longest text."""
    from transformers import BatchEncoding

    length = 9 + index % 4
    mask = (torch.arange(length) < torch.randint(3, length + 1, (4, 1))).long()
    mask[0] = 1
    return BatchEncoding({"input_ids": tokens(4, length) * mask, "attention_mask": mask, "labels": torch.randint(0, 3, (4,))})


SMALL = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
         "max_position_embeddings": 32}


@case("transformers", classified)
def bert_classifier():
    from transformers import BertConfig, BertForSequenceClassification

    return Training(BertForSequenceClassification(BertConfig(**SMALL, num_labels=3)), own_loss)


@case("transformers", padded, batches=3)
def bert_padded_to_the_longest():
    return bert_classifier()


@case("transformers", padded)
def bert_of_one_padded_batch():
    return bert_classifier()


changed(bert_of_one_padded_batch, "batches=[…], several of the loader", batches=3)


@case("transformers", labelled)
def distilbert_masked_words():
    from transformers import DistilBertConfig, DistilBertForMaskedLM

    return Training(DistilBertForMaskedLM(DistilBertConfig(vocab_size=WORDS, dim=32, n_layers=2, n_heads=4, hidden_dim=48,
                                                           max_position_embeddings=32)), own_loss)


@case("transformers", lambda _: {"input_ids": tokens(), "labels": torch.randint(0, 5, (4, 12))})
def roberta_tags():
    from transformers import RobertaConfig, RobertaForTokenClassification

    return Training(RobertaForTokenClassification(RobertaConfig(**SMALL, num_labels=5)), own_loss)


@case("transformers", classified)
def albert_shared_layers():
    from transformers import AlbertConfig, AlbertForSequenceClassification

    return Training(AlbertForSequenceClassification(AlbertConfig(**SMALL, embedding_size=16, num_labels=3)), own_loss)


def gpt2_of(**options):
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=32, **options))


@case("transformers", labelled)
def gpt2():
    return Training(gpt2_of(), own_loss)


@case("transformers", labelled)
def gpt2_with_checkpointing():
    network = gpt2_of()
    network.gradient_checkpointing_enable()
    return Training(network, own_loss)


@case("transformers", lambda _: {"input_ids": tokens(), "labels": tokens(4, 8)})
def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    return Training(T5ForConditionalGeneration(T5Config(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                                        decoder_start_token_id=0)), own_loss)


@case("transformers", labelled)
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return Training(LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2)), own_loss)


@case("transformers", labelled)
def mixtral_mixture_of_experts():
    from transformers import MixtralConfig, MixtralForCausalLM

    return Training(MixtralForCausalLM(MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4)), own_loss)


@case("peft", classified)
def bert_with_lora():
    import peft
    from transformers import BertConfig, BertForSequenceClassification

    network = BertForSequenceClassification(BertConfig(**SMALL, num_labels=3))
    network = peft.get_peft_model(network, peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value"]))
    return Training(network, own_loss)


@case("x-transformers", lambda _: tokens(4, 17))
def x_transformers_decoder():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    network = TransformerWrapper(num_tokens=WORDS, max_seq_len=16, attn_layers=Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True))
    return Training(AutoregressiveWrapper(network), lambda network, batch: network(batch))


@case("performer-pytorch", lambda _: (tokens(4, 16), tokens(4, 16)))
def performer():
    from performer_pytorch import PerformerLM

    network = PerformerLM(num_tokens=WORDS, max_seq_len=16, dim=32, depth=2, heads=4, nb_features=16, causal=False)
    return Training(network, lambda network, batch: F.cross_entropy(network(batch[0]).transpose(1, 2), batch[1]))


def performer_that_keeps_its_projections():
    module = performer()
    module.network.fix_projection_matrices_()
    return module


changed(performer, "fix_projection_matrices_(): else each 1000th step draws them again", make=performer_that_keeps_its_projections)


@case("lightning", lambda _: (tokens(4, 12), tokens(4, 12)))
def lightning_transformer():
    from lightning.pytorch.demos import LightningTransformer

    return LightningTransformer(vocab_size=WORDS)


def spoken(index):
    """Recordings padded to the longest, and their letters."""
    return spoken_of(36 + index % 5)


def spoken_of(length):
    lengths = torch.tensor([length, length - 4, length - 7, length])
    return torch.randn(4, length, 16), lengths, torch.randint(1, 12, (4, 6)), torch.tensor([6, 4, 5, 6])


@case("torchaudio", spoken, batches=3)
def conformer_with_ctc():
    from torchaudio.models import Conformer

    network = torch.nn.ModuleDict({"encoder": Conformer(16, 2, 32, 2, 7), "head": torch.nn.Linear(16, 12)})

    def loss(network, batch):
        features, lengths, target, target_lengths = batch
        encoded, lengths = network["encoder"](features, lengths)
        return F.ctc_loss(network["head"](encoded).log_softmax(-1).transpose(0, 1), target, lengths, target_lengths)

    return Training(network, loss)


changed(conformer_with_ctc, "padded to a fixed length", batch=lambda _: spoken_of(40))


@case("transformers", lambda _: {"input_features": torch.randn(2, 16, 40), "labels": torch.randint(3, WORDS, (2, 8))})
def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(vocab_size=WORDS, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                           decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=20, max_target_positions=16,
                           pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    return Training(WhisperForConditionalGeneration(config), own_loss)


@case("transformers", lambda _: {"input_values": torch.randn(2, 800), "labels": torch.randint(1, 12, (2, 4))})
def wav2vec2_with_ctc(**options):
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(vocab_size=12, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16),
                            conv_kernel=(10, 3), conv_stride=(5, 2), num_feat_extract_layers=2, num_conv_pos_embeddings=8,
                            num_conv_pos_embedding_groups=2, mask_time_prob=0.0, **options)
    return Training(Wav2Vec2ForCTC(config), own_loss)


changed(wav2vec2_with_ctc, "layerdrop=0", make=lambda: wav2vec2_with_ctc(layerdrop=0.0))


@case("transformers", classified)
def electra_classifier():
    from transformers import ElectraConfig, ElectraForSequenceClassification

    return Training(ElectraForSequenceClassification(ElectraConfig(**SMALL, embedding_size=16, num_labels=3)), own_loss)


@case("transformers", classified)
def deberta_classifier():
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    config = DebertaV2Config(**SMALL, num_labels=3, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8)
    return Training(DebertaV2ForSequenceClassification(config), own_loss)


changed(deberta_classifier, "the loss outside of the model", make=lambda: Training(deberta_classifier().network, lambda network, batch: F.cross_entropy(
    network(batch["input_ids"], batch["attention_mask"]).logits, batch["labels"])))


@case("transformers", classified)
def xlnet_classifier():
    from transformers import XLNetConfig, XLNetForSequenceClassification

    return Training(XLNetForSequenceClassification(XLNetConfig(vocab_size=WORDS, d_model=32, n_layer=2, n_head=4, d_inner=48, num_labels=3)), own_loss)


@case("transformers", labelled)
def bart():
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(vocab_size=WORDS, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                        encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=32)
    return Training(BartForConditionalGeneration(config), own_loss)


@case("transformers", labelled)
def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    return Training(MambaForCausalLM(MambaConfig(vocab_size=WORDS, hidden_size=16, state_size=4, num_hidden_layers=2)),
                    lambda network, batch: network(input_ids=batch["input_ids"], labels=batch["labels"]).loss)


@case("transformers", labelled)
def qwen():
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Training(Qwen2ForCausalLM(Qwen2Config(**SMALL, num_key_value_heads=2)), own_loss)


@case("transformers", lambda _: {"input_ids": tokens(4, 10), "pixel_values": torch.randn(4, 3, 32, 32)})
def clip():
    from transformers import CLIPConfig, CLIPModel

    shared = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    config = CLIPConfig(text_config={**shared, "vocab_size": WORDS, "max_position_embeddings": 16, "eos_token_id": 2},
                        vision_config={**shared, "image_size": 32, "patch_size": 8}, projection_dim=16)
    return Training(CLIPModel(config), lambda network, batch: network(**batch, return_loss=True).loss)


class Tagger(torch.nn.Module):
    """A network over texts of several lengths, as tutorials build it."""

    def __init__(self, layer, packs):
        super().__init__()
        self.words, self.layer, self.tags = torch.nn.Embedding(WORDS, 16), layer, torch.nn.LazyLinear(4)
        self.packs = packs
        self.tags(torch.zeros(1, layer.hidden_size * (2 if layer.bidirectional else 1)))

    def forward(self, words, lengths):
        hidden = self.words(words)
        if self.packs:
            hidden = torch.nn.utils.rnn.pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = self.layer(hidden)
        if self.packs:
            hidden, _ = torch.nn.utils.rnn.pad_packed_sequence(hidden, batch_first=True)
        return self.tags(hidden)


def texts(_):
    lengths = torch.randint(3, 11, (4,))
    lengths[0] = 10
    return tokens(4, 10), lengths, torch.randint(0, 4, (4, 10)).masked_fill(torch.arange(10) >= lengths[:, None], -100)


def tagged(network, batch):
    return F.cross_entropy(network(*batch[:2]).flatten(0, 1), batch[2].flatten(), ignore_index=-100)


@case("torch", texts)
def lstm_tagger():
    return Training(Tagger(torch.nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True, dropout=0.1), False), tagged)


@case("torch", texts)
def gru_tagger():
    return Training(Tagger(torch.nn.GRU(16, 12, batch_first=True), False), tagged)


@case("torch", texts)
def lstm_tagger_of_packed_texts():
    return Training(Tagger(torch.nn.LSTM(16, 12, batch_first=True, bidirectional=True), True), tagged)


changed(lstm_tagger_of_packed_texts, "without packing", make=lstm_tagger)


@case("torchaudio", lambda _: (torch.randn(2, 1, 32), torch.randn(2, 1, 8, 8), torch.randint(0, 8, (2, 32))))
def wave_rnn():
    import torchaudio

    network = torchaudio.models.WaveRNN(upsample_scales=[2, 2, 2], n_classes=8, hop_length=8, n_res_block=1, n_rnn=16, n_fc=16, n_freq=8, n_hidden=8,
                                        n_output=8)
    return Training(network, lambda network, batch: F.cross_entropy(network(batch[0], batch[1])[:, 0].transpose(1, 2), batch[2]))


@case("torchaudio", lambda _: (torch.randn(2, 1, 400), torch.randn(2, 2, 400)))
def conv_tasnet():
    import torchaudio

    network = torchaudio.models.ConvTasNet(num_sources=2, enc_kernel_size=8, enc_num_feats=16, msk_kernel_size=3, msk_num_feats=8, msk_num_hidden_feats=16,
                                           msk_num_layers=2, msk_num_stacks=1)
    return Training(network, lambda network, batch: F.l1_loss(network(batch[0]), batch[1]))
