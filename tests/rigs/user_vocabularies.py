"""Vocabularies that a user may bring."""

from __future__ import annotations

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "How many input tokens will the provider bill for this chat request?",
    "tokenctx answers before the request is sent, offline, in microseconds.",
    "Grüße aus Köln; 漢字かな交じり文; مرحبا بالعالم; 👩‍👩‍👧 🇩🇪",
    "def count(text):\n    return len(text.split())\n",
] * 4


def bpe_tokenizer() -> tokenizers.Tokenizer:
    """As Llama 3 and Qwen: byte-level pieces."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<bos>", "<eos>"], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def unigram_tokenizer() -> tokenizers.Tokenizer:
    """As T5 and XLM-R: pieces by likelihood, with a normal form."""
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=200,
        special_tokens=["<bos>", "<unk>"],
        unk_token="<unk>",  # noqa: S106
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


QWEN = LLAMA_3.replace("{1,3}", "")


GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
