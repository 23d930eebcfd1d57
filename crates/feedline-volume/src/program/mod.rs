//! A chain of operations: what it needs of a volume, and what it makes of it.
//!
//! | file | what |
//! | --- | --- |
//! | `drawn.rs` | everything random of one volume, drawn |
//! | `fuse.rs` | moves that follow each other become one |
//! | `needs.rs` | from the last action to the first: which voxels are needed |
//! | `run.rs` | from the first to the last: the voxels |

mod drawn;
mod fuse;
mod needs;
mod run;

use std::sync::Arc;

use feedline_ops::Draw;

use crate::op::{Operation, Scene, SceneSize};
use crate::{Foreground, Geometry, OperationError, Output};

pub use drawn::Drawn;
pub use run::Workbench;

/// The most voxels of a channel that an operation may make: 8 GiB of floats.
pub(crate) const MOST_VOXELS: usize = 1 << 31;

/// A chain of operations, checked.
#[derive(Clone, Debug)]
pub struct Program {
    operations: Vec<Arc<dyn Operation>>,
    output: Output,
    extent: SceneSize,
    patches: usize,
}

impl Program {
    /// Checks a chain and finds out what it delivers.
    pub fn new(
        operations: Vec<Arc<dyn Operation>>,
        output: Output,
    ) -> Result<Program, OperationError> {
        let mut extent = SceneSize::default();
        let mut several: Option<&Arc<dyn Operation>> = None;
        let mut looking: Option<&Arc<dyn Operation>> = None;
        for operation in &operations {
            extent = operation.extent(extent)?;
            let more = operation.patches() > 1;
            let before = match (operation.looks(), more) {
                (true, _) => looking.or(several),
                (_, true) => several,
                _ => None,
            };
            if let Some(before) = before {
                let (call, before) = (operation.to_string(), before.to_string());
                return Err(OperationError::Twice { call, before });
            }
            if operation.looks() {
                looking = Some(operation);
            }
            if more {
                several = Some(operation);
            }
        }
        let patches = several.map_or(1, |operation| operation.patches());
        Ok(Program { operations, output, extent, patches })
    }

    /// What is known beforehand of results.
    #[must_use]
    pub fn extent(&self) -> SceneSize {
        self.extent
    }

    /// How many patches are made of each volume.
    #[must_use]
    pub fn patches(&self) -> usize {
        self.patches
    }

    /// The number types of results.
    #[must_use]
    pub fn output(&self) -> Output {
        self.output
    }

    /// The shape of a result of so many channels (0 for a mask, which has none), with `None` where it varies:
    /// patches if there are several, channels, then the axes.
    #[must_use]
    pub fn dimensions(&self, channels: usize) -> Vec<Option<usize>> {
        let patches = (self.patches > 1).then_some(Some(self.patches));
        let channels = (channels > 0).then_some(Some(channels));
        let sides = (0..3).filter(|axis| self.extent.flat != Some(*axis));
        let sides = sides.map(|axis| self.extent.sides[axis]);
        patches.into_iter().chain(channels).chain(sides).collect()
    }

    /// Whether it must know where the classes of the mask are.
    #[must_use]
    pub fn needs_foreground(&self) -> bool {
        self.operations.iter().any(|operation| operation.needs_foreground())
    }

    /// One line per operation, in order.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        self.operations.iter().map(|operation| operation.to_string()).collect()
    }

    /// Draws what is done to a volume of this geometry, whose image has so many channels. Where the classes of its
    /// mask are must be known if [`Program::needs_foreground`].
    pub fn draw<'a>(
        &'a self,
        geometry: &Geometry,
        channels: usize,
        foreground: Option<&'a Foreground>,
        draw: &mut dyn Draw,
    ) -> Result<Drawn<'a>, OperationError> {
        Drawn::new(self, Scene::new(geometry, channels, foreground), draw)
    }
}
