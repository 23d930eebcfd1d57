r"""Vocabularies: brute force is `re.findall(r"\w+", text.lower())` and a Counter."""

import pickle
import re
import sys
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedline
from feedline import Vocabulary
from feedline._feedline import NativeWordCounts, text_unicode_version, word_letters
from feedline.errors import SampleError


def words(text):
    return re.findall(r"\w+", text.lower())


def numbered(texts, *, size=None, min_count=1, specials=("<pad>", "<unk>")):
    counts = Counter(word for text in texts for word in words(text))
    kept = sorted((-count, word) for word, count in counts.items() if count >= min_count)
    tokens = [*specials, *(word for _, word in kept)]
    return {token: number for number, token in enumerate(tokens[:size])}


TEXTS = [
    "The movie was great. Great acting, GREAT plot!",
    "It's a shame: the plot didn't work_at_all in 1999...",
    "",
    "   \t\n ",
    "Straßenbahn İstanbul ΟΔΥΣΣΕΥΣ naïve café — “quoted”",
    "中文字 हिन्दी x² ½ ⅷ Ⅷ ⓐ ⒜",
    "the the the Movie",
]


def letters_of(version):
    """Letters that both this Python and the table know."""
    return {
        code
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code < 0xE000 and re.match(r"\w", chr(code))
    }


def test_letters_are_those_of_this_python():
    ours, theirs = set(word_letters()), letters_of(text_unicode_version())
    version = tuple(map(int, text_unicode_version().split(".")))
    here = tuple(map(int, unicodedata.unidata_version.split(".")))
    # Letters of the later version of Unicode are unknown to the earlier one.
    if version >= here:
        assert theirs <= ours
        assert all(unicodedata.category(chr(code)) == "Cn" for code in ours - theirs)
    else:
        assert ours <= theirs


@given(st.text(max_size=80))
def test_words_are_those_of_the_re_module(text):
    counts = NativeWordCounts()
    counts.add(text)
    # What is assigned in one version of Unicode only may be a letter in one of them.
    if all(unicodedata.category(letter) != "Cn" for letter in text):
        assert dict(counts.items()) == Counter(words(text))


@given(st.text(alphabet="aAzZ09_ .,'İıΣσςßéÉ—Ⅷⅷǅΐ\u0307\u0345", max_size=60))
def test_words_with_difficult_letters_are_those_of_the_re_module(text):
    counts = NativeWordCounts()
    counts.add(text)
    assert dict(counts.items()) == Counter(words(text))


@pytest.mark.parametrize(
    "options", [{}, {"size": 7}, {"min_count": 2}, {"size": 5, "min_count": 2}, {"size": 1000}]
)
def test_ids_are_those_of_brute_force(options):
    expected = numbered(TEXTS, **options)
    vocabulary = Vocabulary.build(TEXTS, **options)
    assert vocabulary.tokens == list(expected)
    for text in TEXTS:
        ids = [expected.get(word, 1) for word in words(text)]
        assert vocabulary.encode(text) == ids
        assert vocabulary.decode(ids) == [vocabulary.tokens[i] for i in ids]
    assert (vocabulary.pad, vocabulary.unknown, vocabulary["the"]) == (0, 1, expected["the"])


@pytest.fixture
def corpus(tmp_path):
    rng = np.random.default_rng(1)
    lexicon = [f"Word{i}" for i in range(300)] + ["ÜBER", "naïve", "don't"]
    weights = 1 / np.arange(1, len(lexicon) + 1)
    texts = [
        " ".join(rng.choice(lexicon, int(n), p=weights / weights.sum()))
        for n in rng.integers(0, 60, 1000)
    ]
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return feedline.text(path, cache=tmp_path / "cache"), texts


def test_a_pipelines_words_are_counted_by_all_cores(corpus):
    lines, texts = corpus
    vocabulary = Vocabulary.build(lines, size=100, min_count=3)
    assert vocabulary.tokens == list(numbered(texts, size=100, min_count=3))
    shuffled = lines.select(np.random.default_rng(0).permutation(len(lines)))
    assert Vocabulary.build(shuffled, size=100, min_count=3) == vocabulary


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("length", [1, 8, 64])
def test_padded_batches_are_those_of_brute_force(corpus, workers, length):
    lines, texts = corpus
    vocabulary = Vocabulary.build(lines, size=100)
    numbers = numbered(texts, size=100)
    padded = lines.vocabulary(vocabulary).truncate(length).pad(length)
    loader = feedline.Loader(padded, batch_size=64, num_workers=workers)
    got = np.concatenate([ids for (ids,) in loader])
    expected = np.zeros((len(texts), length), np.int64)
    for row, text in zip(expected, texts, strict=True):
        ids = [numbers.get(word, 1) for word in words(text)][:length]
        row[: len(ids)] = ids
    assert got.dtype == np.int64
    assert (got == expected).all()


def test_it_is_saved_and_loaded_and_pickled(tmp_path, corpus):
    lines, _ = corpus
    vocabulary = Vocabulary.build(lines, specials=["<s>", "</s>"])
    vocabulary.save(tmp_path / "vocabulary.json")
    for again in (
        Vocabulary.load(tmp_path / "vocabulary.json"),
        pickle.loads(pickle.dumps(vocabulary)),
    ):
        assert again == vocabulary
        assert again.tokens[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    ids = lines.vocabulary(vocabulary).truncate(5).pad(5)
    again = pickle.loads(pickle.dumps(ids))
    assert (again[17][0] == ids[17][0]).all()


@pytest.mark.parametrize("content", ["", "{}", "[]", "\x00", '{"feedline_vocabulary": 9}'])
def test_what_is_no_vocabulary_is_refused(tmp_path, content):
    path = tmp_path / "v.json"
    path.write_text(content)
    with pytest.raises(ValueError, match="no vocabulary"):
        Vocabulary.load(path)


def test_tokens_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="has each token once"):
        Vocabulary(["a", "a"], pad=None, unknown=None)
    with pytest.raises(ValueError, match="special token"):
        Vocabulary(["a"])
    with pytest.raises(ValueError, match="more than the 2 special"):
        Vocabulary.build(TEXTS, size=2)
    with pytest.raises(IndexError, match="no token 9"):
        Vocabulary(["a"], pad=None, unknown=None).decode([9])
    with pytest.raises(KeyError):
        Vocabulary(["a"], pad=None, unknown=None)["b"]
    with pytest.raises(TypeError, match="single str"):
        Vocabulary.build("text")


def test_words_without_a_number_are_left_out_where_there_is_no_unknown_token():
    assert Vocabulary(["b", "a"], pad=None, unknown=None).encode("a x B") == [1, 0]


def test_a_bad_line_is_named_when_words_are_counted(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\n")
    lines = feedline.text(tmp_path / "a.txt", cache=tmp_path)
    with pytest.raises(ValueError, match=r"a\.txt:2"):
        Vocabulary.build(lines)
    ids = lines.vocabulary(Vocabulary.build(["one"])).pad(3)
    with pytest.raises(SampleError, match=r"a\.txt:2"):
        list(feedline.Loader(ids))


def test_fields_that_are_no_text_are_refused():
    numbers = feedline.arrays(np.arange(3))
    with pytest.raises(ValueError, match="no field"):
        numbers.vocabulary(Vocabulary.build(["a"]))
    with pytest.raises(ValueError, match="no text"):
        numbers.vocabulary(Vocabulary.build(["a"]), field="0")
    with pytest.raises(ValueError, match="no text"):
        Vocabulary.build(numbers, field="0")
    with pytest.raises(TypeError, match=r"feedline\.Vocabulary"):
        numbers.vocabulary({"a": 1})
