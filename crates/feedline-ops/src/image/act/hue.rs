//! Turning the circle of hues.

use crate::image::Picture;

/// Shifts the hue of every pixel by `part` of the circle.
///
/// Conversion to hue, saturation, value and back as in torchvision (which took it from Pillow), in
/// single precision.
pub(crate) fn shift(picture: &mut Picture, part: f32) {
    if picture.channels() != 3 {
        return;
    }
    for pixel in picture.pixels_mut().as_chunks_mut::<3>().0 {
        let [r, g, b] = pixel.map(|v| f32::from(v) * (1.0 / 255.0));
        let most = r.max(g).max(b);
        let least = r.min(g).min(b);
        let range = most - least;
        let saturation = if range == 0.0 { 0.0 } else { range / most };
        let divisor = if range == 0.0 { 1.0 } else { range };
        let [rc, gc, bc] = [r, g, b].map(|v| (most - v) / divisor);
        let hue = if most == r {
            bc - gc
        } else if most == g {
            2.0 + rc - bc
        } else {
            4.0 + gc - rc
        };
        let hue = (hue * (1.0 / 6.0) + 1.0) % 1.0;
        let hue = (hue + part).rem_euclid(1.0);
        *pixel = to_bytes(hue, saturation, most);
    }
}

fn to_bytes(hue: f32, saturation: f32, value: f32) -> [u8; 3] {
    let sixths = hue * 6.0;
    let sector = sixths.floor();
    let fraction = sixths - sector;
    let p = ((1.0 - saturation) * value).clamp(0.0, 1.0);
    let q = ((1.0 - saturation * fraction) * value).clamp(0.0, 1.0);
    let t = ((saturation * fraction + (1.0 - saturation)) * value).clamp(0.0, 1.0);
    let rgb = match sector as i32 % 6 {
        0 => [value, t, p],
        1 => [q, value, p],
        2 => [p, value, t],
        3 => [p, q, value],
        4 => [t, p, value],
        _ => [value, p, q],
    };
    // torchvision's factor: just below 256, so that 1.0 becomes 255 and every value is equally wide.
    rgb.map(|v| (v * (255.0 + 1.0 - 1e-3)) as u8)
}
