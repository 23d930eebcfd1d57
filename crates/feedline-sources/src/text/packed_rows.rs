//! Documents packed into rows of one length, as a dataset whose samples are the rows.

use std::sync::{Arc, Mutex};

use feedline_core::plan::{Key, Shuffle};
use feedline_core::{
    Cause, DType, Dataset, Field, Form, Sample, SampleIndex, SampleKey, Scratch, Stage,
};
use feedline_text::TextError;
use feedline_text::packing::{Packing, PackingMethod, Piece};

use super::SequenceError;
use crate::SourceError;
use crate::sync::lock;

/// How documents are packed.
#[derive(Clone, Debug)]
pub struct PackedRowsOptions {
    /// Tokens of a row.
    pub length: u32,
    /// Which documents share a row.
    pub method: PackingMethod,
    /// What fills the rest of a row, converted to the field's dtype.
    pub fill: f64,
    /// A token behind each document.
    pub end: Option<i64>,
    /// Whether documents are packed anew for each epoch, in an order that depends on the loader's seed and the epoch.
    pub reshuffle: bool,
}

/// Rows of documents: the tokens, and for each its document in the row (counted from 1, 0 is padding), its place there, and whether
/// the token behind it belongs to the same document (what a language model's loss counts).
///
/// It is made of the lengths of all documents, so samples are rows: any of them is made alone, and order, ranks and states are the
/// plan's own. A document that is longer than a row is made again for each row it has a part in, unless its dataset reads parts
/// ([`Dataset::read_part`]).
pub struct PackedRows {
    inner: Arc<dyn Dataset>,
    field: usize,
    lengths: Arc<[u32]>,
    packing: Arc<Packing>,
    options: PackedRowsOptions,
    dtype: DType,
    fields: Vec<Field>,
    /// Those of the last epochs, where each has its own.
    epochs: Mutex<Vec<EpochPacking>>,
    scratches: Mutex<Vec<Scratch>>,
}

struct EpochPacking {
    seed: u64,
    epoch: u64,
    packing: Arc<Packing>,
}

/// Epochs whose packing is kept: the one that is delivered and the one that is begun.
const EPOCHS: usize = 2;

impl PackedRows {
    /// Packs the sequences of a field of `inner`, of which these are the lengths ([`measure`](super::measure)).
    pub fn new(
        inner: Arc<dyn Dataset>,
        field: usize,
        mut lengths: Vec<u32>,
        options: PackedRowsOptions,
    ) -> Result<PackedRows, PackedRowsError> {
        let fields = inner.fields();
        let count = fields.len();
        let given = fields.get(field).ok_or(SequenceError::NoField { field, count })?;
        let is_sequence = matches!(given.form(), Form::Ragged { shape, .. } if **shape == [None]);
        let dtype = given.dtype();
        if !is_sequence || !matches!(dtype, DType::I64 | DType::I32 | DType::U32 | DType::U16) {
            return Err(SequenceError::NotASequence { field: given.name().to_string() }.into());
        }
        if lengths.len() as u64 != inner.len() {
            let (first, second) = (given.name().to_string(), "lengths".to_string());
            let (first_len, second_len) = (inner.len(), lengths.len() as u64);
            return Err(SourceError::Lengths { first, first_len, second, second_len }.into());
        }
        if options.end.is_some() {
            lengths.iter_mut().for_each(|length| *length = length.saturating_add(1));
        }
        let packing = Arc::new(Packing::new(&lengths, None, options.length, options.method)?);
        let row = || [options.length as usize];
        let fields = vec![
            Field::fixed(given.name(), dtype, row()),
            Field::fixed("segment_ids", DType::I64, row()),
            Field::fixed("position_ids", DType::I64, row()),
            Field::fixed("loss_mask", DType::Bool, row()),
        ];
        Ok(PackedRows {
            inner,
            field,
            lengths: lengths.into(),
            packing,
            options,
            dtype,
            fields,
            epochs: Mutex::default(),
            scratches: Mutex::default(),
        })
    }

    /// The packing of the documents in their own order.
    #[must_use]
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    /// The packing that an epoch has.
    fn of_epoch(&self, seed: u64, epoch: u64) -> Result<Arc<Packing>, Cause> {
        if !self.options.reshuffle {
            return Ok(Arc::clone(&self.packing));
        }
        // Under the lock: whoever else needs it would only make it again.
        let mut epochs = lock(&self.epochs);
        if let Some(found) = epochs.iter().find(|made| (made.seed, made.epoch) == (seed, epoch)) {
            return Ok(Arc::clone(&found.packing));
        }
        let count = self.lengths.len() as u64;
        let shuffle = Shuffle::new(count, Key::new(seed, epoch));
        let order: Vec<u32> = (0..count).map(|place| shuffle.apply(place) as u32).collect();
        let PackedRowsOptions { length, method, .. } = self.options;
        let packing = Arc::new(Packing::new(&self.lengths, Some(&order), length, method)?);
        if epochs.len() >= EPOCHS {
            epochs.remove(0);
        }
        epochs.push(EpochPacking { seed, epoch, packing: Arc::clone(&packing) });
        Ok(packing)
    }

    fn scratch(&self) -> Result<Scratch, Cause> {
        let spare = lock(&self.scratches).pop();
        match spare {
            Some(scratch) => Ok(scratch),
            None => Ok(Scratch::new(self.inner.fields())?),
        }
    }

    /// Writes the tokens of a piece, which is all of `out`.
    fn write_piece(
        &self,
        piece: &Piece,
        scratch: &mut Scratch,
        key: SampleKey,
        out: &mut [u8],
    ) -> Result<(), Cause> {
        let document = SampleIndex(u64::from(piece.document));
        let told = |cause: Cause| -> Cause {
            let origin = self.inner.origin(document).unwrap_or_else(|| format!("{}", document.0));
            format!("document {origin}: {cause}").into()
        };
        let size = self.dtype.size();
        let expected = self.lengths[piece.document as usize] as usize;
        let stored = expected - usize::from(self.options.end.is_some());
        let held = stored.saturating_sub(piece.start as usize).min(out.len() / size) * size;
        let (from_document, end) = out.split_at_mut(held);
        if let (false, Some(token)) = (end.is_empty(), self.options.end) {
            self.dtype.fill(token as f64, end);
        }
        if self.inner.read_part(document, self.field, piece.start, from_document).map_err(told)? {
            return Ok(());
        }
        let given = scratch.read(&*self.inner, document, key).map_err(told)?;
        let tokens = given.bytes(self.field);
        let got = tokens.len() / size + usize::from(self.options.end.is_some());
        if got != expected {
            let what = format!(
                "it had {expected} tokens when rows were packed and has {got} now; pack what does not change from \
                 epoch to epoch, and open files again that have changed"
            );
            return Err(told(what.into()));
        }
        let start = piece.start as usize * size;
        if held > 0 {
            from_document.copy_from_slice(&tokens[start..start + held]);
        }
        Ok(())
    }
}

/// Why documents cannot be packed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackedRowsError {
    /// The field holds no tokens.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// Lengths do not fit the documents.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Rows cannot be made.
    #[error(transparent)]
    Packing(#[from] TextError),
}

impl Dataset for PackedRows {
    fn len(&self) -> u64 {
        self.packing.rows()
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let (row, length) = (sample.index().0, self.options.length as usize);
        let key = sample.key();
        let packing = self.of_epoch(key.seed, key.epoch)?;
        let mut pieces = Vec::new();
        packing.row(row, &mut pieces);
        if pieces.is_empty() {
            return Err(format!("there is no row {row}; there are {}", packing.rows()).into());
        }
        sample.begin(Stage::Transform);
        let documents = pieces.iter().map(|piece| SampleIndex(u64::from(piece.document)));
        self.inner.prefetch(&mut { documents });
        let mut scratch = self.scratch()?;
        let size = self.dtype.size();
        let tokens = sample.view_bytes(0)?;
        let mut at = 0;
        for piece in &pieces {
            let end = at + piece.len as usize;
            self.write_piece(piece, &mut scratch, key, &mut tokens[at * size..end * size])?;
            at = end;
        }
        self.dtype.fill(self.options.fill, &mut tokens[at * size..]);
        scratch.shrink();
        lock(&self.scratches).push(scratch);
        sample.count_padding(at, length);
        let segments = sample.view::<i64>(1)?;
        let mut at = 0;
        for (segment, piece) in (1..).zip(&pieces) {
            segments[at..at + piece.len as usize].fill(segment);
            at += piece.len as usize;
        }
        segments[at..].fill(0);
        let positions = sample.view::<i64>(2)?;
        let mut at = 0;
        for piece in &pieces {
            let places = &mut positions[at..at + piece.len as usize];
            places.iter_mut().zip(0..).for_each(|(place, number)| *place = number);
            at += piece.len as usize;
        }
        positions[at..].fill(0);
        let mask = sample.view_bytes(3)?;
        let mut at = 0;
        for piece in &pieces {
            let last = at + piece.len as usize - 1;
            mask[at..last].fill(1);
            mask[last] = 0;
            at = last + 1;
        }
        mask[at..].fill(0);
        Ok(())
    }

    /// The first documents of the row.
    fn origin(&self, index: SampleIndex) -> Option<String> {
        if self.options.reshuffle {
            return Some(format!("packed row {}", index.0));
        }
        let mut pieces = Vec::new();
        self.packing.row(index.0, &mut pieces);
        let origin = |piece: &Piece| self.inner.origin(SampleIndex(u64::from(piece.document)));
        let mut origins: Vec<String> = pieces.iter().take(3).filter_map(origin).collect();
        if pieces.len() > 3 {
            origins.push(format!("and {} more", pieces.len() - 3));
        }
        Some(format!("packed row {}: {}", index.0, origins.join(", ")))
    }
}

impl std::fmt::Debug for PackedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedRows")
            .field("rows", &self.packing.rows())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
