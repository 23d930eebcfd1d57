//! A program in words: what is fused, what runs on pixels, how the result is written.

use super::Program;

impl Program {
    /// One line per pass over the pixels, in order.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let calls = |from: usize, to: usize| {
            self.operations[from..to].iter().map(|operation| operation.to_string())
        };
        let all = self.operations.len();
        let mut first: Vec<String> = vec!["decode".into()];
        first.extend(calls(0, self.fused));
        let mut lines = Vec::new();
        let finishing = self.finishing.iter().cloned();
        if self.fused == all {
            first.extend(finishing);
            lines.push(line(first));
        } else {
            lines.push(line(first));
            lines.extend(calls(self.fused, all));
            let last: Vec<String> = finishing.collect();
            if !last.is_empty() {
                lines.push(line(last));
            }
        }
        lines.extend(self.erasings.iter().map(|erasing| erasing.to_string()));
        lines
    }
}

fn line(calls: Vec<String>) -> String {
    let fused = if calls.len() > 1 { ", fused" } else { "" };
    format!("{}{fused}", calls.join(" + "))
}
