//! Which way the axes of a volume point, in the letters that radiology uses.

/// Which way each axis points: R or L (to the patient's right or left), A or P (front or back), S or I (head or
/// feet). Letters are written in the order of files, x first, as nibabel and MONAI write them: in memory that is
/// the order of axes backwards.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Orientation {
    /// For each axis of the array, which world axis it is nearest to, and whether it points along it.
    pub(crate) axes: [(usize, bool); 3],
}

/// The letters of each world axis: along it, against it.
const LETTERS: [(char, char); 3] = [('R', 'L'), ('A', 'P'), ('S', 'I')];

impl Orientation {
    /// Of three letters such as `"RAS"`. None, if they do not name each direction once.
    #[must_use]
    pub fn of_codes(codes: &str) -> Option<Orientation> {
        let letters: Vec<char> = codes.chars().collect();
        let [x, y, z] = letters[..] else { return None };
        let mut axes = [(0, true); 3];
        for (axis, letter) in [z, y, x].into_iter().enumerate() {
            let world = LETTERS.iter().position(|(a, b)| *a == letter || *b == letter)?;
            axes[axis] = (world, LETTERS[world].0 == letter);
        }
        let mut seen = axes.map(|(world, _)| world);
        seen.sort_unstable();
        (seen == [0, 1, 2]).then_some(Orientation { axes })
    }

    /// Its letters.
    #[must_use]
    pub fn codes(&self) -> String {
        let letter = |(world, along): (usize, bool)| {
            let (a, b) = LETTERS[world];
            if along { a } else { b }
        };
        self.axes.iter().rev().map(|axis| letter(*axis)).collect()
    }

    /// Of the columns of an affine: each axis goes to the world axis that it is nearest to, the clearest first.
    pub(crate) fn of_columns(columns: [[f64; 3]; 3]) -> Orientation {
        let length = |column: [f64; 3]| column.iter().map(|x| x * x).sum::<f64>().sqrt();
        let mut axes = [(0, true); 3];
        let (mut worlds, mut left) = (vec![0, 1, 2], vec![0, 1, 2]);
        while !left.is_empty() {
            let mut best = (left[0], worlds[0], -1.0);
            for &axis in &left {
                for &world in &worlds {
                    let share = columns[axis][world].abs() / length(columns[axis]);
                    if share > best.2 {
                        best = (axis, world, share);
                    }
                }
            }
            let (axis, world, _) = best;
            axes[axis] = (world, columns[axis][world] > 0.0);
            left.retain(|other| *other != axis);
            worlds.retain(|other| *other != world);
        }
        Orientation { axes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_and_written() {
        for codes in ["RAS", "LPS", "ASL", "IRP"] {
            let orientation = Orientation::of_codes(codes).expect("three directions");
            assert_eq!(orientation.codes(), codes);
        }
        for codes in ["", "RA", "RAA", "RLS", "XYZ", "ras", "RASS"] {
            assert_eq!(Orientation::of_codes(codes), None, "{codes}");
        }
    }

    #[test]
    fn an_oblique_axis_is_named_by_the_nearest_direction() {
        let orientation =
            Orientation::of_columns([[0.1, 0.2, -3.0], [0.3, 2.0, 0.1], [-1.0, 0.1, 0.2]]);
        assert_eq!(orientation.codes(), "LAI");
    }
}
