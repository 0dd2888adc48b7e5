// Reading: the newest summaries, a day, a project, a search.
const DAY = new Intl.DateTimeFormat([], { weekday: "long", day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
const dayName = (day) => { const at = Date.parse(`${day}T00:00:00Z`); return Number.isNaN(at) ? day : DAY.format(at); };
const to = (view, parameters) => { const query = new URLSearchParams(Object.entries(parameters || {}).filter(([, v]) => v)); return `#/${view}${query.size ? `?${query}` : ""}`; };
const summaryLink = (id) => `#/summary/${encodeURIComponent(id)}`;
// Letters without accents and in lower case, each with its place in the text.
function folded(text) {
  let out = "";
  const places = [];
  for (let i = 0; i < text.length;) {
    const one = String.fromCodePoint(text.codePointAt(i));
    for (const letter of one.normalize("NFD").replace(/[\u0300-\u036f]/g, "").toLowerCase()) { out += letter; for (let k = 0; k < letter.length; k++) places.push(i); }
    i += one.length;
  }
  places.push(text.length);
  return { out, places };
}
// The text with the searched words standing out.
function lit(text, query) {
  const wanted = (query || "").split(/\s+/).filter(Boolean).map((word) => folded(word).out).filter(Boolean);
  if (!wanted.length) return text;
  const { out, places } = folded(text);
  const over = [];
  for (const word of wanted) for (let at = out.indexOf(word); at >= 0; at = out.indexOf(word, at + word.length)) over.push([places[at], places[at + word.length]]);
  over.sort((a, b) => a[0] - b[0]);
  const parts = [];
  let done = 0;
  for (const [from, end] of over) {
    if (from < done) continue;
    parts.push(text.slice(done, from), h("b", { class: "hit" }, text.slice(from, end)));
    done = end;
  }
  return [...parts, text.slice(done)];
}
// A person's name of a source: the file stands out, its folder does not.
function sourceName(name, query) {
  const cut = /^https?:/.test(name) ? -1 : name.lastIndexOf("/");
  return [cut > 0 && h("span", { class: "folder" }, lit(name.slice(0, cut + 1), query)), h("span", { class: "file" }, lit(name.slice(cut + 1), query))];
}
// A text without a date has no day of its own.
const undated = (item) => `undated, asked on ${dayName(item.day)}`;
// A title that says more than the name. Without a title of its own, a file has the last part of its path for one.
const ownTitle = (item) => item?.title && item.title !== item.name && !item.name.endsWith(`/${item.title}`);
function story(item, query) {
  const named = ownTitle(item) && !item.text.includes(item.title.slice(0, 40));
  return h("article", { class: "story" },
    h("h3", null, h("a", { href: summaryLink(item.summary_id), dir: "auto" }, sourceName(item.name, query))),
    named && h("p", { class: "title", dir: "auto" }, lit(item.title, query)),
    item.hit ? h("blockquote", { dir: "auto" }, lit(item.hit, query)) : h("div", { dir: "auto" }, markdown(item.text + (item.cut ? " …" : ""), null, asText)),
    h("div", { class: "chips" }, item.undated && chip(undated(item)), item.private && chip("private"), item.replaced_on && chip(`older version, replaced on ${item.replaced_on}`), item.project && h("a", { class: "badge info", href: to("read", { project: item.project }) }, item.project),
      item.model && chip(item.model), h("a", { class: "more", href: summaryLink(item.summary_id) }, item.cut ? "read on, with its sources" : "where it comes from")));
}
function searchBox(parameters) {
  const box = h("input", { type: "search", name: "q", placeholder: "Search your summaries", value: parameters.q || "", "aria-label": "Search your summaries", autocomplete: "off" });
  const go = (event) => { event.preventDefault(); location.hash = to("read", { ...parameters, q: box.value.trim() }); };
  box.addEventListener("search", () => { if (!box.value && parameters.q) location.hash = to("read", { ...parameters, q: "" }); });
  return h("form", { class: "tools", role: "search", onsubmit: go }, box, h("button", { class: "main", type: "submit" }, "Search"));
}
async function read(parameters) {
  const { q, day, project, flow, versions } = parameters;
  const list = h("div", { class: "stories" }), foot = h("div", { class: "foot", "aria-live": "polite" });
  const filters = [["day", day && dayName(day)], ["project", project], ["flow", flow], ["versions", versions && "all versions"], ["words", q && `“${q}”`]].filter(([, value]) => value);
  const heading = day ? dayName(day) : project || (q ? "Search" : "Newest");
  show(h("h1", null, heading), searchBox(parameters),
    filters.length > 0 && h("p", { class: "chips filters" }, filters.map(([name, value]) => h("a", { class: "badge", href: to("read", { ...parameters, [name === "words" ? "q" : name]: "" }), "aria-label": `without ${name} ${value}` }, `${value} ✕`))), list, foot);
  const mine = turn;
  let shown = 0, last = null, total = null;
  const said = h("span");
  const say = (after) => said.replaceChildren(after ? (total ? `${count(shown)} of ${total}` : `${some(shown, "summary", "summaries")}, and older ones`) : `${some(shown, "summary", "summaries")}, that is all`);
  // One answer looks only so far back: the search goes on until there is a page, or nothing is left.
  async function load(after) {
    for (let found = 0; ;) {
      const page = await get("newest", { q, day, project, flow, versions, after, limit: 20 - found });
      if (mine !== turn) return;
      for (const item of page.summaries) {
        if (item.day !== last && !day) list.append(h("h2", { class: "day" }, h("a", { href: to("read", { day: item.day }) }, dayName(item.day))));
        last = item.day;
        list.append(story(item, q));
      }
      found += page.summaries.length;
      shown += page.summaries.length;
      after = page.next;
      if (!after || found >= 20) break;
      foot.replaceChildren(h("span", null, `looking further back than ${after.slice(0, 10)}`));
    }
    if (!shown) { foot.replaceChildren(); return list.replaceChildren(nothing(filters.length > 0)); }
    say(after);
    foot.replaceChildren(said);
    if (!versions) foot.append(" ", h("a", { href: to("read", { ...parameters, versions: "all" }) }, "with older versions"));
    if (after) foot.append(h("button", { onclick: () => load(after).catch(fail) }, "Older"));
    return after;
  }
  // Whoever searches wants to know how many there are. They are counted behind the first page, as far back as a few answers look.
  async function countAll(after) {
    const first = after;
    let all = shown;
    for (let steps = 0; after && steps < 20; steps++) {
      const page = await get("newest", { q, day, project, flow, versions, after, limit: 100 });
      if (mine !== turn) return;
      all += page.summaries.length;
      after = page.next;
    }
    total = after ? `more than ${count(all)}` : count(all);
    // The reader may have gone on meanwhile.
    if (foot.querySelector("button")) say(first);
  }
  const rest = await load(null);
  if (rest && filters.length > 0) countAll(rest).catch(() => {});
}
function nothing(filtered) {
  if (filtered) return card(null, h("div", { class: "empty" }, h("strong", null, "No summary fits"), "Other words, or fewer filters, may find some."));
  return card(null, h("div", { class: "empty" }, h("strong", null, "No summary yet"), h("p", null, h("code", null, "summarizer add FOLDER"), token ? [" reads a folder, or ", h("a", { href: "#/ask" }, "paste a text or upload files"), "."] : [" reads a folder. Opened with ", h("code", null, "summarizer open"), ", this page takes a text, too."]),
    status?.requests.open > 0 && h("p", null, `${some(status.requests.open, "request is", "requests are")} open: their summaries appear here.`)));
}

async function days(parameters) {
  const box = h("div");
  show(h("h1", null, "Days"), card(null, box));
  let before = parameters.before;
  const most = { n: 1 };
  await paged(box, async () => {
    const page = await get("days", { before });
    const byDay = new Map();
    for (const one of page.days) byDay.set(one.day, (byDay.get(one.day) || 0) + (one.counts.produced || 0));
    before = page.next;
    const rows = [...byDay].filter(([, n]) => n > 0);
    most.n = Math.max(most.n, ...rows.map(([, n]) => n));
    return { rows, more: page.next !== null };
  }, ([day, n]) => {
    const fill = h("div", { class: "fill" });
    fill.style.width = `${Math.max(2, 100 * n / most.n)}%`;
    return h("a", { class: "item daily", href: to("read", { day }) }, h("span", { class: "title" }, dayName(day)), h("div", { class: "track" }, fill), h("span", { class: "num" }, some(n, "summary", "summaries")));
  }, [h("strong", null, "No day has a summary yet"), "Each day shows what came from it."]);
}

async function projects() {
  const box = h("div", { class: "grid tiles" }), foot = h("div", { class: "foot" });
  show(h("h1", null, "Projects"), box, foot);
  const mine = turn;
  const found = new Map();
  const paint = () => {
    const rows = [...found].filter(([name]) => name !== "").sort((a, b) => b[1].n - a[1].n);
    box.replaceChildren();
    add(box, rows.map(([name, one]) => h("a", { class: "card tile", href: to("read", { project: name }) }, h("div", { class: "value name" }, name), h("div", { class: "note" }, `${some(one.n, "summary", "summaries")}, newest ${one.newest}`))));
    const none = found.get("")?.n || 0;
    if (!rows.length) box.replaceChildren(card(null, h("div", { class: "empty" }, h("strong", null, "No project yet"), h("p", null, h("code", null, "summarizer add FOLDER --project NAME"), " files what it reads under a project."))));
    foot.replaceChildren(h("span", null, none > 0 ? `${some(none, "summary belongs", "summaries belong")} to no project` : ""));
  };
  async function load(after) {
    // A home with many years is counted in steps.
    for (let steps = 0; steps < 40; steps++) {
      const page = await get("projects", { after });
      if (mine !== turn) return;
      for (const one of page.projects) {
        const known = found.get(one.project || "");
        if (known) known.n += one.summaries; else found.set(one.project || "", { n: one.summaries, newest: one.newest });
      }
      paint();
      after = page.next;
      if (!after) return;
    }
    foot.replaceChildren(h("span", null, `counted back to ${after}`), h("button", { onclick: () => load(after).catch(fail) }, "Older"));
  }
  await load(null);
}

// One summary. Each sentence leads to its places in the sources: by click, tap, or Enter.
async function summary(parameters, id) {
  const e = await get("explain", { id });
  const item = e.shown;
  const texts = new Map(e.sources.filter((source) => typeof source.text === "string").map((source) => [source.id, source.text]));
  const view = h("div", { class: "grid summary-view" });
  let chosen = null, visit = 0;
  // On a narrow page the sources come up from below, beside the sentence that was chosen.
  function choose(n, from) {
    const places = n === null ? [] : [...view.querySelectorAll(".sources mark")].filter((mark) => mark.dataset.sentences.split(" ").includes(String(n)));
    visit = n !== null && n === chosen && places.length > 1 ? (visit + 1) % places.length : 0;
    chosen = n;
    view.classList.toggle("focused", n !== null);
    for (const mark of view.querySelectorAll("mark")) {
      const on = n !== null && mark.dataset.sentences.split(" ").includes(String(n));
      mark.classList.toggle("on", on);
      if (mark.classList.contains("sentence")) mark.setAttribute("aria-expanded", on);
    }
    where.replaceChildren();
    if (n === null) return where.append(HOW);
    const place = places[visit];
    where.append(places.length > 1 ? `place ${visit + 1} of ${places.length}` : "its place in the source");
    if (!place) return;
    const frame = place.closest(".source");
    frame.scrollTop += place.getBoundingClientRect().top - frame.getBoundingClientRect().top - frame.clientHeight / 3;
    const sheet = panel.querySelector(".sheet");
    sheet.scrollTop += frame.getBoundingClientRect().top - sheet.getBoundingClientRect().top - 30;
    if (from === "key") place.focus({ preventScroll: true });
  }
  const HOW = "Choose a sentence to see where it comes from";
  const where = h("span", { class: "sub", role: "status" }, HOW);
  // A heading has no place, and so has what a model wrote of its own: these are no buttons.
  const sentence = (piece, one, n) => one.spans.length === 0 ? h("mark", { class: "none", title: "no place of a source is recorded for this sentence" }, inline(piece, asText)) : h("mark", { class: `sentence s${n % 6}`, "data-sentences": n, tabindex: 0, role: "button", "aria-expanded": false, title: one.basis === "exact" ? "word for word from the source" : `${words(one.basis)}, ${Math.round(one.score * 100)} %`,
    onclick: () => { if (!String(getSelection())) choose(n); },
    onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(n, "key"); } } }, inline(piece, asText));
  // From a place back to the sentence that rests on it.
  const back = (n) => { const mark = view.querySelector(`.sentence[data-sentences="${n}"]`); if (mark) mark.focus(); };
  const sources = e.sources.map((source) => {
    const spans = e.sentences.flatMap((one, n) => one.spans.filter((at) => at.id === source.id).map((at) => ({ ...at, n })));
    const place = `${source.file}${source.line ? `:${source.line}` : ""}`;
    return h("div", null, e.sources.length > 1 && h("div", { class: "sub mono" }, place),
      texts.has(source.id) ? h("div", { class: "source", dir: "auto", tabindex: 0 }, marked(texts.get(source.id), spans)) : h("div", null, source.problem && h("p", { class: "error" }, source.problem),
        spans.map((at) => h("div", { class: "source" }, h("mark", { class: `s${at.n % 6}`, "data-sentences": at.n, tabindex: -1 }, at.quote)))));
  });
  const facts = h("dl");
  for (const [name, value] of [["days not published", e.selection?.missing_days && `${e.selection.missing_days.join(", ")}${e.selection.missing_days_count > e.selection.missing_days.length ? " …" : ""}`], ["stays on this machine", e.selection?.privacy?.local_only?.join(", ")], ["not published", e.selection?.privacy?.private?.join(", ")], ["from", item?.day && h("a", { href: to("read", { day: item.day }) }, item.undated ? undated(item) : dayName(item.day))], ["project", item?.project && h("a", { href: to("read", { project: item.project }) }, item.project)], ["written by", e.model_generated ? `${e.model.provider}, ${e.model.model_name}` : "the embedded extractor, word for word"], ["flow", e.flow.template_id],
    ["tokens", e.usage ? `${count(e.usage.input_tokens)} in, ${count(e.usage.output_tokens)} out` : null], ["request", h("a", { href: `#/request/${encodeURIComponent(e.request.request_id)}` }, e.request.request_id)], ["published", h("code", null, `${e.published.path}${e.published.line ? `:${e.published.line}` : ""}`)], ["prompt hash", h("code", null, (e.flow.prompt_hash || "").slice(0, 16))], ["record", `event ${e.record.seq}`]])
    if (value) add(facts, [h("dt", null, name), h("dd", null, value)]);
  const panel = h("section", { class: "card sources" }, h("h2", null, "Source ", where, h("button", { class: "close", "aria-label": "Close the source", onclick: () => { const n = chosen; choose(null); back(n); } }, "✕")),
    h("div", { class: "sheet" }, sources.length ? sources : h("span", { class: "sub" }, "No place of a source was recorded.")));
  view.addEventListener("keydown", (event) => { if (event.key === "Escape" && chosen !== null) { const n = chosen; choose(null); back(n); } });
  panel.addEventListener("click", (event) => {
    const mark = event.target.closest("mark");
    if (!mark || String(getSelection())) return;
    const n = Number(mark.dataset.sentences.split(" ")[0]);
    choose(n);
    back(n);
  });
  const text = item?.text ?? e.sentences.map((one) => one.text).join(" ");
  add(view, [h("div", { class: "grid" }, card(null, h("div", { class: "summary-text", dir: "auto" }, sentences(text, e.sentences, sentence))), card("How it was made", facts)), panel]);
  show(h("a", { class: "back", href: "#/read" }, "← Newest"), h("h1", { dir: "auto" }, sourceName(item?.name || e.title || e.summary_id), item?.private && h("span", { class: "badge" }, "private")), item?.replaced_by && h("p", { class: "lead" }, `Older version, replaced on ${item.replaced_on}. `, h("a", { href: summaryLink(item.replaced_by) }, "The summary in its place")), ownTitle(item) && h("p", { class: "lead", dir: "auto" }, item.title), view);
}
// The text of a summary as it is laid out, with its sentences as elements. Offsets are in bytes of UTF-8.
function sentences(text, all, made) {
  const coder = new TextEncoder(), reader = new TextDecoder(), bytes = coder.encode(text);
  const placed = all.map((one, n) => ({ one, n })).filter(({ one }) => typeof one.start === "number" && one.end <= bytes.length).sort((a, b) => a.one.start - b.one.start);
  const out = [];
  let from = 0, list = null, words = null;
  for (const line of text.split("\n")) {
    const end = from + coder.encode(line).length, parts = [];
    let at = from;
    for (const { one, n } of placed) {
      const start = Math.max(one.start, at), stop = Math.min(one.end, end);
      if (start >= stop) continue;
      parts.push({ text: reader.decode(bytes.subarray(at, start)) }, { text: reader.decode(bytes.subarray(start, stop)), one, n });
      at = stop;
    }
    parts.push({ text: reader.decode(bytes.subarray(at, end)) });
    from = end + 1;
    const head = /^\s*(#{1,6})\s+/.exec(line), point = /^\s*(?:[-*]|\d+[.)])\s+/.exec(line);
    // The sign that makes a line a heading or a point is not a part of its words.
    let sign = (head || point || [""])[0].length;
    const nodes = parts.map((part) => {
      const piece = part.text.slice(Math.min(sign, part.text.length));
      sign = Math.max(0, sign - part.text.length);
      const isPlain = head && !part.one?.spans.length;
      return piece.trim() && part.one && !isPlain ? made(piece, part.one, part.n) : inline(piece, asText);
    });
    if (!line.trim()) { list = words = null; continue; }
    if (head) { out.push(h("h3", null, nodes)); list = words = null; } else if (point) { if (!list) out.push(list = h("ul")); list.append(h("li", null, nodes)); words = null; } else if (words) { add(words, [" ", nodes]); } else { out.push(words = h("p", null, nodes)); list = null; }
  }
  return out;
}
// Offsets are in bytes of UTF-8.
function marked(text, spans) {
  const all = new TextEncoder().encode(text), read = new TextDecoder();
  const edges = [...new Set([0, all.length, ...spans.flatMap((at) => [at.start, at.end])])].filter((at) => at >= 0 && at <= all.length).sort((a, b) => a - b);
  return edges.slice(0, -1).map((from, i) => {
    const to = edges[i + 1], piece = read.decode(all.subarray(from, to));
    const over = [...new Set(spans.filter((at) => at.start <= from && at.end >= to).map((at) => at.n))];
    return over.length ? h("mark", { class: `s${over[0] % 6}`, "data-sentences": over.join(" "), tabindex: -1 }, piece) : piece;
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
    foot.replaceChildren(h("span", null, page.total === undefined ? "" : `${count(shown)} of ${count(page.total)}`));
    if (page.more ?? (shown < page.total && page.rows.length)) foot.append(h("button", { onclick: () => load().catch(fail) }, "More"));
  }
  await load();
}
const spanOf = (window) => window.start_day ? (window.start_day === window.end_day ? window.start_day : `${window.start_day} to ${window.end_day}`) : "everything";

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
    h("p", null, bag.problem || `${spanOf(bag)} · ${some(bag.items, "summary", "summaries")} · ${some(bag.memos, "memo", "memos")}`),
    h("div", { class: "chips" }, chip(bag.bag_type, "info"), chip(bag.selector_id), bag.group && h("span", { class: "sub mono" }, bag.group))),
  first.all ? [h("strong", null, "No bag is like that"), "Another search or kind may find some."] : [h("strong", null, "No digest is built yet"), "A service builds them by itself; summarizer digest build does it now."]);
}

async function digest(parameters, id) {
  const bag = await get("bag", { id, memo: parameters.memo });
  const at = (slug) => `#/digest/${encodeURIComponent(id)}?${new URLSearchParams({ memo: slug })}`;
  const tabs = bag.memos.length > 1 && h("nav", { class: "tabs", "aria-label": "Memos" }, bag.memos.map((memo) => h("a", { href: at(memo.slug), "aria-current": memo.slug === bag.memo?.slug ? "page" : null }, memo.title === bag.title ? "Digest" : memo.title)));
  const dropped = Object.entries(bag.coverage?.drop_reasons || {}).map(([why, n]) => `${words(why)} ${count(n)}`).join(", ");
  const facts = h("dl");
  for (const [name, value] of [["window", [bag.window.label, h("div", { class: "sub" }, spanOf(bag.window) === bag.window.label ? bag.window.tz : `${spanOf(bag.window)}, ${bag.window.tz}`)]], ["selector", `${bag.selector.selector_id}, version ${bag.selector.selector_version}`], ["group", bag.group?.key || bag.group],
    ["summaries", `${count(bag.counts.selected)} of ${count(bag.counts.candidate)} candidates`], ["dropped", dropped], ["built", moment(bag.created_at)], ["bag", h("code", null, bag.bag_id)]])
    if (value) add(facts, [h("dt", null, name), h("dd", null, typeof value === "object" && !Array.isArray(value) && !(value instanceof Node) ? JSON.stringify(value) : value)]);
  const items = h("ul", { class: "plain tall" }, bag.summaries.map((one) => h("li", null, h("a", { class: "mono", href: `#/summary/${encodeURIComponent(one)}` }, one))));
  show(h("a", { class: "back", href: "#/digests" }, "← Digests"), h("h1", null, bag.title, " ", badge(bag.bag_type, "info"), bag.memo?.private && h("span", { class: "badge" }, "private")), bag.description && h("p", { class: "lead" }, bag.description),
    h("div", { class: "grid reading" }, card(null, tabs, bag.memo ? markdown(bag.memo.text, bag.title) : h("div", { class: "empty" }, "It has no memo.")),
      h("div", { class: "grid" }, card("The bag", facts), card(h("span", null, "Its summaries ", bag.summaries_total > bag.summaries.length && h("span", { class: "sub" }, `the first ${count(bag.summaries.length)} of ${count(bag.summaries_total)}`)), items))));
}

// As much of Markdown as memos and narratives use, made of elements. Only links to summaries of
// this page lead anywhere; every other one is shown, not followed.
const SUMMARY = /^#(sum_[0-9a-f]{32})$/;
function inline(line, show = plain) {
  const piece = /(\*\*(?:\\.|[^\\])+?\*\*|`[^`]+`|\[(?:\\.|[^\]\\])*\]\([^)]*\))/;
  return line.replace(/<a id="[^"]*"><\/a>/g, "").split(piece).map((part) => {
    if (part.startsWith("**") && part.length > 4) return h("strong", null, inline(part.slice(2, -2), show));
    if (part.startsWith("`") && part.length > 2) return h("code", null, part.slice(1, -1));
    const link = /^\[((?:\\.|[^\]\\])*)\]\(([^)]*)\)$/.exec(part);
    if (link) {
      const to = SUMMARY.exec(link[2]) || SUMMARY.exec(`#${link[1]}`);
      return to ? h("a", { href: `#/summary/${to[1]}` }, show(link[1])) : h("span", { title: link[2] }, show(link[1]));
    }
    return show(part);
  });
}
const plain = (text) => text.replace(/\\([!-/:-@[-`{-~])/g, "$1").replace(/&(lt|gt|amp|quot);/g, (_, name) => ({ lt: "<", gt: ">", amp: "&", quot: "\"" })[name]);
// A summary is no Markdown: its backslashes and its entities are text. A memo has them as marks.
const asText = (text) => text;
function markdown(text, title, show = plain) {
  const out = h("div", { class: "md" });
  const lines = text.split("\n");
  const front = lines[0] === "---" ? lines.indexOf("---", 1) : -1;
  let list = null, fence = null;
  for (const line of lines.slice(front + 1)) {
    if (line.startsWith("```")) { fence = fence ? null : out.appendChild(h("pre")); list = null; continue; }
    if (fence) { fence.append(`${line}\n`); continue; }
    if (/^<\/?details>$/.test(line.trim())) continue;
    const folded = /^<summary>(.*)<\/summary>$/.exec(line.trim());
    if (folded) { out.append(h("p", { class: "sub" }, inline(folded[1], show))); list = null; continue; }
    const head = /^(#{1,4}) (.*)/.exec(line), point = /^(\s*)(?:[-*]|\d+\.) (.*)/.exec(line);
    if (point) { list ||= out.appendChild(h("ul")); list.append(h("li", { class: point[1] ? "deeper" : null }, inline(point[2], show))); continue; }
    if (list && /^\s+\S/.test(line)) { list.lastChild.append(" ", ...inline(line.trim(), show)); continue; }
    list = null;
    if (head && !out.firstChild && plain(head[2]) === title) continue;
    if (head) out.append(h(`h${Math.min(4, head[1].length)}`, null, inline(head[2], show)));
    else if (line.startsWith(">")) out.append(h("blockquote", null, inline(line.slice(1), show)));
    else if (line.trim()) out.append(h("p", null, inline(line, show)));
  }
  return out;
}
