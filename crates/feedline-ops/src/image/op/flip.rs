//! Mirroring at random.

use super::{Fusible, Operation, OperationError, probability};
use crate::image::action::{Action, Size};
use crate::image::draw::Draw;

macro_rules! flips {
    ($($name:ident, $call:literal, $action:ident, $what:literal;)*) => {$(
        #[doc = $what]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            p: f64,
        }

        impl $name {
            /// With probability `p`.
            pub fn new(p: f64) -> Result<$name, OperationError> {
                Ok($name { p: probability($call, p)? })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}(p={})", $call, self.p)
            }
        }

        impl Operation for $name {
            fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
                Ok(before)
            }

            fn fusible(&self) -> Fusible {
                Fusible::Flips
            }

            fn draw(
                &self,
                _size: Size,
                draw: &mut dyn Draw,
                actions: &mut Vec<Action>,
            ) -> Result<(), OperationError> {
                if draw.chance(self.p) {
                    actions.push(Action::$action);
                }
                Ok(())
            }
        }
    )*};
}

flips! {
    RandomHorizontalFlip, "random_horizontal_flip", FlipHorizontally,
        "Swaps left and right of some pictures.";
    RandomVerticalFlip, "random_vertical_flip", FlipVertically,
        "Swaps top and bottom of some pictures.";
}
