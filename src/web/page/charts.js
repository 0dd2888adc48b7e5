// Charts: drawn to the width there is, with a cursor that reads a point.
function chart(label, draw) {
  const picture = s("svg", { class: "chart", role: "img", "aria-label": label });
  const legend = h("div", { class: "legend" });
  const box = h("div", null, picture, legend);
  let points = [];
  let at = null;
  const paint = () => {
    const width = Math.max(240, picture.clientWidth), height = 190;
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren();
    draw({ picture, legend, points, at, width, height });
  };
  picture.addEventListener("pointermove", (event) => {
    const frame = picture.getBoundingClientRect();
    at = Math.min(1, Math.max(0, (event.clientX - frame.left - 40) / (frame.width - 48)));
    paint();
  });
  picture.addEventListener("pointerleave", () => { at = null; paint(); });
  new ResizeObserver(paint).observe(box);
  return { box, set(next) { points = next; paint(); } };
}
function axes({ picture, width, height, points }, top, unit, from = 40) {
  const bottom = height - 22;
  for (let i = 0; i <= 3; i++) {
    const y = bottom - (bottom - 10) * i / 3;
    picture.append(s("line", { class: "gridline", x1: 40, x2: width - 8, y1: y, y2: y }));
    picture.append(s("text", { x: 34, y: y + 4, "text-anchor": "end" }, unit(top * i / 3)));
  }
  if (points.length > 1) {
    if (from < width - 160) picture.append(s("text", { x: from, y: height - 4 }, clock(points[0].at)));
    picture.append(s("text", { x: width - 8, y: height - 4, "text-anchor": "end" }, clock(points.at(-1).at)));
  }
  return bottom;
}
const nice = (top) => {
  const step = 10 ** Math.floor(Math.log10(Math.max(top, 3)));
  return [1.5, 3, 6, 9, 15].map((n) => n * step).find((n) => n >= top && n >= 3) || 3;
};
function openChart() {
  return chart("open requests over time", (c) => {
    const { points, picture, width } = c;
    const top = nice(Math.max(...points.map((p) => p.open), 3));
    const bottom = axes(c, top, (n) => short(Math.round(n)));
    const x = (i) => 40 + (width - 48) * (points.length > 1 ? i / (points.length - 1) : 1);
    const y = (n) => bottom - (bottom - 10) * n / top;
    if (points.length > 1) {
      const line = points.map((p, i) => `${x(i).toFixed(1)},${y(p.open).toFixed(1)}`).join(" ");
      picture.append(s("polygon", { class: "area", points: `40,${bottom} ${line} ${x(points.length - 1)},${bottom}` }));
      picture.append(s("polyline", { class: "stroke", points: line }));
    }
    const i = c.at === null ? points.length - 1 : Math.round(c.at * (points.length - 1));
    const p = points[i];
    if (c.at !== null && p) picture.append(s("line", { class: "cursor", x1: x(i), x2: x(i), y1: 8, y2: bottom }));
    c.legend.replaceChildren();
    add(c.legend, p ? [h("span", null, h("i"), `${count(p.open)} open`), h("span", null, `${count(p.running)} running`),
      h("span", null, `${count(p.delayed)} delayed`), h("span", null, c.at === null ? "now" : clock(p.at))] : [h("span", null, "waiting for the first points")]);
  });
}
// Points are counts since the start: a bar is what came in between.
function throughput(points, slots) {
  const bars = [];
  const per = Math.max(1, Math.ceil((points.length - 1) / slots));
  for (let end = points.length - 1; end > 0; end -= per) {
    const a = points[Math.max(0, end - per)], b = points[end];
    const seconds = Math.max(0.001, (Date.parse(b.at) - Date.parse(a.at)) / 1000);
    const rate = (name) => Math.max(0, b[name] - a[name]) / seconds;
    bars.unshift({ at: b.at, completed: rate("completed"), failed: rate("failed"), other: rate("other") });
  }
  return bars;
}
function rateChart() {
  return chart("endings a second over time", (c) => {
    const bars = throughput(c.points, Math.floor((c.width - 48) / 9));
    const { picture, width } = c;
    const most = Math.max(...bars.map((b) => b.completed + b.failed + b.other), 0);
    const top = most > 3 ? nice(most) : most > 1 ? 3 : most > 0.3 ? 1.5 : 0.3;
    const slots = Math.max(24, Math.min(bars.length, Math.floor((width - 48) / 9))), wide = (width - 48) / slots;
    const bottom = axes(c, top, (n) => (n >= 3 || Math.abs(n - Math.round(n)) < 0.01 ? short(Math.round(n)) : n.toFixed(1)), 40 + (slots - bars.length) * wide);
    bars.forEach((bar, i) => {
      let y = bottom;
      for (const [name, kind] of [["completed", "good"], ["other", "other"], ["failed", "bad"]]) {
        const tall = (bottom - 10) * bar[name] / top;
        if (tall <= 0) continue;
        y -= tall;
        picture.append(s("rect", { class: kind, x: 40 + (slots - bars.length + i) * wide + 1, y, width: Math.max(1, wide - 2), height: tall, rx: Math.min(2, tall / 2, wide / 4) }));
      }
    });
    const i = c.at === null ? bars.length - 1 : Math.round(c.at * slots) - (slots - bars.length);
    const bar = bars[Math.min(bars.length - 1, i)];
    c.legend.replaceChildren();
    add(c.legend, bar ? [["completed", "good", "completed"], ["other", "other", "duplicate, skipped, refused"], ["failed", "bad", "failed"]]
      .map(([name, kind, text]) => h("span", { class: kind }, h("i"), `${bar[name] >= 10 ? count(Math.round(bar[name])) : bar[name].toFixed(1)}/s ${text}`)) : [h("span", null, "waiting for the first points")]);
  });
}

// Views. Each shows itself and may leave what is to be refreshed in `live`.
async function overview() {
  const tiles = h("div", { class: "grid tiles" });
  const states = h("div", { class: "bars" });
  const facts = h("dl");
  const open = openChart(), rate = rateChart();
  show(h("h1", null, "Overview"), tiles,
    h("div", { class: "grid two" }, card("Open requests", open.box), card("Endings a second", rate.box)),
    h("div", { class: "grid two" }, card("Requests by what they are now", states), card("The home", facts)));
  let points = [];
  live = async () => {
    const { points: more } = await get("history", { since: points.at(-1)?.at });
    points = points.concat(more).slice(-POINTS_MAX);
    open.set(points);
    rate.set(points);
    paint();
  };
  const spent = () => status.charged?.day === status.today ? Object.values(status.charged.providers).reduce((sum, one) => sum + one.cost, 0) : 0;
  const tile = (label, value, note) => h("div", { class: "card tile" }, h("div", { class: "label" }, label), h("div", { class: "value" }, value), h("div", { class: "note" }, note || "\u00a0"));
  function paint() {
    if (!status) return;
    const r = status.requests, by = r.by_status;
    const oldest = status.oldest_open;
    tiles.replaceChildren();
    add(tiles, [
      tile("Open", short(r.open), (r.waits || []).filter((one) => one.for !== "turn").map((one) => `${count(one.requests)} ${words(one.for)}`).join(", ") || `${count(r.ready)} ready, ${count(r.running)} running`),
      tile("Completed", short(by.completed || 0), `of ${count(r.taken)} taken in`),
      tile("Failed or refused", short(Object.entries(by).filter(([name]) => tone(name) === "bad").reduce((sum, [, n]) => sum + n, 0)), `${some(status.quarantined, "line", "lines")} quarantined`),
      tile("Queue", bytes(status.queue.lag_bytes), `behind, ${some(status.queue.lines, "line", "lines")} consumed`),
      tile("Oldest open", oldest ? span(oldest.waited_ms) : "–", status.next_eligible ? `next at ${when(status.next_eligible)}` : "nothing is delayed"),
    ]);
    const rows = Object.entries(by).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
    const most = Math.max(1, ...rows.map(([, n]) => n));
    states.replaceChildren();
    add(states, rows.length ? rows.map(([name, n]) => {
      const fill = h("div", { class: `fill ${tone(name)}` });
      fill.style.width = `${Math.max(1, 100 * n / most)}%`;
      return [h("a", { href: `#/requests?state=${encodeURIComponent(name)}` }, words(name)), h("div", { class: "track" }, fill), h("span", { class: "num" }, count(n))];
    }) : [h("span", { class: "sub" }, "Nothing was asked for yet.")]);
    facts.replaceChildren();
    const session = status.session;
    for (const [name, value] of [
      ["home", status.home], ["session", session ? `${session.command}, since ${moment(session.started_at)}` : "none"], ["version", status.version],
      ["log", `${count(status.log.head)} events, ${bytes(status.log.bytes)}`], ["head", h("code", null, status.log.hash.slice(0, 16))],
      ["checkpoint", `at event ${count(status.log.checkpoint)}`], ["disk", `${bytes(status.disk.free_bytes)} free`],
      ["spend", `${money(spent())} today`],
      ...(status.cluster ? [["cluster", hosts(status.cluster)]] : []),
      ...(status.telemetry ? [["traces", `${some(status.telemetry.sent, "span", "spans")} sent, ${count(status.telemetry.dropped)} dropped, ${count(status.telemetry.refused)} refused`]] : []),
    ]) add(facts, [h("dt", null, name), h("dd", null, value)]);
  }
  paint();
  await live();
}
// What this host is in a cluster, and how far the others are.
function hosts(cluster) {
  const trouble = (one, what) => one ? [badge(what, "bad"), " ", h("span", { class: "sub" }, `${one.since ? `since ${moment(one.since)}: ` : ""}${one.message}`)] : [];
  const far = (one) => one.leads ? "leads" : one.behind === null ? "never heard of" : one.behind ? `${some(one.behind, "commit", "commits")} behind` : "level";
  const heard = (one) => one.silent_seconds > SILENT_SECONDS ? [" ", badge(`silent for ${span(one.silent_seconds * 1000)}`, "bad")] : [];
  const differs = (one) => one.agrees === false ? [" ", badge("another log", "bad")] : [];
  const work = (one) => one.places ? `, ${count(one.attempts)} of ${some(one.places, "attempt", "attempts")}` : "";
  return [
    h("div", null, `${cluster.host}, ${words(cluster.role)} `, trouble(cluster.unreached, "cut off"), trouble(cluster.unshipped, "lines wait")),
    (cluster.hosts || []).map((one) => h("div", { class: "sub" }, `${one.host}: ${far(one)}${work(one)}`, heard(one), differs(one))),
  ];
}
const SILENT_SECONDS = 10;
const money = (n) => (n === 0 ? "0" : n < 0.01 ? n.toPrecision(2) : n.toFixed(2));
