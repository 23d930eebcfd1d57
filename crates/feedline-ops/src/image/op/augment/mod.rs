//! Learned and random augmentation policies. They choose among the same changes and differ in which, how often and
//! how strong; tables and strengths are torchvision's.

mod aug_mix;
mod auto_augment;
mod change;
mod rand_augment;
mod trivial_augment;

use super::affine::affine;
use super::rotation::rotate;
use super::{Operation, OperationError};

pub use aug_mix::AugMix;
pub use auto_augment::{AutoAugment, AutoAugmentPolicy};
pub use rand_augment::RandAugment;
pub use trivial_augment::TrivialAugmentWide;
