async function requests(parameters) {
  const search = h("input", { type: "search", placeholder: "Search source, id, flow, reason", value: parameters.q || "", "aria-label": "Search" });
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
    if (!shown++) box.replaceChildren(h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, ["Source", "State", "Why", "Request", "Flow", "From", "Tries", "Taken in"].map((name, i) => h("th", { class: i === 6 ? "num wide" : i > 2 && i < 6 ? "wide" : "" }, name)))), body)), foot);
    const to = `#/request/${encodeURIComponent(row.request_id)}`;
    body.append(h("tr", { class: "link", onclick: () => { location.hash = to; } },
      h("td", null, h("a", { href: to }, row.source || row.input || row.request_id)), h("td", null, badge(row.state)), h("td", null, row.waits ? [words(row.waits.for), row.cause && row.waits.for !== "paused" ? ": " + words(row.cause) : "", row.waits.next && h("div", { class: "sub", title: moment(row.waits.next) }, `next: ${moment(row.waits.next)}`)] : row.reason_code ? words(row.reason_code) + (row.cause ? ": " + words(row.cause) : "") : ""),
      h("td", { class: "wide" }, h("span", { class: "id" }, row.request_id)), h("td", { class: "wide" }, row.flow_id), h("td", { class: "wide" }, row.repo), h("td", { class: "num wide" }, count(row.attempts)), h("td", { class: "time", title: moment(row.taken_at) }, when(row.taken_at))));
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
  for (const [name, value] of [["source", latest.source], ["waits", latest.waits && latest.waits.message], ["days not published", latest.missing_days && latest.missing_days.message], ["flow", r.flow_id + (r.variant ? `@${r.variant}` : "")], ["from", r.repo], ["taken in", moment(latest.taken_at)], ["queue", `line ${r.line}, byte ${r.offset}`],
    ["key", h("code", null, r.idempotency_key)], ["tries", count(latest.attempts)], ["trace", latest.trace_id && h("code", null, latest.trace_id)], ["reason", latest.reason_code ? words(latest.reason_code) + (latest.cause ? ": " + words(latest.cause) : "") : null], ["earlier", shown.earlier?.length ? some(shown.earlier.length, "earlier acceptance", "earlier acceptances") : null]])
    if (value) add(facts, [h("dt", null, name), h("dd", null, value)]);
  const open = ["ready", "running", "delayed", "scheduled", "backoff", "held", "parked", "waiting"].includes(latest.state);
  const again = () => { setTimeout(() => { if (mine === turn) request(parameters, id).catch(fail); }, 700); };
  const mine = turn;
  const acts = token && h("div", { class: "tools" }, latest.state !== "completed" && latest.state !== "running" && actor(open ? "Try now" : "Try again", "", async () => { const done = await act("retry", { id: r.request_id }); again(); return done; }),
    open && actor("Cancel", "danger", async () => { const done = await act("cancel", { id: r.request_id }); again(); return done; }));
  show(h("a", { class: "back", href: "#/requests" }, "← Requests"), h("h1", null, r.request_id, " ", badge(latest.state)), acts,
    produced && h("p", null, h("a", { href: `#/summary/${encodeURIComponent(produced.summary_id)}` }, "Read the summary and where it comes from →")),
    h("div", { class: "grid two" }, card("What happened", timeline), h("div", { class: "grid" }, card("The request", facts), card(null, h("details", null, h("summary", null, "the line as it was appended"), h("pre", null, JSON.stringify(r.record, null, 2)))))));
}

async function compaction() {
  const limits = status?.limits || {}, told = status?.compaction || {};
  const facts = h("dl");
  const newest = told.latest && h("a", { href: `#/run/${encodeURIComponent(told.latest.run_id)}?sequence=${told.latest.sequence}` }, `${told.latest.run_id}, snapshot ${told.latest.sequence}`);
  for (const [name, value] of [["a run is folded after", `${count(limits.event_threshold)} counted events, or ${some(limits.step_fallback, "step", "steps")}`], ["the service's own session", `${count(limits.service_event_threshold)} counted events, or ${some(limits.service_step_fallback, "step", "steps")}`],
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
    token ? correction(line) : h("p", { class: "sub" }, "Save it, correct it and send it again: ", h("code", null, `summarizer quarantine release ${line.seq} FILE`))),
  [h("strong", null, "Nothing is in quarantine"), "Lines that are no requests are set aside here, with everything that is wrong with them."], "grid");
}

// A corrected line, sent in the place of a quarantined one.
function correction(line) {
  const edit = h("textarea", { rows: 6, spellcheck: "false", "aria-label": `The corrected line ${line.line}` });
  edit.value = line.cut ? "" : line.raw ?? "";
  return h("details", { class: "gap" }, h("summary", null, "Correct it and send it again"), edit, actor("Send the corrected line", "main", async () => {
    const done = await act("release", { seq: line.seq }, edit.value);
    return { done: `sent as ${done.request_id}` };
  }));
}

// Asking: a text that is pasted, or files.
async function ask() {
  if (!token) return show(h("h1", null, "Ask"), card(null, needsToken()));
  const text = h("textarea", { rows: 12, placeholder: "Paste a text, a mail, meeting notes …", "aria-label": "The text", dir: "auto" });
  const name = h("input", { type: "text", placeholder: "Name (optional)", "aria-label": "Name of the text", maxlength: 100 });
  const project = h("input", { type: "text", placeholder: "Project (optional)", "aria-label": "Project", maxlength: 100 });
  const files = h("input", { type: "file", multiple: true, "aria-label": "Files" });
  const list = h("ul", { class: "plain asked", "aria-live": "polite" });
  const drop = h("label", { class: "drop" }, h("strong", null, "Drop files here"), h("span", { class: "sub" }, "or choose them: text, Markdown, PDF, docx, mail, chat exports … up to 16 MiB each"), files);
  const open = new Map();
  // What the pasted text is called: as its person says, or as it begins.
  const called = () => `${(name.value.trim() || text.value.trim().split(/\s+/).slice(0, 6).join(" ").replace(/[^\p{L}\p{N} _-]/gu, "").trim() || "pasted").slice(0, 60)}${/\.\w{1,5}$/.test(name.value.trim()) ? "" : ".txt"}`;
  async function give(title, body) {
    const line = h("li", null, h("strong", null, title), " ", badge("sending", "info"));
    list.prepend(line);
    try {
      const done = await act("ask", { name: title, project: project.value.trim() }, body);
      line.replaceChildren();
      add(line, done.requests.map((one) => { const row = h("div", null, h("strong", null, one.name), " ", badge("asked", "info")); open.set(one.request_id, row); return row; }));
    } catch (error) { line.replaceChildren(); add(line, [h("strong", null, title), " ", h("span", { class: "said bad" }, error.message)]); }
  }
  const send = async () => { if (!text.value.trim()) throw new Error("the text is empty"); await give(called(), text.value); text.value = name.value = ""; return { done: "asked" }; };
  files.addEventListener("change", async () => { for (const file of files.files) await give(file.name, file); files.value = ""; });
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", async (event) => { event.preventDefault(); drop.classList.remove("over"); for (const file of [...event.dataTransfer.files]) await give(file.name, file); });
  show(h("h1", null, "Ask for a summary"), h("div", { class: "grid two" }, card("A text", text, h("div", { class: "tools gap" }, name, project), actor("Summarize", "main", send)), h("div", { class: "grid" }, card("Files", drop), card("Asked here", list))));
  live = async () => {
    for (const [id, row] of [...open].slice(0, 20)) {
      const shown = await get("request", { id }).catch(() => null);
      if (!shown) continue;
      const made = shown.latest.acks.map((ack) => ack.summary).filter(Boolean).at(-1);
      const state = shown.latest.state;
      row.lastChild.remove();
      row.append(made ? h("a", { href: summaryLink(made.summary_id) }, "read it →") : h("span", null, badge(state), shown.latest.waits && h("span", { class: "sub" }, ` ${shown.latest.waits.message}`)));
      if (made || ["good", "bad"].includes(tone(state))) open.delete(id);
    }
  };
}

// Batches under way, then the newest that ended. An answer of a batch costs half the price.
function batches() {
  const open = status?.batches || [], ended = status?.finished_batches;
  if (!open.length && !ended) return [];
  const row = (batch, state, tone, questions) => h("tr", null,
    h("td", null, h("code", null, batch.server_id || batch.batch), batch.message && h("div", { class: "sub" }, batch.message)), h("td", { class: "wide" }, `${batch.provider} ${batch.model}`), h("td", null, badge(state, tone)),
    h("td", { class: "num" }, questions), h("td", { class: "time", title: moment(batch.prepared_at) }, span(batch.waited_ms)), h("td", { class: "num wide" }, batch.cost ? money(batch.cost) : "–"), h("td", { class: "num wide" }, batch.saved ? money(batch.saved) : "–"));
  const rows = open.map((batch) => row(batch, batch.server_id ? "at the server" : "being sent", "info", `${count(batch.answered)} of ${count(batch.answered + batch.questions)}`));
  for (const batch of ended?.recent || []) rows.push(row(batch, batch.end, batch.end === "completed" ? "good" : "warn", `${count(batch.answered)} of ${count(batch.questions)}`));
  const sums = ended ? `${some(ended.batches, "batch", "batches")} ended, ${some(ended.answered, "answer", "answers")}, ${money(ended.saved)} saved` : `${some(open.length, "batch", "batches")} under way`;
  return [h("h2", { class: "between" }, "Batches ", h("span", { class: "sub" }, sums)), card(null, h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null,
    ["Batch", "Provider", "State", "Answered", "Wait", "Cost", "Saved"].map((name, i) => h("th", { class: i === 3 ? "num" : i > 4 ? "num wide" : i === 1 ? "wide" : "" }, name)))), h("tbody", null, rows))))];
}

async function providers() {
  const today = h("div"), recent = h("div"), box = h("div", { class: "grid two" }), sent = h("div");
  show(h("h1", null, "Providers"), h("div", { class: "grid two" }, card("Spend today", today), card(h("span", null, "Recent days ", h("span", { class: "sub" }, "from the log")), recent)), h("h2", { class: "between" }, "Health ", h("span", { class: "sub" }, "since the service started")), box, sent);
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
    sent.replaceChildren();
    add(sent, batches());
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
