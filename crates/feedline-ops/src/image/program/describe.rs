//! A program in words: what is fused, what runs on pixels, how the result is written.

use super::fuse;
use super::{Input, Program};

impl Program {
    /// One line per pass over the pixels, in order; none where nothing is done to them.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let calls = |from: usize, to: usize| {
            self.operations[from..to].iter().map(|operation| operation.to_string())
        };
        let all = self.operations.len();
        let mut first: Vec<String> = match self.options.input {
            Input::Encoded => vec!["decode".into()],
            Input::Decoded(_) => Vec::new(),
        };
        first.extend(calls(0, self.fused));
        let mut lines = Vec::new();
        let finishing = self.finishing.iter().cloned();
        if self.fused == all {
            lines.push(line(first.into_iter().chain(finishing)));
        } else {
            let last = all - fuse::finished(&self.operations[self.fused..]);
            lines.push(line(first));
            lines.extend(calls(self.fused, last));
            lines.push(line(calls(last, all).chain(finishing)));
        }
        lines.extend(self.erasings.iter().map(|erasing| erasing.to_string()));
        lines.retain(|line| !line.is_empty());
        lines
    }
}

fn line(calls: impl IntoIterator<Item = String>) -> String {
    let calls: Vec<String> = calls.into_iter().collect();
    let fused = if calls.len() > 1 { ", fused" } else { "" };
    format!("{}{fused}", calls.join(" + "))
}
