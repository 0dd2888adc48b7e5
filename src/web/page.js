"use strict";
(() => {
  const VIEWS = [
    ["overview", "Overview"], ["requests", "Requests"], ["summaries", "Summaries"], ["digests", "Digests"],
    ["quarantine", "Quarantine"], ["providers", "Providers"], ["compaction", "Compaction"],
  ];
  const POLL_MS = 2000;
  const POINTS_MAX = 1800;
  const PAGE = 50;
  const main = document.getElementById("main");
  let status = null;
  let turn = 0;
  let live = () => {};

  // Elements. Text is only ever text.
  function h(tag, props, ...children) {
    const el = document.createElement(tag);
    for (const [name, value] of Object.entries(props || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
      else if (name === "class") el.className = value;
      else el.setAttribute(name, value === true ? "" : String(value));
    }
    add(el, children);
    return el;
  }
  function add(el, children) {
    for (const child of children.flat(9)) {
      if (child === null || child === undefined || child === false) continue;
      el.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return el;
  }
  function s(tag, attributes, ...children) {
    const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes || {})) el.setAttribute(name, String(value));
    return add(el, children);
  }
  const show = (...children) => { main.replaceChildren(); add(main, children); };
  const card = (title, ...children) => h("section", { class: "card" }, title && h("h2", null, title), children);

  // Words and numbers.
  const whole = new Intl.NumberFormat("en");
  const count = (n) => (typeof n === "number" ? whole.format(n) : "–");
  const short = (n) => n >= 10000 ? new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(n) : count(n);
  const words = (text) => String(text ?? "–").replaceAll("_", " ");
  function bytes(n) {
    if (typeof n !== "number") return "–";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
    return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
  }
  function span(ms) {
    if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
    const sec = ms / 1000;
    if (sec < 60) return `${sec < 10 ? sec.toFixed(1) : Math.round(sec)} s`;
    if (sec < 3600) return `${Math.floor(sec / 60)} min`;
    if (sec < 172800) return `${Math.floor(sec / 3600)} h`;
    return `${Math.floor(sec / 86400)} days`;
  }
  const clock = (at) => at ? new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" }) : "–";
  const when = (at) => (Math.abs(Date.parse(at) - Date.now()) < 72000000 ? clock(at) : new Date(at).toLocaleDateString([], { dateStyle: "medium" }));
  const some = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;
  const moment = (at) => at ? new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }) : "–";
  function tone(state) {
    if (state === "completed") return "good";
    if (/^(failed|rejected|cancelled|quarantined)/.test(state)) return "bad";
    if (["backoff", "held", "parked"].includes(state)) return "warn";
    if (["running", "ready"].includes(state)) return "info";
    return "";
  }
  // A name is shown as it is; a word of ours is read out.
  const chip = (text, kind) => h("span", { class: `badge ${kind || ""}` }, text);
  const badge = (text, kind) => h("span", { class: `badge ${kind ?? tone(text)}` }, words(text));

  async function get(path, parameters) {
    const query = new URLSearchParams(Object.entries(parameters || {}).filter(([, v]) => v !== null && v !== undefined && v !== ""));
    const answer = await fetch(`/api/${path}${query.size ? `?${query}` : ""}`, { cache: "no-store" });
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error || `the service answered ${answer.status}`);
    return value;
  }

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
        tile("Open", short(r.open), `${count(r.ready)} ready, ${count(r.running)} running`),
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
      const run = status.run;
      for (const [name, value] of [
        ["home", status.home], ["run", run ? `${run.command}, since ${moment(run.started_at)}` : "none"], ["version", status.version],
        ["log", `${count(status.log.head)} events, ${bytes(status.log.bytes)}`], ["head", h("code", null, status.log.hash.slice(0, 16))],
        ["checkpoint", `at event ${count(status.log.checkpoint)}`], ["disk", `${bytes(status.disk.free_bytes)} free`],
        ["spend", `${money(spent())} today`],
      ]) add(facts, [h("dt", null, name), h("dd", null, value)]);
    }
    paint();
    await live();
  }
  const money = (n) => (n === 0 ? "0" : n < 0.01 ? n.toPrecision(2) : n.toFixed(2));

  async function requests(parameters) {
    const search = h("input", { type: "search", placeholder: "Search id, flow, repo, reason", value: parameters.q || "", "aria-label": "Search" });
    const pick = h("select", { "aria-label": "State" }, h("option", { value: "" }, "every state"), ["ready", ...Object.keys(status?.requests.by_status || {})].map((state) => h("option", { value: state, selected: parameters.state === state }, words(state))));
    const box = h("div");
    const go = () => { location.hash = `#/requests?${new URLSearchParams({ ...(search.value && { q: search.value }), ...(pick.value && { state: pick.value }) })}`; };
    search.addEventListener("change", go);
    pick.addEventListener("change", go);
    show(h("h1", null, "Requests"), h("div", { class: "tools" }, search, pick), card(null, box));
    const body = h("tbody");
    const foot = h("div", { class: "foot", "aria-live": "polite" });
    const mine = turn;
    let shown = 0, looked = 0;
    const append = (row) => {
      if (!shown++) box.replaceChildren(h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, ["Request", "State", "Why", "Flow", "From", "Tries", "Taken in"].map((name, i) => h("th", { class: i === 5 ? "num wide" : i === 3 || i === 4 ? "wide" : "" }, name)))), body)), foot);
      const to = `#/request/${encodeURIComponent(row.request_id)}`;
      body.append(h("tr", { class: "link", onclick: () => { location.hash = to; } },
        h("td", null, h("a", { class: "id", href: to }, row.request_id)), h("td", null, badge(row.state)), h("td", null, row.reason_code ? words(row.reason_code) : ""),
        h("td", { class: "wide" }, row.flow_id), h("td", { class: "wide" }, row.repo), h("td", { class: "num wide" }, count(row.attempts)), h("td", { class: "time", title: moment(row.taken_at) }, when(row.taken_at))));
    };
    // One answer looks only so far: the search goes on until there is a page, or nothing is left.
    async function load(before) {
      for (let found = 0; ;) {
        const page = await get("requests", { state: parameters.state, q: parameters.q, before, limit: PAGE - found });
        if (mine !== turn) return;
        page.requests.forEach(append);
        found += page.requests.length;
        looked += page.looked_at;
        before = page.next;
        if (!before || found >= PAGE) break;
        if (!shown) box.replaceChildren(h("div", { class: "empty" }, h("strong", null, "Searching"), `${count(looked)} requests looked at so far`));
        foot.replaceChildren(h("span", null, `${count(shown)} shown, ${count(looked)} looked at so far`));
      }
      if (!shown) return box.replaceChildren(h("div", { class: "empty" }, h("strong", null, "No request is like that"), parameters.q || parameters.state ? "Another search or state may find some." : "Lines appended to the queue show up here."));
      foot.replaceChildren(h("span", null, before ? `${count(shown)} shown` : `${count(shown)} shown, that is all`));
      if (before) foot.append(h("button", { onclick: () => load(before).catch(fail) }, "Older"));
    }
    await load(null);
  }

  const QUIET = ["event", "seq", "at", "hash", "request", "request_id", "facts", "summary", "idempotency_key", "line", "offset", "repo", "flow_id", "path", "body_sha256", "call"];
  async function request(parameters, id) {
    const shown = await get("request", { id });
    const latest = shown.latest;
    const produced = latest.acks.map((ack) => ack.summary).filter(Boolean).at(-1);
    const start = Date.parse(latest.events[0]?.at);
    const timeline = h("ol", { class: "timeline" }, latest.events.map((event) => {
      const kind = /Produced/.test(event.event) ? "good" : /Failed|Rejected|Cancelled|Quarantined/.test(event.event) ? "bad" : /Accepted|Started/.test(event.event) ? "" : "quiet";
      const details = Object.entries(event).filter(([name, value]) => !QUIET.includes(name) && value !== null && typeof value !== "object" && String(value).length < 200);
      return h("li", { class: kind }, h("span", { class: "what" }, event.event.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase()), h("span", { class: "when" }, `+${span(Date.parse(event.at) - start)} · event ${event.seq}`),
        h("div", { class: "more" }, details.map(([name, value]) => `${words(name)} ${value}`).join(" · ")),
        h("details", null, h("summary", null, "as recorded"), h("pre", null, JSON.stringify(event, null, 2))));
    }));
    const r = latest.request;
    const facts = h("dl");
    for (const [name, value] of [["flow", r.flow_id + (r.variant ? `@${r.variant}` : "")], ["from", r.repo], ["taken in", moment(latest.taken_at)], ["queue", `line ${r.line}, byte ${r.offset}`],
      ["key", h("code", null, r.idempotency_key)], ["tries", count(latest.attempts)], ["reason", latest.reason_code ? words(latest.reason_code) : null], ["earlier", shown.earlier?.length ? some(shown.earlier.length, "earlier acceptance", "earlier acceptances") : null]])
      if (value) add(facts, [h("dt", null, name), h("dd", null, value)]);
    show(h("a", { class: "back", href: "#/requests" }, "← Requests"), h("h1", null, r.request_id, " ", badge(latest.state)),
      produced && h("p", null, h("a", { href: `#/summary/${encodeURIComponent(produced.summary_id)}` }, "Read the summary and where it comes from →")),
      h("div", { class: "grid two" }, card("What happened", timeline), h("div", { class: "grid" }, card("The request", facts), card(null, h("details", null, h("summary", null, "the line as it was appended"), h("pre", null, JSON.stringify(r.record, null, 2)))))));
  }

  async function summaries(parameters) {
    const { days, next: older } = await get("days", { before: parameters.before });
    const link = (to) => `#/summaries?${new URLSearchParams(to)}`;
    if (!days.length) return show(h("h1", null, "Summaries"), card(null, h("div", { class: "empty" }, h("strong", null, parameters.before ? "Nothing older is published" : "Nothing is published yet"), "A summary shows up here a moment after its request completed.")));
    const key = (day) => `${day.stream}/${day.day}`;
    const chosen = days.find((day) => key(day) === parameters.day) || days.find((day) => day.counts.produced > 0) || days[0];
    const here = parameters.before ? { before: parameters.before } : {};
    const pick = h("select", { "aria-label": "Day and stream", onchange: (event) => { location.hash = link({ ...here, day: event.target.value }); } },
      days.map((day) => h("option", { value: key(day), selected: day === chosen }, `${day.day} · ${words(day.stream)} (${count(day.counts.produced)})`)));
    const box = h("div");
    show(h("h1", null, "Summaries"), h("div", { class: "tools" }, pick, parameters.before && h("a", { class: "button", href: link({}) }, "Newest days"), older && h("a", { class: "button", href: link({ before: older }) }, "Older days")),
      card(h("span", null, `${chosen.day}, ${words(chosen.stream)} `, h("span", { class: "sub" }, ["eligible", "produced", "skipped", "failed"].map((name) => `${count(chosen.counts[name])} ${name}`).join(", "))), box));
    let place = {};
    const ask = async () => {
      const page = await get("summaries", { stream: chosen.stream, day: chosen.day, ...place });
      place = { at: page.next, of: page.of };
      return { rows: page.items, total: page.counts.produced, more: page.next !== null };
    };
    await paged(box, ask, (item) => h("a", { class: "item", href: `#/summary/${encodeURIComponent(item.summary_id)}` }, h("div", { class: "title" }, item.title || item.summary_id), h("p", null, item.head),
      h("div", { class: "chips" }, chip(item.flow), item.model_generated ? chip(`${item.provider}/${item.model}`, "info") : chip("embedded"))),
    [h("strong", null, "No summary on this day"), "Its requests were skipped or failed."]);
  }

  async function summary(parameters, id) {
    const e = await get("explain", { id });
    const texts = new Map(e.sources.filter((source) => typeof source.text === "string").map((source) => [source.id, source.text]));
    const view = h("div", { class: "grid two" });
    const focus = (n) => {
      view.classList.toggle("focused", n !== null);
      for (const mark of view.querySelectorAll("mark")) mark.classList.toggle("on", n !== null && mark.dataset.sentences.split(" ").includes(String(n)));
      const first = n === null ? null : view.querySelector(".source mark.on");
      if (first) first.closest(".source").scrollTop = first.offsetTop - first.closest(".source").offsetTop - 40;
    };
    const sentence = (one, n) => {
      const mark = h("mark", { class: one.spans.length ? `s${n % 6}` : "none", "data-sentences": n, tabindex: 0, title: `${words(one.basis)}, ${Math.round(one.score * 100)} %` }, one.text);
      for (const [on, off] of [["pointerenter", "pointerleave"], ["focus", "blur"]]) { mark.addEventListener(on, () => focus(n)); mark.addEventListener(off, () => focus(null)); }
      return [mark, " "];
    };
    const sources = e.sources.map((source) => {
      const spans = e.sentences.flatMap((one, n) => one.spans.filter((at) => at.id === source.id).map((at) => ({ ...at, n })));
      const place = `${source.file}${source.line ? `:${source.line}` : ""}`;
      return h("div", null, h("div", { class: "chips" }, h("strong", null, source.id), h("span", { class: "sub mono" }, place)),
        texts.has(source.id) ? h("div", { class: "source" }, marked(texts.get(source.id), spans)) : h("div", null, source.problem && h("p", { class: "error" }, source.problem),
          spans.map((at) => h("div", { class: "source" }, h("mark", { class: `s${at.n % 6}`, "data-sentences": at.n }, at.quote)))));
    });
    const facts = h("dl");
    for (const [name, value] of [["model", `${e.model.provider}/${e.model.model_name}`], ["written by", e.model_generated ? "a language model" : "the embedded extractor"], ["flow", e.flow.template_id], ["prompt hash", h("code", null, (e.flow.prompt_hash || "").slice(0, 16))],
      ["tokens", e.usage ? `${count(e.usage.input_tokens)} in, ${count(e.usage.output_tokens)} out` : null], ["request", h("a", { href: `#/request/${encodeURIComponent(e.request.request_id)}` }, e.request.request_id)], ["published", h("code", null, `${e.published.path}${e.published.line ? `:${e.published.line}` : ""}`)], ["record", `event ${e.record.seq}`]])
      if (value) add(facts, [h("dt", null, name), h("dd", null, value)]);
    add(view, [
      h("div", { class: "grid" }, card(h("span", null, "Summary ", h("span", { class: "sub" }, e.model_generated ? "likenesses to the sources, by words" : "taken from the sources, to the byte")), h("p", { class: "summary-text" }, e.sentences.map(sentence))), card("How it was made", facts)),
      card(h("span", null, "Sources ", h("span", { class: "sub" }, "hover a sentence to see where it comes from")), h("div", { class: "grid" }, sources.length ? sources : h("span", { class: "sub" }, "No place of a source was recorded."))),
    ]);
    show(h("a", { class: "back", href: "#/summaries" }, "← Summaries"), h("h1", null, e.title || e.summary_id), view);
  }
  // Offsets are in bytes of UTF-8.
  function marked(text, spans) {
    const all = new TextEncoder().encode(text), read = new TextDecoder();
    const edges = [...new Set([0, all.length, ...spans.flatMap((at) => [at.start, at.end])])].filter((at) => at >= 0 && at <= all.length).sort((a, b) => a - b);
    return edges.slice(0, -1).map((from, i) => {
      const to = edges[i + 1], piece = read.decode(all.subarray(from, to));
      const over = [...new Set(spans.filter((at) => at.start <= from && at.end >= to).map((at) => at.n))];
      return over.length ? h("mark", { class: `s${over[0] % 6}`, "data-sentences": over.join(" ") }, piece) : piece;
    });
  }

  // Lists that go on: a page at a time, older ones behind a button.
  async function paged(box, ask, rows, none, as) {
    const list = h("div", { class: as }), foot = h("div", { class: "foot" });
    const mine = turn;
    let shown = 0;
    async function load() {
      const page = await ask(shown);
      if (mine !== turn) return;
      if (!page.rows.length && !shown) return box.replaceChildren(h("div", { class: "empty" }, none));
      if (!shown) box.replaceChildren(list, foot);
      add(list, page.rows.map(rows));
      shown += page.rows.length;
      foot.replaceChildren(h("span", null, `${count(shown)} of ${count(page.total)}`));
      if (page.more ?? (shown < page.total && page.rows.length)) foot.append(h("button", { onclick: () => load().catch(fail) }, "More"));
    }
    await load();
  }
  const days = (window) => window.start_day ? (window.start_day === window.end_day ? window.start_day : `${window.start_day} to ${window.end_day}`) : "everything";

  async function digests(parameters) {
    const search = h("input", { type: "search", placeholder: "Search selector, group, window", value: parameters.q || "", "aria-label": "Search" });
    const first = await get("bags", { q: parameters.q, type: parameters.type });
    const pick = h("select", { "aria-label": "Kind of bag" }, h("option", { value: "" }, `every kind (${count(first.all)})`), Object.entries(first.types).map(([kind, n]) => h("option", { value: kind, selected: parameters.type === kind }, `${kind} (${count(n)})`)));
    const go = () => { location.hash = `#/digests?${new URLSearchParams({ ...(search.value && { q: search.value }), ...(pick.value && { type: pick.value }) })}`; };
    search.addEventListener("change", go);
    pick.addEventListener("change", go);
    const box = h("div");
    show(h("h1", null, "Digests ", first.updated_at && h("span", { class: "sub" }, `as of ${moment(first.updated_at)}`)), h("div", { class: "tools" }, search, pick), card(null, box));
    const ask = async (offset) => { const page = offset ? await get("bags", { q: parameters.q, type: parameters.type, offset }) : first; return { rows: page.bags, total: page.total }; };
    await paged(box, ask, (bag) => h("a", { class: "item", href: `#/digest/${encodeURIComponent(bag.bag_id)}` }, h("div", { class: "title" }, bag.title || bag.bag_id),
      h("p", null, bag.problem || `${days(bag)} · ${some(bag.items, "summary", "summaries")} · ${some(bag.memos, "memo", "memos")}`),
      h("div", { class: "chips" }, chip(bag.bag_type, "info"), chip(bag.selector_id), bag.group && h("span", { class: "sub mono" }, bag.group))),
    first.all ? [h("strong", null, "No bag is like that"), "Another search or kind may find some."] : [h("strong", null, "No digest is built yet"), "A service builds them by itself; summarizer digest build does it now."]);
  }

  async function digest(parameters, id) {
    const bag = await get("bag", { id, memo: parameters.memo });
    const at = (slug) => `#/digest/${encodeURIComponent(id)}?${new URLSearchParams({ memo: slug })}`;
    const tabs = bag.memos.length > 1 && h("nav", { class: "tabs", "aria-label": "Memos" }, bag.memos.map((memo) => h("a", { href: at(memo.slug), "aria-current": memo.slug === bag.memo?.slug ? "page" : null }, memo.title === bag.title ? "Digest" : memo.title)));
    const dropped = Object.entries(bag.coverage?.drop_reasons || {}).map(([why, n]) => `${words(why)} ${count(n)}`).join(", ");
    const facts = h("dl");
    for (const [name, value] of [["window", [bag.window.label, h("div", { class: "sub" }, days(bag.window) === bag.window.label ? bag.window.tz : `${days(bag.window)}, ${bag.window.tz}`)]], ["selector", `${bag.selector.selector_id}, version ${bag.selector.selector_version}`], ["group", bag.group?.key || bag.group],
      ["summaries", `${count(bag.counts.selected)} of ${count(bag.counts.candidate)} candidates`], ["dropped", dropped], ["built", moment(bag.created_at)], ["bag", h("code", null, bag.bag_id)]])
      if (value) add(facts, [h("dt", null, name), h("dd", null, typeof value === "object" && !Array.isArray(value) && !(value instanceof Node) ? JSON.stringify(value) : value)]);
    const items = h("ul", { class: "plain tall" }, bag.summaries.map((one) => h("li", null, h("a", { class: "mono", href: `#/summary/${encodeURIComponent(one)}` }, one))));
    show(h("a", { class: "back", href: "#/digests" }, "← Digests"), h("h1", null, bag.title, " ", badge(bag.bag_type, "info")), bag.description && h("p", { class: "lead" }, bag.description),
      h("div", { class: "grid reading" }, card(null, tabs, bag.memo ? markdown(bag.memo.text, bag.title) : h("div", { class: "empty" }, "It has no memo.")),
        h("div", { class: "grid" }, card("The bag", facts), card(h("span", null, "Its summaries ", bag.summaries_total > bag.summaries.length && h("span", { class: "sub" }, `the first ${count(bag.summaries.length)} of ${count(bag.summaries_total)}`)), items))));
  }

  async function compaction() {
    const limits = status?.limits || {}, told = status?.compaction || {};
    const facts = h("dl");
    const newest = told.latest && h("a", { href: `#/run/${encodeURIComponent(told.latest.run_id)}?sequence=${told.latest.sequence}` }, `${told.latest.run_id}, snapshot ${told.latest.sequence}`);
    for (const [name, value] of [["a run is folded after", `${count(limits.event_threshold)} counted events, or ${some(limits.step_fallback, "step", "steps")}`], ["the service's own run", `${count(limits.service_event_threshold)} counted events, or ${some(limits.service_step_fallback, "step", "steps")}`],
      ["snapshots", count(told.snapshots)], ["failed", told.failed ? badge(`${count(told.failed)}`, "bad") : "none"], ["the newest", newest]])
      if (value) add(facts, [h("dt", null, name), h("dd", null, value)]);
    const trouble = told.last_failure && h("p", { class: "error" }, typeof told.last_failure === "string" ? told.last_failure : JSON.stringify(told.last_failure));
    const box = h("div");
    show(h("h1", null, "Compaction"), h("div", { class: "grid" }, card("Thresholds", facts, trouble), card("Runs", box)));
    await paged(box, async (offset) => { const page = await get("runs", { offset }); return { rows: page.runs, total: page.total }; },
      (run) => h("a", { class: "item", href: `#/run/${encodeURIComponent(run.run_id)}` }, h("div", { class: "title" }, run.run_id), h("p", null, run.objective || "–"),
        h("div", { class: "chips" }, run.status && badge(run.status === "PASS" ? "checks passed" : `checks: ${run.status}`, run.status === "PASS" ? "good" : "bad"), h("span", { class: "sub" }, `${some(run.snapshots, "snapshot", "snapshots")} · ${moment(run.changed * 1000)}`))),
      [h("strong", null, "No snapshot is taken yet"), "Runs are folded into snapshots and narratives when their triggers fire."]);
  }

  async function run(parameters, id) {
    const shown = await get("snapshot", { run: id, sequence: parameters.sequence });
    const at = (sequence) => `#/run/${encodeURIComponent(id)}?sequence=${sequence}`;
    const facts = h("dl"), checks = shown.validation?.checks || [];
    for (const [name, value] of [["snapshot", `${count(shown.sequence)} of ${count(shown.snapshots)}`], ["taken", moment(shown.created_at)], ["since the last", `${some(shown.counts.counted_events_since_last_compaction, "event", "events")}, ${some(shown.counts.steps_since_last_compaction, "step", "steps")}`],
      ["claims", `${count(shown.verified)} verified of ${count(shown.claims)}`], ["conflicts", count(shown.conflicts)], ["open questions", count(shown.open_questions)], ["failures", count(shown.failures)], ["sources seen", count(shown.sources)], ["id", h("code", null, shown.snapshot_id)]])
      add(facts, [h("dt", null, name), h("dd", null, value)]);
    const list = h("ul", { class: "plain" }, checks.map((check) => h("li", null, badge(check.status.toLowerCase(), check.status === "PASS" ? "good" : "bad"), " ", words(check.name), h("div", { class: "sub" }, check.message))));
    show(h("a", { class: "back", href: "#/compaction" }, "← Compaction"), h("h1", null, id),
      h("div", { class: "tools" }, shown.before && h("a", { class: "button", href: at(shown.before) }, "← Earlier"), shown.after && h("a", { class: "button", href: at(shown.after) }, "Later →")),
      h("div", { class: "grid reading" }, card(null, markdown(shown.narrative)), h("div", { class: "grid" }, card("The snapshot", facts), card("Checks", list))));
  }

  // As much of Markdown as memos and narratives use, made of elements. Only links to summaries of
  // this page lead anywhere; every other one is shown, not followed.
  const SUMMARY = /^#(sum_[0-9a-f]{32})$/;
  function inline(line) {
    const piece = /(\*\*(?:\\.|[^\\])+?\*\*|`[^`]+`|\[(?:\\.|[^\]\\])*\]\([^)]*\))/;
    return line.replace(/<a id="[^"]*"><\/a>/g, "").split(piece).map((part) => {
      if (part.startsWith("**") && part.length > 4) return h("strong", null, inline(part.slice(2, -2)));
      if (part.startsWith("`") && part.length > 2) return h("code", null, part.slice(1, -1));
      const link = /^\[((?:\\.|[^\]\\])*)\]\(([^)]*)\)$/.exec(part);
      if (link) {
        const to = SUMMARY.exec(link[2]) || SUMMARY.exec(`#${link[1]}`);
        return to ? h("a", { href: `#/summary/${to[1]}` }, plain(link[1])) : h("span", { title: link[2] }, plain(link[1]));
      }
      return plain(part);
    });
  }
  const plain = (text) => text.replace(/\\([!-/:-@[-`{-~])/g, "$1").replace(/&(lt|gt|amp|quot);/g, (_, name) => ({ lt: "<", gt: ">", amp: "&", quot: "\"" })[name]);
  function markdown(text, title) {
    const out = h("div", { class: "md" });
    const lines = text.split("\n");
    const front = lines[0] === "---" ? lines.indexOf("---", 1) : -1;
    let list = null, fence = null;
    for (const line of lines.slice(front + 1)) {
      if (line.startsWith("```")) { fence = fence ? null : out.appendChild(h("pre")); list = null; continue; }
      if (fence) { fence.append(`${line}\n`); continue; }
      if (/^<\/?details>$/.test(line.trim())) continue;
      const folded = /^<summary>(.*)<\/summary>$/.exec(line.trim());
      if (folded) { out.append(h("p", { class: "sub" }, inline(folded[1]))); list = null; continue; }
      const head = /^(#{1,4}) (.*)/.exec(line), point = /^(\s*)(?:[-*]|\d+\.) (.*)/.exec(line);
      if (point) { list ||= out.appendChild(h("ul")); list.append(h("li", { class: point[1] ? "deeper" : null }, inline(point[2]))); continue; }
      if (list && /^\s+\S/.test(line)) { list.lastChild.append(" ", ...inline(line.trim())); continue; }
      list = null;
      if (head && !out.firstChild && plain(head[2]) === title) continue;
      if (head) out.append(h(`h${Math.min(4, head[1].length)}`, null, inline(head[2])));
      else if (line.startsWith(">")) out.append(h("blockquote", null, inline(line.slice(1))));
      else if (line.trim()) out.append(h("p", null, inline(line)));
    }
    return out;
  }

  async function quarantine() {
    const box = h("div");
    show(h("h1", null, "Quarantine"), box);
    const mine = turn;
    let before = null, done = false;
    // What is asked for may lie far back: one answer looks only so far.
    const ask = async () => {
      const rows = [];
      while (!done && !rows.length) {
        const page = await get("quarantine", { before, limit: 25 });
        if (mine !== turn) break;
        rows.push(...page.lines);
        before = page.next;
        done = before === null;
        if (!rows.length && !done) box.replaceChildren(card(null, h("div", { class: "empty" }, h("strong", null, "Searching"), `nothing from event ${count(before)} on`)));
      }
      return { rows, total: status?.quarantined, more: !done };
    };
    const said = (line) => line.raw ?? line.raw_prefix ?? line.raw_base64 ?? "";
    await paged(box, ask, (line) => card(h("span", null, badge(line.reason, "bad"), " ", h("span", { class: "sub" }, `line ${count(line.line)} of the queue · ${moment(line.at)} · event ${line.seq}`)),
      h("ul", { class: "errors" }, line.errors.map((error) => h("li", null, error.pointer && [h("code", null, error.pointer), " "], error.message)), line.errors_omitted > 0 && h("li", { class: "sub" }, `and ${some(line.errors_omitted, "more", "more")}`)),
      h("pre", { class: "tall" }, said(line)), line.cut && h("p", { class: "sub" }, "Only its beginning is shown."),
      h("p", { class: "sub" }, "Save it, correct it and send it again: ", h("code", null, `summarizer quarantine release ${line.seq} FILE`))),
    [h("strong", null, "Nothing is in quarantine"), "Lines that are no requests are set aside here, with everything that is wrong with them."], "grid");
  }

  async function providers() {
    const today = h("div"), recent = h("div"), box = h("div", { class: "grid two" });
    show(h("h1", null, "Providers"), h("div", { class: "grid two" }, card("Spend today", today), card(h("span", null, "Recent days ", h("span", { class: "sub" }, "from the log")), recent)), h("h2", { class: "between" }, "Health ", h("span", { class: "sub" }, "since the service started")), box);
    const meter = (name, used, most, say) => {
      const part = most ? Math.min(1, used / most) : 0, fill = h("div", { class: `fill ${part >= 1 ? "bad" : part > 0.8 ? "warn" : "good"}` });
      fill.style.width = `${Math.max(1, 100 * part)}%`;
      return [h("span", null, name), most ? h("div", { class: "track" }, fill) : h("span", { class: "sub" }, "no limit is set"), h("span", { class: "num" }, most ? `${say(used)} of ${say(most)}` : say(used))];
    };
    let read = 0;
    live = async () => {
      if (Date.now() - read > 5000) {
        read = Date.now();
        paint(await get("spend"));
      }
      box.replaceChildren();
      add(box, (status?.providers || []).map((p) => {
        const facts = h("dl");
        for (const [name, value] of [["summaries", count(p.items)], ["failures", count(p.failures)], ["tokens", `${count(p.tokens_in)} in, ${count(p.tokens_out)} out`], ["last answer", p.last_item ? moment(p.last_item) : "none yet"],
          ["last failure", p.last_failure ? [moment(p.last_failure.at), h("div", { class: "sub" }, p.last_failure.why)] : "none"]]) add(facts, [h("dt", null, name), h("dd", null, value)]);
        return card(h("span", null, p.name, " ", p.well === true ? badge("well", "good") : p.well === false ? badge("unwell", "bad") : badge("not asked yet", ""), p.model && h("span", { class: "sub" }, ` ${p.model}`)), facts);
      }));
    };
    function paint(spend) {
      const none = { cost: 0, input_tokens: 0, output_tokens: 0, calls: 0, providers: {} };
      const now = spend.days.find((day) => day.day === spend.today) || none;
      const tokens = (day) => day.input_tokens + day.output_tokens;
      today.replaceChildren(h("div", { class: "value" }, money(now.cost)), h("div", { class: "sub" }, `${some(now.calls, "call", "calls")} on ${spend.today}`), h("div", { class: "bars gap" }, meter("cost", now.cost, spend.limits.cost_per_day, money), meter("tokens", tokens(now), spend.limits.tokens_per_day, short)));
      const most = Math.max(...spend.days.map((day) => day.cost), 0), mostTokens = Math.max(...spend.days.map(tokens), 1);
      const row = (day) => {
        const fill = h("div", { class: "fill" });
        fill.style.width = `${Math.max(1, most ? 100 * day.cost / most : 100 * tokens(day) / mostTokens)}%`;
        const who = Object.entries(day.providers).map(([name, one]) => `${name}: ${money(one.cost)}, ${some(one.calls, "call", "calls")}, ${count(tokens(one))} tokens`).join("\n");
        return [h("span", { title: who }, day.day), h("div", { class: "track", title: who }, fill), h("span", { class: "num" }, `${money(day.cost)} · ${short(tokens(day))} tokens`)];
      };
      recent.replaceChildren(spend.days.length ? h("div", { class: "bars" }, spend.days.slice(0, 14).map(row)) : h("div", { class: "empty" }, spend.whole ? [h("strong", null, "Nothing was spent"), "Calls of models that are billed show up here, day by day."] : "The log is being read."));
    }
    await live();
  }

  const routes = { overview, requests, request, summaries, summary, digests, digest, quarantine, providers, compaction, run };
  const parents = { request: "requests", summary: "summaries", digest: "digests", run: "compaction" };

  // The links stay the same elements: whoever stands on one with the keyboard goes on standing there.
  const links = VIEWS.map(([name, title]) => {
    const n = h("span", { class: "count" });
    return { name, n, link: h("a", { href: `#/${name}` }, title, n) };
  });
  document.getElementById("nav").append(...links.map(({ link }) => link));
  function nav(current) {
    const counts = status && { requests: status.requests.open, quarantine: status.quarantined };
    for (const { name, n, link } of links) {
      n.textContent = counts?.[name] ? short(counts[name]) : "";
      const here = name === (parents[current] || current);
      if (here === link.hasAttribute("aria-current")) continue;
      if (!here) { link.removeAttribute("aria-current"); continue; }
      link.setAttribute("aria-current", "page");
      const box = link.parentNode;
      box.scrollLeft = link.offsetLeft - box.offsetLeft - (box.clientWidth - link.offsetWidth) / 2;
    }
  }
  function fail(error) {
    show(h("div", { class: "error", role: "alert" }, error.message));
  }
  async function route() {
    const mine = ++turn;
    live = () => {};
    const [path, query] = (location.hash.replace(/^#\/?/, "") || "overview").split("?");
    const [name, ...rest] = path.split("/");
    nav(name);
    try {
      await (routes[name] || overview)(Object.fromEntries(new URLSearchParams(query || "")), decodeURIComponent(rest.join("/")));
    } catch (error) {
      if (mine === turn) fail(error);
    }
    document.body.dataset.ready = name;
  }
  async function poll() {
    const state = document.getElementById("state");
    try {
      status = await get("status");
      document.getElementById("home").textContent = `\u200e${status.home}`;
      const paused = status.paused.length > 0;
      state.textContent = paused ? `paused: ${status.paused.map(words).join(", ")}` : "live";
      state.className = `badge ${paused ? "warn" : "good"}`;
      nav((location.hash.replace(/^#\/?/, "") || "overview").split(/[/?]/)[0]);
      await live();
    } catch (error) {
      state.textContent = /^starting/.test(error.message) ? error.message : "no answer";
      state.className = "badge bad";
    }
    setTimeout(poll, POLL_MS);
  }
  addEventListener("hashchange", () => { route(); main.focus({ preventScroll: true }); scrollTo(0, 0); });
  get("status").then((first) => { status = first; }).catch(() => {}).then(route).then(poll);
})();
