//! The fused kernel against nothing but a full decode.
//!
//! The sides make different things, so what is compared is what they have in common: after the timed
//! passes each makes the same crops, not resized, which must be equal bit by bit.

use anyhow::bail;
use feedline_bench::{Contest, Digest, OrderedDigest, Outcome};
use feedline_ops::image::{
    DecodeBuffers, DecodeOptions, Decoder, Dtype, Finish, Layout, Limits, Picture, PictureSpec,
    Rect, decode,
};

use crate::bench::Bench;
use crate::photos::Photos;

/// What is measured against each other.
pub(crate) const SIDES: [&str; 3] = ["full decode", "fused", "fused whole"];

pub(crate) fn table(bench: &mut Bench, photos: &Photos) -> anyhow::Result<()> {
    let passes = bench.size(6, 1);
    let title = format!(
        "random resized crops of 224, flipped and normalised, float32 CHW, against decoding all and no more: one \
         thread, {} {} photographs of {} KB",
        photos.files.len(),
        photos.kind,
        photos.mean_kilobytes()
    );
    let settings = bench.settings(&title, "photographs", &["fused/full decode>=1.0"])?;
    let mut contest = Contest::new(settings);
    for side in SIDES {
        contest = contest.side(side, move |clock| {
            let mut run = Run::new();
            clock.start()?;
            for pass in 0..passes {
                run.pass(side, photos, pass)?;
            }
            clock.stop()?;
            Ok(Outcome::items(passes * photos.files.len() as u64).digest(run.crops(side, photos)?))
        });
    }
    bench.hold(contest)?;
    Ok(())
}

/// One side alone.
pub(crate) fn spin(side: &str, photos: &Photos, passes: u64) -> anyhow::Result<()> {
    let mut run = Run::new();
    for pass in 0..passes {
        run.pass(side, photos, pass)?;
    }
    Ok(())
}

/// What a worker keeps.
struct Run {
    picture: Picture,
    buffers: DecodeBuffers,
    finish: Finish,
    slot: Vec<u8>,
}

impl Run {
    fn new() -> Self {
        let finish = Finish::new(Dtype::F32, Layout::Chw, 3)
            .scaled()
            .normalized(&[0.485, 0.456, 0.406], &[0.229, 0.224, 0.225])
            .expect("three means and deviations");
        let slot = vec![0; finish.bytes((224, 224))];
        Self { picture: Picture::new(), buffers: DecodeBuffers::default(), finish, slot }
    }

    fn pass(&mut self, side: &str, photos: &Photos, pass: u64) -> anyhow::Result<()> {
        for (number, bytes) in photos.files.iter().enumerate() {
            let mut draw = Draw::new(pass << 32 | number as u64);
            match side {
                "full decode" => decode(bytes, &DecodeOptions::default(), &mut self.picture)?,
                "fused" | "fused whole" => {
                    let decoder = Decoder::open(bytes, &Limits::default())?;
                    let (width, height) = decoder.header().size(false);
                    let crop = (side == "fused").then(|| draw.crop(width, height));
                    let flip_horizontal = draw.unit() < 0.5;
                    let spec = PictureSpec {
                        crop,
                        size: Some((224, 224)),
                        flip_horizontal,
                        ..PictureSpec::default()
                    };
                    decoder.fused(&spec, &self.finish, &mut self.slot, &mut self.buffers)?;
                }
                other => bail!("no side named {other}"),
            }
        }
        Ok(())
    }
}

impl Run {
    /// The same crop of each photograph as the side decodes it.
    fn crops(&mut self, side: &str, photos: &Photos) -> anyhow::Result<Digest> {
        let finish = Finish::new(Dtype::U8, Layout::Hwc, 3);
        let mut digest = OrderedDigest::new();
        for (number, bytes) in photos.files.iter().enumerate() {
            let decoder = Decoder::open(bytes, &Limits::default())?;
            let (width, height) = decoder.header().size(false);
            let crop = Draw::new(number as u64).crop(width, height);
            if side == "full decode" {
                decode(bytes, &DecodeOptions::default(), &mut self.picture)?;
                let (x, width) = (crop.x as usize, crop.width as usize);
                for y in crop.y..crop.y + crop.height {
                    digest.update(&self.picture.row(y as usize)[3 * x..3 * (x + width)]);
                }
            } else {
                let spec = PictureSpec { crop: Some(crop), exact: true, ..PictureSpec::default() };
                let size = (crop.height as usize, crop.width as usize);
                let mut slot = vec![0; finish.bytes(size)];
                decoder.fused(&spec, &finish, &mut slot, &mut self.buffers)?;
                digest.update(&slot);
            }
        }
        Ok(digest.finish())
    }
}

/// Random numbers for crops (splitmix64).
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A crop as torchvision's `RandomResizedCrop` draws it, with its defaults.
    pub(crate) fn crop(&mut self, width: u32, height: u32) -> Rect {
        let (w, h) = (f64::from(width), f64::from(height));
        for _ in 0..10 {
            let area = w * h * (0.08 + 0.92 * self.unit());
            let limit = (4.0f64 / 3.0).ln();
            let ratio = (limit * (2.0 * self.unit() - 1.0)).exp();
            let (cw, ch) = ((area * ratio).sqrt().round(), (area / ratio).sqrt().round());
            if cw >= 1.0 && ch >= 1.0 && cw <= w && ch <= h {
                let x = (self.unit() * (w - cw + 1.0)) as u32;
                let y = (self.unit() * (h - ch + 1.0)) as u32;
                return Rect { x, y, width: cw as u32, height: ch as u32 };
            }
        }
        let side = width.min(height);
        Rect { x: (width - side) / 2, y: (height - side) / 2, width: side, height: side }
    }
}
