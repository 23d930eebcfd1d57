//! From calls to a program, refusing what cannot work.

use std::sync::Arc;

use super::{Input, Program, ProgramError, ProgramOptions, Step};
use crate::image::op::{Erasure, Operation};
use crate::image::{Dtype, Finish, ImageError, Layout};

/// What the finish is made of, while the chain is read.
#[derive(Default)]
struct FinishCalls {
    dtype: Option<Dtype>,
    /// Whether bytes are divided by 255 on their way to floats.
    scale: Option<bool>,
    normal: Option<(Vec<f32>, Vec<f32>)>,
    layout: Layout,
    /// The call after which there are no pixels any more.
    over: Option<&'static str>,
    calls: Vec<String>,
}

impl Program {
    /// Checks a chain and finds out what it delivers.
    pub fn compile(
        steps: impl IntoIterator<Item = Step>,
        options: ProgramOptions,
    ) -> Result<Program, ProgramError> {
        let mut operations: Vec<Arc<dyn Operation>> = Vec::new();
        let mut erasings = Vec::new();
        let mut finishing = FinishCalls::default();
        let mut extent = match options.input {
            Input::Encoded => None,
            Input::Decoded(size) => size,
        };
        let mut channels = options.color.channels();
        for step in steps {
            let operation: Arc<dyn Operation> = match step {
                Step::Operation(operation) => operation,
                Step::Erase(erasing) => {
                    let floats = finishing.dtype.is_some_and(|dtype| dtype != Dtype::U8)
                        || finishing.normal.is_some();
                    if erasing.erasure() == Erasure::Noise && !floats {
                        return Err(ProgramError::NoiseOnBytes);
                    }
                    if finishing.over.is_some() {
                        erasings.push(erasing);
                        continue;
                    }
                    Arc::new(erasing)
                }
                other => {
                    finishing.add(other, channels)?;
                    continue;
                }
            };
            if let Some(after) = finishing.over {
                let (call, after) = (operation.to_string(), after.to_string());
                return Err(ProgramError::TooLate { call, after });
            }
            extent = operation.extent(extent)?;
            channels = operation.channels(channels)?;
            operations.push(operation);
        }
        let fused = super::fuse::fused(&operations);
        let (finish, calls) = finishing.finish(channels)?;
        let program =
            Program { options, operations, fused, finish, erasings, extent, finishing: calls };
        if let (Some(size), Some(last)) = (extent, program.operations.last()) {
            // Found now rather than for every picture.
            program.check_size(&**last, size)?;
        }
        Ok(program)
    }
}

impl FinishCalls {
    fn add(&mut self, step: Step, channels: usize) -> Result<(), ProgramError> {
        match step {
            Step::ToDtype { dtype, scale } => {
                if dtype == Dtype::U8 && self.normal.is_some() {
                    return Err(ProgramError::NormalizedBytes);
                }
                self.calls.push(format!("to_dtype({:?})", name(dtype)));
                self.dtype = Some(dtype);
                // Only the step from bytes to floats scales; later ones find floats.
                if dtype != Dtype::U8 {
                    self.scale.get_or_insert(scale);
                    self.over.get_or_insert("to_dtype");
                }
            }
            Step::Normalize { mut mean, mut std } => {
                if self.normal.is_some() {
                    return Err(ProgramError::Twice { call: "normalize" });
                }
                if self.dtype == Some(Dtype::U8) {
                    return Err(ProgramError::NormalizedBytes);
                }
                for numbers in [&mut mean, &mut std] {
                    if numbers.len() == 1 {
                        *numbers = numbers.repeat(channels);
                    }
                }
                if mean.len() != channels || std.len() != channels {
                    let (means, deviations) = (mean.len(), std.len());
                    let (example_mean, example_std) = if channels == 1 {
                        ("[0.449]", "[0.226]")
                    } else {
                        ("[0.485, 0.456, 0.406]", "[0.229, 0.224, 0.225]")
                    };
                    return Err(ProgramError::Channels {
                        means,
                        deviations,
                        channels,
                        example_mean,
                        example_std,
                    });
                }
                self.calls.push("normalize".into());
                self.normal = Some((mean, std));
                self.over.get_or_insert("normalize");
            }
            Step::Layout(layout) => {
                self.layout = layout;
                let name = if layout == Layout::Chw { "chw" } else { "hwc" };
                self.calls.push(format!("layout({name:?})"));
            }
            Step::Operation(_) | Step::Erase(_) => {}
        }
        Ok(())
    }

    fn finish(self, channels: usize) -> Result<(Finish, Vec<String>), ProgramError> {
        let floats = if self.normal.is_some() { Dtype::F32 } else { Dtype::U8 };
        let dtype = self.dtype.unwrap_or(floats);
        let mut finish = Finish::new(dtype, self.layout, channels);
        if self.scale.unwrap_or(true) {
            finish = finish.scaled();
        }
        if let Some((mean, std)) = self.normal {
            finish = finish.normalized(&mean, &std).map_err(|error| match error {
                ImageError::Finish(error) => ProgramError::Normalize(error),
                other => ProgramError::Image(other),
            })?;
        }
        Ok((finish, self.calls))
    }
}

/// NumPy's name of a number type.
pub(super) fn name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::U8 => "uint8",
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
        Dtype::F32 => "float32",
    }
}
