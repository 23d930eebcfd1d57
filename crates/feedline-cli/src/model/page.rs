//! An answer as a page: its table, its chart, and sliders to try other settings.
//!
//! The formulas behind the sliders are ported once, in `formulas.js`; `tests/python/test_model_page.py` compares them
//! with the crate's in a browser.

use std::fmt::Write as _;

use feedline_bench::chart::{ChartForm, escaped};
use feedline_bench::output::Page;

use super::answer::Answer;
use super::arguments::LoadingArguments;

const FORMULAS: &str = include_str!("formulas.js");
const SLIDERS: &str = include_str!("sliders.js");
const STYLE: &str = include_str!("page.css");

pub(super) fn draw(answer: &Answer) -> String {
    let mut body = String::new();
    table(&mut body, answer);
    chart(&mut body, answer);
    sliders(&mut body, &answer.sliders);
    let page = Page {
        kind: &format!("feedline model {}", answer.name),
        title: &answer.title,
        question: answer.limits,
        body: &body,
        style: STYLE,
        script: &format!("{FORMULAS}{SLIDERS}"),
    };
    page.html()
}

fn table(out: &mut String, answer: &Answer) {
    out.push_str(
        "<section class=\"card\" aria-labelledby=\"answer\">\n<h2 id=\"answer\">The answer</h2>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"answer\">\n<table class=\"words\">\n\
         <thead><tr><th scope=\"col\">quantity</th><th scope=\"col\" class=\"num\">value</th><th scope=\"col\">what it is</th></tr></thead>\n<tbody>\n",
    );
    for figure in &answer.figures {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"num\">{}</td><td>{}</td></tr>",
            escaped(&figure.key.replace('_', " ")),
            escaped(&figure.text()),
            escaped(&figure.words)
        );
    }
    out.push_str("</tbody>\n</table>\n</div>\n<ul>\n");
    for sentence in &answer.says {
        let _ = writeln!(out, "<li>{}</li>", escaped(sentence));
    }
    let _ = writeln!(out, "</ul>\n<p class=\"soft\">{}</p>\n</section>", escaped(answer.formula));
}

fn chart(out: &mut String, answer: &Answer) {
    let Some(chart) = answer.chart() else { return };
    let _ = writeln!(
        out,
        "<figure class=\"card\">\n<div class=\"head\"><h2>{}</h2></div>\n<div class=\"drawing\">{}{}</div>\n\
         <figcaption>{}</figcaption>\n</figure>\n<br>",
        escaped(&chart.title),
        chart.svg(ChartForm::Wide),
        chart.svg(ChartForm::Narrow),
        escaped(&chart.caption)
    );
}

/// One slider.
struct Slider {
    name: &'static str,
    words: &'static str,
    unit: &'static str,
    least: f64,
    most: f64,
    step: f64,
    value: f64,
}

fn sliders(out: &mut String, at: &LoadingArguments) {
    let slider = |name, words, unit, (least, most, step), value| {
        // What was asked must have its place on the slider.
        Slider { name, words, unit, least, most: f64::max(most, 2.0 * value), step, value }
    };
    let all = [
        slider("workers", "workers", "", (1.0, 64.0, 1.0), f64::from(at.workers)),
        slider("step", "training step", "ms", (0.0, 500.0, 1.0), at.step * 1e3),
        slider("cost", "cost of a sample", "ms", (0.1, 100.0, 0.1), at.cost * 1e3),
        slider("spread", "spread of the cost", "", (0.0, 4.0, 0.1), at.spread),
        slider("batchSize", "samples of a batch", "", (1.0, 512.0, 1.0), f64::from(at.batch_size)),
        slider("prefetch", "batches read ahead", "", (1.0, 32.0, 1.0), f64::from(at.prefetch)),
    ];
    out.push_str(
        "<section class=\"card\" aria-labelledby=\"try\">\n<h2 id=\"try\">Try other settings</h2>\n\
         <p class=\"soft\">A loader and its training loop, if workers share nothing: no cores, disk or lock.</p>\n\
         <form id=\"sliders\" autocomplete=\"off\">\n",
    );
    for Slider { name, words, unit, least, most, step, value } in all {
        let _ = writeln!(
            out,
            "<label>{words}<input type=\"range\" name=\"{name}\" data-unit=\"{unit}\" min=\"{least}\" \
             max=\"{most}\" step=\"{step}\" value=\"{value}\"><output></output></label>"
        );
    }
    out.push_str("</form>\n<dl class=\"tiles\">\n");
    for (name, words) in [
        ("throughput", "samples per second"),
        ("wait", "wait for a batch"),
        ("waitingShare", "of the time waiting"),
        ("ready", "finished batches waiting"),
        ("utilisation", "of the workers' time used"),
        ("knee", "workers are just enough"),
        ("oneMore", "more with one more worker"),
    ] {
        let _ = writeln!(out, "<div><dt>{words}</dt><dd id=\"figure-{name}\"></dd></div>");
    }
    out.push_str(
        "</dl>\n<svg id=\"curve\" class=\"chart\" viewBox=\"0 0 640 270\" role=\"img\" \
         aria-label=\"Samples per second by number of workers\">\n\
         <line class=\"ax\" x1=\"64\" y1=\"232\" x2=\"628\" y2=\"232\"/><polyline class=\"l s0\"/>\
         <circle class=\"o f0\" r=\"5\"/>\
         <text class=\"n\" x=\"58\" y=\"34\" text-anchor=\"end\"></text>\
         <text class=\"n\" x=\"64\" y=\"250\" text-anchor=\"middle\"></text>\
         <text class=\"n\" x=\"628\" y=\"250\" text-anchor=\"end\"></text>\
         <text class=\"t\" x=\"346\" y=\"264\" text-anchor=\"middle\">workers</text>\n</svg>\n</section>\n",
    );
}
