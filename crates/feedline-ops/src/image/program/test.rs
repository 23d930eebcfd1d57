//! Programs: fusing changes nothing but rounding, and chains that cannot work say so.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Drawn, Program, ProgramError, ProgramOptions, Step, Workbench};
use crate::image::action::{Interpolation, Size};
use crate::image::draw::tests::Splitmix;
use crate::image::op::{
    CenterCrop, Erasure, Grayscale, Operation, RandomCrop, RandomErasing, RandomHorizontalFlip,
    RandomResizedCrop, RandomRotation, RandomVerticalFlip, Resize,
};
use crate::image::{Border, Decoder, Dtype, Layout, Picture};

/// A bitmap file of 24 bits per pixel with values from a generator.
fn bitmap(width: usize, height: usize, seed: u64) -> Vec<u8> {
    let mut draw = Splitmix(seed);
    let stride = (width * 3).next_multiple_of(4);
    let mut file = b"BM".to_vec();
    file.extend(((26 + stride * height) as u32).to_le_bytes());
    file.extend([0, 0, 0, 0, 26, 0, 0, 0, 12, 0, 0, 0]);
    file.extend((width as u16).to_le_bytes());
    file.extend((height as u16).to_le_bytes());
    file.extend([1, 0, 24, 0]);
    use crate::image::draw::Draw;
    file.extend((0..stride * height).map(|_| draw.next_u64() as u8));
    file
}

fn operation(which: usize, side: usize) -> Arc<dyn Operation> {
    let size = Size::new(side, side / 2 + 3);
    let smooth = Interpolation::Bilinear;
    match which % 9 {
        0 => Arc::new(RandomResizedCrop::square(side).unwrap()),
        1 => Arc::new(Resize::exactly(size, smooth, true).unwrap()),
        2 => Arc::new(Resize::shorter(side, None, smooth, true).unwrap()),
        3 => Arc::new(CenterCrop::new(size).unwrap()),
        4 => Arc::new(RandomCrop::new(size, [1, 0, 2, 3], true, [9.0; 3], Border::Edge).unwrap()),
        5 => Arc::new(RandomHorizontalFlip::new(0.7).unwrap()),
        6 => Arc::new(RandomVerticalFlip::new(0.7).unwrap()),
        7 => Arc::new(RandomRotation::new((180.0, 180.0), false, false, None, None).unwrap()),
        _ => Arc::new(RandomCrop::new(size, [0; 4], true, [0.0; 3], Border::Constant).unwrap()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn fusing_changes_pixels_by_rounding_alone(
        chain in proptest::collection::vec((0usize..9, 4usize..40), 0..6),
        width in 1usize..60,
        height in 1usize..60,
        seed in any::<u64>(),
    ) {
        let steps = chain.iter().map(|(which, side)| Step::Operation(operation(*which, *side)));
        let options = ProgramOptions { exact: true, ..ProgramOptions::default() };
        let program = Program::compile(steps.chain([Step::Layout(Layout::Hwc)]), options).unwrap();
        let file = bitmap(width, height, seed);
        let decoder = Decoder::open(&file, &options.limits).unwrap();
        let (mut drawn, mut bench) = (Drawn::default(), Workbench::default());
        let size = program.size(&decoder);
        prop_assert_eq!(size, Size::new(height, width));
        program.draw(size, &mut Splitmix(seed), &mut drawn).unwrap();

        let after = drawn.size_after(size);
        if let Some(extent) = program.extent() {
            prop_assert_eq!(after, extent);
        }
        let mut fused = vec![0; after.height * after.width * 3];
        let begun = program.begin(&decoder, &drawn, &mut bench).unwrap();
        program.end(begun, &decoder, &drawn, &mut Splitmix(0), &mut bench, &mut fused).unwrap();

        let mut picture = Picture::new();
        program.decode(&decoder, &mut bench, &mut picture).unwrap();
        let whole = picture.clone();
        for action in &drawn.actions {
            bench.tools.apply(action, &mut picture).unwrap();
        }
        // Weights of a window, or of mirrored pixels, are rounded apart, and a second resize may do it again.
        let alike = |a: &[u8], b: &[u8]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.abs_diff(*b) <= 2)
        };
        prop_assert!(alike(&fused, picture.pixels()), "{:?}", drawn.actions);

        let mut shared = vec![0; fused.len()];
        program.run_decoded(&whole, &drawn, &mut Splitmix(0), &mut bench, &mut shared).unwrap();
        prop_assert!(alike(&shared, picture.pixels()), "a view: {:?}", drawn.actions);
    }
}

#[test]
fn sizes_and_channels_are_known_where_they_can_be() {
    let compiled = |steps: Vec<Step>| Program::compile(steps, ProgramOptions::default()).unwrap();
    let shorter = || Step::Operation(operation(2, 20));
    assert_eq!(compiled(vec![]).extent(), None);
    assert_eq!(compiled(vec![shorter()]).extent(), None);
    let crop = Step::Operation(Arc::new(CenterCrop::new(Size::new(10, 20)).unwrap()));
    assert_eq!(compiled(vec![crop.clone(), shorter()]).extent(), Some(Size::new(20, 40)));
    let turned = RandomRotation::new((0.0, 9.0), false, true, None, None).unwrap();
    assert_eq!(compiled(vec![crop, Step::Operation(Arc::new(turned))]).extent(), None);
    let gray = Step::Operation(Arc::new(Grayscale::new(1).unwrap()));
    assert_eq!(compiled(vec![gray]).finish().channels(), 1);
}

#[test]
fn steps_in_an_impossible_order_are_refused() {
    let refused =
        |steps: Vec<Step>| Program::compile(steps, ProgramOptions::default()).unwrap_err();
    let normalize = || Step::Normalize { mean: vec![0.5], std: vec![0.5] };
    let floats = || Step::ToDtype { dtype: Dtype::F32, scale: true };
    let flip = || Step::Operation(operation(5, 9));
    assert!(matches!(refused(vec![normalize(), flip()]), ProgramError::TooLate { .. }));
    assert!(matches!(refused(vec![floats(), flip()]), ProgramError::TooLate { .. }));
    let noise = RandomErasing::new(0.5, (0.1, 0.2), (1.0, 1.0), Erasure::Noise).unwrap();
    assert_eq!(refused(vec![Step::Erase(noise.clone())]), ProgramError::NoiseOnBytes);
    assert!(Program::compile([floats(), Step::Erase(noise)], ProgramOptions::default()).is_ok());
    let bytes = Step::ToDtype { dtype: Dtype::U8, scale: true };
    assert_eq!(refused(vec![normalize(), bytes.clone()]), ProgramError::NormalizedBytes);
    assert!(
        Program::compile([bytes, flip()], ProgramOptions::default()).is_ok(),
        "bytes stay pixels"
    );
    let bad = Step::Normalize { mean: vec![0.0; 3], std: vec![0.0; 3] };
    assert!(matches!(refused(vec![bad]), ProgramError::Normalize(_)));
    let two = Step::Normalize { mean: vec![0.0; 2], std: vec![1.0; 2] };
    assert!(matches!(refused(vec![two]), ProgramError::Channels { channels: 3, .. }));
}
