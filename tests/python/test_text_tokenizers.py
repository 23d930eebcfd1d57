"""Tokenizers: ids are those of the `tokenizers` package, whichever kind they are of."""

import json
import pickle
import re

import numpy as np
import pytest
import tokenizers
import transformers
from hypothesis import given
from hypothesis import strategies as st

import feedline
from feedline.errors import SampleError

WORDS = [
    "the",
    "a",
    "of",
    "movie",
    "film",
    "great",
    "bad",
    "acting",
    "plot",
    "was",
    "is",
    "didn't",
    "I've",
    "naïve",
    "Über",
    "1999",
    "<br",
    "/>",
]
RNG = np.random.default_rng(5)
CORPUS = [" ".join(RNG.choice(WORDS, int(n))) + "." for n in RNG.integers(1, 80, 400)]
TEXTS = [
    *CORPUS[:50],
    "",
    " ",
    "\n\n  \t x   y\r\n",
    "It's 12,345.67%! ... don't—can't",
    "ﬁne ½ Ⅷ \uff46\uff55ll\u3000width",
    "日本語のテキスト 한국어 العربية हिन्दी",
    "👩‍👩‍👧‍👦 emoji 🎬🎬",
    "<br /><br />[CLS] [MASK] <|endoftext|>",
    "a" * 5000,
]


def bpe():
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(CORPUS, trainer)
    return made


def llama_like():
    """BPE behind a regular expression with look-ahead, as recent models have it."""
    made = bpe()
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, byte_level])
    return made


def wordpiece():
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))  # noqa: S106 - a token of text
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=300,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        show_progress=False,
    )
    made.train_from_iterator(CORPUS, trainer)
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return made


def unigram():
    made = tokenizers.Tokenizer(tokenizers.models.Unigram())
    made.normalizer = tokenizers.normalizers.NFKC()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=200,
        special_tokens=["<pad>", "<unk>"],
        unk_token="<unk>",  # noqa: S106 - a token of text
        show_progress=False,
    )
    made.train_from_iterator(CORPUS, trainer)
    return made


KINDS = {"bpe": bpe, "llama": llama_like, "wordpiece": wordpiece, "unigram": unigram}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    return KINDS[request.param]()


def texts_pipeline(texts):
    return feedline.arrays(np.arange(len(texts))).map(lambda i: {"text": texts[i]})


def ids_of(pipeline, **options):
    loader = feedline.Loader(pipeline, batch_size=7, num_workers=2, **options)
    rows = []
    for batch in loader:
        values, offsets = batch.values()
        rows += [row.tolist() for row in np.split(values, offsets[1:-1])]
    return rows


def test_ids_are_those_of_the_package(tokenizer):
    expected = [tokenizer.encode(text).ids for text in TEXTS]
    assert ids_of(texts_pipeline(TEXTS).tokenize(tokenizer)) == expected
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert ids_of(texts_pipeline(TEXTS).tokenize(tokenizer, add_special_tokens=False)) == plain


@pytest.fixture(scope="module")
def natives():
    from feedline.text_operations import _tokenizer_of

    made = {name: kind() for name, kind in KINDS.items()}
    return [(theirs, _tokenizer_of(theirs)._native) for theirs in made.values()]


@given(text=st.text(max_size=60))
def test_ids_of_any_text_are_those_of_the_package(natives, text):
    for theirs, ours in natives:
        assert ours.encode(text) == theirs.encode(text).ids


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("length", [3, 8, 40])
def test_truncation_is_the_packages_and_keeps_special_tokens(tokenizer, side, length):
    ours = texts_pipeline(TEXTS).tokenize(tokenizer, max_length=length, truncation=side)
    theirs = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    theirs.enable_truncation(length, direction=side)
    assert ids_of(ours) == [theirs.encode(text).ids for text in TEXTS]


def test_padded_batches_are_those_of_encode_batch(tokenizer):
    theirs = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    theirs.enable_truncation(32)
    theirs.enable_padding(length=32, pad_id=7)
    expected = theirs.encode_batch(TEXTS)
    ours = texts_pipeline(TEXTS).tokenize(tokenizer, max_length=32).pad(32, value=7, mask=True)
    (batch,) = feedline.Loader(ours, batch_size=len(TEXTS))
    assert batch["text"].tolist() == [each.ids for each in expected]
    assert batch["text_mask"].astype(int).tolist() == [each.attention_mask for each in expected]


def test_a_file_a_folder_and_an_object_are_the_same(tokenizer, tmp_path):
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = texts_pipeline(TEXTS)
    expected = ids_of(texts.tokenize(tokenizer))
    assert ids_of(texts.tokenize(tmp_path / "tokenizer.json")) == expected
    assert ids_of(texts.tokenize(str(tmp_path))) == expected


def test_a_fast_tokenizer_of_transformers_gives_the_ids_of_a_call():
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=wordpiece(),
        pad_token="[PAD]",  # noqa: S106 - a token of text
        unk_token="[UNK]",  # noqa: S106 - a token of text
    )
    texts = texts_pipeline(TEXTS)
    # What a call leaves in the object is none of its settings.
    theirs("x " * 100, truncation=True, max_length=5, padding="max_length")
    assert ids_of(texts.tokenize(theirs)) == theirs(TEXTS)["input_ids"]
    padded = theirs(TEXTS, truncation=True, max_length=16, padding="max_length")
    ours = texts.tokenize(theirs, max_length=16).pad(16, mask=True)
    (batch,) = feedline.Loader(ours, batch_size=len(TEXTS))
    assert batch["text"].tolist() == padded["input_ids"]
    assert batch["text_mask"].astype(int).tolist() == padded["attention_mask"]


def test_the_padding_token_is_the_tokenizers():
    texts = texts_pipeline(TEXTS)
    (batch,) = feedline.Loader(texts.tokenize(unigram()).pad(), batch_size=len(TEXTS))
    assert batch["text"][50].tolist() == [0] * batch["text"].shape[1]
    said = bpe()
    said.enable_padding(pad_id=9)
    (batch,) = feedline.Loader(texts.tokenize(said).pad(), batch_size=len(TEXTS))
    assert set(batch["text"][50].tolist()) == {9}
    with pytest.raises(ValueError, match="no padding token"):
        texts.tokenize(bpe()).pad()


def test_a_pipeline_pickles_with_its_tokenizer(tokenizer):
    # Functions of this module need not be importable elsewhere, so no function is before it.
    strings = feedline.arrays(np.arange(3)).map(str).map(lambda text: {"text": text})
    ids = strings.tokenize(tokenizer).truncate(4)
    again = pickle.loads(pickle.dumps(ids))
    assert ids_of(again) == ids_of(ids)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"version": "1.0"}', '{"model": {"type": "BPE"}}', "\x00\x01"],
)
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    named = re.escape(f"`{path}`")
    with pytest.raises(ValueError, match=f"{named}: .*no tokenizer that can be used"):
        texts_pipeline(TEXTS).tokenize(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=f"{named}: 'utf-8' codec can't decode"):
        texts_pipeline(TEXTS).tokenize(path)


def test_damaged_tokenizers_are_refused_or_usable(tmp_path):
    whole, refused = json.loads(wordpiece().to_str()), []
    for key in whole:
        damaged = whole | {key: {"type": "Nonsense"}}
        (tmp_path / "tokenizer.json").write_text(json.dumps(damaged))
        try:
            pipeline = texts_pipeline(TEXTS[:3]).tokenize(tmp_path / "tokenizer.json")
        except ValueError as error:
            refused.append(str(error))
        else:
            ids_of(pipeline)
    assert refused
    assert all("no tokenizer that can be used" in message for message in refused)


def test_what_is_no_tokenizer_is_refused(tmp_path):
    texts = texts_pipeline(TEXTS)
    with pytest.raises(TypeError, match="got int"):
        texts.tokenize(5)
    with pytest.raises(FileNotFoundError):
        texts.tokenize(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match="max_length truncates"):
        texts.tokenize(bpe(), max_length=4, truncation=False)


def test_a_text_that_cannot_be_encoded_is_an_error_of_its_sample():
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="[UNK]"))  # noqa: S106 - a token of text
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    loader = feedline.Loader(
        texts_pipeline(["a", "b", "a a"]).tokenize(made), batch_size=3, on_error="skip"
    )
    (batch,) = loader
    assert batch["text"].tolist() == [0, 0, 0]
    assert isinstance(loader.errors[0], SampleError)
    assert "the tokenizer failed" in str(loader.errors[0])


def test_a_template_that_names_a_token_that_is_not_there_is_refused(tmp_path):
    model = tokenizers.models.WordLevel({"a": 0, "[CLS]": 1})
    made = tokenizers.Tokenizer(model)
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 1)]
    )
    content = json.loads(made.to_str())
    content["post_processor"]["special_tokens"] = {}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    texts = feedline.arrays([0]).map(lambda i: "a")
    with pytest.raises(ValueError, match="does not hold together"):
        texts.tokenize(tmp_path, field="0")


def test_a_tokenizer_that_draws_is_refused():
    made = bpe()
    texts = feedline.arrays([0]).map(lambda i: "the movie")
    made.model.dropout = 0.5
    with pytest.raises(ValueError, match=r"BPE has dropout 0\.5.*model\.dropout = None"):
        texts.tokenize(made, field="0")
    for none in (None, 0.0):
        made.model.dropout = none
        assert texts.tokenize(made, field="0")[0][0].tolist() == made.encode("the movie").ids


def test_a_vocabulary_is_truncated_on_the_side_asked_for():
    vocabulary = feedline.Vocabulary.build(["a b c d e f g h"])
    texts = feedline.arrays([0]).map(lambda i: "a b c d e f g h")
    for side, expected in [
        ("left", ["f", "g", "h"]),
        ("right", ["a", "b", "c"]),
        (True, ["a", "b", "c"]),
    ]:
        ids = texts.tokenize(vocabulary, field="0", max_length=3, truncation=side)
        assert vocabulary.decode(ids[0][0]) == expected
    with pytest.raises(ValueError, match="max_length truncates"):
        texts.tokenize(vocabulary, field="0", max_length=3, truncation=False)
    with pytest.raises(ValueError, match="truncation must be"):
        texts.tokenize(vocabulary, field="0", truncation="middle")
