const POLL_MS = 2000;
const POINTS_MAX = 1800;
const PAGE = 50;
const main = document.getElementById("main");
let status = null;
let turn = 0;
let live = () => {};

// Elements. Text is only ever text, and turns no writing around.
const STEERING = /[\u202a-\u202e\u2066-\u2069]|[\u{e0000}-\u{e007f}]/gu;
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
    el.append(child instanceof Node ? child : document.createTextNode(String(child).replace(STEERING, "")));
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
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`/api/${path}${query.size ? `?${query}` : ""}`, { cache: "no-store", headers });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error || `the service answered ${answer.status}`);
  return value;
}

// The token that `summarizer open` puts into the link. It stays in this tab and is never shown.
let token = null;
try { token = sessionStorage.getItem("token"); } catch { /* a browser that keeps nothing */ }
function keep(value) {
  token = value;
  try { if (value) sessionStorage.setItem("token", value); else sessionStorage.removeItem("token"); } catch { /* the same */ }
  document.body.classList.toggle("may-act", !!value);
}
async function act(name, parameters, body) {
  const query = new URLSearchParams(Object.entries(parameters || {}).filter(([, v]) => v !== null && v !== undefined && v !== ""));
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/octet-stream" };
  const answer = await fetch(`/api/do/${name}${query.size ? `?${query}` : ""}`, { method: "POST", headers, body: body ?? "" });
  const value = await answer.json();
  if (answer.status === 401) keep(null);
  if (!answer.ok) throw new Error(value.error || `the service answered ${answer.status}`);
  return value;
}
// A button that acts; what came of it is said beside it.
function actor(label, kind, run) {
  const said = h("span", { class: "said", role: "status" });
  const button = h("button", { class: kind, onclick: async () => {
    button.disabled = true;
    said.className = "said";
    said.textContent = "…";
    try { said.textContent = words((await run()).done); } catch (error) { said.textContent = error.message; said.classList.add("bad"); }
    button.disabled = false;
  } }, label);
  return h("span", { class: "actor" }, button, said);
}
const needsToken = () => h("p", { class: "sub" }, "To act on this page, open it with ", h("code", null, "summarizer open"), ": the link holds the token.");
