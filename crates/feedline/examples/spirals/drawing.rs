//! What a network has learned, as a picture.

use std::fmt::Write;

use super::Point;
use super::network::Network;

/// Squares along a side, and the size of each in pixels.
const CELLS: usize = 60;
const CELL: usize = 8;
const SIDE: usize = CELLS * CELL;
/// Shades between the two colours.
const SHADES: f32 = 8.0;
/// Room for the title.
const TOP: usize = 40;

/// Draws the plane, coloured by the network's guess, and the points.
pub(crate) fn svg(network: &Network, points: &[Point]) -> String {
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {SIDE} {}' font-family='sans-serif'>\n\
         <rect width='100%' height='100%' fill='white'/>\n\
         <text x='8' y='26' font-size='17' font-weight='bold'>Two spirals: points, and what the network \
         learned</text>\n",
        SIDE + TOP
    );
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(svg, "{text}").expect("text grows");
    };
    for row in 0..CELLS {
        let at = |cell: usize| (cell as f32 + 0.5) / CELLS as f32 * 2.0 - 1.0;
        let guesses = (0..CELLS).map(|column| network.guess([at(column), at(row)]));
        let shades: Vec<u8> = guesses.map(|guess| (guess * SHADES).round() as u8).collect();
        let mut x = 0;
        // Neighbours of one shade are one rectangle: the file stays small.
        for run in shades.chunk_by(|one, next| one == next) {
            let (y, width) = (row * CELL + TOP, run.len() * CELL);
            let fill = mixed(f32::from(run[0]) / SHADES);
            line(format_args!(
                "<rect x='{x}' y='{y}' width='{width}' height='{CELL}' fill='{fill}'/>"
            ));
            x += width;
        }
    }
    // Some of the points are enough to see where they are.
    for ([x, y], spiral) in points.iter().step_by((points.len() / 400).max(1) | 1) {
        let place = |axis: f32| (axis + 1.0) / 2.0 * SIDE as f32;
        let fill = if *spiral > 0.5 { "#b45309" } else { "#1d4ed8" };
        line(format_args!(
            "<circle cx='{:.1}' cy='{:.1}' r='3' fill='{fill}' stroke='white'/>",
            place(*x),
            place(*y) + TOP as f32
        ));
    }
    svg + "</svg>\n"
}

/// Light blue for 0, light orange for 1.
fn mixed(share: f32) -> String {
    let channel = |from: f32, to: f32| (from + (to - from) * share) as u8;
    let colour = [channel(191.0, 254.0), channel(219.0, 215.0), channel(254.0, 170.0)];
    let [red, green, blue] = colour;
    format!("#{red:02x}{green:02x}{blue:02x}")
}
