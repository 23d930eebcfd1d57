//! Documents of Megatron's token shards.

use std::path::PathBuf;

use feedline_core::{Cause, DType, Dataset, Field, Ragged, Sample, SampleIndex, Stage};

use super::megatron::MegatronIndex;
use super::shard::{TokenOptions, TokenShards, wrong};
use crate::{SourceError, escaped};

/// Documents as their index files list them: the field `tokens`, of `int64`, packed in batches.
#[derive(Debug)]
pub struct TokenDocuments {
    shards: TokenShards,
    /// The first token of each sequence, and how many it has.
    sequences: Vec<(u64, u32)>,
    /// The first sequence of each document; then how many there are.
    documents: Vec<u64>,
}

impl TokenDocuments {
    /// Opens shards, each with an index beside it.
    pub fn open(paths: &[PathBuf], options: &TokenOptions) -> Result<TokenDocuments, SourceError> {
        let (shards, indexes) = TokenShards::open(paths, options)?;
        let (mut sequences, mut documents) = (Vec::new(), Vec::new());
        for (number, (index, path)) in indexes.into_iter().zip(paths).enumerate() {
            let Some(index) = index else {
                let what =
                    "there is no .idx beside it, which says where documents are; take windows";
                return Err(wrong(path, what.to_string()));
            };
            check(&index, shards.first(number + 1) - shards.first(number))
                .map_err(|what| wrong(&path.with_extension("idx"), what))?;
            let (first, before) = (shards.first(number), sequences.len() as u64);
            sequences.extend(index.sequences.iter().map(|(start, len)| (first + start, *len)));
            let ends = index.documents.len().saturating_sub(1);
            documents.extend(index.documents[..ends].iter().map(|first| before + first));
            if let Some(last) =
                index.documents.last().filter(|last| before + **last < sequences.len() as u64)
            {
                // Sequences behind the last document belong to none.
                sequences.truncate((before + last) as usize);
            }
        }
        documents.push(sequences.len() as u64);
        Ok(TokenDocuments { shards, sequences, documents })
    }

    /// The sequences of a document.
    fn sequences(&self, index: SampleIndex) -> Option<&[(u64, u32)]> {
        let document = usize::try_from(index.0).ok()?;
        let (first, end) = (*self.documents.get(document)?, *self.documents.get(document + 1)?);
        self.sequences.get(first as usize..end as usize)
    }

    /// How many tokens a document has.
    #[must_use]
    pub fn length(&self, index: SampleIndex) -> Option<u64> {
        Some(self.sequences(index)?.iter().map(|(_, len)| u64::from(*len)).sum())
    }
}

/// Refuses documents that would be another shard's, or take more memory than the shard, which has so many tokens.
fn check(index: &MegatronIndex, tokens: u64) -> Result<(), String> {
    match index.documents.first() {
        Some(0) => {}
        Some(first) => {
            return Err(format!(
                "its first document begins with sequence {first}, not with 0, so the sequences before it are in none; write \
                 the index again"
            ));
        }
        None => return Err("it lists no documents; take windows, or write it again".to_string()),
    }
    for (number, ends) in index.documents.windows(2).enumerate() {
        let sequences = &index.sequences[ends[0] as usize..ends[1] as usize];
        let sum: u64 = sequences.iter().map(|(_, length)| u64::from(*length)).sum();
        if sum > tokens {
            return Err(format!(
                "document {number} is said to have {sum} tokens, and the .bin has {tokens}: its sequences overlap; write \
                 the index again"
            ));
        }
    }
    Ok(())
}

impl Dataset for TokenDocuments {
    fn len(&self) -> u64 {
        self.documents.len().saturating_sub(1) as u64
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::ragged("tokens", DType::I64, [None], Ragged::Packed)]
    }

    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let sequences = self.sequences(sample.index()).ok_or("there is no such document")?;
        // Only here is the place known, so tokens are loaded here rather than in `load`.
        sample.begin(Stage::Load);
        let total = sequences.iter().map(|(_, len)| *len as usize).sum();
        let mut rest = sample.view_shaped::<i64>(0, &[total])?;
        for (start, len) in sequences {
            let (here, behind) = rest.split_at_mut(*len as usize);
            self.shards.read(*start, here)?;
            rest = behind;
        }
        Ok(())
    }

    fn prefetch(&self, indices: &mut dyn Iterator<Item = SampleIndex>) {
        for index in indices {
            for (start, len) in self.sequences(index).unwrap_or(&[]) {
                self.shards.prefetch(*start, *len as usize);
            }
        }
    }

    fn look_ahead(&self) -> usize {
        self.shards.look_ahead()
    }

    fn expect(&self, indices: &[SampleIndex]) {
        for index in indices {
            for (start, len) in self.sequences(*index).unwrap_or(&[]) {
                self.shards.expect(*start, u64::from(*len));
            }
        }
    }

    fn known_length(&self, index: SampleIndex, _field: usize) -> Option<u64> {
        self.length(index)
    }

    /// Of a long document, what a row of it takes is read, not the whole for each row.
    fn read_part(
        &self,
        index: SampleIndex,
        _field: usize,
        start: u64,
        out: &mut [u8],
    ) -> Result<bool, Cause> {
        let Ok(mut rest) = bytemuck::try_cast_slice_mut::<u8, i64>(out) else { return Ok(false) };
        let mut before = start;
        for (first, len) in self.sequences(index).ok_or("there is no such document")? {
            let Some(here) = u64::from(*len).checked_sub(before) else {
                before -= u64::from(*len);
                continue;
            };
            let (now, behind) = rest.split_at_mut((here as usize).min(rest.len()));
            self.shards.read(first + before, now)?;
            (rest, before) = (behind, 0);
            if rest.is_empty() {
                break;
            }
        }
        if rest.is_empty() { Ok(true) } else { Err("the document is shorter than that".into()) }
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.length(index)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        let (start, _) = self.sequences(index)?.first()?;
        let (path, token) = self.shards.place(*start)?;
        let path = escaped(path.as_os_str().as_encoded_bytes()).to_string();
        Some(format!("{path}, token {token}"))
    }
}
