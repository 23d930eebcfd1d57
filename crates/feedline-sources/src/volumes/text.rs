//! Data as text: numbers with white space between them, as NumPy's `fromfile(sep=" ")` reads them.

use feedline_volume::VoxelType;

use super::error::VolumeProblem;

/// `count` numbers, as bytes in this machine's order.
pub(super) fn parse(
    text: &[u8],
    kind: VoxelType,
    count: u64,
    to: &mut Vec<u8>,
) -> Result<(), VolumeProblem> {
    // Each takes a digit, and all but the last something after it.
    if count > text.len() as u64 / 2 + 1 {
        let (size, actual) = (kind.bytes() as u64, text.len() as u64 / 2 + 1);
        return Err(VolumeProblem::Short { expected: count * size, actual: actual * size });
    }
    to.clear();
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for number in 0..count {
        let Some(word) = words.next() else {
            let size = kind.bytes() as u64;
            return Err(VolumeProblem::Short { expected: count * size, actual: number * size });
        };
        let parsed = std::str::from_utf8(word).ok().and_then(|word| one(word, kind, to));
        if parsed.is_none() {
            let shown = crate::escaped(&word[..word.len().min(40)]).to_string();
            let what = format!("number {number} is `{shown}`, which its type does not hold");
            return Err(VolumeProblem::damaged(what));
        }
    }
    Ok(())
}

fn one(word: &str, kind: VoxelType, to: &mut Vec<u8>) -> Option<()> {
    macro_rules! number {
        ($kind:ty) => {
            to.extend_from_slice(&word.parse::<$kind>().ok()?.to_ne_bytes())
        };
    }
    match kind {
        VoxelType::U8 => number!(u8),
        VoxelType::I8 => number!(i8),
        VoxelType::U16 => number!(u16),
        VoxelType::I16 => number!(i16),
        VoxelType::U32 => number!(u32),
        VoxelType::I32 => number!(i32),
        VoxelType::U64 => number!(u64),
        VoxelType::I64 => number!(i64),
        VoxelType::F64 => number!(f64),
        VoxelType::F32 => {
            // By way of a double, as NumPy does it.
            to.extend_from_slice(&(word.parse::<f64>().ok()? as f32).to_ne_bytes());
        }
    }
    Some(())
}
