"""Words by number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from feedline import _arguments
from feedline._feedline import NativeVocabulary, NativeWordCounts
from feedline.checkpoints import atomic_write

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from feedline.pipeline import Pipeline

__all__ = ["Vocabulary"]


class Vocabulary:
    r"""Words and their numbers: special tokens first, then words, the most frequent first.

    The words of a text are what ``re.findall(r"\w+", text.lower())`` finds. Equally frequent ones
    are in the order of their letters.

    Parameters
    ----------
    tokens
        All tokens in the order of their ids, special ones included.
    pad
        The token that `pad` fills with; ``None`` if there is none.
    unknown
        The token of words that are not in the vocabulary. ``None``: such words are left out.

    Raises
    ------
    ValueError
        If a token comes twice, or a special one is not among them.

    Examples
    --------
    >>> from feedline import Vocabulary
    >>> vocabulary = Vocabulary.build(["The cat sat.", "The dog"], min_count=2)
    >>> vocabulary.tokens
    ['<pad>', '<unk>', 'the']
    >>> vocabulary.encode("the cat")
    [2, 1]
    """

    def __init__(
        self,
        tokens: Sequence[str],
        *,
        pad: str | None = "<pad>",
        unknown: str | None = "<unk>",
    ) -> None:
        self._native = NativeVocabulary.of(list(tokens), pad, unknown)

    @classmethod
    def build(
        cls,
        texts: Pipeline | Iterable[str],
        *,
        field: str = "text",
        size: int | None = None,
        min_count: int = 1,
        pad: str | None = "<pad>",
        unknown: str | None = "<unk>",
        specials: Sequence[str] = (),
        progress: bool = False,
    ) -> Vocabulary:
        """Count the words of texts, and number them.

        Parameters
        ----------
        texts
            A pipeline, whose samples are all made once, by all cores; or any iterable of str.
        field
            The pipeline's field of text.
        size
            How many tokens there may be, special ones included.
        min_count
            Words that were seen less often are left out.
        pad, unknown, specials
            Special tokens, in this order; ``None`` for one that shall not be there.
        progress
            Whether to count samples on standard error.

        Returns
        -------
        Vocabulary
            The same for the same texts, whatever their order.

        Raises
        ------
        ValueError
            If a sample cannot be made, there is no such field, or no room for words.
        """
        from feedline.pipeline import Pipeline

        if isinstance(texts, Pipeline):
            texts._refuse_batched("Vocabulary.build")
            texts._refuse_iterable("Vocabulary.build")
            source = texts._source.only([field]) or texts._source
            counts = NativeWordCounts.of(source, field, _arguments.flag("progress", progress))
        else:
            if isinstance(texts, str):
                msg = "texts must be a pipeline or an iterable of str, got a single str"
                raise TypeError(msg)
            counts = NativeWordCounts()
            for text in texts:
                counts.add(text)
        settings: dict[str, object] = {
            "size": None if size is None else _arguments.whole("size", size, 1),
            "min_count": _arguments.whole("min_count", min_count, 0),
            "pad": pad,
            "unknown": unknown,
            "specials": list(specials),
        }
        return cls._of(NativeVocabulary.build(counts, settings))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read what `save` wrote.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        Vocabulary
            With the same ids.

        Raises
        ------
        ValueError
            If it is no vocabulary.
        """
        return _of_json(Path(path).read_text(encoding="utf-8"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, as JSON: the tokens in the order of their ids.

        Parameters
        ----------
        path
            The file; one that is there is replaced as a whole.
        """
        with atomic_write(path) as file:
            file.write(self._native.to_json().encode())

    def encode(self, text: str) -> list[int]:
        """Return the ids of the words of a text.

        Parameters
        ----------
        text
            Any text.

        Returns
        -------
        list
            One id for each word.
        """
        return self._native.encode(text)

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the tokens of ids.

        Parameters
        ----------
        ids
            Numbers below the vocabulary's length.

        Returns
        -------
        list
            A token for each.

        Raises
        ------
        IndexError
            For an id that no token has.
        """
        tokens = []
        for number in ids:
            token = self._native.token(int(number)) if 0 <= number < len(self) else None
            if token is None:
                msg = f"there is no token {number}; the vocabulary has {len(self)}"
                raise IndexError(msg)
            tokens.append(token)
        return tokens

    @property
    def tokens(self) -> list[str]:
        """All tokens in the order of their ids."""
        return self._native.tokens()

    @property
    def pad(self) -> int | None:
        """The id that `pad` fills with."""
        return self._native.pad

    @property
    def unknown(self) -> int | None:
        """The id of words that are not in the vocabulary."""
        return self._native.unknown

    def __len__(self) -> int:
        return len(self._native)

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self._native.id(token) is not None

    def __getitem__(self, token: str) -> int:
        found = self._native.id(token)
        if found is None:
            raise KeyError(token)
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self._native.to_json() == other._native.to_json()

    def __hash__(self) -> int:
        return hash((len(self), self.pad, self.unknown))

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)} tokens>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_json, (self._native.to_json(),)

    @classmethod
    def _of(cls, native: NativeVocabulary) -> Vocabulary:
        made = object.__new__(cls)
        made._native = native
        return made


def _of_json(json: str) -> Vocabulary:
    return Vocabulary._of(NativeVocabulary.from_json(json))
