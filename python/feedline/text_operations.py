"""Operations on text and on sequences: tokens, truncating, padding, packing.

Consecutive ones on the same field are done in one go: `tokenize`, `truncate`, then `pad`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from feedline import _arguments, _feedline
from feedline._feedline import cut_sequences, pack_sequences, sequence_lengths
from feedline.pipeline.base import PipelineBase, pipeline_of
from feedline.recipes import Recipe
from feedline.text_vocabulary import Vocabulary

if TYPE_CHECKING:
    from feedline.pipeline import Pipeline

__all__ = ["TextOperations"]

_PADS = ("[PAD]", "<pad>", "<|pad|>", "<PAD>")


class TextOperations(PipelineBase):
    """Makes tokens of text."""

    def vocabulary(
        self,
        vocabulary: Vocabulary,
        *,
        field: str = "text",
        dtype: Literal["int64", "int32"] = "int64",
    ) -> Pipeline:
        r"""Replace text by the numbers of its words.

        Words are what ``re.findall(r"\w+", text.lower())`` finds. Batches have the sequences one
        behind the other (packed, with offsets) unless `pad` follows.

        Parameters
        ----------
        vocabulary
            Whose numbers they are; see `feedline.Vocabulary`.
        field
            The field of text.
        dtype
            What ids are delivered as.

        Returns
        -------
        Pipeline
            Of the same fields, the text's with ids in place of text.

        Raises
        ------
        ValueError
            If there is no such field, or it is no text.

        Examples
        --------
        >>> import feedline
        >>> texts = feedline.arrays([0, 1]).map(lambda i: ["good movie", "Bad, bad movie!"][i])
        >>> vocabulary = feedline.Vocabulary.build(["good movie", "bad movie"])
        >>> ids = texts.vocabulary(vocabulary, field="0").pad(to="longest", mask=True)
        >>> for words, mask in feedline.Loader(ids, batch_size=2):
        ...     print(words, mask, sep="\n")
        [[4 2 0]
         [3 3 2]]
        [[ True  True False]
         [ True  True  True]]
        """
        if not isinstance(cast(object, vocabulary), Vocabulary):
            got = type(vocabulary).__name__
            msg = f"vocabulary must be a feedline.Vocabulary, got {got}; see Vocabulary.build"
            raise TypeError(msg)
        return self._encoded_by("vocabulary", f"{len(vocabulary)} tokens", vocabulary, field, dtype)

    def tokenize(
        self,
        tokenizer: Any,  # noqa: ANN401 - objects of packages that need not be installed
        *,
        field: str = "text",
        max_length: int | None = None,
        truncation: bool | Literal["right", "left"] = True,
        add_special_tokens: bool = True,
        dtype: Literal["int64", "int32"] = "int64",
    ) -> Pipeline:
        """Replace text by the ids of a tokenizer, as the ``tokenizers`` package makes them.

        Python is not asked: the file is read by the library that the package is made of, and each
        worker encodes samples by itself. Padding that the file asks for is left to `pad`.

        Parameters
        ----------
        tokenizer
            The path of a ``tokenizer.json`` or of a folder that has one; a
            ``tokenizers.Tokenizer``; a fast tokenizer of ``transformers``; or a
            `feedline.Vocabulary`.
        field
            The field of text.
        max_length
            The most ids of a text, special ones included; longer ones are truncated as the
            tokenizer does it, which keeps special tokens. Without it, what the tokenizer itself
            says of truncation holds.
        truncation
            With `max_length`: which side is cut, ``True`` being ``"right"``.
        add_special_tokens
            Whether tokens such as ``[CLS]`` are added.
        dtype
            What ids are delivered as.

        Returns
        -------
        Pipeline
            Of the same fields, the text's with ids in place of text.

        Raises
        ------
        ValueError
            If the file is no tokenizer, there is no such field, or it is no text.
        FileNotFoundError
            If there is no such file.
        """
        if max_length is not None:
            max_length = _arguments.whole("max_length", max_length, 0)
            if truncation is False:
                msg = "max_length truncates; leave it out, or leave out truncation=False"
                raise ValueError(msg)
        sides = {True: "right", "right": "right", "left": "left", False: "right"}
        if truncation not in sides:
            msg = f'truncation must be "right", "left" or a truth value, got {truncation!r}'
            raise ValueError(msg)
        side = cast(Literal["right", "left"], sides[truncation])
        add_special_tokens = _arguments.flag("add_special_tokens", add_special_tokens)
        if isinstance(tokenizer, Vocabulary):
            made = self.vocabulary(tokenizer, field=field, dtype=dtype)
            if max_length is None:
                return made
            return made.truncate(max_length, side=side, field=field)
        encoder = _tokenizer_of(tokenizer)._replace(
            add_special_tokens=add_special_tokens, max_length=max_length, left=side == "left"
        )
        told = encoder.name if max_length is None else f"{encoder.name}, max_length={max_length}"
        return self._encoded_by("tokenize", told, encoder, field, dtype)

    def truncate(
        self, length: int, *, side: Literal["right", "left"] = "right", field: str | None = None
    ) -> Pipeline:
        """Cut sequences that are longer.

        Parameters
        ----------
        length
            The most elements of a sequence.
        side
            Which side is cut.
        field
            The field of sequences; by default the one that was made last, or the only one.

        Returns
        -------
        Pipeline
            Of the same fields.

        Raises
        ------
        ValueError
            If there is no such field, or it holds no sequences.

        Examples
        --------
        >>> import feedline
        >>> vocabulary = feedline.Vocabulary.build(["a b c"])
        >>> texts = feedline.arrays([0]).map(lambda i: "a b c")
        >>> ids = texts.vocabulary(vocabulary, field="0").truncate(2, side="left")
        >>> next(iter(feedline.Loader(ids)))[0]
        array([3, 4])
        """
        length = _arguments.whole("length", length, 0)
        side = cast(Any, _arguments.one_of("side", side, ("right", "left")))
        told = f"truncate({length}{'' if side == 'right' else ', left'})"
        return self._sequenced(told, field, {"max_length": length, "keep_end": side == "left"})

    def pad(
        self,
        to: int | Literal["longest"] = "longest",
        *,
        multiple: int | None = None,
        value: float | None = None,
        side: Literal["right", "left"] = "right",
        mask: bool = False,
        field: str | None = None,
    ) -> Pipeline:
        """Pad sequences so that a batch is one array.

        Parameters
        ----------
        to
            ``"longest"``: to the longest of each batch; the field ``<name>_lengths`` behind it
            tells the true lengths. A number: to this length, and a longer sequence is an error of
            its sample (see `truncate`).
        multiple
            With ``"longest"``: rounded up to a multiple of this.
        value
            What is filled in; by default the vocabulary's or tokenizer's own, for others 0.
        side
            Where the padding is.
        mask
            Whether a field ``<name>_mask`` of truth values tells what is no padding. It comes
            behind the sequences, for ``"longest"`` in place of the lengths.
        field
            The field of sequences; by default the one that was made last, or the only one.

        Returns
        -------
        Pipeline
            Of the same fields, and the mask.

        Raises
        ------
        ValueError
            If there is no such field, it holds no sequences, or nobody knows what to fill in.

        Examples
        --------
        >>> import feedline
        >>> vocabulary = feedline.Vocabulary.build(["a b c"])
        >>> texts = feedline.arrays([0, 1]).map(lambda i: ["a b c", "b"][i])
        >>> ids = texts.vocabulary(vocabulary, field="0").pad(multiple=4, side="left")
        >>> next(iter(feedline.Loader(ids, batch_size=2)))[0]
        array([[0, 2, 3, 4],
               [0, 0, 0, 3]])
        """
        side = cast(Any, _arguments.one_of("side", side, ("right", "left")))
        changes: dict[str, Any] = {"left": side == "left", "mask": _arguments.flag("mask", mask)}
        if to == "longest":
            changes["multiple"] = _arguments.whole(
                "multiple", 1 if multiple is None else multiple, 1
            )
            told = "longest" if multiple is None else f"longest, multiple={multiple}"
        elif isinstance(cast(object, to), str):
            msg = f'to must be "longest" or a length, got {to!r}'
            raise ValueError(msg)
        else:
            changes["length"] = _arguments.whole("to", to, 1, 2**31 - 1)
            told = str(changes["length"])
            if multiple is not None:
                msg = 'multiple is for to="longest"; a length is what it is'
                raise ValueError(msg)
        if value is not None:
            changes["fill"] = float(_arguments.real("value", value))
        told += (", left" if changes["left"] else "") + (", mask" if changes["mask"] else "")
        return self._sequenced(f"pad({told})", field, changes)

    def pack(
        self,
        length: int,
        *,
        method: Literal["best_fit", "concatenate"] = "best_fit",
        end: int | None = None,
        value: float | None = None,
        reshuffle: bool = False,
        field: str | None = None,
    ) -> Pipeline:
        r"""Pack documents into rows of one length, for language models. Samples are rows then.

        ``"best_fit"`` puts whole documents together, the longest first, each where it leaves the
        least room; only those longer than a row are cut. ``"concatenate"`` puts all behind one
        another and cuts every `length` tokens; only the last row is padded.

        All samples are made once now, by all cores, to learn how long they are (4 bytes each are
        kept). A row is then made of its documents alone, so order, ranks, states and random access
        are as for any pipeline. How many rows there are does not depend on the order of documents.

        Parameters
        ----------
        length
            Tokens of a row.
        method
            How documents share rows.
        end
            A token that is put behind each document.
        value
            What fills rows; by default the vocabulary's or tokenizer's own padding, or 0.
        reshuffle
            Whether documents are packed anew for each epoch, in an order that depends on the
            loader's seed and the epoch. (Which rows come when is the loader's `shuffle`.)
        field
            The field of sequences; by default the one that was made last, or the only one.

        Returns
        -------
        Pipeline
            Of the tokens; ``segment_ids``, which of the row's documents a token belongs to,
            counted from 1, with 0 for padding; ``position_ids``, its place there; and
            ``loss_mask``, whether the token behind it belongs to the same document, which is what
            a model can predict.

        Raises
        ------
        ValueError
            If there is no such field, it holds no sequences, or a sample cannot be made.

        Examples
        --------
        >>> import feedline
        >>> vocabulary = feedline.Vocabulary.build(["a b c d"])
        >>> texts = feedline.arrays([0, 1, 2]).map(lambda i: ["a b c", "d", "a b"][i])
        >>> rows = texts.vocabulary(vocabulary, field="0").pack(4)
        >>> for tokens, segments, positions, mask in feedline.Loader(rows, batch_size=2):
        ...     print(tokens, segments, positions, mask.astype(int), sep="\n")
        [[2 3 4 5]
         [2 3 0 0]]
        [[1 1 1 2]
         [1 1 0 0]]
        [[0 1 2 0]
         [0 1 0 0]]
        [[1 1 0 0]
         [1 0 0 0]]
        """
        self._refuse_mixture("pack")
        name = self._sequence_field("pack", field)
        settings = {
            "length": _arguments.whole("length", length, 1, 2**31 - 1),
            "method": _arguments.one_of("method", method, ("best_fit", "concatenate")),
            "fill": self._fill("pack", name, value),
            "end": None if end is None else _arguments.whole("end", end, 0, 2**31 - 1),
            "reshuffle": _arguments.flag("reshuffle", reshuffle),
        }
        stages = (*self._stages, f"pack({length}, {method})")
        return _packed(self, name, None, settings, stages)

    # ---- what they share

    def _encoded_by(
        self, operation: str, told: str, encoder: Encoder, field: str, dtype: str
    ) -> Pipeline:
        self._refuse_batched(operation)
        if not isinstance(cast(object, field), str):
            msg = f"field must be the name of a field, got {field!r}; there are {self.fields}"
            raise TypeError(msg)
        dtype = _arguments.one_of("dtype", dtype, ("int64", "int32"))
        stages = (*self._stages, f"{operation}({told})")
        return _sequences(self, field, encoder, _settings(dtype), stages)

    def _sequenced(self, told: str, field: str | None, changes: dict[str, Any]) -> Pipeline:
        operation = told.partition("(")[0]
        self._refuse_batched(operation)
        name = self._sequence_field(operation, field)
        if {"length", "multiple"} & changes.keys() and "fill" not in changes:
            changes["fill"] = self._fill(operation, name, None)
        if self._recipe.make is _sequences and self._recipe.arguments[1] == name:
            before, _, encoder, settings, _ = self._recipe.arguments
            padded = settings["length"] is not None or settings["multiple"] is not None
            cut = settings["max_length"] is not None and "max_length" in changes
            if not padded and not cut:
                stages = self._stages_with(told, fused=True)
                return _sequences(before, name, encoder, settings | changes, stages)
        dtype = next(dtype for each, dtype, *_ in self._source.fields() if each == name)
        return _sequences(self, name, None, _settings(dtype) | changes, (*self._stages, told))

    def _made_sequences(self, name: str) -> Encoder | Literal[True] | None:
        """Return what made the sequences of a field, if anything here did."""
        if self._recipe.make is not _sequences:
            return None
        before, field, encoder, *_ = self._recipe.arguments
        if field == name:
            return cast("Encoder | None", encoder) or before._made_sequences(name) or True
        return cast("Encoder | Literal[True] | None", before._made_sequences(name))

    def _sequence_field(self, operation: str, field: str | None) -> str:
        fields = self._source.fields()
        if field is not None:
            if field not in (name for name, *_ in fields):
                msg = f"{operation} names the field {field!r}, and the pipeline has {self.fields}"
                raise ValueError(msg)
            return field
        if self._recipe.make is _sequences:
            return cast(str, self._recipe.arguments[1])
        found = [name for name, _, shape, rule in fields if shape == [None] and _is_sequence(rule)]
        if len(found) == 1:
            return found[0]
        what = f"there are several, {found}; pass field=" if found else "call tokenize before"
        msg = f"{operation} needs a field of sequences: {what}"
        raise ValueError(msg)

    def _fill(self, operation: str, name: str, value: float | None) -> float:
        if value is not None:
            return float(_arguments.real("value", value))
        encoder = self._made_sequences(name)
        if encoder is None or encoder is True:
            return 0.0
        if encoder.pad is None:
            msg = f"{operation} knows no padding token to fill in; pass value="
            raise ValueError(msg)
        return float(encoder.pad)


def _is_sequence(rule: str) -> bool:
    return rule not in ("text", "bytes", "fixed")


def _settings(dtype: str) -> dict[str, Any]:
    return {
        "dtype": dtype,
        "max_length": None,
        "keep_end": False,
        "length": None,
        "multiple": None,
        "left": False,
        "fill": 0.0,
        "mask": False,
    }


class _Tokenizer(NamedTuple):
    """A tokenizer as it is written, and how it is used."""

    json: str
    name: str
    pad: int | None
    add_special_tokens: bool = True
    max_length: int | None = None
    left: bool = False
    # Whether what it says of truncation was left there by a call, and is none of its own.
    forget_truncation: bool = False

    @property
    def _native(self) -> Any:  # noqa: ANN401 - a class that need not be compiled
        native = getattr(_feedline, "NativeTokenizer", None)
        if native is None:
            msg = "this build of feedline has no tokenizers (cargo feature `tokenizers`)"
            raise NotImplementedError(msg)
        settings = {
            "add_special_tokens": self.add_special_tokens,
            "max_length": self.max_length,
            "left": self.left,
            "forget_truncation": self.forget_truncation,
        }
        return native(self.json, settings)


Encoder = Vocabulary | _Tokenizer


def _tokenizer_of(given: Any) -> _Tokenizer:  # noqa: ANN401 - checked
    if isinstance(given, (str, os.PathLike)):
        path = Path(given)
        path = path / "tokenizer.json" if path.is_dir() else path
        try:
            made = _Tokenizer(path.read_text(encoding="utf-8"), repr(path.name), None)
            return made._replace(pad=_pad_of(made))
        except ValueError as error:
            msg = f"`{path}`: {error}"
            raise ValueError(msg) from error
    backend = getattr(given, "backend_tokenizer", None)
    if backend is not None:
        pad = getattr(given, "pad_token_id", None)
        made = _Tokenizer(backend.to_str(), type(given).__name__, pad, forget_truncation=True)
        return made if pad is not None else made._replace(pad=_pad_of(made))
    to_str = getattr(given, "to_str", None)
    if not callable(to_str):
        hint = "; a slow one of transformers has to be loaded with use_fast=True"
        msg = (
            "tokenizer must be the path of a tokenizer.json, a tokenizers.Tokenizer or a fast "
            f"tokenizer of transformers, got {type(given).__name__}"
            + (hint if hasattr(given, "convert_tokens_to_ids") else "")
        )
        raise TypeError(msg)
    made = _Tokenizer(to_str(), type(given).__name__, None)
    return made._replace(pad=_pad_of(made))


def _pad_of(tokenizer: _Tokenizer) -> int | None:
    """Return the id of the padding token, as the tokenizer says or as it is usually called."""
    native = tokenizer._native
    said = native.pad
    if said is not None:
        return int(said)
    found = (native.id(token) for token in _PADS)
    return next((number for number in found if number is not None), None)


# ---- what recipes call: each makes its pipeline, the first time and again


def _sequences(
    before: PipelineBase,
    field: str,
    encoder: Encoder | None,
    settings: dict[str, Any],
    stages: tuple[str, ...],
) -> Pipeline:
    if encoder is None:
        source = cut_sequences(before._source, field, settings)
    else:
        source = encoder._native.sequences(before._source, field, settings)
    recipe = Recipe(_sequences, (before, field, encoder, settings, stages))
    return pipeline_of(source, named=before._named, stages=stages, recipe=recipe)


def _packed(
    before: PipelineBase,
    field: str,
    lengths: bytes | None,
    settings: dict[str, Any],
    stages: tuple[str, ...],
) -> Pipeline:
    if lengths is None:
        lengths = sequence_lengths(before._source.only([field]) or before._source, field)
    source, padding = pack_sequences(before._source, field, lengths, settings)
    places = len(source) * settings["length"]
    if places:
        share = f"{padding / places:.1%} padding" if padding else "no padding"
        stages = (*stages[:-1], f"{stages[-1].partition(' [')[0]} [{share}]")
    recipe = Recipe(_packed, (before, field, lengths, settings, stages))
    return pipeline_of(source, named=before._named, stages=stages, recipe=recipe)
