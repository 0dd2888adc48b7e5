//! Plots as standalone SVG: lines over a common axis, in light and dark. Hand-written, because the
//! result must be small, deterministic and readable in any viewer without scripts or fonts.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 176.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 64.0;

/// Most places of the horizontal axis that are named one by one.
const PLACES_MAX: usize = 12;

const INK: &str = "#1f2933";
const FAINT: &str = "#7b8794";
const GRID: &str = "#e4e7eb";
const BAND: &str = "#e6f2ee";
const PAPER: &str = "#ffffff";
const CHOSEN: &str = "#d64545";
const DEFAULT: &str = "#f0a202";
/// Light to dark, for ordered series.
const RAMP: [&str; 6] = ["#9ad1d4", "#62b6b7", "#3d91a6", "#2c6e94", "#234e7a", "#1b2f57"];

/// The same colours where the reader prefers dark ones, for viewers that know style sheets.
const DARK: [(&str, &str); 11] = [
    (INK, "#dde3ea"),
    (FAINT, "#9aa5b1"),
    (GRID, "#2b343f"),
    (BAND, "#16332e"),
    (PAPER, "#171d25"),
    (RAMP[0], "#2f5d73"),
    (RAMP[1], "#357b8c"),
    (RAMP[2], "#3f9aa3"),
    (RAMP[3], "#5bb8b4"),
    (RAMP[4], "#8ad3c4"),
    (RAMP[5], "#c4ecd9"),
];

/// How an axis places and names numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisScale {
    /// Plain numbers.
    Linear,
    /// Powers of ten.
    Log,
    /// Bytes, in powers of ten.
    LogBytes,
}

#[derive(Debug, Clone)]
pub struct Axis {
    pub label: String,
    pub scale: AxisScale,
}

#[derive(Debug, Clone)]
pub struct Series {
    pub name: String,
    /// Its points, by growing x.
    pub points: Vec<(f64, f64)>,
}

#[derive(Debug, Clone)]
pub struct PlotMark {
    pub at: (f64, f64),
    pub name: String,
    /// True for the choice, false for the default.
    pub chosen: bool,
}

/// Lines over a common axis. `band` is a range of x that is shaded.
pub fn lines(
    title: &str,
    note: &str,
    (x, y): (&Axis, &Axis),
    series: &[Series],
    marks: &[PlotMark],
    band: Option<(f64, f64)>,
) -> String {
    let points = || series.iter().flat_map(|series| series.points.iter().copied());
    // Ticks stand at measured places, as long as their names have room.
    let mut measured: Vec<f64> = points().map(|point| point.0).collect();
    measured.sort_by(f64::total_cmp);
    measured.dedup();
    let measured = Some(measured).filter(|places| places.len() <= PLACES_MAX);
    let mut svg = Canvas::new(title, note, x, y, points(), measured.as_deref());
    if let Some(band) = band {
        svg.band(band);
    }
    for (index, line) in series.iter().enumerate() {
        let colour = ramp(index, series.len());
        svg.path(&line.points, colour, 2.2);
        for point in &line.points {
            svg.dot(*point, 2.6, colour, "none");
        }
        svg.legend(index, colour, &line.name);
    }
    svg.marks(marks, series.len());
    svg.finish()
}

fn ramp(index: usize, count: usize) -> &'static str {
    let place = if count > 1 { index * (RAMP.len() - 1) / (count - 1) } else { RAMP.len() / 2 };
    RAMP[place.min(RAMP.len() - 1)]
}

/// Maps data to the page along one direction.
struct Ruler {
    scale: AxisScale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Ruler {
    fn new(scale: AxisScale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Ruler {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(value), high.max(value));
        }
        if !low.is_finite() {
            (low, high) = (1.0, 10.0);
        }
        let (low, high) = match scale {
            AxisScale::Linear => (0.0, if high > 0.0 { high * 1.06 } else { 1.0 }),
            AxisScale::Log | AxisScale::LogBytes => {
                let low = low.max(1e-3);
                (low / 1.18, (high * 1.18).max(low * 2.0))
            }
        };
        Ruler { scale, low, high, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            AxisScale::Linear => (value - self.low) / (self.high - self.low),
            AxisScale::Log | AxisScale::LogBytes => {
                (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
            }
        };
        self.from + share * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let numbers = match self.scale {
            AxisScale::Linear => linear_ticks(self.high),
            AxisScale::Log | AxisScale::LogBytes => log_ticks(self.low, self.high),
        };
        let name = |value: f64| match self.scale {
            AxisScale::LogBytes => bytes(value),
            AxisScale::Linear | AxisScale::Log => number(value),
        };
        numbers.into_iter().map(|value| (value, name(value))).collect()
    }
}

fn linear_ticks(high: f64) -> Vec<f64> {
    let rough = high / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(power * 10.0);
    (0..).map(|count| f64::from(count) * step).take_while(|tick| *tick <= high).collect()
}

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let dense = high / low < 30.0;
    let factors: &[f64] = if dense { &[1.0, 2.0, 3.0, 5.0, 7.0] } else { &[1.0, 3.0] };
    let mut ticks = Vec::new();
    let mut power = 10f64.powf(low.log10().floor());
    while power <= high {
        ticks.extend(factors.iter().map(|factor| factor * power));
        power *= 10.0;
    }
    ticks.retain(|tick| (low..=high).contains(tick));
    ticks
}

fn number(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.0}M", value / 1e6)
    } else if value >= 1e4 {
        format!("{:.0}k", value / 1e3)
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value}")
    }
}

/// Bytes for people, decimal units.
pub fn bytes(value: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = value;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let shown = if value >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    };
    format!("{shown} {}", units[unit])
}

struct Canvas {
    svg: String,
    x: Ruler,
    y: Ruler,
}

impl Canvas {
    fn bare(title: &str, note: &str) -> Canvas {
        let nothing = || std::iter::empty::<f64>();
        let x = Ruler::new(AxisScale::Linear, nothing(), LEFT, WIDTH - RIGHT);
        let y = Ruler::new(AxisScale::Linear, nothing(), HEIGHT - BOTTOM, TOP);
        let mut canvas = Canvas { svg: String::new(), x, y };
        canvas.raw(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" role="img">"#
        ));
        canvas.raw(format_args!("<title>{}</title>", escape(title)));
        canvas.svg.push_str("<style>@media(prefers-color-scheme:dark){");
        for (light, dark) in DARK {
            let rule =
                format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}");
            canvas.svg.push_str(&rule);
        }
        canvas.svg.push_str("}</style>\n");
        canvas.raw(format_args!(
            r#"<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{PAPER}"/>"#
        ));
        canvas.svg.push_str(&format!(
            "<text x=\"{LEFT}\" y=\"28\" font-size=\"16\" font-weight=\"600\" fill=\"{INK}\">{}</text>\n",
            escape(title)
        ));
        canvas.text(LEFT, 47.0, 12.0, FAINT, "start", note);
        canvas
    }

    fn new(
        title: &str,
        note: &str,
        x: &Axis,
        y: &Axis,
        points: impl Iterator<Item = (f64, f64)> + Clone,
        places: Option<&[f64]>,
    ) -> Canvas {
        let mut canvas = Canvas::bare(title, note);
        let (xs, ys) = (points.clone().map(|point| point.0), points.map(|point| point.1));
        canvas.x = Ruler::new(x.scale, xs, LEFT, WIDTH - RIGHT);
        canvas.y = Ruler::new(y.scale, ys, HEIGHT - BOTTOM, TOP);
        for (value, name) in canvas.y.ticks() {
            let at = canvas.y.place(value);
            canvas.rule((LEFT, at), (WIDTH - RIGHT, at));
            canvas.text(LEFT - 8.0, at + 4.0, 11.0, FAINT, "end", &name);
        }
        let ticks = match places {
            Some(places) => places.iter().map(|place| (*place, number(*place))).collect(),
            None => canvas.x.ticks(),
        };
        for (value, name) in ticks {
            let at = canvas.x.place(value);
            canvas.rule((at, TOP), (at, HEIGHT - BOTTOM));
            canvas.text(at, HEIGHT - BOTTOM + 18.0, 11.0, FAINT, "middle", &name);
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        canvas.text(middle, HEIGHT - 22.0, 13.0, INK, "middle", &x.label);
        canvas.upright(22.0, (TOP + HEIGHT - BOTTOM) / 2.0, &y.label);
        canvas
    }

    fn raw(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = self.svg.write_fmt(element);
        self.svg.push('\n');
    }

    fn rule(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.raw(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{GRID}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    fn text(&mut self, x: f64, y: f64, size: f64, fill: &str, anchor: &str, text: &str) {
        self.raw(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{}</text>"#,
            escape(text)
        ));
    }

    fn upright(&mut self, x: f64, y: f64, text: &str) {
        self.raw(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="13" fill="{INK}" text-anchor="middle" transform="rotate(-90 {x:.1} {y:.1})">{}</text>"#,
            escape(text)
        ));
    }

    fn path(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        let places: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", self.x.place(*x), self.y.place(*y)))
            .collect();
        self.raw(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>"#,
            places.join(" ")
        ));
    }

    /// Shades a range of x. It reaches a little beyond both ends, so that they are seen inside it.
    fn band(&mut self, (low, high): (f64, f64)) {
        let from = (self.x.place(low) - 6.0).max(LEFT);
        let to = (self.x.place(high) + 6.0).min(WIDTH - RIGHT);
        self.raw(format_args!(
            r#"<rect x="{from:.1}" y="{TOP}" width="{:.1}" height="{:.1}" fill="{BAND}"/>"#,
            to - from,
            HEIGHT - TOP - BOTTOM
        ));
    }

    fn dot(&mut self, point: (f64, f64), radius: f64, fill: &str, stroke: &str) {
        let (x, y) = (self.x.place(point.0), self.y.place(point.1));
        self.raw(format_args!(
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{fill}" stroke="{stroke}"/>"#
        ));
    }

    fn legend(&mut self, index: usize, colour: &str, name: &str) {
        let (x, y) = legend_place(index);
        self.raw(format_args!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="5" fill="{colour}"/>"#));
        self.text(x + 14.0, y + 4.0, 12.0, INK, "start", name);
    }

    fn marks(&mut self, marks: &[PlotMark], legend_from: usize) {
        for (index, mark) in marks.iter().enumerate() {
            let colour = if mark.chosen { CHOSEN } else { DEFAULT };
            let (x, y) = (self.x.place(mark.at.0), self.y.place(mark.at.1));
            let radius = if mark.chosen { 8.5 } else { 11.5 };
            self.raw(format_args!(
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="none" stroke="{colour}" stroke-width="2.6"/>"#
            ));
            let (x, y) = legend_place(legend_from + index);
            self.raw(format_args!(
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="5.5" fill="none" stroke="{colour}" stroke-width="2.4"/>"#
            ));
            self.text(x + 14.0, y + 4.0, 12.0, INK, "start", &mark.name);
        }
    }

    fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }
}

fn legend_place(index: usize) -> (f64, f64) {
    (WIDTH - RIGHT + 24.0, TOP + 10.0 + 22.0 * index as f64)
}

/// Text that can stand in XML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_cover_the_range_and_are_round() {
        assert_eq!(linear_ticks(50.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(log_ticks(8.0, 45.0), [10.0, 20.0, 30.0]);
        assert_eq!(log_ticks(1.0, 1000.0), [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]);
    }

    #[test]
    fn bytes_are_named_for_people() {
        assert_eq!(bytes(999.0), "999 B");
        assert_eq!(bytes(1500.0), "1.5 kB");
        assert_eq!(bytes(30_000_000.0), "30 MB");
    }

    #[test]
    fn lines_are_marked_where_something_was_measured() {
        let axis = |scale| Axis { label: "x".to_owned(), scale };
        let drawn = |places: &[f64]| {
            let points = places.iter().map(|place| (*place, 1.0)).collect();
            let series = [Series { name: "s".to_owned(), points }];
            let axis = axis(AxisScale::Linear);
            lines("t", "n", (&axis, &axis), &series, &[], None)
        };
        let few = drawn(&[6.0, 18.0, 23.0]);
        assert!([">6<", ">18<", ">23<"].iter().all(|name| few.contains(name)), "{few}");
        let many: Vec<f64> = (0..40).map(|place| f64::from(place) + 0.25).collect();
        assert!(!drawn(&many).contains(">7.25<"));
    }

    #[test]
    fn names_are_escaped_in_plots() {
        let axis = |label: &str| Axis { label: label.into(), scale: AxisScale::Linear };
        let series = Series { name: "<b>&".into(), points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let svg = lines("t", "n", (&axis("x"), &axis("y")), &[series], &[], None);
        assert!(svg.contains("&lt;b&gt;&amp;"));
        assert!(!svg.contains("<b>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
