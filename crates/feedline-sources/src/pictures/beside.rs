//! Masks, boxes and keypoints that move with their picture.

use std::sync::Arc;

use feedline_core::{Cause, DType, Sample, SampleIndex};
use feedline_ops::image::{Program, Size, move_boxes, move_points};

use super::{Masks, Pictures, PicturesError, RowTable, Rows, Shapes, WorkerBuffers};
use crate::Encoded;
use crate::npy::{NpyHeader, write_array};

impl Pictures {
    /// The first part of the samples of `masks` as masks: sample i's for picture i. Where both tell
    /// where their samples come from, the file names must be equal up to the ending.
    pub fn masks(mut self, masks: Arc<dyn Encoded>) -> Result<Pictures, PicturesError> {
        self.check_count("masks", masks.len())?;
        for index in 0..masks.len() {
            let index = SampleIndex(index);
            let (picture, mask) = (self.source.origin(index), masks.origin(index));
            if let (Some(picture), Some(mask)) = (picture, mask)
                && stem(&picture) != stem(&mask)
            {
                return Err(PicturesError::MaskName { index: index.0, picture, mask });
            }
        }
        self.masks = Some(Masks::Beside(masks));
        self.accompanied()
    }

    /// A part of the samples as masks.
    pub fn mask_part(mut self, part: &str) -> Result<Pictures, PicturesError> {
        self.masks = Some(Masks::Part(self.number_of(part)?));
        self.accompanied()
    }

    /// Boxes (x0, y0, x1, y1) of every picture.
    pub fn boxes(mut self, boxes: Arc<RowTable>, rows: Rows) -> Result<Pictures, PicturesError> {
        self.check_count("boxes", boxes.len() as u64)?;
        self.boxes = Some((Shapes::Table(boxes), rows));
        self.accompanied()
    }

    /// Boxes (x0, y0, x1, y1) in a part of the samples: a `.npy` file of shape (n, 4).
    pub fn box_part(mut self, part: &str, rows: Rows) -> Result<Pictures, PicturesError> {
        self.boxes = Some((Shapes::Part(self.number_of(part)?), rows));
        self.accompanied()
    }

    /// Points (x, y) on every picture.
    pub fn keypoints(
        mut self,
        points: Arc<RowTable>,
        rows: Rows,
    ) -> Result<Pictures, PicturesError> {
        self.check_count("keypoints", points.len() as u64)?;
        self.keypoints = Some((Shapes::Table(points), rows));
        self.accompanied()
    }

    /// Points (x, y) in a part of the samples: a `.npy` file of shape (n, 2).
    pub fn keypoint_part(mut self, part: &str, rows: Rows) -> Result<Pictures, PicturesError> {
        self.keypoints = Some((Shapes::Part(self.number_of(part)?), rows));
        self.accompanied()
    }

    /// With its fields as they are now, where all views can move what lies on the image.
    pub(super) fn accompanied(self) -> Result<Pictures, PicturesError> {
        if self.masks.is_some() || self.boxes.is_some() || self.keypoints.is_some() {
            self.views.iter().try_for_each(Program::check_companions)?;
        }
        Ok(self.declared())
    }

    fn check_count(&self, what: &'static str, got: u64) -> Result<(), PicturesError> {
        let pictures = self.source.len();
        if got == pictures { Ok(()) } else { Err(PicturesError::Count { what, got, pictures }) }
    }

    /// Writes what lies beside view `view` of a picture that was `size` before it.
    pub(super) fn write_beside(
        &self,
        own: &[u8],
        size: Size,
        view: usize,
        sample: &mut Sample<'_>,
        memory: &mut WorkerBuffers,
    ) -> Result<(), Cause> {
        let views = self.views.len();
        let program = &self.views[view];
        let mut at = views + usize::from(self.label) + view;
        if self.masks.is_some() {
            let WorkerBuffers { bench, drawn, mask, moved, .. } = memory;
            moved.clone_from(mask);
            program
                .run_mask(moved, size, drawn, bench)
                .map_err(|error| PicturesError::Mask { error })?;
            sample.put_elements(at, &[moved.height(), moved.width()], moved.pixels())?;
            at += views;
        }
        for (what, given, columns) in
            [("boxes", &self.boxes, 4usize), ("keypoints", &self.keypoints, 2)]
        {
            let Some((shapes, rows)) = given else { continue };
            let WorkerBuffers { drawn, numbers, .. } = memory;
            self.read_shapes(what, shapes, columns, sample.index(), own, numbers)?;
            match columns {
                4 => move_boxes(&drawn.actions, size, numbers),
                _ => move_points(&drawn.actions, size, numbers),
            }
            let count = numbers.len() / columns;
            if let Rows::Fixed(expected) = *rows
                && expected != count
            {
                return Err(PicturesError::RowCount { what, got: count, expected }.into());
            }
            sample.put_shaped(at, &[count, columns], numbers)?;
            at += views;
        }
        Ok(())
    }

    fn read_shapes(
        &self,
        what: &'static str,
        shapes: &Shapes,
        columns: usize,
        index: SampleIndex,
        own: &[u8],
        numbers: &mut Vec<f32>,
    ) -> Result<(), Cause> {
        numbers.clear();
        match shapes {
            Shapes::Table(table) => {
                let rows = table.rows(index.0).ok_or(PicturesError::NoLabel)?;
                numbers.extend_from_slice(rows);
            }
            Shapes::Part(part) => {
                let bytes = self.source.part(index, own, *part)?;
                let wrong = |got: String| PicturesError::Shapes { what, columns, got };
                let header = NpyHeader::parse(bytes).map_err(|e| wrong(e.to_string()))?;
                let got = || wrong(format!("{} of shape {:?}", header.dtype(), header.shape()));
                let from = header.data_offset();
                let data = bytes
                    .get(from..from.saturating_add(header.data_bytes()))
                    .ok_or_else(|| wrong("a file that was cut off".into()))?;
                let flat = header.shape().iter().product::<usize>();
                let empty = flat == 0;
                if !empty && (header.shape().len() != 2 || header.shape()[1] != columns) {
                    return Err(got().into());
                }
                let mut native = vec![0u8; data.len()];
                write_array(&header, data, &mut native);
                if !numbers_of(header.dtype(), &native, numbers) {
                    return Err(got().into());
                }
            }
        }
        Ok(())
    }
}

/// Appends the numbers of an array in the machine's byte order; `false` if they are of another kind.
pub(super) fn numbers_of(dtype: DType, bytes: &[u8], numbers: &mut Vec<f32>) -> bool {
    match dtype {
        DType::F32 => {
            numbers.extend(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_ne_bytes(*b)))
        }
        DType::F64 => {
            numbers.extend(bytes.as_chunks::<8>().0.iter().map(|b| f64::from_ne_bytes(*b) as f32));
        }
        DType::I64 => {
            numbers.extend(bytes.as_chunks::<8>().0.iter().map(|b| i64::from_ne_bytes(*b) as f32));
        }
        _ => return false,
    }
    true
}

/// A path's file name without its ending.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}
