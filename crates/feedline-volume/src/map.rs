//! Affine maps of three-dimensional points.

/// `point -> linear * point + offset`, by which a voxel's index becomes a place in millimetres, or a voxel of one
/// volume a place in another.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Map {
    /// Rows of the linear part.
    pub linear: [[f64; 3]; 3],
    /// What is added.
    pub offset: [f64; 3],
}

impl Map {
    /// Every point stays where it is.
    pub const IDENTITY: Map =
        Map { linear: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], offset: [0.0; 3] };

    /// Moves points.
    #[must_use]
    pub fn shift(offset: [f64; 3]) -> Map {
        Map { offset, ..Map::IDENTITY }
    }

    /// Stretches each axis.
    #[must_use]
    pub fn scale(factors: [f64; 3]) -> Map {
        let mut map = Map::IDENTITY;
        for (axis, factor) in factors.into_iter().enumerate() {
            map.linear[axis][axis] = factor;
        }
        map
    }

    /// A linear map about `center`, a point that `to` takes the place of.
    #[must_use]
    pub fn about(linear: [[f64; 3]; 3], center: [f64; 3], to: [f64; 3]) -> Map {
        let turned = Map { linear, offset: [0.0; 3] }.of(center);
        Map { linear, offset: std::array::from_fn(|axis| to[axis] - turned[axis]) }
    }

    /// Where a point goes.
    #[must_use]
    pub fn of(&self, point: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|row| {
            let [a, b, c] = self.linear[row];
            a * point[0] + b * point[1] + c * point[2] + self.offset[row]
        })
    }

    /// First `first`, then this.
    #[must_use]
    pub fn after(&self, first: &Map) -> Map {
        let column = |c: usize| -> [f64; 3] {
            std::array::from_fn(|row| {
                (0..3).map(|k| self.linear[row][k] * first.linear[k][c]).sum()
            })
        };
        let columns: [[f64; 3]; 3] = std::array::from_fn(column);
        let linear = std::array::from_fn(|row| std::array::from_fn(|c| columns[c][row]));
        Map { linear, offset: self.of(first.offset) }
    }

    /// The determinant of the linear part.
    #[must_use]
    pub fn determinant(&self) -> f64 {
        let [[a, b, c], [d, e, f], [g, h, i]] = self.linear;
        a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    }

    /// The map back; none of a map that is singular, or has numbers that are not finite.
    #[must_use]
    pub fn inverse(&self) -> Option<Map> {
        let [[a, b, c], [d, e, f], [g, h, i]] = self.linear;
        let over = 1.0 / self.determinant();
        let linear = [
            [(e * i - f * h) * over, (c * h - b * i) * over, (b * f - c * e) * over],
            [(f * g - d * i) * over, (a * i - c * g) * over, (c * d - a * f) * over],
            [(d * h - e * g) * over, (b * g - a * h) * over, (a * e - b * d) * over],
        ];
        let back = Map { linear, offset: [0.0; 3] };
        let offset = back.of(self.offset).map(|x| -x);
        let back = Map { offset, ..back };
        back.is_finite().then_some(back)
    }

    /// Whether all its numbers are finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.linear.iter().flatten().chain(&self.offset).all(|number| number.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_inverse_leads_back(
            numbers in proptest::array::uniform12(-3f64..3.0),
            point in proptest::array::uniform3(-100f64..100.0),
        ) {
            let [a, b, c, d, e, f, g, h, i, x, y, z] = numbers;
            let map = Map { linear: [[a, b, c], [d, e, f], [g, h, i]], offset: [x, y, z] };
            prop_assume!(map.determinant().abs() > 1e-2);
            let back = map.inverse().expect("not singular");
            let there = map.of(point);
            for (got, wanted) in back.of(there).into_iter().zip(point) {
                prop_assert!((got - wanted).abs() < 1e-6, "{got} {wanted}");
            }
            for (got, wanted) in back.after(&map).of(point).into_iter().zip(point) {
                prop_assert!((got - wanted).abs() < 1e-6, "{got} {wanted}");
            }
        }
    }

    #[test]
    fn a_singular_map_has_no_inverse() {
        assert_eq!(Map::scale([1.0, 0.0, 2.0]).inverse(), None);
        assert_eq!(Map::scale([1.0, f64::NAN, 2.0]).inverse(), None);
    }
}
