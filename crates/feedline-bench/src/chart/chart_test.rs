use super::*;
use crate::experiment::Unit;
use crate::results::Stretch;

fn charts() -> Vec<Chart> {
    let x = Ruler::new(AxisKind::Linear, "workers", Unit::Plain);
    let y = Ruler::new(AxisKind::Log, "rate & <more>", Unit::Count);
    let points = vec![(1.0, 10.0), (2.0, f64::NAN), (3.0, 0.0), (4.0, 1e6)];
    let series = vec![Series::measured("a \"quoted\" name", 0, points).spread(vec![(1.0, 2.0); 4])];
    let cell = |value| HeatCell { value, tip: "tip".into() };
    let heat = Heat {
        x_label: "batch".into(),
        y_label: "workers".into(),
        columns: vec!["1".into(), "2".into()],
        rows: vec!["3".into()],
        cells: vec![cell(Some(2.0)), cell(None)],
        unit: Unit::Count,
        colour: 0,
    };
    let bar = Bar { colour: 1, value: 3.0, spread: Some((2.0, 4.0)), tip: "tip".into() };
    let bars = Bars {
        label: "rate".into(),
        unit: Unit::Count,
        legend: vec![(1, "torch".into())],
        groups: vec![("group".into(), vec![bar])],
        log: false,
    };
    let stretches = vec![Stretch(0, 0, 0.0, 1.0), Stretch(3, 9, 0.5, 1.5)];
    let timeline = Timeline { stretches, batch_size: 4, arrivals_s: vec![1.2] };
    let empty = Timeline { stretches: Vec::new(), batch_size: 0, arrivals_s: Vec::new() };
    [
        Drawing::Lines(Lines { x: x.clone(), y: y.clone(), series }),
        Drawing::Lines(Lines { x, y, series: Vec::new() }),
        Drawing::Heat(heat),
        Drawing::Bars(bars),
        Drawing::Timeline(timeline),
        Drawing::Timeline(empty),
    ]
    .map(|drawing| Chart::new("A <title> & more", "what it \"shows\"", drawing))
    .to_vec()
}

#[test]
fn every_chart_is_well_formed_in_every_form_and_has_a_name() {
    for chart in charts() {
        for form in [ChartForm::Wide, ChartForm::Narrow, ChartForm::File, ChartForm::Picture] {
            let svg = chart.svg(form);
            let tree = resvg::usvg::Tree::from_str(&svg, &resvg::usvg::Options::default());
            assert!(tree.is_ok(), "{:?}: {svg}", tree.err());
            assert!(svg.contains("role=\"img\" aria-label=\"A &lt;title&gt;"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

#[test]
fn pictures_have_letters() {
    let [first, ..] = &charts()[..] else { unreachable!("there are charts") };
    let png = first.png().unwrap();
    let pixels = resvg::tiny_skia::Pixmap::decode_png(&png).unwrap();
    // The headline is all that is near the upper left corner.
    let dark = (0..60).flat_map(|y| (30..300).map(move |x| (x, y)));
    let dark = dark.filter(|(x, y)| pixels.pixel(*x, *y).is_some_and(|it| it.red() < 100)).count();
    assert!(dark > 200, "{dark} dark pixels");
}

#[test]
fn files_are_named_after_the_chart() {
    let chart = charts().remove(0).choice("torch, workers 4");
    assert_eq!(chart.slug(), "a-title-more-torch-workers-4");
}
