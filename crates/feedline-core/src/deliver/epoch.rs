//! The iterator over one epoch.

use crate::assemble::Batch;
use crate::error::Error;

use super::{EpochToken, Loader};

/// The batches of one epoch. Dropping it half-way cancels the rest.
#[derive(Debug)]
pub struct Epoch<'a> {
    loader: &'a Loader,
    token: EpochToken,
    /// Set by errors that end the epoch, as opposed to those that cost a batch.
    over: bool,
}

impl<'a> Epoch<'a> {
    pub(super) fn new(loader: &'a Loader, token: EpochToken) -> Epoch<'a> {
        Epoch { loader, token, over: false }
    }
}

impl Iterator for Epoch<'_> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.loader.next(self.token);
        let goes_on = match &next {
            None => false,
            Some(Ok(_)) => true,
            Some(Err(error)) => !error.ends_the_epoch(),
        };
        self.over = !goes_on;
        next
    }

    /// Exact, unless the dataset is iterable: a batch that cannot be made counts, as it comes as an error.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = if self.over { Some(0) } else { self.loader.left_of(self.token) };
        let Some(left) = left else { return (0, None) };
        (usize::try_from(left).unwrap_or(usize::MAX), usize::try_from(left).ok())
    }
}

impl std::iter::FusedIterator for Epoch<'_> {}

impl Drop for Epoch<'_> {
    fn drop(&mut self) {
        self.loader.cancel(self.token);
    }
}
