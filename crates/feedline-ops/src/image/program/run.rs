//! Doing what was drawn.

use super::workbench::{framed, size_of};
use super::{Drawn, Program, ProgramError, Workbench, erase, fuse};
use crate::image::action::Size;
use crate::image::draw::Draw;
use crate::image::fused::{fused_decoded, picture_decoded};
use crate::image::{Decoder, Flips, Picture, PictureSpec};

/// A picture that a program has begun with.
#[derive(Debug)]
pub struct Begun {
    /// Set where the decoder does everything.
    fused: Option<PictureSpec>,
    /// How many actions the decoder has done.
    done: usize,
}

impl Begun {
    /// Whether the decoder does everything, and has not begun yet.
    #[must_use]
    pub fn is_fused(&self) -> bool {
        self.fused.is_some()
    }
}

impl Program {
    /// The size of the picture that operations see first.
    #[must_use]
    pub fn size(&self, decoder: &Decoder<'_>) -> Size {
        let (width, height) = decoder.header().size(self.options.orientation);
        Size::new(height as usize, width as usize)
    }

    /// Draws what is done to a picture of this size.
    pub fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        drawn: &mut Drawn,
    ) -> Result<(), ProgramError> {
        drawn.actions.clear();
        drawn.erasures.clear();
        let (mut now, mut done) = (size, 0);
        for operation in &self.operations {
            operation.draw(now, draw, &mut drawn.actions)?;
            for action in &drawn.actions[done..] {
                now = action.size_after(now);
                self.check_size(&**operation, now)?;
            }
            done = drawn.actions.len();
        }
        for erasing in &self.erasings {
            let area = erasing.area(now, draw);
            drawn.erasures.extend(area.map(|area| (area, erasing.erasure())));
        }
        Ok(())
    }

    /// Begins with a picture: where pixels are worked on, decodes it.
    pub fn begin(
        &self,
        decoder: &Decoder<'_>,
        drawn: &Drawn,
        bench: &mut Workbench,
    ) -> Result<Begun, ProgramError> {
        let (spec, done) = fuse::spec(&drawn.actions, self.size(decoder), &self.options);
        if done == drawn.actions.len() {
            return Ok(Begun { fused: Some(spec), done });
        }
        decoder.picture(&spec, &mut bench.picture, &mut bench.buffers)?;
        Ok(Begun { fused: None, done })
    }

    /// Does the rest and writes the result to `out`, which has the [finish's](Program::finish) number of
    /// bytes. Noise is drawn as it is painted.
    pub fn end(
        &self,
        begun: Begun,
        decoder: &Decoder<'_>,
        drawn: &Drawn,
        draw: &mut dyn Draw,
        bench: &mut Workbench,
        out: &mut [u8],
    ) -> Result<(), ProgramError> {
        let Workbench { buffers, picture, tools } = bench;
        match begun.fused {
            Some(spec) => decoder.fused(&spec, &self.finish, out, buffers)?,
            None => {
                let (rest, flips) = fuse::last_flips(&drawn.actions[begun.done..]);
                for action in rest {
                    tools.apply(action, picture)?;
                }
                self.write(picture, flips, out)?;
            }
        }
        self.erase(drawn, drawn.size_after(self.size(decoder)), draw, out);
        Ok(())
    }

    /// Decodes a whole picture, for several programs to work on.
    pub fn decode(
        &self,
        decoder: &Decoder<'_>,
        bench: &mut Workbench,
        picture: &mut Picture,
    ) -> Result<(), ProgramError> {
        let spec = PictureSpec {
            exact: true,
            color: self.options.color,
            orientation: self.options.orientation,
            ..PictureSpec::default()
        };
        Ok(decoder.picture(&spec, picture, &mut bench.buffers)?)
    }

    /// As [`begin`](Program::begin) and [`end`](Program::end), for a picture that is decoded already.
    pub fn run_decoded(
        &self,
        decoded: &Picture,
        drawn: &Drawn,
        draw: &mut dyn Draw,
        bench: &mut Workbench,
        out: &mut [u8],
    ) -> Result<(), ProgramError> {
        let Workbench { picture, tools, buffers } = bench;
        let actions = &drawn.actions[..];
        let (spec, done) = fuse::spec(actions, size_of(decoded), &self.options);
        if done == actions.len() {
            fused_decoded(decoded, &spec, &self.finish, out, buffers)?;
        } else {
            let done = match framed(decoded, actions, picture) {
                Some(framed) => framed,
                None => {
                    picture_decoded(decoded, &spec, picture, buffers)?;
                    done
                }
            };
            let (rest, flips) = fuse::last_flips(&actions[done..]);
            for action in rest {
                tools.apply(action, picture)?;
            }
            self.write(picture, flips, out)?;
        }
        self.erase(drawn, drawn.size_after(size_of(decoded)), draw, out);
        Ok(())
    }

    /// Moves a mask (one channel) along with its picture of `size`.
    pub fn run_mask(
        &self,
        mask: &mut Picture,
        size: Size,
        drawn: &Drawn,
        bench: &mut Workbench,
    ) -> Result<(), ProgramError> {
        if size_of(mask) != size {
            return Err(ProgramError::MaskSize { mask: size_of(mask), picture: size });
        }
        for action in &drawn.actions {
            bench.tools.apply_to_mask(action, mask)?;
        }
        Ok(())
    }

    fn write(&self, picture: &Picture, flips: Flips, out: &mut [u8]) -> Result<(), ProgramError> {
        let size = (picture.height(), picture.width());
        Ok(self.finish.write_flipped(picture.pixels(), size, flips, out)?)
    }

    fn erase(&self, drawn: &Drawn, size: Size, draw: &mut dyn Draw, out: &mut [u8]) {
        for (area, erasure) in &drawn.erasures {
            erase::erase(out, size, &self.finish, *area, *erasure, draw);
        }
    }
}
