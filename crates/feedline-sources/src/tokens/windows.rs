//! Windows of one length out of a stream of tokens.

use std::path::PathBuf;

use feedline_core::{Cause, DType, Dataset, Field, Sample, SampleIndex, Stage};

use super::shard::{TokenOptions, TokenShards};
use crate::{SourceError, escaped};

/// Which windows there are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowOrder {
    /// One behind the other: each token is in one, but for a rest at the end.
    Sequential,
    /// Each begins anywhere, drawn for every epoch and sample, as nanoGPT does it. An epoch has so many; `None`: as many as there
    /// would be sequential ones.
    Random(Option<u64>),
}

/// How windows are taken.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    /// Tokens of a window.
    pub length: usize,
    /// Which ones there are.
    pub order: WindowOrder,
    /// Whether the tokens one further on come along as the field `targets`.
    pub targets: bool,
}

/// Windows of token shards, as `int64`: the fields `tokens` and `targets`.
///
/// All shards are one stream, so a window may begin in one and end in the next. Where a random window begins depends on the loader's
/// seed, the epoch and the sample's number alone: there is no state but the plan's.
#[derive(Debug)]
pub struct TokenWindows {
    shards: TokenShards,
    options: WindowOptions,
    count: u64,
    /// How many places a window may begin at.
    starts: u64,
}

impl TokenWindows {
    /// Opens shards.
    pub fn open(
        paths: &[PathBuf],
        options: &TokenOptions,
        windows: WindowOptions,
    ) -> Result<TokenWindows, SourceError> {
        let (shards, _) = TokenShards::open(paths, options)?;
        let length = windows.length as u64;
        let needed = length.saturating_add(u64::from(windows.targets));
        if length == 0 || shards.len() < needed {
            let tokens = shards.len();
            return Err(SourceError::NoWindow { length, needed, tokens });
        }
        let starts = shards.len() - needed + 1;
        let sequential = (shards.len() - u64::from(windows.targets)) / length;
        let count = match windows.order {
            WindowOrder::Random(Some(count)) => count,
            WindowOrder::Random(None) | WindowOrder::Sequential => sequential,
        };
        Ok(TokenWindows { shards, options: windows, count, starts })
    }

    /// How many tokens there are.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.shards.len()
    }
}

impl Dataset for TokenWindows {
    fn len(&self) -> u64 {
        self.count
    }

    fn fields(&self) -> Vec<Field> {
        let field = |name| Field::fixed(name, DType::I64, [self.options.length]);
        let targets = self.options.targets.then(|| field("targets"));
        std::iter::once(field("tokens")).chain(targets).collect()
    }

    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let start = match self.options.order {
            WindowOrder::Sequential => sample.index().0 * self.options.length as u64,
            WindowOrder::Random(_) => sample.rng().below(self.starts),
        };
        // Only here are the slots known, so tokens are loaded here rather than in `load`.
        sample.begin(Stage::Load);
        let (shards, length) = (&self.shards, self.options.length);
        if !self.options.targets {
            return shards.read(start, sample.view::<i64>(0)?);
        }
        let size = shards.dtype.size();
        shards.stored(start, length + 1, |bytes| {
            shards.dtype.widen(bytes, sample.view::<i64>(0)?);
            shards.dtype.widen(&bytes[size..], sample.view::<i64>(1)?);
            Ok(())
        })?
    }

    /// Where a random window begins is drawn when it is made, so nobody can be told of it.
    fn look_ahead(&self) -> usize {
        match self.options.order {
            WindowOrder::Sequential => self.shards.look_ahead(),
            WindowOrder::Random(_) => 0,
        }
    }

    fn expect(&self, indices: &[SampleIndex]) {
        if self.options.order != WindowOrder::Sequential {
            return;
        }
        let (length, targets) = (self.options.length as u64, u64::from(self.options.targets));
        for index in indices.iter().filter(|index| index.0 < self.count) {
            self.shards.expect(index.0 * length, length + targets);
        }
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        if self.options.order != WindowOrder::Sequential {
            return Some(format!("random window {}", index.0));
        }
        let (path, token) = self.shards.place(index.0.checked_mul(self.options.length as u64)?)?;
        let path = escaped(path.as_os_str().as_encoded_bytes()).to_string();
        Some(format!("{path}, token {token}"))
    }
}
