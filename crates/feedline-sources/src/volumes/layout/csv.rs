//! Tables of text: RFC 4180, with commas, semicolons or tabs.

/// The rows of a table. What separates columns is told by the first one.
pub(super) fn rows(text: &str) -> Result<Vec<Vec<String>>, String> {
    let head = text.lines().next().unwrap_or_default();
    let between = [',', ';', '\t'].into_iter().max_by_key(|mark| {
        // Of equally many the first counts.
        (head.matches(*mark).count(), *mark == ',')
    });
    let between = between.unwrap_or(',');
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut letters = text.chars().peekable();
    // Within quotes; a cell that began with one.
    let (mut quoted, mut was_quoted) = (false, false);
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if cell.is_empty() && !was_quoted => (quoted, was_quoted) = (true, true),
            _ if quoted => cell.push(letter),
            '\r' if letters.peek() == Some(&'\n') => {}
            letter if letter == between => {
                row.push(std::mem::take(&mut cell));
                was_quoted = false;
            }
            '\n' => {
                row.push(std::mem::take(&mut cell));
                was_quoted = false;
                rows.push(std::mem::take(&mut row));
            }
            _ => cell.push(letter),
        }
    }
    if quoted {
        return Err(format!("has a quotation mark in row {} that is not closed", rows.len() + 1));
    }
    if !cell.is_empty() || was_quoted || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    // Empty lines are no rows.
    rows.retain(|row| row.iter().any(|cell| !cell.trim().is_empty()));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_line_ends_and_separators_are_those_of_the_standard() {
        let got = rows("image,mask\r\n\"a,1.nii\",\"b \"\"x\"\".nii\"\n\nc,d").unwrap();
        assert_eq!(got, [["image", "mask"], ["a,1.nii", "b \"x\".nii"], ["c", "d"]]);
        assert_eq!(rows("a;b\n1,5;2").unwrap(), [["a", "b"], ["1,5", "2"]]);
        assert_eq!(rows("a\tb\n1\t").unwrap(), [["a", "b"], ["1", ""]]);
        assert!(rows("a,b\n\"1,2\n").is_err());
    }
}
